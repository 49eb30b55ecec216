"""Writes of unknown outcome on a store that can't compare (SAFETY.md C12, U2, R1)."""

from __future__ import annotations

import pytest

from nodemanager.core.model.world import Job, Record, WorkerState
from nodemanager.core.observe.snapshot import LateWrite
from nodemanager.errors import StoreError
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.kept import LATE_WRITES
from tests.actors.conftest import FencedRig, Leaking
from tests.actors.rig import Rig, memory, ping, restart
from tests.fakes import fail

pytestmark = pytest.mark.slow

HOUR = 3600.0
TIMED_OUT = StoreError("timed out")


def secret_of(rig: Rig, record: Record) -> str | None:
    return rig.store.rows[record.uuid].ping_secret


def in_doubt(fenced: Leaking, *, always: bool = False) -> tuple[Rig, Record]:
    """The first clean, or each, times out and does not take effect."""
    rig, record = fenced()
    if always:
        rig.store.always("clean", fail(TIMED_OUT))
    else:
        rig.store.on("clean", fail(TIMED_OUT))
    rig.start()
    rig.turn_until("record.clean_failed", within=600, action="write")
    return rig, record


# A clean.


def test_after_an_unknown_clean_the_fence_stays_and_it_is_written_again(fenced: Leaking) -> None:
    rig, record = fenced()
    rig.store.on("clean", fail(TIMED_OUT), fail(TIMED_OUT))
    rig.start()
    rig.turn_until("record.clean_failed", within=600, action="write")
    assert rig.store.rows[record.uuid].fenced
    rig.turn_until("record.cleaned", within=60, record=record.uuid)
    assert rig.store.calls["clean"] == 3
    assert rig.store.calls["fence"] == 1
    assert rig.store.calls["unfence"] == 0


def test_a_record_that_a_late_clean_may_still_hit_is_not_used_again(fenced: Leaking) -> None:
    rig, record = fenced(max_nodes=4)
    rig.jobs = ()
    rig.fleet.state = WorkerState.IDLE
    rig.store.on("clean", fail(TIMED_OUT))
    rig.start()
    cleaned = rig.turn_until("record.cleaned", within=600, record=record.uuid)
    rig.jobs = (Job("a"),)
    (line,) = [rig.turn_until("record.claimed", within=300)]
    assert line["record"] != record.uuid
    rig.store.clean(rig.store.rows[record.uuid], "late")
    assert cleaned["reason"] == "stale_slot"
    assert len(rig.store.used_slots()) == 1

    rig.turn(2.1 * HOUR)
    rig.jobs = (Job("a", count=2),)
    assert rig.turn_until("record.claimed", within=300)["record"] == record.uuid


def test_after_a_restart_the_fence_before_an_unknown_clean_stays_until_it_is_over(
    fenced: Leaking,
) -> None:
    rig, record = in_doubt(fenced, always=True)
    restart(rig)
    rig.store.always("clean", None)
    rig.turn(1.9 * HOUR)
    assert rig.store.rows[record.uuid].fenced
    assert rig.store.calls["clean"] == 0
    rig.turn(0.3 * HOUR)
    assert secret_of(rig, record) == record.ping_secret
    assert rig.lines("intent.ended", action="clean", outcome="lifted")
    rig.turn_until("record.cleaned", within=3 * HOUR, record=record.uuid, reason="stale_slot")


# A claim.


def test_what_was_under_way_when_a_run_died_may_be_late(fenced_rig: FencedRig) -> None:
    """The run died in the claim: only its intent tells of it."""
    rig = fenced_rig(max_nodes=3)
    record = rig.store.add_cleaned(quiet_for=10 * HOUR)
    journal = memory(rig)
    details = {"incarnation": "0" * 32, "name": "n", "size": "small"}
    journal.intend(
        [Intent(IntentKind.CREATE, "create:0", "p", record=record.uuid, details=details)]
    )
    # What that run may have created serves the first of them (U9).
    rig.jobs = (Job("a"), Job("b"))
    rig.start()
    assert rig.turn_until("record.claimed", within=300)["record"] != record.uuid


def test_what_may_be_late_is_known_over_another_boot(fenced_rig: FencedRig) -> None:
    rig = fenced_rig(max_nodes=3)
    journal = memory(rig)
    record = rig.store.add_cleaned(quiet_for=10 * HOUR)
    journal.keep(LATE_WRITES, {record.uuid: LateWrite(rig.clock.boottime())})
    journal.boot_id = "boot-2"
    rig.jobs = (Job("a"),)
    rig.start()
    assert rig.turn_until("record.claimed", within=300)["record"] != record.uuid


def test_a_claim_that_failed_before_it_was_sent_is_not_late(fenced_rig: FencedRig) -> None:
    """Or a server that is away for a minute would keep us from booting for hours."""
    rig = fenced_rig(max_nodes=3)
    record = rig.store.add_cleaned(quiet_for=10 * HOUR)
    unsent = StoreError("timed out")
    unsent.unsent = True
    rig.jobs = (Job("a"),)
    rig.store.on("claim", fail(unsent))
    rig.start()
    assert len(rig.lines("node.setup_failed", action="claim")) == 1
    assert rig.turn_until("record.claimed", within=300)["record"] == record.uuid


def test_one_run_ends_though_nobody_knows_of_a_clean(fenced: Leaking) -> None:
    rig, _ = fenced(action_timeout=600)
    rig.store.on("clean", fail(TIMED_OUT))
    rig.start(once=True)
    rig.turn_until("record.clean_failed", within=600, action="write")
    rig.store.always("read", fail(TIMED_OUT))
    rig.turn(400)
    assert rig.codes == []
    rig.turn(900)
    assert set(rig.codes) == {1}
    assert [one.intent.kind for one in rig.journal.open_intents()] == [IntentKind.CLEAN]


# A fence.


def test_a_fence_that_came_up_late_is_lifted_and_its_node_kept(fenced_rig: FencedRig) -> None:
    rig = fenced_rig()
    _, record = rig.fleet.add_node(age=10 * HOUR)
    rig.start()
    rig.turn(120)
    rig.store.fence(rig.store.rows[record.uuid])
    line = rig.turn_until("record.unfenced", within=120, record=record.uuid)
    assert line["reason"] == "fence_left"
    assert secret_of(rig, record) == record.ping_secret
    ping(rig, record)
    rig.turn(3 * HOUR)
    assert len(rig.nodes) == 1
    assert rig.journal.open_intents() == ()


def test_a_left_fence_that_can_not_be_lifted_is_lifted_until_it_is(fenced_rig: FencedRig) -> None:
    rig = fenced_rig()
    _, record = rig.fleet.add_node(age=10 * HOUR)
    rig.store.fence(rig.store.rows[record.uuid])
    rig.store.on("unfence", *[fail(TIMED_OUT)] * 3)
    rig.start()
    rig.turn(300)
    assert len(rig.lines("record.unfenced")) == 1
    assert len(rig.lines("record.clean_failed", action="unfence")) == 3
    assert secret_of(rig, record) == record.ping_secret


def test_a_run_that_dies_while_it_lifts_a_fence_leaves_it_to_the_next(
    fenced_rig: FencedRig,
) -> None:
    rig = fenced_rig()
    _, record = rig.fleet.add_node(age=10 * HOUR)
    rig.store.fence(rig.store.rows[record.uuid])
    rig.store.always("unfence", fail(TIMED_OUT))
    rig.start()
    rig.turn(60)
    restart(rig)
    rig.store.always("unfence", None)
    rig.turn(60)
    assert secret_of(rig, record) == record.ping_secret
    assert rig.journal.open_intents() == ()


def test_a_dry_run_lifts_nothing(fenced_rig: FencedRig) -> None:
    rig = fenced_rig()
    _, record = rig.fleet.add_node(age=10 * HOUR)
    rig.store.fence(rig.store.rows[record.uuid])
    rig.start(dry_run=True)
    rig.turn(300)
    assert rig.store.rows[record.uuid].fenced
    assert rig.store.calls["unfence"] == 0
