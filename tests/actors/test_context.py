"""What the daemon knows: one fold, and each fact's news are told, whoever brings the fact."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.inputs import DaemonInputs
from nodemanager.core.model.facts import NodesAnswered
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.world import Guarantee
from nodemanager.core.replay.fold import State, after_fact
from nodemanager.log import Logger
from tests.core.build import world
from tests.fakes.clock import ManualClock
from tests.fakes.journal import MemoryJournal
from tests.fakes.timer import ManualTimer


def context(settings: Any) -> tuple[Context, list[Event], list[Any]]:
    """One, with the events that it logs and the messages that it tells its own actor."""
    clock = ManualClock()
    log = Logger("tests.context")
    events: list[Event] = []
    log.listeners.append(lambda event, level, fields: events.append(event))
    told: list[Any] = []
    made = Context(
        settings=settings,
        inputs=DaemonInputs("m", "apply", Guarantee.CAS, 0.0, Mock(), MemoryJournal(clock)),
        timer=ManualTimer(clock),
        clock=clock,
        log=log,
        actor=lambda: SimpleNamespace(tell=told.append),
    )
    return made, events, told


def test_a_false_clean_that_a_last_look_finds_is_told_like_any_other_u8() -> None:
    """A workflow folds in the cloud's answers, too: it opened the breaker, and told no life."""
    at_work = world(visible_after=0.0, ids_unique=True)
    at_work.add_record("r1", quiet=9000.0)
    at_work.round()
    at_work.free("r1")
    at_work.advance(100.0)
    node = at_work.add_node("r1")
    at_work.round()
    made, events, told = context(at_work.settings)
    made.state = State(history=at_work.history, breaker=at_work.breaker)
    fact = NodesAnswered({node.id: node}, at_work.now)
    after = after_fact(made.state, fact, at_work.settings)
    made.fold(fact)
    assert made.state == after
    assert made.breaker.is_open
    assert events == [Event.BREAKER_OPENED, Event.RECORD_FALSE_CLEAN, Event.INVARIANT_BROKEN]
    assert len(told) == 1
