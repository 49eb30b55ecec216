"""The clocks that ages are measured by: none counts time before a jump of one (T1)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import StoreTime, WorkerState
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.clocks import (
    Clocks,
    MeasuredClock,
    after_boot,
    first_reading,
    is_news,
)
from nodemanager.core.observe.signs import age_of_nodes, word_of
from tests.cases import cases
from tests.core.build import EPOCH, World, gone, record, world


def rounds(made: World, count: int) -> Reason:
    made.advance(60.0)
    made.round(count)
    return made.of_record("r1").reason


def test_no_age_is_told_before_the_clock_was_read_t1() -> None:
    made = gone()
    made.history = replace(made.history, clock=None)
    made.plan()
    assert made.of_record("r1").reason is Reason.CLOCK_UNKNOWN


@cases(
    ("old", "reason"),
    {"still-fresh": (599.0, Reason.STALE_SLOT), "just-past": (601.0, Reason.CLOCK_UNKNOWN)},
)
def test_a_reading_older_than_poll_stale_after_measures_no_skew_t1(
    old: float, reason: Reason
) -> None:
    made = gone()
    clock = made.history.clock
    assert clock is not None
    made.history = replace(made.history, clock=replace(clock, read_at=made.now - old))
    made.plan()
    assert made.of_record("r1").reason is reason


@cases("jump", {"ahead": 61.0, "back": -61.0})
def test_a_jump_stops_cleans_until_three_polls_agree_t1(jump: float) -> None:
    made = gone(quiet=20_000.0)
    made.store_step += jump
    assert rounds(made, 1) is Reason.CLOCK_UNKNOWN
    assert rounds(made, 1) is Reason.CLOCK_UNKNOWN
    assert rounds(made, 1) is Reason.WITHIN_WINDOW
    made.advance(made.settings.node_stale_after)
    made.settle()
    assert made.of_record("r1").reason is Reason.STALE_SLOT


def test_a_drift_of_sixty_seconds_between_polls_is_no_jump_t1() -> None:
    made = gone(quiet=20_000.0)
    made.store_step += 60.0
    assert rounds(made, 1) is Reason.STALE_SLOT


@pytest.mark.parametrize("jump", [50_000.0, 7200.0, -7200.0, -50_000.0])
def test_no_quiet_time_counts_time_before_a_jump_t1_c3(jump: float) -> None:
    made = gone(quiet=20_000.0)
    made.store_step += jump
    made.advance(60.0)
    made.round(1)
    jumped_at = made.now
    made.advance(made.settings.node_stale_after - 200.0)
    made.settle()
    assert made.of_record("r1").reason is Reason.WITHIN_WINDOW
    made.advance(jumped_at + made.settings.node_stale_after + 5.0 - made.now)
    made.settle()
    assert made.of_record("r1").reason is Reason.STALE_SLOT


def test_a_clock_set_wrong_and_right_again_leaves_later_ages_right_t1() -> None:
    """Otherwise no stamp made after the correction would ever be old enough."""
    made = gone(quiet=1000.0)
    made.store_step += 31_000_000.0
    rounds(made, 2)
    made.store_step -= 31_000_000.0
    rounds(made, 4)
    made.change("r1", modified_at=made.store_now, last_ping_at=made.store_now)
    made.advance(7000.0)
    assert rounds(made, 2) is Reason.WITHIN_WINDOW
    made.advance(200.0)
    made.settle()
    assert made.of_record("r1").reason is Reason.STALE_SLOT


def test_a_stamp_from_the_future_counts_from_when_its_version_was_first_seen_t1() -> None:
    made = world()
    made.add_record("r1", quiet=-1000.0)
    made.round(1)
    made.advance(7000.0)
    made.round(2)
    assert made.of_record("r1").reason is Reason.WITHIN_WINDOW
    made.advance(100.0)
    made.settle()
    assert made.of_record("r1").reason is Reason.STALE_SLOT


def test_a_new_version_from_the_future_counts_anew_t1() -> None:
    made = world()
    made.add_record("r1", quiet=-1_000_000.0)
    made.round(1)
    made.advance(7000.0)
    made.change("r1", last_ping_at=made.ago(-1_000_000.0))
    made.round(1)
    made.advance(1000.0)
    made.settle()
    assert made.of_record("r1").reason is Reason.WITHIN_WINDOW


def test_a_ping_that_leaves_the_version_as_it_is_counts_anew_t1_c3() -> None:
    """Where pings take no part in the version, a stamp once ahead says nothing of later ones."""
    made = world()
    made.add_record("r1", quiet=-900.0)
    made.poll()
    made.advance(9000.0)
    made.change("r1", version=made.record("r1").version, last_ping_at=made.ago(50.0))
    made.settle()
    assert made.of_record("r1").reason is Reason.WITHIN_WINDOW


def test_a_busy_word_from_the_future_is_not_fresh_for_ever_t6() -> None:
    made = world()
    made.add_record("r1", quiet=-1_000_000_000.0, worker_state=WorkerState.BUSY)
    made.round(1)
    made.advance(7300.0)
    made.settle()
    assert made.of_record("r1").kind is Kind.CLEAN


def test_a_word_whose_stamp_a_step_back_made_young_is_fresh_for_one_window_t6() -> None:
    made = world()
    made.add_record("r1", worker_state=WorkerState.BUSY)
    made.change("r1", last_ping_at=made.store_now + 3000.0)
    made.round(110)
    assert made.of_record("r1").reason is not Reason.STALE_SLOT
    made.round(8)
    assert made.of_record("r1").reason is Reason.STALE_SLOT


def test_the_round_trip_is_taken_off_every_age_t1() -> None:
    clock = first_reading(StoreTime(1000.0, 10.0, error_s=5.0))
    assert clock.age(900.0, 10.0) == 95.0


@given(
    jumps=st.lists(
        st.tuples(st.floats(1.0, 5000.0), st.floats(-100_000.0, 100_000.0)), max_size=40
    ),
    stamp_at=st.integers(0, 40),
)
def test_no_sequence_of_jumps_makes_a_stamp_look_older_than_it_is_t1(
    jumps: list[tuple[float, float]], stamp_at: int
) -> None:
    """`stamp_at` is before which jump the store stamps something, by its own clock then."""
    boot, offset = 0.0, 1e9
    clock: MeasuredClock = first_reading(StoreTime(offset, boot, 0.0))
    stamped: tuple[float, float] | None = None
    for index, (passed, jump) in enumerate(jumps):
        boot += passed
        if index == stamp_at:
            clock = clock.read(StoreTime(offset + boot, boot, 0.0))
            stamped = (boot, offset + boot)
        if abs(jump) > 60.0:
            offset += jump
            clock = clock.read(StoreTime(offset + boot, boot, 0.0))
        if stamped is not None:
            assert clock.age(stamped[1], boot) <= boot - stamped[0] + 0.001


@pytest.mark.parametrize("jump", [86.0, 119.0, -86.0, -119.0])
@pytest.mark.parametrize("coarse", [1, 3])
def test_a_jump_does_not_pass_in_two_parts_around_a_reading_that_took_long_t1(
    jump: float, coarse: int
) -> None:
    """A reading made while the manager stood still agrees with the clock before and after."""
    clock = first_reading(StoreTime(1000.0, 0.0, 0.01))
    for number in range(coarse):
        at = 400.0 + number
        clock = clock.read(StoreTime(1000.0 + at + jump / 2, at, 60.0))
    clock = clock.read(StoreTime(1450.0 + jump, 450.0, 0.01))
    assert not clock.trusted
    before, after = 1300.0, 1449.0 + jump
    assert clock.age(before, 450.0) <= 150.0
    assert clock.age(after, 450.0) <= 1.0


def test_readings_that_take_long_follow_a_clock_that_drifts_t1() -> None:
    clock = first_reading(StoreTime(1000.0, 0.0, 20.0))
    for number in range(1, 10):
        clock = clock.read(StoreTime(1000.0 + 110.0 * number, 100.0 * number, 20.0))
    assert clock.trusted
    assert clock.now(900.0) == 1990.0
    quick = clock.read(StoreTime(2090.0, 990.0, 0.01))
    assert quick.trusted
    assert quick.read(StoreTime(2200.0, 1090.0, 20.0)).read(StoreTime(2270.0, 1160.0, 0.01)).trusted


# R4: over a restart.

RIGHT = first_reading(StoreTime(EPOCH, 0.0, 0.0))


def clocks(store: MeasuredClock) -> Clocks:
    """What a run keeps whose wall clock never moved."""
    return Clocks(store, RIGHT)


def restarted(made: World, *, boot: float | None = None) -> MeasuredClock:
    """A new process that knows of the old one's clock alone; with `boot` after that much of it."""
    kept = made.history.clock
    assert kept is not None
    made.restart()
    if boot is not None:
        kept = after_boot(kept, boot)
    made.history = histories.clocks_kept(made.history, clocks(kept))
    return kept


@pytest.mark.parametrize("step", [90.0, 7200.0, 50_000.0, -7200.0])
def test_a_jump_over_a_restart_starts_every_age_anew_t1_r4(step: float) -> None:
    made = gone(quiet=20_000.0)
    restarted(made)
    made.store_step += step
    assert rounds(made, 4) is Reason.WITHIN_WINDOW
    measures = made.of_record("r1").measures
    assert measures is not None
    assert measures["idle_s"] < 200.0


@cases(
    ("moved", "reason"),
    {
        "not-moved": (0.0, Reason.STALE_SLOT),
        "by-less-than-a-minute": (59.0, Reason.STALE_SLOT),
        "ahead": (61.0, Reason.WITHIN_WINDOW),
        "back": (-61.0, Reason.WITHIN_WINDOW),
    },
)
def test_over_another_boot_a_clock_that_moved_against_ours_tells_no_age_t1_r4(
    moved: float, reason: Reason
) -> None:
    """CLOCK_BOOTTIME began anew, 90,000 s ago by our wall clock."""
    made = gone(quiet=50_000.0)
    made.now -= 90_000.0
    made.store_step += 90_000.0
    restarted(made, boot=90_000.0)
    made.store_step += moved
    made.settle()
    assert rounds(made, 3) is reason


def test_what_is_from_before_such_a_boot_counts_from_it_t1_r4() -> None:
    made = gone(quiet=50_000.0)
    restarted(made, boot=0.0)
    made.store_step -= 1000.0
    made.round(4)
    made.advance(6700.0)
    assert rounds(made, 2) is Reason.WITHIN_WINDOW
    made.advance(600.0)
    made.settle()
    assert made.of_record("r1").reason is Reason.STALE_SLOT


def test_what_a_late_journal_tells_is_joined_with_what_was_read_since_t1_r4() -> None:
    made = gone(quiet=1000.0)
    kept = made.history.clock
    assert kept is not None
    made.restart()
    made.store_step += 50_000.0
    made.round(4)
    made.history = histories.clocks_kept(made.history, clocks(kept))
    assert rounds(made, 3) is Reason.WITHIN_WINDOW


def late(kept: MeasuredClock, *readings: StoreTime) -> MeasuredClock:
    """Of a run that made the `readings` before it could read the journal."""
    history = histories.History()
    for one in readings:
        history = histories.store_clock_read(history, one)
    clock = histories.clocks_kept(history, clocks(kept)).clock
    assert clock is not None
    return clock


@pytest.mark.parametrize("jump", [-7200.0, 7200.0])
def test_a_jump_seen_before_the_journal_could_be_read_is_kept_in_mind_t1_r4(jump: float) -> None:
    kept = first_reading(StoreTime(1_001_000.0, 1000.0, 0.0))
    boots = (1100.0, 1200.0, 1300.0, 1400.0)
    readings = [StoreTime(1e6 + boot + jump * (boot > 1150.0), boot, 0.0) for boot in boots]
    assert late(kept, *readings).age(1_000_900.0 + min(jump, 0.0), 1400.0) <= 200.0


@cases(("waits", "trusted"), {"one-poll-agrees": (1, False), "three-polls-agree": (2, True)})
def test_a_jump_seen_before_the_journal_could_be_read_waits_for_three_polls_t1_r4(
    waits: int, trusted: bool
) -> None:
    kept = first_reading(StoreTime(10_000.0, 1000.0, 0.0))
    clock = late(kept, StoreTime(18_000.0, 1800.0, 0.0))
    assert not clock.trusted
    for number in range(waits):
        clock = clock.read(StoreTime(18_100.0 + number, 1900.0 + number, 0.0))
    assert clock.trusted is trusted


JUMPS = st.lists(st.tuples(st.floats(1.0, 900.0), st.floats(-9000.0, 9000.0)), max_size=5)


@given(
    phases=st.tuples(JUMPS, JUMPS, JUMPS),
    polls=st.integers(1, 3),
    off=st.none() | st.floats(0.0, 5000.0),
    meanwhile=st.floats(-9000.0, 9000.0),
)
def test_what_a_late_journal_tells_makes_no_age_too_great_t1_r4(
    phases: tuple[list[tuple[float, float]], ...],
    polls: int,
    off: float | None,
    meanwhile: float,
) -> None:
    """All is read in two runs, and the second knows of the first one late.

    Where `off` is a time, the machine booted between the runs, and was off that long. The store's
    clock jumped `meanwhile`, too.
    """
    boot, offset, true = 5000.0, 1e6, 0.0
    run = histories.store_clock_read(histories.History(), StoreTime(offset + boot, boot, 0.0))
    stamps: list[tuple[float, float]] = []
    kept: MeasuredClock | None = None
    for phase, jumps in enumerate(phases):
        if phase == 1:
            kept = run.clock
            assert kept is not None
            if off is not None:
                true, offset = true + off, offset + boot + off
                kept = after_boot(kept, boot + off)
                boot = 0.0
            stamps.append((true, offset + boot))
            offset += meanwhile if abs(meanwhile) > 61.0 else 0.0
            stamps.append((true, offset + boot))
            boot, true = boot + 1.0, true + 1.0
            seen = StoreTime(offset + boot, boot, 0.0)
            run = histories.store_clock_read(histories.History(), seen)
        elif phase == 2:
            assert kept is not None
            run = histories.clocks_kept(run, clocks(kept))
        for waited, jump in jumps:
            boot, true = boot + waited, true + waited
            stamps.append((true, offset + boot))
            offset += jump if abs(jump) > 61.0 else 0.0
            for _ in range(polls):
                boot, true = boot + 1.0, true + 1.0
                seen = StoreTime(offset + boot, boot, 0.0)
                run = histories.store_clock_read(run, seen)
            stamps.append((true, offset + boot))
    assert run.clock is not None
    for at, stamp in stamps:
        assert run.clock.age(stamp, boot) <= true - at + 0.001


def test_a_stamp_of_a_clock_that_drifted_is_from_before_the_jump_t1() -> None:
    """It gained 9 s in 900 s, which is no jump, and jumped by 7200 s right after the stamp."""
    clock = first_reading(StoreTime(10_000.0, 1000.0, 0.0))
    clock = clock.read(StoreTime(18_110.0, 1901.0, 0.0))
    assert clock.age(10_909.0, 1901.0) <= 1.0


@given(
    drifts=st.lists(
        st.tuples(
            st.sampled_from((-0.01, 0.0, 0.01)),
            st.floats(1.0, 900.0),
            st.sampled_from((-7200.0, -900.0, 0.0, 900.0, 7200.0)),
        ),
        max_size=12,
    )
)
def test_where_a_clock_drifts_no_age_is_too_great_by_more_than_the_drift_t1(
    drifts: list[tuple[float, float, float]],
) -> None:
    boot, offset, drifted = 5000.0, 1e6, 0.0
    clock = first_reading(StoreTime(offset + boot, boot, 0.0))
    stamps: list[tuple[float, float]] = []
    for rate, waited, jump in drifts:
        boot, offset = boot + waited, offset + rate * waited
        drifted += abs(rate) * waited
        stamps.append((boot, offset + boot))
        offset += jump
        stamps.append((boot, offset + boot))
        boot += 1.0
        clock = clock.read(StoreTime(offset + boot, boot, 0.0))
        for at, stamp in stamps:
            assert clock.age(stamp, boot) <= boot - at + drifted + 0.001


def test_only_what_a_later_run_must_know_is_kept_anew() -> None:
    clock = first_reading(StoreTime(1000.0, 10.0, error_s=0.1))
    assert is_news(None, clock)
    assert not is_news(clock, clock.read(StoreTime(1060.9, 70.0, error_s=0.2)))
    assert is_news(clock, clock.read(StoreTime(1061.1, 70.0, error_s=0.2)))
    assert is_news(clock, clock.read(StoreTime(1160.0, 70.0, error_s=0.2)))


@given(
    jumps=st.lists(
        st.tuples(st.floats(1.0, 5000.0), st.floats(-9000.0, 9000.0), st.booleans()), max_size=30
    ),
    stamp_at=st.integers(0, 30),
)
def test_no_sequence_of_jumps_and_boots_makes_a_stamp_look_older_than_it_is_t1_r4(
    jumps: list[tuple[float, float, bool]], stamp_at: int
) -> None:
    """A boot sets CLOCK_BOOTTIME back; the store's clock may jump over it, our wall may not."""
    boot, offset, true = 5000.0, 1e9, 0.0
    clock = first_reading(StoreTime(offset + boot, boot, 0.0))
    stamped: tuple[float, float] | None = None
    for index, (passed, jump, boots) in enumerate(jumps):
        boot, true = boot + passed, true + passed
        if index == stamp_at:
            clock = clock.read(StoreTime(offset + boot, boot, 0.0))
            stamped = (true, offset + boot)
        if boots:
            clock = after_boot(clock, boot)
            boot, offset = 0.0, offset + boot
        if abs(jump) > 60.0:
            offset += jump
        if boots or abs(jump) > 60.0:
            clock = clock.read(StoreTime(offset + boot, boot, 0.0))
        if stamped is not None:
            assert clock.age(stamped[1], boot) <= true - stamped[0] + 0.001


@given(
    jumps=st.lists(
        st.tuples(st.floats(1.0, 5000.0), st.floats(0.0, 2000.0), st.floats(-9000.0, 9000.0)),
        max_size=12,
    )
)
def test_no_stamp_from_between_two_readings_looks_older_than_it_is_t1(
    jumps: list[tuple[float, float, float]],
) -> None:
    """One jump at most between two readings, and a stamp before and after each."""
    boot, offset = 0.0, 1e9
    clock = first_reading(StoreTime(offset, boot, 0.0))
    stamps: list[tuple[float, float]] = []
    for before, after, jump in jumps:
        boot += before
        stamps.append((boot, offset + boot))
        if abs(jump) > 60.0:
            offset += jump
        boot += after
        stamps.append((boot, offset + boot))
        boot += 1.0
        clock = clock.read(StoreTime(offset + boot, boot, 0.0))
        for at, stamp in stamps:
            assert clock.age(stamp, boot) <= boot - at + 0.001


# T1: stamps that contradict each other.


def slow_and_right_again(made: World, by: float = 7200.0) -> float:
    """r1's node pings by a clock that is behind, which only a run that was killed measured.

    The time of that ping, CLOCK_BOOTTIME; the next run knows the clock as it was before.
    """
    made.add_record("r1")
    made.round()
    kept = made.history.clock
    assert kept is not None
    made.store_step -= by
    made.advance(900.0)
    made.ping("r1")
    pinged = made.now
    made.store_step += by
    made.advance(100.0)
    made.restart()
    made.history = histories.clocks_kept(made.history, clocks(kept))
    return pinged


@cases(
    ("later", "reason"),
    {"inside-the-window": (7100.0, Reason.WITHIN_WINDOW), "past-it": (7300.0, Reason.STALE_SLOT)},
)
def test_stamps_that_contradict_each_other_count_from_the_runs_first_listing_t1_c3(
    later: float, reason: Reason
) -> None:
    """It was pinged before its first ping, by its stamps: somebody set the clock back."""
    made = world()
    slow_and_right_again(made)
    made.poll()
    made.advance(later - 200.0)
    rounds(made, 3)
    assert made.of_record("r1").reason is reason


def test_a_life_that_lies_wholly_in_the_slow_time_is_no_older_than_that_t1_c3() -> None:
    """Its own stamps agree with each other; those of another record tell on the clock."""
    made = world()
    pinged = slow_and_right_again(made)
    made.add_record("r2", quiet=made.now - pinged + 7200.0)
    made.settle()
    assert rounds(made, 1) is Reason.WITHIN_WINDOW
    assert made.of_record("r2").reason is Reason.WITHIN_WINDOW
    made.records = [made.record("r2")]
    made.restart()
    made.settle()
    assert made.of_record("r2").reason is Reason.STALE_SLOT, "nothing else tells"


@cases(
    "shown",
    {
        "older-than-its-first-ping": {"last_ping_at": -7200.0},
        "written-before-it-was-pinged": {"modified_at": -7200.0},
        "written-before-its-claim": {
            "modified_at": -7200.0,
            "first_ping_at": -7200.0,
            "last_ping_at": -7200.0,
        },
    },
)
def test_a_later_stamp_that_is_the_lower_one_makes_no_stamp_of_a_run_old_t1(
    shown: dict[str, float],
) -> None:
    made = world()
    at = made.ago(9000.0)
    stamps = {name: at + by for name, by in shown.items()}
    made.records.append(record("r1", at=at, **stamps))
    made.add_record("r2", quiet=9000.0)
    made.settle()
    clock = made.history.clock
    assert clock is not None
    assert clock.known_since == made.history.heard["r2"].seen_at
    assert made.of_record("r2").reason is Reason.WITHIN_WINDOW


@cases(
    "shown",
    {
        "by-less-than-a-minute": {"last_ping_at": -559.0},
        "adopted-after-its-first-ping": {"first_ping_at": -1800.0},
        "not-pinged-since-its-adoption": {"first_ping_at": -1800.0, "last_ping_at": -1700.0},
        "never-pinged": {"first_ping_at": None, "last_ping_at": None},
        "no-claim-and-no-first-ping": {"claim": None, "first_ping_at": None},
    },
)
def test_stamps_in_an_order_that_may_be_do_not_contradict_each_other_t1(
    shown: dict[str, float | None],
) -> None:
    made = world()
    at = made.ago(9000.0)
    stamps = {name: None if by is None else at + by for name, by in shown.items()}
    made.records.append(record("r1", at=at, **stamps))
    made.settle()
    assert made.history.clock is not None
    assert made.history.clock.known_since == float("-inf")
    assert made.of_record("r1").kind is Kind.CLEAN


def test_a_jump_that_a_run_knows_of_explains_the_stamps_of_a_slow_clock_t1() -> None:
    """It was right, slow, and right again before our eyes: ages count from there, and no later."""
    made = world()
    made.add_record("r1")
    made.round()
    made.store_step -= 600.0
    made.round(3)
    made.ping("r1")
    made.store_step += 600.0
    made.round(4)
    clock = made.history.clock
    assert clock is not None
    made.advance(clock.known_since + 7260.0 - made.now)
    assert rounds(made, 3) is Reason.STALE_SLOT


def test_stamps_that_contradict_each_other_start_every_age_once_a_run_t1_r4() -> None:
    made = world()
    slow_and_right_again(made)
    made.settle()
    made.advance(5000.0)
    restarted(made)
    made.settle()
    made.advance(6000.0)
    assert rounds(made, 2) is Reason.WITHIN_WINDOW
    made.advance(1200.0)
    made.settle()
    assert made.of_record("r1").reason is Reason.STALE_SLOT


def test_a_late_journal_that_knows_no_jump_explains_no_stamps_t1_r4() -> None:
    made = world()
    slow_and_right_again(made)
    kept = made.history.clock
    assert kept is not None
    made.restart()
    made.advance(6000.0)
    made.poll()
    made.history = histories.clocks_kept(made.history, clocks(kept))
    assert rounds(made, 3) is Reason.WITHIN_WINDOW


def test_two_steps_between_two_polls_are_seen_by_what_was_stamped_between_them_t1() -> None:
    made = world()
    made.add_record("r1", quiet=6800.0)
    made.round()
    made.store_step -= 9000.0
    made.ping("r1")
    made.store_step += 9000.0
    made.settle()
    assert rounds(made, 3) is Reason.WITHIN_WINDOW


def test_a_node_that_a_slow_clock_made_old_may_still_be_denied_falsely_c11_t1() -> None:
    """Its first ping looks two hours old, and was seconds ago."""
    made = world()
    made.add_record("r1", pinged=False)
    made.round()
    kept = made.history.clock
    assert kept is not None
    made.store_step -= 7200.0
    made.ping("r1")
    made.store_step += 7200.0
    made.restart()
    made.history = histories.clocks_kept(made.history, clocks(kept))
    made.settle()
    r1 = made.record("r1")
    assert age_of_nodes(r1, made.snapshot(), made.settings) < made.settings.visible_after


def test_a_jump_back_long_ago_explains_no_stamps_of_a_time_that_nobody_read_t1_r4() -> None:
    """The clock was once two days ahead, and what was measured then is kept."""
    made = world()
    made.add_record("r0")
    made.round()
    made.store_step += 172_800.0
    made.round(3)
    made.store_step -= 172_800.0
    made.round(3)
    made.records.clear()
    slow_and_right_again(made)
    made.advance(6000.0)
    made.settle()
    assert rounds(made, 3) is Reason.WITHIN_WINDOW


def test_the_last_word_of_a_dead_node_grows_old_though_the_clock_was_set_back_c2_t1() -> None:
    made = world(min_nodes=0, node_stale_after=1200.0)
    made.add_record("r1", worker_state=WorkerState.BUSY)
    made.add_node("r1")
    made.round(4, every=60.0)
    made.store_step -= 100_000.0
    made.round(2, every=60.0)
    assert word_of(made.record("r1"), made.snapshot(), made.settings) is WorkerState.BUSY
    made.round(38, every=60.0)
    assert word_of(made.record("r1"), made.snapshot(), made.settings) is WorkerState.UNKNOWN
