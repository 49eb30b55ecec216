"""The whole plan: reuse (U1-U3), what it leaves alone, what the summary counts."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.model.annotations import HandClean
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudState, Job
from nodemanager.core.observe.snapshot import Flight
from tests.cases import cases
from tests.core.build import World, cleaned, world


def reusing(**fields: Any) -> World:
    """One record that was cleaned long ago, and a node wanted."""
    made = world(max_nodes=3)
    made.records = [cleaned("r1", at=made.ago(1e5), **fields)]
    made.flags["demand"] = (Job("j"),)
    return made


def reused(made: World) -> str | None:
    plan = made.round()
    assert len(plan.boots) == 1
    return plan.boots[0].record.uuid if plan.boots[0].record is not None else None


def test_a_cleaned_record_of_the_pool_is_used_again_u1() -> None:
    assert reused(reusing()) == "r1"


@cases(
    "fields",
    {
        "slot-0": {"slot_number": 0},
        "hostname": {"hostname": "compute1"},
        "an-old-ping": {"last_ping_at": 1.0},
        "another-pool": {"pool": "other"},
        "held": {"held": True},
        "unreadable": {"problems": ("info: ?",)},
    },
)
def test_a_record_that_holds_anything_is_never_used_again_but_a_new_one_is_made_u3_u1(
    fields: dict[str, Any],
) -> None:
    assert reused(reusing(**fields)) is None


@cases(
    "flags",
    {
        "held": {"holds": frozenset({"r1"})},
        "in-flight": {"record_flights": {"r1": Flight("clean", 0.0)}},
    },
)
def test_a_record_that_something_stands_for_is_not_used_again_u1(flags: dict[str, Any]) -> None:
    made = reusing()
    made.flags |= flags
    assert reused(made) is None


@cases(("held", "expected"), {"its-node": ("i-r1", None), "another-records-node": ("i-r2", "r1")})
def test_a_freed_record_is_not_used_again_while_its_node_is_on_hold_c9_u1(
    held: str, expected: str | None
) -> None:
    """Its life could be given back no more (U8)."""
    made = world(max_nodes=1)
    made.add_record("r1", slot=0, quiet=9000.0)
    made.round()
    made.free("r1")
    made.flags |= {"demand": (Job("j"),), "holds": frozenset({held})}
    assert reused(made) == expected


def test_a_record_whose_uuid_a_node_still_bears_is_not_used_again_u1() -> None:
    made = reusing()
    made.add_node("r1", state=CloudState.STOPPING)
    assert reused(made) is None


def test_a_record_that_names_no_pool_is_used_only_where_it_is_adopted_u1_t3() -> None:
    assert reused(reusing(pool=None)) == "r1"
    made = reusing(pool=None).with_settings(adopt_unclaimed=False)
    assert reused(made) is None


def test_each_boot_gets_a_record_of_its_own_u1() -> None:
    made = world(max_nodes=9)
    made.records = [cleaned(f"r{n}", at=made.ago(1e5)) for n in range(2)]
    made.flags["demand"] = (Job("j", count=3),)
    plan = made.round()
    assert [boot.record and boot.record.uuid for boot in plan.boots] == ["r0", "r1", None]


def test_a_leaked_slot_is_cleaned_and_then_used_again() -> None:
    """The forerunner's disease, from end to end."""
    made = world(max_nodes=1)
    made.add_record("r1", slot=0, quiet=9000.0)
    made.flags |= {"demand": (Job("j"),), "slots": 1}
    made.settle()
    assert (made.cleaned, made.booted) == (["r1"], [])
    made.records = [cleaned("r1", at=made.store_now)]
    made.advance(60.0)
    made.round()
    assert (made.cleaned, made.booted) == ([], ["small"])


def test_an_empty_cloud_list_by_mistake_boots_nothing_and_frees_nothing() -> None:
    """The forerunner booted ten duplicates beside ten idle nodes."""
    made = world(max_nodes=20, min_nodes=10)
    for number in range(10):
        made.add_record(f"r{number}", quiet=9000.0)
        made.add_node(f"r{number}")
    made.round()
    made.nodes.clear()
    for _ in range(5):
        made.advance(60.0)
        made.round()
        assert (made.booted, made.cleaned) == ([], [])


def test_the_summary_counts_nodes_by_what_they_do() -> None:
    made = world(max_nodes=9)
    made.add_record("r1")
    made.add_node("r1")
    made.add_node("r2")
    made.add_node(id="x", pool="other")
    plan = made.round()
    counts = plan.counts
    assert (counts["nodes"], counts["nodes_paired"], counts["nodes_unpaired"]) == (2, 1, 1)
    assert counts["records"] == 1


def test_each_node_and_each_record_has_exactly_one_verdict() -> None:
    made = world(max_nodes=9)
    for number in range(5):
        made.add_record(f"r{number}")
        made.add_node(f"r{number}")
    plan = made.round()
    assert sorted(one.id for one in plan.records) == sorted(one.uuid for one in made.records)
    assert sorted(one.node.id for one in plan.views) == sorted(one.id for one in made.nodes)


def test_a_record_that_was_written_since_its_listing_is_not_used_again_u1() -> None:
    """What the listing shows of it is older than what we did to it ourselves."""
    made = reusing()
    made.poll()
    made.flags["touched"] = {"r1": made.now}
    assert made.plan().boots[0].record is None
    made.advance(1.0)
    made.poll()
    (boot,) = made.plan().boots
    assert boot.record is not None


@pytest.mark.parametrize("kind", ["restore", "setup", "clean", "prune"])
def test_a_node_whose_record_is_in_flight_is_not_destroyed_c8(kind: str) -> None:
    made = world(node_stale_after=7200.0)
    made.add_record("r1", quiet=100.0)
    made.add_node("r1", state=CloudState.STOPPED)
    made.settle()
    assert made.destroyed == ["i-r1"]
    made.flags["record_flights"] = {"r1": Flight(kind, made.now)}
    made.plan()
    assert made.destroyed == []
    assert made.of_node("i-r1").reason is Reason.IN_FLIGHT


def test_dead_claims_are_freed_before_quieter_slots_c10_u6() -> None:
    made = world(max_nodes=2, max_cleans_per_cycle=2, hold_backlog=False)
    for number in range(5):
        made.add_record(f"stale-{number}", quiet=9000.0 + number)
    for number in range(2):
        made.add_record(f"dead-{number}", pinged=False, quiet=5000.0 + number)
    made.add_record("claimed", pinged=False)
    made.flags["demand"] = (Job("j"),)
    plan = made.settle()
    assert plan.boots == ()
    assert [order.uuid for order in plan.cleans] == ["dead-1", "dead-0"]
    assert plan.deferred == 5
    # One whose clean came to nothing lately waits for the others, and an operator's order for none.
    made.flags["skipped"] = {"dead-1": 1.0}
    made.flags["by_hand"] = {"stale-0": HandClean("ann", 0.0, "", ())}
    assert [order.uuid for order in made.round().cleans] == ["stale-0", "dead-0"]
    made.flags["by_hand"] = {}
    assert [order.uuid for order in made.round().cleans] == ["dead-0", "stale-4"]


def test_what_was_freed_since_the_listing_uses_up_the_cap_c10() -> None:
    made = world(max_cleans_per_cycle=2, max_nodes=9, min_nodes=0)
    for number in range(5):
        made.add_record(f"r{number}", quiet=9000.0)
    made.settle()
    assert len(made.cleaned) == 2
    made.plan(cleaned_lately=1)
    assert len(made.cleaned) == 1
    made.plan(cleaned_lately=2)
    assert made.cleaned == []


def test_a_node_that_is_known_to_be_gone_takes_no_place_though_it_is_listed_d3() -> None:
    made = world(max_nodes=1, min_nodes=0, demand_polled=True)
    made.add_record("r1")
    made.add_node("r1")
    made.round(2)
    assert made.plan().wants.price > 0
    assert made.plan(gone={"i-r1": made.now}).wants.price == 0.0
