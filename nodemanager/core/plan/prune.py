"""Which cleaned records are more than the pool will ever need; `execute.prune` deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.core.judge import false_clean
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import ORDER_TTL_S, Settings
from nodemanager.core.model.world import Record
from nodemanager.core.observe.pools import not_ours
from nodemanager.core.observe.signs import quiet_for
from nodemanager.core.observe.snapshot import Snapshot


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
    clock = history.clock
    if settings.prune_after is None or not settings.compare_and_set or room <= 0:
        return ()
    if clock is None or standing_block(snapshot, settings) is not None:
        return ()
    if not clock.trusted_at(snapshot.now, settings.poll_stale_after):
        return ()
    ours = _counted(snapshot, settings)
    surplus = len(ours) - settings.max_nodes
    if surplus <= 0:
        return ()
    spoken_for = {*kept, *may_come_back(snapshot), *(node.tags.record for node in history.partial)}
    unused = (one for one in ours if one.uuid not in spoken_for and _is_unused(one, snapshot))
    quiet = ((quiet_for(one, clock, snapshot) or 0.0, one) for one in unused)
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
    listing = snapshot.history.records
    return [
        one
        for one in (listing.items if listing is not None else ())
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
    if uuid in history.bearers or uuid in history.twice or uuid in snapshot.expected:
        return False
    unseen = history.glimpsed.get(uuid, record.version) == record.version
    return unseen and history.base_index.get(uuid) == record.version and uuid not in history.vetoed


def may_come_back(snapshot: Snapshot) -> set[str]:
    """Uuids of records freed within the last week: a false clean is undone on that record (U8)."""
    return {
        *(life.record for life in snapshot.history.freed.values()),
        *(life.record for life in false_clean.open_lives(snapshot.breaker)),
    }
