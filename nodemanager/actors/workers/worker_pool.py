"""Shares orders among a few workers of one kind, so that threads don't grow with nodes."""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from nodemanager.actors.base import RoleActor, TeamContext, tell
from nodemanager.actors.messages import CarriedOut, CarryOut, Ref
from nodemanager.core.execute.effects import Effect
from nodemanager.errors import RemoteError, TooLate


@dataclass(frozen=True, slots=True)
class _Order:
    """One order. `number` is its place in the queue; a `paced` one calls the cloud."""

    number: int
    key: str
    message: Any
    paced: bool


@dataclass(eq=False)
class WorkerPool:
    """Each worker has one order at a time; further ones wait here, first come, first served.

    Of the paced orders no more than `at_once` run, however many workers are free (U13).
    """

    workers: tuple[Ref, ...]
    at_once: Callable[[], int]
    _waiting: list[_Order] = field(default_factory=list, init=False)
    _busy: dict[str, tuple[Ref, _Order]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._free = deque(self.workers)
        self._numbers = itertools.count()

    def give(self, key: str, message: Any, *, paced: bool = False) -> None:
        """Hand `message` to a free worker, now or later; `done(key)` frees the worker again."""
        self._waiting.append(_Order(next(self._numbers), key, message, paced))
        self.hand_out()

    def go_on(self, key: str, message: Any, *, paced: bool = False) -> None:
        """Hand the next step to the worker that has `key`, ahead of waiting orders.

        A paced step for which too many orders run waits in the place that its key had.
        """
        if key not in self._busy:
            self.give(key, message, paced=paced)
            return
        worker, order = self._busy[key]
        order = replace(order, message=message)
        if paced and self._running > self.at_once():
            bisect.insort(self._waiting, order, key=attrgetter("number"))
            self.done(key)
            return
        self._busy[key] = worker, order
        tell(worker, message)

    def done(self, key: str) -> None:
        """Free the worker that had `key` after its last answer, and hand out waiting orders."""
        if key in self._busy:
            self._free.append(self._busy.pop(key)[0])
        self.hand_out()

    def hand_out(self) -> None:
        """Hand out the waiting orders that may run now."""
        if not self._free:
            return
        room = self.at_once() - self._running
        waiting, self._waiting = self._waiting, []
        for order in waiting:
            waits = order.key in self._busy or (order.paced and room <= 0)
            if waits or not self._free:
                self._waiting.append(order)
                continue
            room -= order.paced
            worker = self._free.popleft()
            self._busy[order.key] = worker, order
            tell(worker, order.message)

    def drop_waiting(self) -> list[str]:
        """Forget the orders that no worker has begun, and return their keys."""
        keys = [order.key for order in self._waiting]
        self._waiting.clear()
        return keys

    def has(self, key: str) -> bool:
        """Whether a worker has an order for `key`."""
        return key in self._busy

    @property
    def has_room(self) -> bool:
        """Whether a worker would begin a paced order at once."""
        return bool(self._free) and self._running < self.at_once()

    @property
    def busy(self) -> int:
        return len(self._busy)

    @property
    def _running(self) -> int:
        return sum(order.paced for _, order in self._busy.values())


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
