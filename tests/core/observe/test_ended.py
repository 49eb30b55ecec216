"""Nodes that end before their boot came to anything are told and counted, whatever is in flight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import ASK_AGAIN_S
from nodemanager.core.model.world import CloudState, life_key
from nodemanager.core.observe.history import destroy_sent
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.plan.plan import Plan
from tests.core.build import SMALL, Flight, World, node, world

LOST = "the cloud took it back"


def booting(kind: str | None) -> tuple[World, Plan]:
    """A world whose only node has not pinged, and the plan that first sees that it has ended.

    Then an action of that kind is in flight for its record.
    """
    made = world(max_nodes=4)
    made.add_record("r1", pinged=False)
    made.nodes.append(node("r1", state=CloudState.PENDING, created_at=made.ago(0)))
    made.round()
    made.change_node("i-r1", state=CloudState.TERMINATED, why=LOST)
    made.flags["record_flights"] = {} if kind is None else {"r1": Flight(kind, made.now)}
    return made, made.round()


def ended(plan: Plan) -> list[tuple[str, str]]:
    return [(one.node_id, "" if one.node is None else one.node.why) for one in plan.ended]


@pytest.mark.parametrize("kind", [None, "bind", "drain", "adopt"])
def test_a_node_that_ended_in_its_set_up_is_told_once_whatever_else_is_in_flight_b5(
    kind: str | None,
) -> None:
    made, seen = booting(kind)
    assert ended(seen) == [("i-r1", LOST)]
    made.flags["record_flights"] = {}
    assert ended(made.round()) == []


@pytest.mark.parametrize("kind", ["setup", "clean", "prune"])
def test_one_whose_record_is_being_written_is_told_once_that_is_over_b5(kind: str) -> None:
    made, seen = booting(kind)
    assert ended(seen) == []
    made.flags["record_flights"] = {}
    assert ended(made.round()) == [("i-r1", LOST)]


@pytest.mark.parametrize("kind", ["shutdown:bad", "shutdown:idle"])
def test_one_that_we_shut_down_did_not_end_by_itself_b5(kind: str) -> None:
    made, seen = booting(kind)
    made.flags["record_flights"] = {}
    assert ended(seen) == ended(made.round()) == []


def test_one_whose_twin_lives_has_not_ended_its_life_and_the_twin_counts_off_the_list_u1() -> None:
    """A create made two nodes, and the cloud took the first one back (seed 1005075242)."""
    made, twin = world(max_nodes=1, min_nodes=1), node("r1", id="i-twin")
    made.add_record("r1", pinged=False)
    made.nodes += [node("r1", state=CloudState.PENDING, created_at=made.ago(0)), twin]
    made.round()
    made.change_node("i-r1", state=CloudState.TERMINATED, why=LOST)
    seen = made.round()
    assert ended(seen) == []
    made.advance(made.settings.boot_fail_after + 10.0)
    made.nodes.clear()
    made.round()
    assert made.booted == []


def test_the_plan_that_shows_the_fifth_failure_boots_no_sixth_b5() -> None:
    made = world(max_nodes=9, min_nodes=9, sizes=(SMALL,))
    lost = [f"r{number}" for number in range(5)]
    for uuid in lost:
        claim = made.add_record(uuid, pinged=False).claim
        assert claim is not None
        made.change(uuid, claim=replace(claim, size=SMALL.name))
        made.nodes.append(node(uuid, state=CloudState.PENDING, created_at=made.ago(0)))
    assert made.round().boots
    for uuid in lost:
        made.change_node(f"i-{uuid}", state=CloudState.TERMINATED, why=LOST)
    failed = made.round()
    assert [one.record.uuid for one in failed.ended] == lost
    assert failed.loops.sizes[SMALL.name].failed == 5
    assert failed.boots == ()
    assert failed.wants is not None
    assert set(failed.wants.refused) == {(SMALL.name, Reason.BOOT_LOOP)}


def at_work(*others: str) -> World:
    """Nodes of one record at work, which only listings name: it has no instance id."""
    made = world()
    made.add_record("r1", instance_id=None)
    made.nodes += [node("r1"), *(node("r1", id=name) for name in others)]
    made.round()
    return made


def test_one_that_only_listings_named_is_asked_for_by_the_id_they_showed_d3() -> None:
    made = at_work()
    made.nodes.clear()
    assert "i-r1" in made.settle().ask
    made.answer({"i-r1": None})
    assert ended(made.round()) == []
    made.advance(ASK_AGAIN_S)
    made.answer({"i-r1": None})
    assert ended(made.round()) == [("i-r1", "")]
    assert ended(made.round()) == []


def test_a_gap_in_the_listings_forgets_no_id_that_they_showed_d3() -> None:
    made = at_work()
    made.nodes.clear()
    made.round()
    made.advance(made.settings.poll_stale_after + 1.0)
    assert "i-r1" in made.settle().ask


def test_of_two_that_were_listed_for_one_record_neither_is_taken_for_its_own_p2() -> None:
    made = at_work("i-twin")
    made.nodes.clear()
    assert made.settle().ask == ()


@pytest.mark.parametrize(("why", "lost"), [("after_shutdown", []), ("stale_slot", ["i-r1"])])
def test_one_that_we_destroyed_is_not_lost_when_a_late_list_shows_its_record_again_d3(
    why: str, lost: list[str]
) -> None:
    """The flight that destroyed it is over long since (seed 481018627)."""
    made = at_work()
    record = made.change("r1", instance_id="i-r1")
    made.round()
    made.free("r1", why=why)
    made.nodes.clear()
    made.poll_records()
    made.records[:] = [record]
    made.settle()
    for _ in range(2):
        made.answer({"i-r1": None})
        made.advance(ASK_AGAIN_S)
    assert [one.node_id for one in made.round().ended] == lost


@pytest.mark.parametrize(("sent", "lost"), [(True, []), (False, ["i-r1"])])
def test_one_whose_destroy_was_sent_is_not_lost_once_its_flight_ran_out_of_time_d3(
    sent: bool, lost: list[str]
) -> None:
    """The cloud took longer than action_timeout (seed 77000160)."""
    made = at_work()
    made.change("r1", instance_id="i-r1")
    made.round()
    if sent:
        known = made.history.known_nodes.with_destroy("i-r1", made.now)
        made.history = changed(made.history, known_nodes=known)
    made.nodes.clear()
    made.settle()
    for _ in range(2):
        made.answer({"i-r1": None})
        made.advance(ASK_AGAIN_S)
    assert [one.node_id for one in made.round().ended] == lost


def test_none_is_lost_before_it_is_known_which_ones_a_former_run_destroyed_d3() -> None:
    """Its journal can't be read yet (seed 77000137)."""
    made = at_work()
    made.change("r1", instance_id="i-r1")
    made.round()
    made.flags |= {"journal_read": False}
    made.nodes.clear()
    made.settle()
    for _ in range(2):
        made.answer({"i-r1": None})
        made.advance(ASK_AGAIN_S)
    assert made.round().ended == ()
    assert not made.round().history.ended_lives
    made.flags |= {"journal_read": True}
    assert [one.node_id for one in made.round().ended] == ["i-r1"]


def test_one_that_ended_in_its_set_up_stands_for_no_node_to_come_whoever_ended_it_u9() -> None:
    """Also before it is known whether a former run did (seed 78000923)."""
    made = World()
    made.add_record("r1", pinged=False, quiet=10.0)
    made.add_node("r1", age=10.0, state=CloudState.TERMINATED)
    made.flags |= {"journal_read": False}
    made.round()
    assert made.round().pending == frozenset()
    assert made.round().ended == ()
    made.flags |= {"journal_read": True}
    assert [one.node_id for one in made.round().ended] == ["i-r1"]
    assert made.round().pending == frozenset()


def test_while_most_records_are_out_of_sight_those_in_sight_are_judged_and_no_other_forgotten() -> (
    None
):
    """The breaker is open for the records (seed 79000660)."""
    made = world(max_nodes=20)
    for number in range(1, 11):
        made.add_record(f"r{number}", pinged=number > 2, quiet=10.0)
        made.add_node(f"r{number}", age=10.0)
    made.round()
    made.change_node("i-r1", state=CloudState.TERMINATED, why=LOST)
    plan = made.round()
    assert ended(plan) == [("i-r1", LOST)]
    made.flags["limits"] = Limits(loops=plan.loops)
    made.records = [one for one in made.records if one.uuid in ("r2", "r3")]
    made.change_node("i-r2", state=CloudState.TERMINATED, why=LOST)
    plan = made.round()
    assert plan.breaker.cause is Cause.RECORDS_COLLAPSED
    assert ended(plan) == [("i-r2", LOST)]
    assert len(plan.loops.counted) == 2


@pytest.mark.parametrize("kind", ["shutdown:idle", None])
def test_one_that_was_up_and_that_we_ended_is_known_to_the_next_run(kind: str | None) -> None:
    """However its shutdown ended, which may have been given up (seeds 84000009 and 84000012)."""
    made = world(max_nodes=4)
    record = made.add_record("r1", quiet=10.0)
    made.add_node("r1", age=3600.0)
    made.round()
    made.history = destroy_sent(made.history, "i-r1", made.now, refused=False)
    made.change_node("i-r1", state=CloudState.TERMINATED)
    made.flags["record_flights"] = {} if kind is None else {"r1": Flight(kind, made.now)}
    plan = made.round()
    assert plan.ended == ()
    assert plan.loops.counted == {life_key("r1", record.incarnation)}
