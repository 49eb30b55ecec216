"""How a plan's items are held against a decision, and which are let go (S5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.reasons import Reason
from nodemanager.core.observe.snapshot import Flight
from nodemanager.core.operate.backlog import (
    IndexedPlan,
    Item,
    ItemAction,
    ItemMark,
    ItemState,
    Order,
    Statuses,
    indexed_plan,
    let_go,
    marks_of,
    proposal,
    record_status,
    refusal,
    statuses,
)
from nodemanager.core.safety.breaker import opened
from tests.cases import cases
from tests.core.build import START, World, cleaned, world

YEAR_S = 31_557_600.0


def leaky(count: int = 30) -> World:
    """A first plan's world: that many records, leaked over the years, and held back."""
    made = world()
    made.flags["first_clean"] = True
    for number in range(count):
        made.add_record(f"r{number:02}", quiet=YEAR_S + number)
    made.settle()
    made.flags |= {"first_clean": False, "backlog": made.last.backlog}
    return made


def seen_in(made: World, **flags: Any) -> IndexedPlan:
    made.flags |= flags
    snapshot = made.snapshot()
    found = indexed_plan(made.plan(), snapshot)
    assert found is not None
    return found


def item(uuid: str, version: str = "v1") -> Item:
    return Item(ItemAction.CLEAN, uuid, version)


def order(*items: Item) -> Order:
    return Order("eve", "main", "store", "account", items)


def given(made: World, count: int = 30) -> dict[str, ItemMark]:
    """The marks of an order of that many items."""
    wanted = order(*(item(f"r{number:02}") for number in range(count)))
    return marks_of(wanted, standing(made, *wanted.items))


def standing(made: World, *items: Item, **flags: Any) -> Statuses:
    return statuses(items, seen_in(made, **flags), made.settings)


def test_a_decision_that_could_not_be_taken_proposes_nothing() -> None:
    made = world()
    snapshot = made.snapshot()
    assert indexed_plan(made.plan(), snapshot) is None


def test_the_longest_quiet_is_proposed_first_and_what_can_not_be_asked_last_s5_c11() -> None:
    made = leaky()
    made.add_record("bare", quiet=9 * YEAR_S, claimed=False, instance_id=None)
    made.settle()
    seen = seen_in(made)
    proposed = proposal(seen).candidates
    assert [one.item.id for one in proposed[:2]] == ["r29", "r28"]
    assert proposed[-1].item.id == "bare"
    assert [one.chosen for one in proposed] == [True] * 30 + [False]
    assert proposed[-1].status.reason is Reason.UNVERIFIABLE


def test_what_the_daemon_frees_by_itself_is_counted_and_not_proposed() -> None:
    made = leaky()
    made.flags["backlog"] = frozenset()
    made.flags["record_flights"] = {}
    found = proposal(seen_in(made))
    assert found.candidates == ()
    assert found.freeing == 30


def test_an_open_breaker_keeps_what_is_held_back_in_the_plan_b2() -> None:
    made = leaky()
    proposed = proposal(seen_in(made, lease=False)).candidates
    assert len(proposed) == 30
    assert all(one.chosen for one in proposed)
    assert {one.status.state for one in proposed} == {ItemState.WAITS}


@cases(
    ("happens", "stand", "reason"),
    {
        "unchanged": (lambda made: None, ItemState.HELD, Reason.BACKLOG_HELD),
        "written-to": (
            lambda made: made.change("r00", hostname="other"),
            ItemState.CHANGED,
            Reason.CHANGED_SINCE_PLAN,
        ),
        "deleted": (lambda made: made.records.pop(0), ItemState.CHANGED, Reason.RECORD_GONE),
        "pinged": (lambda made: made.ping("r00"), ItemState.CHANGED, Reason.CHANGED_SINCE_PLAN),
        "freed": (
            lambda made: made.records.__setitem__(
                0, cleaned("r00", at=made.store_now, version="v2")
            ),
            ItemState.DONE,
            Reason.HOLDS_NOTHING,
        ),
        "on-hold": (
            lambda made: made.flags.__setitem__("holds", frozenset({"r00"})),
            ItemState.CHANGED,
            Reason.HELD,
        ),
        "node-listed": (lambda made: made.add_node("r00"), ItemState.CHANGED, Reason.PAIRED),
        "in-flight": (
            lambda made: made.flags.__setitem__(
                "record_flights", {"r00": Flight("clean", made.now)}
            ),
            ItemState.WAITS,
            Reason.IN_FLIGHT,
        ),
    },
)
def test_an_item_stands_as_the_newest_decision_says_s5(
    happens: Any, stand: ItemState, reason: Reason
) -> None:
    made = leaky()
    happens(made)
    made.now += 60.0
    made.poll()
    found = record_status(item("r00"), seen_in(made))
    assert (found.state, found.reason) == (stand, reason)


def test_what_is_let_go_is_cleaned_and_the_rest_still_held_s5() -> None:
    made = leaky()
    marks = given(made, count=3)
    assert {one.by for one in marks.values()} == {"eve"}
    plan = made.plan(let_go=let_go(marks))
    assert sorted(order.uuid for order in plan.cleans) == ["r00", "r01", "r02"]
    held = [one for one in plan.records if one.reason is Reason.BACKLOG_HELD]
    assert len(held) == 27


def test_what_is_done_or_changed_gets_no_mark() -> None:
    made = leaky()
    made.change("r00", hostname="other")
    made.records[1] = cleaned("r01", at=made.store_now, version="v2")
    made.now += 60.0
    made.poll()
    assert [one.item.id for one in given(made, count=3).values()] == ["r02"]


def test_an_item_given_twice_is_counted_once() -> None:
    made = leaky()
    assert len(standing(made, item("r00"), item("r00"))) == 1


@cases(
    ("changes", "dry_run", "refused"),
    {
        "ours": ({}, False, None),
        "dry-run": ({}, True, "--dry-run"),
        "pool": ({"pool": "other"}, False, "pool other"),
        "store": ({"store": "other"}, False, "store other"),
        "account": ({"account": "other"}, False, "made from other"),
    },
)
def test_a_plan_is_for_one_pool_store_and_account_l5_s3(
    changes: dict[str, Any], dry_run: bool, refused: str | None
) -> None:
    wanted = replace(Order("eve", "main", "s", "a", (item("r00"),)), **changes)
    said = refusal(wanted, pool="main", store="s", account="a", dry_run=dry_run)
    assert said is None if refused is None else refused in str(said)


def test_nothing_is_applied_before_cloud_and_store_are_known_l5() -> None:
    assert (
        refusal(order(item("r00")), pool="main", store=None, account=None, dry_run=False)
        is not None
    )


@cases(
    "flags",
    {
        "no-lease-l6": {"lease": False},
        "read-only-l5": {"read_only": "another account"},
        "paused-o4": {"pool_marks": {PAUSE: Mark("eve", 0.0)}},
        "old-polls-c7": {"now": START + 100_000.0},
    },
)
def test_what_forbids_every_free_makes_no_item_changed_but_waits_s5(flags: dict[str, Any]) -> None:
    made = leaky()
    ((_, one),) = standing(made, item("r00"), **flags)
    assert one.state is ItemState.WAITS


def test_an_item_that_waits_says_for_what_with_its_measures_s5() -> None:
    made = leaky()
    flights = {"r05": Flight("clean", made.now)}
    ((_, one),) = standing(made, item("r05"), record_flights=flights)
    assert (one.state, one.reason) == (ItemState.WAITS, Reason.IN_FLIGHT)
    assert one.measures == {"action": "clean"}


def test_an_open_breaker_makes_no_item_changed_either_b2() -> None:
    made = leaky()
    made.breaker = opened(made.breaker, Cause.INVARIANT, frozenset({"x"}), made.now, {})
    ((_, one),) = standing(made, item("r00"))
    assert (one.state, one.reason) == (ItemState.WAITS, Reason.BREAKER_OPEN)


def test_a_listing_from_before_our_own_clean_ended_changes_no_item_c12() -> None:
    """Our fence changes the version, and the listing that shows it may be older than our write."""
    made = leaky()
    seen = seen_in(made, touched={"r00": 1e9})
    assert record_status(item("r00", "before our fence"), seen).state is ItemState.WAITS
    assert record_status(item("r01", "before our fence"), seen).state is ItemState.CHANGED
