"""Tells a scheduler to give nodes no more work, or to give them work again (SAFETY.md D12).

The plan gives the orders (`plan.drains`); the workflow tells the scheduler. The State has what
it was told (`Dispatched`): a node is shut down as idle only by a drain of this run that stands, and
once a listing that began after it shows the node drained.
"""

from __future__ import annotations

from nodemanager.core.execute.effects import ReadRecord, TellScheduler
from nodemanager.core.execute.news import Learned, SchedulerTold
from nodemanager.core.execute.once import OnceState, reading, writing
from nodemanager.core.execute.workflow import About, Action, Failed, Level, LogLine, Seen, Step
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import TOLD_WITHIN_S
from nodemanager.core.model.world import Record
from nodemanager.core.plan.drains import DispatchOrder, may_be_undone


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

    def start(self, order: DispatchOrder) -> Step[OnceState[DispatchOrder]]:
        return reading(order, ReadRecord(order.record.uuid))

    def found(
        self, order: DispatchOrder, answer: Record | None, seen: Seen
    ) -> Step[OnceState[DispatchOrder]]:
        if not is_still_due(order, answer, seen):
            return Step(None)
        unclear = SchedulerTold(order.record, order.hostname, None, unclear=not order.on)
        tells = TellScheduler(order.hostname, order.on, seen.snapshot.now + TOLD_WITHIN_S)
        return writing(order, tells, unclear)

    def done(
        self, order: DispatchOrder, answer: object, seen: Seen, *, late: bool
    ) -> Step[OnceState[DispatchOrder]]:
        told = SchedulerTold(order.record, order.hostname, order.on)
        return Step(None, tell=(_told(order, None),), learn=() if late else (told,))

    def failed(
        self, order: DispatchOrder, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[OnceState[DispatchOrder]]:
        learn: tuple[Learned, ...] = ()
        if isinstance(failed.effect, TellScheduler) and failed.error.definite and not late:
            learn = (SchedulerTold(order.record, order.hostname, None),)
        return Step(None, tell=(_told(order, failed.error),), learn=learn)

    def in_doubt(self, order: DispatchOrder) -> tuple[Learned, ...]:
        return ()


def _told(order: DispatchOrder, error: Exception | None) -> LogLine:
    fields = {
        "node": order.node_id,
        "record": order.record.uuid,
        "host": order.hostname,
        "reason": order.reason,
        "action": "drain" if order.on else "resume",
        "error": error,
        "plan": order.plan_id,
    }
    return LogLine(Event.NODE_DRAIN, fields, Level.INFO if error is None else Level.WARNING)
