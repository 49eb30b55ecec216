"""One run of one seed: storm, then calm, then what was found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from unittest import mock

from nodemanager.actors import setup_desk
from nodemanager.core import breaker as breakers
from tests.simulation import faults
from tests.simulation.aftermath import Aftermath
from tests.simulation.cleans import CleanRules
from tests.simulation.engine import START
from tests.simulation.faults import Fault
from tests.simulation.liveness import Liveness
from tests.simulation.nodes import NodeRules
from tests.simulation.scenario import Scenario, draw
from tests.simulation.told import Told
from tests.simulation.truth import Truth
from tests.simulation.world import Violation, World

LOOK_EVERY_S = 15.0
CALM_LIMIT_S = 6000.0


@dataclass
class Result:
    """What one run came to. `digest` is the same for the same run."""

    scenario: Scenario
    violations: list[Violation]
    broken: dict[str, float]
    digest: str
    steps: int
    plans: int
    seconds: float
    trace: list[str] = field(default_factory=list)
    faults: tuple[Fault, ...] = ()

    @property
    def failed(self) -> bool:
        return bool(self.violations)

    @property
    def label(self) -> str:
        broken = ", ".join(sorted(self.broken))
        return f"broke {broken}" if broken else "respected A1-A5"


def run(
    seed: int,
    *,
    without: Collection[int] = (),
    verbose: bool = False,
    enough: Callable[[str], bool] | None = None,
) -> Result:
    """Play the seed's scenario, without the faults of those numbers.

    It ends at the first violation of a rule of which `enough` says so.
    """
    return play(draw(seed), without=without, verbose=verbose, enough=enough)


def play(
    scenario: Scenario,
    *,
    without: Collection[int] = (),
    verbose: bool = False,
    enough: Callable[[str], bool] | None = None,
) -> Result:
    script = tuple(one for one in scenario.script if one.number not in without)
    scenario = replace(scenario, script=script)
    world = World(str(scenario.seed), scenario.shape, verbose=verbose)
    if enough is not None:
        world.enough = enough
    with mock.patch.object(setup_desk, "secrets", SimpleNamespace(token_hex=world.token_hex)):
        _play(world, scenario)
    digest = hashlib.sha256(
        repr((world.engine.steps, world.weather.calls, world.registry.rows)).encode()
    ).hexdigest()[:16]
    result = Result(
        scenario,
        world.violations,
        world.broken,
        digest,
        world.engine.steps,
        world.planned_count,
        world.engine.now - START,
        world.trace,
        script,
    )
    end(world)
    return result


def _play(world: World, scenario: Scenario) -> None:
    engine = world.engine
    world.cloud.obeys_a2 = scenario.breaks != "A2"
    told = Told(world)
    truth = Truth(world, told)
    NodeRules(world, told, CleanRules(world, told, truth))
    liveness = Liveness(world, truth)
    aftermath = Aftermath(world, told)
    world.inherit()
    world.users()
    for pool in world.pools.values():
        world.start(pool)
    faults.begin(world, scenario.script)
    engine.run(START + scenario.stormy)
    if engine.halted:
        return
    world.note("== calm")
    calm(world, scenario)
    liveness.begin()
    until = engine.now + CALM_LIMIT_S
    looked_at_breakers = engine.now + 300.0
    while engine.now < until and not world.violations:
        engine.run(engine.now + LOOK_EVERY_S)
        if not world.shape.proven:
            # No bound where an adapter may not authorise cleans (L2).
            return
        settled = aftermath.check()
        if liveness.check() and settled and engine.now > looked_at_breakers:
            return
        if engine.now > looked_at_breakers:
            reset_breakers(world)


def calm(world: World, scenario: Scenario) -> None:
    """All faults are over: every manager runs, with the lease, and operators have looked."""
    world.engine.calm = True
    world.weather.watchers.clear()
    for node in world.cloud.living():
        if node.twin:
            # The end of an ambiguity: an operator was told, and looked.
            world.cloud.end(node)
    for pool in world.pools.values():
        manager = pool.manager
        if manager is not None and manager.alive and scenario.restart_after:
            manager.kill()
        elif manager is not None:
            manager.wake()
        faults.restart(world, pool)
        pool.settings = replace(pool.settings, hold_backlog=False)
        assert pool.manager is not None
        pool.manager.reload(pool.settings)
        for hold in pool.journal.holds():
            faults.release(pool, hold.id)


def reset_breakers(world: World) -> None:
    """An operator looked at an open breaker, and closes it for the manager's next start."""
    for pool in world.pools.values():
        manager = pool.manager
        assert manager is not None
        if world.open_breakers.get(manager.name):
            manager.kill()
            stored = pool.journal.breaker()
            if stored is not None:
                pool.journal.save_breaker(breakers.closed(stored))
            world.start(pool)


def end(world: World) -> None:
    """Free the threads that wait in handlers."""
    for manager in world.managers.values():
        if manager.alive:
            manager.kill()
