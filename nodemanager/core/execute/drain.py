"""Tells nodes, or their scheduler, about drains: no more work, or work again (SAFETY.md D12).

The plan gives the orders (`plan.orders`); a workflow tells the node by its record, or the
scheduler. The State has the orders of this run that stand (`Drains`, `Dispatched`): a node is shut
down as idle only by such an order; one of a scheduler, once a listing that began after it shows
the node drained.
"""

from __future__ import annotations

from nodemanager.core.execute.effects import TellDrain, TellScheduler
from nodemanager.core.execute.news import DrainTold, Learned, SchedulerTold
from nodemanager.core.execute.once import OnceState, RecordAction, writing
from nodemanager.core.execute.workflow import Action, Failed, Level, LogLine, Seen, Step
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import TOLD_WITHIN_S
from nodemanager.core.model.world import Record
from nodemanager.core.plan.orders import DrainOrder, may_be_undone


def is_still_due(order: DrainOrder, record: Record | None, seen: Seen) -> bool:
    """Whether the order may be written at this moment; `record` was just read.

    The order may have waited for a worker, and lease, breaker, holds or demand may have changed.
    """
    snapshot, settings, uuid = seen.snapshot, seen.settings, order.uuid
    if seen.stopping or standing_block(snapshot, settings, breaker=order.on) is not None:
        return False
    if record is None or record.held or not snapshot.holds.isdisjoint((uuid, order.node_id)):
        return False
    return (order.node_id in snapshot.history.unwanted) is order.on


class Drain(RecordAction[DrainOrder]):
    """Read, confirm, write. The write names incarnation and drain order: a late one is refused."""

    action = Action.DRAIN
    in_flight = "drain"

    def found(
        self, order: DrainOrder, answer: Record | None, seen: Seen
    ) -> Step[OnceState[DrainOrder]]:
        if not is_still_due(order, answer, seen):
            return Step(None)
        unknown = DrainTold(order.uuid, None)
        return writing(order, TellDrain(order.record, order.on), unknown)

    def done(
        self, order: DrainOrder, answer: Record, seen: Seen, *, late: bool
    ) -> Step[OnceState[DrainOrder]]:
        answered = DrainTold(answer.uuid, answer.drain)
        return Step(None, tell=(log_line(order),), learn=() if late else (answered,))

    def failed(
        self, order: DrainOrder, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[OnceState[DrainOrder]]:
        return Step(None, tell=(log_line(order, failed.error),))


def log_line(order: DrainOrder, error: Exception | None = None, host: str | None = None) -> LogLine:
    fields = {
        "node": order.node_id,
        "record": order.uuid,
        "host": host,
        "reason": order.reason,
        "action": "drain" if order.on else "resume",
        "error": error,
        "plan": order.plan_id,
    }
    return LogLine(Event.NODE_DRAIN, fields, Level.INFO if error is None else Level.WARNING)


def may_tell_scheduler(order: DrainOrder, record: Record | None, seen: Seen) -> bool:
    """Whether the scheduler may be told at this moment; `record` was just read."""
    if record is None or not is_still_due(order, record, seen):
        return False
    if (record.incarnation, record.hostname) != (order.record.incarnation, order.hostname):
        return False
    return not (order.on and may_be_undone(record, seen.snapshot))


class Dispatch(RecordAction[DrainOrder]):
    """Read the record, confirm, tell the scheduler. An order is sent in time, or not at all."""

    action = Action.DISPATCH
    in_flight = "drain"

    def found(
        self, order: DrainOrder, answer: Record | None, seen: Seen
    ) -> Step[OnceState[DrainOrder]]:
        if not may_tell_scheduler(order, answer, seen):
            return Step(None)
        unclear = SchedulerTold(order.record, order.hostname, None, unclear=not order.on)
        tells = TellScheduler(order.hostname, order.on, seen.snapshot.now + TOLD_WITHIN_S)
        return writing(order, tells, unclear)

    def done(
        self, order: DrainOrder, answer: object, seen: Seen, *, late: bool
    ) -> Step[OnceState[DrainOrder]]:
        answered = SchedulerTold(order.record, order.hostname, order.on)
        return Step(
            None, tell=(log_line(order, host=order.hostname),), learn=() if late else (answered,)
        )

    def failed(
        self, order: DrainOrder, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[OnceState[DrainOrder]]:
        learn: tuple[Learned, ...] = ()
        if isinstance(failed.effect, TellScheduler) and failed.error.definite and not late:
            learn = (SchedulerTold(order.record, order.hostname, None),)
        return Step(None, tell=(log_line(order, failed.error, host=order.hostname),), learn=learn)
