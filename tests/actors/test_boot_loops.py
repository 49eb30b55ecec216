"""A pool whose nodes never ping boots ever fewer, and says when it tries again (SAFETY.md B5)."""

from __future__ import annotations

import pytest

from nodemanager.actors.messages import Ordered
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.fakes.scheduler import FakeScheduler

pytestmark = pytest.mark.slow

HOUR = 3600.0


def mute(make_rig: MakeRig) -> Rig:
    """A rig with no node that ever pings."""
    rig = make_rig(min_nodes=2, max_nodes=4, boot_fail_after=600, poll_time=120)
    rig.fleet.mute = True
    return rig


def tell(rig: Rig, verb: Verb) -> None:
    rig.system.daemon.tell(Ordered(Command(verb, "ann"), lambda problem: None))


def test_boots_that_never_ping_rest_ever_longer_and_go_on_after_a_first_ping(
    make_rig: MakeRig,
) -> None:
    rig = mute(make_rig)
    rig.start()
    told = rig.turn_until("boots.rest", within=4 * HOUR)
    assert (told["reason"], told["level"]) == ("boot_loop", "warning")
    assert told["count"] >= 5
    assert 0 < told["retry_s"] <= 600
    assert told["size"]
    rig.turn(10 * HOUR)
    assert "boot_loop" in rig.reasons("node.boot_refused")
    assert rig.cloud.calls["create"] < 30, "without a rest there would be some 100"
    last = rig.lines("boots.rest")[-1]
    assert last["retry_s"] >= 2 * HOUR
    assert last["spent"] > told["spent"]

    rig.fleet.mute = False
    rig.turn_until("boots.resumed", within=12 * HOUR)
    rig.turn(600)
    assert rig.summary()["paired"] == 2


def test_a_restart_goes_on_with_the_rest_and_a_reset_ends_it(make_rig: MakeRig) -> None:
    rig = mute(make_rig)
    rig.start()
    rig.turn(6 * HOUR)
    boots = rig.cloud.calls["create"]
    rig.kill()
    rig.start()
    rig.turn(HOUR)
    assert rig.cloud.calls["create"] <= boots + 1
    tell(rig, Verb.BREAKER_RESET)
    resumed = rig.turn_until("boots.resumed", within=60)
    assert resumed["detail"] == "an operator's reset"
    boots = rig.cloud.calls["create"]
    rig.turn(900)
    assert rig.cloud.calls["create"] >= boots + 2


@pytest.mark.parametrize("step", [-20 * HOUR, 20 * HOUR])
def test_a_rest_ends_in_its_time_however_our_wall_clock_stepped_over_a_restart(
    make_rig: MakeRig, step: float
) -> None:
    rig = mute(make_rig)
    rig.start()
    rig.turn(3 * HOUR)
    rig.turn_until("boots.rest", within=12 * HOUR)
    told = rig.lines("boots.rest")[-1]
    rig.turn(told["retry_s"] - HOUR)
    rig.kill()
    boots = rig.cloud.calls["create"]
    rig.clock.step_wall(step)
    rig.store.skew -= step
    rig.start()
    rig.turn(HOUR - 300)
    assert rig.cloud.calls["create"] == boots
    rig.turn(900)
    assert rig.cloud.calls["create"] > boots


def test_a_failed_boot_whose_record_is_freed_late_is_counted_once(make_rig: MakeRig) -> None:
    """Its clean waits for so long that its claim expires, and for the next run, which finds the
    node listed as ended.
    """
    rig = make_rig(min_nodes=1, max_nodes=1, boot_fail_after=600, poll_time=120, claim_expiry="on")
    rig.fleet.mute = True
    rig.cloud.destroy_takes = 30.0
    rig.start()
    rig.turn_until("node.shutdown_started", within=HOUR, reason="boot_failed")
    tell(rig, Verb.PAUSE)
    rig.turn(1800)
    assert rig.lines("node.gone")
    assert not rig.lines("record.cleaned")
    rig.kill()
    rig.start()
    rig.turn(600)
    tell(rig, Verb.RESUME)
    rig.turn_until("record.cleaned", within=600, reason="claim_expired")
    rig.turn_until("boots.rest", within=4 * HOUR)
    assert len(rig.lines("node.gone", reason="boot_failed")) == 5


# Where a scheduler is configured, up is what it hears (D17).


def unheard(make_rig: MakeRig, scheduler: FakeScheduler, known: str) -> Rig:
    """A rig with a job that waits; its nodes ping, and none of them ever joins its scheduler."""
    rig = make_rig(min_nodes=0, max_nodes=8, boot_fail_after=600, dispatcher="slurm")
    rig.fleet.state, scheduler.jobs = None, (Job("7"),)
    if known == "down":
        for number in range(1, 30):
            scheduler.says(f"compute{number}", WorkerState.DOWN)
    rig.start()
    return rig


def joins(rig: Rig, scheduler: FakeScheduler) -> None:
    for record in rig.records:
        if record.hostname:
            scheduler.says(record.hostname, WorkerState.IDLE)


@pytest.mark.parametrize("known", ["unlisted", "down"])
def test_nodes_that_ping_and_never_join_are_ended_and_rest_like_those_that_never_ping_d17(
    make_rig: MakeRig, scheduler: FakeScheduler, known: str
) -> None:
    rig = unheard(make_rig, scheduler, known)
    gone = rig.turn_until("node.gone", within=HOUR)
    assert gone["reason"] == "not_joined"
    told = rig.turn_until("boots.rest", within=4 * HOUR)
    assert (told["reason"], told["count"]) == ("boot_loop", 5)
    rig.change_polling(240)
    rig.turn(6 * HOUR)
    assert rig.lines("node.paired"), "they ping"
    assert rig.lines("boots.resumed") == []
    assert len(rig.cloud.living()) <= 1
    assert rig.summary()["breaker"] == "closed"
    assert rig.cloud.calls["create"] < 30
    scheduler.jobs = ()
    rig.turn(HOUR)
    assert rig.cloud.living() == []


def test_a_node_that_joins_ends_the_streak_and_its_ping_does_not_b5(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig = unheard(make_rig, scheduler, "unlisted")
    rig.turn_until("boots.rest", within=4 * HOUR)
    paired = len(rig.lines("node.paired"))
    while len(rig.lines("node.paired")) == paired:
        rig.turn(60)
    rig.turn(120)
    assert rig.lines("boots.resumed") == []
    joins(rig, scheduler)
    resumed = rig.turn_until("boots.resumed", within=120)
    assert resumed["detail"] == "a node came up"


def test_over_a_restart_one_that_never_joined_goes_and_one_that_did_stays_d17_r4(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig = unheard(make_rig, scheduler, "unlisted")
    rig.turn(120)
    (first,) = [record for record in rig.records if record.hostname]
    joins(rig, scheduler)
    rig.turn(120)
    scheduler.known.clear()
    rig.turn(120)
    rig.kill()
    rig.clock.advance(700)
    rig.start()
    rig.turn(HOUR)
    gone = {line["host"] for line in rig.lines("node.gone", reason="not_joined")}
    assert gone
    assert first.hostname not in gone
    told = {line.get("host") for line in rig.lines("node.keep", reason="unscheduled")}
    assert told


def test_who_has_joined_is_known_after_a_restart_d17_r4(
    make_rig: MakeRig, scheduler: FakeScheduler
) -> None:
    rig = unheard(make_rig, scheduler, "unlisted")
    rig.turn(120)
    scheduler.jobs = ()
    (record,) = [one for one in rig.records if one.hostname]
    assert record.hostname is not None
    scheduler.says(record.hostname, WorkerState.BUSY)
    rig.turn(120)
    scheduler.known.clear()
    rig.kill()
    rig.start()
    rig.turn(HOUR)
    assert len(rig.cloud.living()) == 1
    assert "unscheduled" in rig.reasons("node.keep")
