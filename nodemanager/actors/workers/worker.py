"""What every worker does with an effect: it carries the effect out and reports what came of it."""

from __future__ import annotations

from typing import Any

from nodemanager.actors.base import RoleActor
from nodemanager.actors.messages import CarriedOut, CarryOut
from nodemanager.actors.team import TeamContext
from nodemanager.core.execute.effects import Effect
from nodemanager.errors import RemoteError, TooLate


class WorkerActor(RoleActor):
    """Answers each order with the effect's result or, in its place, a RemoteError.

    Any other error is a bug: it kills the actor.
    """

    def __init__(self, context: TeamContext) -> None:
        super().__init__(context.on_death)
        self._context = context

    def on_CarryOut(self, order: CarryOut) -> None:
        answer, failed = None, None
        try:
            answer = self._carry_out(order.effect)
        except RemoteError as error:
            failed = error
        self._context.report(CarriedOut(order.key, order.serial, order.effect, answer, failed))

    def _carry_out(self, effect: Effect) -> Any:
        """The effect's result; each worker has its own effects."""
        raise self._not_mine(effect)

    def _check_in_time(self, not_after: float) -> None:
        """Raise TooLate once the order is void (C11)."""
        late_s = self._context.clock.boottime() - not_after
        if late_s > 0:
            raise TooLate(f"its order expired {late_s:.0f} s before it could be sent")

    def _not_mine(self, effect: Effect) -> TypeError:
        return TypeError(f"{self.name} carries out no {type(effect).__name__}")
