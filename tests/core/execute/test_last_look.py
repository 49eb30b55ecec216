"""The last look before a clean is written: C11, C12, and cleans of their own right (C20, U6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.execute.pre_write_check import confirm_clean
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import CloudState, Guarantee, WorkerState
from nodemanager.core.observe.evidence import CleanEvidence, look_at
from nodemanager.core.observe.snapshot import Flight
from nodemanager.core.safety.orders import CleanOrder, fenced_order, order_release
from nodemanager.core.safety.proof import violations
from tests.cases import cases
from tests.core.build import (
    EPOCH,
    START,
    World,
    claim,
    deny,
    gone,
    in_vain,
    incarnation_of,
    node,
    world,
)

NOW = EPOCH + START
STALE = (Kind.CLEAN, Reason.STALE_SLOT)


# C11: the last look.


def last_look(
    made: World, *, order: CleanOrder | None = None, **changes: Any
) -> tuple[Kind, Reason]:
    found = {"record": made.records[0], "tagged": (), "by_id": None, "asked_id": True}
    evidence = CleanEvidence(**{**found, **changes.pop("found", {})})
    order = order or made.clean_order("r1")
    one = confirm_clean(order, evidence, made.snapshot(**changes), made.settings)
    return one.kind, one.reason


def test_nothing_changed_and_the_record_is_freed_c11() -> None:
    assert last_look(gone()) == STALE


@cases(
    ("found", "reason"),
    {
        "an-error": ({"error": "time-out"}, Reason.EVIDENCE_MISSING),
        "no-answer-by-tag": ({"tagged": None}, Reason.EVIDENCE_MISSING),
        "not-asked-by-its-id": ({"asked_id": False}, Reason.EVIDENCE_MISSING),
        "the-record-is-gone": ({"record": None}, Reason.CHANGED_SINCE_PLAN),
        "a-node-by-tag": ({"tagged": (node("r1"),)}, Reason.NODE_ALIVE),
        "any-state": ({"tagged": (node("r1", state=CloudState.UNKNOWN),)}, Reason.NODE_ALIVE),
        "a-node-by-id": ({"by_id": node("r1", pool=None)}, Reason.NODE_ALIVE),
        "terminated-by-tag": ({"tagged": (node("r1", state=CloudState.TERMINATED),)}, None),
        "and-by-id": ({"by_id": node("r1", state=CloudState.TERMINATED)}, None),
        "another-life": ({"tagged": (node("r1", id="i-2", life=2),)}, None),
    },
)
def test_life_or_no_answer_at_the_last_look_keeps_the_record_c11(
    found: dict[str, Any], reason: Reason | None
) -> None:
    expected = STALE if reason is None else (Kind.KEEP, reason)
    assert last_look(gone(), found=found) == expected


@cases(
    ("claimed", "expected"),
    {
        "its-tag-is-asked": (True, STALE),
        "nothing-else-to-ask-by": (False, (Kind.KEEP, Reason.UNVERIFIABLE)),
    },
)
def test_a_malformed_id_is_as_none_c11_p1a(claimed: bool, expected: tuple[Kind, Reason]) -> None:
    """The cloud calls what the record names no node's id (P1a, N12). A denial it is not."""
    made = gone(claimed=claimed, instance_id="x")
    assert last_look(made, found={"malformed": True}) == expected


@cases(
    ("change", "reason"),
    {
        "version": ({"version": "v2"}, Reason.CHANGED_SINCE_PLAN),
        "unreadable": ({"problems": ("x",)}, Reason.UNREADABLE),
        "pool": ({"pool": "other"}, Reason.OTHER_POOL),
        "held": ({"held": True}, Reason.HELD),
        "its-last-ping": ({"last_ping_at": NOW - 8000.0}, Reason.CHANGED_SINCE_PLAN),
        "its-first": ({"first_ping_at": NOW - 8000.0}, Reason.CHANGED_SINCE_PLAN),
        "whose-ping-it-is": ({"instance_id": "i-2"}, Reason.CHANGED_SINCE_PLAN),
        "life": ({"claim": claim("r1", at=NOW - 9600.0, life=2)}, Reason.CHANGED_SINCE_PLAN),
    },
)
def test_a_record_that_changed_since_its_plan_is_kept_c11(
    change: dict[str, Any], reason: Reason
) -> None:
    """By a ping also where its version is the same: a store may not count pings (against A4)."""
    made = gone()
    assert last_look(made, found={"record": replace(made.records[0], **change)}) == (
        Kind.KEEP,
        reason,
    )


@cases(
    ("snapshot", "reason"),
    {
        "lease": ({"lease": False}, Reason.NO_LEASE),
        "read-only": ({"read_only": "x"}, Reason.READ_ONLY),
        "held": ({"holds": frozenset({"r1"})}, Reason.HELD),
        "node-held": ({"holds": frozenset({"i-r1"})}, Reason.HELD),
        "in-flight": ({"record_flights": {"r1": Flight("setup", START)}}, Reason.IN_FLIGHT),
        "breaker": ({"breaker": Breaker(Cause.WRITES_FAIL)}, Reason.BREAKER_OPEN),
        "it-was-open": ({"breaker": Breaker(generation=2)}, Reason.BREAKER_OPEN),
    },
)
def test_what_stands_in_the_way_now_stops_the_write_c11(
    snapshot: dict[str, Any], reason: Reason
) -> None:
    assert last_look(gone(), **snapshot) == (Kind.KEEP, reason)


def test_old_polls_and_a_clock_that_nobody_trusts_any_more_stop_the_write_c7_t1() -> None:
    made = gone()
    blind = replace(made.history, clock=None)
    assert last_look(made, history=blind) == (Kind.KEEP, Reason.CLOCK_UNKNOWN)
    order = replace(made.clean_order("r1"), not_after=float("inf"))
    made.advance(700.0)
    assert last_look(made, order=order) == (Kind.KEEP, Reason.POLL_STALE)


@cases(
    ("late", "expected"),
    {"in-time": (60.0, STALE), "late": (60.5, (Kind.KEEP, Reason.ORDER_EXPIRED))},
)
def test_an_order_stands_for_sixty_seconds_c11(late: float, expected: tuple[Kind, Reason]) -> None:
    made = gone()
    order = made.clean_order("r1")
    made.advance(late)
    assert last_look(made, order=order) == expected


@pytest.mark.parametrize("complete", [True, False], ids=["whole", "incomplete-c5"])
@pytest.mark.parametrize("claimed", [True, False], ids=["by-its-tag", "by-its-id-alone"])
def test_a_node_that_a_listing_since_the_plan_shows_keeps_the_record_c4_c11(
    claimed: bool, complete: bool
) -> None:
    """Also where the cloud denies it by id: that a listing is late, or the answer wrong, is not
    told apart here."""
    made = gone(claimed=claimed)
    order = made.clean_order("r1")
    made.add_node("r1" if claimed else None, id="i-r1")
    made.poll_cloud(complete=complete)
    assert last_look(made, order=order) == (Kind.KEEP, Reason.NODE_ALIVE)
    seen = look_at(
        made.records[0],
        CleanEvidence(made.records[0], (), asked_id=True),
        made.snapshot(),
        made.settings,
        node_id="i-r1",
        guarantee=Guarantee.CAS,
        fence_wait=0.0,
    )
    found = {one.rule for one in violations(order, seen, made.records[0])}
    assert found == {"C4"}, "the proof tells it, too"


def test_an_incomplete_listing_since_the_plan_that_shows_another_node_keeps_no_record_c5() -> None:
    made = gone()
    order = made.clean_order("r1")
    made.poll_cloud([node("r2"), node("r1", life=2, id="i-2")], complete=False)
    assert last_look(made, order=order) == STALE


@cases(
    ("since_first", "expected"),
    {"too-early": (300.0, Reason.DENIED_TOO_EARLY), "past": (300.5, Reason.STALE_SLOT)},
)
def test_a_denial_counts_only_visible_after_past_the_first_ping_c11(
    since_first: float, expected: Reason
) -> None:
    short = {"node_stale_after": 100.0}
    first_ping_at = gone(200.0, settings=short).ago(since_first)
    made = gone(200.0, settings=short, first_ping_at=first_ping_at)
    assert last_look(made)[1] is expected


@pytest.mark.parametrize("pinged", [True, False], ids=["pinged", "never-pinged"])
@cases(
    ("took_s", "expected"),
    {
        "at-once": (None, Reason.STALE_SLOT),
        "in-time": (15.0, Reason.STALE_SLOT),
        "too-early": (25.0, Reason.DENIED_TOO_EARLY),
    },
)
def test_a_denial_is_as_old_as_its_question_c11(
    took_s: float | None, expected: Reason, pinged: bool
) -> None:
    """The cloud may have said it when the node was too young to be shown (A1).

    It counts from 300 s past the first ping, or 520 s past the last sign of a claim; now is 20 s
    later.
    """
    settings = {"node_stale_after": 100.0, "boot_fail_after": 100.0}
    settles_s = gone().now - START
    age_s = (320.0 if pinged else 540.0) - settles_s
    first = EPOCH + START - age_s if pinged else None
    made = gone(age_s, settings=settings, claimed=False, first_ping_at=first)
    asked_at = None if took_s is None else made.now - took_s
    assert last_look(made, found={"asked_at": asked_at})[1] is expected


def test_a_record_with_nothing_to_ask_by_is_left_to_an_operator_c11() -> None:
    made = gone()
    order = made.clean_order("r1")
    record = replace(made.records[0], claim=None, instance_id=None)
    order = replace(order, incarnation=None, instance_id=None, grounds=None)
    found = {"record": record, "asked_id": False}
    assert last_look(made, order=order, found=found) == (Kind.KEEP, Reason.UNVERIFIABLE)


def test_our_claim_is_enough_to_ask_by_c11() -> None:
    made = gone(pinged=False)
    assert last_look(made, found={"asked_id": False}) == (Kind.CLEAN, Reason.CLAIM_EXPIRED)


# C12: behind the fence.


def test_behind_the_fence_the_fenced_version_is_judged_c12() -> None:
    made = gone()
    order, before = made.clean_order("r1"), made.records[0]
    after = made.change("r1", version="fenced", modified_at=made.store_now)
    behind = fenced_order(order, before, after, made.now)
    assert behind is not None
    assert last_look(made, order=behind) == STALE
    made.change("r1", version="moved")
    assert last_look(made, order=behind) == (Kind.KEEP, Reason.CHANGED_SINCE_PLAN)


def test_behind_the_fence_a_word_from_ahead_is_as_old_as_it_was_t1_c12() -> None:
    """The fence's version is a new one: how long the former was watched for is remembered."""
    made = world()
    ahead = {"quiet": -1e9, "worker_state": WorkerState.BUSY}
    made.add_record("r1", **ahead, first_ping_at=EPOCH + START - 9000.0)
    made.round(1)
    made.advance(7300.0)
    made.settle()
    order, before = made.clean_order("r1"), made.records[0]
    after = made.change("r1", version="fenced", modified_at=made.store_now)
    behind = fenced_order(order, before, after, made.now)
    assert behind is not None
    assert last_look(made, order=behind) == STALE


@pytest.mark.parametrize(
    "moved", [{"last_ping_at": NOW}, {"slot_number": 9}, {"claim": None}, {"ip_address": "x"}]
)
def test_what_moved_before_the_fence_lifts_it_c12(moved: dict[str, Any]) -> None:
    made = gone()
    order, before = made.clean_order("r1"), made.records[0]
    assert fenced_order(order, before, made.change("r1", **moved), made.now) is None


def test_a_fence_answered_after_the_orders_not_after_is_lifted_c11() -> None:
    made = gone()
    order, before = made.clean_order("r1"), made.records[0]
    fenced = made.change("r1")
    assert fenced_order(order, before, fenced, order.not_after) is not None
    assert fenced_order(order, before, fenced, order.not_after + 0.001) is None


# C20, U6: cleans of their own right.


def destroyed(**fields: Any) -> tuple[World, CleanOrder]:
    """A busy, fresh record whose node we just destroyed; the list still shows it running."""
    made = world()
    made.add_record("r1", worker_state=WorkerState.BUSY, **fields)
    made.add_node("r1")
    made.round()
    order = order_release(
        "r1",
        Reason.AFTER_SHUTDOWN,
        made.snapshot(),
        incarnation=incarnation_of("r1"),
        instance_id="i-r1",
    )
    return made, order


GONE = (Kind.CLEAN, Reason.AFTER_SHUTDOWN)


def test_after_our_shutdown_the_record_is_freed_whatever_age_listing_and_polls_say_c20() -> None:
    made, order = destroyed()
    assert last_look(made, order=order, found={"asked_id": False}) == GONE
    made.nodes.clear()
    made.poll_cloud()
    assert last_look(made, order=order) == GONE
    made.advance(5000.0)
    assert last_look(made, order=replace(order, not_after=float("inf"))) == GONE


TOO_EARLY = (Kind.KEEP, Reason.DENIED_TOO_EARLY)


@cases(
    ("pinged", "age", "visible_after", "expected"),
    {
        "young": (True, 300.0, 300.0, TOO_EARLY),
        "old-enough": (True, 300.1, 300.0, GONE),
        "reads-are-consistent": (True, 0.0, 0.0, GONE),
        "never-pinged-and-reads-are-consistent": (False, 0.0, 0.0, GONE),
    },
)
def test_that_no_other_node_bears_its_uuid_counts_once_a_twin_would_be_seen_c20(
    pinged: bool, age: float, visible_after: float, expected: tuple[Kind, Reason]
) -> None:
    """One create may have made two nodes, and the cloud denies a young one (A1)."""
    made, order = destroyed(pinged=pinged, quiet=age)
    if pinged:
        made.change("r1", first_ping_at=made.ago(age))
    made.settings = replace(made.settings, visible_after=visible_after)
    assert last_look(made, order=order) == expected


@cases(
    ("claimed", "launched", "expected"),
    {
        "a-create-may-have-come-so-late": (2210.0, None, TOO_EARLY),
        "past-c21": (2221.0, None, GONE),
        "launched-lately": (2100.0, 359.0, TOO_EARLY),
        "launched-long-ago": (900.0, 361.0, GONE),
    },
)
def test_a_twin_of_one_that_never_pinged_is_as_old_as_that_c20(
    claimed: float, launched: float | None, expected: tuple[Kind, Reason]
) -> None:
    """A create may take effect boot_fail_after + 120 s past its claim (A2).

    Nobody measures the cloud's clock, so a launch counts from a minute later.
    """
    made, order = destroyed(pinged=False, quiet=claimed)
    created_at = None if launched is None else made.ago(launched)
    assert last_look(made, order=replace(order, created_at=created_at)) == expected


def test_that_denial_is_as_old_as_its_question_too_c20() -> None:
    made, order = destroyed(pinged=True, quiet=310.0)
    made.change("r1", first_ping_at=made.ago(310.0))
    made.settings = replace(made.settings, visible_after=300.0)
    assert last_look(made, found={"asked_at": made.now - 9.0}, order=order) == GONE
    assert last_look(made, found={"asked_at": made.now - 11.0}, order=order) == TOO_EARLY


@cases(
    ("pinged", "back", "waited", "expected"),
    {
        "young": (True, 7200.0, 299.0, TOO_EARLY),
        "old-enough": (True, 7200.0, 301.0, GONE),
        "caught-up": (True, 290.0, 301.0, GONE),
        "never-pinged-and-young": (False, 7200.0, 2219.0, TOO_EARLY),
        "never-pinged": (False, 7200.0, 2221.0, GONE),
    },
)
def test_where_the_clock_was_set_back_that_denial_counts_from_the_records_first_sighting_c20_t1(
    pinged: bool, back: float, waited: float, expected: tuple[Kind, Reason]
) -> None:
    made, order = destroyed(pinged=pinged)
    if pinged:
        made.change("r1", first_ping_at=made.store_now, last_ping_at=made.store_now)
    made.settings = replace(made.settings, visible_after=300.0)
    made.store_step -= back
    made.poll_records()
    made.advance(waited)
    order = replace(order, not_after=float("inf"))
    assert last_look(made, order=order) == expected
    assert last_look(made, found={"asked_at": made.now - 3.0}, order=order) == TOO_EARLY


@cases(
    ("state", "expected"),
    {
        "a-late-answer": (CloudState.STOPPING, GONE),
        "terminated": (CloudState.TERMINATED, GONE),
        "running-after-all": (CloudState.RUNNING, (Kind.KEEP, Reason.NODE_ALIVE)),
    },
)
def test_c4_is_waived_only_for_the_node_destroyed_and_only_on_its_way_out_c20(
    state: CloudState, expected: tuple[Kind, Reason]
) -> None:
    made, order = destroyed()
    found = {"tagged": (node("r1", state=state),)}
    assert last_look(made, order=order, found=found) == expected


@cases(
    ("change", "reason"),
    {
        "incarnation": ({"claim": claim("r1", at=NOW, life=2)}, Reason.CHANGED_SINCE_PLAN),
        "no-claim-any-more": ({"claim": None}, Reason.CHANGED_SINCE_PLAN),
        "instance": ({"instance_id": "i-new"}, Reason.CHANGED_SINCE_PLAN),
        "held": ({"held": True}, Reason.HELD),
        "pool": ({"pool": "other"}, Reason.OTHER_POOL),
    },
)
def test_a_record_that_is_another_nodes_by_now_is_kept_c20(
    change: dict[str, Any], reason: Reason
) -> None:
    made, order = destroyed()
    made.change("r1", **change)
    assert last_look(made, order=order) == (Kind.KEEP, reason)


@cases("life", {"its-twin": 1, "its-elder": 2})
@pytest.mark.parametrize("where", ["by-tag", "in-the-list", "in-an-incomplete-list"])
def test_another_node_with_its_uuid_keeps_the_record_c20(life: int, where: str) -> None:
    made, order = destroyed()
    other = node("r1", id="i-other", life=life)
    found = {"tagged": (other,)} if where == "by-tag" else {}
    if not found:
        made.nodes.append(other)
        made.poll_cloud(complete=where == "in-the-list")
    assert last_look(made, order=order, found=found) == (Kind.KEEP, Reason.NODE_ALIVE)


@pytest.mark.parametrize("complete", [True, False], ids=["whole", "incomplete"])
def test_the_node_destroyed_may_yet_be_shown_by_a_listing_from_before_it_was_gone_c20(
    complete: bool,
) -> None:
    made, order = destroyed()
    made.poll_cloud([node("r1")], complete=complete)
    assert last_look(made, order=order) == GONE


def test_without_incarnation_or_instance_nothing_says_whose_record_it_is_c20() -> None:
    made, order = destroyed(claimed=False, instance_id=None)
    order = replace(order, incarnation=None)
    assert last_look(made, order=order) == (Kind.KEEP, Reason.CHANGED_SINCE_PLAN)


def test_breaker_and_lease_stand_above_it_c20_c10() -> None:
    made, order = destroyed()
    assert last_look(made, order=order, lease=False) == (Kind.KEEP, Reason.NO_LEASE)
    made.breaker = replace(made.breaker, generation=9)
    assert last_look(made, order=order) == (Kind.KEEP, Reason.BREAKER_OPEN)


def refused() -> tuple[World, CleanOrder]:
    made = world()
    made.add_record("r1", pinged=False)
    made.round()
    order = order_release(
        "r1",
        Reason.CREATE_REFUSED,
        made.snapshot(),
        incarnation=incarnation_of("r1"),
        instance_id=None,
    )
    return made, order


@pytest.mark.parametrize(
    "state", [CloudState.RUNNING, CloudState.PENDING, CloudState.STOPPING, CloudState.UNKNOWN]
)
def test_a_node_that_was_made_after_all_keeps_its_claim_u6(state: CloudState) -> None:
    made, order = refused()
    assert last_look(made, order=order) == (Kind.CLEAN, Reason.CREATE_REFUSED)
    found = {"tagged": (node("r1", state=state),)}
    assert last_look(made, order=order, found=found) == (Kind.KEEP, Reason.NODE_ALIVE)


@pytest.mark.parametrize("told", ["i-r1", None], ids=["with-its-id", "without-an-id"])
def test_a_ping_after_all_keeps_its_claim_u6(told: str | None) -> None:
    made, order = refused()
    made.ping("r1")
    made.change("r1", instance_id=told)
    assert last_look(made, order=order) == (Kind.KEEP, Reason.CHANGED_SINCE_PLAN)


def test_a_listing_that_turned_out_short_since_the_plan_stops_the_write_c11_p6() -> None:
    """Another node of ours pings, is there by id, and no listing shows it: neither may this one."""
    made = gone()
    made.add_record("r2", quiet=0.0)
    lives = node("r2", created_at=made.ago(10_000.0))
    for _ in range(2):
        made.advance(60.0)
        made.ping("r2")
        made.round()
    order = made.clean_order("r1")
    made.answer({"i-r2": lives})
    assert last_look(made, order=order) == (Kind.KEEP, Reason.LISTING_SHORT)


# P6: one that pings in vain.


def denied() -> World:
    """A record that pings on, denied for longer than its window, and the plan to free it."""
    made = in_vain()
    for _ in range(30):
        deny(made)
    assert made.cleaned == ["r1"]
    made.ping("r1", WorkerState.BUSY)
    return made


@cases(
    ("found", "reason"),
    {
        "a-node-by-tag": ({"tagged": (node("r1"),)}, Reason.NODE_ALIVE),
        "a-node-by-id": ({"by_id": node("r1", pool=None)}, Reason.NODE_ALIVE),
        "not-asked-by-its-id": ({"asked_id": False}, Reason.EVIDENCE_MISSING),
        "not-asked-by-tag": ({"tagged": None}, Reason.EVIDENCE_MISSING),
    },
)
def test_life_or_no_answer_keeps_a_denied_pinger_p6_c11(
    found: dict[str, Any], reason: Reason
) -> None:
    assert last_look(denied(), found=found) == (Kind.KEEP, reason)


def test_a_denied_pinger_is_freed_though_it_pinged_since_the_plan_but_kept_once_seen_p6() -> None:
    made = denied()
    assert last_look(made) == (Kind.CLEAN, Reason.PINGER_DENIED)
    made.poll_cloud([node("r1")], complete=False)
    kind, _ = last_look(made)
    assert kind is Kind.KEEP


def denied_ahead(rounds: int) -> World:
    """Denied for so many rounds, with a first ping a day ahead of a clock that was set back."""
    made = in_vain(first_ping_at=NOW + 86_400.0)
    for _ in range(rounds):
        deny(made)
    return made


def test_a_denied_pinger_does_not_wait_for_a_clock_that_was_set_back_p6() -> None:
    made = denied_ahead(40)
    assert made.cleaned == ["r1"]
    assert last_look(made) == (Kind.CLEAN, Reason.PINGER_DENIED)


def test_a_node_made_late_in_its_claim_is_not_as_old_as_the_denials_p6_c11() -> None:
    """Its create may have taken effect boot_fail_after and two minutes after its claim (A2)."""
    made = denied_ahead(0)
    while not made.cleaned:
        deny(made)
    assert last_look(made) == (Kind.KEEP, Reason.DENIED_TOO_EARLY)


def test_a_denial_of_a_pinger_is_as_old_as_its_question_p6_c11() -> None:
    made = denied()
    made.change("r1", first_ping_at=made.ago(320.0))
    late, early = {"asked_at": made.now - 15.0}, {"asked_at": made.now - 25.0}
    assert last_look(made, found=late) == (Kind.CLEAN, Reason.PINGER_DENIED)
    assert last_look(made, found=early) == (Kind.KEEP, Reason.DENIED_TOO_EARLY)


def test_a_node_that_the_scheduler_hears_since_the_plan_keeps_its_record_c2() -> None:
    made = gone(settings={"scheduled": True}, hostname="compute1")
    made.poll_scheduler(SchedulerNode("other", WorkerState.IDLE))
    made.plan()
    order = made.clean_order("r1")
    assert last_look(made, order=order) == STALE
    made.poll_scheduler(SchedulerNode("compute1", WorkerState.BUSY))
    assert last_look(made, order=order) == (Kind.KEEP, Reason.UP_IN_SCHEDULER)
