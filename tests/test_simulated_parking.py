"""Operators park simulated pools: they empty and boot nothing, over every kill (O7)."""

from __future__ import annotations

from collections import Counter

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from tests.cases import cases
from tests.sampling import first
from tests.simulation.manager import Manager
from tests.simulation.run import play
from tests.simulation.scenario import Storm, draw
from tests.simulation.slurm import Dispatching
from tests.simulation.world import World

pytestmark = pytest.mark.slow

PARKED = ("an operator parks the pool", "manager killed", "demand changes", "a node is stopped")
WORLDS = ((0, 11), (1, 2, 13))


class Seen:
    """What the plans of a world decided for the parking, by reason."""

    def __init__(self) -> None:
        self.reasons: Counter[Reason] = Counter()

    def watch(self, world: World) -> None:
        world.plans.append(self._planned)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        self.reasons.update(order.reason for order in plan.shutdowns)
        self.reasons.update(view.verdict.reason for view in plan.views)
        if plan.wants is not None:
            self.reasons.update(reason for _, reason in plan.wants.refused)


@pytest.mark.parametrize("seeds", first(1, WORLDS), ids=str)
@cases("dispatching", {"by-pings": None, "slurm": Dispatching(15.0, 200.0)})
def test_no_rule_is_broken_and_parked_pools_empty(
    dispatching: Dispatching | None, seeds: tuple[int, ...]
) -> None:
    seen = Seen()
    for seed in seeds:
        scenario = draw(seed, Storm(PARKED, count=12, dispatching=dispatching))
        result = play(scenario, watch=seen.watch)
        assert not result.violations, (seed, [str(one) for one in result.violations])
    for reason in (Reason.PARKED, Reason.PARKING, Reason.POOL_PARKED):
        assert seen.reasons[reason] > 0, reason
