"""The simulated scheduler behaves as a real one where a dispatcher is judged by it (D12, T6)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.scheduling import OURS
from nodemanager.core.model.world import WorkerState
from nodemanager.errors import SchedulerRefused
from tests.simulation.run import play, run
from tests.simulation.scenario import Storm, draw
from tests.simulation.slurm import GIVEN_UP_AFTER_S, Dispatching, draw_dispatching
from tests.simulation.world import World

pytestmark = pytest.mark.slow

SEED = 34
"""A world with a scheduler, of those that tests/test_simulation.py plays."""


SET_ASIDE = Storm(
    (
        "slurm.conf lacks a name",
        "the controller is killed",
        "somebody drains all nodes",
        "all nodes are reserved for maintenance",
    ),
    count=6,
    dispatching=Dispatching(15.0, 200.0),
)


@pytest.mark.parametrize("seed", range(5))
def test_names_that_go_and_nodes_that_are_all_set_aside_break_no_rule(seed: int) -> None:
    result = play(draw(seed, SET_ASIDE))
    assert not result.violations, [str(one) for one in result.violations]


def watched() -> list[World]:
    worlds: list[World] = []
    assert not run(SEED, watch=worlds.append).failed
    return worlds


def test_some_worlds_have_a_scheduler_and_all_their_pools_ask_it() -> None:
    drawn = [seed for seed in range(270) if draw_dispatching(seed) is not None]
    assert 5 < len(drawn) < 30
    for seed in drawn:
        scenario = draw(seed)
        assert all(settings.scheduled for settings, _ in scenario.shape.pools)
        assert scenario.breaks is None


def test_jobs_run_on_its_nodes_and_nodes_drain_and_go() -> None:
    (world,) = watched()
    slurm = world.slurm
    assert slurm is not None
    assert sum(slurm.started.values()) > 5
    assert any(node.features for node in slurm.nodes.values())
    assert len(world.cloud.instances) > len(world.cloud.living())


def test_a_node_is_told_as_it_is_and_obeys() -> None:
    (world,) = watched()
    slurm = world.slurm
    assert slurm is not None
    name, node = next(iter(slurm.nodes.items()))
    node.down, node.drained, node.works_since, node.reserved = None, None, 1.0, False
    told = node.told()
    assert (told.state, told.draining) == (WorkerState.BUSY, False)
    pool = next(iter(world.pools.values()))
    node.pool = pool
    slurm.drain(name, "why")
    assert node.told().reason == f"{OURS}why"
    waiting = pool.wanted
    slurm.mark_down(name, "gone", "test")
    told = node.told()
    assert (told.state, told.draining, pool.wanted) == (WorkerState.DOWN, False, waiting + 1)
    with pytest.raises(SchedulerRefused):
        slurm.drain("nosuch", "why")


def test_a_job_on_a_machine_that_is_lost_waits_again_after_a_while() -> None:
    (world,) = watched()
    slurm, pool = world.slurm, next(iter(world.pools.values()))
    assert slurm is not None
    node = next(node for node in slurm.nodes.values() if node.machine is not None)
    machine = node.machine
    assert machine is not None
    machine.power_off()
    node.down, node.works_since, node.pool = None, world.engine.now, pool
    node.lost_at, waiting = world.engine.now, pool.wanted
    slurm.look()
    assert (node.told().responds, pool.wanted) == (False, waiting)
    node.lost_at = world.engine.now - GIVEN_UP_AFTER_S - 1.0
    slurm.look()
    assert (node.told().state, pool.wanted) == (WorkerState.DOWN, waiting + 1)


def test_a_machine_that_never_joins_and_a_name_that_is_gone_show_in_no_listing() -> None:
    (world,) = watched()
    slurm = world.slurm
    assert slurm is not None
    name, node = next((name, one) for name, one in slurm.nodes.items() if one.machine is not None)
    machine = node.machine
    assert machine is not None
    slurm.take_name(name)
    assert name not in (slurm.listed.names or ())
    with pytest.raises(SchedulerRefused):
        slurm.drain(name, "why")
    slurm.give_name_back(name)
    slurm.deaf.add(machine.instance.id)
    (told,) = (one for one in slurm.listing() if one.name == name)
    assert (told.state, told.responds) == (WorkerState.UNKNOWN, False)
