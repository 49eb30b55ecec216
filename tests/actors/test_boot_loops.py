"""A pool whose nodes never ping boots ever fewer, and says when it tries again (SAFETY.md B5)."""

from __future__ import annotations

import pytest

from nodemanager.actors.messages import Ordered
from nodemanager.core.operate.verbs import Command, Verb
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig

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
    rig.turn(12 * HOUR)
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
    """Its clean waits for so long that its claim expires meanwhile."""
    rig = make_rig(min_nodes=1, max_nodes=1, boot_fail_after=600, poll_time=120, claim_expiry="on")
    rig.fleet.mute = True
    rig.cloud.destroy_takes = 30.0
    rig.start()
    rig.turn_until("node.shutdown_started", within=HOUR, reason="boot_failed")
    tell(rig, Verb.PAUSE)
    rig.turn(1800)
    assert rig.lines("node.gone")
    assert not rig.lines("record.cleaned")
    tell(rig, Verb.RESUME)
    rig.turn_until("record.cleaned", within=600, reason="claim_expired")
    rig.turn_until("boots.rest", within=4 * HOUR)
    assert len(rig.lines("node.gone", reason="boot_failed")) == 5
