"""The breaker opens on too many records to be freed at once, and on failed writes (B1, B3)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import ELIGIBLE_WINDOW_S, WRITE_FAILURES, Settings
from nodemanager.core.observe.history import History
from nodemanager.core.safety import breaker as breakers
from nodemanager.core.safety import rate_limits
from tests.cases import cases
from tests.core.build import POOL, World, world

SETTINGS = Settings(pool=POOL)


def leaked(count: int, **settings: object) -> World:
    """So many records whose nodes are gone and whose window has passed."""
    made = world(max_cleans_per_cycle=5, **settings)
    more(made, count)
    made.settle()
    return made


def more(made: World, count: int) -> None:
    first = len(made.records)
    for number in range(first, first + count):
        made.add_record(f"r{number}", quiet=9000.0, slot=number)


def causes(made: World) -> set[Cause | None]:
    return {part.cause for part in made.breaker.parts}


def test_a_batch_at_the_limit_is_freed_cap_by_cap() -> None:
    made = leaked(100)
    assert not made.breaker.is_open
    assert len(made.cleaned) == 5
    made.round(rounds=20)
    assert not made.breaker.is_open


def test_more_than_a_hundred_newly_eligible_open_it_and_none_is_freed() -> None:
    made = leaked(101)
    assert causes(made) == {Cause.CLEAN_RATE}
    assert dict(made.breaker.detail) == {"count": 101, "limit": 100}
    assert made.cleaned == []
    verdict = made.of_record("r0")
    assert (verdict.kind, verdict.reason) == (Kind.KEEP, Reason.BREAKER_OPEN)
    assert (verdict.measures or {})["cause"] == "clean_rate"
    made.round(rounds=30)
    assert causes(made) == {Cause.CLEAN_RATE}, "nothing but a reset closes it"


def test_with_many_slots_it_is_a_tenth_of_them() -> None:
    made = world(max_cleans_per_cycle=5)
    made.flags["slots"] = 2000
    more(made, 150)
    made.settle()
    assert not made.breaker.is_open
    assert rate_limits.eligible_limit(2000) == 200
    assert rate_limits.eligible_limit(None) == rate_limits.eligible_limit(999) == 100


def test_those_of_more_than_ten_minutes_ago_are_not_counted() -> None:
    made = leaked(60)
    made.round(rounds=11)
    more(made, 60)
    made.round(rounds=5)
    assert not made.breaker.is_open
    more(made, 41)
    made.round(rounds=5)
    assert causes(made) == {Cause.CLEAN_RATE}


@pytest.mark.parametrize("restarts", [False, True], ids=["same-run", "next-run"])
def test_what_an_operator_has_looked_at_is_not_counted_again(restarts: bool) -> None:
    made = leaked(101)
    made.breaker = breakers.reset(made.breaker, made.now)
    if restarts:
        made.history = replace(made.history, eligible={})
        made.breaker = replace(made.breaker, looked_at=float("-inf"))
    made.round()
    assert not made.breaker.is_open
    assert len(made.cleaned) == 5


def test_what_a_collapse_is_known_to_explain_is_not_counted() -> None:
    made = world(max_cleans_per_cycle=5)
    more(made, 101)
    made.breaker = Breaker(gone=frozenset(f"i-r{number}" for number in range(50)))
    made.settle()
    assert not made.breaker.is_open


@pytest.mark.parametrize("hold", [True, False])
def test_the_backlog_of_a_first_start_is_an_operators_decision_s5(hold: bool) -> None:
    made = world(max_cleans_per_cycle=5, hold_backlog=hold)
    made.flags["first_clean"] = True
    more(made, 150)
    made.settle()
    assert not made.breaker.is_open
    assert len(made.last.backlog) == (150 if hold else 0)


def test_records_are_counted_while_it_is_open_for_another_cause() -> None:
    made = world()
    made.breaker = Breaker(cause=Cause.FALSE_CLEAN, ids=frozenset({"x"}), generation=1)
    more(made, 101)
    made.settle()
    assert causes(made) == {Cause.FALSE_CLEAN, Cause.CLEAN_RATE}


def test_what_waited_to_be_freed_and_could_not_be_for_a_while_is_no_newer() -> None:
    made = leaked(60)
    made.flags["holds"] = frozenset(one.uuid for one in made.records)
    made.round(rounds=12)
    made.flags["holds"] = frozenset()
    more(made, 60)
    made.settle()
    made.round(rounds=3)
    assert not made.breaker.is_open


@given(
    st.dictionaries(st.text(max_size=4), st.floats(0.0, 2000.0), max_size=130),
    st.integers(0, 3000),
    st.floats(0.0, 2000.0),
)
def test_it_opens_exactly_above_the_limit(
    ages: dict[str, float], slots: int, looked_ago: float
) -> None:
    now = 10_000.0
    history = History(eligible={uuid: now - age for uuid, age in ages.items()})
    breaker = Breaker(looked_at=now - looked_ago)
    counted = [age for age in ages.values() if age <= ELIGIBLE_WINDOW_S and age < looked_ago]
    after = rate_limits.after_eligible(breaker, history, slots, now)
    assert after.is_open == (len(counted) > max(100, slots / 10))


# Writes that fail.


def test_the_fifth_failed_write_in_a_row_opens_it() -> None:
    breaker = Breaker()
    for failures in range(1, WRITE_FAILURES):
        assert rate_limits.after_failed_write(breaker, failures, 50.0) is breaker
    breaker = rate_limits.after_failed_write(breaker, WRITE_FAILURES, 50.0)
    assert (breaker.cause, breaker.opened_at) == (Cause.WRITES_FAIL, 50.0)
    assert rate_limits.after_failed_write(breaker, WRITE_FAILURES + 1, 60.0) is breaker
    assert not breaker.stops_booting


def test_a_write_that_succeeds_closes_it_and_leaves_other_causes() -> None:
    other = Breaker(cause=Cause.FALSE_CLEAN, ids=frozenset({"x"}), generation=1)
    both = rate_limits.after_failed_write(other, WRITE_FAILURES, 50.0)
    assert {part.cause for part in both.parts} == {Cause.FALSE_CLEAN, Cause.WRITES_FAIL}
    assert {part.cause for part in rate_limits.after_write(both).parts} == {Cause.FALSE_CLEAN}
    assert rate_limits.after_write(other) is other
    alone = rate_limits.after_failed_write(Breaker(), WRITE_FAILURES, 50.0)
    assert not rate_limits.after_write(alone).is_open


def test_a_heartbeat_or_a_real_write_is_a_probe_only_past_max_poll_time() -> None:
    breaker = rate_limits.after_failed_write(Breaker(), WRITE_FAILURES, 50.0)
    assert not rate_limits.may_try_writes(Breaker(), 9_000.0, SETTINGS)
    assert not rate_limits.may_try_writes(breaker, 50.0 + SETTINGS.max_poll_time, SETTINGS)
    assert rate_limits.may_try_writes(breaker, 51.0 + SETTINGS.max_poll_time, SETTINGS)


def test_what_an_operator_looked_at_stays_so_over_other_causes() -> None:
    looked = breakers.reset(replace(Breaker(), generation=3), 99.0)
    again = rate_limits.after_failed_write(looked, WRITE_FAILURES, 100.0)
    assert (again.looked_at, rate_limits.after_write(again).looked_at) == (99.0, 99.0)
    assert breakers.joined(again, Breaker()).looked_at == 99.0


@cases(("looked_at", "opens"), {"before": (50.0, True), "since": (200.0, False)})
def test_what_could_be_freed_when_an_operator_looked_is_not_counted_b1(
    looked_at: float, opens: bool
) -> None:
    """Whatever the reset was for: it is the operator who knows of these records."""
    history = History(eligible={f"r{number}@v1": 100.0 for number in range(101)})
    after = rate_limits.after_eligible(Breaker(looked_at=looked_at), history, None, 300.0)
    assert after.is_open is opens
