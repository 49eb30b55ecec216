"""Freeing and destroying by the running actors (SAFETY.md C, D, L)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodemanager.core.model import Record, Tags, WorkerState
from nodemanager.core.settings import ASK_AGAIN_S
from nodemanager.errors import CloudError, Conflict, StoreError
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.fakes import FakeCloud, FakeStore, TickingClock, answer, fail, first, lose

HOUR = 3600.0


@pytest.fixture
def leaking(make_rig: MakeRig) -> Callable[..., tuple[Rig, Record]]:
    """A rig with one record that is due to be cleaned within the first rounds."""

    def make(**options: object) -> tuple[Rig, Record]:
        rig = make_rig(min_nodes=0, backlog="clean", **options)
        _, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
        assert record.instance_id is not None
        rig.cloud.vanish(record.instance_id)
        return rig, record

    return make


Leaking = Callable[..., tuple[Rig, Record]]


# C6.


@pytest.mark.parametrize(
    ("cloudlist", "nodelist"),
    [(30, 30), (20, 70), (70, 20), (60, 7), (7, 60), (31, 37)],
)
def test_a_clean_is_judged_on_records_listed_before_the_cloud_whatever_the_poll_times(
    leaking: Leaking, cloudlist: int, nodelist: int
) -> None:
    rig, record = leaking(cloudlist_poll_time=cloudlist, nodelist_poll_time=nodelist)
    order: list[str] = []
    rig.cloud.always("list_nodes", first(lambda: order.append("cloud began")))
    rig.store.always("list_records", answer(lambda found: order.append("records ended") or found))
    rig.start()
    cleaned = rig.turn_until("record.cleaned", within=600, record=record.uuid)

    assert cleaned["reason"] == "stale_slot"
    newest = len(order) - 1 - order[::-1].index("cloud began")
    assert "records ended" in order[:newest]
    assert order.count("cloud began") >= 2


def test_a_record_listing_that_ends_after_the_cloud_listing_began_is_not_judged_with_it(
    make_rig: MakeRig,
) -> None:
    """A node created between the two would be in neither; its record must not look orphaned."""
    rig = make_rig(min_nodes=0, backlog="clean", absent_listings=1, settle=30)
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    rig.fleet.mute = True
    # Not listed while the records answer with its record as stale, and listed ever after.
    machine.listed = False
    rig.start()
    machine.listed = True
    rig.turn(3 * HOUR)
    assert rig.lines("record.cleaned", record=record.uuid, reason="stale_slot") == []


# C11: the last look.


def seen_by_tag(rig: Rig, record: Record) -> None:
    rig.cloud.add(tags=Tags("pool", record.uuid, record.incarnation))


def seen_by_id(rig: Rig, record: Record) -> None:
    assert record.instance_id is not None
    node = rig.cloud.add(tags=Tags())
    machine = rig.cloud.machines.pop(node.id)
    machine.node = replace(node, id=record.instance_id)
    machine.listed = False
    rig.cloud.machines[record.instance_id] = machine


def pinged(rig: Rig, record: Record) -> None:
    secret = rig.store.rows[record.uuid].ping_secret
    assert secret is not None
    rig.store.ping(record.uuid, secret, instance_id=record.instance_id)


def no_longer_there(rig: Rig, record: Record) -> None:
    del rig.store.rows[record.uuid]


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        pytest.param(seen_by_tag, "node_alive", id="found-by-tag"),
        pytest.param(seen_by_id, "node_alive", id="found-by-id"),
        pytest.param(pinged, "changed_since_plan", id="version-changed"),
        pytest.param(no_longer_there, "changed_since_plan", id="record-gone"),
    ],
)
def test_the_last_look_before_the_write_sees_what_the_listings_did_not(
    leaking: Leaking, happens: Callable[[Rig, Record], None], reason: str
) -> None:
    rig, record = leaking()
    rig.store.on("read", first(lambda: happens(rig, record)))
    rig.start()

    skipped = rig.turn_until("record.clean_skipped", within=300)

    assert skipped["reason"] == reason
    rig.turn(600)
    assert rig.store.calls["clean"] == 0


@pytest.mark.parametrize("call", ["find_by_record", "ask"])
def test_a_cloud_that_does_not_answer_the_last_look_keeps_the_record(
    leaking: Leaking, call: str
) -> None:
    rig, record = leaking()
    rig.cloud.always(call, fail(CloudError("timeout")))
    rig.start()
    skipped = rig.turn_until("record.clean_skipped", within=300)
    assert skipped["reason"] == "evidence_missing"
    assert rig.store.calls["clean"] == 0

    rig.cloud.always(call, None)
    assert rig.turn_until("record.cleaned", within=120, record=record.uuid)


def test_a_look_that_takes_longer_than_the_order_stands_frees_nothing(leaking: Leaking) -> None:
    rig, _ = leaking()
    rig.store.on("read", first(lambda: rig.clock.advance(61)))
    rig.start()
    skipped = rig.turn_until("record.clean_skipped", within=300)
    assert skipped["reason"] == "order_expired"
    assert skipped["plan"] not in {line["plan"] for line in rig.lines("record.cleaned")}


def test_a_breaker_that_opens_between_plan_and_write_stops_the_clean(leaking: Leaking) -> None:
    rig, record = leaking(max_nodes=20)
    for _ in range(8):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()

    def the_cloud_loses_them() -> None:
        # A poll that comes in while the cleaner looks.
        from nodemanager.actors.messages import CloudListed
        from nodemanager.core.model import Listing

        now = rig.clock.boottime()
        rig.system.daemon.tell(CloudListed(Listing((), now, now + 0.1)))

    rig.store.on("read", first(the_cloud_loses_them))
    skipped = rig.turn_until("record.clean_skipped", within=300)
    assert skipped["reason"] == "breaker_open"
    assert rig.store.rows[record.uuid].slot_number is not None


def test_a_ping_between_look_and_write_wins(leaking: Leaking) -> None:
    """Issue A: a record refreshed between plan and write."""
    rig, record = leaking()
    rig.store.on("clean", first(lambda: pinged(rig, record)))
    rig.start()
    failed = rig.turn_until("record.clean_failed", within=300)
    assert failed["action"] == "write"
    assert "Conflict" in str(failed["error"])
    rig.turn(600)
    assert rig.store.rows[record.uuid].slot_number == record.slot_number
    assert rig.store.calls["clean"] == 1


def test_what_was_skipped_is_asked_again_once_a_listing_and_not_in_a_loop(
    leaking: Leaking,
) -> None:
    rig, _ = leaking()
    rig.cloud.always("find_by_record", fail(CloudError("timeout")))
    rig.start()
    rig.turn(600)
    assert 0 < rig.store.calls["read"] <= 2 * rig.store.calls["list_records"]


def test_a_record_that_never_pinged_is_freed_by_its_claims_window(make_rig: MakeRig) -> None:
    """Issue A: a record that never pinged (C21)."""
    rig = make_rig(min_nodes=1, max_nodes=1, boot_fail_after=600, backlog="clean")
    rig.cloud.always("create", fail(CloudError("timeout")))
    rig.start()
    claimed = rig.lines("record.claimed")[0]["record"]
    window = 600 + 120 + 300
    rig.turn(window)
    assert rig.store.rows[claimed].claim is not None
    kept = [line["reason"] for line in rig.lines("record.keep", record=claimed)]
    assert "claim_within_window" in kept

    rig.turn(300)
    assert rig.lines("record.cleaned", record=claimed, reason="claim_expired")


# C12: the fence.


@pytest.fixture
def fenced(make_rig: MakeRig) -> Callable[..., tuple[Rig, Record]]:
    """As `leaking`, on a store that can't compare."""

    def make(**options: object) -> tuple[Rig, Record]:
        from nodemanager.core.model import Guarantee

        clock = TickingClock()
        store = FakeStore(clock, guarantee=Guarantee.FENCED)
        rig = make_rig(cloud=FakeCloud(clock), store=store, min_nodes=0, backlog="clean", **options)
        _, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
        assert record.instance_id is not None
        rig.cloud.vanish(record.instance_id)
        return rig, record

    return make


def until_fenced(rig: Rig, record: Record) -> None:
    for _ in range(120):
        rig.turn(5)
        if rig.store.calls["fence"]:
            return
    raise AssertionError("never fenced")


def test_a_fence_stands_for_a_time_out_before_the_fields_are_cleared(fenced: Leaking) -> None:
    rig, record = fenced()
    rig.start()
    until_fenced(rig, record)
    fenced_at = rig.clock.boottime()
    assert rig.store.rows[record.uuid].ping_secret != record.ping_secret
    assert rig.store.calls["clean"] == 0

    cleaned = rig.turn_until("record.cleaned", within=120)

    assert cleaned["guarantee"] == "fenced"
    assert rig.clock.boottime() - fenced_at >= rig.store.settle_wait - 5
    assert rig.store.rows[record.uuid].slot_number is None
    assert rig.store.calls["unfence"] == 0


def test_a_change_behind_the_fence_lifts_it_and_skips(fenced: Leaking) -> None:
    rig, record = fenced()
    rig.start()
    until_fenced(rig, record)
    # A ping that was under way when the secret changed.
    rig.store.write(record.uuid, last_ping_at=rig.store.now())

    rig.turn(60)

    assert rig.reasons("record.clean_skipped") == ["changed_since_plan"]
    assert rig.store.rows[record.uuid].ping_secret == record.ping_secret
    assert rig.store.rows[record.uuid].slot_number == record.slot_number
    assert rig.store.calls["clean"] == 0


def test_a_ping_just_before_the_fence_is_seen_and_lifts_it(fenced: Leaking) -> None:
    rig, record = fenced()
    rig.store.on("fence", first(lambda: pinged(rig, record)))
    rig.start()
    until_fenced(rig, record)
    rig.turn(60)
    assert rig.store.rows[record.uuid].ping_secret == record.ping_secret
    assert rig.store.calls["clean"] == 0


def test_stop_lifts_the_fence_before_it_is_done(fenced: Leaking) -> None:
    rig, record = fenced()
    rig.start()
    until_fenced(rig, record)
    rig.ask_to_stop()
    assert rig.stopped
    assert rig.store.rows[record.uuid].ping_secret == record.ping_secret
    rig.turn(120)
    assert rig.store.calls["clean"] == 0


def test_a_fence_that_can_not_be_lifted_is_lifted_until_it_is(fenced: Leaking) -> None:
    rig, record = fenced()
    rig.store.on("unfence", *[fail(StoreError("timeout"))] * 4)
    rig.start()
    until_fenced(rig, record)
    rig.store.write(record.uuid, last_ping_at=rig.store.now())
    rig.turn(300)
    assert len(rig.lines("record.clean_failed", action="unfence")) == 4
    assert rig.store.rows[record.uuid].ping_secret == record.ping_secret


def test_a_fence_whose_answer_was_lost_is_lifted(fenced: Leaking) -> None:
    rig, record = fenced()
    rig.store.on("fence", lose(StoreError("timeout")))
    rig.store.on("clean", fail(StoreError("not in this test")))
    rig.start()
    until_fenced(rig, record)
    rig.turn(1)
    assert rig.store.rows[record.uuid].ping_secret == record.ping_secret


def test_a_lift_never_follows_a_clean(fenced: Leaking) -> None:
    """A stop that comes in while the fields are being cleared must not give the secret back."""
    rig, record = fenced()
    rig.start()
    until_fenced(rig, record)

    def stop() -> None:
        from nodemanager.actors.messages import Stop

        rig.system.daemon.tell(Stop("test", lambda: rig.stopped.append("done")))

    rig.store.on("clean", first(stop))
    rig.turn(60)
    assert rig.stopped
    assert rig.store.rows[record.uuid].slot_number is None
    assert rig.store.calls["unfence"] == 0


# C20, D3: after a shutdown of ours.


@pytest.fixture
def idling(make_rig: MakeRig) -> Callable[..., tuple[Rig, Record]]:
    """A rig with one idle node that nobody wants."""

    def make(*, visible_after: float = 300.0, **options: object) -> tuple[Rig, Record]:
        cloud = FakeCloud(TickingClock(), visible_after=visible_after)
        rig = make_rig(cloud=cloud, min_nodes=0, backlog="clean", **options)
        rig.fleet.state = WorkerState.IDLE
        _, record = rig.fleet.add_node(age=10 * HOUR)
        return rig, record

    return make


Idling = Callable[..., tuple[Rig, Record]]


def test_a_destroyed_nodes_record_is_freed_at_once_whatever_its_age(idling: Idling) -> None:
    rig, record = idling()
    rig.start()
    cleaned = rig.turn_until("record.cleaned", within=300)
    assert cleaned["reason"] == "after_shutdown"
    assert cleaned["record"] == record.uuid
    assert rig.store.rows[record.uuid].slot_number is None
    assert rig.lines("node.gone")[0]["outcome"] == "gone"


def test_a_destroy_that_was_only_accepted_frees_nothing_until_the_cloud_says_gone(
    idling: Idling,
) -> None:
    rig, record = idling()
    rig.cloud.destroy_takes = 400.0
    rig.start()
    rig.turn_until("node.shutdown_started", within=300)
    rig.turn(390)
    assert rig.store.rows[record.uuid].slot_number is not None
    assert rig.lines("node.gone") == []

    rig.turn(400)
    assert rig.lines("node.gone")
    assert rig.store.rows[record.uuid].slot_number is None


def test_a_destroy_that_never_happens_is_tried_again_and_frees_nothing(idling: Idling) -> None:
    rig, record = idling(action_timeout=900)
    rig.cloud.destroy_takes = None
    rig.start()
    rig.turn(3000)
    assert rig.lines("flight.expired", action="shutdown")
    assert rig.cloud.calls["destroy"] >= 2
    assert rig.store.rows[record.uuid].slot_number is not None
    # One chain of questions, however often it was begun anew.
    rig.forget_calls()
    rig.turn(600)
    assert rig.cloud.calls["ask"] <= 12


@pytest.mark.parametrize(
    ("visible_after", "apart"),
    [
        pytest.param(0.0, 0.0, id="reads-are-consistent"),
        pytest.param(300.0, ASK_AGAIN_S, id="reads-lag"),
    ],
)
def test_no_such_node_is_gone_only_when_asked_as_d3_says(
    idling: Idling, visible_after: float, apart: float
) -> None:
    rig, record = idling(visible_after=visible_after)
    denied: list[float] = []
    rig.cloud.on("destroy", first(rig.cloud.machines.clear))
    rig.cloud.always("ask", first(lambda: denied.append(rig.clock.boottime())))
    rig.start()
    rig.turn_until("record.cleaned", within=600, record=record.uuid, reason="after_shutdown")

    # The last question is the cleaner's own last look.
    assert denied[-2] - denied[0] >= apart
    assert (len(denied) == 2) == (apart == 0)


def test_no_such_node_for_a_young_node_is_not_yet_gone(make_rig: MakeRig) -> None:
    rig = make_rig(cloud=FakeCloud(TickingClock(), visible_after=300.0), min_nodes=0)
    rig.fleet.state = WorkerState.IDLE
    _, record = rig.fleet.add_node(age=100)
    rig.cloud.on("destroy", first(rig.cloud.machines.clear))
    rig.start()
    rig.turn(195)
    assert rig.cloud.calls["ask"] > 2
    assert rig.lines("node.gone") == []
    rig.turn(200)
    assert rig.lines("node.gone")
    assert rig.store.rows[record.uuid].slot_number is None


def test_another_node_that_bears_the_uuid_keeps_the_record_after_a_shutdown(
    idling: Idling,
) -> None:
    rig, record = idling()
    rig.cloud.on(
        "find_by_record",
        first(lambda: rig.cloud.add(tags=Tags("pool", record.uuid, "another"))),
    )
    rig.start()
    skipped = rig.turn_until("record.clean_skipped", within=300)
    assert skipped["reason"] == "node_alive"
    assert rig.store.rows[record.uuid].slot_number is not None


def test_a_shutdowns_clean_that_fails_is_retried_by_the_timer(idling: Idling) -> None:
    rig, record = idling(poll_time=300)
    rig.store.on("clean", fail(StoreError("timeout")), fail(Conflict("moved")))
    rig.start()
    rig.turn_until("node.gone", within=900)
    rig.turn(30)
    assert rig.lines("record.cleaned", record=record.uuid, reason="after_shutdown")


# D2.


def test_an_idle_node_that_took_work_since_the_plan_is_left_alone(idling: Idling) -> None:
    rig, _ = idling()

    def take_work() -> None:
        rig.fleet.state = WorkerState.BUSY
        rig.fleet.beat()

    rig.store.on("read", first(take_work))
    rig.start()
    skipped = rig.turn_until("node.shutdown_skipped", within=300)
    assert skipped["reason"] == "no_longer_wanted"
    rig.turn(600)
    assert rig.cloud.calls["destroy"] == 0


def test_demand_that_came_back_since_the_plan_saves_the_node(make_rig: MakeRig) -> None:
    from nodemanager.core.model import Job

    rig = make_rig(min_nodes=0, max_nodes=4, wishlist_poll_time=30)
    rig.jobs = ()
    rig.fleet.state = WorkerState.IDLE
    machine, _ = rig.fleet.add_node(age=10 * HOUR)

    def demand_comes_back() -> None:
        from nodemanager.actors.messages import DemandPolled

        rig.jobs = (Job("1", count=2),)
        now = rig.clock.boottime()
        rig.system.daemon.tell(DemandPolled(rig.jobs, now, now))

    rig.store.on("read", first(demand_comes_back))
    rig.start()
    skipped = rig.turn_until("node.shutdown_skipped", within=300)
    assert skipped["reason"] == "changed_since_plan"
    rig.turn(300)
    assert machine.node in rig.nodes
    assert len(rig.nodes) == 2, "it serves one of the two jobs"


# D9.


def test_no_more_bad_nodes_are_destroyed_a_cycle_than_the_cap(make_rig: MakeRig) -> None:
    rig = make_rig(
        min_nodes=0, max_nodes=30, max_shutdowns_per_cycle=2, boot_fail_after=1800, poll_time=60
    )
    # Six of twenty-five fail: under collapse_fraction, above the cap.
    for _ in range(19):
        rig.fleet.add_node(age=10 * HOUR)
    for _ in range(6):
        machine, _ = rig.fleet.add_node(age=10 * HOUR)
        rig.fleet.states[machine.node.id] = WorkerState.DOWN
    rig.start()
    rig.turn(30)
    per_round = []
    for _ in range(6):
        before = rig.cloud.calls["destroy"]
        rig.turn(60)
        per_round.append(rig.cloud.calls["destroy"] - before)
    assert per_round == [2, 2, 2, 0, 0, 0]
    assert len(rig.nodes) == 19


def test_many_that_turn_silent_at_once_are_all_kept(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=30)
    machines = [rig.fleet.add_node(age=10 * HOUR)[0] for _ in range(10)]
    rig.start()
    rig.turn(60)
    rig.fleet.silent.update(machine.node.id for machine in machines[:5])
    rig.turn(6 * HOUR)
    assert rig.lines("breaker.opened", cause="mass_silence")
    assert rig.cloud.calls["destroy"] == 0
    assert rig.store.calls["clean"] == 0

    rig.fleet.silent.clear()
    rig.turn(120)
    assert rig.lines("breaker.closed", cause="mass_silence")


# L5, D8: the store.


def test_a_registry_swapped_for_an_empty_one_makes_the_daemon_read_only(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=4, max_nodes=8)
    for _ in range(4):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(60)
    true_rows, rig.store.rows, rig.store.id = rig.store.rows, {}, "store-2"
    rig.forget_calls()

    rig.turn(5 * HOUR)

    assert rig.cloud.writes == []
    assert set(rig.store.writes) == {"store_time heartbeat"}
    assert rig.lines("identity.changed", reason="read_only")
    assert len(rig.nodes) == 4

    rig.store.rows, rig.store.id = true_rows, "store-1"
    rig.turn(10 * 60)
    assert rig.summary()["paired"] == 4
    assert len(rig.nodes) == 4


def test_a_registry_swapped_right_before_a_set_up_gets_no_record(make_rig: MakeRig) -> None:
    """L5: it is looked at before anything is written, not at the next poll."""
    rig = make_rig(min_nodes=1, max_nodes=1)
    swapped: list[str] = []

    def swap() -> None:
        if rig.store.calls["list_records"] and not swapped:
            swapped.append("store-2")
            rig.store.rows, rig.store.id = {}, "store-2"

    rig.store.always("store_id", first(swap))
    rig.start()
    rig.turn(300)
    assert rig.store.rows == {}
    assert rig.cloud.calls["create"] == 0
    assert rig.lines("node.setup_failed", action="claim")


def test_a_registry_down_for_longer_than_the_window_costs_no_busy_node(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=0, max_nodes=8)
    for _ in range(6):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(300)
    rig.store.down = True
    rig.turn(3 * HOUR)
    assert rig.lines("list.failed", source="records")

    # It answers again some time before the nodes' next pings.
    rig.fleet.mute = True
    rig.store.down = False
    rig.turn(600)
    rig.fleet.mute = False
    rig.turn(HOUR)

    assert len(rig.nodes) == 6
    assert rig.lines("node.shutdown_started") == []
    assert rig.store.calls["clean"] == 0
    assert rig.summary()["paired"] == 6


def test_without_the_lease_nothing_is_written(leaking: Leaking) -> None:
    rig, record = leaking()
    rig.lease = False
    rig.start()
    rig.turn(600)
    assert rig.store.calls["clean"] == 0
    assert "no_lease" in rig.reasons("record.keep", record=record.uuid)
    assert len(rig.lines("lease.lost")) == 1
