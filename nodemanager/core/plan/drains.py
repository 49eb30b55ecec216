"""Which nodes are told to take no more work, or to take work again (SAFETY.md D12).

A node that can drain is told by its record, one of a scheduler by the scheduler. Only where a drain
of this run stands is such a node shut down as idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodemanager.core.judge.idle import can_drain, stays, stays_drained
from nodemanager.core.judge.node_view import NodeView
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import OURS, Reason
from nodemanager.core.model.settings import LATE_ORDER_S, Settings
from nodemanager.core.model.world import Record
from nodemanager.core.observe.scheduled import report_on
from nodemanager.core.observe.snapshot import Snapshot

UNDECIDED = OURS | {Reason.HELD, Reason.IMPOSSIBLE}
"""A node with one of these verdicts gets no order now: what it was told stands."""


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """Tell the node of `record` to take no more work or, with `on` False, to take work again."""

    node_id: str
    record: Record
    on: bool
    reason: Reason
    plan_id: str

    @property
    def uuid(self) -> str:
        return self.record.uuid


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
    unwanted, told = snapshot.history.unwanted, snapshot.drain_orders
    for view in views:
        record, node_id, reason = view.record, view.node.id, view.verdict.reason
        if record is None or record.uuid in snapshot.record_flights or reason in UNDECIDED:
            continue
        if node_id not in unwanted:
            if record.drain is not None and not stays_drained(node_id, record, snapshot):
                yield DrainOrder(node_id, record, False, reason, snapshot.plan_id)
        elif record.uuid not in told and _is_to_go(view, snapshot) and can_drain(record, settings):
            yield DrainOrder(node_id, record, True, reason, snapshot.plan_id)


@dataclass(frozen=True, slots=True)
class DispatchOrder:
    """Tell the scheduler to keep work from the record's node or, with `on` False, to give it some.

    `hostname` is the node's name in the scheduler.
    """

    node_id: str
    record: Record
    hostname: str
    on: bool
    reason: Reason
    plan_id: str

    @property
    def uuid(self) -> str:
        return self.record.uuid


AnyDrain = DrainOrder | DispatchOrder


def dispatch_orders(
    views: Iterable[NodeView], snapshot: Snapshot, settings: Settings
) -> Iterator[DispatchOrder]:
    """The orders that this plan calls for."""
    # An open breaker forbids destroying a node, not giving it work again.
    if not settings.scheduled or standing_block(snapshot, settings, breaker=False) is not None:
        return
    for view in views:
        order = _order_of(view, snapshot, settings)
        if order is not None:
            yield order


def _order_of(view: NodeView, snapshot: Snapshot, settings: Settings) -> DispatchOrder | None:
    """The order about one node, if any.

    A node is drained where only that keeps it from its shutdown, or where an operator drains it, or
    its cloud will take it. One that we drained, in whatever run, gets work again once it is wanted,
    but not while a destroy that was sent may still hit it. What somebody else drained is left
    alone.
    """
    record, node_id, reason = view.record, view.node.id, view.verdict.reason
    if record is None or record.uuid in snapshot.record_flights or reason in UNDECIDED:
        return None
    word = report_on(record, snapshot.history, snapshot.now, settings)
    if word is None or word.node.suspended or record.hostname is None:
        return None
    told = snapshot.dispatched.told_of(record)
    order = DispatchOrder(node_id, record, record.hostname, True, reason, snapshot.plan_id)
    if node_id not in snapshot.history.unwanted:
        is_told = told is not None and not told.on
        resumes = word.is_drained_by_us and not is_told and not stays(node_id, record, snapshot)
        return _off(order) if resumes else None
    if told is not None or word.is_set_aside or may_be_undone(record, snapshot):
        return None
    return order if _is_to_go(view, snapshot) else None


def _is_to_go(view: NodeView, snapshot: Snapshot) -> bool:
    """Whether only a drain keeps the node from its shutdown, or it is to leave whatever it does."""
    if snapshot.breaker.is_open:
        return False
    is_awaited = view.verdict.reason is Reason.DRAIN_AWAITED
    return is_awaited or view.leaves


def _off(order: DispatchOrder) -> DispatchOrder:
    return DispatchOrder(
        order.node_id, order.record, order.hostname, False, order.reason, order.plan_id
    )


def may_be_undone(record: Record, snapshot: Snapshot) -> bool:
    """Whether an earlier order, of this run or a former one, may still undo a drain given now."""
    dispatched = snapshot.dispatched
    unclear_at = dispatched.unclear.get(record.uuid)
    times = [at for at in (dispatched.since, unclear_at) if at is not None]
    return any(snapshot.now - at <= LATE_ORDER_S for at in times)
