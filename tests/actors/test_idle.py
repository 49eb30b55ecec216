"""No working node is destroyed for being idle, whatever came first (D12; the review's N1)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import Job, WorkerState
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.actors.test_operators import Operator

pytestmark = pytest.mark.slow

HOUR = 3600.0
NODES = 8


def waiting(make_rig: MakeRig, *, moment: float = 0.0) -> Rig:
    """Eight nodes that say idle every 30 s, for eight jobs that wait; polls every 30 s."""
    rig = make_rig(min_nodes=0, max_nodes=20)
    rig.jobs = (Job("j", count=NODES),)
    rig.fleet.state = WorkerState.IDLE
    for _ in range(NODES):
        rig.fleet.add_node(age=10 * HOUR)
    rig.turn(17)
    rig.start()
    rig.turn(180 + moment)
    assert len(rig.nodes) == NODES
    return rig


def dispatch(rig: Rig) -> None:
    """The scheduler gives out its jobs: every node works, and says so with its next ping."""
    rig.fleet.state = WorkerState.BUSY
    rig.jobs = ()


@pytest.mark.parametrize("moment", range(0, 30, 3))
def test_nodes_that_were_given_the_jobs_that_demand_fell_by_live(
    make_rig: MakeRig, moment: int
) -> None:
    """Without any fault 6 moments of 10 once cost all eight."""
    rig = waiting(make_rig, moment=moment)
    working = {node.id for node in rig.nodes}
    dispatch(rig)
    rig.turn(300)
    assert working <= {node.id for node in rig.nodes}
    rig.fleet.state = WorkerState.IDLE
    rig.turn(300)
    assert rig.nodes == []


def test_while_no_ping_can_arrive_no_node_is_idle(make_rig: MakeRig) -> None:
    """The nodes' door is down and the database up: all eight were lost once."""
    rig = waiting(make_rig)
    rig.store.probe = lambda: False
    rig.fleet.mute = True
    rig.turn(30)
    dispatch(rig)
    rig.turn(600)
    assert len(rig.nodes) == NODES


def test_a_word_of_110_minutes_ago_is_no_news(make_rig: MakeRig) -> None:
    rig = waiting(make_rig)
    rig.fleet.mute = True
    rig.turn(6600)
    dispatch(rig)
    rig.turn(300)
    assert len(rig.nodes) == NODES


def test_an_operators_drain_believes_no_old_word_either(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1)
    rig.fleet.state = WorkerState.IDLE
    machine, _ = rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(60)
    rig.fleet.mute = True
    rig.turn(6600)
    assert Operator(rig).drain(machine.node.id).ok
    rig.turn(300)
    assert machine.node.id in {node.id for node in rig.nodes}
    rig.fleet.mute = False
    rig.turn(120)
    assert machine.node.id not in {node.id for node in rig.nodes}
