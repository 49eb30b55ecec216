"""The situations in which the forerunner failed, each with the right outcome (PEERS.md)."""

from __future__ import annotations

import pykka
import pytest

from nodemanager.core.model.world import CloudState, Record, Tags, WorkerState
from nodemanager.errors import CloudError, StoreError
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock, answer, fail, first

pytestmark = pytest.mark.slow

HOUR = 3600.0


def old_pairs(rig: Rig, count: int, *, age: float = 10 * HOUR) -> None:
    for _ in range(count):
        rig.fleet.add_node(age=age)


def test_many_nodes_pair_in_one_plan_with_no_question_per_pair(make_rig: MakeRig) -> None:
    """Row: first full pairing of 100 / 1,000 / 3,000 / 10,000 nodes."""
    store = FakeStore(clock := TickingClock(), slots=range(1, 501))
    rig = make_rig(cloud=FakeCloud(clock), store=store, max_nodes=500)
    old_pairs(rig, 500)

    rig.start()

    paired = rig.lines("node.paired")
    assert len(paired) == 500
    assert len({line["plan"] for line in paired}) == 1
    assert rig.cloud.calls["list_nodes"] == rig.store.calls["list_records"] == 1
    assert rig.cloud.calls["ask"] + rig.cloud.calls["find_by_record"] == 0
    assert rig.store.calls["read"] == 0


@pytest.mark.parametrize("count", [3, 300], ids=["few-nodes", "many-nodes"])
def test_a_steady_round_costs_the_same_calls_and_actors_however_many_nodes(
    make_rig: MakeRig, count: int
) -> None:
    """Row: steady round at 1,000 / 3,000 nodes, a thread a node."""
    store = FakeStore(clock := TickingClock(), slots=range(1, 501))
    limits = {"max_nodes": 500, "max_creates": 4}
    rig = make_rig(cloud=FakeCloud(clock), store=store, poll_time=60, **limits)
    old_pairs(rig, count)
    rig.start()
    rig.turn(59)
    rig.forget_calls()

    rig.turn(5 * 60)

    assert rig.cloud.calls == {"list_nodes": 5}
    assert rig.store.calls == dict.fromkeys(
        ("store_id", "late_pings", "store_time", "list_records", "probe", "slots"), 5
    )
    # The daemon and two pollers; and those that set nodes up, shut them down and clean records.
    assert len(pykka.ActorRegistry.get_all()) == 3 + 3 * 4


def test_leaked_records_are_freed_at_the_cap_a_round_until_none_is_left(
    make_rig: MakeRig,
) -> None:
    """Row: 2,000 leaked records, none ever freed."""
    store = FakeStore(clock := TickingClock(), slots=range(1, 301))
    options = {"poll_time": 60, "max_creates": 16, "max_cleans_per_cycle": 30, "backlog": "clean"}
    rig = make_rig(cloud=FakeCloud(clock), store=store, **options)
    for slot in range(1, 301):
        store.add_leaked(slot, quiet_for=3 * HOUR)
    rig.start()
    rig.turn(30)
    per_round = []
    while store.used_slots() and len(per_round) < 40:
        before = store.calls["clean"]
        rig.turn(60)
        per_round.append(store.calls["clean"] - before)

    freeing = [cleans for cleans in per_round if cleans]
    assert freeing == [30] * 10
    assert rig.lines("record.deferred", reason="cap_reached")
    assert len(rig.lines("record.cleaned", reason="stale_slot")) == 300


def test_an_empty_cloud_list_by_mistake_frees_and_boots_nothing(make_rig: MakeRig) -> None:
    """Row: an empty cloud list by mistake was believed at once, and ten duplicates booted."""
    rig = make_rig(min_nodes=10, max_nodes=20, visible_after=300)
    old_pairs(rig, 10)
    rig.start()
    rig.turn(120)
    rig.forget_calls()
    rig.cloud.always("list_nodes", answer(lambda listed: type(listed)(())))

    rig.change_polling(120)
    rig.turn(4 * HOUR)
    rig.change_polling(30)

    assert rig.cloud.writes == []
    assert set(rig.store.writes) == {"store_time heartbeat"}
    assert rig.lines("list.suspect", source="cloud", reason="collapsed")
    assert rig.lines("breaker.opened", cause="cloud_collapsed")
    assert not rig.lines("breaker.closed")

    rig.cloud.always("list_nodes", None)
    rig.turn(90)
    assert rig.lines("breaker.closed", cause="cloud_collapsed")
    assert rig.summary()["paired"] == 10
    assert len(rig.nodes) == 10


def test_a_list_that_is_none_is_a_failed_poll(make_rig: MakeRig) -> None:
    """Row: a list that is None - poller and daemon die."""
    rig = make_rig(min_nodes=2)
    old_pairs(rig, 2)
    rig.start()
    rig.cloud.on("list_nodes", answer(lambda listed: None))
    rig.store.on("list_records", answer(lambda listed: None))

    rig.turn(300)

    assert len(rig.lines("list.failed", source="cloud")) == 1
    assert len(rig.lines("list.failed", source="records")) == 1
    assert len(rig.nodes) == 2
    assert rig.summary()["paired"] == 2


def test_items_that_are_none_make_the_listing_incomplete(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=2)
    old_pairs(rig, 2)
    rig.start()
    rig.cloud.always("list_nodes", answer(lambda listed: type(listed)((None, *listed.items[1:]))))

    rig.turn(400)

    assert rig.lines("list.partial", source="cloud")
    assert len(rig.lines("list.item_malformed", source="cloud")) == 1
    assert rig.store.calls["clean"] == rig.cloud.calls["create"] == 0


@cases(
    "harm",
    {
        "node-without-a-launch-time": lambda rig, node, record: rig.cloud.change(
            node, created_at=None
        ),
        "record-without-modified_at": lambda rig, node, record: rig.store.put(
            record, modified_at=None, problems=("modified_at: None",)
        ),
        "names-that-are-not-ascii": lambda rig, node, record: (
            rig.cloud.change(node, name="höst-日本", problems=("name: not ASCII",)),
            rig.store.put(record, hostname="höst-日本", problems=("hostname: not ASCII",)),
        ),
    },
)
def test_a_malformed_item_keeps_what_it_touches_and_stops_nothing(
    make_rig: MakeRig, harm: object
) -> None:
    """Row: one node without a launch time - poller and daemon die."""
    rig = make_rig(min_nodes=0, max_nodes=4, poll_time=120)
    rig.fleet.state = WorkerState.IDLE
    old_pairs(rig, 2)
    node = rig.nodes[0]
    record = node.tags.record
    harm(rig, node.id, record)  # type: ignore[operator]
    rig.fleet.silent.add(node.id)

    rig.start()
    rig.turn(4 * HOUR)

    assert node.id in {one.id for one in rig.nodes}, "the malformed one is kept"
    assert len(rig.nodes) == 1, "the idle one beyond demand is gone"
    assert record is not None
    assert rig.store.rows[record].slot_number is not None


def test_a_list_call_that_raises_keeps_everything_and_boots_nothing_once_stale(
    make_rig: MakeRig,
) -> None:
    """Row: a list call that raises - right already in the forerunner."""
    rig = make_rig(min_nodes=2, max_nodes=5, poll_stale_after=300)
    old_pairs(rig, 2)
    rig.start()
    rig.turn(60)
    rig.cloud.always("list_nodes", fail(CloudError("timeout")))
    rig.turn(400)
    rig.forget_calls()
    rig.cloud.vanish(rig.nodes[0].id)

    rig.change_polling(120)
    rig.turn(4 * HOUR)

    assert rig.cloud.writes == []
    assert set(rig.store.writes) == {"store_time heartbeat"}
    assert "poll_stale" in rig.reasons("record.keep") + rig.reasons("node.boot_refused")


def test_slot_0_is_a_slot(make_rig: MakeRig) -> None:
    """Row: slot_number 0 - node taken for down, destroyed while its job runs."""
    store = FakeStore(clock := TickingClock(), slots=range(4))
    options = {"min_nodes": 1, "max_nodes": 4, "backlog": "clean", "poll_time": 120}
    rig = make_rig(cloud=FakeCloud(clock), store=store, **options)
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    assert record.slot_number == 0
    rig.start()

    rig.turn(3 * HOUR)
    assert [node.id for node in rig.nodes] == [machine.node.id]
    assert store.rows[record.uuid].slot_number == 0

    rig.cloud.vanish(machine.node.id)
    rig.turn(3 * HOUR)
    assert rig.lines("record.cleaned", record=record.uuid, slot=0, reason="stale_slot")


def test_a_record_is_not_cleaned_while_its_node_is_set_up(make_rig: MakeRig) -> None:
    """Row: a record cleaned while its node is being set up."""
    rig = make_rig(min_nodes=1, max_nodes=1, boot_fail_after=1800)
    reused = rig.store.add_cleaned(quiet_for=30 * HOUR)
    # The create takes its time, in which everything is polled again and again.
    rig.cloud.on("create", first(lambda: rig.clock.advance(50)))
    rig.fleet.mute = True
    rig.start()
    rig.turn(1000)
    assert rig.store.rows[reused.uuid].claim is not None
    assert rig.store.calls["clean"] == 0

    rig.fleet.mute = False
    rig.turn(120)
    assert rig.summary()["paired"] == 1
    assert rig.fleet.refused == {}
    assert len(rig.nodes) == 1


def test_a_silent_nodes_record_is_never_given_to_another(make_rig: MakeRig) -> None:
    """Row: node A silent for 3 h but in the cloud, a boot wanted."""
    rig = make_rig(min_nodes=1, max_nodes=4, visible_after=300)
    rig.jobs = ()
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    rig.fleet.silent.add(machine.node.id)
    rig.start()
    rig.turn(60)
    given = [line["record"] for line in rig.lines("record.claimed")]
    assert record.uuid not in given

    rig.change_polling(120)
    rig.turn(3 * HOUR)
    assert machine.node not in rig.nodes
    assert rig.lines("node.gone", node=machine.node.id, reason="node_down")
    assert rig.lines("record.cleaned", record=record.uuid, reason="after_shutdown")
    assert rig.fleet.refused == {}
    paired = {node.tags.record for node in rig.nodes}
    assert len(paired) == 1
    assert rig.summary()["paired"] == 1


def test_killed_between_destroy_and_clean_the_next_run_frees_the_slot(
    make_rig: MakeRig,
) -> None:
    """Row: killed between destroy and clean - slot still held after every later round."""
    rig = make_rig(min_nodes=0, max_nodes=2, backlog="clean")
    rig.fleet.state = WorkerState.IDLE
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    rig.store.always("clean", fail(StoreError("gone away")))
    rig.start()
    rig.turn_until("node.gone", within=600, node=machine.node.id)
    assert rig.store.rows[record.uuid].slot_number is not None
    rig.kill()
    rig.store.always("clean", None)

    rig.start()
    rig.turn(300)

    assert rig.store.used_slots() == []
    assert rig.lines("record.cleaned", record=record.uuid, reason="after_shutdown")


def test_a_clean_that_fails_once_is_tried_again_whatever_is_polled_meanwhile(
    make_rig: MakeRig,
) -> None:
    """Row: clean fails once, cloud poll before its retry - the retry is lost."""
    rig = make_rig(min_nodes=0, max_nodes=2, poll_time=2, max_poll_time=300)
    rig.fleet.state = WorkerState.IDLE
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    rig.store.on("clean", *[fail(StoreError("timeout"))] * 3)
    rig.start()

    rig.turn(300)

    assert len(rig.lines("record.clean_failed", record=record.uuid)) == 3
    assert rig.lines("record.cleaned", record=record.uuid, reason="after_shutdown")
    assert machine.node not in rig.nodes


def held_by_the_fresh(store: FakeStore, *, quiet_for: float) -> list[Record]:
    return [store.add_leaked(slot, quiet_for=quiet_for) for slot in store.slot_numbers]


def test_with_every_slot_held_no_create_is_tried_and_the_holders_are_named(
    make_rig: MakeRig,
) -> None:
    """Row: every slot held by records not yet stale - create is retried for ever."""
    store = FakeStore(clock := TickingClock(), slots=range(1, 4))
    rig = make_rig(cloud=FakeCloud(clock), store=store, min_nodes=2, max_nodes=2, backlog="clean")
    held_by_the_fresh(store, quiet_for=HOUR)
    rig.start()

    rig.turn(600)

    assert rig.store.calls["create"] + rig.store.calls["claim"] + rig.cloud.calls["create"] == 0
    full = rig.lines("slots.full")
    assert len(full) == 1
    assert full[0]["slots"] == 3
    assert full[0]["free"] == 0
    assert full[0]["held_by"] == "no_node:3"
    assert full[0]["free_in_s"] == pytest.approx(HOUR, abs=150)
    assert "no_free_slot" in rig.reasons("node.boot_refused")
    rig.turn(HOUR / 2)
    again = rig.lines("slots.full")[1:]
    assert [one["held_by"] for one in again] == ["no_node:3"], "told again while it lasts"

    rig.turn(HOUR / 2 + 600)
    assert rig.summary()["paired"] == 2


def test_a_restart_over_many_old_nodes_shuts_none_down(make_rig: MakeRig) -> None:
    """Row: restart over 1,000 nodes older than boot_fail_after - a storm of suggestions."""
    store = FakeStore(clock := TickingClock(), slots=range(1, 401))
    rig = make_rig(cloud=FakeCloud(clock), store=store, min_nodes=0, max_nodes=400, poll_time=60)
    for index in range(400):
        # Some have not pinged for a while: a restart is no time to judge silence.
        rig.fleet.add_node(age=10 * HOUR, pinged_ago=1000.0 if index % 10 == 0 else 30.0)
    rig.start()

    rig.turn(20 * 60)

    assert rig.lines("node.shutdown_started") == []
    assert rig.cloud.calls["destroy"] == 0
    assert rig.summary()["paired"] == 400


def test_two_nodes_that_claim_one_record_pair_with_neither(make_rig: MakeRig) -> None:
    """Row: two daemons - records given to two nodes each; neither node is destroyed for it (P2)."""
    rig = make_rig(min_nodes=0, max_nodes=4, poll_time=120)
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    rival = rig.cloud.add(
        tags=Tags("pool", record.uuid, record.incarnation), age=10 * HOUR, name="rival"
    )
    rig.start()

    rig.turn(3 * HOUR)

    assert {node.id for node in rig.nodes} == {machine.node.id, rival.id}
    assert rig.store.rows[record.uuid].slot_number == record.slot_number
    ambiguous = rig.lines("pair.ambiguous", record=record.uuid)
    assert len(ambiguous) == 1
    assert rig.lines("node.paired") == []


def test_a_terminated_node_is_absent_and_any_other_state_holds_the_slot(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=0, max_nodes=4, backlog="clean")
    gone, gone_record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    unknown, unknown_record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    rig.fleet.mute = True
    rig.cloud.change(gone.node.id, state=CloudState.TERMINATED)
    rig.cloud.change(unknown.node.id, state=CloudState.UNKNOWN)

    rig.start()
    rig.turn(600)

    assert rig.store.rows[gone_record.uuid].slot_number is None
    assert rig.store.rows[unknown_record.uuid].slot_number is not None
