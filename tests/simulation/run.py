"""One run of one seed: storm, then calm, then what was found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace

import mock

from nodemanager.actors.daemon import decisions
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan, plan
from tests.simulation import faults, health
from tests.simulation.aftermath import Aftermath
from tests.simulation.boot_loops import BootLoops
from tests.simulation.causes import Causes
from tests.simulation.cleans import CleanRules
from tests.simulation.closings import Closings
from tests.simulation.creates import CreateRules
from tests.simulation.debts import Debtor, Debts
from tests.simulation.dispatches import Dispatches
from tests.simulation.engine import START
from tests.simulation.faults import Fault
from tests.simulation.jobs import Scheduler
from tests.simulation.joins import Joins
from tests.simulation.latch import Latch
from tests.simulation.liveness import Calm, Liveness
from tests.simulation.losses import Losses
from tests.simulation.manager import Manager
from tests.simulation.nodes import NodeRules
from tests.simulation.people import People
from tests.simulation.progress import Progress
from tests.simulation.queue_order import QueueOrder
from tests.simulation.rotations import RotationRules
from tests.simulation.scenario import Scenario, Storm, draw
from tests.simulation.seat_order import SeatOrder
from tests.simulation.seat_rules import SeatRules
from tests.simulation.sends import Sends
from tests.simulation.setups import SetUpRules
from tests.simulation.standing import StandingOrders
from tests.simulation.told import Told
from tests.simulation.truth import Truth
from tests.simulation.work import Work
from tests.simulation.world import Pool, Violation, World

LOOK_EVERY_S = 15.0
TAKES_OVER_S = 300.0
CALM_S = 300.0
"""The calm lasts this long at least, and at most:"""
CALM_LIMIT_S = 6000.0
"""Or until all is due that was owed by then: a backlog freed one by one may take longer."""
HELD = 0.05
"""In so many worlds each plan is held against the one that takes over nothing."""


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
    storm: Storm | None = None,
    without: Collection[int] = (),
    verbose: bool = False,
    enough: Callable[[str], bool] | None = None,
    watch: Callable[[World], object] | None = None,
    leased: bool = False,
) -> Result:
    """Play the seed's scenario, or that storm in its world, without the faults of those numbers.

    It ends at the first violation of a rule of which `enough` says so. `watch` is given the world
    before anything happens in it. With `leased` it is the seed's world of several managers.
    """
    return play(
        draw(seed, storm, leased=leased),
        without=without,
        verbose=verbose,
        enough=enough,
        watch=watch,
    )


def play(
    scenario: Scenario,
    *,
    without: Collection[int] = (),
    verbose: bool = False,
    enough: Callable[[str], bool] | None = None,
    watch: Callable[[World], object] | None = None,
) -> Result:
    script = tuple(one for one in scenario.script if one.number not in without)
    scenario = replace(scenario, script=script)
    world = World(str(scenario.seed), scenario.shape, verbose=verbose)
    if enough is not None:
        world.enough = enough
    if watch is not None:
        watch(world)
    secrets = SimpleNamespace(token_hex=world.token_hex)
    is_held = Random(f"{scenario.seed}/whole").random() < HELD
    with (
        mock.patch.object(decisions, "secrets", secrets),
        mock.patch.object(decisions, "plan", _held(world) if is_held else plan),
    ):
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


def _held(world: World) -> Callable[..., Plan]:
    """Decides, and holds each plan against the one that takes over nothing from the plan before."""

    def held(
        snapshot: Snapshot, settings: Settings, *, new_records: bool, before: Plan | None
    ) -> Plan:
        made = plan(snapshot, settings, new_records=new_records, before=before)
        if made != plan(snapshot, settings, new_records=new_records):
            world.violate("L4", f"plan {made.plan_id} is another one by what it takes over")
        return made

    return held


def _play(world: World, scenario: Scenario) -> None:
    engine = world.engine
    world.may_break = scenario.breaks
    world.cloud.obeys_a2 = scenario.breaks != "A2"
    told = Told(world)
    truth = Truth(world, told)
    cleans = CleanRules(world, told, truth)
    fair = Calm(world)
    Sends(world)
    Closings(world, told, truth)
    if world.controller is None:
        watched = _watched(world, scenario, told, truth, cleans, fair)
    else:
        BootLoops(world, told)
        SeatOrder(world, world.controller, told)
        latch = Latch(world, truth, fair)
        orders = StandingOrders(world, told)
        watched = (
            fair,
            latch,
            Liveness(world, truth, fair, latch),
            SeatRules(world, world.controller, orders, fair, latch),
        )
        world.controller.begin()
    if world.shape.operators_every:
        People(world, world.shape.operators_every)
    world.inherit()
    world.users()
    if scenario.rounds is not None:
        Scheduler(world, scenario.rounds)
    for pool in world.pools.values():
        world.start_again(pool)
    faults.begin(world, scenario.script)
    engine.run(START + scenario.stormy)
    if engine.halted:
        return
    world.note("== calm")
    calm(world, scenario)
    fair.begin()
    debts = Debts(world)
    begun = engine.now
    limit = begun + CALM_LIMIT_S
    if world.controller is not None and world.controller.seated.max_total_price > 0:
        # The jobs of a price take turns.
        limit += CALM_LIMIT_S
    while engine.now < max(limit, debts.due_by(limit)) and not world.violations:
        engine.run(engine.now + LOOK_EVERY_S)
        if not world.shape.proven:
            # No bound where an adapter may not authorise cleans (L2).
            return
        paid = debts.look(owed for one in watched for owed in one.owed())
        if paid and engine.now > begun + CALM_S:
            return
    if not world.violations:
        debts.end()


def _watched(
    world: World,
    scenario: Scenario,
    told: Told,
    truth: Truth,
    cleans: CleanRules,
    fair: Calm,
) -> tuple[Debtor, ...]:
    """The monitors of a world whose nodes ping."""
    rules = NodeRules(world, told, cleans)
    CreateRules(world, truth)
    losses = Losses(world, fair, scenario)
    loops = BootLoops(world, told)
    causes = Causes(world, told, StandingOrders(world, told))
    setups = SetUpRules(world, told)
    QueueOrder(world, told, causes, loops, setups)
    if world.slurm is None:
        Work(world, told, rules)
    rotated = RotationRules(world, rules)
    latch = Latch(world, truth, fair)
    dispatch: tuple[Debtor, ...] = ()
    if world.slurm is not None:
        dispatch = (
            Dispatches(world, rules, truth, fair, latch),
            Joins(world, rules, fair, latch),
        )
    return (
        fair,
        latch,
        Liveness(world, truth, fair, latch),
        Progress(world, truth, fair, latch, setups, rotated, loops),
        Aftermath(world, told),
        losses,
        *dispatch,
    )


def calm(world: World, scenario: Scenario) -> None:
    """All faults are over: every manager runs, with the lease, and operators have looked."""
    world.engine.calm = True
    world.weather.watchers.clear()
    for pool in world.pools.values():
        if pool.hosts:
            # Who acts then is told what operators say.
            _one_acts(world, pool)
    for end_of_it in world.calms:
        end_of_it()
    for node in world.cloud.living():
        if node.twin:
            # The end of an ambiguity: an operator was told, and looked.
            world.cloud.end(node)
    if world.slurm is not None:
        # A node without a record that gets work goes only once somebody drains it (D7).
        for pool in world.pools.values():
            for one in health.ward(world, pool).of(health.Health.UNPAIRED):
                world.slurm.retire(one.node.machine)
    for pool in world.pools.values():
        manager = pool.manager
        restarts = scenario.restart_after and not pool.hosts
        stops = manager is not None and (restarts or manager.stopping)
        if manager is not None and manager.alive and stops:
            manager.kill()
        elif manager is not None:
            manager.wake()
        world.start_again(pool)
        # Else nodes would be replaced for their age for ever.
        pool.settings = replace(pool.settings, hold_backlog=False, max_node_age=None)
        assert pool.manager is not None
        pool.manager.reload(pool.settings)
        for name in pool.held():
            faults.release(world, pool, name)


def _one_acts(world: World, pool: Pool) -> None:
    """All of its hosts run and reach the database; let one of them act."""
    pool.leases.is_up = True
    for host in pool.hosts:
        host.cut_off = False
        if host.manager is not None:
            host.manager.wake()
    world.start_again(pool)
    limit = world.engine.now + TAKES_OVER_S
    while world.engine.now < limit and not _acts(pool.manager):
        world.engine.run(world.engine.now + 1.0)


def _acts(manager: Manager | None) -> bool:
    return manager is not None and manager.alive and manager.lease and not manager.stopping


def end(world: World) -> None:
    """Free the threads that wait in handlers."""
    for manager in world.managers.values():
        if manager.alive:
            manager.kill()
    for pool in world.pools.values():
        pool.journal.close()
