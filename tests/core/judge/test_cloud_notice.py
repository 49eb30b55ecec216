"""A node that its cloud will take: it takes no more work, and another one is booted (D18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.explain.explain import explain
from nodemanager.core.explain.rules import RuleStatus
from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import OURS, SchedulerNode
from nodemanager.core.model.world import NO_TAGS, CloudNotice, Job, Taking, WorkerState
from nodemanager.core.plan.destroy import ShutdownEvidence, confirm_shutdown
from tests.cases import cases
from tests.core.build import EPOCH, SMALL, START, World, incarnation_of, world
from tests.core.nodes import BUSY, IDLE, live, pinging, verdict

NODE, ORDER = "i-r1", "00c0ffee"
SPOT = CloudNotice(Taking.SPOT, EPOCH + START + 10_000.0)


def noticed(made: World, notice: CloudNotice | None = SPOT) -> World:
    made.change("r1", notice=notice)
    made.poll()
    made.plan()
    return made


def hooked(state: WorkerState, **settings: Any) -> World:
    """A node with a drain hook, whose cloud will take it."""
    made = world(**{"tells_drain": True, **settings})
    made.add_record("r1", quiet=100.0, drain_hook=True)
    made.add_node("r1")
    for _ in range(2):
        says(made, state)
    return noticed(made)


def says(made: World, state: WorkerState, **told: Any) -> None:
    made.advance(30.0)
    made.ping("r1", state)
    made.change("r1", **told)
    made.poll()
    made.plan()


def orders(made: World) -> list[bool]:
    return [order.on for order in made.last.drains]


def told(made: World) -> World:
    """Our order stands in the store."""
    made.change("r1", drain=ORDER, version=made.record("r1").version)
    made.flags["drain_orders"] = {"r1": ORDER}
    made.poll()
    made.plan()
    return made


def test_an_idle_node_goes_at_once_whatever_demand_windows_and_counts_say() -> None:
    made = live(IDLE, polls=1, consecutive_idle_count=99, min_nodes=5, shutdown_windows=(1e9, 1.0))
    made.flags["demand"] = (Job("j", count=5),)
    noticed(made)
    pinging(made, IDLE)
    assert verdict(made) == (Kind.SHUTDOWN, Reason.NOTICED)
    assert made.destroyed == [NODE]


@cases(
    ("state", "reason"),
    {"busy": (BUSY, Reason.LEAVING), "pings-without-a-word": (None, Reason.WORKER_UNKNOWN)},
)
def test_one_that_may_be_busy_is_left_to_its_job_until_the_cloud_ends_it(
    state: WorkerState | None, reason: Reason
) -> None:
    """Also past the time that the cloud said: nothing that we do shortens the job's."""
    made = noticed(live(state))
    assert verdict(made) == (Kind.KEEP, reason)
    pinging(made, state, polls=400)
    assert made.now + EPOCH > SPOT.at
    assert (verdict(made), made.destroyed) == ((Kind.KEEP, reason), [])


def test_the_verdict_says_why_and_how_much_time_is_left() -> None:
    made = noticed(live(BUSY))
    measures = made.of_node(NODE).measures
    assert measures is not None
    assert (measures["cause"], measures["state"]) == ("spot", "busy")
    assert measures["left_s"] == pytest.approx(10_000.0 - (made.now - START), abs=1.0)
    noticed(made, CloudNotice(Taking.MAINTENANCE))
    measures = made.of_node(NODE).measures
    assert measures is not None
    assert (measures["cause"], "left_s" in measures) == ("maintenance", False)


def test_another_node_is_booted_for_it_within_max_nodes_and_slots() -> None:
    made = live(BUSY, min_nodes=1, max_nodes=2, sizes=(SMALL,))
    made.flags["slots"] = 10
    made.plan()
    assert made.booted == []
    noticed(made)
    assert not made.view(NODE).counts
    assert made.booted == ["small"]
    made.plan(slots=1)
    assert made.booted == []
    made.with_settings(max_nodes=1)
    made.plan()
    assert made.booted == []


def test_an_idle_one_serves_no_job_while_it_drains() -> None:
    made = hooked(IDLE, max_nodes=3, sizes=(SMALL,))
    made.flags |= {"demand": (Job("j"),), "slots": 8}
    made.plan()
    assert verdict(made) == (Kind.KEEP, Reason.DRAIN_AWAITED)
    assert made.booted == ["small"]


@pytest.mark.parametrize("state", [BUSY, IDLE])
def test_it_is_told_to_drain_busy_or_not_and_goes_once_it_has_drained(state: WorkerState) -> None:
    made = hooked(state)
    assert orders(made) == [True]
    told(made)
    says(made, BUSY)
    assert (verdict(made), orders(made)) == ((Kind.KEEP, Reason.LEAVING), [])
    says(made, IDLE)
    assert (verdict(made), orders(made)) == ((Kind.KEEP, Reason.DRAIN_AWAITED), [])
    says(made, IDLE, drained=ORDER)
    assert verdict(made) == (Kind.SHUTDOWN, Reason.NOTICED)


def test_one_whose_notice_is_taken_back_gets_work_again() -> None:
    made = told(hooked(BUSY, min_nodes=1))
    says(made, BUSY, notice=None)
    assert (verdict(made), orders(made)) == ((Kind.KEEP, Reason.BUSY), [False])
    assert made.view(NODE).counts


def test_what_an_operator_drains_stays_drained_when_the_notice_is_taken_back() -> None:
    made = told(hooked(BUSY))
    mark = Mark("ann", EPOCH + START, "new image", incarnation_of("r1"))
    made.flags["drains"] = {NODE: mark}
    says(made, BUSY, notice=None)
    assert (verdict(made), orders(made)) == ((Kind.KEEP, Reason.DRAINING), [])


def test_a_hold_is_stronger_and_it_is_no_supply_all_the_same() -> None:
    made = hooked(IDLE)
    made.plan(holds=frozenset({NODE}))
    assert (verdict(made), orders(made)) == ((Kind.KEEP, Reason.HELD), [])
    assert not made.view(NODE).counts


def test_an_untagged_node_is_never_drained_nor_destroyed_d11() -> None:
    made = hooked(IDLE, ids_unique=True)
    made.change("r1", claim=None, instance_id=NODE)
    made.nodes = [replace(node, tags=NO_TAGS) for node in made.nodes]
    made.poll()
    made.plan()
    assert made.view(NODE).record is not None
    assert (made.destroyed, orders(made)) == ([], [])


def test_a_silent_one_is_judged_as_any_other() -> None:
    """Nothing is destroyed or freed sooner because the cloud said that it would take it."""
    made = noticed(live(BUSY, node_stale_after=600.0))
    made.advance(601.0)
    made.poll()
    made.plan()
    plain = live(BUSY, node_stale_after=600.0)
    plain.advance(601.0)
    plain.poll()
    plain.plan()
    assert verdict(made) == verdict(plain)
    assert made.destroyed == []


# A scheduler drains it.


def test_a_scheduler_is_told_to_drain_it_d12() -> None:
    made = world(scheduled=True, demand_polled=True, sizes=(SMALL,), max_nodes=4)
    made.flags |= {"demand": None, "demand_at": None}
    made.add_record("r1", quiet=100.0, hostname="compute1", notice=SPOT)
    made.add_node("r1")
    for _ in range(2):
        made.advance(30.0)
        made.ping("r1", None)
        made.poll()
        made.poll_scheduler(SchedulerNode("compute1", BUSY))
        made.plan()
    assert [order.on for order in made.last.dispatches] == [True]
    made.advance(30.0)
    made.ping(
        "r1",
        None,
    )
    made.change("r1", notice=None)
    made.poll()
    drained = SchedulerNode("compute1", BUSY, draining=True, reason=f"{OURS}to be shut down")
    made.poll_scheduler(drained)
    made.plan()
    assert [order.on for order in made.last.dispatches] == [False]


# Right before the destroy, and `explain`.


def confirmed(made: World, **changes: Any) -> Reason:
    order = made.shutdown_order(NODE)
    record = replace(made.record("r1"), **changes)
    found = ShutdownEvidence(record)
    return confirm_shutdown(order, found, made.decided, made.settings, wanted=True).reason


def test_right_before_the_destroy_its_notice_and_its_own_word_are_read_again_d2() -> None:
    made = noticed(live(IDLE))
    pinging(made, IDLE)
    assert confirmed(made) is Reason.NOTICED
    assert confirmed(made, notice=None) is Reason.NO_LONGER_WANTED
    assert confirmed(made, worker_state=BUSY) is Reason.NO_LONGER_WANTED


def test_explain_says_that_its_cloud_will_take_it() -> None:
    made = noticed(live(BUSY))
    why = explain(made.decided, made.last, made.settings, NODE)
    (found,) = [one for one in why.findings if one.rule == "D18"]
    assert (found.status, found.reason) == (RuleStatus.BLOCKS, Reason.LEAVING)
    assert found.measures is not None
    assert found.measures["cause"] == "spot"
