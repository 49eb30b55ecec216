"""Which node and which record are each other's (P1-P3, P5, T3)."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.model.world import CloudNode, CloudState, Record, Tags
from nodemanager.core.observe.pairing import Pairs, pair
from tests.cases import cases
from tests.core.build import EPOCH, POOL, World, claim, node, record, world

NOW = EPOCH + 100_000.0


def paired(
    nodes: list[CloudNode], records: list[Record], *, ids_unique: bool = True, **options: Any
) -> Pairs:
    made = world()
    made.poll_records(records)
    made.poll_cloud(nodes)
    return pair(made.history, pool=POOL, ids_unique=ids_unique, **options)


def test_a_node_and_its_record_pair_by_uuid_and_incarnation_p1() -> None:
    pairs = paired([node("r1"), node("r2")], [record("r1", at=NOW), record("r2", at=NOW, slot=2)])
    assert {one: rec.uuid for one, rec in pairs.record_of.items()} == {"i-r1": "r1", "i-r2": "r2"}
    assert {uuid: one.id for uuid, one in pairs.node_of.items()} == {"r1": "i-r1", "r2": "i-r2"}


def test_tags_pair_without_any_test_of_time_p1() -> None:
    old = record("r1", at=NOW, first_ping_at=NOW - 1e6, instance_id=None)
    assert "r1" in paired([node("r1", id="x", created_at=None)], [old]).node_of


@cases(
    ("one", "rec"),
    {
        "another-incarnation": (node("r1", id="x", life=2), record("r1", at=NOW)),
        "node-of-a-pool": (node("r1", id="x", pool="other"), record("r1", at=NOW)),
        "record-of-a-pool": (node("r1"), record("r1", at=NOW, pool="other")),
        "claim-of-a-pool": (
            node("r1"),
            record("r1", at=NOW, pool=None, claim=claim("r1", at=NOW, pool="other")),
        ),
        "gone": (node("r1", state=CloudState.TERMINATED), record("r1", at=NOW)),
        "no-claim": (node("r1", id="x"), record("r1", at=NOW, claimed=False)),
        "no-tag": (node("r1", id="x", tags=Tags(POOL, "r1", None)), record("r1", at=NOW)),
        "only-a-name": (node("r2"), record("r1", at=NOW, hostname="i-r2")),
        "only-an-address": (node(id="x", pool=None, addresses=("10.0.0.1",)), record("r1", at=NOW)),
    },
)
def test_nothing_less_pairs_p1_t3(one: CloudNode, rec: Record) -> None:
    assert paired([one], [rec]).node_of == {}


UNTAGGED = node(id="i-r1", pool=None, created_at=NOW - 1000.0)


@cases(
    ("first", "unique", "pairs"),
    {
        "pinged-at-its-start": (NOW - 1000.0, True, True),
        "pinged-before-its-start": (NOW - 1000.1, True, False),
        "ids-are-used-again": (NOW - 500.0, False, False),
        "never-pinged": (None, True, False),
    },
)
def test_without_tags_an_instance_id_pairs_where_ids_are_unique_for_ever_p1(
    first: float | None, unique: bool, pairs: bool
) -> None:
    rec = record("r1", at=NOW, first_ping_at=first, instance_id="i-r1")
    assert ("r1" in paired([UNTAGGED], [rec], ids_unique=unique).node_of) is pairs


@cases(
    "one",
    {
        "no-launch-time": node(id="i-r1", pool=None, created_at=None),
        "tagged-for-another": node("r9", id="i-r1", created_at=NOW - 1e5),
    },
)
def test_an_instance_id_pairs_with_no_node_it_may_not_be_p1_p3(one: CloudNode) -> None:
    assert paired([one], [record("r1", at=NOW)]).node_of == {}


def test_two_nodes_of_one_incarnation_pair_with_neither_p2() -> None:
    pairs = paired([node("r1", id="a"), node("r1", id="b")], [record("r1", at=NOW)])
    assert (pairs.record_of, pairs.node_of) == ({}, {})
    assert pairs.ambiguous == {"r1": ("a", "b"), "a": ("r1",), "b": ("r1",)}


def test_the_elder_of_two_lives_is_not_ambiguous_p2() -> None:
    pairs = paired(
        [node("r1", id="a", life=1), node("r1", id="b", life=2)], [record("r1", at=NOW, life=2)]
    )
    assert pairs.node_of["r1"].id == "b"
    assert pairs.ambiguous == {}


@pytest.mark.parametrize("count", [2, 3])
def test_records_that_name_one_node_all_pair_with_none_p2(count: int) -> None:
    records = [record(f"r{n}", at=NOW, slot=n, instance_id="x") for n in range(count)]
    one = node(id="x", pool=None, created_at=NOW - 1e5)
    pairs = paired([one], records)
    assert (pairs.record_of, pairs.node_of) == ({}, {})
    assert set(pairs.ambiguous) == {"x", *(f"r{n}" for n in range(count))}
    assert pairs.ambiguous["x"] == tuple(f"r{n}" for n in range(count))


@pytest.mark.parametrize(("adopt", "pairs"), [(None, True), (True, True), (False, False)])
def test_a_record_that_names_no_pool_pairs_only_where_it_is_adopted_t3(
    adopt: bool | None, pairs: bool
) -> None:
    rec = record("r1", at=NOW, pool=None, claimed=False)
    one = node(id="i-r1", pool=None, created_at=NOW - 1e5)
    assert ("r1" in paired([one], [rec], adopt_unclaimed=adopt).node_of) is pairs


def test_there_are_no_pairs_before_both_listings_are_there() -> None:
    made = World()
    assert pair(made.history, pool=POOL, ids_unique=True) == Pairs({}, {}, {})


def test_pairing_looks_up_and_does_not_search_p5() -> None:
    """Ten times as many cost about ten times as many comparisons of strings, not a hundred."""
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    def cost(count: int) -> int:
        nonlocal compared
        records = [record(Counted(f"r{n}"), at=NOW, slot=n) for n in range(count)]
        nodes = [node(f"r{n}") for n in range(count)]
        made = world()
        made.poll_records(records)
        made.poll_cloud(nodes)
        compared = 0
        assert len(pair(made.history, pool=POOL, ids_unique=True).node_of) == count
        return compared

    assert cost(1000) < 30 * cost(100)
