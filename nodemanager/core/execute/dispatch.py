"""Tells a scheduler to give nodes no more work, or to give them work again (SAFETY.md D12).

The plan gives the orders (`plan.drains`); the workflow tells the scheduler. The State has what
it was told (`Dispatched`): a node is shut down as idle only by a drain of this run that stands, and
once a listing that began after it shows the node drained.
"""

from __future__ import annotations

from nodemanager.core.execute import drain
from nodemanager.core.execute.effects import TellScheduler
from nodemanager.core.execute.news import Learned, SchedulerTold
from nodemanager.core.execute.once import OnceState, RecordAction, writing
from nodemanager.core.execute.workflow import Action, Failed, Seen, Step
from nodemanager.core.model.settings import TOLD_WITHIN_S
from nodemanager.core.model.world import Record
from nodemanager.core.plan.drains import DispatchOrder, may_be_undone


def is_still_due(order: DispatchOrder, record: Record | None, seen: Seen) -> bool:
    """Whether the scheduler may be told at this moment; `record` was just read."""
    if record is None or not drain.is_still_due(order, record, seen):
        return False
    if (record.incarnation, record.hostname) != (order.record.incarnation, order.hostname):
        return False
    return not (order.on and may_be_undone(record, seen.snapshot))


# The workflow.


class Dispatch(RecordAction[DispatchOrder]):
    """Read the record, confirm, tell the scheduler. An order is sent in time, or not at all."""

    action = Action.DISPATCH
    flight = "drain"

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
        return Step(
            None, tell=(drain.told_of(order, host=order.hostname),), learn=() if late else (told,)
        )

    def failed(
        self, order: DispatchOrder, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[OnceState[DispatchOrder]]:
        learn: tuple[Learned, ...] = ()
        if isinstance(failed.effect, TellScheduler) and failed.error.definite and not late:
            learn = (SchedulerTold(order.record, order.hostname, None),)
        return Step(
            None, tell=(drain.told_of(order, failed.error, host=order.hostname),), learn=learn
        )
