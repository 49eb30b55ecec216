"""Records that an operator wants freed now, and the rules that they may break by name (O3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.execute.pre_write_check import confirm_clean
from nodemanager.core.model.annotations import FORCIBLE, PAUSE, UNVERIFIABLE, HandClean, Mark
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import Record, WorkerState
from nodemanager.core.observe.evidence import CleanEvidence, Look
from nodemanager.core.observe.snapshot import Flight
from nodemanager.core.safety.orders import fenced_order
from nodemanager.core.safety.proof import violations
from tests.cases import cases
from tests.core.build import EPOCH, START, World, gone, look_of, node, world

ALL = tuple(FORCIBLE)
NOW = EPOCH + START


def hand(*forced: str, by: str = "ann", reason: str = "its rack burned") -> HandClean:
    return HandClean(by, NOW, reason, forced)


def wanted(made: World, *forced: str, uuid: str = "r1", **flags: Any) -> World:
    """An operator wants the record freed, and a plan is made."""
    made.flags |= {"by_hand": {uuid: hand(*forced)}, **flags}
    made.plan()
    return made


def verdict(made: World) -> tuple[Kind, Reason]:
    one = made.of_record("r1")
    return one.kind, one.reason


# Worlds in which one rule keeps a record whose node is gone.


def in_the_window() -> World:
    """It died without a word of what it did."""
    return gone(quiet=1000.0)


def with_a_word() -> World:
    return gone(quiet=1000.0, worker_state=WorkerState.BUSY)


def unsettled() -> World:
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.round()
    return made


def backlog() -> World:
    made = world(max_cleans_per_cycle=2)
    for number in range(1, 5):
        made.add_record(f"r{number}", slot=number, quiet=9000.0)
    made.flags["first_clean"] = True
    made.settle()
    return made


def blind() -> World:
    return gone(claimed=False, instance_id=None)


def with_a_word_from_ahead() -> World:
    """The store's clock was set back by an hour since it pinged: its stamp can't be dated."""
    first = {"first_ping_at": EPOCH + START - 9000.0}
    return gone(quiet=-3600.0, worker_state=WorkerState.BUSY, **first)


KEPT = [
    pytest.param(in_the_window, Reason.WITHIN_WINDOW, ("C3",), id="C3"),
    pytest.param(with_a_word, Reason.BUSY, ("C3", "C2"), id="C2"),
    pytest.param(with_a_word_from_ahead, Reason.BUSY, ("C3", "C2"), id="C2-ahead"),
    pytest.param(unsettled, Reason.NOT_SETTLED, ("C5",), id="C5"),
    pytest.param(backlog, Reason.BACKLOG_HELD, ("S5",), id="S5"),
    pytest.param(blind, Reason.UNVERIFIABLE, (UNVERIFIABLE,), id="unverifiable"),
]


def test_o3_a_record_that_may_be_freed_is_freed_by_hand_and_says_by_whom() -> None:
    made = wanted(gone())
    assert verdict(made) == (Kind.CLEAN, Reason.CLEAN_BY_HAND)
    order = made.clean_order("r1")
    assert order.hand == hand()
    assert (order.measures["by"], order.measures["cause"]) == ("ann", "its rack burned")
    assert "forced" not in order.measures


@pytest.mark.parametrize(("make", "reason", "forced"), KEPT)
def test_o3_by_hand_the_same_rules_hold(
    make: Callable[[], World], reason: Reason, forced: tuple[str, ...]
) -> None:
    """The verdict names what keeps it; another rule's force does not help."""
    others = [rule for rule in ALL if rule not in forced]
    made = make()
    for given in ((), tuple(others), forced[:-1]):
        wanted(made, *given)
        kept = made.of_record("r1")
        assert kept.kind is Kind.KEEP
        # With C3 broken the next rule in its turn speaks.
        assert kept.reason in (reason, Reason.WITHIN_WINDOW)


@pytest.mark.parametrize(("make", "reason", "forced"), KEPT)
def test_o3_the_rule_that_is_broken_by_name_keeps_it_no_longer(
    make: Callable[[], World], reason: Reason, forced: tuple[str, ...]
) -> None:
    made = wanted(make(), *forced)
    assert verdict(made) == (Kind.CLEAN, Reason.CLEAN_BY_HAND)
    assert made.clean_order("r1").measures["forced"] == ",".join(forced)
    assert made.cleaned == ["r1"]


@pytest.mark.parametrize(("make", "reason", "forced"), KEPT)
def test_o3_what_is_forced_for_one_record_frees_no_other(
    make: Callable[[], World], reason: Reason, forced: tuple[str, ...]
) -> None:
    made = make()
    made.records.append(replace(made.record("r1"), uuid="r9", slot_number=99, hostname="c99"))
    made.round()
    wanted(made, *forced)
    assert "r9" not in made.cleaned


# What nobody may break.


def listed(made: World) -> dict[str, Any]:
    made.add_node("r1")
    made.poll()
    return {}


def partially_listed(made: World) -> dict[str, Any]:
    made.poll_cloud([node("r1")], complete=False)
    return {}


def by_its_id(made: World) -> dict[str, Any]:
    made.nodes.append(node(id="i-r1", pool=None))
    made.poll()
    return {}


def another_pools(made: World) -> dict[str, Any]:
    made.change("r1", pool="other", claim=None)
    made.settle()
    return {}


def held(made: World) -> dict[str, Any]:
    return {"holds": frozenset({"r1"})}


def node_held(made: World) -> dict[str, Any]:
    return {"holds": frozenset({"i-r1"})}


def in_flight(made: World) -> dict[str, Any]:
    return {"record_flights": {"r1": Flight("setup", made.now)}}


def breaker_open(made: World) -> dict[str, Any]:
    made.breaker = Breaker(Cause.FALSE_CLEAN, frozenset({"r7"}))
    return {}


def no_lease(made: World) -> dict[str, Any]:
    return {"lease": False}


def old_polls(made: World) -> dict[str, Any]:
    made.advance(made.settings.poll_stale_after + 1.0)
    made.read_clock()
    return {}


def paused(made: World) -> dict[str, Any]:
    return {"pool_marks": {PAUSE: Mark("bob", NOW)}}


def unclaimed_unpinged(made: World) -> dict[str, Any]:
    made.change("r1", problems=("no slot",))
    made.settle()
    return {}


def pinged_since(made: World) -> dict[str, Any]:
    """A later record listing shows another version of it."""
    made.ping("r1", WorkerState.UNKNOWN)
    made.poll_records()
    return {}


@cases(
    ("happens", "reason"),
    {
        "C4-paired": (listed, Reason.PAIRED),
        "C4-in-an-incomplete-listing": (partially_listed, Reason.NODE_LISTED),
        "C4-by-id": (by_its_id, Reason.NODE_LISTED),
        "C0": (another_pools, Reason.OTHER_POOL),
        "C9": (held, Reason.HELD),
        "C9-its-node": (node_held, Reason.HELD),
        "C8": (in_flight, Reason.IN_FLIGHT),
        "B2": (breaker_open, Reason.BREAKER_OPEN),
        "L6": (no_lease, Reason.NO_LEASE),
        "C7": (old_polls, Reason.POLL_STALE),
        "O4": (paused, Reason.PAUSED),
        "P3": (unclaimed_unpinged, Reason.UNREADABLE),
        "C6": (pinged_since, Reason.CHANGED_SINCE_LISTING),
    },
)
def test_o3_with_every_force_there_is_these_rules_still_keep_it(
    happens: Callable[[World], dict[str, Any]], reason: Reason
) -> None:
    made = gone()
    flags = happens(made)
    wanted(made, *ALL, **flags)
    assert verdict(made) == (Kind.KEEP, reason)
    assert made.cleaned == []


def test_o3_a_claim_that_never_pinged_waits_for_c21_whatever_is_forced() -> None:
    """Its create may take effect until then (A2)."""
    made = gone(quiet=1000.0, pinged=False, slot=None)
    wanted(made, *ALL)
    assert verdict(made) == (Kind.KEEP, Reason.CLAIM_WITHIN_WINDOW)


def test_o3_a_word_from_ahead_is_old_once_it_was_watched_for_the_window_t1_t6() -> None:
    made = with_a_word_from_ahead()
    made.advance(7300.0)
    made.settle()
    wanted(made, "C5")
    assert verdict(made) == (Kind.CLEAN, Reason.CLEAN_BY_HAND)


def test_a_forced_clean_goes_before_the_others_and_counts_against_the_cap() -> None:
    """C10."""
    made = world(max_cleans_per_cycle=1)
    made.add_record("r1", quiet=1000.0)
    made.add_record("r2", slot=2, quiet=90_000.0)
    made.flags["by_hand"] = {"r1": hand("C3")}
    made.settle()
    assert made.cleaned == ["r1"]
    assert made.of_record("r2").reason is Reason.CAP_REACHED


# The last look (C11, C12).


def last_look(made: World, **found: Any) -> tuple[Kind, Reason]:
    evidence = {"record": made.record("r1"), "tagged": (), "by_id": None, "asked_id": True}
    order = made.clean_order("r1")
    one = confirm_clean(
        order, CleanEvidence(**{**evidence, **found}), made.snapshot(), made.settings
    )
    return one.kind, one.reason


@pytest.mark.parametrize(("make", "reason", "forced"), KEPT)
def test_the_last_look_hears_what_was_forced(
    make: Callable[[], World], reason: Reason, forced: tuple[str, ...]
) -> None:
    assert last_look(wanted(make(), *forced)) == (Kind.CLEAN, Reason.CLEAN_BY_HAND)


@cases(
    ("found", "reason"),
    {
        "alive-by-tag": ({"tagged": (node("r1"),)}, Reason.NODE_ALIVE),
        "alive-by-id": ({"by_id": node("r1")}, Reason.NODE_ALIVE),
        "no-answer": ({"tagged": None}, Reason.EVIDENCE_MISSING),
        "not-asked-by-id": ({"asked_id": False}, Reason.EVIDENCE_MISSING),
        "the-record-is-gone": ({"record": None}, Reason.CHANGED_SINCE_PLAN),
    },
)
def test_c11_can_not_be_forced(found: dict[str, Any], reason: Reason) -> None:
    made = wanted(with_a_word(), *ALL)
    assert made.cleaned == ["r1"]
    assert last_look(made, **found) == (Kind.KEEP, reason)


def test_a_ping_between_order_and_write_keeps_it_whatever_is_forced() -> None:
    made = wanted(with_a_word(), *ALL)
    made.ping("r1", WorkerState.BUSY)
    assert last_look(made) == (Kind.KEEP, Reason.CHANGED_SINCE_PLAN)


def test_a_denial_too_soon_after_the_first_ping_does_not_count_whatever_is_forced() -> None:
    """The cloud's "no such node" is not believed of so young a node (C11, A1)."""
    young = gone(quiet=100.0, first_ping_at=EPOCH + START - 150.0)
    made = wanted(young, *ALL)
    assert made.cleaned == ["r1"]
    assert last_look(made) == (Kind.KEEP, Reason.DENIED_TOO_EARLY)


# The proof afterwards.


@pytest.mark.parametrize(("make", "reason", "forced"), KEPT)
def test_a_forced_rule_is_no_broken_invariant(
    make: Callable[[], World], reason: Reason, forced: tuple[str, ...]
) -> None:
    made = wanted(make(), *forced)
    order = made.clean_order("r1")
    assert violations(order, *look_of(made, order)) == ()


@cases(
    ("make", "rules"),
    {
        "C3": (in_the_window, ["C3"]),
        "C2": (with_a_word, ["C2", "C3"]),
        "C5": (unsettled, ["C5"]),
        "unverifiable": (blind, ["C11"]),
    },
)
@cases(
    "given",
    {
        "nobody-forced-it": None,
        "nothing-was-forced": hand(),
        "nobody-s-name": hand(*ALL, by=""),
        "no-reason": hand(*ALL, reason=""),
    },
)
def test_a_broken_rule_that_nobody_broke_by_name_is_told(
    make: Callable[[], World], rules: list[str], given: HandClean | None
) -> None:
    made = wanted(make(), *ALL)
    order = replace(made.clean_order("r1"), hand=given)
    assert sorted(one.rule for one in violations(order, *look_of(made, order))) == rules


@pytest.mark.parametrize("rule", ["C0", "C1", "C4", "C7", "C8", "C9", "C10", "C11", "C12", "T1"])
def test_the_proof_lets_nobody_break_another_rule_by_name(rule: str) -> None:
    made = wanted(gone())
    order = made.clean_order("r1")
    look, before = look_of(made, order)
    order = replace(order, hand=hand(*ALL, rule))
    broken: dict[str, tuple[Look, Record]] = {
        "C0": (look, replace(before, pool="other")),
        "C1": (
            look,
            replace(
                before,
                slot_number=None,
                hostname=None,
                ip_address=None,
                first_ping_at=None,
                last_ping_at=None,
                claim=None,
            ),
        ),
        "C4": (replace(look, listed=(node("r1"),)), before),
        "C7": (replace(look, polls={"cloud": None}), before),
        "C8": (replace(look, flights=("setup",)), before),
        "C9": (replace(look, holds=("r1",)), before),
        "C10": (replace(look, lease=False), before),
        "C11": (replace(look, tagged=(node("r1"),)), before),
        "C12": (look, replace(before, version="v9")),
        "T1": (replace(look, reading=_untrusted(look)), before),
    }
    changed_look, changed_before = broken[rule]
    found = [one.rule for one in violations(order, changed_look, changed_before)]
    assert rule in found


def _untrusted(look: Look) -> Any:
    assert look.reading.clock is not None
    return replace(look.reading, clock=replace(look.reading.clock, agreed=0))


def test_a_forced_window_is_not_the_window_of_a_claim_on_its_way() -> None:
    """The proof has one rule for both windows (C3); that of an unpinged claim (C21) stands."""
    made = gone(quiet=9000.0, pinged=False, slot=None)
    wanted(made, "C3")
    order = made.clean_order("r1")
    look, before = look_of(made, order)
    assert violations(order, look, before) == ()
    late = replace(look, terms=replace(look.terms, boot_fail_after=90_000.0))
    assert "C3" in [one.rule for one in violations(order, late, before)]


def test_behind_a_fence_what_was_forced_stays_forced() -> None:
    """The order goes on as it is (C12)."""
    made = wanted(with_a_word(), "C2", "C3")
    judged = made.record("r1")
    behind = replace(judged, version="v1-fenced", fenced=True)
    order = fenced_order(made.clean_order("r1"), judged, behind, made.now)
    assert order is not None
    assert order.hand == hand("C2", "C3")
