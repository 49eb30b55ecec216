"""Whom an operator means: one answer for every command (O9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.model.scheduling import SEAT
from nodemanager.core.operate.naming import AmbiguousIdError, Known, Named, UnknownIdError
from tests.cases import cases
from tests.core.build import EPOCH, World, cleaned, node, world

PAIR = Named("r1", "i-r1", "r1")
BY_NODE = Named("i-r1", "i-r1", "r1")
LEAK = Named("r2", "i-r2", "r2")


def pair_and_leak() -> World:
    """r1 (compute1) with its node, r2 (compute2) whose node is listed no more, and i-lone."""
    made = world()
    made.add_record("r1", slot=1, quiet=100.0)
    made.add_node("r1", name="worker-a")
    made.add_record("r2", slot=2, quiet=100.0)
    made.nodes.append(node(id="i-lone", name="worker-b"))
    made.round()
    return made


def find(made: World, given: str, *others: str) -> Named:
    return Known(made.history, made.last.pairs, frozenset(others)).find(given)


@cases(
    ("given", "expected"),
    {
        "a-record": ("r1", PAIR),
        "a-node": ("i-r1", BY_NODE),
        "a-node-s-own-name": ("worker-a", BY_NODE),
        "a-hostname": ("compute1", PAIR),
        "a-slot": ("1", PAIR),
        "a-record-whose-node-is-gone": ("r2", LEAK),
        "the-node-that-is-gone": ("i-r2", Named("i-r2", "i-r2", "r2")),
        "a-node-without-a-record": ("i-lone", Named("i-lone", "i-lone")),
        "its-name": ("worker-b", Named("i-lone", "i-lone")),
        "the-beginning-of-an-id": ("i-lo", Named("i-lone", "i-lone")),
        "a-leftover": ("vol-9", Named("vol-9", "vol-9")),
    },
)
def test_each_kind_of_name_names_one_thing(given: str, expected: Named) -> None:
    assert find(pair_and_leak(), given, "vol-9", "i-r1") == expected


def test_a_free_seat_is_known_by_the_name_that_its_node_would_have() -> None:
    made = world()
    made.records = [cleaned("r1", at=EPOCH)]
    made.change("r1", properties={SEAT: "small-1"})
    made.round()
    assert find(made, "small-1", "small-1") == Named("r1", record="r1")


def test_slot_0_is_a_slot() -> None:
    made = world()
    made.add_record("r1", slot=0)
    made.round()
    assert find(made, "0").record == "r1"


def test_a_name_that_two_have_names_neither_and_lists_both() -> None:
    made = pair_and_leak()
    made.change("r2", hostname="compute1")
    made.round()
    with pytest.raises(AmbiguousIdError, match=r"r1 \(compute1, slot 1, i-r1\), r2") as caught:
        find(made, "compute1")
    assert caught.value.near == ("r1", "r2")


def test_the_beginning_of_two_ids_names_neither() -> None:
    made = pair_and_leak()
    made.nodes.append(node(id="i-lone-2"))
    made.round()
    assert find(made, "i-lone").id == "i-lone"
    with pytest.raises(AmbiguousIdError, match="i-lone, i-lone-2: say which"):
        find(made, "i-lon")


@pytest.mark.parametrize("given", ["i-r", "9", "12345"])
def test_too_short_a_beginning_and_a_number_that_is_no_slot_name_nobody(given: str) -> None:
    made = pair_and_leak()
    made.nodes.append(node(id="123456"))
    made.round()
    with pytest.raises(UnknownIdError, match="near it"):
        find(made, given)


@pytest.mark.parametrize(
    ("given", "nearest"),
    [("i-r11", "i-r1"), ("compute11", "compute1"), ("8", "slot 2"), ("no-such-thing", None)],
)
def test_an_unknown_id_is_told_with_the_nearest_ones(given: str, nearest: str | None) -> None:
    with pytest.raises(UnknownIdError) as caught:
        find(pair_and_leak(), given)
    assert (caught.value.near or (None,))[0] == nearest


def test_a_dead_node_names_the_record_that_it_had_until_that_is_used_again() -> None:
    made = pair_and_leak()
    made.free("r2")
    made.round()
    assert find(made, "i-r2") == Named("i-r2", "i-r2", "r2")
    assert find(made, "compute2") == LEAK
    made.change("r2", slot_number=3, hostname="compute3", claim=made.record("r1").claim)
    made.round()
    for given in ("i-r2", "compute2"):
        assert find(made, given) == Named("i-r2", "i-r2")
    assert find(made, "compute3").record == "r2"


@pytest.mark.parametrize("given", ["r2", "i-r2"])
def test_an_id_names_itself_before_and_after_its_life_was_freed_and_when_it_is_back_c9(
    given: str,
) -> None:
    """What is put on hold by an id is released by it, whatever became of it since."""
    made = pair_and_leak()
    assert find(made, given).id == given
    made.free("r2")
    made.round()
    assert find(made, given).id == given
    made.add_node("r2")
    made.round()
    assert find(made, given).id == given


def test_a_hostname_is_its_present_bearers_and_not_the_dead_ones() -> None:
    made = pair_and_leak()
    made.free("r2")
    made.add_record("r3", slot=2)
    made.nodes = [one for one in made.nodes if one.id != "i-lone"]
    made.add_node("r3")
    made.round()
    assert find(made, "compute2") == Named("r3", "i-r3", "r3")
    made.nodes = [replace(one, name="compute1") for one in made.nodes if one.id != "i-r1"]
    made.round()
    with pytest.raises(AmbiguousIdError, match=r"r1 .*, r3"):
        find(made, "compute1")


def test_a_held_node_keeps_its_name_when_its_record_pairs_with_a_twin() -> None:
    """The record still names the first node; what holds it must be there to release (C9)."""
    made = world()
    made.add_record("r1", slot=1, instance_id="i-first")
    made.add_node("r1", id="i-twin")
    made.round()
    assert find(made, "r1", "i-first") == Named("r1", "i-twin", "r1")
    assert find(made, "i-first", "i-first") == Named("i-first", "i-first")
