"""The lists of nodes and slots: each once, with what it does and what keeps it (O1)."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from nodemanager.core.explain.explain import DecisionView, explain
from nodemanager.core.explain.inventory import Inventory, node_row, take
from nodemanager.core.explain.verify import verify
from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudState, Tags, WorkerState
from nodemanager.core.observe.snapshot import Expected
from nodemanager.core.operate.naming import UnknownIdError
from tests.core.build import EPOCH, START, World, incarnation_of, node, world


def pool() -> World:
    """A busy pair on slot 1, a leak on slot 2, a node alone, and two that are not ours to count."""
    made = world(node_stale_after=7200.0)
    made.add_record("r1", slot=1, worker_state=WorkerState.BUSY)
    made.add_node("r1", age=3600.0, size="small", addresses=("10.0.0.1",))
    made.add_record("r2", slot=2, quiet=1000.0)
    made.nodes.append(node(id="i-alone", created_at=made.ago(60.0)))
    made.nodes.append(node(id="i-over", state=CloudState.TERMINATED))
    made.nodes.append(node(id="i-others", pool="others"))
    made.add_record("r9")
    made.free("r9")
    made.settle()
    return made


def lists(made: World) -> Inventory:
    return take(made.last, made.decided, made.settings)


def test_each_node_is_there_once_with_what_it_does_and_why() -> None:
    made = pool()
    rows = {one.node: one for one in lists(made).nodes}
    assert rows.keys() == {"i-r1", "i-alone", "i-others"}
    pair = rows["i-r1"]
    assert (pair.host, pair.slot, pair.record, pair.size) == ("compute1", 1, "r1", "small")
    assert (pair.state, pair.reason) == ("busy", "busy")
    assert pair.age_s is not None
    assert pair.age_s == pytest.approx(3600.0, abs=600.0)
    alone = rows["i-alone"]
    assert (alone.host, alone.slot, alone.state) == (None, None, "unpaired")
    assert rows["i-others"].state == "foreign"


def test_a_node_that_a_listing_lacks_is_in_the_list_and_boots_no_more_than_it_did() -> None:
    """Until its absence is settled: the counts, the list and `verify` have it under one name."""
    made = pool()
    made.ping("r1")
    made.drop_node("i-r1")
    made.round()
    assert made.decided is not None
    assert made.last is not None
    counts = {name: made.last.counts.get(f"nodes_{name}", 0) for name in ("booting", "unlisted")}
    assert counts == {"booting": 0, "unlisted": 1}
    (row,) = [one for one in lists(made).nodes if one.state == "unlisted"]
    assert (row.host, row.slot, row.record, row.reason) == ("compute1", 1, "r1", "node_absent")
    told = verify(DecisionView(made.decided, made.last, made.settings), made.now)
    assert not any(one.reason is Reason.SUM_IMPOSSIBLE for one in told.open)
    assert told.nodes["coming"] == 1


def test_a_node_s_size_is_called_as_demand_calls_it_u11() -> None:
    """In the list of nodes, and by explain: by tag, by claim, by instance type, or not at all."""
    made = world()
    made.add_record("r1")
    claim = made.record("r1").claim
    assert claim is not None
    made.change("r1", claim=replace(claim, size="large"))
    made.add_node("r1")
    made.add_node("r2", tags=Tags("main", "r2", incarnation_of("r2"), "large"))
    made.add_node("r3")
    made.add_node("r4", size="t.unknown")
    made.settle()
    called = {"i-r1": "large", "i-r2": "large", "i-r3": "small", "i-r4": "t.unknown"}
    assert {one.node: one.size for one in lists(made).nodes} == called
    for node_id, size in called.items():
        told = explain(made.decided, made.last, made.settings, node_id)
        assert told.node is not None
        assert told.node["size"] == size


def test_the_states_are_those_that_the_status_page_counts() -> None:
    made = pool()
    states = [one.state for one in lists(made).nodes]
    for state in ("busy", "unpaired", "booting"):
        assert made.last.counts.get(f"nodes_{state}", 0) == states.count(state)


def test_only_slots_that_are_held_are_listed_with_what_holds_them() -> None:
    made = pool()
    made.flags["slots"] = 64
    made.round()
    taken = lists(made)
    assert taken.total == 64
    rows = {one.slot: one for one in taken.slots}
    assert rows.keys() == {1, 2}
    assert (rows[1].state, rows[1].node, rows[1].reason) == ("listed_node", "i-r1", "paired")
    leak = rows[2]
    assert (leak.state, leak.reason, leak.host) == ("no_node", "within_window", "compute2")
    assert leak.quiet_s is not None
    assert leak.free_in_s == pytest.approx(7200.0 - leak.quiet_s)
    made.advance(7200.0)
    made.round()
    assert {one.state for one in lists(made).slots if one.slot == 2} == {"leaked"}


def test_slot_0_is_a_slot() -> None:
    made = world()
    made.add_record("r1", slot=0)
    made.settle()
    assert [one.slot for one in lists(made).slots] == [0]


def test_orders_of_operators_stand_beside_what_they_are_about() -> None:
    made = pool()
    mark = Mark("ann", EPOCH + START)
    made.flags |= {"drains": {"i-r1": mark}, "holds": frozenset({"r1", "r2"})}
    made.round()
    taken = lists(made)
    assert next(one.orders for one in taken.nodes if one.node == "i-r1") == ("hold", "drain")
    assert next(one.orders for one in taken.slots if one.slot == 2) == ("hold",)


def test_a_node_that_no_listing_has_yet_is_there_as_booting() -> None:
    """P4."""
    made = pool()
    made.flags["expected"] = {
        "r5": Expected("i-r5", "small", made.now - 30.0),
        "r1": Expected("i-r1", "small", made.now - 30.0),
    }
    made.round()
    booting = [one for one in lists(made).nodes if one.state == "booting"]
    assert [(one.node, one.record, one.reason) for one in booting] == [
        ("i-r5", "r5", Reason.NODE_EXPECTED.value)
    ]


def test_where_nothing_could_be_decided_what_is_listed_is_told_with_the_reason() -> None:
    made = pool()
    for _ in range(2):
        made.nodes.append(node(id="i-twice"))
    made.round()
    assert made.last.aborted is not None
    rows = lists(made).nodes
    assert {one.reason for one in rows} == {"too_many_impossible"}
    assert "i-r1" in {one.node for one in rows}


def test_one_node_is_found_by_whatever_names_it() -> None:
    made = pool()
    for given in ("compute1", "1", "i-r1", "r1"):
        row = node_row(made.last, made.decided, made.settings, given)
        assert row is not None
        assert row.node == "i-r1"
    assert node_row(made.last, made.decided, made.settings, "compute2") is None
    with pytest.raises(UnknownIdError):
        node_row(made.last, made.decided, made.settings, "nobody-at-all")


def test_a_thousand_nodes_take_no_time_to_speak_of() -> None:
    made = world()
    for number in range(1000):
        made.add_record(f"r{number}", slot=number)
        made.add_node(f"r{number}")
    made.poll()
    made.round()
    began = time.process_time()
    taken = lists(made)
    assert time.process_time() - began < 1.0
    assert (len(taken.nodes), len(taken.slots)) == (1000, 1000)
