"""Who pings without being listed, and what the cloud's answer makes of it (P6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.execute.expectations import expected_again, still_expected, waiting_claims
from nodemanager.core.execute.news import NodeExpected
from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import ASK_LIMIT
from nodemanager.core.model.world import NO_TAGS, CloudNode, CloudState, Tags, WorkerState
from nodemanager.core.observe.history import explained
from nodemanager.core.observe.snapshot import Expected, Flight
from nodemanager.core.plan.destroy import ShutdownEvidence, confirm_shutdown
from tests.cases import cases
from tests.core.build import World, claim, deny, in_vain, node, pinging_round, world


def hidden(count: int = 1, **settings: object) -> tuple[World, CloudNode]:
    """Pairs whose nodes the listing stops to show, and that ping on; two listings lack them."""
    made = world(max_nodes=count, min_nodes=0, **settings)
    for number in range(1, count + 1):
        made.add_record(f"r{number}")
    first = node("r1", created_at=made.ago(10_000.0))
    pinging_round(made, 2)
    return made, first


def test_one_whose_first_ping_somebody_took_away_is_asked_for_too_a5():
    """It pings on; nobody asked, and demand waited for it for ever (P6)."""
    made = world(max_nodes=1, min_nodes=0)
    made.add_record("r1")
    for _ in range(20):
        made.ping("r1")
        made.change("r1", first_ping_at=None)
        made.poll()
        made.advance(30.0)
    made.plan()
    assert made.last.ask == ("i-r1",)


@pytest.mark.parametrize("claimed", [True, False])
def test_one_whose_every_ping_dates_its_first_anew_is_asked_for_too_p6(claimed: bool):
    """On Arvados two nodes with one address take it from each other's record, ping by ping."""
    made = world(max_nodes=1, min_nodes=0, visible_after=300.0)
    made.add_record("r1", claimed=claimed)
    began, asked_after = made.now, list[float]()
    for _ in range(20):
        made.ping("r1")
        made.change("r1", first_ping_at=made.store_now)
        made.poll()
        made.advance(30.0)
        made.plan()
        if made.last.ask:
            asked_after.append(made.now - began)
    assert asked_after
    assert 300.0 < asked_after[0] < 340.0
    made.answer({"i-r1": None})
    pinging_round(made)
    assert made.of_record("r1").reason is Reason.PINGING_UNLISTED


def test_another_life_of_the_record_is_as_young_as_its_own_first_ping_p6():
    made = world(max_nodes=1, min_nodes=0, visible_after=300.0)
    made.add_record("r1")
    pinging_round(made, 10)
    other = claim("r1", at=made.store_now, life=2)
    made.change("r1", claim=other, first_ping_at=None, last_ping_at=None)
    made.poll()
    for _ in range(4):
        made.advance(60.0)
        made.ping("r1")
        made.change("r1", first_ping_at=made.store_now)
        made.poll()
        made.plan()
        assert made.last.ask == ()


def test_the_absence_of_a_former_life_is_not_that_of_the_next_p6():
    """The record was used again since the newest cloud listing; the next may show its node."""
    made, _ = hidden()
    made.ping("r1")
    made.change("r1", claim=claim("r1", at=made.store_now, life=2))
    made.poll_records()
    made.plan()
    assert made.last.ask == ()


def test_a_node_of_ours_that_is_there_makes_the_listing_short_and_nothing_is_freed():
    made, lives = hidden(node_stale_after=600.0)
    made.answer({"i-r1": lives})
    made.add_record("r9", quiet=9000.0)
    pinging_round(made, 3, only="r1")
    assert made.of_record("r1").reason is Reason.LISTING_SHORT
    assert made.of_record("r1").measures["node"] == "i-r1"
    assert made.of_record("r9").reason is Reason.LISTING_SHORT
    assert made.cleaned == []
    made.nodes.append(lives)
    made.settle()
    assert made.cleaned == ["r9"]


def test_one_without_our_tag_is_kept_and_frees_go_on():
    made, lives = hidden(node_stale_after=600.0)
    made.answer({"i-r1": replace(lives, tags=NO_TAGS)})
    made.add_record("r9", quiet=9000.0)
    pinging_round(made, 3, only="r1")
    assert made.of_record("r1").reason is Reason.UNTAGGED
    assert made.cleaned == ["r9"]


@pytest.mark.parametrize("state", [None, CloudState.TERMINATED])
def test_one_that_is_not_there_is_told_and_kept(state: CloudState | None):
    made, lives = hidden()
    made.answer({"i-r1": None if state is None else replace(lives, state=state)})
    pinging_round(made)
    assert made.of_record("r1").reason is Reason.PINGING_UNLISTED
    assert made.of_record("r1").kind == "keep"


@pytest.mark.parametrize("state", [CloudState.STOPPED, CloudState.STOPPING, CloudState.UNKNOWN])
def test_every_state_but_terminated_is_there_t4(state: CloudState):
    made, lives = hidden()
    made.answer({"i-r1": replace(lives, state=state)})
    pinging_round(made)
    assert made.of_record("r1").reason is Reason.LISTING_SHORT


def test_an_answer_from_before_it_was_missed_says_nothing():
    made, lives = hidden()
    made.answer({"i-r1": lives})
    made.nodes.append(lives)
    pinging_round(made, 2)
    assert made.of_record("r1").reason is Reason.PAIRED
    made.nodes.clear()
    pinging_round(made, 2)
    assert made.of_record("r1").reason is Reason.WITHIN_WINDOW


def test_one_that_was_there_is_there_until_denied_though_its_record_was_missing_for_a_while():
    made, lives = hidden()
    made.answer({"i-r1": lives})
    record = made.records.pop()
    pinging_round(made)
    made.records.append(record)
    pinging_round(made, 2)
    assert made.of_record("r1").reason is Reason.LISTING_SHORT
    made.answer({"i-r1": None})
    pinging_round(made)
    assert made.of_record("r1").reason is not Reason.LISTING_SHORT


@cases(
    ("life", "reason"),
    {"its-own": (1, Reason.LISTING_SHORT), "another-lifes": (0, Reason.PINGING_UNLISTED)},
)
def test_without_an_instance_id_it_is_asked_for_by_tag(life: int, reason: Reason):
    made = world()
    made.add_record("r1", instance_id=None)
    for _ in range(2):
        made.advance(60.0)
        made.change("r1", last_ping_at=made.store_now, modified_at=made.store_now)
        made.round()
    assert (made.last.ask, made.last.ask_tagged) == ((), ("r1",))
    made.answer_tags({"r1": (node("r1", life=life),)})
    made.advance(1.0)
    made.plan()
    assert made.of_record("r1").reason is reason


@cases(
    "flag",
    {
        "record-in-flight": {"record_flights": {"r1": Flight("shutdown", 1.0)}},
        "node-in-flight": {"node_flights": {"i-r1": Flight("shutdown:bad", 1.0)}},
        "destroyed-by-us": {"gone": {"i-r1": 1.0}},
        "just-ended": {"touched": {"r1": 1.0}},
    },
)
def test_our_own_doing_is_no_riddle(flag: dict[str, object]):
    made, _ = hidden()
    made.plan(**flag)
    assert made.last.ask == ()


def test_a_node_that_is_too_young_to_be_listed_is_not_asked_for():
    """A listing need show only nodes older than visible_after (A1)."""
    made = world(visible_after=300.0)
    made.add_record("r1", first_ping_at=made.ago(10.0))
    pinging_round(made, 2)
    assert made.last.ask == ()
    pinging_round(made, 4)
    assert made.last.ask == ("i-r1",)


def test_one_that_fell_silent_with_its_node_is_asked_for_until_it_has_ended():
    made = world()
    made.add_record("r1")
    made.add_node("r1")
    made.round()
    made.nodes.clear()
    made.advance(60.0)
    made.round(3)
    assert made.last.ask == ("i-r1",)
    made.answer({"i-r1": None})
    made.advance(60.0)
    made.answer({"i-r1": None})
    made.round()
    assert [(one.node_id, one.in_setup) for one in made.last.ended] == [("i-r1", False)]
    made.advance(60.0)
    made.round()
    assert made.last.ask == ()
    assert made.last.ended == ()


def test_another_pools_is_not_ours_to_ask_for():
    made = world()
    made.add_record("r1", pool="other")
    pinging_round(made, 2)
    assert made.last.ask == ()


def test_no_more_than_a_few_are_asked_for_in_one_cycle():
    made, _ = hidden(30)
    assert len(made.last.ask) == ASK_LIMIT


def test_a_node_that_is_there_counts_and_one_that_is_not_does_not():
    made, lives = hidden()
    made.with_settings(min_nodes=1, max_nodes=5)
    made.answer({"i-r1": lives})
    made.advance(1.0)
    assert made.plan().boots == ()
    made.answer({"i-r1": None})
    made.advance(1.0)
    assert len(made.plan().boots) == 1
    pinging_round(made)
    assert made.plan().boots == ()


@cases(
    ("room", "booted", "why"),
    {
        "max-nodes": ({"max_nodes": 1}, 0, Reason.AT_MAX_NODES),
        "price": ({"max_total_price": 0.15}, 0, Reason.AT_MAX_PRICE),
        "room-for-both": ({"max_nodes": 2, "max_total_price": 0.25}, 1, None),
    },
)
def test_a_node_that_lost_our_tags_serves_nobody_and_costs_what_it_did_d11(
    room: dict[str, Any], booted: int, why: Reason | None
):
    """Nobody may pair, drain or end it; whoever waits for its place waits for an operator."""
    made, lives = hidden()
    made.with_settings(**{"min_nodes": 1, "max_nodes": 5, **room})
    made.answer({"i-r1": replace(lives, tags=NO_TAGS)})
    made.advance(1.0)
    plan = made.plan()
    assert len(plan.boots) == booted
    assert {reason for _, reason in plan.wants.refused} == ({why} if why else set())


# P6: a pinger that the cloud denies for longer than the window.


def until_freed(made: World, *, within: int, **how: Any) -> float | None:
    """For how long it was denied until its clean was ordered; None where it never is."""
    began = made.now
    for _ in range(within):
        deny(made, **how)
        if made.cleaned:
            return made.now - began
    return None


def test_a_pinger_denied_for_longer_than_the_window_is_freed_p6() -> None:
    """Somebody pings on with the secret of a node that the cloud has not had for long (P6, X5)."""
    made = in_vain()
    freed_after = until_freed(made, within=40)
    assert freed_after is not None
    assert 1200.0 < freed_after < 1400.0
    verdict = made.of_record("r1")
    assert verdict.reason is Reason.PINGER_DENIED
    assert verdict.measures["denied_s"] > 1200.0
    assert made.clean_order("r1").version is None, "its next ping makes another"


@pytest.mark.parametrize("says", [WorkerState.BUSY, WorkerState.IDLE])
def test_what_the_pinger_says_of_itself_is_no_evidence_p6_c2(says: WorkerState) -> None:
    made = in_vain()
    for _ in range(30):
        made.ping("r1", says)
        deny(made)
    assert made.cleaned == ["r1"]


@cases(
    ("fields", "how"),
    {
        "its-id-was-never-answered": ({}, {"by_id": False}),
        "its-tag-was-never-answered": ({}, {"by_tag": False}),
        "nothing-but-the-tag-it-never-bore": ({"claimed": False, "instance_id": None}, {}),
    },
)
def test_a_pinger_is_kept_until_all_there_is_to_ask_by_denies_it_p6(
    fields: dict[str, object], how: dict[str, bool]
) -> None:
    made = in_vain(**fields)
    assert until_freed(made, within=60, **how) is None


def test_a_malformed_id_denies_nothing_p1a() -> None:
    """A record of before our time names "x", which is no node's id (P1a, N12)."""
    made = in_vain(claimed=False, instance_id="x")
    for _ in range(60):
        made.answer({}, malformed=frozenset(made.last.ask))
        deny(made, by_id=False)
    assert made.cleaned == []


@pytest.mark.parametrize("seen", ["answered", "listed", "glimpsed", "unasked-for-long"])
def test_a_sighting_or_a_gap_breaks_the_denials_p6(seen: str) -> None:
    """It takes the whole window again from there."""
    made = in_vain()
    lives = node("r1", created_at=made.ago(10_000.0))
    for _ in range(18):
        deny(made)
    if seen == "answered":
        pinging_round(made, 5)
        made.answer({"i-r1": lives})
        made.advance(30.0)
        made.answer({"i-r1": None})
    elif seen == "unasked-for-long":
        pinging_round(made, 11)
    else:
        made.poll_cloud([lives], complete=seen == "listed")
    pinging_round(made, 2)
    freed_after = until_freed(made, within=40)
    assert freed_after is not None
    assert freed_after > 1150.0


@cases("late", {"by-id": {"id_late": 601.0}, "by-tag": {"tag_late": 601.0}})
def test_a_denial_is_as_old_as_its_question_p6(late: dict[str, float]) -> None:
    """Its answer came late, or waited while we stood still: the cloud may have said it long ago."""
    made = in_vain()
    for _ in range(60):
        deny(made, **late)
        assert made.cleaned == []
    pinging_round(made)
    assert until_freed(made, within=60) is not None


def test_answers_that_come_a_little_late_break_no_denials_p6() -> None:
    made = in_vain()
    freed_after = until_freed(made, within=40, id_late=60.0, tag_late=60.0)
    assert freed_after is not None
    assert 1200.0 < freed_after < 1400.0


def test_a_gap_between_denials_is_counted_from_the_question_p6() -> None:
    """The first was said up to 300 s before it came, and nothing for 400 s after that."""
    made = in_vain()
    for _ in range(18):
        deny(made)
    deny(made, id_late=300.0, tag_late=300.0)
    pinging_round(made, 6)
    freed_after = until_freed(made, within=40)
    assert freed_after is not None
    assert freed_after > 1150.0


@cases(
    ("limit_s", "is_broken"),
    {"all-of-them-near-enough": (400.0, False), "two-of-them-too-far-apart": (300.0, True)},
)
def test_a_reload_may_find_the_denials_too_far_apart_p6_s6(limit_s: float, is_broken: bool) -> None:
    """They were near enough by the settings then; it is the new ones that hold now."""
    made = in_vain().with_settings(max_poll_time=60.0)
    for _ in range(5):
        deny(made)
    # From one denial to the next it is six minutes here.
    pinging_round(made, 5)
    for _ in range(9):
        deny(made)
    assert made.cleaned == []
    made.reload(poll_stale_after=limit_s)
    freed_after = until_freed(made, within=40)
    assert freed_after is not None
    assert (freed_after > 1150.0) is is_broken


def test_denials_broken_by_a_reload_count_from_the_newest_p6_s6() -> None:
    """What comes after it is held against the new settings as ever."""
    made = in_vain().with_settings(max_poll_time=60.0)
    deny(made)
    pinging_round(made, 5)
    deny(made)
    newest_at = made.history.asked["r1"].at
    for limit_s in (300.0, 100.0):
        made.reload(poll_stale_after=limit_s)
        deny(made)
        for key in ("r1", "i-r1"):
            answer = made.history.asked[key]
            assert (answer.denied_since, answer.at > newest_at) == (newest_at, True)


def test_one_that_pings_rarely_is_asked_for_all_the_same_p6() -> None:
    """A ping each quarter of an hour, inside the window, holds the slot no longer either (X5)."""
    made = in_vain()
    freed = False
    for number in range(40):
        made.answer(dict.fromkeys(made.last.ask))
        made.answer_tags(dict.fromkeys(made.last.ask_tagged, ()))
        made.advance(60.0)
        if number % 15 == 0:
            made.ping("r1")
        made.round()
        freed = freed or made.cleaned == ["r1"]
    assert freed


def test_those_that_were_not_asked_for_longest_come_first_p6() -> None:
    """With more pingers than may be asked for at once, each has its turn."""
    made, _ = hidden(30)
    asked: set[str] = set()
    for _ in range(2):
        asked |= set(made.last.ask)
        deny(made)
    assert len(asked) == 30


def test_an_operators_hold_keeps_a_denied_pinger_c9_p6() -> None:
    made = in_vain()
    made.flags["holds"] = frozenset({"r1"})
    assert until_freed(made, within=40) is None
    assert made.of_record("r1").reason is Reason.HELD


# A claim whose node is never listed and never pings (D13).


def unheard(*, rounds: int = 10, **fields: Any) -> tuple[World, CloudNode]:
    """A claim that waits for its first ping, and its node, which no listing shows.

    The eleventh round is the first in which it has been silent for longer than boot_fail_after.
    """
    made = world(max_nodes=4, min_nodes=0, boot_fail_after=600.0)
    made.add_record("r1", **{"pinged": False, "instance_id": "i-r1", **fields})
    born = node("r1", created_at=made.ago(0.0))
    made.round(rounds)
    return made, born


def again(made: World, rounds: int = 1) -> None:
    for _ in range(rounds):
        made.advance(60.0)
        made.round()


def test_a_created_node_that_nobody_sees_or_hears_is_asked_for_and_a_failed_boot_d13():
    made, born = unheard()
    assert made.last.ask_tagged == ()
    again(made)
    assert (made.last.ask, made.last.ask_tagged) == (("i-r1",), ("r1",))
    assert made.destroyed == []
    made.answer({"i-r1": born})
    again(made)
    order = made.shutdown_order("i-r1")
    assert order.reason is Reason.BOOT_FAILED
    assert (order.record, order.incarnation, order.size) == ("r1", "r1-life1", "small")
    assert order.measures["silent_s"] > order.measures["limit_s"] == 600.0


def overdue(**fields: Any) -> tuple[World, CloudNode]:
    made, born = unheard(rounds=11, **fields)
    assert made.last.ask_tagged == ("r1",)
    return made, born


def test_without_an_answer_nothing_is_destroyed_or_forgotten_d13():
    made, _ = overdue()
    again(made, 3)
    assert made.destroyed == []
    assert made.last.ask == ("i-r1",)


@pytest.mark.parametrize("state", [None, CloudState.TERMINATED])
def test_one_that_the_cloud_has_not_is_no_failed_boot_and_its_claim_expires_d13(
    state: CloudState | None,
):
    made, born = overdue()
    made.answer({"i-r1": None if state is None else replace(born, state=state)})
    again(made)
    assert made.destroyed == []
    assert made.of_record("r1").reason is Reason.CLAIM_WITHIN_WINDOW
    again(made, 6)
    assert made.cleaned == ["r1"]


def test_while_a_node_that_came_late_is_young_no_denial_counts_p6_d13():
    """It need not be listed yet (A1), and another one would be one above max_nodes."""
    made, _ = overdue()
    made.with_settings(min_nodes=1, max_nodes=1, visible_after=300.0)
    deny(made)
    made.ping("r1")
    for _ in range(4):
        deny(made)
        assert made.of_record("r1").reason is Reason.WITHIN_WINDOW
        assert made.plan().boots == ()
    for _ in range(3):
        deny(made)
    verdict = made.of_record("r1")
    assert verdict.reason is Reason.PINGING_UNLISTED
    assert verdict.measures["denied_s"] < 200.0, "no longer than it was old enough"
    made.answer({"i-r1": None})
    made.answer_tags({"r1": ()})
    made.advance(1.0)
    assert len(made.plan().boots) == 1


def test_where_its_id_is_not_known_it_is_found_by_its_tag_d13():
    made, born = overdue(instance_id=None)
    assert made.last.ask == ()
    made.answer_tags({"r1": (born,)})
    again(made)
    assert made.destroyed == ["i-r1"]


def test_where_no_claim_names_it_the_id_is_what_the_create_answered_d13():
    made, born = unheard(instance_id=None)
    made.flags["expected"] = {"r1": Expected("i-r1", "small", made.now, "r1-life1")}
    again(made, 2)
    assert made.last.ask == ("i-r1",)
    made.answer({"i-r1": born})
    again(made)
    assert made.destroyed == ["i-r1"]


def test_what_was_created_for_another_life_of_its_record_is_not_asked_for_d13():
    made, _ = unheard(instance_id=None)
    made.flags["expected"] = {"r1": Expected("i-old", "small", made.now, "r1-life0")}
    again(made, 2)
    assert made.last.ask == ()


@cases(
    "tags",
    {
        "none": NO_TAGS,
        "another record's": node("r2").tags,
        "another life's": node("r1", life=2).tags,
        "another pool's": node("r1", pool="other").tags,
    },
)
def test_one_without_our_tags_is_not_destroyed_d11_d13(tags: Tags):
    made, born = overdue()
    made.answer({"i-r1": replace(born, tags=tags)})
    again(made, 2)
    assert made.destroyed == []


def test_two_nodes_of_one_claim_are_both_kept_p2_d13():
    made, born = overdue()
    made.answer({"i-r1": born})
    made.answer_tags({"r1": (born, replace(born, id="i-twin"))})
    again(made)
    assert made.destroyed == []


def test_a_terminated_twin_is_no_rival_d13():
    made, born = overdue()
    made.answer_tags({"r1": (born, replace(born, id="i-twin", state=CloudState.TERMINATED))})
    again(made)
    assert made.destroyed == ["i-r1"]


def test_the_record_of_one_found_without_tags_by_the_id_of_its_create_is_kept_d11_d13():
    made, born = unheard(instance_id=None)
    made.flags["expected"] = {"r1": Expected("i-r1", "small", made.now - 600.0, "r1-life1")}
    again(made)
    made.answer({"i-r1": replace(born, tags=NO_TAGS)})
    again(made)
    assert made.of_record("r1").reason is Reason.UNTAGGED
    assert made.destroyed == []


def test_one_whose_record_contradicts_another_is_kept_l4_d13():
    made, born = overdue()
    for number in range(2, 60):
        made.add_record(f"r{number}", pinged=False, claimed=False, slot=None)
    made.answer({"i-r1": born})
    made.change("r2", slot_number=made.record("r1").slot_number)
    again(made)
    assert made.last.aborted is None
    assert made.destroyed == []


def test_an_answer_from_before_its_ping_was_overdue_says_nothing_d13():
    made, born = unheard()
    made.answer({"i-r1": born})
    again(made, 2)
    assert made.destroyed == []


def test_an_old_answer_says_nothing_d13():
    made, born = overdue()
    made.answer({"i-r1": born})
    again(made, 2)
    assert made.destroyed == ["i-r1"]
    again(made, 10)
    assert made.destroyed == []


def test_one_that_pings_after_the_answer_is_no_failed_boot_d13():
    made, born = overdue()
    made.answer({"i-r1": born})
    made.ping("r1")
    again(made)
    assert made.destroyed == []


def test_one_that_is_listed_after_all_is_judged_as_all_others_d13():
    made, born = overdue()
    made.answer({"i-r1": born})
    made.nodes.append(born)
    again(made)
    assert made.view("i-r1").verdict.reason is Reason.BOOT_FAILED
    assert made.destroyed == ["i-r1"]
    made.nodes.clear()
    again(made, 3)
    assert made.destroyed == []


def test_time_in_which_the_store_did_not_answer_is_no_silence_d8_d13():
    made = world(max_nodes=1, min_nodes=0, boot_fail_after=600.0)
    made.add_record("r1", pinged=False, instance_id="i-r1")
    for _ in range(30):
        made.advance(60.0)
        made.poll_records(answers=False)
        made.advance(0.5)
        made.poll_cloud()
        made.plan()
    assert made.last.ask_tagged == ()


@cases(
    ("flags", "expected"),
    {
        "lease": ({"lease": False}, []),
        "pause": ({"pool_marks": {PAUSE: Mark("me", 0.0)}}, []),
        "read only": ({"read_only": "another store"}, []),
        "its hold": ({"holds": frozenset({"i-r1"})}, []),
        "its record's hold": ({"holds": frozenset({"r1"})}, []),
        "cap": ({"destroyed_lately": 5}, []),
        "just below the cap": ({"destroyed_lately": 4}, ["i-r1"]),
        "in flight": ({"record_flights": {"r1": Flight("clean", 0.0)}}, []),
        "gone": ({"gone": {"i-r1": 1e9}}, []),
        "breaker": ({"breaker": Breaker(Cause.WRITES_FAIL)}, []),
    },
)
def test_what_forbids_any_shutdown_forbids_this_one_d9_d13(
    flags: dict[str, Any], expected: list[str]
):
    made, born = overdue()
    made.answer({"i-r1": born})
    made.flags |= flags
    again(made)
    assert made.destroyed == expected


def test_what_the_cloud_said_before_it_was_gone_is_forgotten_d13():
    made, born = overdue()
    made.answer({"i-r1": born})
    made.answer_tags({"r1": (born,)})
    made.history = explained(made.history, ["i-r1"])
    again(made)
    assert made.destroyed == []
    assert made.of_record("r1").reason is Reason.CLAIM_WITHIN_WINDOW


# One that pinged, and fell silent while no listing showed it (D13).


def silenced(**fields: Any) -> tuple[World, CloudNode]:
    """A stale record whose clean is due, and its node, silent for longer than the window."""
    made = world(max_nodes=4, min_nodes=0, boot_fail_after=600.0, node_stale_after=1200.0)
    made.add_record("r1", **{"instance_id": "i-r1", **fields})
    born = node("r1", created_at=made.ago(0.0))
    made.round(22)
    assert made.cleaned == ["r1"]
    return made, born


def test_one_that_the_last_look_found_alive_goes_as_if_it_were_listed_d13():
    made, born = silenced()
    made.answer({"i-r1": born})
    again(made)
    order = made.shutdown_order("i-r1")
    assert order.reason is Reason.NODE_DOWN
    assert (order.record, order.incarnation) == ("r1", "r1-life1")
    assert made.of_record("r1").reason is Reason.LISTING_SHORT
    assert made.last.ask == ("i-r1",)


@cases(
    "found",
    {
        "no-tags-d11": {"tags": NO_TAGS},
        "another-life": {"tags": node("r1", life=2).tags},
        "another-records": {"tags": node("r2").tags},
        "another-pools": {"tags": node("r1", pool="other").tags},
        "terminated": {"state": CloudState.TERMINATED},
        "no-launch-time-d1": {"created_at": None},
        "held-c9": {"held": True},
    },
)
def test_it_stays_where_it_would_if_it_were_listed_d13(found: dict[str, Any]):
    made, born = silenced()
    made.answer({"i-r1": replace(born, **found)})
    again(made)
    assert made.destroyed == []


@pytest.mark.parametrize("by_tag", [False, True])
def test_a_hold_that_either_of_two_answers_shows_keeps_it_c9_d13(by_tag: bool):
    """The other question failed since, and its answer is from before the hold."""
    made, born = silenced()
    held = replace(born, held=True)
    made.answer({"i-r1": born if by_tag else held})
    made.answer_tags({"r1": (held if by_tag else born,)})
    again(made)
    assert made.destroyed == []


def test_once_both_answers_show_it_released_it_goes_c9_d13():
    made, born = silenced()
    made.answer({"i-r1": replace(born, held=True)})
    made.answer_tags({"r1": (replace(born, held=True),)})
    again(made)
    made.answer({"i-r1": born})
    made.answer_tags({"r1": (born,)})
    again(made)
    assert made.destroyed == ["i-r1"]


@pytest.mark.parametrize("by_tag", [False, True])
def test_a_hold_that_is_answered_after_the_order_is_seen_by_the_last_look_c9_d2_d13(by_tag: bool):
    made, born = silenced()
    made.answer({"i-r1": born})
    again(made)
    order = made.shutdown_order("i-r1")
    found = ShutdownEvidence(made.record("r1"))

    def said() -> tuple[Kind, Reason]:
        verdict = confirm_shutdown(order, found, made.snapshot(), made.settings, wanted=False)
        return verdict.kind, verdict.reason

    assert said() == (Kind.SHUTDOWN, Reason.NODE_DOWN)
    held = replace(born, held=True)
    if by_tag:
        made.answer_tags({"r1": (replace(born, id="i-other"), held)})
    else:
        made.answer({"i-r1": held})
    assert said() == (Kind.KEEP, Reason.HELD)


def test_one_without_a_claim_says_nothing_of_whose_it_is_and_stays_d13():
    made, born = silenced(claimed=False)
    made.answer({"i-r1": replace(born, tags=replace(born.tags, incarnation=None))})
    again(made)
    assert made.destroyed == []


def test_one_that_ended_by_itself_is_denied_and_its_slot_is_free_d13():
    made, born = silenced()
    made.answer({"i-r1": born})
    again(made)
    made.answer({"i-r1": None})
    made.answer_tags({"r1": ()})
    again(made)
    assert (made.destroyed, made.cleaned) == ([], ["r1"])


def test_many_that_fall_silent_at_once_open_the_breaker_listed_or_not_d9_d13():
    made = world(max_nodes=9, min_nodes=0, boot_fail_after=600.0, node_stale_after=1200.0)
    for number in range(1, 7):
        made.add_record(f"r{number}", instance_id=f"i-r{number}")
    born = {f"i-r{number}": node(f"r{number}", created_at=made.ago(0.0)) for number in range(1, 7)}
    made.round(22)
    made.answer(born)
    again(made)
    assert made.breaker.part(Cause.MASS_SILENCE) is not None
    assert made.destroyed == []


# How long a created node is remembered by its id (P4, D13).


def kept(made: World, one: Expected) -> bool:
    left = still_expected({"r1": one}, made.history, made.last.pairs, made.now, made.settings)
    return "r1" in left


def test_a_created_node_that_no_listing_shows_is_remembered_until_it_is_called_gone_d13():
    made, born = unheard(instance_id=None)
    one = Expected("i-r1", "small", made.now - 660.0, "r1-life1")
    made.flags["expected"] = {"r1": one}
    assert kept(made, one)
    assert not kept(made, replace(one, node_id=None))
    assert not kept(made, replace(one, incarnation="r1-life0"))
    made.answer({"i-r1": born})
    assert kept(made, one)
    made.answer({"i-r1": None})
    assert kept(made, one)
    made.advance(30.0)
    made.answer({"i-r1": None})
    assert not kept(made, one)
    made.answer({"i-r1": replace(born, state=CloudState.TERMINATED)})
    assert not kept(made, one)


def test_a_denial_of_a_young_node_is_none_d3_d13():
    made, _ = unheard(instance_id=None)
    made.with_settings(visible_after=9000.0)
    one = Expected("i-r1", "small", made.now - 660.0, "r1-life1")
    for _ in range(2):
        made.answer({"i-r1": None})
        made.advance(30.0)
    assert kept(made, one)
    made.with_settings(visible_after=0.0)
    assert not kept(made, one)


def test_a_node_that_only_may_exist_is_not_expected_of_a_life_that_we_freed_since_p4():
    """A former run's clean took effect, and its set-up was taken up before that was found out."""
    made, _ = unheard(instance_id=None)
    one = Expected(None, "small", made.now, "r1-life1")
    assert kept(made, one)
    made.free("r1")
    assert not kept(made, one)
    assert kept(made, replace(one, incarnation="r1-life2"))
    # The cloud has shown it since.
    made.advance(30.0)
    assert kept(made, replace(one, node_id="i-r1", since=made.now))


def test_a_created_node_that_is_listed_or_pings_is_not_remembered_for_its_id_d13():
    made, born = unheard(instance_id=None)
    one = Expected("i-r1", "small", made.now - 660.0, "r1-life1")
    made.nodes.append(replace(born, tags=NO_TAGS))
    again(made)
    assert not kept(made, one)
    made.nodes.clear()
    again(made)
    assert kept(made, one)
    made.ping("r1")
    again(made)
    assert not kept(made, one)


@cases(
    ("by_wall", "age"),
    {"set-back": (-90.0, 0.0), "right": (90.0, 90.0), "set-ahead": (90_000.0, None)},
)
def test_a_node_that_a_former_run_created_is_never_older_than_its_waiting_claim_p1a(
    by_wall: float, age: float | None
) -> None:
    """Our wall clock may have been set since; the store's clock tells the age of the claim."""
    made, _ = unheard(instance_id=None)
    answer = NodeExpected("r1", "r1-life1", "small", "i-r1")
    answers = [(answer, made.now - by_wall)]
    waiting = waiting_claims(made.history, made.now)
    claimed = made.history.records.items[0].claim
    assert list(waiting) == ["r1/r1-life1"]
    claim_s = made.history.clock.age(claimed.at, made.now)
    found = expected_again(answers, (), waiting, made.now, made.settings)
    assert made.now - found["r1"].since == pytest.approx(claim_s if age is None else age)
    assert not expected_again(answers, {"i-r1"}, waiting, made.now, made.settings)
    left = expected_again(answers, (), {}, made.now, made.settings)
    assert bool(left) == (by_wall < made.settings.boot_fail_after)
    unread = replace(made.history, clock=None)
    assert waiting_claims(unread, made.now) == {"r1/r1-life1": made.now}


def test_denials_that_nobody_repeats_any_more_are_no_unbroken_ones_p6_a1() -> None:
    """The cloud answers no question for half an hour, but lists; the secret is pinged with on."""
    made = in_vain()
    for _ in range(4):
        deny(made)
    pinging_round(made, 30)
    assert made.cleaned == []
