"""Worlds of nodes that ping, fall silent, or have no record."""

from __future__ import annotations

from typing import Any

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import WorkerState
from tests.core.build import World, world

BUSY, IDLE = WorkerState.BUSY, WorkerState.IDLE
DOWN, UNKNOWN = WorkerState.DOWN, WorkerState.UNKNOWN


def live(state: WorkerState | None, *, polls: int = 2, age: float = 10_000.0, **s: Any) -> World:
    """One node that pings with `state` at each of `polls` polls."""
    made = world(**s)
    made.add_record("r1", quiet=100.0)
    made.add_node("r1", age=age)
    made.poll()
    pinging(made, state, polls)
    return made


def pinging(made: World, state: WorkerState | None, polls: int = 1, every: float = 30.0) -> None:
    for _ in range(polls):
        made.advance(every)
        for one in list(made.records):
            made.ping(one.uuid, state)
        made.poll()
        made.plan()


def verdict(made: World) -> tuple[Kind, Reason]:
    one = made.of_node("i-r1")
    return one.kind, one.reason


def silent(made: World, seconds: float, *, answers: bool = True, every: float = 100.0) -> None:
    """The node falls silent for `seconds`, polls go on."""
    until = made.now + seconds
    while made.now < until:
        made.advance(min(every, until - made.now))
        made.poll_records(took=0.0, answers=answers)
        made.advance(0.01)
        made.poll_cloud(took=0.0)
        made.plan()


def pool_of(count: int, **settings: Any) -> World:
    made = world(max_nodes=count, **settings)
    for number in range(count):
        made.add_record(f"r{number}")
        made.add_node(f"r{number}")
    made.round()
    return made


def say(made: World, state: WorkerState, down: set[str]) -> None:
    made.advance(30.0)
    for one in list(made.records):
        made.ping(one.uuid, WorkerState.DOWN if one.uuid in down else state)
    made.poll()
    made.plan()


def unpaired(**node_fields: Any) -> World:
    """A node with our tags whose record is in no listing."""
    made = world()
    made.add_node("r1", **node_fields)
    return made
