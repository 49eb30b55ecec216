"""Reads, confirms, writes once: the state machine of each simple action.

A plan orders it again while it is due. So the journal has none of it, and a restart forgets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from nodemanager.core.execute.effects import AskNode, Effect, ReadRecord
from nodemanager.core.execute.news import Learned
from nodemanager.core.execute.workflow import (
    Abandoned,
    About,
    Action,
    Answered,
    Expired,
    Failed,
    Seen,
    Step,
    Unwritten,
    WorkflowEvent,
)

Order = TypeVar("Order")


@dataclass(frozen=True, slots=True)
class Reading(Unwritten, Generic[Order]):
    """It waits for a worker, which reads first; nothing is written yet."""

    order: Order


@dataclass(frozen=True, slots=True)
class Writing(Unwritten, Generic[Order]):
    """The write was sent; until the answer nobody knows whether it took effect."""

    order: Order


@dataclass(frozen=True, slots=True)
class GivenUp(Abandoned, Generic[Order]):
    """It took too long. It is ordered again only after the worker has answered."""

    order: Order


OnceState = Reading[Order] | Writing[Order] | GivenUp[Order]


def reading(order: Order, effect: ReadRecord | AskNode) -> Step[OnceState[Order]]:
    return Step(Reading(order), (effect,))


def writing(order: Order, effect: Effect, *learn: Learned) -> Step[OnceState[Order]]:
    """The second one, right after what was read."""
    return Step(Writing(order), (effect,), learn=learn)


class Once(Generic[Order]):
    """The state machine of one simple action, but for what is particular to each."""

    states = (Reading, Writing, GivenUp)
    action: Action
    in_flight: str
    """What a snapshot calls it in flight."""

    def id(self, order: Order) -> str:
        raise NotImplementedError

    def about(self, state: OnceState[Order]) -> About:
        raise NotImplementedError

    def start(self, order: Order, seen: Seen) -> Step[OnceState[Order]]:
        """The step that reads (`reading`), or an end."""
        raise NotImplementedError

    def found(self, order: Order, answer: Any, seen: Seen) -> Step[OnceState[Order]]:
        """What follows from what was read: the step that writes (`writing`), or an end."""
        raise NotImplementedError

    def done(self, order: Order, answer: Any, seen: Seen, *, late: bool) -> Step[OnceState[Order]]:
        """The end after the write was answered; `late` says that it had been given up."""
        raise NotImplementedError

    def failed(
        self, order: Order, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[OnceState[Order]]:
        """The end after the read or the write failed."""
        raise NotImplementedError

    def in_doubt(self, order: Order) -> tuple[Learned, ...]:
        """What is learned when the write is given up, though it may still take effect."""
        return ()

    def flight(self, state: OnceState[Order]) -> str:
        return self.in_flight

    def resume(self, state: OnceState[Order], seen: Seen) -> Step[OnceState[Order]]:
        return Step(None)

    def on(
        self, state: OnceState[Order], event: WorkflowEvent, seen: Seen
    ) -> Step[OnceState[Order]]:
        order, late = state.order, isinstance(state, GivenUp)
        match event:
            case Failed():
                return self.failed(order, event, seen, late=late)
            case Answered(effect=ReadRecord() | AskNode(), answer=answer):
                return Step(None) if late else self.found(order, answer, seen)
            case Answered(answer=answer):
                return self.done(order, answer, seen, late=late)
            case Expired():
                learn = self.in_doubt(order) if isinstance(state, Writing) else ()
                return Step(GivenUp(order), learn=learn)
        return Step(state)


class OfRecord(Protocol):
    """An order about one record."""

    @property
    def uuid(self) -> str: ...


RecordOrder = TypeVar("RecordOrder", bound=OfRecord)


class RecordAction(Once[RecordOrder]):
    """An action that reads one record first, and blocks that alone."""

    def id(self, order: RecordOrder) -> str:
        return order.uuid

    def about(self, state: OnceState[RecordOrder]) -> About:
        return About(record=state.order.uuid)

    def start(self, order: RecordOrder, seen: Seen) -> Step[OnceState[RecordOrder]]:
        return reading(order, ReadRecord(order.uuid))
