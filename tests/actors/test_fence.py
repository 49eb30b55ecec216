"""The fence of a store that can't compare (SAFETY.md C12)."""

from __future__ import annotations

from itertools import pairwise

from nodemanager.core.model.world import Record
from nodemanager.errors import StoreError
from tests.actors.conftest import Leaking
from tests.actors.rig import Rig
from tests.fakes import fail

HOUR = 3600.0


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


def test_a_fence_that_can_not_be_lifted_is_lifted_until_it_is(fenced: Leaking) -> None:
    rig, record = fenced()
    rig.store.on("unfence", *[fail(StoreError("timeout"))] * 4)
    rig.start()
    until_fenced(rig, record)
    rig.store.write(record.uuid, last_ping_at=rig.store.now())
    rig.turn(300)
    assert len(rig.lines("record.clean_failed", action="unfence")) == 4
    assert rig.store.rows[record.uuid].ping_secret == record.ping_secret


def test_the_fences_of_one_cycle_stand_beside_those_of_the_next_c10_c12(fenced: Leaking) -> None:
    """A fence stands for longer than a round, and one record is freed in each all the same."""
    rig, _ = fenced(poll_time=10, max_cleans_per_cycle=1)
    for slot in range(10, 15):
        rig.store.add_leaked(slot, quiet_for=3 * HOUR)
    rig.start()
    at_once, fences = 0, []
    while rig.store.calls["clean"] < 6 and len(fences) < 300:
        rig.turn(1)
        fences.append(rig.store.calls["fence"])
        at_once = max(at_once, rig.store.calls["fence"] - rig.store.calls["clean"])
    assert rig.store.settle_wait > 10
    assert at_once > 1
    up = [second for second, (a, b) in enumerate(pairwise(fences)) if b > a]
    gaps = [later - earlier for earlier, later in pairwise(up)]
    assert all(8 <= gap <= 12 for gap in gaps), gaps
