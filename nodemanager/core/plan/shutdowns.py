"""The shutdowns that a plan orders: as judged, beyond demand, or to be replaced (D1, D9)."""

from __future__ import annotations

from nodemanager.core.judge.idle import AS_IDLE, UNCAPPED, doubt
from nodemanager.core.judge.node_view import NodeView
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Objection, Verdict, keep
from nodemanager.core.observe.scheduled import idle_count
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.demand import DemandPlan
from nodemanager.core.plan.destroy import ShutdownOrder, order_shutdown
from nodemanager.core.plan.rotation import ROTATING

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
