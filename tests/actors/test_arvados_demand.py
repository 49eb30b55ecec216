"""The containers of an Arvados server as demand, from its API to the boot."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import WorkerState
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.records.arvados_servers import ERRORS, Reply, ScriptedApi, scripted
from tests.schedulers.arvados_queues import GIB, QueueServer, container, uuid_of

pytestmark = pytest.mark.socket

__all__ = ["scripted"]


@pytest.fixture
def server(scripted: ScriptedApi) -> QueueServer:
    return QueueServer(scripted)


@pytest.fixture
def rig(make_rig: MakeRig, server: QueueServer, monkeypatch: pytest.MonkeyPatch) -> Rig:
    rig = make_rig(max_nodes=4)
    rig.jobs = ()
    rig.fleet.state = WorkerState.IDLE
    monkeypatch.setattr(rig, "_wishlist", server.queue(jobs=False).queue)
    return rig


def test_a_waiting_container_boots_a_node_and_one_that_none_can_run_is_told_by_its_uuid_u12(
    rig: Rig, server: QueueServer
) -> None:
    huge = {"vcpus": 512, "ram": 4096 * GIB}
    server.items["containers"] = [container(1), container(2, runtime_constraints=huge)]
    rig.start()
    rig.turn(600)
    assert len(rig.nodes) == 1
    (told,) = rig.lines("job.unsatisfiable")
    assert (told["job"], told["reason"]) == (uuid_of("containers", 2), "no_fitting_size")


def test_while_the_server_does_not_answer_nothing_is_booted_and_nothing_goes(
    rig: Rig, server: QueueServer
) -> None:
    server.items["containers"] = [container(1)]
    rig.start()
    rig.turn(600)
    server.fails = Reply(ERRORS, 503)
    server.items["containers"] = [container(1), container(2)]
    rig.turn(1800)
    assert len(rig.nodes) == 1
    assert {line["source"] for line in rig.lines("list.failed")} == {"demand"}
    server.fails = None
    rig.turn(900)
    assert len(rig.nodes) == 2
