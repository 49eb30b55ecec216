"""Polling, stopping, `--once`, dry runs, dying and late answers of the running actors."""

from __future__ import annotations

import dataclasses
import itertools
import threading

import pykka
import pytest

from nodemanager.actors.messages import Beat, Decide, Stop
from nodemanager.core.explain.explain import DRY_RUN, STANDBY
from nodemanager.core.model.world import CloudState, Tags, WorkerState
from nodemanager.errors import CloudError, StoreError, Throttled
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, fail, first

pytestmark = pytest.mark.slow

HOUR = 3600.0


def times_of(rig: Rig, fake: FakeCloud | FakeStore, call: str) -> list[float]:
    times: list[float] = []
    fake.always(call, first(lambda: times.append(rig.clock.boottime())))
    return times


# Polls.


def test_failing_polls_come_later_and_later_up_to_max_poll_time(make_rig: MakeRig) -> None:
    rig = make_rig(poll_time=30, max_poll_time=300)
    rig.cloud.always("list_nodes", fail(CloudError("timeout")))
    rig.start()
    rig.turn(2 * HOUR)
    waits = [line["retry_s"] for line in rig.lines("list.failed", source="cloud")]
    assert waits[:5] == [60, 120, 240, 300, 300]
    assert set(waits[3:]) == {300}

    rig.cloud.always("list_nodes", None)
    times = times_of(rig, rig.cloud, "list_nodes")
    rig.turn(400)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps == pytest.approx([30] * len(gaps), abs=0.01)


def test_a_failed_poll_waits_for_as_long_as_the_server_asks(make_rig: MakeRig) -> None:
    rig = make_rig(poll_time=30, max_poll_time=300)
    rig.start()
    rig.cloud.on("list_nodes", fail(Throttled("slow down", retry_after=1200.0)))
    rig.store.on("list_records", fail(StoreError("busy", retry_after=700.0)))
    rig.turn(30)
    nodes, records = (
        times_of(rig, rig.cloud, "list_nodes"),
        times_of(rig, rig.store, "list_records"),
    )
    began = rig.clock.boottime()
    rig.turn(HOUR)
    assert nodes[0] - began == pytest.approx(1200, abs=1)
    assert records[0] - began == pytest.approx(700, abs=1)


@cases(
    "asked",
    {"thirty-years": 1e9, "for-ever": float("inf"), "no-number": float("nan"), "long-ago": -1e9},
)
@pytest.mark.parametrize("source", ["cloud", "records", "demand"])
def test_no_retry_after_stops_polls_for_longer_than_max_retry_after(
    make_rig: MakeRig, source: str, asked: float
) -> None:
    """D6, N10."""
    rig = make_rig(max_retry_after="20m", max_poll_time=300)
    rig.jobs = ()
    rig.start()
    rig.turn(60)
    if source == "cloud":
        rig.cloud.on("list_nodes", fail(Throttled("429", retry_after=asked)))
    elif source == "records":
        rig.store.on("list_records", fail(StoreError("503", retry_after=asked)))
    else:
        error = StoreError("503", retry_after=asked)
        rig.jobs_fail = [error]
    failed = rig.turn_until("list.failed", within=120, source=source)
    rig.forget_lines()
    ok = rig.turn_until("list.ok", within=25 * 60, source=source)
    assert failed["retry_s"] <= 20 * 60
    assert ok


def test_no_retry_after_of_a_create_stops_the_cloud_for_longer_than_max_retry_after(
    make_rig: MakeRig,
) -> None:
    """D6, N10."""
    rig = make_rig(min_nodes=1, max_retry_after="20m")
    rig.cloud.on("create", fail(Throttled("429", retry_after=1e9)))
    rig.start()
    rig.turn(60)
    assert rig.nodes == []
    rig.turn(25 * 60)
    assert len(rig.nodes) == 1


@pytest.mark.parametrize("call", ["list_nodes", "list_records"])
def test_a_shorter_poll_time_takes_effect_for_the_poll_that_is_waited_for(
    make_rig: MakeRig, call: str
) -> None:
    """S6, N29."""
    rig = make_rig(poll_time=3000, poll_stale_after="2h", node_stale_after="5h", settle=3000)
    fake = rig.cloud if call == "list_nodes" else rig.store
    rig.start()
    times = times_of(rig, fake, call)
    rig.turn(600)
    assert times == []

    rig.change_polling(30.0)
    changed_at = rig.clock.boottime()
    rig.turn(100)
    assert [at - changed_at for at in times[:3]] == pytest.approx([0, 30, 60], abs=0.1)

    rig.change_polling(3000.0)
    rig.turn(600)
    assert len(times) == 4, "nor does a longer one leave a poll of the shorter behind"


def test_a_reload_does_not_ask_sooner_than_a_server_wanted(make_rig: MakeRig) -> None:
    """D6, N29."""
    rig = make_rig(poll_time=30)
    rig.start()
    rig.cloud.on("list_nodes", fail(Throttled("slow down", retry_after=1200.0)))
    rig.turn(31)
    times = times_of(rig, rig.cloud, "list_nodes")
    began = rig.clock.boottime()
    rig.change_polling(20.0)
    rig.turn(1500)
    assert times[0] - began == pytest.approx(1200, abs=2)


def test_polls_are_poll_time_apart_from_start_to_start(make_rig: MakeRig) -> None:
    rig = make_rig(cloudlist_poll_time=40)
    times: list[float] = []

    def slow() -> None:
        times.append(rig.clock.boottime())
        rig.clock.advance(25)

    rig.cloud.always("list_nodes", first(slow))
    rig.start()
    rig.turn(400)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps == pytest.approx([40] * len(gaps), abs=0.01)


# Stop.


def test_stop_waits_for_what_is_in_the_air_and_begins_nothing(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=6, max_nodes=6, max_creates=3)
    done_when: list[int] = []

    def stop_meanwhile() -> None:
        if rig.cloud.calls["create"] == 1:
            rig.system.daemon.tell(Stop("test", lambda: done_when.append(len(rig.nodes))))

    rig.cloud.always("create", first(stop_meanwhile))
    rig.start()
    rig.turn(300)
    in_the_air = len(rig.nodes)
    assert 1 <= in_the_air <= 3, "what the three workers had"
    assert done_when
    assert done_when[0] == in_the_air


def test_stop_is_not_kept_waiting_by_an_answer_to_an_order_since_expired(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=0, max_nodes=4, action_timeout=60)
    rig.fleet.state = WorkerState.IDLE
    rig.fleet.add_node(age=10 * HOUR)

    def long_pause() -> None:
        rig.clock.advance(100)
        rig.system.daemon.tell(Decide())
        rig.system.daemon.tell(Stop("test", lambda: rig.stopped.append("done")))

    rig.store.on("read", first(long_pause))
    rig.start()
    rig.turn(200)
    assert rig.lines("flight.expired", action="shutdown")
    assert rig.stopped
    assert rig.cloud.calls["destroy"] == 0


def test_a_stop_after_set_ups_expired_in_the_queue_ends_as_any_other(make_rig: MakeRig) -> None:
    """N11: the machine slept for 16 minutes, and then it was told to stop: a KeyError."""
    rig = make_rig(min_nodes=8, max_nodes=8, max_creates=3)
    stopping = threading.Event()

    def sleep_and_stop() -> None:
        rig.clock.advance(960)
        rig.system.daemon.tell(Decide())
        rig.system.daemon.tell(Stop("SIGTERM", lambda: rig.stopped.append("done")))
        rig.system.daemon.ask(Beat(stopping.set), timeout=30)

    waits = first(lambda: stopping.wait(30))
    rig.cloud.on("create", first(sleep_and_stop), waits, waits)
    rig.start()
    rig.turn(35)
    assert len(rig.lines("flight.expired", action="setup")) > 3
    assert rig.deaths == []
    assert rig.stopped


def test_a_stop_with_an_open_breaker_and_dead_pollers_ends(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=20)
    for _ in range(8):
        rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(60)
    rig.cloud.machines.clear()
    rig.turn_until("breaker.opened", within=90)
    for poller in (rig.system.team.cloud_list, rig.system.team.record_list):
        assert isinstance(poller, pykka.ActorRef)
        poller.stop(block=True)
    rig.ask_to_stop()
    assert rig.stopped


# --once.


def test_once_applies_one_plan_awaits_it_and_ends_with_0(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=2, max_nodes=4, settle=60, backlog="clean")
    leaked = rig.store.add_leaked(7, quiet_for=3 * HOUR)
    rig.start(once=True)
    assert rig.cloud.calls["create"] == 0

    rig.turn(60 + 2 * 30 + 5)

    assert rig.codes[:1] == [0]
    assert len(rig.nodes) == 2
    assert rig.lines("record.cleaned", record=leaked.uuid), "what a later plan could free, this did"
    assert rig.out.fields[-1]["event"] == "cycle.done"
    rig.turn(600)
    assert rig.cloud.calls["create"] == 2


def test_once_awaits_the_clean_after_its_shutdown(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=4)
    rig.fleet.state = WorkerState.IDLE
    rig.fleet.add_node(age=10 * HOUR)
    rig.cloud.destroy_takes = 120.0
    rig.start(once=True)
    rig.turn(130)
    assert rig.cloud.calls["destroy"] == 1
    assert rig.codes == []
    rig.turn(300)
    assert rig.codes[0] == 0
    assert rig.store.used_slots() == []


@pytest.mark.parametrize("source", ["cloud", "records"])
def test_once_ends_with_1_when_a_listing_failed(make_rig: MakeRig, source: str) -> None:
    rig = make_rig(min_nodes=1)
    if source == "cloud":
        rig.cloud.always("list_nodes", fail(CloudError("timeout")))
    else:
        rig.store.always("list_records", fail(StoreError("timeout")))
    rig.start(once=True)
    assert rig.codes[0] == 1
    assert rig.cloud.calls["create"] == 0


def test_once_with_nothing_to_do_ends_with_0(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0)
    rig.start(once=True)
    rig.turn(200)
    assert rig.codes[0] == 0


# Dry runs.


@pytest.mark.parametrize("mode", [DRY_RUN, STANDBY])
def test_a_dry_run_and_a_standby_decide_everything_and_write_nothing_at_all(
    make_rig: MakeRig, mode: str
) -> None:
    """S3, L6."""
    rig = make_rig(min_nodes=3, max_nodes=4, backlog="clean")
    stale = rig.store.add_leaked(9, quiet_for=3 * HOUR)
    machine, _ = rig.fleet.add_node(age=10 * HOUR)
    rig.fleet.states[machine.node.id] = WorkerState.DOWN
    rig.start(mode=mode)

    rig.turn(HOUR)

    assert rig.cloud.writes == []
    assert rig.store.writes == []
    assert rig.lines("record.clean", record=stale.uuid, mode=mode)
    assert rig.lines("node.setup_started", mode=mode)
    assert rig.lines("node.shutdown_started", node=machine.node.id, mode=mode)
    assert len(rig.lines("record.clean")) == 1, "said once, not every cycle"
    assert rig.lines("record.cleaned") == []


def test_a_run_that_is_not_dry_reads_the_stores_clock_by_a_write(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.start()
    rig.turn(60)
    assert set(rig.store.writes) == {"store_time heartbeat"}


def test_a_dry_run_remembers_no_account_nor_store(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.start(dry_run=True)
    rig.turn(60)
    assert not (rig.directory / "state" / "facts.json").exists()


# Death.


def test_an_exception_in_a_handler_is_reported_as_a_death(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.start()
    # Any other error of an adapter may be due to what it was told (test_net).
    rig.cloud.on("list_nodes", fail(AssertionError("a bug of ours")))
    rig.turn(60)
    assert [actor for actor, _ in rig.deaths] == ["CloudNodeListActor"]
    assert isinstance(rig.deaths[0][1], AssertionError)
    rig.deaths.clear()


def test_an_unknown_message_is_a_bug_and_not_swallowed(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.start()
    rig.system.daemon.tell("what?")
    rig.flush()
    # What the others have to tell it by now is lost, and none of them dies of it.
    rig.turn(60)
    assert [actor for actor, _ in rig.deaths] == ["NodeManagerDaemonActor"]
    rig.deaths.clear()


# Settings.


@cases(("reloaded_s", "freed_within"), {"shorter": (60.0, 2400.0), "longer": (36_000.0, 2400.0)})
def test_a_reload_changes_the_expiry_of_no_claim_that_was_made(
    make_rig: MakeRig, reloaded_s: float, freed_within: float
) -> None:
    """S6, C21, A2, N16: its create may take effect as late as the claim allowed."""
    rig = make_rig(
        min_nodes=1, max_nodes=1, backlog="clean", boot_fail_after=1800, claim_expiry="on"
    )
    rig.cloud.takes_client_tokens = False
    rig.cloud.on("create", fail(CloudError("timed out")))
    rig.start()
    rig.turn(60)
    (record,) = (one for one in rig.records if one.claim)
    changed = dataclasses.replace(rig.system.settings, boot_fail_after=reloaded_s, min_nodes=0)
    rig.apply(changed)

    rig.turn(1800)
    assert rig.lines("record.clean") == []
    rig.kill()
    rig.start()
    rig.apply(changed)
    rig.turn(freed_within - 1800)
    assert rig.lines("record.cleaned", record=record.uuid)


def test_a_claim_that_is_renewed_keeps_how_long_it_stands(make_rig: MakeRig) -> None:
    """S6, U5, N16."""
    rig = make_rig(min_nodes=1, max_nodes=1, boot_fail_after=1800)
    rig.store.on("create", first(lambda: rig.clock.advance(70)))
    rig.start()
    rig.turn(10)
    # Renewed before the create, and told its node after it (P1a).
    assert rig.store.calls["claim"] == 2
    (record,) = (one for one in rig.records if one.claim)
    assert record.claim is not None
    assert record.claim.window == rig.system.settings.claim_window


# Restart.


def test_after_a_kill_in_the_middle_of_set_ups_every_node_pairs_or_goes(
    make_rig: MakeRig,
) -> None:
    """R2."""
    rig = make_rig(min_nodes=3, max_nodes=3, boot_fail_after=600)
    rig.cloud.on("create", first(lambda: None), fail(CloudError("cut")))
    rig.start()
    rig.kill()
    rig.start()
    rig.turn(3 * HOUR)
    assert rig.summary()["paired"] == 3
    assert len(rig.nodes) == 3
    assert len(rig.store.used_slots()) == 3


def test_a_foreign_pools_node_and_record_are_never_touched(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, max_nodes=3, backlog="clean")
    record = rig.store.add_leaked(5, quiet_for=30 * HOUR, pool="other")
    node = rig.cloud.add(tags=Tags("other", record.uuid, "x"), age=30 * HOUR)
    rig.start()
    rig.turn(3 * HOUR)
    assert node in rig.nodes
    assert rig.store.rows[record.uuid].slot_number == 5
    assert rig.lines("record.keep", record=record.uuid, reason="other_pool")


def test_a_terminated_node_is_none_of_the_nodes_that_are_listed(make_rig: MakeRig) -> None:
    """O12: the status counted it among the cloud's items."""
    rig = make_rig(backlog="clean")
    rig.fleet.add_node(age=HOUR)
    over, _ = rig.fleet.add_node(age=HOUR)
    rig.cloud.change(over.node.id, state=CloudState.TERMINATED)
    rig.start()
    rig.turn(60)
    assert [line["items"] for line in rig.lines("list.ok", source="cloud")] == [1]
