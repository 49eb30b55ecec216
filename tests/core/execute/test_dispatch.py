"""Drains and resumes in a scheduler: which a plan orders, and which drain is believed (D12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.core.execute.expectations import dispatched_after, dispatched_listed
from nodemanager.core.execute.news import SchedulerTold
from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import OURS, Dispatched, SchedulerNode, SchedulerOrder
from nodemanager.core.model.settings import LATE_ORDER_S
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Job, Listing, WorkerState
from nodemanager.core.observe.facts import SchedulerSeen
from nodemanager.core.observe.snapshot import Flight
from nodemanager.core.plan.destroy import ShutdownEvidence, confirm_shutdown
from nodemanager.journal.codec import dump, load
from nodemanager.journal.recording import (
    BLANK,
    decode_history,
    decode_snapshot,
    encode_history,
    encode_snapshot,
)
from tests.cases import cases
from tests.core.build import SMALL, World, world
from tests.core.nodes import BUSY, IDLE

HOST = "compute1"
FREE = SchedulerNode(HOST, IDLE)
DRAINED = SchedulerNode(HOST, IDLE, draining=True, reason=f"{OURS}to be shut down")
JOB = (Job("j"),)


def scheduled(**settings: Any) -> World:
    """One node, which the scheduler has called idle often, and which nobody wants."""
    values = {"max_nodes": 8, "sizes": (SMALL,), "scheduled": True, "demand_polled": True}
    made = world(**values | settings)
    made.add_record("r1", quiet=100.0)
    made.add_node("r1")
    made.poll()
    for _ in range(3):
        told(made, FREE)
    return made


def told(made: World, node: SchedulerNode, jobs: tuple[Job, ...] = ()) -> None:
    made.advance(30.0)
    made.ping("r1")
    made.poll()
    made.poll_scheduler(node, jobs=jobs)
    made.plan()


def orders(made: World) -> list[bool]:
    return [one.on for one in made.last.dispatches]


def order(made: World, *, on: bool = True, **fields: Any) -> None:
    """The scheduler has answered that order now."""
    incarnation = made.record("r1").incarnation
    one = replace(SchedulerOrder(HOST, incarnation, on, made.now), **fields)
    made.flags |= {"dispatched": Dispatched(orders={"r1": one})}


def test_an_idle_node_that_nobody_wants_is_drained_first_and_goes_once_it_is_d12() -> None:
    made = scheduled()
    assert orders(made) == [True]
    assert made.destroyed == []
    order(made)
    made.plan()
    assert (orders(made), made.destroyed) == ([], [])
    told(made, DRAINED)
    assert (orders(made), made.destroyed) == ([], ["i-r1"])


def test_a_listing_that_began_before_the_drain_was_answered_does_not_count_d12() -> None:
    made = scheduled()
    told(made, DRAINED)
    assert made.destroyed == []
    listing = made.history.scheduler
    assert listing is not None
    order(made, at=listing.started_at)
    made.plan()
    assert made.destroyed == []
    order(made, at=listing.started_at - 0.001)
    made.plan()
    assert made.destroyed == ["i-r1"]


@cases(
    "node",
    {
        "a-job-came-first": replace(DRAINED, state=BUSY),
        "somebody-resumed-it": FREE,
        "drained-by-others": replace(DRAINED, reason="disk"),
        "reserved": replace(DRAINED, reserved=True),
        "not-responding": replace(DRAINED, state=WorkerState.UNKNOWN),
        "down": replace(DRAINED, state=WorkerState.DOWN),
        "another's": replace(DRAINED, name="compute9"),
    },
)
def test_only_a_node_that_is_idle_and_drained_by_us_goes_d12(node: SchedulerNode) -> None:
    made = scheduled()
    order(made)
    told(made, node)
    assert made.destroyed == []
    order(made, at=made.now - 100.0)
    made.plan()
    assert made.destroyed == []


@cases(
    "fields",
    {
        "it-was-to-get-work": {"on": False},
        "another-life": {"incarnation": "another-life"},
        "another-name": {"hostname": "compute9"},
    },
)
def test_only_our_own_drain_of_this_life_is_believed_d12(fields: dict[str, Any]) -> None:
    made = scheduled()
    order(made, **fields)
    told(made, DRAINED)
    assert made.destroyed == []


def test_a_job_that_came_before_the_drain_gets_its_node_back_d12() -> None:
    made = scheduled()
    order(made)
    told(made, replace(DRAINED, state=BUSY))
    assert made.of_node("i-r1").reason is Reason.BUSY
    assert orders(made) == [False]
    order(made, on=False)
    made.plan()
    assert orders(made) == []
    told(made, replace(FREE, state=BUSY))
    assert orders(made) == []


def test_a_node_that_is_wanted_again_gets_work_whichever_run_drained_it_d12() -> None:
    made = scheduled()
    told(made, DRAINED, JOB)
    assert made.of_node("i-r1").reason is Reason.NEEDED
    assert (orders(made), made.booted) == ([False], [])


def test_what_somebody_else_drained_gets_no_work_by_us() -> None:
    made = scheduled()
    told(made, replace(DRAINED, reason="disk"), JOB)
    assert orders(made) == []


@cases(
    "flags",
    {
        "sent": {"late_destroys": frozenset({"i-r1"})},
        "of-a-lost-journal": {"unknown_destroys": True},
    },
)
def test_a_node_that_a_late_destroy_may_hit_stays_drained_d12(flags: dict[str, Any]) -> None:
    made = scheduled()
    made.flags |= flags
    told(made, DRAINED, JOB)
    assert orders(made) == []
    assert made.of_node("i-r1").reason is Reason.LATE_DESTROY


def test_a_node_that_this_run_drained_was_destroyed_by_no_lost_run_d12() -> None:
    made = scheduled()
    made.flags |= {"unknown_destroys": True}
    order(made)
    told(made, replace(DRAINED, state=BUSY))
    assert orders(made) == [False]


def test_no_drain_is_given_while_an_earlier_order_may_undo_it_d12() -> None:
    for doubt in ({"since": 0.0}, {"unclear": {"r1": 0.0}}):
        made = scheduled()
        at = made.now
        value = at if "since" in doubt else {"r1": at}
        made.flags |= {"dispatched": Dispatched(**dict.fromkeys(doubt, value))}
        made.plan()
        assert orders(made) == []
        while made.now - at <= LATE_ORDER_S:
            assert orders(made) == []
            told(made, FREE)
        assert orders(made) == [True]


@cases(
    "flags",
    {
        "no-lease": {"lease": False},
        "read-only": {"read_only": "disk"},
        "breaker": {"breaker": Breaker(Cause.WRITES_FAIL)},
        "in-flight": {"record_flights": {"r1": Flight("clean", 0.0)}},
        "held": {"holds": frozenset({"i-r1"})},
        "paused": {"pool_marks": {PAUSE: Mark("me", 0.0, "why")}},
    },
)
def test_nothing_is_drained_that_may_not_be_destroyed(flags: dict[str, Any]) -> None:
    made = scheduled()
    made.plan(**flags)
    assert orders(made) == []


def test_an_open_breaker_keeps_no_node_from_getting_work_again() -> None:
    made = scheduled()
    told(made, DRAINED, JOB)
    made.plan(breaker=Breaker(Cause.WRITES_FAIL))
    assert orders(made) == [False]


def test_without_a_scheduler_nothing_is_told() -> None:
    made = scheduled()
    made.with_settings(scheduled=False)
    made.plan()
    assert orders(made) == []


def at_last_look(
    made: World, node: SchedulerNode | None, reason: Reason | None = None, **fields: Any
) -> Verdict:
    """What becomes of the destroy of a drained node, once the scheduler says that of it."""
    order(made)
    told(made, DRAINED)
    ordered = made.shutdown_order("i-r1")
    ordered = replace(ordered, reason=reason or ordered.reason)
    record = replace(made.record("r1"), **fields)
    found = ShutdownEvidence(record, scheduled=() if node is None else (node,))
    return confirm_shutdown(ordered, found, made.snapshot(), made.settings, wanted=False)


@cases(
    ("node", "goes"),
    {
        "still-drained": (DRAINED, True),
        "busy": (replace(DRAINED, state=BUSY), False),
        "resumed": (FREE, False),
        "drained-by-others": (replace(DRAINED, reason="disk"), False),
        "not-listed": (None, False),
    },
)
def test_the_scheduler_is_asked_again_right_before_the_destroy_d2(
    node: SchedulerNode | None, goes: bool
) -> None:
    assert (at_last_look(scheduled(), node).kind is Kind.SHUTDOWN) is goes


OFF = SchedulerNode(HOST, WorkerState.UNKNOWN, responds=False, suspended=True)


@cases(
    ("node", "goes"),
    {
        "still-off": (OFF, True),
        "reserved": (replace(OFF, reserved=True), False),
        "busy": (SchedulerNode(HOST, BUSY), False),
        "up-again": (FREE, False),
        "not-listed": (None, False),
    },
)
def test_a_node_switched_off_goes_only_if_it_still_is_right_before_the_destroy_d2(
    node: SchedulerNode | None, goes: bool
) -> None:
    verdict = at_last_look(scheduled(), node, Reason.SUSPENDED)
    assert (verdict.kind is Kind.SHUTDOWN) is goes


def test_a_node_switched_off_stays_if_its_record_is_anothers_right_before_the_destroy_d2() -> None:
    verdict = at_last_look(scheduled(), OFF, Reason.SUSPENDED, claim=None)
    assert verdict.reason is Reason.CHANGED_SINCE_PLAN


def test_what_a_listing_does_not_show_stands_no_more() -> None:
    made = scheduled()
    order(made)
    dispatched = made.flags["dispatched"]

    def after(node: SchedulerNode, began: float, complete: bool = True) -> bool:
        listing = Listing((node,), made.now + began, made.now + began + 1.0, complete)
        return "r1" in dispatched_listed(dispatched, listing).orders

    assert after(DRAINED, 1.0)
    assert not after(FREE, 1.0)
    assert after(FREE, -1.0)
    assert after(FREE, 1.0, complete=False)


def test_an_order_without_an_answer_is_unclear_until_one_is_answered() -> None:
    made = scheduled()
    record = made.record("r1")
    resumed = SchedulerTold(record, HOST, None, unclear=True)
    dispatched = dispatched_after(Dispatched(), resumed, 100.0)
    assert dispatched.unclear == {"r1": 100.0}
    # Draining it once more has no answer, either: the first is as unclear as before.
    again = dispatched_after(dispatched, SchedulerTold(record, HOST, None), 110.0)
    assert again.unclear == {"r1": 100.0}
    drained = dispatched_after(again, SchedulerTold(record, HOST, True), 120.0)
    assert drained.unclear == {}
    assert drained.order_of(record) == SchedulerOrder(HOST, record.incarnation, True, 120.0)


def test_a_segment_of_the_journal_begins_with_what_the_scheduler_said() -> None:
    made = scheduled()
    order(made)
    told(made, DRAINED, JOB)
    snapshot = made.snapshot()
    assert decode_history(encode_history(snapshot.history)) == snapshot.history
    listing = made.history.scheduler
    assert listing is not None
    seen = SchedulerSeen(listing, JOB, 1.0)
    assert load(SchedulerSeen, dump(seen)) == seen
    changes = encode_snapshot(BLANK, snapshot)
    assert decode_snapshot(BLANK, changes).dispatched == snapshot.dispatched


def test_what_an_admin_drained_is_not_drained_by_us_too_d12() -> None:
    """Else we would give it work again, once demand is back, against the admin's word."""
    made = scheduled()
    made.flags["drains"] = {"i-r1": Mark("ann", 0.0, "new image", made.nodes[0].tags.incarnation)}
    told(made, FREE)
    assert orders(made) == [True]
    told(made, SchedulerNode(HOST, IDLE, draining=True, reason="bad disk"))
    assert orders(made) == []
