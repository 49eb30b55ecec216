"""The boots that a plan orders, each on a record that may be claimed (U1-U3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from nodemanager.core.judge import false_clean
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import may_take
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record, Size
from nodemanager.core.observe.pools import is_ours_to_claim
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.availability import choose, nodes_by_place
from nodemanager.core.plan.demand import DemandPlan
from nodemanager.core.plan.slots import FreeSeats, uses_of
from nodemanager.core.plan.supply import held_records, is_locked


@dataclass(frozen=True, slots=True)
class BootOrder:
    """One node to boot: on this cleaned record, or on a new record where it is None (U1).

    `place` is where, None for a size without places.
    """

    size: Size
    reason: Reason
    plan_id: str
    record: Record | None = None
    place: str | None = None


def boot_orders(
    snapshot: Snapshot, settings: Settings, wants: DemandPlan, impossible: frozenset[str]
) -> tuple[BootOrder, ...]:
    """The granted boots, each on a cleaned record to reuse as long as there are any (U1-U3)."""
    if not wants.boots:
        return ()
    reusable = _reusable(snapshot, settings, impossible)
    spreads = any(size.spread for size, _ in wants.boots)
    nodes = nodes_by_place(snapshot) if spreads else Counter[str]()
    orders = []
    for (size, reason), host in zip(wants.boots, wants.hosts, strict=True):
        if host in wants.power_ups:
            # It is booted once the scheduler wants it up.
            continue
        record = next((one for one in reusable if may_take(one, size, host)), None)
        if record is not None:
            reusable.remove(record)
        elif settings.seats:
            # The store makes no new record, and would claim one that may not be claimed yet.
            continue
        place = choose(size, snapshot.limits.places, nodes, snapshot.now)
        if place is not None:
            nodes[place] += 1
        orders.append(BootOrder(size, reason, snapshot.plan_id, record, place))
    return tuple(orders)


def _reusable(snapshot: Snapshot, settings: Settings, impossible: frozenset[str]) -> list[Record]:
    """The records that set-ups may claim, ordered by uuid."""
    assert snapshot.history.records is not None
    # A record that was freed by mistake is kept for its node (U8).
    kept = impossible | {life.record for life in false_clean.open_lives(snapshot.breaker)}
    kept |= held_records(snapshot)
    return sorted(
        (
            record
            for record in snapshot.history.records.items
            if record.uuid not in kept and _is_reusable(record, snapshot, settings)
        ),
        key=lambda record: record.uuid,
    )


def free_seats(
    snapshot: Snapshot, settings: Settings, impossible: frozenset[str]
) -> FreeSeats | None:
    """The seats that boots may get; None where they may get new records."""
    if not settings.seats:
        return None
    reusable = _reusable(snapshot, settings, impossible)
    return FreeSeats(reusable, uses_of(reusable, snapshot, settings))


def _is_reusable(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether a set-up may claim the record: cleaned, ours, unlocked, nothing in flight (U1-U3)."""
    if record.holds_anything or record.problems or record.held:
        return False
    if not is_ours_to_claim(record, settings):
        return False
    uuid = record.uuid
    if uuid in snapshot.record_flights:
        return False
    listing = snapshot.history.records
    if listing is None or snapshot.touched.get(uuid, -1.0) >= listing.started_at:
        return False
    if uuid in snapshot.history.nodes_by_record:
        # A listed node still has the uuid as a tag: two nodes would then have it.
        return False
    return not is_locked(record, snapshot, settings)
