"""The ledger of leftovers: in order, ever later, never given up (D4, D5)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.verdict import Objection
from nodemanager.core.model.world import CloudNode, CloudState, Leftover, LeftoverKind, Outcome
from nodemanager.core.observe.snapshot import Flight, Limits
from nodemanager.core.plan import leftovers
from nodemanager.core.plan.leftovers import (
    FIRST_RETRY_S,
    PASS_OVER_AFTER,
    RETRY_CAP_S,
    Entry,
    Ledger,
    LedgerState,
)
from tests.cases import cases
from tests.core.build import World, node, world

NODE, OTHER = "i-1", "i-2"
VISIBLE = 300.0
INTERFACE = Leftover(LeftoverKind.INTERFACE, "eni-1", NODE)
VOLUME = Leftover(LeftoverKind.VOLUME, "vol-1", NODE)
ADDRESS = Leftover(LeftoverKind.ADDRESS, "eipalloc-1", NODE)
PINS = (VOLUME, ADDRESS, INTERFACE)


def gone_node(*pins: Leftover, at: float = 0.0) -> Ledger:
    """A ledger with what a node pinned, its end told."""
    return leftovers.ended(leftovers.entered(Ledger(), pins or PINS, at), NODE, at)


def ids(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.leftover.id for entry in entries]


def test_nothing_is_due_before_its_node_is_gone() -> None:
    ledger = leftovers.entered(Ledger(), PINS, 0.0)
    assert leftovers.due(ledger, 1e9) == ()
    assert leftovers.due(leftovers.ended(ledger, OTHER, 0.0), 1e9) == ()
    assert leftovers.next_due(ledger) is None
    assert ids(leftovers.due(leftovers.ended(ledger, NODE, 5.0), 5.0)) == ["eni-1"]


def test_one_node_s_things_go_in_order_each_after_the_one_before_is_gone() -> None:
    ledger = gone_node()
    seen: list[str] = []
    now = 0.0
    while len(ledger):
        (entry,) = leftovers.due(ledger, now)
        seen.append(entry.leftover.id)
        ledger, tried = leftovers.after(ledger, entry.leftover, Outcome.ACCEPTED, now)
        assert tried.state is LedgerState.RELEASING
        assert leftovers.due(ledger, now) == ()
        now = tried.not_before
        ledger, told = leftovers.after(ledger, entry.leftover, Outcome.GONE, now)
        assert told.state is LedgerState.RELEASED
    assert seen == ["eni-1", "vol-1", "eipalloc-1"]


def test_two_nodes_do_not_wait_for_each_other() -> None:
    theirs = Leftover(LeftoverKind.VOLUME, "vol-2", OTHER)
    ledger = leftovers.entered(gone_node(), [theirs], 0.0)
    ledger = leftovers.ended(ledger, OTHER, 0.0)
    assert ids(leftovers.due(ledger, 0.0)) == ["eni-1", "vol-2"]


@pytest.mark.parametrize(
    "outcome",
    [Outcome.FAILED, Outcome.UNKNOWN, Outcome.ACCEPTED],
    ids=["failed", "unknown", "in-use"],
)
def test_what_does_not_get_on_is_passed_over_and_still_tried(outcome: Outcome) -> None:
    ledger = gone_node()
    now = 0.0
    for _ in range(PASS_OVER_AFTER):
        assert ids(leftovers.due(ledger, now)) == ["eni-1"]
        ledger, tried = leftovers.after(ledger, INTERFACE, outcome, now)
        now = tried.not_before
    assert tried.passed_over
    assert ids(leftovers.due(ledger, now)) == ["eni-1", "vol-1"]


def test_the_wait_doubles_up_to_the_cap() -> None:
    ledger = gone_node(VOLUME)
    waits = []
    now = 0.0
    for _ in range(14):
        ledger, tried = leftovers.after(ledger, VOLUME, Outcome.FAILED, now, error="no")
        waits.append(tried.not_before - now)
        now = tried.not_before
    assert waits[:3] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert waits[-1] == RETRY_CAP_S
    assert waits == sorted(waits)
    assert tried.last_error == "no"


def test_the_cloud_s_own_wait_is_kept() -> None:
    ledger, tried = leftovers.after(
        gone_node(VOLUME), VOLUME, Outcome.FAILED, 0.0, error="throttled", retry_after=77.0
    )
    assert tried.not_before == 77.0
    assert leftovers.due(ledger, 76.9) == ()
    assert ids(leftovers.due(ledger, 77.0)) == ["vol-1"]


def test_what_is_accepted_after_long_failing_is_looked_at_soon_once() -> None:
    ledger = gone_node(VOLUME)
    for _ in range(20):
        ledger, _tried = leftovers.after(ledger, VOLUME, Outcome.UNKNOWN, 0.0)
    ledger, accepted = leftovers.after(ledger, VOLUME, Outcome.ACCEPTED, 0.0)
    assert accepted.not_before == FIRST_RETRY_S
    assert accepted.last_error is None
    ledger, again = leftovers.after(ledger, VOLUME, Outcome.ACCEPTED, 0.0)
    assert again.not_before == RETRY_CAP_S


@cases(
    "again",
    {
        "told-gone-twice": lambda ledger: leftovers.ended(ledger, NODE, 50.0),
        "called-off-too-late": lambda ledger: leftovers.called_off(ledger, NODE),
        "found-by-tag-as-well": lambda ledger: leftovers.found(ledger, PINS, 50.0, VISIBLE),
    },
)
def test_facts_told_again_change_nothing_that_is_under_way(
    again: Callable[[Ledger], Ledger],
) -> None:
    ledger, _tried = leftovers.after(gone_node(), INTERFACE, Outcome.ACCEPTED, 0.0)
    assert again(ledger) == ledger


def test_a_late_second_gone_changes_nothing() -> None:
    ledger, _told = leftovers.after(gone_node(), INTERFACE, Outcome.GONE, 0.0)
    again, _told = leftovers.after(ledger, INTERFACE, Outcome.GONE, 1.0)
    assert again == ledger
    again, _told = leftovers.after(ledger, INTERFACE, Outcome.FAILED, 1.0)
    assert again == ledger


def test_a_shutdown_called_off_leaves_nothing_waiting() -> None:
    ledger = leftovers.entered(Ledger(), PINS, 0.0)
    assert len(leftovers.called_off(ledger, NODE)) == 0
    assert leftovers.called_off(ledger, OTHER) == ledger


def test_a_node_to_be_destroyed_anew_keeps_its_things_waiting() -> None:
    ledger, _tried = leftovers.after(gone_node(VOLUME), VOLUME, Outcome.FAILED, 0.0, error="lives")
    ledger = leftovers.entered(ledger, [VOLUME], 1.0)
    assert leftovers.due(ledger, 1e9) == ()
    (entry,) = leftovers.due(leftovers.ended(ledger, NODE, 2.0), 2.0)
    assert (entry.attempts, entry.last_error) == (0, "lives")


def test_what_is_found_by_tag_waits_until_a_young_node_would_be_seen() -> None:
    ledger = leftovers.found(Ledger(), [VOLUME], 100.0, VISIBLE)
    assert leftovers.due(ledger, 100.0 + VISIBLE - 0.001) == ()
    assert ids(leftovers.due(ledger, 100.0 + VISIBLE)) == ["vol-1"]
    assert leftovers.next_due(ledger) == 100.0 + VISIBLE


def test_what_waits_for_an_end_nobody_told_is_due_once_found_by_tag() -> None:
    ledger = leftovers.found(leftovers.entered(Ledger(), [VOLUME], 0.0), [VOLUME], 10.0, VISIBLE)
    assert ids(leftovers.due(ledger, 10.0 + VISIBLE)) == ["vol-1"]


def test_things_of_no_known_node_do_not_wait_for_each_other() -> None:
    unknown = [
        Leftover(LeftoverKind.ADDRESS, "eipalloc-9", ""),
        Leftover(LeftoverKind.INTERFACE, "eni-9", ""),
    ]
    ledger = leftovers.found(Ledger(), unknown, 0.0, 0.0)
    assert ids(leftovers.due(ledger, 0.0)) == ["eni-9", "eipalloc-9"]


def test_a_restart_forgets_nothing_but_the_clock() -> None:
    ledger = leftovers.entered(gone_node(VOLUME), [Leftover(LeftoverKind.VOLUME, "w", OTHER)], 0.0)
    ledger, _tried = leftovers.after(ledger, VOLUME, Outcome.FAILED, 9000.0, error="no")
    again = leftovers.restored(ledger.entries.values(), 5.0, VISIBLE)
    assert set(again.entries) == set(ledger.entries)
    assert leftovers.due(again, 5.0 + VISIBLE - 0.001) == ()
    assert ids(leftovers.due(again, 5.0 + VISIBLE)) == ["vol-1", "w"]
    assert again.entries[VOLUME.key].attempts == 1
    assert again.entries[VOLUME.key].last_error == "no"


def test_what_bears_no_tags_of_ours_is_never_entered_by_being_found_d4() -> None:
    theirs = Leftover(LeftoverKind.VOLUME, "vol-9", NODE, tagged=False)
    assert leftovers.found(Ledger(), [theirs], 0.0, 0.0) == Ledger()
    named = leftovers.entered(Ledger(), [theirs], 0.0)
    assert ids(leftovers.due(leftovers.found(named, [theirs], 1.0, 0.0), 1.0)) == ["vol-9"]


def test_a_shutdown_nobody_waits_for_any_longer_leaves_its_things_due_in_time_d5() -> None:
    ledger = leftovers.entered(Ledger(), [*PINS, Leftover(LeftoverKind.VOLUME, "w", OTHER)], 0.0)
    ledger = leftovers.doubtful(ledger, NODE, 900.0, VISIBLE)
    assert leftovers.due(ledger, 900.0 + VISIBLE - 0.001) == ()
    assert ids(leftovers.due(ledger, 900.0 + VISIBLE)) == ["eni-1"]
    assert ledger.entries[LeftoverKind.VOLUME, "w"].state is LedgerState.WAITING


# What may be released now.


def due_in(made: World, *pins: Leftover) -> Ledger:
    return gone_node(*pins, at=made.now)


def settled() -> World:
    made = world()
    made.round()
    return made


def turn_in(made: World, ledger: Ledger, **fields: Any) -> leftovers.Turn:
    return leftovers.next_release(ledger, replace(made.snapshot(), **fields), made.settings)


def test_one_thing_at_a_time_is_released_in_order_d4() -> None:
    made = settled()
    turn = turn_in(made, due_in(made))
    assert turn.entry is not None
    assert (turn.entry.leftover, turn.block) == (INTERFACE, None)
    later = leftovers.entered(Ledger(), PINS, made.now)
    assert turn_in(made, later) == leftovers.Turn()


@cases(
    ("fields", "reason"),
    {
        "l6-no-lease": ({"lease": False}, Reason.NO_LEASE),
        "read-only": ({"read_only": "the disk is full"}, Reason.READ_ONLY),
        "b2-breaker": (
            {"breaker": Breaker(Cause.MASS_SILENCE, frozenset({"i-9"}))},
            Reason.BREAKER_OPEN,
        ),
        "d6-throttled": ({"limits": Limits(throttled_until=1e9)}, Reason.THROTTLED),
        "c8-its-shutdown-is-under-way": (
            {"node_flights": {NODE: Flight("shutdown:idle", 0.0)}},
            Reason.IN_FLIGHT,
        ),
        "c8-its-shutdown-has-just-been-given-up": ({"touched": {NODE: 0.0}}, Reason.IN_FLIGHT),
        "c9-its-node-is-held": ({"holds": frozenset({NODE})}, Reason.HELD),
    },
)
def test_what_forbids_every_destroy_forbids_every_release(
    fields: dict[str, Any], reason: Reason
) -> None:
    made = settled()
    turn = turn_in(made, due_in(made), **fields)
    assert turn.entry is None
    assert turn.block is not None
    assert turn.block[0] is reason


def test_a_node_that_is_gone_since_the_last_listing_keeps_nothing_and_old_polls_do_d4_c7() -> None:
    made = settled()
    of_now = {NODE: made.now}
    assert turn_in(made, due_in(made), touched=of_now, gone=of_now).entry is not None
    made.advance(made.settings.poll_stale_after + 100.0)
    turn = turn_in(made, due_in(made))
    assert turn.block is not None
    assert turn.block[0] is Reason.POLL_STALE


def test_a_hold_on_one_thing_keeps_no_other_node_s_c9() -> None:
    made = settled()
    theirs = Leftover(LeftoverKind.VOLUME, "vol-2", OTHER)
    ledger = leftovers.entered(due_in(made, INTERFACE), [theirs], made.now)
    ledger = leftovers.ended(ledger, OTHER, made.now)
    turn = turn_in(made, ledger, holds=frozenset({INTERFACE.id}))
    assert turn.entry is not None
    assert turn.entry.leftover == theirs


@pytest.mark.parametrize("tried", [False, True], ids=["due", "waiting-for-its-next-try"])
def test_a_hold_on_one_thing_keeps_nothing_else_of_its_node_c9(tried: bool) -> None:
    """An operator holds an interface; the node's volume is released all the same (C9, N25)."""
    made = settled()
    ledger = due_in(made)
    if tried:
        ledger, _ = leftovers.after(ledger, INTERFACE, Outcome.ACCEPTED, made.now)
    holds = frozenset({INTERFACE.id})
    assert VOLUME.id in ids(leftovers.due(ledger, made.now, holds))
    turn = turn_in(made, ledger, holds=holds)
    assert turn.entry is not None
    assert turn.entry.leftover == VOLUME


@cases(
    ("fields", "lives"),
    {
        "listed": ({}, True),
        "listed-before-the-end-of-ours": ({"touched": {"i-r1": 5.0}}, False),
        "gone-since": ({"gone": {"i-r1": 5.0}}, False),
        "a-slow-destroy-may-end-it-still": ({"late_destroys": frozenset({"i-r1"})}, False),
        "under-way": ({"node_flights": {"i-r1": Flight("shutdown:bad", 5.0)}}, False),
    },
)
def test_a_node_that_is_listed_left_nothing_behind_d5(fields: dict[str, Any], lives: bool) -> None:
    made = settled()
    made.add_record("r1")
    made.add_node("r1")
    made.round()
    used = Leftover(LeftoverKind.VOLUME, "vol-7", "i-r1")
    ledger = leftovers.entered(due_in(made), [used], made.now)
    snapshot = replace(made.snapshot(), **fields)
    assert leftovers.living(ledger, snapshot) == (frozenset({"i-r1"}) if lives else frozenset())
    assert set(leftovers.without(ledger, "i-r1").entries) == {one.key for one in PINS}


@pytest.mark.parametrize("answer", [None, CloudState.TERMINATED, CloudState.RUNNING])
def test_a_late_listing_of_a_node_that_was_gone_does_not_keep_what_it_left_d3_d5(
    answer: CloudState | None,
) -> None:
    made = settled()
    made.add_record("r1")
    made.add_node("r1")
    made.round()
    used = Leftover(LeftoverKind.VOLUME, "vol-7", "i-r1")
    ledger = leftovers.entered(due_in(made), [used], made.now)
    made.free("r1", why=Reason.AFTER_SHUTDOWN.value)
    made.advance(60.0)
    made.round()
    assert leftovers.living(ledger, made.snapshot()) == frozenset()
    made.answer({"i-r1": answer and replace(node("r1"), state=answer)})
    is_alive = answer is CloudState.RUNNING
    assert leftovers.living(ledger, made.snapshot()) == frozenset({"i-r1"} if is_alive else ())


# A node that the cloud did not call gone (C5).


def doubted(made: World) -> Ledger:
    """A ledger with a node whose destroy was accepted, and that nobody waits for any longer."""
    ledger = leftovers.entered(Ledger(), PINS, made.now)
    return leftovers.doubtful(ledger, NODE, made.now, 0.0)


def polled(
    made: World, ledger: Ledger, *shown: CloudNode, after: float = 30.0, complete: bool = True
) -> Ledger:
    """The ledger after one more listing, which begins so long after the newest complete one."""
    assert made.history.cloud is not None
    made.now = made.history.cloud.started_at + after
    made.poll_records(took=0.0)
    made.poll_cloud(shown, complete=complete)
    return leftovers.listed(ledger, made.history, made.settings)


def waits_for_absence(turn: leftovers.Turn) -> bool:
    return turn.entry is None and turn.block is not None and turn.block[0] is Reason.NOT_SETTLED


def test_a_node_that_one_listing_lacks_keeps_what_it_pins_d4_c5() -> None:
    made = settled()
    ledger = doubted(made)
    assert waits_for_absence(turn_in(made, ledger))
    ledger = polled(made, ledger)
    turn = turn_in(made, ledger)
    assert waits_for_absence(turn)
    assert turn.block is not None
    assert turn.block[1] == {
        "absent_listings": 1,
        "needed_listings": made.settings.absent_listings,
        "absent_s": 0.0,
        "settle_s": made.settings.settle,
    }


def test_an_absence_that_has_settled_releases_what_a_node_pins_d4_c5() -> None:
    made = settled()
    ledger = polled(made, doubted(made))
    assert made.settings.absent_listings == 2
    ledger = polled(made, ledger, after=made.settings.settle - 1.0)
    assert waits_for_absence(turn_in(made, ledger)), "enough listings, too soon"
    ledger = polled(made, ledger, after=1.0)
    assert turn_in(made, ledger).entry is not None


def test_a_listing_that_is_told_twice_counts_once_c5() -> None:
    made = settled()
    ledger = polled(made, doubted(made))
    for _ in range(3):
        assert leftovers.listed(ledger, made.history, made.settings) == ledger


def test_a_gap_in_the_listings_starts_an_absence_again_c5() -> None:
    made = settled()
    ledger = polled(made, doubted(made))
    ledger = polled(made, ledger, after=made.settings.poll_stale_after + 1.0)
    assert waits_for_absence(turn_in(made, ledger))
    ledger = polled(made, ledger, after=made.settings.settle)
    assert turn_in(made, ledger).entry is not None


def test_a_gap_that_a_reload_makes_too_long_counts_no_more_c5_s6() -> None:
    made = settled()
    ledger = polled(made, doubted(made))
    ledger = polled(made, ledger, after=made.settings.settle)
    made.settings = replace(made.settings, poll_stale_after=made.settings.settle - 1.0)
    assert waits_for_absence(turn_in(made, ledger))
    ledger = polled(made, ledger, after=1.0)
    assert ledger.absent[NODE].listings == 1


@pytest.mark.parametrize("complete", [True, False])
def test_a_node_that_is_seen_again_is_absent_no_more_c5(complete: bool) -> None:
    made = settled()
    ledger = polled(made, doubted(made))
    ledger = polled(made, ledger, node("r1", id=NODE), complete=complete)
    assert ledger.absent == {}
    ledger = polled(made, ledger, after=made.settings.settle)
    assert waits_for_absence(turn_in(made, ledger))


@cases(
    ("answer", "since", "waits"),
    {
        "it-lives": (CloudState.RUNNING, 0.0, True),
        "it-has-ended": (CloudState.TERMINATED, 0.0, False),
        "denied": (None, 0.0, False),
        "it-lived-long-ago": (CloudState.RUNNING, 601.0, False),
    },
)
def test_a_node_that_no_listing_shows_and_the_cloud_does_keeps_what_it_pins_d13(
    answer: CloudState | None, since: float, waits: bool
) -> None:
    made = settled()
    made.answer({NODE: answer and replace(node("r1", id=NODE), state=answer)})
    assert since == 0.0 or since > made.settings.poll_stale_after
    ledger = polled(made, doubted(made), after=30.0 + since)
    for _ in range(3):
        ledger = polled(made, ledger)
    assert waits_for_absence(turn_in(made, ledger)) is waits


def test_what_a_former_run_entered_waits_for_its_node_s_absence_as_well_r1() -> None:
    made = settled()
    ledger = leftovers.restored(gone_node(VOLUME).entries.values(), made.now, 0.0)
    assert not waits_for_absence(turn_in(made, gone_node(VOLUME, at=made.now)))
    assert waits_for_absence(turn_in(made, ledger))
    for _ in range(4):
        ledger = polled(made, ledger)
    assert turn_in(made, ledger).entry is not None


def test_a_node_whose_record_is_not_free_is_asked_for_before_what_it_pins_is_released_d4_d13() -> (
    None
):
    """Its destroy may never have been sent (seed 992002678)."""
    made = settled()
    made.add_record("r2", instance_id=NODE)
    ledger = leftovers.restored(gone_node(VOLUME).entries.values(), made.now, 0.0)
    for _ in range(4):
        ledger = polled(made, ledger)
    turn = turn_in(made, ledger)
    assert turn.entry is None
    assert turn.block == Objection(Reason.NOT_SETTLED, {"record": "r2"})
    made.answer({NODE: None})
    assert turn_in(made, ledger).entry is not None
    made.answer({NODE: node("r2", id=NODE)})
    assert waits_for_absence(turn_in(made, ledger))
    made.history = replace(made.history, asked={})
    made.free("r2")
    assert turn_in(made, polled(made, ledger)).entry is not None


def test_what_names_no_node_waits_for_none() -> None:
    made = settled()
    nobody = Leftover(LeftoverKind.ADDRESS, "eipalloc-9", "")
    ledger = leftovers.found(Ledger(), [nobody], made.now, 0.0)
    assert turn_in(made, ledger).entry is not None


def test_a_late_word_that_its_node_is_gone_ends_the_wait_d3() -> None:
    made = settled()
    ledger = leftovers.ended(doubted(made), NODE, made.now)
    assert turn_in(made, ledger).entry is not None


def test_counts_are_by_kind_and_state() -> None:
    ledger, _tried = leftovers.after(gone_node(), INTERFACE, Outcome.ACCEPTED, 0.0)
    assert leftovers.counts(ledger) == {
        (LeftoverKind.INTERFACE, LedgerState.RELEASING): 1,
        (LeftoverKind.VOLUME, LedgerState.DUE): 1,
        (LeftoverKind.ADDRESS, LedgerState.DUE): 1,
    }


things = st.lists(
    st.builds(
        Leftover,
        kind=st.sampled_from(LeftoverKind),
        id=st.sampled_from("abcdef"),
        node_id=st.sampled_from([NODE, OTHER, ""]),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda thing: thing.key,
)
not_gone = st.sampled_from([Outcome.ACCEPTED, Outcome.FAILED, Outcome.UNKNOWN])


@given(pins=things, faults=st.lists(not_gone, max_size=60))
def test_whatever_fails_first_everything_is_released_once_the_cloud_does_its_part(
    pins: list[Leftover], faults: list[Outcome]
) -> None:
    ledger = leftovers.entered(Ledger(), pins, 0.0)
    for node_id in (NODE, OTHER, ""):
        ledger = leftovers.ended(ledger, node_id, 0.0)
    script = itertools.chain(faults, itertools.repeat(Outcome.GONE))
    now = 0.0
    for _ in range(len(faults) + len(pins)):
        ready = leftovers.due(ledger, now)
        if not ready:
            upcoming = leftovers.next_due(ledger)
            assert upcoming is not None
            assert now < upcoming <= now + RETRY_CAP_S
            now = upcoming
            ready = leftovers.due(ledger, now)
        entry = ready[0]
        held_up = [
            other
            for other in ledger.entries.values()
            if other.leftover.node_id == entry.leftover.node_id != ""
            and other.leftover.order < entry.leftover.order
        ]
        assert all(other.passed_over for other in held_up)
        ledger, tried = leftovers.after(ledger, entry.leftover, next(script), now)
        assert tried.state is LedgerState.RELEASED or now < tried.not_before <= now + RETRY_CAP_S
    assert len(ledger) == 0
