"""Whatever measures an age counts no time before a jump: with one clock for manager and store (T1).

The date of the machine that both run on jumps; the cloud's clock, which launches are told by, is
right all the time.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodemanager.core.execute.shutdown import Asking, judge_gone
from nodemanager.core.execute.workflow import Seen
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import CloudNode, Guarantee, StoreTime, WorkerState
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.clocks import Clocks, MeasuredClock, first_reading, wall_read
from nodemanager.core.observe.signs import age_of_nodes, is_heard, launched_for
from nodemanager.core.plan.destroy import order_shutdown
from nodemanager.core.plan.summary import made_since
from tests.core.build import EPOCH, SMALL, World, world

DAY_S = 86_400.0
JUMPS = [
    pytest.param(7200.0, id="ahead"),
    pytest.param(-7200.0, id="back"),
    pytest.param(400 * DAY_S, id="far-ahead"),
    pytest.param(-400 * DAY_S, id="far-back"),
]
both_ways = pytest.mark.parametrize("jump", JUMPS)


def jumps(made: World, by: float) -> None:
    made.store_step += by
    made.wall_step += by


def launched(made: World, uuid: str, age: float) -> CloudNode:
    """Put a node into the cloud that was launched `age` seconds ago, by the cloud's own clock."""
    return made.add_node(uuid, created_at=EPOCH + made.now - age)


def pool(says: WorkerState, *, age: float = 60.0, nodes: int = 2, **settings: object) -> World:
    """A pool of nodes that ping every half minute, and have done so four times."""
    made = world(max_nodes=4, min_nodes=2, sizes=(SMALL,), **settings)
    for number in range(1, nodes + 1):
        made.add_record(f"r{number}", quiet=10.0)
        launched(made, f"r{number}", age)
    ping(made, says, 4)
    return made


def ping(made: World, says: WorkerState, times: int) -> list[str]:
    """All nodes ping, and a plan is made, so many times; what was destroyed in the end."""
    destroyed: list[str] = []
    for _ in range(times):
        made.advance(30.0)
        for one in list(made.records):
            made.ping(one.uuid, says)
        made.round()
        destroyed += made.destroyed
    return destroyed


@both_ways
def test_no_boot_grace_ends_by_a_jump_d1(jump: float) -> None:
    made = pool(WorkerState.DOWN, nodes=1)
    jumps(made, jump)
    assert ping(made, WorkerState.DOWN, 20) == []
    # It counts from the jump; a launch that looks to be in the future does so later.
    age_s = launched_for(made.nodes[0].created_at or 0.0, made.snapshot())
    assert age_s < 20 * 35.0


@both_ways
def test_no_node_is_too_old_by_a_jump_d15(jump: float) -> None:
    made = pool(WorkerState.IDLE, max_node_age=DAY_S, consecutive_idle_count=2)
    jumps(made, jump)
    assert ping(made, WorkerState.IDLE, 8) == []
    assert made.of_node("i-r1").reason is not Reason.TOO_OLD


def test_a_node_older_than_the_jump_is_too_old_one_max_node_age_after_it_d15() -> None:
    made = pool(WorkerState.IDLE, age=2 * DAY_S, max_node_age=DAY_S)
    assert made.of_node("i-r1").reason is Reason.TOO_OLD or made.destroyed != []
    jumps(made, 7200.0)
    ping(made, WorkerState.IDLE, 4)
    assert launched_for(made.nodes[0].created_at or 0.0, made.snapshot()) < 200.0


@both_ways
def test_a_denied_node_is_gone_only_visible_after_past_the_jump_d3(jump: float) -> None:
    made = pool(WorkerState.DOWN, nodes=1, age=2.0, visible_after=300.0)
    order = order_shutdown(made.view("i-r1"), made.snapshot())
    jumps(made, jump)
    asking = Asking(order, made.now)
    while made.now - asking.sent_at <= 250.0:
        made.advance(35.0)
        made.round()
        asking = replace(asking, asked_at=made.now)
        seen = Seen(made.snapshot(), made.settings, Guarantee.CAS)
        is_gone, denied_at = judge_gone(asking, None, seen)
        asking = replace(asking, denied_at=denied_at)
        assert not is_gone or made.now - asking.sent_at > 300.0


@both_ways
def test_a_node_launched_after_a_jump_is_no_older_than_its_claim(jump: float) -> None:
    """The date stays wrong: how far it is from the cloud's clock, nobody knows."""
    made = pool(WorkerState.IDLE)
    jumps(made, jump)
    ping(made, WorkerState.IDLE, 100)
    one = made.add_record("r3", pinged=False)
    launched(made, "r3", 0.0)
    assert one.claim is not None
    made.advance(100.0)
    made.round()
    age_s = launched_for(made.nodes[-1].created_at or 0.0, made.snapshot(), one.claim.at)
    assert age_s <= 110.0
    # Without it, only the jump bounds its age.
    unbounded_s = launched_for(made.nodes[-1].created_at or 0.0, made.snapshot())
    assert unbounded_s > 3000.0 or jump < 0.0


def test_a_claim_from_before_a_jump_back_makes_no_node_younger_than_the_jump() -> None:
    made = pool(WorkerState.IDLE, age=5000.0)
    jumps(made, -7200.0)
    ping(made, WorkerState.IDLE, 10)
    jumps(made, 7200.0)
    ping(made, WorkerState.IDLE, 10)
    ahead, created_at = made.store_now + 3600.0, made.nodes[0].created_at
    assert created_at is not None
    assert launched_for(created_at, made.snapshot(), ahead) > 250.0


@pytest.mark.parametrize("moved", [90.0, 7200.0, -90.0])
@pytest.mark.parametrize("which", ["store", "wall"])
def test_a_launch_counts_no_time_before_a_jump_of_either_clock(which: str, moved: float) -> None:
    made = pool(WorkerState.IDLE, age=5000.0)
    if which == "store":
        made.store_step += moved
    else:
        made.wall_step += moved
    made.poll()
    assert launched_for(made.nodes[0].created_at or 0.0, made.snapshot()) <= 2.0
    made.plan()
    made.advance(600.0)
    assert launched_for(made.nodes[0].created_at or 0.0, made.snapshot()) <= 603.0


def test_a_jump_of_our_wall_clock_is_noticed_by_the_look_before_a_destroy_too() -> None:
    """No plan has read the clock since."""
    made = pool(WorkerState.IDLE, age=5000.0)
    made.wall_step += 7200.0
    assert launched_for(made.nodes[0].created_at or 0.0, made.snapshot()) == 0.0


def test_a_wall_clock_that_creeps_by_less_than_a_minute_a_plan_has_not_jumped() -> None:
    made = pool(WorkerState.IDLE, age=5000.0)
    made.wall_step += 59.0
    made.plan()
    made.wall_step += 59.0
    made.plan()
    assert not made.snapshot().wall_clock.has_jumped


@both_ways
def test_a_claim_waits_its_whole_window_after_a_jump_c21(jump: float) -> None:
    made = world(claim_expiry=True)
    made.add_record("r1", pinged=False)
    made.round()
    jumps(made, jump)
    made.round()
    jumped_at = made.now
    window_s = made.settings.claim_window
    made.advance(window_s - 200.0)
    made.settle()
    assert made.of_record("r1").kind is Kind.KEEP
    made.advance(jumped_at + window_s + 5.0 - made.now)
    made.settle()
    assert made.of_record("r1").reason in (Reason.CLAIM_EXPIRED, Reason.STALE_SLOT)


@both_ways
def test_no_node_is_old_enough_to_be_denied_by_a_jump_c11(jump: float) -> None:
    made = pool(WorkerState.IDLE, nodes=1)
    jumps(made, jump)
    made.round()
    created_at = made.nodes[0].created_at
    age_s = age_of_nodes(made.record("r1"), made.snapshot(), made.settings, created_at=created_at)
    assert age_s < 150.0


@both_ways
def test_a_jump_makes_no_word_fresh_again_t6(jump: float) -> None:
    made = world()
    made.add_record("r1", worker_state=WorkerState.DOWN)
    made.round()
    made.advance(made.settings.node_stale_after + 100.0)
    made.round()
    assert not is_heard(made.record("r1"), made.snapshot(), made.settings)
    jumps(made, jump)
    made.round(3)
    assert not is_heard(made.record("r1"), made.snapshot(), made.settings)


@both_ways
def test_a_jump_makes_no_node_older_than_a_wave_d9(jump: float) -> None:
    made = pool(WorkerState.IDLE)
    wave_at = made.now - 500.0
    assert made_since(made.last.views, made.snapshot(), wave_at) == {"i-r1", "i-r2"}
    jumps(made, jump)
    made.round()
    assert made_since(made.last.views, made.snapshot(), wave_at) == {"i-r1", "i-r2"}


# R4: over a restart.


def kept(made: World) -> Clocks:
    assert made.history.wall is not None
    return Clocks(made.history.clock, made.history.wall)


@both_ways
@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("read", ["at-once", "late"])
def test_a_jump_outlives_the_run_that_saw_it(jump: float, when: str, read: str) -> None:
    """Or nobody saw it, and the next run finds the clocks elsewhere than the last one left them.

    It may have read its own clocks before it can read what was kept.
    """
    made = pool(WorkerState.IDLE, age=5000.0)
    if when == "before":
        jumps(made, jump)
        made.round()
    before = kept(made)
    made.restart()
    if when == "meanwhile":
        jumps(made, jump)
    if read == "late":
        made.round()
    made.history = histories.clocks_kept(made.history, before)
    made.advance(300.0)
    made.round()
    created_at = made.nodes[0].created_at
    assert created_at is not None
    assert launched_for(created_at, made.snapshot()) <= 310.0
    assert made.snapshot().wall_clock.has_jumped
    assert launched_for(created_at, made.snapshot()) > 0.0 or when == "meanwhile" or jump < 0.0


def test_without_a_jump_a_restart_makes_no_node_younger_r4() -> None:
    made = pool(WorkerState.IDLE, age=5000.0)
    before = kept(made)
    made.restart()
    made.history = histories.clocks_kept(made.history, before)
    made.round()
    assert launched_for(made.nodes[0].created_at or 0.0, made.snapshot()) > 5000.0


@both_ways
def test_a_jump_of_our_wall_clock_that_a_late_journal_tells_of_counts_too(jump: float) -> None:
    made = pool(WorkerState.IDLE, age=5000.0)
    before = kept(made)
    made.restart()
    made.wall_step += jump
    made.round()
    made.history = histories.clocks_kept(made.history, before)
    assert launched_for(made.nodes[0].created_at or 0.0, made.snapshot()) <= 2.0


def test_a_reading_of_our_wall_clock_that_tells_nothing_new_changes_nothing() -> None:
    before = first_reading(StoreTime(EPOCH, 0.0, 0.0))
    assert wall_read(before, EPOCH + 100.5, 100.0) is before
    assert wall_read(before, EPOCH + 102.0, 100.0) == replace(
        before, offset=EPOCH + 2.0, read_at=100.0
    )
    jumped = wall_read(before, EPOCH + 200.0, 100.0)
    assert isinstance(jumped, MeasuredClock)
    assert jumped.known_since == 100.0
