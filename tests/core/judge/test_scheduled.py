"""A scheduler's word on nodes: what it keeps, what it never destroys, and while it counts (T6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import OURS, SchedulerNode
from nodemanager.core.model.world import CloudState, Job, WorkerState
from nodemanager.core.observe.history import destroy_sent
from nodemanager.core.observe.signs import silent_for
from nodemanager.core.safety.breaker import reset
from tests.cases import cases
from tests.core.build import SMALL, World, world
from tests.core.nodes import BUSY, DOWN, IDLE, UNKNOWN

HOST = "compute1"


def scheduled(count: int = 1, *, age: float = 10_000.0, **settings: Any) -> World:
    """A pool whose nodes pair and ping, and of which no scheduler's answer has come yet."""
    settings = {"max_nodes": 8, "sizes": (SMALL,), "consecutive_idle_count": 2} | settings
    made = world(scheduled=True, demand_polled=True, **settings)
    made.flags |= {"demand": None, "demand_at": None}
    for number in range(1, count + 1):
        made.add_record(f"r{number}", quiet=100.0, hostname=f"compute{number}")
        made.add_node(f"r{number}", age=age)
    made.poll()
    return made


def told(
    made: World,
    state: WorkerState,
    *,
    own: WorkerState | None = None,
    polls: int = 1,
    jobs: tuple[Job, ...] = (),
    name: str = HOST,
    **fields: Any,
) -> Reason:
    """Rounds in which all nodes ping `own` and the scheduler calls one `state`; r1's reason."""
    for _ in range(polls):
        made.advance(30.0)
        for one in list(made.records):
            made.ping(one.uuid, own)
        made.poll()
        made.poll_scheduler(SchedulerNode(name, state, **fields), jobs=jobs)
        made.plan()
    return made.of_node("i-r1").reason


@pytest.mark.parametrize("own", [None, IDLE, DOWN, BUSY])
def test_a_node_that_the_scheduler_calls_busy_is_busy_whatever_it_says_itself_t6(
    own: WorkerState | None,
) -> None:
    made = scheduled()
    assert told(made, BUSY, own=own, polls=6) is Reason.BUSY
    assert made.destroyed == []


def test_a_node_that_calls_itself_busy_is_busy_whatever_the_scheduler_says_t6() -> None:
    for state in (IDLE, DOWN, UNKNOWN):
        made = scheduled()
        assert told(made, state, own=BUSY, polls=6) is Reason.BUSY


@cases(
    ("state", "fields", "reason"),
    {
        "unknown": (UNKNOWN, {}, Reason.WORKER_UNKNOWN),
        "reserved": (UNKNOWN, {"reserved": True}, Reason.SET_ASIDE),
        "drained-by-others": (IDLE, {"draining": True, "reason": "disk"}, Reason.SET_ASIDE),
        "down": (DOWN, {}, Reason.DOWN_IN_SCHEDULER),
        "not-listed": (IDLE, {"name": "compute9"}, Reason.UNSCHEDULED),
    },
)
def test_what_is_not_idle_in_the_scheduler_is_kept_however_idle_it_calls_itself_t6(
    state: WorkerState, fields: dict[str, Any], reason: Reason
) -> None:
    made = scheduled()
    told(made, IDLE, own=IDLE)
    assert told(made, state, own=IDLE, polls=9, **fields) is reason
    assert made.destroyed == []


SET_ASIDE = [
    pytest.param(DOWN, {}, id="down"),
    pytest.param(UNKNOWN, {"reserved": True}, id="reserved"),
    pytest.param(IDLE, {"draining": True, "reason": "disk"}, id="drained-by-others"),
]


@pytest.mark.parametrize(("state", "fields"), SET_ASIDE)
@cases(
    "wants",
    {"min_nodes": {"min_nodes": 1}, "spare_nodes": {"sizes": (replace(SMALL, spare_nodes=1),)}},
)
def test_what_the_scheduler_sets_aside_is_no_lack_d16(
    wants: dict[str, Any], state: WorkerState, fields: dict[str, Any]
) -> None:
    made = scheduled(**wants)
    told(made, IDLE)
    told(made, state, polls=3, **fields)
    assert made.booted == []


@pytest.mark.parametrize(("state", "fields"), SET_ASIDE)
def test_but_it_serves_no_job_d16(state: WorkerState, fields: dict[str, Any]) -> None:
    made = scheduled(min_nodes=1, max_nodes=2)
    told(made, IDLE)
    told(made, state, polls=3, jobs=(Job("j"),), **fields)
    assert made.booted == ["small"]


def test_one_that_never_was_up_there_satisfies_nothing_d17() -> None:
    made = scheduled(min_nodes=1)
    told(made, DOWN, polls=3)
    assert made.booted == ["small"]


def test_an_idle_node_goes_on_no_word_before_it_was_drained_d12() -> None:
    made = scheduled()
    assert told(made, IDLE, own=IDLE) is Reason.NOT_IDLE_LONG
    assert told(made, IDLE, own=IDLE, polls=9) is Reason.DRAIN_AWAITED
    assert made.destroyed == []


def test_idle_answers_count_and_pings_do_not_d12() -> None:
    made = scheduled(consecutive_idle_count=3)
    told(made, IDLE, polls=2)
    for _ in range(4):
        made.advance(30.0)
        made.ping("r1", IDLE)
        made.poll()
        made.plan()
    assert made.of_node("i-r1").reason is Reason.NOT_IDLE_LONG
    told(made, BUSY)
    assert told(made, IDLE, polls=2) is Reason.NOT_IDLE_LONG
    assert told(made, IDLE) is Reason.DRAIN_AWAITED


def test_the_count_of_idle_answers_is_of_one_life_d12() -> None:
    made = scheduled(consecutive_idle_count=3)
    told(made, IDLE, polls=2)
    old = made.record("r1").claim
    assert old is not None
    made.records, made.nodes = [], []
    made.add_record("r1", hostname=HOST, life=2, slot=1)
    made.add_node("r1", life=2, id="i-r1")
    made.poll()
    assert told(made, IDLE) is Reason.NOT_IDLE_LONG
    assert made.of_node("i-r1").measures == {"idle_polls": 1, "needed_polls": 3}


def test_an_answer_that_came_before_the_first_record_listing_counts_t6() -> None:
    made = world(scheduled=True, demand_polled=True, max_nodes=8, sizes=(SMALL,))
    made.add_record("r1", quiet=100.0)
    made.add_node("r1")
    made.ping("r1")
    made.poll_scheduler(SchedulerNode(HOST, IDLE), jobs=(Job("j"),))
    made.poll()
    made.plan()
    assert made.booted == []
    assert made.of_node("i-r1").reason is Reason.NOT_IDLE_LONG
    assert told(made, IDLE) is Reason.NOT_IDLE_LONG


def test_a_node_that_the_scheduler_has_not_called_up_yet_serves_while_it_boots_t6() -> None:
    made = scheduled(age=100.0)
    job = (Job("j"),)
    assert told(made, DOWN, jobs=job) is Reason.BOOTING
    assert made.booted == []
    assert told(made, UNKNOWN, jobs=job, name="other") is Reason.BOOTING
    assert told(made, IDLE, jobs=job, polls=2) is Reason.NEEDED
    assert told(made, DOWN, jobs=job) is Reason.DOWN_IN_SCHEDULER
    assert made.booted == ["small"]


def test_a_job_that_began_between_queue_and_nodes_is_not_booted_for_twice() -> None:
    made = scheduled()
    job = (Job("j"),)
    assert told(made, IDLE, jobs=job) is not None
    told(made, BUSY, jobs=job)
    assert made.booted == []
    told(made, BUSY, jobs=job)
    assert made.booted == ["small"]


def test_an_old_answer_keeps_everything_and_boots_nothing_c7() -> None:
    made = scheduled(poll_stale_after=600.0, boot_fail_after=300.0)
    told(made, IDLE, polls=4)
    for count in range(40):
        made.advance(30.0)
        made.ping("r1", IDLE)
        if count == 13:
            made.add_node("r9", id="i-lost", age=100_000.0)
        made.poll()
        made.flags |= {"demand": (Job("j", count=3),), "demand_at": made.now}
        made.plan()
        if count > 20:
            assert (made.destroyed, made.booted) == ([], [])
    lost = made.of_node("i-lost")
    assert (lost.kind, lost.reason) == (Kind.KEEP, Reason.POLL_STALE)
    assert (lost.measures or {})["source"] == "scheduler"
    assert made.of_node("i-r1").reason is Reason.WORKER_UNKNOWN


def test_an_incomplete_listing_is_no_evidence_l1() -> None:
    made = scheduled()
    told(made, BUSY)
    before = made.history.scheduler
    made.advance(30.0)
    made.poll_scheduler(SchedulerNode(HOST, IDLE), complete=False)
    assert made.history.scheduler is before
    assert made.history.scheduled[HOST].node.state is BUSY


def listed(made: World, count: int) -> None:
    made.advance(30.0)
    made.poll()
    nodes = [SchedulerNode(f"compute{number}", IDLE) for number in range(1, count + 1)]
    made.poll_scheduler(*nodes)
    made.plan()


def test_a_scheduler_that_suddenly_lists_too_few_of_our_nodes_opens_the_breaker_l3() -> None:
    made = scheduled(10, max_nodes=10)
    listed(made, 10)
    listed(made, 7)
    assert made.breaker.cause is None
    listed(made, 6)
    assert made.breaker.cause is Cause.SCHEDULER_COLLAPSED
    assert made.breaker.stops_booting
    listed(made, 6)
    assert made.breaker.is_open
    listed(made, 10)
    assert not made.breaker.is_open


def test_nodes_that_are_gone_from_the_cloud_are_not_lost_in_the_scheduler_l3a() -> None:
    made = scheduled(10, max_nodes=10)
    listed(made, 10)
    for number in range(7, 11):
        made.change_node(f"i-r{number}", state=CloudState.TERMINATED)
    listed(made, 6)
    assert Cause.SCHEDULER_COLLAPSED not in {part.cause for part in made.breaker.parts}


def test_a_start_closes_no_collapse_of_the_schedulers_before_the_cloud_is_listed_b3() -> None:
    made = scheduled(10, max_nodes=10)
    listed(made, 10)
    listed(made, 6)
    kept = made.breaker
    made.restart()
    made.breaker = kept
    six = [SchedulerNode(f"compute{number}", IDLE) for number in range(1, 7)]
    made.poll_scheduler(*six)
    assert made.breaker.cause is Cause.SCHEDULER_COLLAPSED
    made.poll_records()
    made.poll_scheduler(*six)
    listed(made, 6)
    assert made.breaker.cause is Cause.SCHEDULER_COLLAPSED
    listed(made, 10)
    assert not made.breaker.is_open


def test_a_short_list_of_the_clouds_closes_no_collapse_of_the_schedulers_b3() -> None:
    made = scheduled(10, max_nodes=10)
    listed(made, 10)
    listed(made, 6)
    nodes, made.nodes = made.nodes, made.nodes[:2]
    listed(made, 6)
    assert made.breaker.part(Cause.SCHEDULER_COLLAPSED) is not None
    made.nodes = nodes
    listed(made, 6)
    assert made.breaker.cause is Cause.SCHEDULER_COLLAPSED
    made.nodes = nodes[:6]
    made.answer({one.id: None for one in nodes[6:]})
    listed(made, 10)
    assert made.breaker.part(Cause.SCHEDULER_COLLAPSED) is None


def test_an_operators_reset_ends_the_collapse_for_good_b3() -> None:
    made = scheduled(10, max_nodes=10)
    listed(made, 10)
    listed(made, 3)
    made.breaker = reset(made.breaker, made.now)
    listed(made, 3)
    assert not made.breaker.is_open


def never_pinged(state: WorkerState, **fields: Any) -> World:
    """A node that never pinged, for more than an hour of polls in which the scheduler tells it."""
    made = world(scheduled=True, demand_polled=True, max_nodes=8, sizes=(SMALL,))
    made.add_record("r1", pinged=False, quiet=100.0, **fields)
    made.add_node("r1")
    for _ in range(80):
        made.advance(60.0)
        made.poll()
        made.poll_scheduler(SchedulerNode(HOST, state))
        made.plan()
    return made


@pytest.mark.parametrize("state", [BUSY, DOWN])
def test_a_node_that_works_by_the_scheduler_is_no_failed_boot_d8(state: WorkerState) -> None:
    made = never_pinged(state)
    assert made.destroyed == ([] if state is BUSY else ["i-r1"])


@pytest.mark.parametrize("state", [BUSY, DOWN])
def test_an_unpaired_node_is_kept_while_the_scheduler_says_that_it_works_d7(
    state: WorkerState,
) -> None:
    made = never_pinged(state, claimed=False)
    assert made.destroyed == ([] if state is BUSY else ["i-r1"])
    assert (made.of_node("i-r1").reason is Reason.BUSY) is (state is BUSY)


@pytest.mark.parametrize("responds", [True, False])
def test_a_silent_node_works_only_while_the_scheduler_reaches_it_d8(responds: bool) -> None:
    made = scheduled(node_stale_after=3600.0)
    told(made, BUSY)
    for _ in range(100):
        made.advance(60.0)
        made.poll()
        made.poll_scheduler(SchedulerNode(HOST, BUSY, responds=responds))
        made.plan()
    assert made.destroyed == ([] if responds else ["i-r1"])


@cases(
    ("state", "responds", "cleaned"),
    {
        "busy": (BUSY, True, False),
        "idle": (IDLE, True, False),
        "busy-and-not-reached": (BUSY, False, True),
        "down": (DOWN, True, True),
    },
)
def test_a_record_is_kept_while_the_scheduler_reaches_its_node_c2(
    state: WorkerState, responds: bool, cleaned: bool
) -> None:
    made = scheduled()
    told(made, BUSY)
    made.advance(made.settings.node_stale_after + 60.0)
    made.nodes = []
    for _ in range(3):
        made.advance(61.0)
        made.poll()
        made.poll_scheduler(SchedulerNode(HOST, state, responds=responds))
        made.plan()
    verdict = made.of_record("r1")
    assert (made.cleaned == ["r1"]) is cleaned
    assert cleaned or verdict.reason is Reason.UP_IN_SCHEDULER


# Switched off by the scheduler itself.


def switched_off(made: World, *, polls: int = 1, **fields: Any) -> Reason:
    """The scheduler has switched r1's node off: its pings and its slurmd are heard no more."""
    node = SchedulerNode(HOST, UNKNOWN, responds=False, suspended=True, said="idle+powered_down")
    for _ in range(polls):
        made.advance(30.0)
        made.poll()
        made.poll_scheduler(replace(node, **fields))
        made.plan()
    return made.of_node("i-r1").reason


@cases(
    "settings",
    {
        "as-it-is": {},
        "min-nodes": {"min_nodes": 1},
        "outside-its-window": {"shutdown_windows": (1_000_000.0, 60.0)},
    },
)
def test_a_node_that_the_scheduler_switched_off_goes_whoever_would_keep_it_d12(
    settings: dict[str, Any],
) -> None:
    made = scheduled(**settings)
    told(made, IDLE)
    assert switched_off(made) is Reason.SUSPENDED
    assert made.of_node("i-r1").kind is Kind.SHUTDOWN
    assert made.destroyed == ["i-r1"]


def test_many_that_are_switched_off_are_no_wave_and_no_cap_holds_them_d9() -> None:
    made = scheduled(4, max_shutdowns_per_cycle=1)
    told(made, IDLE)
    made.advance(30.0)
    made.poll()
    off = [
        SchedulerNode(f"compute{number}", UNKNOWN, responds=False, suspended=True)
        for number in range(1, 5)
    ]
    made.poll_scheduler(*off)
    made.plan()
    assert sorted(made.destroyed) == ["i-r1", "i-r2", "i-r3", "i-r4"]
    assert not made.breaker.is_open


@pytest.mark.parametrize("suspended", [True, False], ids=["off", "unknown"])
def test_nodes_that_were_silent_and_are_switched_off_hold_no_mass_silence_open_b3(
    suspended: bool,
) -> None:
    """They will never ping again, and no destroy of them is sent while it is open."""
    made = scheduled(6)
    names = [f"compute{number}" for number in range(1, 7)]
    for _ in range(15):
        made.advance(300.0)
        made.poll()
        made.poll_scheduler(*(SchedulerNode(name, DOWN, responds=False) for name in names))
        made.plan()
    assert made.breaker.part(Cause.MASS_SILENCE) is not None
    made.advance(30.0)
    made.poll()
    off = [SchedulerNode(name, UNKNOWN, responds=False, suspended=suspended) for name in names]
    made.poll_scheduler(*off)
    made.plan()
    made.plan()
    assert (made.breaker.part(Cause.MASS_SILENCE) is None) is suspended


def test_an_answer_from_before_this_lifes_first_sign_is_about_the_life_before_d12() -> None:
    made = scheduled()
    made.poll_scheduler(SchedulerNode(HOST, UNKNOWN, responds=False, suspended=True))
    made.now += 1.0
    made.ping("r1", None)
    made.poll()
    made.plan()
    assert made.of_node("i-r1").reason is not Reason.SUSPENDED
    made.poll_scheduler(SchedulerNode(HOST, UNKNOWN, responds=False, suspended=True))
    made.plan()
    assert made.of_node("i-r1").reason is Reason.SUSPENDED


def test_a_node_that_never_came_or_is_reserved_is_not_taken_for_switched_off_d12() -> None:
    made = scheduled(age=10.0)
    made.change("r1", first_ping_at=None, last_ping_at=None)
    made.poll()
    assert switched_off(made) is Reason.BOOTING
    made = scheduled()
    told(made, IDLE)
    assert switched_off(made, reserved=True) is Reason.SET_ASIDE


def test_a_node_that_the_scheduler_waits_for_again_is_not_switched_off_d12() -> None:
    """A controller that was killed right after the node came has forgotten that it did."""
    made = scheduled()
    told(made, IDLE)
    assert switched_off(made, polls=3, wanted=True, said="idle+powering_up") is not Reason.SUSPENDED
    assert made.destroyed == []
    assert switched_off(made, wanted=False) is Reason.SUSPENDED


def power_up_for(made: World, seconds: float, **fields: Any) -> None:
    """Slurm says that it powers r1's node up, whose slurmd is not heard."""
    node = SchedulerNode(HOST, UNKNOWN, responds=False, suspended=True, wanted=True)
    end = made.now + seconds
    while made.now < end:
        made.advance(300.0)
        made.poll()
        made.poll_scheduler(replace(node, **fields))
    made.plan()


def powering_up_reason(made: World, seconds: float, **fields: Any) -> Reason:
    power_up_for(made, seconds, **fields)
    return made.of_node("i-r1").reason


def test_no_silence_is_counted_while_the_scheduler_waits_for_a_node_that_came_d8() -> None:
    """A controller that was killed right after that does not ask its slurmd again."""
    made = scheduled()
    told(made, IDLE)
    window_s = made.settings.node_stale_after
    assert powering_up_reason(made, 2 * window_s) is Reason.SILENT_WITHIN_WINDOW
    given_up = {"state": DOWN, "wanted": False, "suspended": False}
    assert powering_up_reason(made, window_s - 600.0, **given_up) is Reason.SILENT_WITHIN_WINDOW
    assert made.destroyed == []
    # It is not waited for any more: the silence since then ends the node.
    assert powering_up_reason(made, 900.0, **given_up) is Reason.NODE_DOWN


def test_the_silence_of_a_lost_node_counts_though_its_name_is_wanted_again_d8() -> None:
    made = scheduled()
    told(made, IDLE)
    made.drop_node("i-r1")
    window_s = made.settings.node_stale_after
    power_up_for(made, window_s + 900.0)
    assert silent_for(made.record("r1"), made.history) > window_s


def test_a_node_that_never_came_is_a_failed_boot_though_the_scheduler_waits_for_it_d8() -> None:
    made = scheduled(age=10.0)
    made.change("r1", first_ping_at=None, last_ping_at=None)
    made.poll()
    boot_s = made.settings.boot_fail_after
    assert powering_up_reason(made, boot_s + 600.0) is Reason.BOOT_FAILED


def test_a_node_that_is_switched_off_gets_no_order_to_work_again_d12() -> None:
    made = scheduled(min_nodes=1)
    told(made, IDLE)
    switched_off(made, draining=True, reason=f"{OURS}to be shut down")
    assert made.last.dispatches == ()


def test_our_own_destroys_are_no_collapse_of_the_schedulers_listing_l3() -> None:
    made = scheduled(6)
    nodes = [SchedulerNode(f"compute{number}", IDLE) for number in range(1, 7)]

    def listed(*shown: SchedulerNode) -> None:
        made.advance(30.0)
        made.poll()
        made.poll_scheduler(*shown)
        made.plan()

    listed(*nodes)
    listed(*nodes)
    for number in range(1, 5):
        made.history = destroy_sent(made.history, f"i-r{number}", made.now, refused=False)
    listed(*nodes[4:])
    assert made.breaker.part(Cause.SCHEDULER_COLLAPSED) is None
