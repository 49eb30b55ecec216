"""What only a person can end: slots that no rule frees, and far more records than the pool needs.

Nothing goes wrong at once when it is left, so it is told as a notice, again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.plan.slots import Leak

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
