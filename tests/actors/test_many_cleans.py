"""Many cleans at once, and what waits for a worker meanwhile (SAFETY.md U13, C11, D6)."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.actors.base import TeamContext
from nodemanager.actors.workers.workers import RecordCleanerActor
from nodemanager.core.execute.effects import LookAtRecord
from nodemanager.core.model.world import Record
from nodemanager.errors import Throttled, TooLate
from tests.actors.conftest import HOUR, Leaking, MakeRig
from tests.actors.rig import Rig
from tests.actors.test_many_creates import MANY, gathered
from tests.fakes import fail, first

pytestmark = pytest.mark.slow


def leaked(make_rig: MakeRig, count: int, **options: object) -> tuple[Rig, list[Record]]:
    """A rig with so many records that are due to be cleaned within the first rounds."""
    options = {"max_creates": MANY} | options
    rig = make_rig(min_nodes=0, max_nodes=count, backlog="clean", **options)
    records = []
    for _ in range(count):
        _, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
        assert record.instance_id is not None
        rig.cloud.vanish(record.instance_id)
        records.append(record)
    return rig, records


@pytest.mark.parametrize(("port", "call"), [("cloud", "find_by_record"), ("store", "clean")])
def test_sixteen_cleans_run_at_once_and_the_daemon_answers_meanwhile_u13(
    make_rig: MakeRig, port: str, call: str
) -> None:
    rig, records = leaked(make_rig, MANY)
    getattr(rig, port).always(call, first(gathered(rig)))
    rig.start()
    rig.turn(300)
    assert {line["record"] for line in rig.lines("record.cleaned")} == {
        record.uuid for record in records
    }
    assert rig.deaths == []


def test_a_clean_that_waits_for_a_worker_does_not_call_a_cloud_that_wants_fewer_calls_d6(
    make_rig: MakeRig,
) -> None:
    rig, records = leaked(make_rig, 3, max_creates=1)
    rig.cloud.on("find_by_record", fail(Throttled("RequestLimitExceeded", retry_after=45)))
    rig.start()
    rig.turn_until("cloud.throttled", within=300)
    rig.turn(35)
    assert rig.cloud.calls["find_by_record"] == 1
    rig.turn(300)
    assert len(rig.lines("record.cleaned")) == len(records)


def test_an_order_that_waited_until_it_was_void_costs_no_request_c11(make_rig: MakeRig) -> None:
    rig, records = leaked(make_rig, 3, max_creates=1)
    rig.store.on("read", first(lambda: rig.clock.advance(61)))
    rig.start()
    rig.turn_until("record.clean_skipped", within=300)
    late = rig.lines("record.clean_skipped", reason="order_expired")
    assert {line["record"] for line in late} == {record.uuid for record in records}
    assert len({line["plan"] for line in late}) == 1
    read = rig.store.calls["read"] - len(rig.lines("record.cleaned"))
    assert read == 1, "only the first was looked at in vain"


@pytest.mark.parametrize(("left_s", "asks"), [(1.0, True), (-1.0, False)], ids=["in-time", "void"])
def test_the_cleaner_does_not_look_for_a_void_order_c11(
    leaking: Leaking, left_s: float, asks: bool
) -> None:
    rig, record = leaking()
    nobody: Any = None
    context = TeamContext(
        cloud=rig.cloud,
        store=rig.store,
        daemon=nobody,
        timer=nobody,
        clock=rig.clock,
        on_death=lambda actor, error: None,
    )
    look = LookAtRecord(record.uuid, not_after=rig.clock.boottime() + left_s)
    cleaner = RecordCleanerActor(context)
    if asks:
        assert cleaner._carry_out(look).record == record
    else:
        with pytest.raises(TooLate):
            cleaner._carry_out(look)
    assert rig.store.calls["read"] == rig.cloud.calls["find_by_record"] == int(asks)
