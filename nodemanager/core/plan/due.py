"""Which records are freed or deleted in this cycle, and which wait (SAFETY.md C10, S5).

Records that may be freed wait for the cycle's cap and their turn, or are held back as backlog. A
fence that was left on a record is lifted at once (C12).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.core.judge import false_clean
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.judge.records import RecordJudge, is_touched
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import CLEANS_EACH, ORDER_TTL_S, Settings
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import Record
from nodemanager.core.observe.evidence import Impossible, of_one_slot
from nodemanager.core.observe.pools import not_ours
from nodemanager.core.observe.signs import quiet_for, trusted_clock
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.observe.unlisted import Unlisted
from nodemanager.core.safety.orders import NEVER, CleanOrder, order_clean
from nodemanager.core.safety.rate_limits import name_of

# Which cleaned records are more than the pool will ever need; `execute.prune` deletes them.


@dataclass(frozen=True, slots=True)
class PruneOrder:
    """One record to delete, at the version that was judged; `not_after` is CLOCK_BOOTTIME (C11)."""

    uuid: str
    reason: Reason
    plan_id: str
    breaker_generation: int
    not_after: float
    version: str
    measures: Mapping[str, Any] = field(default_factory=dict)


def prune_orders(
    snapshot: Snapshot, settings: Settings, kept: Iterable[str], room: int
) -> tuple[PruneOrder, ...]:
    """The deletions that the snapshot calls for: at most `room`, and no uuid of `kept`."""
    history = snapshot.history
    if settings.prune_after is None or not settings.compare_and_set or room <= 0:
        return ()
    if standing_block(snapshot, settings) is not None:
        return ()
    if trusted_clock(snapshot, settings) is None:
        return ()
    ours = _counted(snapshot, settings)
    surplus = len(ours) - settings.max_nodes
    if surplus <= 0:
        return ()
    spoken_for = {*kept, *may_come_back(snapshot), *(node.tags.record for node in history.partial)}
    unused = (one for one in ours if one.uuid not in spoken_for and _is_unused(one, snapshot))
    quiet = ((quiet_for(one, snapshot) or 0.0, one) for one in unused)
    old = [(clean_s, one) for clean_s, one in quiet if clean_s > settings.prune_after]
    old.sort(key=lambda one: (-one[0], one[1].uuid))
    return tuple(
        PruneOrder(
            uuid=record.uuid,
            reason=Reason.SURPLUS,
            plan_id=snapshot.plan_id,
            breaker_generation=snapshot.breaker.generation,
            not_after=snapshot.now + ORDER_TTL_S,
            version=record.version,
            measures={
                "idle_s": clean_s,
                "window_s": settings.prune_after,
                "count": len(ours),
                "limit": settings.max_nodes,
            },
        )
        for clean_s, record in old[: min(surplus, room)]
    )


def _counted(snapshot: Snapshot, settings: Settings) -> list[Record]:
    """The records of the pool that count against `max_nodes`; empty without a listing."""
    return [
        one
        for one in snapshot.history.listed_records
        if not one.problems
        and not_ours(one, settings.pool, settings.adopt_unclaimed) is None
        and not _is_being_deleted(one, snapshot)
    ]


def _is_being_deleted(record: Record, snapshot: Snapshot) -> bool:
    """Whether we delete it, or may have since the listing: then it does not count as there."""
    flight = snapshot.record_flights.get(record.uuid)
    if flight is not None:
        return flight.kind == "prune"
    return not record.holds_anything and record.uuid in snapshot.touched


def _is_unused(record: Record, snapshot: Snapshot) -> bool:
    """Whether no hold, action or node needs the record, and all listings show this version."""
    uuid, history = record.uuid, snapshot.history
    if record.holds_anything or record.held or record.fenced:
        return False
    if uuid in snapshot.holds or uuid in snapshot.record_flights or uuid in snapshot.touched:
        return False
    if uuid in history.nodes_by_record or uuid in history.twice or uuid in snapshot.expected:
        return False
    unseen = history.partially_listed.get(uuid, record.version) == record.version
    return unseen and history.base_index.get(uuid) == record.version and uuid not in history.vetoed


def may_come_back(snapshot: Snapshot) -> set[str]:
    """Uuids of records freed within the last week: a false clean is undone on that record (U8)."""
    return {
        *(life.record for life in snapshot.history.freed.values()),
        *(life.record for life in false_clean.open_lives(snapshot.breaker)),
    }


Judged = tuple[list[Verdict], tuple[CleanOrder, ...], int, frozenset[str]]
"""The verdicts, the cleans, how many records the cap defers, and the names of the backlog."""


def judge_records(judge: RecordJudge, impossible: Impossible) -> Judged:
    """A verdict for each record; the cycle's cap defers those whose turn comes late (C10).

    An operator's orders come first, and then claims that nobody pinged, because each also takes a
    node's place under max_nodes (U6); of one kind the longest quiet come first. Records whose clean
    came to nothing lately come last.
    """
    snapshot, settings = judge.snapshot, judge.settings
    verdicts: list[Verdict] = []
    due: list[DueClean] = []
    calls_for_clean = Kind.CLEAN
    for record in snapshot.history.listed_records:
        if impossible.ids and record.uuid in impossible.ids:
            shown = of_one_slot(impossible.sharing.get(record.uuid, ()))
            verdicts.append(keep(record.uuid, Reason.IMPOSSIBLE, **shown))
            continue
        verdict = judge.judge(record)
        if verdict.kind is calls_for_clean:
            quiet_s = verdict.measures["idle_s"] if verdict.measures else 0.0
            is_slot_only = verdict.reason is not Reason.CLAIM_EXPIRED
            turn = (snapshot.skipped.get(record.uuid, 0.0), is_slot_only, -float(quiet_s))
            if record.uuid in snapshot.by_hand:
                turn = (float("-inf"), *turn[1:])
            due.append((turn, record.uuid, len(verdicts), record))
        verdicts.append(verdict)
    due.sort(key=lambda entry: entry[:2])
    backlog = _backlog(due, snapshot, settings)
    if backlog:
        due = _hold_back(backlog, due, verdicts, snapshot)
    room, limit = _room(snapshot, settings)
    taken = _taken(snapshot)
    for _, uuid, index, _ in due[room:]:
        measures = {**(verdicts[index].measures or {}), "limit": limit}
        verdicts[index] = Verdict(Kind.DEFER, Reason.CAP_REACHED, uuid, measures)
    cleans = tuple(
        order_clean(record, verdicts[index], snapshot, settings, place)
        for place, (_, _, index, record) in enumerate(due[:room], taken)
    )
    return verdicts, cleans, len(due[room:]), backlog


DueClean = tuple[tuple[float, bool, float], str, int, Record]
"""Turn (lowest first), uuid, place in the verdicts, record."""


def _backlog(due: list[DueClean], snapshot: Snapshot, settings: Settings) -> frozenset[str]:
    """The names held back as backlog (S5): all that are due, where a first plan has too many."""
    if not settings.hold_backlog:
        return frozenset()
    if snapshot.first_clean and len(due) > settings.max_cleans_per_cycle:
        return frozenset(name_of(record) for _, _, _, record in due)
    return snapshot.backlog - snapshot.let_go


def _hold_back(
    backlog: frozenset[str], due: list[DueClean], verdicts: list[Verdict], snapshot: Snapshot
) -> list[DueClean]:
    """Make the backlog's verdicts KEEP; return the rest, with what an operator forces past S5."""
    forced = {uuid for uuid, hand in snapshot.by_hand.items() if "S5" in hand.forced}
    left = []
    for entry in due:
        _, uuid, index, record = entry
        if uuid in forced or name_of(record) not in backlog:
            left.append(entry)
            continue
        cause = verdicts[index].reason.value
        measures = {**(verdicts[index].measures or {}), "cause": cause}
        verdicts[index] = Verdict(Kind.KEEP, Reason.BACKLOG_HELD, uuid, measures)
    return left


def _room(snapshot: Snapshot, settings: Settings) -> tuple[int, int]:
    """How many more cleans may be ordered, and the limit that says so.

    It is the cycle's cap (C10), or what the workers can do while an order stands (C11).
    """
    cap, at_once = settings.max_cleans_per_cycle, CLEANS_EACH * settings.max_creates
    capped, in_time = cap - _taken(snapshot), at_once - _under_way(snapshot)
    return (max(0, capped), cap) if capped <= in_time else (max(0, in_time), at_once)


def _taken(snapshot: Snapshot) -> int:
    """How much of the cycle's cap is used: cleans and prunes that ended lately or are in flight."""
    return snapshot.cleaned_lately + _under_way(snapshot)


def _under_way(snapshot: Snapshot) -> int:
    return sum(flight.kind in CAPPED for flight in snapshot.record_flights.values())


CAPPED = frozenset({"clean", "prune"})


def to_prune(
    snapshot: Snapshot,
    settings: Settings,
    unlisted: Unlisted,
    kept: frozenset[str],
    cleans: tuple[CleanOrder, ...],
) -> tuple[PruneOrder, ...]:
    """The records to delete with what the cleans leave of the cap (C10); none of `kept`."""
    if settings.prune_after is None or unlisted.short:
        return ()
    room = _room(snapshot, settings)[0] - len(cleans)
    return prune_orders(snapshot, settings, kept, room)


def with_prunes(verdicts: list[Verdict], prunes: tuple[PruneOrder, ...]) -> list[Verdict]:
    """The verdicts, with PRUNE in place of the verdict of each record to delete."""
    if not prunes:
        return verdicts
    called_for = {order.uuid: order for order in prunes}
    return [
        Verdict(Kind.PRUNE, order.reason, verdict.id, order.measures)
        if (order := called_for.get(verdict.id)) is not None
        else verdict
        for verdict in verdicts
    ]


def left_fences(
    snapshot: Snapshot, settings: Settings, impossible: frozenset[str]
) -> tuple[CleanOrder, ...]:
    """The fences to lift, as orders that only name their record (C12).

    A listing shows the fence, and no action of ours is in flight for the record: the fence came up
    late, or a former run left it. It locks the record's node out, so it is lifted at once, even
    with an open breaker. Only where a clean may still take effect, the fence stays until then.
    """
    if settings.compare_and_set or not snapshot.lease or snapshot.read_only is not None:
        return ()
    return tuple(
        CleanOrder(
            uuid=record.uuid,
            reason=Reason.FENCE_LEFT,
            plan_id=snapshot.plan_id,
            breaker_generation=snapshot.breaker.generation,
            not_after=NEVER,
            version=record.version,
            incarnation=record.incarnation,
            instance_id=record.instance_id,
            slot=record.slot_number,
            hostname=record.hostname,
        )
        for record in _left_fenced(snapshot, settings)
        if record.uuid not in impossible
    )


def _left_fenced(snapshot: Snapshot, settings: Settings) -> Iterator[Record]:
    for record in snapshot.history.listed_records:
        uuid = record.uuid
        if not record.fenced or not record.holds_anything or record.problems:
            continue
        if not_ours(record, settings.pool, settings.adopt_unclaimed) is not None:
            continue
        if uuid in snapshot.record_flights or is_touched(uuid, snapshot):
            continue
        late = snapshot.late.get(uuid)
        cleaned_at = late.clean_at if late is not None else None
        if cleaned_at is None or snapshot.now - cleaned_at > settings.node_stale_after:
            yield record
