"""A record keeps pinging while no listing shows its node: the cloud is asked for it (P6)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import NO_TAGS, Record
from nodemanager.core.observe.facts import NodesAnswered, TagsAnswered
from nodemanager.errors import CloudError
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, memory, until
from tests.fakes.cloud import Machine
from tests.fakes.script import fail, first

pytestmark = pytest.mark.slow

HOUR = 3600.0


def paired(rig: Rig) -> tuple[Machine, Record]:
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(60)
    assert rig.lines("node.paired", record=record.uuid)
    return machine, record


def test_a_node_of_ours_that_the_listing_hides_makes_it_suspect_and_nothing_is_freed(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(backlog="clean", max_nodes=1, min_nodes=1)
    machine, record = paired(rig)
    leaked = rig.store.add_leaked(9, quiet_for=1.5 * HOUR)
    machine.listed = False
    suspect = until(rig, "list.suspect", within=300)
    assert suspect["reason"] == "listing_short"
    assert (suspect["source"], suspect["record"]) == ("cloud", record.uuid)
    assert suspect["node"] == machine.node.id
    rig.turn(HOUR)
    assert not rig.lines("record.cleaned")
    assert "listing_short" in rig.reasons("record.keep", record=record.uuid)
    assert rig.reasons("record.keep", record=leaked.uuid)[-1] == "listing_short"
    assert len(rig.lines("list.suspect")) == 1
    assert not rig.lines("node.setup_started")
    machine.listed = True
    until(rig, "record.cleaned", within=600, record=leaked.uuid)


def test_all_nodes_that_the_listing_hides_are_named_ten_at_the_most(make_rig: MakeRig) -> None:
    """The filter may be wrong for many at once, and the answers come one by one."""
    rig = make_rig(backlog="clean", max_nodes=44, min_nodes=44)
    machines = [rig.fleet.add_node(age=10 * HOUR)[0] for _ in range(44)]
    ids = [machine.node.id for machine in machines]
    rig.start()
    rig.turn(60)
    machines[0].listed = machines[1].listed = False
    rig.turn(600)
    lines = rig.lines("list.suspect")
    assert (lines[0]["node"], lines[0]["record"]) == (ids[0], machines[0].node.tags.record)
    assert (list(lines[-1]["unlisted"]), lines[-1]["more"]) == (ids[:2], None)
    for machine in machines[:13]:
        machine.listed = False
    rig.turn(900)
    lines = rig.lines("list.suspect")
    assert (list(lines[-1]["unlisted"]), lines[-1]["more"]) == (ids[:10], 3)
    assert len(lines) <= 6
    rig.turn(900)
    assert rig.lines("list.suspect") == lines


def test_it_is_asked_for_ever_more_rarely(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    machine, _ = paired(rig)
    machine.listed = False
    for _ in range(12):
        rig.turn(HOUR / 12)
    assert 8 <= rig.cloud.calls["ask"] <= 20
    assert rig.cloud.calls["list_nodes"] > 100


def test_a_node_of_ours_whose_tags_are_lost_is_found_by_id_and_its_record_kept(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(backlog="clean")
    machine, record = paired(rig)
    leaked = rig.store.add_leaked(9, quiet_for=3 * HOUR)
    machine.listed = False
    rig.cloud.change(machine.node.id, tags=NO_TAGS)
    told = until(rig, "record.pinging_unlisted", within=300)
    assert (told["reason"], told["record"]) == ("untagged", record.uuid)
    until(rig, "record.cleaned", within=600, record=leaked.uuid)
    assert not rig.lines("list.suspect")


def test_a_node_of_ours_that_falls_silent_while_no_listing_shows_it_is_ended_d13(
    make_rig: MakeRig,
) -> None:
    """The cloud shows it, asked by its id: it goes as if it were listed, and then the slot."""
    rig = make_rig(backlog="clean", min_nodes=0)
    machine, record = paired(rig)
    machine.listed, rig.fleet.mute = False, True
    started = until(rig, "node.shutdown_started", within=3 * HOUR)
    assert (started["node"], started["reason"]) == (machine.node.id, "node_down")
    until(rig, "record.cleaned", within=900, record=record.uuid)
    assert machine.node.id not in {one.id for one in rig.nodes}


def test_one_that_the_cloud_denies_is_told_and_kept(make_rig: MakeRig) -> None:
    """Who pings there is no node that the cloud knows."""
    rig = make_rig(backlog="clean")
    machine, record = paired(rig)
    rig.cloud.vanish(machine.node.id)
    secret = rig.store.rows[record.uuid].ping_secret
    assert secret is not None
    for _ in range(20):
        rig.turn(30)
        rig.store.ping(record.uuid, secret, instance_id=machine.node.id)
    (told,) = rig.lines("record.pinging_unlisted")
    assert (told["reason"], told["record"]) == ("pinging_unlisted", record.uuid)
    assert rig.reasons("record.keep", record=record.uuid)[-1] == "pinging_unlisted"
    assert not rig.lines("list.suspect")
    assert not rig.lines("record.cleaned")
    rig.turn(3 * HOUR)
    assert rig.lines("record.cleaned", record=record.uuid)


def test_an_answer_is_as_old_as_its_question(make_rig: MakeRig) -> None:
    """P6: the cloud takes 40 s to answer, and may have said it at once."""
    rig = make_rig(backlog="clean")
    machine, record = paired(rig)
    rig.cloud.vanish(machine.node.id)
    for question in ("ask", "find_by_record"):
        rig.cloud.always(question, first(lambda: rig.clock.advance(40.0)))
    assert record.ping_secret is not None
    for _ in range(10):
        rig.turn(30)
        rig.store.ping(record.uuid, record.ping_secret, instance_id=machine.node.id)
    told = [one for one in memory(rig).entries if isinstance(one, (NodesAnswered, TagsAnswered))]
    assert {type(one) for one in told} == {NodesAnswered, TagsAnswered}
    assert all(one.asked_at is not None and one.at - one.asked_at >= 40.0 for one in told)


def test_one_that_no_listing_and_no_ping_named_is_asked_for_by_tag_alone(make_rig: MakeRig) -> None:
    rig = make_rig(backlog="clean")
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    rig.store.put(record.uuid, instance_id=None)
    rig.fleet.silent.add(machine.node.id)
    secret = record.ping_secret
    assert secret is not None
    machine.listed = False
    rig.start()
    rig.turn(60)
    for _ in range(10):
        rig.store.ping(record.uuid, secret)
        rig.turn(30)
    (suspect,) = rig.lines("list.suspect")
    assert (suspect["record"], suspect["node"]) == (record.uuid, machine.node.id)
    assert rig.cloud.calls["ask"] == 0
    assert rig.cloud.calls["find_by_record"] >= 1


def test_a_question_without_an_answer_says_nothing(make_rig: MakeRig) -> None:
    """L1."""
    rig = make_rig(backlog="clean")
    machine, _ = paired(rig)
    machine.listed = False
    rig.cloud.always("ask", fail(CloudError("timeout")))
    rig.cloud.always("find_by_record", fail(CloudError("timeout")))
    rig.turn(600)
    assert rig.cloud.calls["ask"] >= 2
    assert not rig.lines("list.suspect")
    assert not rig.lines("record.pinging_unlisted")


@pytest.mark.parametrize("what", ["gone-at-once", "silent-before"])
def test_one_that_is_gone_is_asked_for_until_it_is_denied_twice(
    make_rig: MakeRig, what: str
) -> None:
    rig = make_rig(backlog="clean")
    machine, _ = paired(rig)
    if what == "silent-before":
        rig.fleet.silent.add(machine.node.id)
        rig.turn(60)
    rig.cloud.vanish(machine.node.id)
    rig.turn(900)
    assert rig.cloud.calls["ask"] == 2
    assert not rig.lines("list.suspect")
    assert len(rig.lines("node.lost")) == 1
