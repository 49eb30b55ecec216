"""How many creates and destroys run at once, and how long calls wait (U13, D6)."""

from __future__ import annotations

from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.plan.availability import after_throttled, after_worked, may_run
from tests.cases import cases

NOW = 1000.0
SETTINGS = Settings("pool", max_creates=16, max_poll_time=60.0, max_retry_after=100.0)


def throttled(limits: Limits, at: float = NOW, *, asked_s: float | None = None) -> Limits:
    return after_throttled(limits, asked_s, at, SETTINGS)


def most(limits: Limits) -> int:
    """How many may run once calls wait no more."""
    return may_run(limits, limits.throttled_until, SETTINGS)


def test_throttling_halves_how_many_run_and_leaves_one_u13() -> None:
    limits, seen = Limits(), [most(Limits())]
    for _ in range(6):
        limits = throttled(limits, limits.throttled_until)
        seen.append(most(limits))
    assert seen == [16, 8, 4, 2, 1, 1, 1]


def test_each_success_raises_it_by_one_up_to_max_creates_u13() -> None:
    limits = throttled(throttled(Limits()), NOW + 1.0)
    seen = []
    for _ in range(14):
        seen.append(most(limits))
        limits = after_worked(limits, SETTINGS)
    assert seen == [*range(4, 17), 16]
    assert after_worked(limits, SETTINGS) is limits


def test_none_runs_while_the_cloud_is_not_to_be_called_d6() -> None:
    limits = throttled(Limits(), asked_s=7.0)
    assert [may_run(limits, NOW + s, SETTINGS) for s in (0.0, 6.9, 7.0)] == [0, 0, 8]


def test_what_was_sent_before_it_was_throttled_halves_nothing_again_u13() -> None:
    """Sixteen that were sent at once are refused at once: that is one refusal, not sixteen."""
    limits = once = throttled(Limits())
    for _ in range(15):
        limits = throttled(limits, NOW + 0.1)
    assert limits == once


def test_a_wait_that_is_named_later_counts_too_d6() -> None:
    limits = throttled(throttled(Limits()), NOW + 0.5, asked_s=9.0)
    assert (limits.throttled_until, most(limits)) == (NOW + 9.5, 8)


@cases(
    ("asked_s", "waits"),
    {
        "as-asked": (7.0, [7.0, 7.0, 7.0]),
        "no-longer-than-max-retry-after": (1e6, [100.0, 100.0, 100.0]),
        "doubled": (None, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]),
    },
)
def test_how_long_calls_wait_d6(asked_s: float | None, waits: list[float]) -> None:
    limits, at, seen = Limits(), NOW, []
    for _ in waits:
        limits = throttled(limits, at, asked_s=asked_s)
        seen.append(limits.throttled_until - at)
        at = limits.throttled_until
    assert seen == waits


def test_a_success_ends_the_doubling_d6() -> None:
    limits = throttled(throttled(Limits()), NOW + 1.0)
    limits = after_worked(limits, SETTINGS)
    assert throttled(limits, NOW + 10.0).throttled_until == NOW + 11.0


def test_a_lower_max_creates_counts_at_once_s6() -> None:
    assert may_run(Limits(at_once=8), NOW, Settings("pool", max_creates=3)) == 3
