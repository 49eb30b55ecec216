"""Which slots leak, by what keeps their records, and when the first is free (U7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudState
from nodemanager.core.plan.slots import Leak, Slots, slots_per_node
from tests.cases import cases
from tests.core.build import Expected, Flight, World, world

WINDOW = 7200.0


def slots_of(made: World) -> Slots:
    assert made.last.slots is not None
    return made.last.slots


def only_leak(made: World) -> Leak:
    (leak,) = slots_of(made).leaks
    return leak


def test_a_slot_without_a_node_leaks_once_its_window_is_over_u7() -> None:
    made = world(node_stale_after=WINDOW)
    made.add_record("r1", quiet=7000.0)
    made.add_record("r2", quiet=100.0)
    made.round()
    leak = only_leak(made)
    assert (leak.cause, leak.count) == (Reason.WITHIN_WINDOW, 2)
    assert leak.oldest_s == pytest.approx(7000.0, abs=5.0)
    assert leak.free_in_s == pytest.approx(200.0, abs=5.0)
    assert slots_of(made).earliest_free_s == leak.free_in_s
    assert leak.leaked == 0
    made.advance(201.0)
    made.round()
    assert [(one.cause, one.leaked) for one in slots_of(made).leaks] == [
        (Reason.STALE_SLOT, 1),
        (Reason.WITHIN_WINDOW, 0),
    ]


def test_a_pause_makes_no_slot_leak_whose_window_runs() -> None:
    made = world(node_stale_after=WINDOW)
    made.add_record("r1", quiet=100.0)
    made.add_record("r2", quiet=8000.0)
    made.flags["holds"] = frozenset({"r1", "r2"})
    made.round()
    assert (only_leak(made).count, only_leak(made).leaked) == (2, 1)


@pytest.mark.parametrize("kind", ["clean", "shutdown"])
def test_a_slot_that_is_being_freed_right_now_is_the_next_to_be_free(kind: str) -> None:
    """The very decision that frees it has no window to tell: waiting does help."""
    made = world(node_stale_after=WINDOW)
    made.add_record("r1", quiet=7000.0)
    made.add_record("r2", quiet=9000.0)
    made.poll()
    made.plan(record_flights={"r2": Flight(kind, made.now)})
    assert slots_of(made).earliest_free_s == 0.0


def test_past_its_window_it_waits_for_the_absence_to_settle_c5() -> None:
    made = world(node_stale_after=WINDOW)
    made.add_record("r1", quiet=8000.0)
    made.round()
    leak = only_leak(made)
    assert leak.cause is Reason.NOT_SETTLED
    assert leak.free_in_s == made.settings.settle
    made.settle()
    assert made.cleaned == ["r1"]
    assert only_leak(made).cause is Reason.STALE_SLOT
    assert only_leak(made).free_in_s == 0.0


@cases(
    ("flags", "cause"),
    {
        "held": ({"holds": frozenset({"r1"})}, Reason.HELD),
        "no-lease": ({"lease": False}, Reason.NO_LEASE),
        "read-only": ({"read_only": "another store"}, Reason.READ_ONLY),
    },
)
def test_what_no_window_keeps_is_free_at_no_time_that_can_be_told(
    flags: dict[str, Any], cause: Reason
) -> None:
    made = world(node_stale_after=WINDOW)
    made.add_record("r1", quiet=8000.0)
    made.flags |= flags
    made.settle()
    leak = only_leak(made)
    assert (leak.cause, leak.free_in_s) == (cause, None)
    assert leak.oldest_s is not None
    assert leak.oldest_s > 8000.0
    assert slots_of(made).earliest_free_s is None


def test_a_backlog_and_what_a_cap_defers_are_causes_of_their_own_s5_c10() -> None:
    held = world(node_stale_after=WINDOW, max_cleans_per_cycle=1)
    deferred = world(node_stale_after=WINDOW, max_cleans_per_cycle=1, hold_backlog=False)
    for made in (held, deferred):
        for name in ("r1", "r2", "r3"):
            made.add_record(name, quiet=8000.0)
    held.flags["first_clean"] = True
    held.settle()
    deferred.settle()
    assert only_leak(held).cause is Reason.BACKLOG_HELD
    assert [(one.cause, one.count, one.free_in_s) for one in slots_of(deferred).leaks] == [
        (Reason.CAP_REACHED, 2, 0.0),
        (Reason.STALE_SLOT, 1, 0.0),
    ]


def test_a_slot_with_a_node_that_is_there_or_may_come_does_not_leak() -> None:
    made = world(node_stale_after=WINDOW)
    made.add_record("listed")
    made.add_node("listed")
    made.add_record("stopped", quiet=8000.0)
    made.add_node("stopped", state=CloudState.STOPPED)
    made.add_record("claimed", pinged=False)
    made.add_record("expected", pinged=False)
    made.add_record("other", pool="other", quiet=8000.0)
    made.add_record("setup", quiet=8000.0)
    made.flags["expected"] = {"expected": Expected("i-x", "small", made.now)}
    made.flags["record_flights"] = {"setup": Flight("setup", made.now)}
    made.round()
    assert slots_of(made).leaks == ()


def test_a_record_that_we_just_freed_does_not_leak_though_the_listing_still_shows_it() -> None:
    """Right after a clean the status said that no window frees its slot (O12)."""
    made = world(node_stale_after=WINDOW)
    made.add_record("r1", quiet=8000.0)
    made.settle()
    made.advance(1.0)
    made.free("r1")
    made.plan(touched={"r1": made.now})
    assert slots_of(made).leaks == ()


def test_a_claim_leaks_once_it_ran_out_c21() -> None:
    made = world()
    made.add_record("r1", pinged=False, quiet=made.settings.claim_window + 10.0)
    made.round()
    assert only_leak(made).cause is Reason.NOT_SETTLED
    assert slots_of(made).held_by == {"claim": 1}


def test_without_a_clock_no_age_is_told_t1() -> None:
    made = world()
    made.add_record("r1", quiet=8000.0)
    made.poll()
    made.history = replace(made.history, clock=None)
    made.plan()
    assert only_leak(made) == Leak(Reason.CLOCK_UNKNOWN, 1, None, None)


@cases(
    ("held_by", "live", "expected"),
    {
        "a-slot-each": ({"listed_node": 4}, 4, 1.0),
        "two-leak": ({"listed_node": 4, "no_node": 2}, 4, 1.5),
        "claims-hold-slots": ({"listed_node": 4, "claim": 4}, 4, 2.0),
        "not-ours": ({"listed_node": 4, "other_pool": 9}, 4, 1.0),
        "not-taken-yet": ({"listed_node": 4, "claim_without_slot": 2}, 4, 1.0),
        "no-node-at-all": ({"no_node": 3}, 0, 3.0),
        "nothing": ({}, 0, 0.0),
    },
)
def test_the_leaks_meter(held_by: dict[str, int], live: int, expected: float) -> None:
    assert slots_per_node(Slots(None, None, held_by, None), live) == expected
