"""Writes to the record store that fail, and the breaker (SAFETY.md B1, B3)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import CloudState, Guarantee
from nodemanager.errors import Conflict, StoreError, StoreRefused
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig
from tests.fakes import FakeCloud, FakeStore, TickingClock, fail
from tests.fakes.script import Step

pytestmark = pytest.mark.slow

HOUR = 3600.0
MAX_POLL_TIME_S = 120


def leaking(make_rig: MakeRig, count: int, guarantee: Guarantee = Guarantee.CAS) -> Rig:
    """A rig with so many records that are due to be freed."""
    clock = TickingClock()
    cloud, store = FakeCloud(clock), FakeStore(clock, guarantee=guarantee)
    # One write at a time: of many at once, one that goes through says that writes work.
    options = {"backlog": "clean", "max_poll_time": MAX_POLL_TIME_S, "max_creates": 1}
    rig = make_rig(cloud=cloud, store=store, **options)
    for _ in range(count):
        _, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
        assert record.instance_id is not None
        cloud.vanish(record.instance_id)
    return rig


def test_five_failed_writes_open_it_and_a_heartbeat_past_max_poll_time_closes_it(
    make_rig: MakeRig,
) -> None:
    """Not the next one: where a heartbeat goes through and nothing else does, it would flap."""
    rig = leaking(make_rig, 6)
    rig.store.on("clean", *[fail(StoreError("disk full"))] * 5)
    rig.start()
    opened = rig.turn_until("breaker.opened", within=600)
    assert (opened["cause"], opened["count"]) == ("writes_fail", 5)
    assert "probe write" in opened["clear"]
    rig.turn(MAX_POLL_TIME_S - 30)
    assert not rig.lines("breaker.closed")
    rig.turn(120)
    (closed,) = rig.lines("breaker.closed")
    assert closed["cause"] == "writes_fail"
    rig.turn(600)
    assert not any(record.holds_anything for record in rig.records)
    assert len(rig.lines("breaker.opened")) == 1


def test_while_it_is_open_nothing_is_freed_also_after_a_restart(make_rig: MakeRig) -> None:
    rig = leaking(make_rig, 6)
    full = StoreError("disk full")
    ill = Step(before=lambda: rig.store.always("store_time", fail(full)), error=full)
    rig.store.on("clean", *[ill] * 5)
    rig.start()
    rig.turn_until("breaker.opened", within=600)
    rig.kill()
    rig.forget_calls()
    rig.start()
    rig.turn(240)
    assert rig.store.calls["clean"] == 0
    rig.store.always("store_time", None)
    rig.turn_until("breaker.closed", within=600)
    rig.turn(600)
    assert not any(record.holds_anything for record in rig.records)


def test_a_store_that_says_no_for_a_reason_works(make_rig: MakeRig) -> None:
    rig = leaking(make_rig, 8)
    rig.store.on("clean", *[fail(Conflict("another version"))] * 8)
    rig.start()
    rig.turn(900)
    assert len(rig.lines("record.clean_failed")) == 8
    assert not rig.lines("breaker.opened")


def test_a_fence_that_needs_no_lift_does_not_say_that_writes_work(make_rig: MakeRig) -> None:
    """No fence goes through; before each next one a reading shows that there is none to lift."""
    rig = leaking(make_rig, 6, Guarantee.FENCED)
    rig.store.always("fence", fail(StoreError("500")))
    rig.start()
    opened = rig.turn_until("breaker.opened", within=900)
    assert (opened["cause"], opened["count"]) == ("writes_fail", 5)


@pytest.mark.parametrize("fails_again", [False, True])
def test_without_a_heartbeat_a_real_write_is_tried_after_max_poll_time(
    make_rig: MakeRig, fails_again: bool
) -> None:
    """One more failure is enough to open it again."""
    rig = leaking(make_rig, 6, Guarantee.FENCED)
    errors = 6 if fails_again else 5
    rig.store.on("fence", *[fail(StoreRefused("403"))] * errors)
    rig.start()
    rig.turn_until("breaker.opened", within=600, cause="writes_fail")
    opened_at = rig.clock.boottime()
    rig.turn_until("breaker.closed", within=600)
    assert rig.clock.boottime() - opened_at > 110
    rig.turn(3 * HOUR)
    assert len(rig.lines("breaker.opened", cause="writes_fail")) == 1 + fails_again
    assert not any(record.holds_anything for record in rig.records)


def test_a_record_of_a_node_we_destroyed_is_freed_once_writes_go_through(
    make_rig: MakeRig,
) -> None:
    """Its clean is of its own right (C20), and waits for the store."""
    rig = leaking(make_rig, 0)
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.store.on("clean", *[fail(StoreError("disk full"))] * 6)
    rig.fleet.silent.add(machine.node.id)
    rig.cloud.change(machine.node.id, state=CloudState.STOPPED)
    rig.turn_until("breaker.opened", within=3600, cause="writes_fail")
    rig.turn_until("record.cleaned", within=900, record=record.uuid, reason="after_shutdown")
