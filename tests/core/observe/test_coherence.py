"""Listings that contradict themselves: items are kept, too many end the cycle (L4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.explain.explain import explain
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudState
from tests.cases import cases
from tests.core.build import World, node, world


def many(count: int = 50) -> World:
    """`count` pairs, and one record whose node is gone."""
    made = world(max_nodes=count + 1)
    for number in range(count):
        made.add_record(f"r{number}")
        made.add_node(f"r{number}")
    made.add_record("dead", quiet=9000.0)
    return made


def test_a_record_listed_twice_is_kept_l4() -> None:
    made = many()
    made.records.append(made.record("dead"))
    made.settle()
    assert made.of_record("dead").reason is Reason.IMPOSSIBLE


def test_two_records_on_one_slot_are_both_kept_l4() -> None:
    made = many()
    made.add_record("twin", quiet=9000.0, slot=made.record("dead").slot_number)
    made.settle()
    assert [made.of_record(one).reason for one in ("dead", "twin")] == [Reason.IMPOSSIBLE] * 2


def test_what_keeps_two_records_on_one_slot_says_how_to_end_it_l4() -> None:
    made = many()
    made.add_record("twin", quiet=9000.0, slot=made.record("dead").slot_number)
    made.settle()
    measures = made.of_record("twin").measures
    assert measures is not None
    assert measures["rivals"] == ("dead", "twin")
    assert "slot_number" in measures["clear"]
    told = explain(made.decided, made.last, made.settings, "twin")
    assert "dead holds its slot, too" in str(told.blocks[0].why)
    # As it says.
    made.change("twin", slot_number=None, hostname=None)
    made.settle()
    assert made.of_record("dead").reason is Reason.STALE_SLOT


def test_a_cycle_ended_by_two_records_on_one_slot_says_how_to_end_it_l4() -> None:
    made = many(5)
    made.add_record("twin", quiet=9000.0, slot=made.record("dead").slot_number)
    made.settle()
    assert made.last.aborted is not None
    reason, measures, _ = made.last.aborted
    assert reason is Reason.TOO_MANY_IMPOSSIBLE
    assert measures["rivals"] == ("dead", "twin")
    assert "slot_number" in measures["clear"]


def test_slot_0_twice_is_impossible_too_l4() -> None:
    made = many()
    made.change("dead", slot_number=0)
    made.add_record("twin", quiet=9000.0, slot=0)
    made.settle()
    assert made.of_record("twin").reason is Reason.IMPOSSIBLE


@pytest.mark.parametrize("second", [CloudState.RUNNING, CloudState.TERMINATED, CloudState.STOPPED])
def test_a_node_listed_twice_keeps_its_record_and_is_not_destroyed_l4(second: CloudState) -> None:
    made = many()
    made.add_node("dead", state=CloudState.STOPPED)
    made.nodes.append(replace(made.nodes[-1], state=second))
    made.settle()
    assert made.destroyed == []
    assert made.cleaned == []


@cases(("doubled", "aborted"), {"five-in-a-hundred": (5, False), "more": (6, True)})
def test_above_five_percent_no_decision_is_taken_l4(doubled: int, aborted: bool) -> None:
    made = many(50)
    made.nodes.extend(node(f"r{n}") for n in range(doubled))
    total = len(made.nodes) + len(made.records)
    assert (doubled > 0.05 * total) is aborted
    made.settle()
    assert (made.last.aborted is not None) is aborted
    if aborted:
        assert made.last.aborted is not None
        assert made.last.aborted[0] is Reason.TOO_MANY_IMPOSSIBLE
        assert (made.cleaned, made.destroyed, made.booted) == ([], [], [])


def test_without_a_listing_of_everything_no_decision_is_taken_l1() -> None:
    made = world(min_nodes=1)
    for poll in ("nothing", "records"):
        if poll == "records":
            made.poll_records()
        plan = made.plan()
        assert plan.aborted is not None
        assert plan.aborted[0] is Reason.NO_LISTING
        assert plan.boots == ()
