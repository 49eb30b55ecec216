"""Tells a scheduler to give nodes no more work, or to give them work again (SAFETY.md D12).

The plan gives the orders (`dispatch_orders`); the workflow tells the scheduler. The books have what
it was told (`Dispatched`): a node is shut down as idle only by a drain of this run that stands, and
once a listing that began after it shows the node drained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodemanager.core.execute.books import Learned, SchedulerTold
from nodemanager.core.execute.drain import UNDECIDED
from nodemanager.core.execute.effects import ReadRecord, TellScheduler
from nodemanager.core.execute.once import State, reading, writing
from nodemanager.core.execute.workflow import (
    About,
    Action,
    Failed,
    Level,
    Seen,
    Step,
    Told,
)
from nodemanager.core.judge.idle import stays
from nodemanager.core.judge.node_view import NodeView
from nodemanager.core.judge.overrides import of_node
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Event as Name
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import LATE_ORDER_S, TOLD_WITHIN_S, Settings
from nodemanager.core.model.world import Record
from nodemanager.core.observe.scheduled import word_on
from nodemanager.core.observe.snapshot import Snapshot


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

    A node is drained where only that keeps it from its shutdown, or where an operator drains it.
    One that we drained, in whatever run, gets work again once it is wanted, but not while a destroy
    that was sent may still hit it. What somebody else drained is left alone.
    """
    record, node_id, reason = view.record, view.node.id, view.verdict.reason
    if record is None or record.uuid in snapshot.record_flights or reason in UNDECIDED:
        return None
    word = word_on(record, snapshot.history, snapshot.now, settings)
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
    """Whether a drain is all that the node's shutdown waits for, or an operator's order."""
    if snapshot.breaker.is_open:
        return False
    is_awaited = view.verdict.reason is Reason.DRAIN_AWAITED
    return is_awaited or of_node(snapshot.drains, view.node) is not None


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


def is_still_due(order: DispatchOrder, record: Record | None, seen: Seen) -> bool:
    """Whether the scheduler may be told at this moment; `record` was just read."""
    snapshot, settings, uuid = seen.snapshot, seen.settings, order.record.uuid
    if seen.stopping or standing_block(snapshot, settings, breaker=order.on) is not None:
        return False
    if record is None or record.held or not snapshot.holds.isdisjoint((uuid, order.node_id)):
        return False
    if (record.incarnation, record.hostname) != (order.record.incarnation, order.hostname):
        return False
    if order.on and may_be_undone(record, snapshot):
        return False
    return (order.node_id in snapshot.history.unwanted) is order.on


# The workflow.


class Dispatch:
    """Read the record, confirm, tell the scheduler. An order is sent in time, or not at all."""

    action = Action.DISPATCH
    flight = "drain"

    def id(self, order: DispatchOrder) -> str:
        return order.record.uuid

    def about(self, order: DispatchOrder) -> About:
        return About(record=order.record.uuid)

    def start(self, order: DispatchOrder) -> Step[State[DispatchOrder]]:
        return reading(order, ReadRecord(order.record.uuid))

    def found(
        self, order: DispatchOrder, answer: Record | None, seen: Seen
    ) -> Step[State[DispatchOrder]]:
        if not is_still_due(order, answer, seen):
            return Step(None)
        unclear = SchedulerTold(order.record, order.hostname, None, unclear=not order.on)
        tells = TellScheduler(order.hostname, order.on, seen.snapshot.now + TOLD_WITHIN_S)
        return writing(order, tells, unclear)

    def done(
        self, order: DispatchOrder, answer: object, seen: Seen, *, late: bool
    ) -> Step[State[DispatchOrder]]:
        told = SchedulerTold(order.record, order.hostname, order.on)
        return Step(None, tell=(_told(order, None),), learn=() if late else (told,))

    def failed(
        self, order: DispatchOrder, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[State[DispatchOrder]]:
        learn: tuple[Learned, ...] = ()
        if isinstance(failed.effect, TellScheduler) and failed.error.definite and not late:
            learn = (SchedulerTold(order.record, order.hostname, None),)
        return Step(None, tell=(_told(order, failed.error),), learn=learn)

    def in_doubt(self, order: DispatchOrder) -> tuple[Learned, ...]:
        return ()


def _told(order: DispatchOrder, error: Exception | None) -> Told:
    fields = {
        "node": order.node_id,
        "record": order.record.uuid,
        "host": order.hostname,
        "reason": order.reason,
        "action": "drain" if order.on else "resume",
        "error": error,
        "plan": order.plan_id,
    }
    return Told(Name.NODE_DRAIN, fields, Level.INFO if error is None else Level.WARNING)
