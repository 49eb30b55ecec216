"""What only a person can end is told once a day, and again when it has doubled."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.actors.messages import Ordered
from nodemanager.core.model.world import Guarantee
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from tests.actors.rig import Rig
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock

HOUR = 3600.0
DAY = 24 * HOUR

pytestmark = pytest.mark.slow


def rig_with(make_rig: Any, guarantee: Guarantee = Guarantee.CAS, **options: Any) -> Rig:
    clock = TickingClock()
    store = FakeStore(clock, slots=range(40), guarantee=guarantee)
    rig: Rig = make_rig(
        cloud=FakeCloud(clock), store=store, **{"max_nodes": 8, "poll_time": 240} | options
    )
    return rig


def test_leaked_slots_without_an_instance_id_are_told_once_a_day_with_their_command_c11(
    make_rig: Any,
) -> None:
    rig = rig_with(make_rig)
    for slot in (3, 7):
        rig.store.add_leaked(slot, quiet_for=40 * HOUR, instance_id=None, pool=None)
    rig.start()
    rig.turn(600)
    (line,) = rig.lines("slots.stuck")
    assert (line["level"], line["reason"], line["count"]) == ("warning", "unverifiable", 2)
    assert list(line["stuck"]) == ["3", "7"]
    assert "clean SLOT --force unverifiable" in line["clear"]
    rig.turn(DAY - 1200)
    assert len(rig.lines("slots.stuck")) == 1
    rig.turn(1200)
    assert len(rig.lines("slots.stuck")) == 2


def test_they_are_told_again_at_once_when_they_have_doubled(make_rig: Any) -> None:
    rig = rig_with(make_rig)
    rig.store.add_leaked(3, quiet_for=40 * HOUR, instance_id=None)
    rig.start()
    rig.turn(600)
    rig.store.add_leaked(4, quiet_for=40 * HOUR, instance_id=None)
    rig.turn(600)
    assert [line["count"] for line in rig.lines("slots.stuck")] == [1, 2]
    rig.store.add_leaked(5, quiet_for=40 * HOUR, instance_id=None)
    rig.turn(600)
    assert len(rig.lines("slots.stuck")) == 2


def test_a_cause_that_comes_and_goes_is_told_once_a_day(make_rig: Any) -> None:
    rig = rig_with(make_rig)
    record = rig.store.add_leaked(3, quiet_for=40 * HOUR, instance_id=None)
    rig.start()
    for _ in range(4):
        rig.turn(600)
        rig.store.put(record.uuid, modified_at=rig.store.now())
        rig.turn(600)
        rig.store.put(record.uuid, modified_at=rig.store.now() - 40 * HOUR)
    assert len(rig.lines("slots.stuck")) == 1


@cases(
    ("guarantee", "clear"),
    {"registry": (Guarantee.CAS, "prune_after"), "arvados": (Guarantee.FENCED, "doc/arvados")},
)
def test_records_that_nobody_needs_are_told_once_a_day(
    make_rig: Any, guarantee: Guarantee, clear: str
) -> None:
    rig = rig_with(make_rig, guarantee)
    for _ in range(300):
        rig.store.add_cleaned(quiet_for=30 * DAY)
    rig.start()
    rig.turn(HOUR)
    (line,) = rig.lines("records.surplus")
    assert (line["level"], line["reason"]) == ("warning", "unused_records")
    assert (line["count"], line["limit"]) == (300, 8)
    assert clear in line["clear"]
    assert rig.store.calls["delete"] == 0


def order(rig: Rig, verb: Verb) -> None:
    answers: list[Reply] = []
    command = Command(verb, "ann", "deleting unused records", "")
    rig.system.daemon.tell(Ordered(command, answers.append))
    rig.flush()
    assert answers[0].result is Result.DONE, answers


def test_the_way_by_hand_in_the_manual_ends_it_on_arvados(make_rig: Any) -> None:
    rig = rig_with(make_rig, Guarantee.FENCED, min_nodes=1)
    for _ in range(300):
        rig.store.add_cleaned(quiet_for=30 * DAY)
    rig.start()
    rig.turn(600)
    order(rig, Verb.PAUSE)
    rig.turn(120)
    unused = [one.uuid for one in rig.records if not one.holds_anything]
    for uuid in unused[8:]:
        del rig.store.rows[uuid]
    rig.turn_until("breaker.opened", within=300)
    order(rig, Verb.BREAKER_RESET)
    order(rig, Verb.RESUME)
    rig.turn(DAY + HOUR)
    assert len(rig.lines("records.surplus")) == 1
    assert len(rig.lines("breaker.opened")) == 1
    assert rig.lines("node.paired")
