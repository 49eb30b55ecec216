"""A standby tells where it decides otherwise than the manager that acts (L6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nodemanager.actors.daemon.remembered import JsonScalar
from nodemanager.app.comparison import Comparison
from nodemanager.core.explain import differs
from nodemanager.core.explain.explain import APPLY, STANDBY, DecisionView
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.scheduling import SchedulerVerb
from nodemanager.core.model.world import WorkerState
from nodemanager.core.safety.lease import LeaseRole, LeaseView
from nodemanager.errors import StartError
from nodemanager.lib import log
from tests.core.build import World
from tests.core.nodes import pool_of
from tests.fakes.clock import ManualClock


@dataclass
class Facts:
    """What the managers of a pool tell each other, in memory."""

    kept: dict[str, JsonScalar] = field(default_factory=dict)
    fails: bool = False
    shown: str = "a test's memory"

    def recall(self, name: str) -> JsonScalar:
        if self.fails:
            raise StartError("connection refused")
        return self.kept.get(name)

    def remember(self, name: str, value: JsonScalar) -> None:
        if self.fails:
            raise StartError("connection refused")
        self.kept[name] = value


class Managers:
    """One that acts and one that stands by, over one pool whose record `r0` is stale for one."""

    def __init__(self) -> None:
        self.facts, self.clock = Facts(), ManualClock()
        self.said: list[Mapping[str, Any]] = []
        self.log = log.get("nodemanager.test")
        self.log.listeners.append(self._hear)
        self.acts = self._one(LeaseRole.ACTIVE)
        self.stands_by = self._one(LeaseRole.STANDBY)

    def _hear(self, event: Event, level: int, fields: Mapping[str, Any]) -> None:
        assert event is Event.LEASE_DIFFERS
        self.said.append(fields)

    def _one(self, role: LeaseRole) -> Comparison:
        view = LeaseView(role, "one", 3)
        return Comparison(self.facts, lambda: view, every_s=1.0, clock=self.clock, log=self.log)

    def decide(self, there: World, here: World, seconds: float = 0.0) -> list[Mapping[str, Any]]:
        """Both decide, now and after so long; what the standby's log has of that."""
        self.said.clear()
        for wait_s in (0.0, seconds) if seconds else (0.0,):
            self.clock.advance(wait_s)
            self.acts.take(decision(there, APPLY))
            self.acts.exchange()
            self.stands_by.exchange()
            self.stands_by.take(decision(here, STANDBY))
        return list(self.said)


def decision(made: World, mode: str) -> DecisionView:
    return DecisionView(made.decided, made.last, made.settings, mode)


def leaking(window: float) -> World:
    """Two nodes of which one is gone, an hour ago."""
    made = pool_of(2, node_stale_after=window)
    made.drop_node("i-r0")
    for _ in range(60):
        made.advance(60.0)
        made.ping("r1", WorkerState.BUSY)
        made.round()
    return made


@pytest.fixture
def managers() -> Managers:
    return Managers()


def test_the_options_that_differ_are_told_once_and_again_once_they_change(
    managers: Managers,
) -> None:
    there, here = pool_of(2), pool_of(2, settle=90.0)
    (line,) = managers.decide(there, here)
    assert line == {
        "holder": "one",
        "option": "settle",
        "here": "90.0",
        "there": repr(there.settings.settle),
    }
    assert managers.decide(there, here) == []
    assert len(managers.decide(there, pool_of(2, settle=100.0))) == 1


def test_an_order_that_the_other_does_not_give_is_told_once_it_has_lasted(
    managers: Managers,
) -> None:
    there, here = leaking(7200.0), leaking(1800.0)
    assert [one.uuid for one in here.last.cleans] == ["r0"]
    here.settings = replace(here.settings, node_stale_after=7200.0)
    assert managers.decide(there, here, there.settings.poll_stale_after - 1.0) == []
    (line,) = managers.decide(there, here, 2.0)
    assert (line["record"], line["here"], line["there"]) == ("r0", "stale_slot", None)
    assert managers.decide(there, here, 3600.0) == []
    assert managers.decide(there, there) == []
    assert len(managers.decide(there, here, there.settings.poll_stale_after + 1.0)) == 1


def test_what_the_other_frees_and_we_would_keep_is_told_with_our_reason(
    managers: Managers,
) -> None:
    there, here = leaking(1800.0), leaking(7200.0)
    there.settings = here.settings
    (line,) = managers.decide(there, here, there.settings.poll_stale_after + 1.0)
    assert (line["record"], line["here"], line["there"]) == ("r0", "within_window", "stale_slot")


@pytest.mark.parametrize("flag", ["holds", "paused", "token", "text", "depth"])
def test_nothing_is_told_of_what_an_operator_marked_or_while_the_other_rests(
    managers: Managers, flag: str
) -> None:
    there, here = leaking(7200.0), leaking(1800.0)
    here.settings = there.settings
    told = differs.decided(decision(there, APPLY), 3)
    changed = {
        "holds": replace(told, marked=("r0",)).to_text(),
        "paused": replace(told, rests=True).to_text(),
        "token": replace(told, token=2).to_text(),
        "text": told.to_text().replace('"orders":{}', '"orders":5'),
        "depth": "[" * 100_000,
    }
    managers.facts.kept["decided"] = changed[flag]
    for _ in range(3):
        managers.clock.advance(there.settings.poll_stale_after)
        managers.stands_by.exchange()
        managers.stands_by.take(decision(here, STANDBY))
    assert managers.said == []


def test_options_alike_are_told_alike_whatever_process_tells_them() -> None:
    """The order of a set differs between two processes."""
    made = pool_of(2, scheduler_can=frozenset(SchedulerVerb))
    told = differs.decided(decision(made, APPLY), 3).options["scheduler_can"]
    assert told == repr(sorted(SchedulerVerb))


def test_a_database_that_does_not_answer_is_no_reason_to_end(managers: Managers) -> None:
    there, here = pool_of(2), pool_of(2, settle=90.0)
    managers.facts.fails = True
    assert managers.decide(there, here) == []
    managers.facts.fails = False
    assert len(managers.decide(there, here)) == 1
