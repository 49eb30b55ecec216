"""When the slots run out, by a line through how many were held lately."""

from __future__ import annotations

import math

import pytest

from nodemanager.web.metrics import EVERY_S, NEEDED_S, WINDOW_S, SlotTrend, Taken, run_out_s
from tests.cases import cases

HOUR = 3600.0


def line(*, used: float, each_hour: float, hours: float, total: int = 100) -> list[Taken]:
    """Samples a minute apart."""
    minutes = range(round(hours * 60) + 1)
    held = [round(used + each_hour * minute / 60) for minute in minutes]
    return [Taken(60.0 * n, one, total - one) for n, one in enumerate(held)]


@cases(
    ("samples", "expected"),
    {
        "a-leak": (line(used=40, each_hour=10, hours=2), 4 * HOUR),
        "steady": (line(used=40, each_hour=0, hours=2), math.inf),
        "given-back": (line(used=40, each_hour=-10, hours=2), math.inf),
        "too-young": (line(used=40, each_hour=10, hours=0.9), math.inf),
        "none-free": (line(used=100, each_hour=0, hours=0.1), 0.0),
        "nothing-known": ([], math.inf),
    },
)
def test_the_slots_run_out_where_the_line_meets_the_last_one(
    samples: list[Taken], expected: float
) -> None:
    assert run_out_s(samples) == pytest.approx(expected, rel=0.01)


def test_a_wave_of_jobs_an_hour_ago_is_not_taken_for_a_leak() -> None:
    """Sixty nodes came within ten minutes, and stay: no line that ends tonight."""
    wave = [Taken(60.0 * n, min(60, max(0, 6 * (n - 300))), 0) for n in range(361)]
    free = [one._replace(free=100 - one.used) for one in wave]
    assert run_out_s(free) > 2 * HOUR


def test_a_sample_a_minute_is_kept_for_the_window() -> None:
    trend = SlotTrend()
    for second in range(0, round(WINDOW_S + HOUR), 5):
        trend.note(Taken(float(second), second // 3600, 50))
    kept = trend._samples
    assert len(kept) == pytest.approx(WINDOW_S / EVERY_S, abs=2)
    assert kept[-1].at - kept[0].at <= WINDOW_S
    assert kept[-1].at == WINDOW_S + HOUR - 5
    assert trend.run_out_s() == pytest.approx(50 * HOUR, rel=0.05)


def test_the_newest_sample_counts_at_once() -> None:
    trend = SlotTrend()
    for at in (0.0, NEEDED_S, NEEDED_S + 1):
        trend.note(Taken(at, 10, 90))
    assert trend.run_out_s() == math.inf
    trend.note(Taken(NEEDED_S + 2, 100, 0))
    assert trend.run_out_s() == 0.0
