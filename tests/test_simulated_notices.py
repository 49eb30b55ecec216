"""A simulated cloud takes nodes with notice: none that works is ended for it, others go (D18)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from tests.sampling import first
from tests.simulation.jobs import Rounds, with_scheduler
from tests.simulation.manager import Manager
from tests.simulation.run import play
from tests.simulation.scenario import Scenario, Storm, draw
from tests.simulation.slurm import Dispatching
from tests.simulation.world import World

pytestmark = pytest.mark.slow

TAKEN = ("the cloud takes nodes with notice", "a node reboots", "demand changes")
WORLDS = (range(2), range(2, 4))


def by_pings(seed: int, *, hooks: bool) -> Scenario:
    """A world whose nodes get their jobs from a scheduler that asks only their pings."""
    drawn, rounds = draw(seed, Storm(TAKEN, count=12)), Rounds(30.0, 200.0, drain_hook=hooks)
    shape = with_scheduler(replace(drawn.shape, fenced=False), rounds)
    habits = replace(shape.habits, tells_state=True, dies_every=0.0)
    return replace(drawn, shape=replace(shape, habits=habits), rounds=rounds)


def by_slurm(seed: int) -> Scenario:
    return draw(seed, Storm(TAKEN, count=12, dispatching=Dispatching(15.0, 200.0)))


class Seen:
    """What the plans of a world made of its noticed nodes."""

    def __init__(self) -> None:
        self.reasons: Counter[Reason] = Counter()
        self.orders: Counter[Reason] = Counter()
        self.supply: list[str] = []

    def watch(self, world: World) -> None:
        world.plans.append(self._planned)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        self.orders.update(order.reason for order in plan.shutdowns)
        for view in plan.views:
            if view.record is not None and view.record.notice is not None:
                self.reasons[view.verdict.reason] += 1
                if view.counts and view.node.tags.pool is not None:
                    self.supply.append(f"{plan.plan_id} {view.node.id} {view.verdict.reason}")


@pytest.mark.parametrize("seeds", first(1, WORLDS), ids=str)
@pytest.mark.parametrize("kind", ["with-drain-hooks", "without-drain-hooks", "slurm"])
def test_no_rule_is_broken_and_noticed_nodes_leave(kind: str, seeds: range) -> None:
    seen = Seen()
    for seed in seeds:
        if kind == "slurm":
            scenario = by_slurm(seed)
        else:
            scenario = by_pings(seed, hooks=kind == "with-drain-hooks")
        result = play(scenario, watch=seen.watch)
        assert not result.violations, (seed, [str(one) for one in result.violations])
    assert seen.supply == []
    assert seen.reasons[Reason.LEAVING] > 0
    assert seen.orders[Reason.NOTICED] > 0
