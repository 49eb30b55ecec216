"""What a cycle's summary and the status page say beside the verdicts: counts, and notices.

A notice is about what only a person can end: slots that no rule frees, and far more records than
the pool needs. Nothing goes wrong at once when it is left, so it is logged again and again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from nodemanager.core.judge.node_view import BAD, OUTSIDE, NodeView
from nodemanager.core.model.annotations import of_node
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import CLOCK_STEP_S, Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record, WorkerState
from nodemanager.core.observe.signs import age_of
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.slots import Leak


def place_of(view: NodeView) -> str | None:
    """What the node does, the name it is counted under; None for a node that is only seen."""
    return _place(view.verdict.reason, view.state, view.record is None)


def _place(reason: Reason, state: WorkerState, unpaired: bool) -> str | None:
    if reason in OUTSIDE:
        return None
    if reason is Reason.SHUTTING_DOWN:
        return "shutdown"
    if reason is Reason.BOOTING:
        return "booting"
    return "unpaired" if unpaired else state.value


def unlisted(pending: Collection[str], snapshot: Snapshot) -> Iterator[Record]:
    """The `pending` records whose node was heard: it is no boot, but no listing shows it now."""
    if pending:
        for record in snapshot.history.listed_records:
            if record.uuid in pending and record.last_ping_at is not None:
                yield record


def cycle_counts(
    views: list[NodeView], verdicts: list[Verdict], pending: set[str], snapshot: Snapshot
) -> dict[str, int]:
    """Nodes by what they do, and records, by name in the summary.

    `pending` are the records of nodes that no listing shows, or not yet.
    """
    counts: defaultdict[str, int] = defaultdict(int)
    kinds = Counter([(view.verdict.reason, view.state, view.record is None) for view in views])
    for (reason, state, unpaired), count in kinds.items():
        place = _place(reason, state, unpaired)
        if place is None:
            continue
        counts["nodes"] += count
        counts[f"nodes_{place}"] += count
        counts["nodes_paired"] += 0 if unpaired else count
        counts["nodes_bad"] += count if reason in BAD else 0
    kills = snapshot.kills
    leaving = [
        view for view in views if view.leaves or (kills and of_node(kills, view.node) is not None)
    ]
    if leaving:
        there = [view for view in leaving if view.verdict.reason not in OUTSIDE]
        counts["nodes_draining"] = len(there)
    counts["nodes_unlisted"] = sum(1 for _ in unlisted(pending, snapshot))
    coming = len(pending) - counts["nodes_unlisted"]
    counts["nodes_booting"] += coming + len(snapshot.boots_unclaimed)
    counts["records"] = len(verdicts)
    return dict(counts)


def made_since(views: Iterable[NodeView], snapshot: Snapshot, at: float) -> frozenset[str]:
    """The nodes that the cloud launched after `at`, CLOCK_BOOTTIME seconds.

    A launch counts from a minute before, since the cloud's clock may be off by that (A3). A node of
    unknown age was made before.
    """
    passed_s = snapshot.now - at + CLOCK_STEP_S
    return frozenset(
        view.node.id
        for view in views
        if (age_s := age_of(view.node, view.record, snapshot)) is not None and age_s < passed_s
    )


UNUSED_LIMIT = 100
"""A pool may have this many unused records more than `max_nodes`, the most that it can use."""

PRUNE = "set [Cleaning] prune_after = 7d, then nodemanager reload: it deletes them"
PRUNE_BY_HAND = "doc/arvados says how to delete them: this store can't do so on a condition"


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that a person should end, and how (`clear`).

    `count` slots or records are concerned. `slots` are the slots' numbers; `limit` is what a number
    of records is compared with.
    """

    event: Event
    reason: Reason
    count: int
    clear: str
    slots: tuple[int, ...] = ()
    limit: int | None = None


def notices(
    records: Sequence[Record],
    verdicts: Sequence[Verdict],
    leaks: Iterable[Leak],
    settings: Settings,
) -> tuple[Notice, ...]:
    """All that a person should end now; `verdicts` are those of `records`, in the same order."""
    return *_stuck(records, leaks), *_unused(records, verdicts, settings)


def _stuck(records: Sequence[Record], leaks: Iterable[Leak]) -> Iterator[Notice]:
    for leak in leaks:
        if leak.cause.row.frees:
            stuck = frozenset(leak.records)
            slots = [one.slot_number for one in records if one.uuid in stuck]
            held = tuple(sorted(slot for slot in slots if slot is not None))
            clear = leak.cause.row.frees
            yield Notice(Event.SLOTS_STUCK, leak.cause, leak.count, clear, slots=held)


def _unused(
    records: Sequence[Record], verdicts: Sequence[Verdict], settings: Settings
) -> Iterator[Notice]:
    """A record for each node that may be, and some; those beyond that only make listings slow."""
    prunes = settings.prune_after is not None and settings.compare_and_set
    if prunes or settings.seats:
        return
    limit, unused = settings.max_nodes, Reason.HOLDS_NOTHING
    count = sum([verdict.reason is unused for verdict in verdicts])
    if count > limit + UNUSED_LIMIT:
        clear = PRUNE if settings.compare_and_set else PRUNE_BY_HAND
        yield Notice(Event.RECORDS_SURPLUS, Reason.UNUSED_RECORDS, count, clear, limit=limit)
