"""What may still be written to a record, on a store that can't compare (C12, U2, A4)."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.execute.clean import Unsure, after_unknown
from nodemanager.core.execute.writes import still_late, with_late
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudState, Record
from nodemanager.core.observe.evidence import CleanEvidence
from nodemanager.core.observe.snapshot import Flight, LateWrite
from nodemanager.core.safety.orders import CleanOrder, fenced_order
from tests.cases import cases
from tests.core.build import START, World, claim, cleaned, node, world

WINDOW = 7200.0


def fenced_store(**settings: Any) -> World:
    return world(compare_and_set=False, **settings)


# U2: not used again while something may still be written to it.


@cases(
    ("ago", "record"),
    {
        "a-moment-ago": (1.0, None),
        "at-the-edge": (WINDOW, None),
        "just-past": (WINDOW + 0.001, "r1"),
    },
)
@pytest.mark.parametrize("own", [True, False], ids=["our-own-clean", "long-quiet"])
def test_a_record_is_used_again_only_past_what_may_be_written_to_it_u2(
    ago: float, record: str | None, own: bool
) -> None:
    made = fenced_store(min_nodes=1, max_nodes=4)
    made.records.append(cleaned("r1", at=made.ago(5.0 if own else 9000.0)))
    made.poll()
    made.plan(
        own_cleans=frozenset({"r1"}) if own else frozenset(),
        late={"r1": LateWrite(made.now - ago)},
    )
    (boot,) = made.last.boots
    assert (boot.record.uuid if boot.record else None) == record


def test_where_the_store_compares_nothing_can_be_late_u2() -> None:
    made = world(min_nodes=1)
    made.records.append(cleaned("r1", at=made.ago(5.0)))
    made.poll()
    made.plan(late={"r1": LateWrite(made.now)})
    assert [boot.record.uuid for boot in made.last.boots if boot.record] == ["r1"]


@pytest.mark.parametrize("adopts", [None, True, False], ids=["auto", "yes", "no"])
@pytest.mark.parametrize("quiet", [9000.0, 5.0], ids=["long-quiet", "just-written"])
def test_a_record_that_names_no_pool_is_claimed_by_none_and_keeps_nobody_waiting_u2_t3(
    adopts: bool | None, quiet: float
) -> None:
    """Two pools may both take it for theirs, and one's claim may come late over the other's."""
    made = fenced_store(min_nodes=1, max_nodes=1, adopt_unclaimed=adopts)
    made.records.append(cleaned("r1", at=made.ago(quiet), pool=None))
    made.poll()
    made.plan(own_cleans=frozenset({"r1"}), late={"r1": LateWrite(made.now)})
    assert [boot.record for boot in made.last.boots] == [None]


def test_records_that_may_still_be_written_to_count_like_claims_u6() -> None:
    made = fenced_store(min_nodes=1, max_nodes=1)
    made.records.append(cleaned("r1", at=made.ago(9000.0)))
    made.poll()
    made.plan(late={"r1": LateWrite(made.now)})
    assert made.booted == []


def test_of_several_writes_the_last_counts_and_the_last_clean_by_itself() -> None:
    late = with_late({}, "r1", 10.0, clean=True)
    late = with_late(late, "r1", 20.0)
    late = with_late(late, "r1", 15.0)
    assert late == {"r1": LateWrite(20.0, 10.0)}
    assert with_late(late, "r1", 30.0, clean=True) == {"r1": LateWrite(30.0, 30.0)}


def test_what_is_over_is_forgotten_and_nothing_sooner() -> None:
    settings = fenced_store().settings
    late = {"old": LateWrite(0.0), "new": LateWrite(1.0)}
    assert still_late(late, WINDOW, settings) == late
    assert still_late(late, WINDOW + 0.5, settings).keys() == {"new"}


# C12: a fence that a listing shows.


def left(**fields: Any) -> World:
    """A world of one live node, locked out by a fence that nothing is behind."""
    made = fenced_store()
    made.add_node("r1")
    made.add_record("r1", quiet=100.0, **{"fenced": True, **fields})
    return made


def lifted(made: World, **flags: Any) -> list[str]:
    made.poll()
    return [order.uuid for order in made.plan(**flags).lifts]


def test_a_fence_that_nothing_is_behind_is_lifted_as_soon_as_it_is_listed_c12() -> None:
    made = left()
    assert lifted(made) == ["r1"]
    (order,) = made.last.lifts
    assert order.reason is Reason.FENCE_LEFT
    assert order.not_after < made.now


@cases(
    "fields",
    {
        "no-fence": {"fenced": False},
        "another-pools": {"pool": "other"},
        "unreadable": {"problems": ("hostname is not text",)},
    },
)
def test_no_other_record_is_written_to_c12(fields: dict[str, Any]) -> None:
    assert lifted(left(**fields)) == []


def test_a_cleaned_record_has_nobody_to_let_in_c12() -> None:
    made = fenced_store()
    made.records.append(cleaned("r1", at=made.ago(9000.0), fenced=True))
    assert lifted(made) == []


@cases(
    "flags",
    {
        "a-clean-under-way": {"record_flights": {"r1": Flight("clean", START)}},
        "listed-before-ours-ended": {"touched": {"r1": START + 1e6}},
        "no-lease": {"lease": False},
        "read-only": {"read_only": "another store"},
    },
)
def test_a_fence_is_not_lifted_while_it_may_be_ours_or_we_may_not_write_c12(
    flags: dict[str, Any],
) -> None:
    assert lifted(left(), **flags) == []


@cases(("ago", "lifts"), {"at-the-edge": (WINDOW, []), "past": (WINDOW + 5, ["r1"])})
def test_a_fence_stays_while_a_clean_may_still_take_effect_behind_it_c12(
    ago: float, lifts: list[str]
) -> None:
    made = left()
    at = made.now + 2.5 - ago
    assert lifted(made, late={"r1": LateWrite(at, at)}) == lifts


def test_a_store_that_compares_knows_no_fence_c12() -> None:
    assert lifted(left().with_settings(compare_and_set=True)) == []


def test_a_record_behind_a_fence_is_not_cleaned_for_its_silence_c12() -> None:
    made = fenced_store()
    made.add_record("r1", quiet=9000.0, fenced=True)
    made.settle()
    assert made.cleaned == []
    assert made.of_record("r1").reason is Reason.FENCED
    made.change("r1", fenced=False)
    made.settle()
    assert made.cleaned == ["r1"]


# C12: a clean behind a fence, of which nobody knows whether it took effect.


def unknown(**fields: Any) -> tuple[World, Unsure, Record]:
    """The clean as it was sent, and the record as it is then: behind its fence."""
    made = fenced_store()
    judged = made.add_record("r1", quiet=9000.0, **fields)
    made.settle()
    order = made.clean_order("r1")
    after = made.change("r1", modified_at=made.store_now, fenced=True)
    behind = fenced_order(order, judged, after, made.now)
    assert behind is not None
    return made, Unsure(behind, judged, made.now), after


def looked(
    made: World, one: Unsure, record: Record | None, *, flags: Any = None, **found: Any
) -> tuple[CleanOrder, Verdict]:
    evidence = CleanEvidence(record, **{"tagged": (), "asked_id": True, **found})
    return after_unknown(one, evidence, made.snapshot(**(flags or {})), made.settings)


def test_denied_again_it_is_written_again_c12() -> None:
    made, one, after = unknown()
    order, verdict = looked(made, one, after)
    assert verdict.kind is Kind.CLEAN
    assert (order.version, order.fenced) == (after.version, True)


def test_our_own_late_write_moves_the_version_and_is_no_sign_of_life_c12() -> None:
    made, one, _ = unknown()
    late = made.change("r1", modified_at=made.store_now)
    order, verdict = looked(made, one, late)
    assert (verdict.kind, order.version) == (Kind.CLEAN, late.version)


def test_a_late_lift_has_the_fence_put_up_again_first_c12() -> None:
    made, one, _ = unknown()
    bare = made.change("r1", modified_at=made.store_now, fenced=False)
    order, verdict = looked(made, one, bare)
    assert (verdict.kind, order.fenced) == (Kind.CLEAN, False)
    again = made.change("r1", modified_at=made.store_now, fenced=True)
    behind = fenced_order(order, bare, again, made.now)
    assert behind is not None
    assert behind.fenced


def test_where_it_took_effect_that_is_the_end_of_it_c12() -> None:
    made, one, _ = unknown()
    _, verdict = looked(made, one, cleaned("r1", at=made.store_now))
    assert (verdict.kind, verdict.reason) == (Kind.KEEP, Reason.HOLDS_NOTHING)


@cases(
    ("found", "flags", "reason"),
    {
        "no-answer": ({"error": "time-out"}, {}, Reason.EVIDENCE_MISSING),
        "its-node-shows-up": ({"tagged": (node("r1"),)}, {}, Reason.NODE_ALIVE),
        "by-its-id": ({"by_id": node("r1", state=CloudState.STOPPED)}, {}, Reason.NODE_ALIVE),
        "held": ({}, {"holds": frozenset({"r1"})}, Reason.HELD),
        "no-lease": ({}, {"lease": False}, Reason.NO_LEASE),
    },
)
def test_whatever_forbids_it_now_forbids_the_write_and_the_fence_stays_c12(
    found: dict[str, Any], flags: dict[str, Any], reason: Reason
) -> None:
    made, one, after = unknown()
    _, verdict = looked(made, one, after, flags=flags, **found)
    assert (verdict.kind, verdict.reason) == (Kind.KEEP, reason)


def test_a_ping_behind_the_fence_forbids_the_write_c12() -> None:
    made, one, _ = unknown()
    _, verdict = looked(made, one, made.ping("r1"))
    assert (verdict.kind, verdict.reason) == (Kind.KEEP, Reason.CHANGED_SINCE_PLAN)


def test_what_never_took_effect_and_is_forbidden_is_lifted_past_the_window_c12() -> None:
    made, one, after = unknown()
    alive = {"tagged": (node("r1"),)}
    made.poll_records()
    made.advance(WINDOW - 1.0)
    assert looked(made, one, after, **alive)[1].kind is Kind.KEEP
    made.advance(1.0)
    assert looked(made, one, after, **alive)[1].kind is Kind.LIFT


@pytest.mark.parametrize("whose", ["nobody", "another"])
def test_a_record_that_is_anothers_by_now_is_left_to_it_c12(whose: str) -> None:
    made, one, _ = unknown()
    other = None
    if whose == "another":
        other = made.change("r1", claim=claim("r1", at=made.store_now, life=2))
    assert looked(made, one, other)[1].kind is Kind.LIFT
