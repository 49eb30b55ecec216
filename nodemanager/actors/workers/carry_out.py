"""A worker's answer to an order: the effect's result, or the error in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodemanager.actors.messages import CarriedOut, CarryOut
from nodemanager.core.execute.effects import Effect
from nodemanager.errors import RemoteError


def carried_out(order: CarryOut, carry_out: Callable[[Effect], Any]) -> CarriedOut:
    """Carry out one effect. A RemoteError is the answer; any other error is a bug and is raised."""
    try:
        answer = carry_out(order.effect)
    except RemoteError as error:
        return CarriedOut(order.key, order.serial, order.effect, error=error)
    return CarriedOut(order.key, order.serial, order.effect, answer)


def not_mine(worker: object, effect: Effect) -> TypeError:
    return TypeError(f"{type(worker).__name__} carries out no {type(effect).__name__}")
