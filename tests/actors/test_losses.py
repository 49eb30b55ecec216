"""A node that is lost: one line at WARNING, with its host, what it did, and its slot's fate."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import WorkerState
from tests.actors.conftest import MakeRig
from tests.actors.rig import memory, restart

pytestmark = pytest.mark.slow

HOUR = 3600.0


def test_a_node_that_is_lost_is_told_once_with_its_host_and_what_it_did(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=3, max_nodes=3)
    busy, record = rig.fleet.add_node(age=HOUR)
    for _ in range(2):
        rig.fleet.add_node(age=HOUR)
    rig.start()
    rig.turn(120)
    rig.cloud.vanish(busy.node.id)

    lost = rig.turn_until("node.lost", within=600)

    assert lost["level"] == "warning"
    assert (lost["host"], lost["slot"]) == (record.hostname, record.slot_number)
    assert (lost["node"], lost["record"]) == (busy.node.id, record.uuid)
    assert (lost["was"], lost["slot_kept"]) == ("busy", "within_window")
    assert 0 < lost["idle_s"] < lost["window_s"]
    rig.turn(5 * HOUR)
    assert len(rig.lines("node.lost")) == 1
    assert rig.lines("record.cleaned")


def test_a_node_that_one_listing_lacks_is_not_lost(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=3, max_nodes=3)
    machines = [rig.fleet.add_node(age=HOUR)[0] for _ in range(3)]
    rig.start()
    rig.turn(60)
    hidden = rig.cloud.vanish(machines[0].node.id)
    rig.turn_until("node.unpaired", within=60)
    rig.cloud.machines[hidden.node.id] = hidden
    rig.turn(HOUR)
    assert rig.lines("node.lost") == []


def test_a_node_that_we_end_is_not_lost(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=3)
    for _ in range(2):
        rig.fleet.add_node(age=10 * HOUR)
    rig.fleet.state = WorkerState.IDLE
    rig.start()
    rig.turn(2 * HOUR)
    assert len(rig.lines("node.gone")) == 2
    assert rig.lines("node.lost") == []


def test_a_node_that_no_listing_shows_is_not_lost_while_the_cloud_has_it(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=3, max_nodes=3)
    machines = [rig.fleet.add_node(age=HOUR)[0] for _ in range(3)]
    rig.start()
    rig.turn(60)
    rig.fleet.silent.add(machines[0].node.id)
    machines[0].listed = False
    rig.turn_until("list.suspect", within=3 * HOUR, reason="listing_short")
    assert rig.lines("node.lost") == []


def test_a_node_that_is_lost_while_nobody_looks_is_told_once_over_restarts(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=3, max_nodes=3)
    machine, record = rig.fleet.add_node(age=HOUR)
    for _ in range(2):
        rig.fleet.add_node(age=HOUR)
    rig.start()
    rig.turn(120)
    rig.kill()
    rig.cloud.vanish(machine.node.id)

    rig.start()
    lost = rig.turn_until("node.lost", within=900)

    assert (lost["node"], lost["host"]) == (machine.node.id, record.hostname)
    restart(rig)
    rig.turn(0.5 * HOUR)
    assert rig.lines("node.lost") == []


def test_a_node_that_a_former_run_told_is_not_told_before_its_journal_can_be_read(
    make_rig: MakeRig,
) -> None:
    """One that is lost meanwhile is told once it can."""
    rig = make_rig(min_nodes=3, max_nodes=3)
    machines = [rig.fleet.add_node(age=HOUR)[0] for _ in range(3)]
    journal = memory(rig)
    rig.start()
    rig.turn(120)
    rig.cloud.vanish(machines[0].node.id)
    rig.turn_until("node.lost", within=600)
    rig.kill()
    rig.forget_lines()
    journal.fail()
    rig.start()
    rig.cloud.vanish(machines[1].node.id)
    rig.turn(900)
    assert rig.lines("node.lost") == []
    journal.heal()
    assert rig.turn_until("node.lost", within=600)["node"] == machines[1].node.id
    rig.turn(900)
    assert len(rig.lines("node.lost")) == 1
