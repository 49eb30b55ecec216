"""When a node is destroyed by its own state or silence, and the last look (D1, D2, D3, D8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.execute.effects import AskNode
from nodemanager.core.execute.shutdown import Asking, ShutDown, judge_gone
from nodemanager.core.execute.workflow import Answered, Due, Seen
from nodemanager.core.judge.node_view import window_open
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    Guarantee,
    Tags,
    WorkerState,
)
from nodemanager.core.plan.destroy import ShutdownEvidence, confirm_shutdown
from tests.cases import cases
from tests.core.build import EPOCH, POOL, World, node, world
from tests.core.nodes import live, pinging, silent, unpaired, verdict

WINDOWS = (3300.0, 300.0)
"""Closed for 55 minutes, open for five, an hour round."""


@cases(
    ("age", "is_open"),
    {
        "new": (0.0, False),
        "just-before": (3299.9, False),
        "opens": (3300.0, True),
        "still-open": (3599.9, True),
        "closes": (3600.0, False),
        "hours-later": (3600.0 * 5 + 3300.0, True),
    },
)
def test_shutdown_windows_alternate_from_launch_d1(age: float, is_open: bool) -> None:
    assert window_open(age, WINDOWS) is is_open


def test_without_windows_it_is_always_open_d1() -> None:
    assert window_open(1.0, ())


# D1: the table.


@cases(
    ("state", "polls", "age", "expected"),
    {
        "busy": (WorkerState.BUSY, 9, 9e5, (Kind.KEEP, Reason.BUSY)),
        "unknown-is-busy": (None, 9, 9e5, (Kind.KEEP, Reason.WORKER_UNKNOWN)),
        "idle-for-one-poll": (WorkerState.IDLE, 1, 9e5, (Kind.KEEP, Reason.NOT_IDLE_LONG)),
        "idle": (WorkerState.IDLE, 2, 9e5, (Kind.SHUTDOWN, Reason.IDLE_BEYOND_DEMAND)),
        "down-in-boot-grace": (WorkerState.DOWN, 1, 1700.0, (Kind.KEEP, Reason.BOOTING)),
        "down-past-grace": (WorkerState.DOWN, 1, 1800.0, (Kind.SHUTDOWN, Reason.NODE_DOWN)),
    },
)
def test_the_table_of_worker_state_and_grace_d1(
    state: WorkerState | None, polls: int, age: float, expected: tuple[Kind, Reason]
) -> None:
    assert verdict(live(state, polls=polls, age=age)) == expected


def test_a_node_that_says_fail_goes_within_its_boot_grace_too_d1() -> None:
    """It won't get well by waiting, and the forerunner ended it at once (N31)."""
    made = live(WorkerState.DOWN, polls=1, age=100.0)
    assert verdict(made) == (Kind.KEEP, Reason.BOOTING)
    made.change("r1", failed=True)
    made.round()
    assert verdict(made) == (Kind.SHUTDOWN, Reason.NODE_DOWN)


@cases(
    ("age", "expected"),
    {"closed": (1000.0, Reason.WINDOW_CLOSED), "open": (3290.0, Reason.IDLE_BEYOND_DEMAND)},
)
def test_an_idle_node_goes_only_in_its_shutdown_window_d1(age: float, expected: Reason) -> None:
    made = live(WorkerState.IDLE, polls=3, age=age, shutdown_windows=WINDOWS)
    assert made.of_node("i-r1").reason is expected


@cases(
    ("apart", "expected"),
    {
        "just-inside": (59.0, (Kind.KEEP, Reason.NOT_SETTLED)),
        "settled": (60.0, (Kind.SHUTDOWN, Reason.NODE_STOPPED)),
    },
)
def test_a_stopped_node_is_down_once_settled_and_does_not_wait_for_its_record_d1(
    apart: float, expected: tuple[Kind, Reason]
) -> None:
    made = live(WorkerState.BUSY, polls=1)
    made.change_node("i-r1", state=CloudState.STOPPED)
    made.poll_records(took=0.1)
    made.advance(0.1)
    first = made.now
    made.poll_cloud()
    made.now = first + apart
    made.poll_cloud()
    plan = made.plan()
    assert verdict(made) == expected
    assert plan.counts["nodes_bad"] == (expected[0] is Kind.SHUTDOWN), "as doc/look.rst says"


@cases(
    ("limit_s", "expected"),
    {
        "listed-often-enough": (200.0, (Kind.SHUTDOWN, Reason.NODE_STOPPED)),
        "a-gap-that-is-too-long-now": (199.0, (Kind.KEEP, Reason.NOT_SETTLED)),
    },
)
def test_a_reload_may_find_a_gap_in_how_long_a_node_was_stopped_d1_s6(
    limit_s: float, expected: tuple[Kind, Reason]
) -> None:
    made = live(WorkerState.BUSY, polls=1)
    made.change_node("i-r1", state=CloudState.STOPPED)
    made.poll_records(took=0.1)
    for apart in (0.1, 199.0, 29.0):
        made.advance(apart)
        made.poll_cloud()
    made.poll_records()
    made.reload(poll_stale_after=limit_s)
    made.plan()
    assert verdict(made) == expected


@cases(
    "hold",
    {
        "node": lambda made: made.flags.update(holds=frozenset({"i-r1"})),
        "record": lambda made: made.flags.update(holds=frozenset({"r1"})),
        "node-tag": lambda made: made.change_node("i-r1", held=True),
        "record-mark": lambda made: made.change("r1", held=True),
    },
)
def test_a_held_node_is_left_alone_d1_c9(hold: Any) -> None:
    made = live(WorkerState.DOWN)
    hold(made)
    pinging(made, WorkerState.DOWN)
    assert verdict(made) == (Kind.KEEP, Reason.HELD)
    made.change_node("i-r1", state=CloudState.STOPPED)
    made.settle()
    assert verdict(made) == (Kind.KEEP, Reason.HELD)


def test_a_step_of_our_wall_clock_ends_no_boot_grace_d1_t2() -> None:
    made = live(WorkerState.DOWN, age=100.0)
    made.wall_step = 1e6
    made.plan()
    assert verdict(made) == (Kind.KEEP, Reason.BOOTING)


@cases(
    ("fields", "expected"),
    {
        "no-launch-time": ({"created_at": None}, Reason.NO_LAUNCH_TIME),
        "malformed": ({"problems": ("size: None",)}, Reason.UNREADABLE),
    },
)
def test_a_node_with_missing_fields_is_kept_p3(fields: dict[str, Any], expected: Reason) -> None:
    made = live(WorkerState.IDLE)
    made.change_node("i-r1", **fields)
    pinging(made, WorkerState.IDLE, 3)
    assert verdict(made) == (Kind.KEEP, expected)


# D8: silence.


def test_a_store_clock_set_back_holds_no_silent_node_in_its_boot_grace_d1_d8() -> None:
    """A node that was silent for as long as the grace is older than it, whatever clocks say."""
    made = live(WorkerState.BUSY, age=7300.0)
    made.store_step = -50_000.0
    silent(made, 7600.0)
    assert made.destroyed == ["i-r1"]


@pytest.mark.parametrize("step", [0.0, -50_000.0])
def test_a_silent_node_that_was_started_again_has_its_boot_grace_anew_d1_d8(step: float) -> None:
    """It was silent because it was stopped: that is older than its launch, and tells no age."""
    made = live(WorkerState.BUSY, age=7300.0)
    made.store_step = step
    silent(made, 7150.0)
    made.advance(85.0)
    made.change_node("i-r1", created_at=EPOCH + made.now)
    silent(made, 1790.0)
    assert made.destroyed == []
    silent(made, 110.0)
    assert made.destroyed == ["i-r1"]


def test_silence_while_the_store_does_not_answer_destroys_nothing_d8() -> None:
    made = live(WorkerState.BUSY)
    silent(made, 100_000.0, answers=False, every=500.0)
    assert verdict(made) == (Kind.KEEP, Reason.SILENT_WITHIN_WINDOW)


@cases("restarts", {"the-store-comes-back": False, "a-restart": True})
def test_after_a_time_that_nobody_watched_silent_nodes_have_a_whole_window_d8(
    restarts: bool,
) -> None:
    made = live(WorkerState.BUSY)
    made.advance(20_000.0)
    if restarts:
        made.restart()
    silent(made, 7000.0)
    assert made.destroyed == []
    silent(made, 400.0)
    assert made.destroyed == ["i-r1"]


def test_a_node_on_a_renewed_claim_is_given_its_whole_time_to_boot_d8_u9() -> None:
    """Its create was unclear for as long as a boot may take, and was answered then."""
    made = world()
    one = made.add_record("r1", pinged=False)
    made.poll()
    silent(made, 1750.0)
    assert one.claim is not None
    made.change("r1", claim=replace(one.claim, at=made.store_now))
    made.add_node("r1", age=0.0)
    silent(made, 1700.0)
    assert made.of_node("i-r1").reason is Reason.BOOTING
    silent(made, 250.0)
    assert made.of_node("i-r1").reason is Reason.BOOT_FAILED


@cases(
    ("lag", "ahead", "ends_at"),
    {
        "as-late-as-a-create-may-be": (1900.0, 0.0, 3700.0),
        "in-time-after-its-claim": (50.0, 0.0, 1800.0),
        "by-a-cloud-whose-clock-is-wrong": (100.0, 1e6, 3720.0),
    },
)
def test_a_node_that_a_late_create_made_is_given_its_whole_time_to_boot_d8(
    lag: float, ahead: float, ends_at: float
) -> None:
    """Its claim has been silent for long when its node begins to boot; no launch counts that is
    later than any create takes effect (A2)."""
    made = world()
    made.add_record("r1", pinged=False)
    made.poll()
    silent(made, lag)
    made.add_node("r1", age=-ahead)
    silent(made, ends_at - 100.0 - lag)
    assert made.of_node("i-r1").reason is Reason.BOOTING
    silent(made, 150.0)
    assert made.of_node("i-r1").reason is Reason.BOOT_FAILED


# D2: the last look.


def ordered(made: World, node_id: str = "i-r1", **fields: Any) -> tuple[Kind, Reason]:
    order = made.shutdown_order(node_id)
    found = fields.pop("found", ShutdownEvidence(made.records[0] if made.records else None))
    wanted = fields.pop("wanted", False)
    one = confirm_shutdown(order, found, made.snapshot(**fields), made.settings, wanted=wanted)
    return one.kind, one.reason


def idle() -> World:
    made = live(WorkerState.IDLE, polls=3)
    assert made.destroyed == ["i-r1"]
    assert made.shutdown_order("i-r1").cancellable
    return made


def test_an_idle_node_that_began_to_work_stays_d2() -> None:
    made = idle()
    made.ping("r1", WorkerState.BUSY)
    assert ordered(made) == (Kind.KEEP, Reason.NO_LONGER_WANTED)


def test_an_idle_node_that_demand_wants_again_stays_d2() -> None:
    assert ordered(idle(), wanted=True) == (Kind.KEEP, Reason.NO_LONGER_WANTED)


def test_no_answer_destroys_nothing_d2_l1() -> None:
    made = idle()
    failed = ShutdownEvidence(None, error="time-out")
    assert ordered(made, found=failed) == (Kind.KEEP, Reason.EVIDENCE_MISSING)


@cases(
    ("late", "expected"),
    {
        "in-time": (60.0, (Kind.SHUTDOWN, Reason.IDLE_BEYOND_DEMAND)),
        "late": (60.5, (Kind.KEEP, Reason.ORDER_EXPIRED)),
    },
)
def test_a_shutdown_is_carried_out_within_a_minute_of_its_plan_c11(
    late: float, expected: tuple[Kind, Reason]
) -> None:
    made = idle()
    made.advance(late)
    assert ordered(made) == expected


@cases(
    ("fields", "reason"),
    {
        "lease": ({"lease": False}, Reason.NO_LEASE),
        "read-only": ({"read_only": "another account"}, Reason.READ_ONLY),
        "node-held": ({"holds": frozenset({"i-r1"})}, Reason.HELD),
        "record-held": ({"holds": frozenset({"r1"})}, Reason.HELD),
    },
)
def test_what_stands_in_the_way_now_stops_a_destroy_d2(
    fields: dict[str, Any], reason: Reason
) -> None:
    assert ordered(idle(), **fields) == (Kind.KEEP, reason)


def test_a_silent_node_whose_record_moved_stays_d2() -> None:
    made = live(WorkerState.BUSY)
    silent(made, 7600.0)
    assert ordered(made) == (Kind.SHUTDOWN, Reason.NODE_DOWN)
    made.ping("r1")
    assert ordered(made) == (Kind.KEEP, Reason.CHANGED_SINCE_PLAN)


def test_a_stopped_node_that_runs_again_stays_d2() -> None:
    made = live(WorkerState.BUSY)
    made.change_node("i-r1", state=CloudState.STOPPED)
    made.settle()
    assert ordered(made) == (Kind.SHUTDOWN, Reason.NODE_STOPPED)
    made.change_node("i-r1", state=CloudState.RUNNING)
    made.poll_cloud()
    assert ordered(made) == (Kind.KEEP, Reason.NO_LONGER_WANTED)


@cases(
    ("make", "judged"),
    {
        "idle": (idle, Reason.IDLE_BEYOND_DEMAND),
        "down": (lambda: live(WorkerState.DOWN), Reason.NODE_DOWN),
    },
)
@cases(
    ("tags", "reason"),
    {
        "none-d11": (Tags(), Reason.UNTAGGED),
        "another-pools-t3": (Tags(pool="other"), Reason.FOREIGN_NODE),
    },
)
def test_a_node_listed_without_our_pools_tag_since_the_plan_stays_d2(
    make: Callable[[], World], judged: Reason, tags: Tags, reason: Reason
) -> None:
    made = make()
    assert ordered(made) == (Kind.SHUTDOWN, judged)
    made.change_node("i-r1", tags=tags)
    made.poll_cloud()
    assert ordered(made) == (Kind.KEEP, reason)


def test_an_unpaired_node_that_has_its_record_again_stays_d2() -> None:
    made = unpaired()
    for _ in range(40):
        made.advance(60.0)
        made.round()
    assert ordered(made) == (Kind.SHUTDOWN, Reason.UNPAIRED)
    made.add_record("r1")
    assert ordered(made) == (Kind.KEEP, Reason.NO_LONGER_WANTED)


def test_a_silent_node_whose_record_lost_its_claim_goes_though_the_record_names_it_d2_d7() -> None:
    made = world()
    made.add_record("r1", claimed=False, quiet=9000.0, instance_id="i-r1")
    made.add_node("r1")
    silent(made, made.settings.node_stale_after + 1000.0)
    assert ordered(made) == (Kind.SHUTDOWN, Reason.UNPAIRED)
    pinged = replace(made.records[0], last_ping_at=made.records[0].last_ping_at + 9000.0)
    assert ordered(made, found=ShutdownEvidence(pinged)) == (
        Kind.KEEP,
        Reason.CHANGED_SINCE_PLAN,
    )


def test_neither_having_an_incarnation_is_not_having_the_same_d2_p1() -> None:
    made = world()
    made.add_record("r1", claimed=False, quiet=9000.0)
    made.add_node("r1", tags=Tags(POOL, "r1"))
    silent(made, made.settings.node_stale_after + 1000.0)
    assert ordered(made) == (Kind.SHUTDOWN, Reason.UNPAIRED)


# D3: gone.


def answered(
    made: World, asking: Asking, answer: CloudNode | None, took_s: float = 0.0
) -> tuple[bool, Asking]:
    """What is concluded now from the answer to a question of so long ago."""
    asking = replace(asking, asked_at=made.now - took_s)
    is_gone, denied_at = judge_gone(asking, answer, seen(made))
    return is_gone, replace(asking, denied_at=denied_at)


@cases(
    ("answer", "is_gone"),
    {
        "terminated": (CloudState.TERMINATED, True),
        "stopping": (CloudState.STOPPING, False),
        "running": (CloudState.RUNNING, False),
    },
)
def test_only_terminated_is_gone_d3(answer: CloudState, is_gone: bool) -> None:
    made = idle()
    asking = Asking(made.shutdown_order("i-r1"), made.now)
    assert answered(made, asking, node("r1", state=answer))[0] is is_gone


@cases(
    ("answers", "expected"),
    {
        "twice": (((None, 0.0), (None, 29.0), (None, 1.0)), [False, False, True]),
        "a-sighting-between-them-begins-anew": (
            ((None, 0.0), (node("r1"), 20.0), (None, 20.0), (None, 31.0)),
            [False, False, False, True],
        ),
    },
)
def test_no_such_node_is_gone_when_asked_twice_past_visible_after_d3(
    answers: tuple[tuple[CloudNode | None, float], ...], expected: list[bool]
) -> None:
    made = idle()
    asking = Asking(made.shutdown_order("i-r1"), made.now)
    are_gone = []
    for answer, wait in answers:
        made.advance(wait)
        is_gone, asking = answered(made, asking, answer)
        are_gone.append(is_gone)
    assert are_gone == expected


def test_no_such_node_says_nothing_of_a_young_node_d3() -> None:
    made = idle()
    order = replace(made.shutdown_order("i-r1"), created_at=made.ago(299.0))
    is_gone, after = answered(made, Asking(order, made.now), None)
    assert (is_gone, after.denied_at) == (False, None)


@cases(("age", "begun"), {"within-the-error": (359.0, False), "past-it": (361.0, True)})
def test_a_launch_on_a_clock_that_nobody_measured_may_be_a_minute_later_d3_a3(
    age: float, begun: bool
) -> None:
    made = idle()
    order = replace(made.shutdown_order("i-r1"), created_at=made.ago(age))
    _, after = answered(made, Asking(order, made.now), None)
    assert (after.denied_at is not None) is begun


def test_a_node_is_old_enough_visible_after_past_its_destroy_whatever_the_clocks_say_d3() -> None:
    made = idle()
    order = replace(made.shutdown_order("i-r1"), created_at=made.ago(-9000.0))
    _, after = answered(made, Asking(order, made.now - 301.0), None)
    assert after.denied_at == made.now


@cases(("took_s", "begun"), {"quick": (2.0, True), "slow": (20.0, False)})
def test_a_denial_is_as_old_as_its_question_however_long_the_answer_took_d3(
    took_s: float, begun: bool
) -> None:
    """visible_after may have passed while the answer was on its way."""
    made = idle()
    young = replace(made.shutdown_order("i-r1"), created_at=made.ago(370.0))
    late = replace(made.shutdown_order("i-r1"), created_at=None)
    for asking in (Asking(young, made.now), Asking(late, made.now - 310.0)):
        _, after = answered(made, asking, None, took_s)
        assert (after.denied_at is not None) is begun


def test_the_second_denial_is_asked_for_long_after_the_first_was_answered_d3() -> None:
    made = idle()
    first = Asking(made.shutdown_order("i-r1"), made.now, denied_at=made.now)
    made.advance(60.0)
    assert not answered(made, first, None, 31.0)[0]
    assert answered(made, first, None, 30.0)[0]


@cases(("took_s", "begun"), {"quick": (2.0, True), "slow": (20.0, False)})
@pytest.mark.parametrize("inherited", [False, True], ids=["due", "resumed"])
def test_a_shutdown_knows_when_it_asked_for_the_node_d3(
    inherited: bool, took_s: float, begun: bool
) -> None:
    made, workflow = idle(), ShutDown()
    # At the answer it is old enough, by six seconds.
    created_at = made.ago(366.0 - took_s)
    state = Asking(replace(made.shutdown_order("i-r1"), created_at=created_at), made.now)
    now = seen(made)
    step = workflow.resume(state, now) if inherited else workflow.on(state, Due(), now)
    assert step.state is not None
    made.advance(took_s)
    asking = workflow.on(step.state, Answered(AskNode("i-r1"), None), seen(made)).state
    assert isinstance(asking, Asking)
    assert (asking.denied_at is not None) is begun


def seen(made: World) -> Seen:
    return Seen(made.snapshot(), made.settings, Guarantee.CAS)


def test_the_time_behind_our_own_fence_is_no_silence_d8_c12() -> None:
    """A fence that can't be lifted for an hour locks the node out: it is not destroyed for that."""
    made = world(compare_and_set=False, min_nodes=0, node_stale_after=1200.0)
    made.add_record("r1", worker_state=WorkerState.BUSY)
    made.add_node("r1")
    made.round(2)
    made.change("r1", fenced=True)
    made.round(60, every=60.0)
    made.change("r1", fenced=False)
    made.advance(30.0)
    made.round()
    assert made.destroyed == []
    made.round(25, every=60.0)
    assert made.destroyed == ["i-r1"]


def test_a_wall_clock_that_is_ahead_makes_no_young_node_gone_d3_t1() -> None:
    made, workflow = idle(), ShutDown()
    order = replace(made.shutdown_order("i-r1"), created_at=made.ago(30.0))
    # Since before this run, which saw no jump of it.
    made.wall_step = 7200.0
    made.restart()
    made.round()
    state = Asking(order, made.now, asked_at=made.now)
    for _ in range(3):
        made.advance(31.0)
        asking = replace(state, asked_at=made.now)
        state = workflow.on(asking, Answered(AskNode("i-r1"), None), seen(made)).state
        assert isinstance(state, Asking)
