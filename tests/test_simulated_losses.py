"""Nodes of simulated worlds end at work, and nothing else goes wrong: each is told as lost."""

from __future__ import annotations

import pytest

from nodemanager.core.model.reasons import Event
from tests.simulation.manager import Manager
from tests.simulation.mutants import LOSING
from tests.simulation.run import run
from tests.simulation.world import World

pytestmark = pytest.mark.slow

SEEDS = range(6, 13)


def test_each_node_that_ends_at_work_is_told_as_lost_where_nothing_else_goes_wrong() -> None:
    """By the monitor of losses, which every simulated world has."""
    told = []

    def logged(manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is Event.NODE_LOST:
            told.append(fields["node"])

    def watch(world: World) -> None:
        world.events.append(logged)

    for seed in SEEDS:
        assert run(seed, storm=LOSING, watch=watch).violations == []
    assert len(told) > 10 * len(SEEDS) / 2
