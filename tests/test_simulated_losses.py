"""Nodes of simulated worlds end at work, and nothing else goes wrong: each is told as lost."""

from __future__ import annotations

import pytest

from nodemanager.core.model.reasons import Event
from tests.sampling import first
from tests.simulation.manager import Manager
from tests.simulation.mutants import LOSING
from tests.simulation.run import run
from tests.simulation.world import World

pytestmark = pytest.mark.slow

WORLDS = (range(18, 21), range(9, 13))


@pytest.mark.parametrize("seeds", first(1, WORLDS), ids=str)
def test_each_node_that_ends_at_work_is_told_as_lost_where_nothing_else_goes_wrong(
    seeds: range,
) -> None:
    """By the monitor of losses, which every simulated world has."""
    told = []

    def logged(manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is Event.NODE_LOST:
            told.append(fields["node"])

    def watch(world: World) -> None:
        world.events.append(logged)

    for seed in seeds:
        assert run(seed, storm=LOSING, watch=watch).violations == []
    assert len(told) > 10 * len(seeds) / 2
