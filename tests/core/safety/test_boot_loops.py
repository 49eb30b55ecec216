"""Nodes that never ping: their size rests, then one probe at a time is booted (SAFETY.md B5)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.streaks import LONGEST_REST_S, NONE, Loops
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.safety import boot_loops
from nodemanager.core.safety.boot_loops import after_failure, after_probe
from nodemanager.journal.codec import codec_of, decoded
from tests.core.build import START, World, record, world

FIRST_S = 1800.0


def failed(loops: Loops, size: str, times: int, at: float = 0.0, spent: float = 0.5) -> Loops:
    for _ in range(times):
        loops = after_failure(loops, size, spent, at, FIRST_S)
    return loops


def test_after_five_in_a_row_a_size_rests_and_others_do_not() -> None:
    four = failed(NONE, "small", 4)
    assert four.resting_until("small", 0.0) is None
    five = failed(four, "small", 1, at=100.0)
    assert five.resting_until("small", 100.0) == 100.0 + FIRST_S
    assert five.resting_until("small", 100.0 + FIRST_S) is None
    assert five.resting_until("large", 100.0) is None
    assert five.sizes["small"].spent == 2.5


def test_each_rest_is_twice_as_long_up_to_a_day() -> None:
    loops, at, rests = failed(NONE, "small", 5), 0.0, []
    for _ in range(9):
        until = loops.sizes["small"].until
        rests.append(until - at)
        at = until
        loops = failed(loops, "small", 1, at=at)
    assert rests[:4] == [1800.0, 3600.0, 7200.0, 14400.0]
    assert rests[-1] == LONGEST_REST_S


def test_boots_from_before_a_rest_do_not_make_it_longer() -> None:
    five = failed(NONE, "small", 5)
    assert failed(five, "small", 3, at=60.0).sizes["small"].until == FIRST_S


def test_a_boot_that_comes_to_something_ends_the_streak_of_its_size_and_the_pools() -> None:
    loops = failed(failed(NONE, "small", 6), "large", 5)
    assert loops.probing
    after = boot_loops.after_boot(loops, "small")
    assert not after.probing
    assert after.resting_until("small", 0.0) is None
    assert after.resting_until("large", 0.0) is not None


def test_after_ten_over_all_sizes_one_probe_is_booted_at_a_time_ever_later() -> None:
    loops = NONE
    for number in range(10):
        loops = failed(loops, f"size-{number}", 1)
    assert loops.probing
    assert loops.resting_until("new", 0.0) == FIRST_S
    assert loops.resting_until("new", FIRST_S) is None
    sent = after_probe(loops, FIRST_S, FIRST_S)
    assert sent.resting_until("new", FIRST_S) == FIRST_S + 2 * FIRST_S
    assert after_probe(NONE, 0.0, FIRST_S) is NONE


def test_what_was_counted_is_known_for_as_long_as_its_record_waits() -> None:
    counted = frozenset({"r1/r1-life1", "r2/r2-life1", "r3/r3-life1"})
    loops = replace(failed(NONE, "small", 3), counted=counted)
    waits = [record("r1", at=0.0, pinged=False), record("r2", at=0.0, life=2)]
    assert boot_loops.still_waiting(loops, waits).counted == {"r1/r1-life1"}
    assert boot_loops.still_waiting(loops, waits).sizes == loops.sizes
    assert boot_loops.after_boot(loops, "small").counted == counted
    assert boot_loops.after_reset(loops) == Loops(counted=counted)
    assert boot_loops.after_reset(loops).are_none


def test_a_run_goes_on_from_the_streaks_of_the_one_before_and_knows_what_either_counted() -> None:
    kept = replace(failed(NONE, "small", 3), counted=frozenset({"a"}))
    assert boot_loops.joined(kept, NONE) == kept
    assert boot_loops.joined(kept, Loops(counted=frozenset({"b"}))).pool.failed == 3
    own = replace(failed(NONE, "large", 1), counted=frozenset({"b"}))
    assert boot_loops.joined(kept, own) == replace(own, counted=frozenset({"a", "b"}))


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=40))
def test_whatever_fails_in_whatever_order_is_counted_once(names: list[str]) -> None:
    loops = NONE
    for name in names:
        loops = failed(loops, name, 1)
    assert loops.pool.failed == len(names) == sum(one.failed for one in loops.sizes.values())
    assert loops.probing == (len(names) >= 10)
    for name in set(names):
        rests = names.count(name) >= 5 or loops.probing
        assert (loops.resting_until(name, 0.0) is not None) == rests
    assert decoded(Loops, codec_of(Loops).encode(loops)) == loops


# In a plan.


def wanting(loops: Loops, nodes: int = 3) -> World:
    made = world(min_nodes=nodes, max_nodes=8)
    made.flags["limits"] = Limits(loops=loops)
    made.settle()
    return made


def refusals(made: World) -> set[Reason]:
    return {reason for _, reason in made.wants.refused}


def test_a_resting_size_is_not_booted_and_another_is_taken_for_min_nodes() -> None:
    made = wanting(failed(NONE, "small", 5, at=START + 1))
    assert set(made.booted) <= {"large"}


def test_where_all_rest_nothing_is_booted_and_the_plan_says_why() -> None:
    loops = failed(failed(NONE, "small", 5, at=START + 1), "large", 5, at=START + 1)
    made = wanting(loops)
    assert made.booted == []
    assert refusals(made) == {Reason.BOOT_LOOP}


def test_a_probe_is_one_node() -> None:
    loops = NONE
    for number in range(10):
        loops = failed(loops, f"old-{number}", 1, at=START - 3600)
    made = wanting(replace(loops))
    assert len(made.booted) == 1
    assert refusals(made) == {Reason.BOOT_LOOP}
