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


class SimpleAction(Protocol[Order]):
    """What is particular to one action; `Once` does the rest."""

    @property
    def action(self) -> Action: ...

    flight: str
    """What a snapshot calls it in flight."""

    def id(self, order: Order) -> str: ...

    def about(self, order: Order) -> About:
        """The record and the node that it blocks for all others (C8)."""
        ...

    def start(self, order: Order) -> Step[OnceState[Order]]:
        """The step that reads (`reading`), or an end."""
        ...

    def found(self, order: Order, answer: Any, seen: Seen) -> Step[OnceState[Order]]:
        """What follows from what was read: the step that writes (`writing`), or an end."""
        ...

    def done(self, order: Order, answer: Any, seen: Seen, *, late: bool) -> Step[OnceState[Order]]:
        """The end after the write was answered; `late` says that it had been given up."""
        ...

    def failed(
        self, order: Order, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[OnceState[Order]]:
        """The end after the read or the write failed."""
        ...

    def in_doubt(self, order: Order) -> tuple[Learned, ...]:
        """What is learned when the write is given up, though it may still take effect."""
        ...


class OfRecord(Protocol):
    """An order about one record."""

    @property
    def uuid(self) -> str: ...


RecordOrder = TypeVar("RecordOrder", bound=OfRecord)


class RecordAction(Generic[RecordOrder]):
    """What those actions share that read one record, block it alone, and leave nothing in doubt."""

    def id(self, order: RecordOrder) -> str:
        return order.uuid

    def about(self, order: RecordOrder) -> About:
        return About(record=order.uuid)

    def start(self, order: RecordOrder) -> Step[OnceState[RecordOrder]]:
        return reading(order, ReadRecord(order.uuid))

    def in_doubt(self, order: RecordOrder) -> tuple[Learned, ...]:
        return ()


def reading(order: Order, effect: ReadRecord | AskNode) -> Step[OnceState[Order]]:
    """The first step."""
    return Step(Reading(order), (effect,))


def writing(order: Order, effect: Effect, *learn: Learned) -> Step[OnceState[Order]]:
    """The second one, right after what was read."""
    return Step(Writing(order), (effect,), learn=learn)


class Once(Generic[Order]):
    """The state machine of one simple action."""

    states = (Reading, Writing, GivenUp)

    def __init__(self, simple: SimpleAction[Order]) -> None:
        self.simple = simple
        self.action = simple.action

    def id(self, order: Order) -> str:
        return self.simple.id(order)

    def about(self, state: OnceState[Order]) -> About:
        return self.simple.about(state.order)

    def flight(self, state: OnceState[Order]) -> str:
        return self.simple.flight

    def start(self, order: Order, seen: Seen) -> Step[OnceState[Order]]:
        return self.simple.start(order)

    def resume(self, state: OnceState[Order], seen: Seen) -> Step[OnceState[Order]]:
        return Step(None)

    def on(
        self, state: OnceState[Order], event: WorkflowEvent, seen: Seen
    ) -> Step[OnceState[Order]]:
        order, late = state.order, isinstance(state, GivenUp)
        match event:
            case Failed():
                return self.simple.failed(order, event, seen, late=late)
            case Answered(effect=ReadRecord() | AskNode(), answer=answer):
                return Step(None) if late else self.simple.found(order, answer, seen)
            case Answered(answer=answer):
                return self.simple.done(order, answer, seen, late=late)
            case Expired():
                learn = self.simple.in_doubt(order) if isinstance(state, Writing) else ()
                return Step(GivenUp(order), learn=learn)
        return Step(state)
