"""A node that can be told to take no more work is told first, and goes once drained (D12)."""

from __future__ import annotations

from typing import Any

import pytest

from nodemanager.core.explain.explain import explain
from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.core.plan.destroy import ShutdownEvidence, confirm_shutdown
from tests.cases import cases
from tests.core.build import EPOCH, START, Flight, World, incarnation_of, world

NODE, ORDER, OTHER = "i-r1", "00c0ffee", "feedface"


def hooked(state: WorkerState = WorkerState.IDLE, *, polls: int = 3, **settings: Any) -> World:
    """A node with a drain hook, nobody wants it, and its pings say `state`."""
    made = world(**{"tells_drain": True, **settings})
    made.add_record("r1", quiet=100.0, drain_hook=True)
    made.add_node("r1")
    for _ in range(polls):
        says(made, state)
    return made


def says(made: World, state: WorkerState, **told: Any) -> None:
    made.advance(30.0)
    made.ping("r1", state)
    made.change("r1", **{"drained": None, **told})
    made.poll()
    made.plan()


def orders(made: World) -> list[bool]:
    return [order.on for order in made.last.drains]


def told(made: World, order: str = ORDER, *, ours: bool = True) -> World:
    """The order stands in the store; `ours` says that this run gave it."""
    made.change("r1", drain=order, version=made.record("r1").version)
    made.flags["drain_orders"] = {"r1": order} if ours else {}
    made.poll()
    made.plan()
    return made


def of_node(made: World) -> tuple[Kind, Reason]:
    one = made.of_node(NODE)
    return one.kind, one.reason


def test_work_that_came_first_keeps_it_and_it_may_take_more() -> None:
    made = told(hooked())
    says(made, WorkerState.BUSY)
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.BUSY), [False])


def test_one_that_is_wanted_again_is_told_to_take_work_and_serves_demand() -> None:
    made = told(hooked())
    says(made, WorkerState.IDLE, drained=ORDER)
    made.flags["demand"] = (Job("j"),)
    made.flags["slots"] = 8
    made.plan()
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.NEEDED), [False])
    assert made.booted == []


def test_one_that_a_destroy_may_still_hit_is_not_told_to_take_work() -> None:
    """The destroy was sent because no job could begin on the node; nothing calls it back."""
    made = told(hooked())
    says(made, WorkerState.IDLE, drained=ORDER)
    made.flags |= {"demand": (Job("j"),), "slots": 8, "late_destroys": frozenset({NODE})}
    made.plan()
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.LATE_DESTROY), [])
    assert made.booted == []
    told_why = explain(made.decided, made.last, made.settings, NODE)
    assert [one.reason for one in told_why.blocks] == [Reason.LATE_DESTROY]
    made.flags["late_destroys"] = frozenset()
    made.plan()
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.NEEDED), [False])


def test_one_that_takes_work_is_wanted_like_any_other_though_a_destroy_may_hit_it() -> None:
    """Only a drained node is kept from work by that."""
    made = hooked(min_nodes=1)
    made.plan(late_destroys=frozenset({NODE}))
    assert of_node(made) == (Kind.KEEP, Reason.NEEDED)


@cases(
    ("ours", "reason", "resumes"),
    {"ours": (True, Reason.NEEDED, [False]), "a-former-runs": (False, Reason.LATE_DESTROY, [])},
)
def test_where_destroys_are_unknown_no_order_of_a_former_run_is_taken_back_r1(
    ours: bool, reason: Reason, resumes: list[bool]
) -> None:
    made = told(hooked(min_nodes=1), ours=ours)
    made.plan(unknown_destroys=True)
    assert (of_node(made), orders(made)) == ((Kind.KEEP, reason), resumes)


def test_an_operator_who_calls_a_drain_off_waits_for_a_late_destroy_too_o1() -> None:
    made = hooked(min_nodes=1)
    made.flags["drains"] = {NODE: Mark("ann", EPOCH + START, "", incarnation_of("r1"))}
    told(made)
    says(made, WorkerState.IDLE, drained=ORDER)
    assert of_node(made) == (Kind.SHUTDOWN, Reason.DRAINED)
    made.flags |= {"drains": {}, "late_destroys": frozenset({NODE})}
    made.plan()
    assert orders(made) == []


@cases(
    ("standing", "drained"),
    {
        "by-an-earlier-order": (ORDER, OTHER),
        "by-one-that-we-did-not-give": (OTHER, OTHER),
        "by-one-that-was-taken-back": (None, ORDER),
    },
)
def test_it_must_have_drained_by_the_order_that_this_run_gave_and_that_stands(
    standing: str | None, drained: str
) -> None:
    made = told(hooked())
    made.change("r1", drain=standing)
    says(made, WorkerState.IDLE, drained=drained)
    assert of_node(made) == (Kind.KEEP, Reason.DRAIN_AWAITED)


def test_an_order_of_a_former_run_is_given_anew_r4() -> None:
    """What that run sent to take it back may be on its way: it names the old number."""
    made = told(hooked(), ours=False)
    says(made, WorkerState.IDLE, drained=ORDER)
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.DRAIN_AWAITED), [True])


def test_an_order_that_nobody_stands_for_is_taken_back_r4() -> None:
    made = hooked(min_nodes=1)
    assert orders(told(made, ours=False)) == [False]


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        pytest.param({"drain_hook": False}, {}, id="no-hook"),
        pytest.param({}, {"tells_drain": False}, id="a-store-that-can-not-tell"),
        # The registry takes their pings, and answers with an error while no slot is free.
        pytest.param({"slot_number": None}, {}, id="no-slot"),
        pytest.param({"slot_number": 0}, {}, id="slot-0"),
    ],
)
def test_where_nothing_can_be_told_the_time_rule_stands_alone(
    fields: dict[str, Any], settings: dict[str, Any]
) -> None:
    made = hooked(**settings)
    made.change("r1", **fields)
    says(made, WorkerState.IDLE)
    says(made, WorkerState.IDLE)
    assert orders(made) == []
    assert of_node(made)[1] is not Reason.DRAIN_AWAITED


def test_one_that_was_adopted_is_told_too_though_its_record_has_no_claim_d11() -> None:
    """It pairs by its instance id, and hears the answers to its pings like any other."""
    made = world(tells_drain=True, ids_unique=True)
    made.add_record("r1", quiet=100.0, claimed=False, drain_hook=True)
    made.add_node(id=NODE)
    for _ in range(3):
        says(made, WorkerState.IDLE)
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.DRAIN_AWAITED), [True])
    told(made)
    says(made, WorkerState.IDLE)
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.DRAIN_AWAITED), [])
    says(made, WorkerState.IDLE, drained=ORDER)
    assert (of_node(made), orders(made)) == ((Kind.SHUTDOWN, Reason.IDLE_BEYOND_DEMAND), [])


def test_it_is_not_told_before_it_might_go() -> None:
    made = hooked(shutdown_windows=(1e9, 1.0))
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.WINDOW_CLOSED), [])


def test_once_told_it_stays_drained_while_its_window_is_closed() -> None:
    made = told(hooked())
    made.with_settings(shutdown_windows=(1e9, 1.0))
    says(made, WorkerState.IDLE, drained=ORDER)
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.WINDOW_CLOSED), [])
    made.with_settings(shutdown_windows=())
    made.plan()
    assert made.destroyed == [NODE]


@cases(
    "flags",
    {
        "no-lease-L6": {"lease": False},
        "read-only-L5": {"read_only": "another account"},
        "paused-O4": {"pool_marks": {PAUSE: Mark("ann", EPOCH + START)}},
        "held-C9": {"holds": frozenset({NODE})},
    },
)
def test_nothing_is_told_where_nothing_may_be_written(flags: dict[str, Any]) -> None:
    made = hooked()
    made.plan(**flags)
    assert orders(made) == []
    told(made)
    made.flags["demand"] = (Job("j"),)
    made.plan(**flags)
    assert orders(made) == []


def test_an_open_breaker_tells_nobody_to_drain_and_gives_work_again_b2() -> None:
    made = hooked()
    made.breaker = Breaker(Cause.RECORDS_COLLAPSED, frozenset({"r9"}))
    made.plan()
    assert orders(made) == []
    told(made)
    made.flags["demand"] = (Job("j"),)
    made.plan()
    assert orders(made) == [False]


def test_an_operators_drain_tells_a_busy_node_too_o1() -> None:
    made = hooked(WorkerState.BUSY, min_nodes=1)
    made.flags["drains"] = {NODE: Mark("ann", EPOCH + START, "", incarnation_of("r1"))}
    made.plan()
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.DRAINING), [True])
    told(made)
    says(made, WorkerState.BUSY)
    assert orders(made) == []
    says(made, WorkerState.IDLE, drained=ORDER)
    assert of_node(made) == (Kind.SHUTDOWN, Reason.DRAINED)
    made.flags["drains"] = {}
    made.plan()
    assert orders(made) == [False]


def test_nothing_is_told_while_an_order_is_under_way_and_nobody_goes_c8() -> None:
    """It may be the one that gives the node work again."""
    made = told(hooked())
    made.flags["record_flights"] = {"r1": Flight("drain", made.now)}
    says(made, WorkerState.IDLE, drained=ORDER)
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.IN_FLIGHT), [])


def at_last_look(made: World, **fields: Any) -> tuple[Kind, Reason]:
    order = made.shutdown_order(NODE)
    found = ShutdownEvidence(made.change("r1", **fields))
    said = confirm_shutdown(order, found, made.snapshot(), made.settings, wanted=False)
    return said.kind, said.reason


@cases(
    ("fields", "expected"),
    {
        "nothing-since": ({}, (Kind.SHUTDOWN, Reason.IDLE_BEYOND_DEMAND)),
        "idle-again": ({"drained": None}, (Kind.KEEP, Reason.DRAIN_AWAITED)),
        "taken-back": ({"drain": None}, (Kind.KEEP, Reason.DRAIN_AWAITED)),
        "busy": ({"worker_state": WorkerState.BUSY}, (Kind.KEEP, Reason.NO_LONGER_WANTED)),
    },
)
def test_right_before_the_destroy_it_must_still_be_drained_d2(
    fields: dict[str, Any], expected: tuple[Kind, Reason]
) -> None:
    made = told(hooked())
    says(made, WorkerState.IDLE, drained=ORDER)
    assert at_last_look(made, **fields) == expected


def test_one_that_is_not_judged_now_is_wanted_where_demand_lacks_one_of_its_size() -> None:
    """Between two plans that find it unwanted demand came and went: its word must be newer."""
    made = hooked(tells_drain=False)
    made.flags |= {"demand": (Job("j"),), "slots": 8}
    made.plan(touched={NODE: made.now})
    made.flags |= {"demand": ()}
    made.plan()
    assert of_node(made) == (Kind.KEEP, Reason.IDLE_WORD_OLD)


def test_one_whose_shutdown_was_just_left_undone_is_not_told_to_take_work_meanwhile() -> None:
    made = told(hooked())
    says(made, WorkerState.IDLE, drained=ORDER)
    made.plan(touched={NODE: made.now})
    assert (of_node(made), orders(made)) == ((Kind.KEEP, Reason.CHANGED_SINCE_LISTING), [])
    says(made, WorkerState.IDLE, drained=ORDER)
    assert made.destroyed == [NODE]
