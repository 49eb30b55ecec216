"""Which records are deleted, and what forbids it at the last look (C8-C12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.execute.prune import confirm_prune
from nodemanager.core.judge import false_clean
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import CloudState, FreedLife, Job, Record
from nodemanager.core.observe.evidence import CleanEvidence
from nodemanager.core.observe.snapshot import Flight
from nodemanager.core.plan.due import PruneOrder
from nodemanager.core.plan.plan import Plan
from tests.cases import cases
from tests.core.build import World, claim, cleaned, node, world

DAY_S = 86_400.0
OPEN = Breaker(Cause.INVARIANT, frozenset({"x"}))


def surplus(count: int = 6, **settings: Any) -> World:
    """Records that have been clean for ten days and more, in a pool of four nodes."""
    made = world(**{"max_nodes": 4, "prune_after": 7 * DAY_S, **settings})
    for number in range(count):
        at = made.ago(10 * DAY_S + number)
        made.records.append(cleaned(f"r{number}", at=at))
    return made


def pruned(made: Plan) -> list[str]:
    return [order.uuid for order in made.prunes]


def test_only_what_is_beyond_max_nodes_is_deleted_and_the_longest_clean_first() -> None:
    made = surplus()
    assert pruned(made.round()) == ["r5", "r4"]
    verdict = made.of_record("r5")
    assert (verdict.kind, verdict.reason) == (Kind.PRUNE, Reason.SURPLUS)
    assert verdict.measures is not None
    assert (verdict.measures["count"], verdict.measures["limit"]) == (6, 4)
    assert made.of_record("r0").reason is Reason.HOLDS_NOTHING


def test_records_in_use_count_and_are_never_deleted() -> None:
    made = surplus()
    for number in range(3):
        made.add_record(f"live{number}", quiet=10.0)
        made.add_node(f"live{number}")
    assert pruned(made.round()) == ["r5", "r4", "r3", "r2", "r1"]


@cases(
    ("quiet_s", "expected"), {"before": (7 * DAY_S - 5.0, []), "past": (7 * DAY_S + 5.0, ["r0"])}
)
def test_a_record_is_deleted_only_past_prune_after(quiet_s: float, expected: list[str]) -> None:
    made = world(max_nodes=0, prune_after=7 * DAY_S)
    made.records = [cleaned("r0", at=made.ago(quiet_s))]
    assert pruned(made.round()) == expected


@cases(
    ("settings", "flags"),
    {
        "off-by-default": ({"prune_after": None}, {}),
        "no-compare-and-set-c12": ({"compare_and_set": False}, {}),
        "not-authorised-l2": ({"may_authorise": False}, {}),
        "no-surplus": ({"max_nodes": 6}, {}),
        "no-lease-c10": ({}, {"lease": False}),
        "read-only-l5": ({}, {"read_only": "another account"}),
        "the-cap-is-used-up-c10": ({}, {"cleaned_lately": 25}),
        "the-breaker-is-open-b2": ({}, {"breaker": OPEN}),
    },
)
def test_nothing_is_deleted_where_nothing_may_be_freed(
    settings: dict[str, Any], flags: dict[str, Any]
) -> None:
    made = surplus(**settings)
    made.flags |= flags
    assert pruned(made.round()) == []


def test_nothing_is_deleted_on_old_polls_c7() -> None:
    made = surplus()
    made.poll()
    made.now += 601.0
    assert pruned(made.plan()) == []


@cases(
    "fields",
    {
        "held-c9": {"held": True},
        "another-pools-t3": {"pool": "other"},
        "unreadable-p3": {"problems": ("info: ?",)},
        "slot-0": {"slot_number": 0},
        "claimed": {"claim": claim("r0", at=1.0)},
        "fenced-c12": {"fenced": True},
        "hold-c9": {"flags": {"holds": frozenset({"r0"})}},
        "claimed-c8": {"flags": {"record_flights": {"r0": Flight("setup", 0.0)}}},
        "touched-since": {"flags": {"touched": {"r0": 1e9}}},
    },
)
def test_a_record_that_is_anybodys_or_that_something_stands_for_is_not_deleted(
    fields: dict[str, Any],
) -> None:
    made = world(max_nodes=0, prune_after=7 * DAY_S)
    made.flags |= fields.get("flags", {})
    known = {name: value for name, value in fields.items() if name != "flags"}
    made.records = [cleaned("r0", at=made.ago(30 * DAY_S), **known)]
    assert pruned(made.round()) == []


def test_a_record_that_any_node_bears_is_not_deleted_whatever_its_incarnation_c4() -> None:
    made = surplus(1, max_nodes=0)
    made.add_node("r0", life=7)
    assert pruned(made.round()) == []
    made.nodes = [node("r0", state=CloudState.TERMINATED)]
    made.now += 60.0
    assert pruned(made.round()) == ["r0"]


def test_a_record_that_a_node_bears_in_an_incomplete_listing_is_not_deleted_c5() -> None:
    made = surplus(1, max_nodes=0)
    made.poll()
    made.now += 5.0
    made.poll_cloud([node("r0")], complete=False)
    assert pruned(made.plan()) == []


def test_a_record_freed_within_the_week_may_have_to_be_given_back_u8() -> None:
    made = world(max_nodes=0, prune_after=60.0)
    made.add_record("r0", quiet=1e5)
    made.round()
    made.free("r0")
    made.now += 3600.0
    assert pruned(made.round(2)) == []


def test_a_record_that_another_listing_shows_at_another_version_is_not_deleted_c6() -> None:
    made = surplus(1, max_nodes=0)
    made.poll()
    made.change("r0")
    made.now += 5.0
    made.poll_records()
    assert pruned(made.plan()) == []


def test_the_record_that_is_used_again_now_is_not_deleted_u1() -> None:
    made = surplus(5, max_nodes=4)
    made.flags["demand"] = (Job("j"),)
    plan = made.round()
    reused = {boot.record.uuid for boot in plan.boots if boot.record is not None}
    assert reused
    assert not reused & set(pruned(plan))
    assert len(plan.prunes) == 1


def test_deletions_take_what_cleans_leave_of_the_cycles_cap_c10() -> None:
    made = surplus(40, max_cleans_per_cycle=5)
    for number in range(3):
        made.add_record(f"stale{number}", quiet=1e5)
    plan = made.settle()
    assert len(plan.cleans) == 3
    assert len(plan.prunes) == 2


def test_what_is_being_deleted_counts_against_cap_and_surplus() -> None:
    made = surplus(6, max_cleans_per_cycle=2)
    made.flags["record_flights"] = {"r5": Flight("prune", made.now)}
    assert pruned(made.round()) == ["r4"]


def test_an_impossible_record_is_not_deleted_l4() -> None:
    made = surplus(40, max_nodes=0, max_cleans_per_cycle=100)
    made.records.append(made.records[0])
    assert "r0" not in pruned(made.round())


# The last look.


def ordered() -> tuple[World, PruneOrder]:
    made = surplus(1, max_nodes=0)
    (order,) = made.round().prunes
    return made, order


def at_last_look(
    made: World, order: PruneOrder, record: Record | None, tagged: Any = (), **flags: Any
) -> tuple[Kind, Reason]:
    found = CleanEvidence(record, tagged)
    verdict = confirm_prune(order, found, made.snapshot(**flags), made.settings)
    return verdict.kind, verdict.reason


def test_what_is_as_it_was_is_deleted_c11() -> None:
    made, order = ordered()
    assert at_last_look(made, order, made.record("r0")) == (Kind.PRUNE, Reason.SURPLUS)


@cases(
    ("fields", "tagged", "flags", "reason"),
    {
        "changed": ({"version": "v2"}, (), {}, Reason.CHANGED_SINCE_PLAN),
        "claimed": ({"claim": claim("r0", at=1.0)}, (), {}, Reason.CHANGED_SINCE_PLAN),
        "held": ({"held": True}, (), {}, Reason.HELD),
        "hold": ({}, (), {"holds": frozenset({"r0"})}, Reason.HELD),
        "borne": ({}, (node("r0", life=3),), {}, Reason.NODE_ALIVE),
        "the-cloud-is-silent": ({}, None, {}, Reason.EVIDENCE_MISSING),
        "no-lease": ({}, (), {"lease": False}, Reason.NO_LEASE),
        "in-flight": ({}, (), {"record_flights": {"r0": Flight("setup", 0.0)}}, Reason.IN_FLIGHT),
        "late": ({}, (), {"now": 1e9}, Reason.ORDER_EXPIRED),
        "breaker": ({}, (), {"breaker": OPEN}, Reason.BREAKER_OPEN),
    },
)
def test_whatever_changed_since_is_left_alone_c11(
    fields: dict[str, Any], tagged: Any, flags: dict[str, Any], reason: Reason
) -> None:
    made, order = ordered()
    record = made.change("r0", **{"version": "v1", **fields})
    assert at_last_look(made, order, record, tagged, **flags) == (Kind.KEEP, reason)


@pytest.mark.parametrize("complete", [True, False], ids=["whole", "incomplete"])
def test_a_record_that_a_node_bears_in_a_listing_since_the_plan_is_left_alone_c5(
    complete: bool,
) -> None:
    made, order = ordered()
    made.poll_cloud([node("r0", life=3)], complete=complete)
    assert at_last_look(made, order, made.record("r0")) == (Kind.KEEP, Reason.NODE_ALIVE)


def test_a_record_that_is_gone_already_and_a_prune_switched_off_end_it() -> None:
    made, order = ordered()
    assert at_last_look(made, order, None)[1] is Reason.RECORD_GONE
    made.with_settings(prune_after=None)
    assert at_last_look(made, order, made.record("r0"))[0] is Kind.KEEP


def test_a_record_freed_since_the_plan_may_have_to_be_given_back_u8() -> None:
    """By another way than this plan: an operator's clean, say, of the same version."""
    made, order = ordered()
    life = FreedLife("r0", "an-older-life", made.now, node_id="i-r0", slot=1, why="stale_slot")
    made.history = false_clean.lives_freed(made.history, (life,), made.now)
    assert at_last_look(made, order, made.record("r0")) == (Kind.KEEP, Reason.CHANGED_SINCE_PLAN)


def test_nothing_is_deleted_while_the_stores_clock_is_not_trusted_t1() -> None:
    made = surplus()
    made.round(3)
    clock = made.history.clock
    assert clock is not None
    made.history = replace(made.history, clock=replace(clock, agreed=1))
    assert pruned(made.plan()) == []
    made.history = replace(made.history, clock=clock)
    assert pruned(made.plan()) != []


def test_nothing_is_deleted_for_an_age_from_before_a_jump_t1() -> None:
    made = surplus()
    made.round(3)
    made.store_step += 30 * DAY_S
    assert pruned(made.round(6)) == []
