"""A node whose cloud will take it, from its ping to its end, in the whole daemon (D18)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import WorkerState
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, restart

pytestmark = pytest.mark.slow

HOUR = 3600.0
SPOT = {"notice": "spot", "notice_at": "2030-01-01T00:00:00Z"}


def noticed(make_rig: MakeRig, *, hooks: bool = True) -> tuple[Rig, str]:
    """One busy node that min_nodes wants, of which its cloud says that it will take it."""
    rig = make_rig(min_nodes=1)
    rig.fleet.state, rig.fleet.drain_hooks = WorkerState.BUSY, hooks
    machine, _ = rig.fleet.add_node(age=10 * HOUR)
    rig.start().turn(120)
    assert len(rig.nodes) == 1
    rig.fleet.notices[machine.node.id] = SPOT
    return rig, machine.node.id


def actions(rig: Rig) -> list[object]:
    return [line["action"] for line in rig.lines("node.drain")]


def test_a_busy_node_keeps_its_job_is_replaced_and_goes_once_the_job_is_done(
    make_rig: MakeRig,
) -> None:
    rig, node = noticed(make_rig)
    line = rig.turn_until("node.notice", within=120, node=node)
    assert (line["action"], line["cause"]) == ("given", "spot")
    assert line["until"] == "2030-01-01T00:00:00.000Z"
    rig.turn(60)
    assert actions(rig) == ["drain"]
    assert rig.lines("node.setup_started")
    rig.turn(HOUR)
    assert node in {one.id for one in rig.nodes}
    assert rig.reasons("node.keep", node=node)[-1] == "leaving"
    assert len(rig.lines("node.notice")) == 1
    assert rig.summary()["draining"] == 1
    rig.cloud.destroy_takes = 90.0
    rig.fleet.states[node] = WorkerState.IDLE
    started = rig.turn_until("node.shutdown_started", within=300)
    assert (started["node"], started["reason"]) == (node, "noticed")
    rig.turn(300)
    assert len(rig.nodes) == 1
    assert node not in {one.id for one in rig.nodes}
    assert len(rig.lines("node.notice")) == 1
    assert rig.violations() == []


def test_a_notice_that_is_taken_back_is_told_and_the_node_gets_work_again(
    make_rig: MakeRig,
) -> None:
    rig, node = noticed(make_rig)
    rig.turn_until("node.drain", within=180, node=node)
    rig.fleet.notices[node] = {"notice": "none"}
    line = rig.turn_until("node.notice", within=120, action="withdrawn")
    assert (line["node"], line["cause"]) == (node, "spot")
    rig.turn(120)
    assert actions(rig) == ["drain", "resume"]
    assert rig.reasons("node.keep", node=node)[-1] == "busy"


def test_it_stands_over_a_restart_and_while_the_node_can_read_nothing(make_rig: MakeRig) -> None:
    rig, node = noticed(make_rig)
    rig.turn_until("node.notice", within=120, node=node)
    rig.fleet.notices[node] = {}
    restart(rig)
    rig.turn(300)
    assert rig.reasons("node.keep", node=node)[-1] == "leaving"
    assert [line["action"] for line in rig.lines("node.notice")] == ["given"]
