"""Somebody pings who has a record's secret, and not its node or its id (P1a, P6, U8)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import CloudNode, Guarantee, Record, WorkerState
from nodemanager.errors import CloudError, Conflict, MalformedId, StoreError
from tests.actors.conftest import HOUR, MakeRig
from tests.actors.rig import Rig, until
from tests.actors.test_operators import Operator
from tests.fakes import FakeCloud, FakeStore, TickingClock
from tests.fakes.cloud import Machine
from tests.fakes.script import fail

pytestmark = pytest.mark.slow


def late(rig: Rig, record: Record, names: str | None) -> str:
    """A ping with the secret that the record had."""
    assert record.ping_secret is not None
    try:
        rig.store.ping(record.uuid, record.ping_secret, instance_id=names)
    except StoreError as error:
        return str(error)
    return "taken"


def freed_pair(make_rig: MakeRig) -> tuple[Rig, Record, Record]:
    """A node that died and whose record was freed, and a sibling that lives."""
    rig = make_rig(backlog="clean", max_nodes=4, min_nodes=1, poll_time=60)
    dead, record = rig.fleet.add_node(age=10 * HOUR)
    _, sibling = rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(60)
    rig.cloud.vanish(dead.node.id)
    until(rig, "record.cleaned", within=4 * HOUR, record=record.uuid)
    rig.turn(120)
    return rig, record, sibling


def test_a_siblings_id_in_a_late_ping_is_no_sign_of_life_u8(make_rig: MakeRig) -> None:
    """U8, X3: one packet opened the breaker for two days, or gave a freed slot back."""
    rig, record, sibling = freed_pair(make_rig)
    rig.forget_lines()
    for _ in range(20):
        assert late(rig, record, sibling.instance_id) != "taken"
        rig.turn(60)
    assert not rig.lines("record.false_clean")
    assert not rig.lines("breaker.opened")
    assert rig.store.rows[record.uuid].slot_number is None


@pytest.mark.parametrize("names", ["its-own", None])
def test_a_late_ping_gives_nothing_back_where_the_cloud_denies_the_node_u8(
    make_rig: MakeRig, names: str | None
) -> None:
    """U8, X5: a copied secret outlives its node. The breaker opens, asks, and closes."""
    rig, record, _ = freed_pair(make_rig)
    late(rig, record, record.instance_id if names else None)
    until(rig, "record.false_clean", within=60, record=record.uuid)
    until(rig, "breaker.closed", within=900)
    for _ in range(60):
        late(rig, record, record.instance_id)
        rig.turn(60)
    assert not rig.lines("record.restored")
    assert len(rig.lines("breaker.opened")) == 1
    assert rig.store.rows[record.uuid].slot_number is None


def pinger(make_rig: MakeRig, guarantee: Guarantee = Guarantee.CAS) -> tuple[Rig, Record, Machine]:
    """A node that is gone while somebody pings on as it, each 30 s and busy."""
    clock = TickingClock()
    store = FakeStore(clock, guarantee=guarantee)
    rig = make_rig(
        cloud=FakeCloud(clock), store=store, backlog="clean", node_stale_after=HOUR, poll_time=60
    )
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    rig.fleet.state = WorkerState.BUSY
    rig.start()
    rig.turn(60)
    rig.cloud.vanish(machine.node.id)
    return rig, record, machine


def turn_pinging(rig: Rig, machine: Machine, seconds: float) -> None:
    for _ in range(int(seconds / 30)):
        rig.fleet.ping(machine)
        rig.turn(30)


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_pinger_that_the_cloud_denies_loses_its_slot_and_its_secret_p6(
    make_rig: MakeRig, guarantee: Guarantee
) -> None:
    """P6, X5: in one window and a round, through the cleaner; what it pings afterwards is no sign
    of life. Behind a fence, too, where the store can't compare (C12)."""
    rig, record, machine = pinger(make_rig, guarantee)
    turn_pinging(rig, machine, 0.9 * HOUR)
    assert not rig.lines("record.cleaned")
    assert rig.lines("record.pinging_unlisted", record=record.uuid)
    turn_pinging(rig, machine, 0.4 * HOUR)
    (line,) = rig.lines("record.cleaned")
    assert (line["record"], line["reason"]) == (record.uuid, "pinger_denied")
    ordered = rig.lines("record.clean", record=record.uuid)[-1]
    assert ordered["denied_s"] > ordered["limit_s"] == HOUR
    assert rig.store.rows[record.uuid].slot_number is None
    assert rig.store.rows[record.uuid].ping_secret != record.ping_secret
    turn_pinging(rig, machine, 2 * HOUR)
    assert machine.node.id in rig.fleet.refused
    assert not rig.lines("record.false_clean")
    assert rig.summary()["breaker"] == "closed"


def answering_malformed(rig: Rig, malformed: str) -> None:
    """The cloud, as EC2, says of that id that it is no instance's."""
    real = rig.cloud.ask

    def ask(node_id: str) -> CloudNode | None:
        if node_id == malformed:
            raise MalformedId(f'InvalidInstanceID.Malformed: Invalid id: "{node_id}"')
        return real(node_id)

    rig.cloud.ask = ask  # type: ignore[method-assign]  # the fake's own answers stay


def test_a_malformed_id_holds_no_claimed_record_s_slot_n12(make_rig: MakeRig) -> None:
    """P1a, N12: its tag says whose the record was, whatever it pinged with."""
    rig = make_rig(min_nodes=0, backlog="clean")
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    rig.cloud.vanish(machine.node.id)
    rig.store.put(record.uuid, instance_id="compute7")
    answering_malformed(rig, "compute7")
    rig.start()
    until(rig, "record.cleaned", within=600, record=record.uuid)


def test_a_malformed_id_of_before_our_time_is_an_operators_to_judge_n12(
    make_rig: MakeRig,
) -> None:
    """P1a, N12: no tag and no id. It is told so, and a forced clean does free it."""
    rig = make_rig(min_nodes=0, backlog="clean")
    record = rig.store.add_leaked(3, quiet_for=3 * HOUR, instance_id="compute7")
    answering_malformed(rig, "compute7")
    rig.start()
    rig.turn(HOUR)
    assert set(rig.reasons("record.clean_skipped")) == {"unverifiable"}
    assert not rig.lines("record.cleaned")
    Operator(rig).clean(record.uuid, "unverifiable")
    until(rig, "record.cleaned", within=300, record=record.uuid)


def test_one_question_that_fails_leaves_the_others_answered_n12(make_rig: MakeRig) -> None:
    """N12: a malformed id, and one that the cloud can't answer for, come first in every round."""
    rig = make_rig(backlog="clean")
    for name in ("a-malformed", "b-failing"):
        rig.store.add(
            slot_number=rig.store.free_slot(),
            first_ping_at=rig.store.now() - HOUR,
            last_ping_at=rig.store.now(),
            instance_id=name,
        )
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    answering_malformed(rig, "a-malformed")
    real = rig.cloud.ask

    def ask(node_id: str) -> CloudNode | None:
        if node_id == "b-failing":
            raise CloudError("500")
        return real(node_id)

    rig.cloud.ask = ask  # type: ignore[method-assign]  # the fake's own answers stay
    rig.start()
    rig.turn(60)
    machine.listed = False
    for _ in range(10):
        for one in list(rig.store.rows.values()):
            if one.uuid != record.uuid:
                rig.store.write(one.uuid, last_ping_at=rig.store.now())
        rig.turn(30)
    assert rig.lines("list.suspect", record=record.uuid)


# A claim is told its node.


def forging(make_rig: MakeRig, names: str | None) -> tuple[Rig, Machine, Record, Machine]:
    """A node just booted, whose first ping names another's id, and a sibling that lives."""
    rig = make_rig(backlog="clean", max_nodes=4, min_nodes=1, poll_time=60)
    sibling, _ = rig.fleet.add_node(age=10 * HOUR)
    forger, record = rig.fleet.add_node(age=60.0, pinged_ago=None)
    rig.fleet.silent.add(forger.node.id)
    assert record.ping_secret is not None
    rig.store.ping(record.uuid, record.ping_secret, instance_id=names or sibling.node.id)
    return rig, forger, record, sibling


@pytest.mark.parametrize("names", [None, "x", "i-nobody-s"], ids=["a-sibling", "malformed", "none"])
def test_a_forged_first_ping_is_overruled_by_the_tag_p1a(
    make_rig: MakeRig, names: str | None
) -> None:
    """P1a, X4: within two polls the claim names the node that bears the tag; the forged id is
    refused from then on, and holds no slot once that node is gone."""
    rig, forger, record, sibling = forging(make_rig, names)
    answering_malformed(rig, "x")
    rig.start()
    rig.turn(70)
    claim = rig.store.rows[record.uuid].claim
    assert claim is not None
    assert claim.node_id == rig.store.rows[record.uuid].instance_id == forger.node.id
    assert late(rig, record, names or sibling.node.id).startswith("422")
    assert late(rig, record, forger.node.id) == "taken"
    rig.cloud.vanish(forger.node.id)
    until(rig, "record.cleaned", within=4 * HOUR, record=record.uuid)
    assert sibling.node.id in {node.id for node in rig.nodes}


def test_kill_of_the_forgers_host_never_reaches_the_sibling_p1a(make_rig: MakeRig) -> None:
    """X4: also before the claim was told, and after the forger's own node is gone."""
    rig, forger, record, sibling = forging(make_rig, None)
    rig.cloud.vanish(forger.node.id)
    rig.start()
    rig.turn(60)
    host = rig.store.rows[record.uuid].hostname
    assert host is not None
    reply = Operator(rig).kill(host)
    rig.turn(300)
    assert reply.node != sibling.node.id
    assert not rig.lines("node.shutdown_started")
    assert sibling.node.id in {node.id for node in rig.nodes}


def test_a_manager_killed_between_the_create_and_that_write_finds_the_node_by_its_tag_r2(
    make_rig: MakeRig,
) -> None:
    """R2, P1a: nothing has to be remembered for it."""
    rig = make_rig(min_nodes=1)
    rig.start()
    rig.turn(1)
    assert rig.lines("node.created")
    (record,) = rig.records
    assert record.claim is not None
    assert record.claim.node_id is None
    rig.kill()
    rig.start()
    rig.turn(90)
    (machine,) = rig.cloud.living()
    told = rig.store.rows[record.uuid].claim
    assert told is not None
    assert told.node_id == machine.node.id


def test_a_ping_between_the_read_and_the_write_only_delays_it_p1a(make_rig: MakeRig) -> None:
    rig, forger, record, _ = forging(make_rig, None)
    rig.store.on("claim", fail(Conflict("it was pinged")))
    rig.start()
    rig.turn(150)
    claim = rig.store.rows[record.uuid].claim
    assert claim is not None
    assert claim.node_id == forger.node.id
    assert rig.summary()["breaker"] == "closed"


def test_a_store_that_cant_compare_is_told_nothing_c12(make_rig: MakeRig) -> None:
    """C12: a late write of it could put back a claim that was freed since."""
    clock = TickingClock()
    store = FakeStore(clock, guarantee=Guarantee.FENCED)
    rig = make_rig(cloud=FakeCloud(clock), store=store)
    rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(300)
    assert store.calls["claim"] == 0
