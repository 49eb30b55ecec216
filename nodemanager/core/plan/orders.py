"""The boots, shutdowns, drains and bound claims that a plan orders.

A node that can drain is told by its record, one of a scheduler by the scheduler. Only where a drain
of this run stands is such a node shut down as idle (SAFETY.md D12).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nodemanager.core.judge import false_clean
from nodemanager.core.judge.idle import AS_IDLE, UNCAPPED, can_drain, doubt, stays, stays_drained
from nodemanager.core.judge.node_view import NodeView
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.judge.records import is_touched
from nodemanager.core.model.reasons import OURS, Kind, Reason
from nodemanager.core.model.scheduling import may_take
from nodemanager.core.model.settings import LATE_ORDER_S, Settings
from nodemanager.core.model.verdict import Objection, Verdict, keep
from nodemanager.core.model.world import Record, Size
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.pools import is_ours_to_claim
from nodemanager.core.observe.scheduled import idle_count, report_on
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.availability import choose, nodes_by_place
from nodemanager.core.plan.demand import DemandPlan
from nodemanager.core.plan.destroy import ShutdownOrder, order_shutdown
from nodemanager.core.plan.rotation import ROTATING
from nodemanager.core.plan.slots import FreeSeats, uses_of
from nodemanager.core.plan.supply import held_records, is_locked

BIND_LIMIT = 20
"""At most this many a plan: after an upgrade no claim has its node, and cleans need their turn."""


@dataclass(frozen=True, slots=True)
class BindOrder:
    """One claim that gets the id of its node."""

    uuid: str
    incarnation: str
    node_id: str
    plan_id: str


def bind_orders(snapshot: Snapshot, settings: Settings, pairs: Pairs) -> tuple[BindOrder, ...]:
    """The claims that lack the id of their known node. None where the store can't compare versions:
    a late write could put back a claim that was freed since (C12)."""
    if not settings.compare_and_set:
        return ()
    if standing_block(snapshot, settings, polls=False, breaker=False) is not None:
        return ()
    found: list[BindOrder] = []
    for record in _unbound(snapshot):
        node_id = _node_of(record, snapshot, pairs)
        if node_id is not None and record.incarnation is not None:
            order = BindOrder(record.uuid, record.incarnation, node_id, snapshot.plan_id)
            found.append(order)
            if len(found) == BIND_LIMIT:
                break
    return tuple(found)


def _unbound(snapshot: Snapshot) -> Iterator[Record]:
    for record in snapshot.history.listed_records:
        claim = record.claim
        if claim is None or claim.node_id is not None or record.problems or record.held:
            continue
        uuid = record.uuid
        if uuid in snapshot.holds or uuid in snapshot.record_flights:
            continue
        # A listing from before the end of an action of ours is out of date.
        if not is_touched(uuid, snapshot):
            yield record


def _node_of(record: Record, snapshot: Snapshot, pairs: Pairs) -> str | None:
    """The id of the claim's node, by its tag or as the create answered; None where not known."""
    node = pairs.node_of.get(record.uuid)
    if node is not None:
        return node.id if node.tags.record == record.uuid else None
    expected = snapshot.expected.get(record.uuid)
    if expected is not None and expected.incarnation == record.incarnation:
        return expected.node_id
    return None


UNDECIDED = OURS | {Reason.HELD, Reason.IMPOSSIBLE}
"""A node with one of these verdicts gets no order now: what it was told stands."""


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """Tell the node of `record` to take no more work or, with `on` False, to take work again.

    Where there is a scheduler, it is told of the node under the record's hostname.
    """

    node_id: str
    record: Record
    on: bool
    reason: Reason
    plan_id: str

    @property
    def uuid(self) -> str:
        return self.record.uuid

    @property
    def hostname(self) -> str:
        return self.record.hostname or ""


def drain_orders(
    views: Iterable[NodeView], snapshot: Snapshot, settings: Settings
) -> Iterator[DrainOrder]:
    """The orders that this plan calls for.

    A node is told to drain where only that keeps it from its shutdown, or where an operator drains
    it, or its cloud will take it. Only orders of this run count as told: a late write of a former
    run may still take back the order that it gave. A node that is wanted again is told so, whoever
    drained it, but not while a destroy that was sent may still hit it.
    """
    # An open breaker forbids destroying a node, not giving it work again.
    if not settings.tells_drain or standing_block(snapshot, settings, breaker=False) is not None:
        return
    unwanted, given = snapshot.history.unwanted, snapshot.drain_orders
    for view in views:
        record, node_id, reason = view.record, view.node.id, view.verdict.reason
        if record is None or record.uuid in snapshot.record_flights or reason in UNDECIDED:
            continue
        if node_id not in unwanted:
            if record.drain is not None and not stays_drained(node_id, record, snapshot):
                yield DrainOrder(node_id, record, False, reason, snapshot.plan_id)
        elif record.uuid not in given and _is_to_go(view, snapshot) and can_drain(record, settings):
            yield DrainOrder(node_id, record, True, reason, snapshot.plan_id)


def dispatch_orders(
    views: Iterable[NodeView], snapshot: Snapshot, settings: Settings
) -> Iterator[DrainOrder]:
    """The orders that this plan calls for."""
    # An open breaker forbids destroying a node, not giving it work again.
    if not settings.scheduled or standing_block(snapshot, settings, breaker=False) is not None:
        return
    for view in views:
        order = _order_of(view, snapshot, settings)
        if order is not None:
            yield order


def _order_of(view: NodeView, snapshot: Snapshot, settings: Settings) -> DrainOrder | None:
    """The order about one node, if any.

    A node is drained where only that keeps it from its shutdown, or where an operator drains it, or
    its cloud will take it. One that we drained, in whatever run, gets work again once it is wanted,
    but not while a destroy that was sent may still hit it. What somebody else drained is left
    alone.
    """
    record, node_id, reason = view.record, view.node.id, view.verdict.reason
    if record is None or record.uuid in snapshot.record_flights or reason in UNDECIDED:
        return None
    word = report_on(record, snapshot, settings)
    if word is None or word.node.suspended or record.hostname is None:
        return None
    before = snapshot.dispatched.order_of(record)
    order = DrainOrder(node_id, record, True, reason, snapshot.plan_id)
    if node_id not in snapshot.history.unwanted:
        has_work = before is not None and not before.on
        resumes = word.is_drained_by_us and not has_work and not stays(node_id, record, snapshot)
        return replace(order, on=False) if resumes else None
    if before is not None or word.is_set_aside or may_be_undone(record, snapshot):
        return None
    return order if _is_to_go(view, snapshot) else None


def _is_to_go(view: NodeView, snapshot: Snapshot) -> bool:
    """Whether only a drain keeps the node from its shutdown, or it is to leave whatever it does."""
    if snapshot.breaker.is_open:
        return False
    is_awaited = view.verdict.reason is Reason.DRAIN_AWAITED
    return is_awaited or view.leaves


def may_be_undone(record: Record, snapshot: Snapshot) -> bool:
    """Whether an earlier order, of this run or a former one, may still undo a drain given now."""
    dispatched = snapshot.dispatched
    unclear_at = dispatched.unclear.get(record.uuid)
    times = [at for at in (dispatched.since, unclear_at) if at is not None]
    return any(snapshot.now - at <= LATE_ORDER_S for at in times)


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
    # A record that was freed by mistake is kept for its node (U8).
    kept = impossible | {life.record for life in false_clean.open_lives(snapshot.breaker)}
    kept |= held_records(snapshot)
    return sorted(
        (
            record
            for record in snapshot.history.listed_records
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
    if uuid in snapshot.record_flights or is_touched(uuid, snapshot):
        return False
    if uuid in snapshot.history.nodes_by_record:
        # A listed node still has the uuid as a tag: two nodes would then have it.
        return False
    return not is_locked(record, snapshot, settings)


CAPPED = frozenset({"shutdown:bad", ROTATING})
"""The flights that use up the cap on shutdowns, which are for any reason but idle (D9)."""


def shutdown_orders(
    snapshot: Snapshot,
    settings: Settings,
    views: list[NodeView],
    wants: DemandPlan,
    impossible: frozenset[str],
) -> tuple[ShutdownOrder, ...]:
    """Apply demand, breaker and caps to the views; return the orders that remain (D1, D9)."""
    asking = _asking(snapshot, settings, views, wants)
    if not asking:
        return ()
    block = standing_block(snapshot, settings)
    wanting: list[NodeView] = []
    for view in asking:
        forbidden = _forbidden(view, block, impossible, snapshot, settings)
        if forbidden is None:
            wanting.append(view)
        else:
            view.verdict = forbidden
    wanting.sort(key=lambda view: (view.node.created_at or 0.0, view.node.id))
    destroying = sum(flight.kind in CAPPED for flight in snapshot.node_flights.values())
    destroying += snapshot.destroyed_lately
    room = max(0, settings.max_shutdowns_per_cycle - destroying)
    orders: list[ShutdownOrder] = []
    for view in wanting:
        capped = view.verdict.reason not in UNCAPPED
        if capped and room <= 0:
            measures = {**(view.verdict.measures or {}), "limit": settings.max_shutdowns_per_cycle}
            view.verdict = Verdict(Kind.KEEP, Reason.SHUTDOWN_CAP, view.node.id, measures)
            continue
        room -= capped
        orders.append(order_shutdown(view, snapshot))
    return tuple(orders)


def _asking(
    snapshot: Snapshot, settings: Settings, views: list[NodeView], wants: DemandPlan
) -> list[NodeView]:
    """The nodes that are to go: as judged, beyond demand, or to be replaced. Each says why."""
    surplus, replaced = wants.surplus, wants.rotations.chosen
    asking, goes = [], Kind.SHUTDOWN
    for view in views:
        node_id = view.node.id
        if node_id in surplus:
            own = view.record
            words = idle_count(own, snapshot, settings) if own is not None else 0
            measures = {"idle_polls": words, "needed_polls": settings.consecutive_idle_count}
            view.verdict = Verdict(Kind.SHUTDOWN, Reason.IDLE_BEYOND_DEMAND, node_id, measures)
        elif view.verdict.kind is not goes:
            if node_id not in replaced or not view.surplus_if_idle:
                continue
            view.verdict = replaced[node_id]
        asking.append(view)
    return asking


def _forbidden(
    view: NodeView,
    block: Objection | None,
    impossible: frozenset[str],
    snapshot: Snapshot,
    settings: Settings,
) -> Verdict | None:
    """What forbids the shutdown that the view calls for, caps aside; None where it may go."""
    node_id, record = view.node.id, view.record
    if node_id in impossible:
        return keep(node_id, Reason.IMPOSSIBLE)
    if block is not None:
        measures = {**(view.verdict.measures or {}), **block.measures}
        return block._replace(measures=measures).to(node_id)
    if (record.uuid if record else view.node.tags.record) in snapshot.record_flights:
        return keep(node_id, Reason.IN_FLIGHT)
    if view.verdict.reason in AS_IDLE and record is not None:
        return doubt(node_id, record, snapshot, settings)
    return None
