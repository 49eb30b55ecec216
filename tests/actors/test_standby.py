"""A manager that stands by decides and sends nothing (L6)."""

from __future__ import annotations

from nodemanager.actors.messages import Ordered
from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from tests.actors.conftest import MakeRig


def test_a_command_to_a_standby_is_refused(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1)
    machine, _ = rig.fleet.add_node(age=3600.0)
    rig.start(mode="standby")
    said: list[Reply] = []
    command = Command(Verb.KILL, "ann", "broken", machine.node.id)
    rig.system.daemon.tell(Ordered(command, said.append))
    rig.flush()
    assert [(reply.result, reply.reason) for reply in said] == [(Result.REFUSED, Reason.STANDBY)]


def test_a_node_that_ends_is_lost_to_no_standby(make_rig: MakeRig) -> None:
    """It can't know whether the manager with the lease ended it."""
    rig = make_rig(min_nodes=3, max_nodes=3)
    machine, *_ = [rig.fleet.add_node(age=3600.0)[0] for _ in range(3)]
    rig.start(mode="standby")
    rig.turn(120)
    rig.cloud.vanish(machine.node.id)
    rig.turn_until("node.unpaired", within=600)
    rig.turn(600)
    assert rig.lines("node.lost") == []
