"""The promise holds, too, where operators drain, kill, clean by hand and pause (O1-O4).

What they do is drawn apart from the seed's own faults, so that these worlds are those of the other
runs with people in them.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from nodemanager.actors.messages import (
    CleanByHand,
    DrainNode,
    KillNode,
    PausePool,
    ResumePool,
    RunNode,
)
from nodemanager.core.commands import Reply
from nodemanager.core.marks import FORCIBLE
from nodemanager.core.reasons import Reason
from tests.simulation import faults
from tests.simulation import run as runs
from tests.simulation.run import Result
from tests.simulation.scenario import Scenario
from tests.simulation.world import Pool, World

SEEDS = 16
BROKEN_BY_NAME = frozenset({"C2", "C3", "C5"})
"""The monitors know no operator: what one breaks by name is no finding."""


class People:
    """Operators of every pool of one world, who do something every few minutes of the storm."""

    def __init__(self, world: World, seed: int, told: Counter[str]) -> None:
        self.world, self.random, self.told = world, Random(f"people-{seed}"), told
        for pool in world.pools.values():
            self._later(pool)

    def _later(self, pool: Pool) -> None:
        self.world.engine.after(self.random.uniform(30.0, 400.0), lambda: self._act(pool))

    def _act(self, pool: Pool) -> None:
        if self.world.engine.calm:
            return
        self._later(pool)
        random = self.random
        records = sorted(self.world.registry.rows)
        nodes = sorted(one.id for one in self.world.cloud.living())
        verb = random.choice(("drain", "run", "kill", "clean", "clean", "clean", "pause", "resume"))
        if verb == "clean" and records:
            forced = tuple(random.sample(sorted(FORCIBLE), random.randint(0, len(FORCIBLE))))
            if random.random() < 0.3:
                forced = tuple(FORCIBLE)
            self._say(pool, verb, CleanByHand, random.choice(records), "hand", forced=forced)
        elif verb == "pause":
            self._say(pool, verb, PausePool, "wait")
            self.world.engine.after(
                random.uniform(10.0, 600.0), lambda: self._say(pool, "resume", ResumePool, "go")
            )
        elif verb == "resume":
            self._say(pool, verb, ResumePool, "go")
        elif verb != "clean" and nodes:
            deed = {"drain": DrainNode, "run": RunNode, "kill": KillNode}[verb]
            self._say(pool, verb, deed, random.choice(nodes), "why")

    def go_home(self) -> None:
        """The calm: nothing of theirs stands. What could not be written down is said again."""
        for pool in self.world.pools.values():
            self._insist(pool, ResumePool, "go")
            for node_id in sorted(one.id for one in self.world.cloud.living()):
                self._say(pool, "run", RunNode, node_id, "go")

    def _insist(self, pool: Pool, make: Any, *given: Any) -> None:
        def answered(reply: Reply) -> None:
            if not reply.ok:
                self.world.engine.after(30.0, lambda: self._insist(pool, make, *given))

        assert pool.manager is not None
        pool.manager.daemon.tell(make(*given, by="ann", answered=answered))

    def _say(self, pool: Pool, verb: str, make: Any, *given: Any, **more: Any) -> None:
        def answered(reply: Reply) -> None:
            self.told[f"{verb} {reply.result}"] += 1

        if pool.manager is not None and pool.manager.alive:
            pool.manager.daemon.tell(make(*given, by="ann", answered=answered, **more))


def play(seed: int, monkeypatch: pytest.MonkeyPatch, told: Counter[str]) -> Result:
    """The run of that seed, with people in it."""
    begin, calm = faults.begin, runs.calm
    there: list[People] = []

    def begun(world: World, script: Any) -> None:
        begin(world, script)
        _overlook_what_is_forced(world)
        there.append(People(world, seed, told))

    def calmed(world: World, scenario: Scenario) -> None:
        calm(world, scenario)
        there[0].go_home()

    with monkeypatch.context() as patched:
        patched.setattr(faults, "begin", begun)
        patched.setattr(runs, "calm", calmed)
        return runs.run(seed)


def _overlook_what_is_forced(world: World) -> None:
    violate = world.violate

    def found(rule: str, what: str) -> None:
        if not (rule in BROKEN_BY_NAME and Reason.CLEAN_BY_HAND.value in what):
            violate(rule, what)

    world.violate = found  # type: ignore[method-assign]


def test_no_seed_breaks_a_rule_with_people_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: Counter[str] = Counter()
    for seed in range(SEEDS):
        found = play(seed, monkeypatch, told).violations
        assert not found, (seed, found)
    for verb in ("drain", "kill", "clean"):
        assert told[f"{verb} done"] > 0, told
        assert told[f"{verb} refused"] > 0, told
    assert told["pause done"] > 0, told
