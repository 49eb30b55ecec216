"""What is looked at before a record is freed (SAFETY.md C6, C11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.actors.base import TeamContext
from nodemanager.actors.messages import CloudListed
from nodemanager.actors.workers.workers import RecordCleanerActor
from nodemanager.core.execute.effects import LookAtRecord
from nodemanager.core.model.world import Listing, Record, Tags
from nodemanager.errors import CloudError
from tests.actors.conftest import Leaking, MakeRig
from tests.actors.rig import Rig, ping
from tests.cases import cases
from tests.fakes import answer, fail, first

pytestmark = pytest.mark.slow

HOUR = 3600.0


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


@pytest.mark.slow
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


def seen_by_tag(rig: Rig, record: Record) -> None:
    rig.cloud.add(tags=Tags("pool", record.uuid, record.incarnation))


def seen_by_id(rig: Rig, record: Record) -> None:
    assert record.instance_id is not None
    node = rig.cloud.add(tags=Tags())
    machine = rig.cloud.machines.pop(node.id)
    machine.node = replace(node, id=record.instance_id)
    machine.listed = False
    rig.cloud.machines[record.instance_id] = machine


def no_longer_there(rig: Rig, record: Record) -> None:
    del rig.store.rows[record.uuid]


@cases(
    ("happens", "reason"),
    {
        "found-by-tag": (seen_by_tag, "node_alive"),
        "found-by-id": (seen_by_id, "node_alive"),
        "version-changed": (ping, "changed_since_plan"),
        "record-gone": (no_longer_there, "changed_since_plan"),
    },
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


def test_the_cloud_may_have_denied_a_node_as_soon_as_it_was_asked(leaking: Leaking) -> None:
    """C11, A1: what it answers half a minute later is what it knew of a younger node."""
    rig, record = leaking()
    sent: list[float] = []

    def slowly() -> None:
        sent.append(rig.clock.boottime())
        rig.clock.advance(30)

    rig.store.on("read", first(lambda: rig.clock.advance(7)))
    for call in ("find_by_record", "ask"):
        rig.cloud.on(call, first(slowly))
    nobody: Any = None
    context = TeamContext(
        cloud=rig.cloud,
        store=rig.store,
        daemon=nobody,
        timer=nobody,
        clock=rig.clock,
        on_death=lambda actor, error: None,
    )
    cleaner = RecordCleanerActor(context)
    look = LookAtRecord(record.uuid, asks_id=True, instance_id=record.instance_id)
    found = cleaner._carry_out(look)
    assert len(sent) == 2
    assert found.asked_at == pytest.approx(sent[0], abs=1.0)


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
        now = rig.clock.boottime()
        rig.system.daemon.tell(CloudListed(Listing((), now, now + 0.1)))

    rig.store.on("read", first(the_cloud_loses_them))
    skipped = rig.turn_until("record.clean_skipped", within=300)
    assert skipped["reason"] == "breaker_open"
    assert rig.store.rows[record.uuid].slot_number is not None


def test_a_ping_between_look_and_write_wins(leaking: Leaking) -> None:
    """Issue A: a record refreshed between plan and write."""
    rig, record = leaking()
    rig.store.on("clean", first(lambda: ping(rig, record)))
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
