"""How a moment is given, and how moments and spans are shown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click
import pytest

from nodemanager.commands.times import _given, local, moment, time_text
from nodemanager.lib.logline import span
from tests.cases import cases

NOW = 1_772_366_700.0
"""2026-03-01T12:05:00Z, 13:05 in Berlin."""


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@cases(
    ("text", "ago"),
    {
        "now": ("now", 0),
        "from-midnight": ("today", 13 * 3600 + 300),
        "from-the-midnight-before": ("Yesterday", 37 * 3600 + 300),
        "two-hours-ago": ("2h", 7200),
        "with-the-word": ("90s ago", 90),
        "a-day-and-a-half": ("1.5d", 129600),
        "this-minute": ("13:05", 0),
        "with-seconds": ("13:04:30", 30),
        "a-time-to-come-was-yesterday": ("13:06", 86400 - 60),
        "utc": ("2026-03-01T12:00:00Z", 300),
        "an-offset": ("2026-03-01T07:00:00-05:00", 300),
        "as-the-log-writes-it": ("2026-03-01T12:00:00.250z", 299.75),
        "local-time": ("2026-03-01 13:00", 300),
        "a-day-begins-at-midnight": ("2026-03-01", 13 * 3600 + 300),
        "blanks-around-it": (" 2026-02-28T13:05 ", 86400),
    },
)
def test_a_moment_is_a_time_of_the_past_as_people_write_it(text: str, ago: float) -> None:
    assert moment(text, NOW) == pytest.approx(NOW - ago, abs=1e-3)


TWICE = datetime(2026, 10, 25, 1, 10, tzinfo=UTC).timestamp()
"""02:10 in Berlin, for the second time: at 03:00 the clocks went back to 02:00."""

SKIPPED = datetime(2026, 3, 29, 1, 10, tzinfo=UTC).timestamp()
"""03:10 in Berlin: at 02:00 the clocks went forward to 03:00."""


@cases(
    ("now", "text", "ago"),
    {
        "it-was-only-the-first-time": (TWICE, "02:30", 40 * 60),
        "the-second-of-both-times": (TWICE, "02:05", 5 * 60),
        "the-first-time-still": (TWICE - 3600, "02:05", 5 * 60),
        "not-yet-once": (TWICE - 3600, "02:30", 86400 - 20 * 60),
        "a-day-of-25-hours-ends-later": (TWICE, "03:30", 86400 - 20 * 60),
        "after-both": (TWICE + 3600, "02:30", 40 * 60),
        "before-both": (TWICE + 3600, "1:30", 160 * 60),
        "a-time-that-never-was-is-not-to-come": (SKIPPED, "02:30", 40 * 60),
        "before-the-gap": (SKIPPED, "01:50", 20 * 60),
    },
)
def test_a_time_of_day_is_the_last_one_also_when_the_clocks_change(
    now: float, text: str, ago: float
) -> None:
    assert moment(text, now) == pytest.approx(now - ago, abs=1e-3)


def test_today_begins_at_the_first_of_two_midnights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/Havana")
    time.tzset()
    second = datetime(2026, 11, 1, 5, 20, tzinfo=UTC).timestamp()
    assert datetime.fromtimestamp(second).strftime("%H:%M") == "00:20"
    assert moment("today", second) == second - 80 * 60


@cases(
    ("text", "why"),
    {
        "a-word": ("soon", "is not a time: write 14:05"),
        "without-a-unit": ("90", "is not a time: write 14:05"),
        "nothing": ("", "is not a time"),
        "too-late-an-hour": ("25:00", "not a time of day"),
        "too-late-a-month": ("2026-13-01", "is not a time"),
        "to-come": ("-2h", "above zero"),
        "no-number": ("xh", "not a duration"),
    },
)
def test_what_is_no_time_is_refused_with_how_to_write_one(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        moment(text, NOW)


def test_an_option_refuses_what_is_no_moment_as_a_usage_error() -> None:
    assert _given("2026-03-01T12:05:00Z") == NOW
    with pytest.raises(click.BadParameter, match="is not a time"):
        _given("never")


def test_a_terminal_is_told_local_time_and_a_pipe_utc() -> None:
    assert time_text(NOW, terminal=True) == local(NOW) == "2026-03-01 13:05:00"
    assert time_text(NOW, terminal=False) == "2026-03-01T12:05:00.000Z"


@cases(
    ("seconds", "shown"),
    {
        "never-below-zero": (-3, "0s"),
        "seconds": (59.4, "59s"),
        "rounded-up": (59.6, "1m 00s"),
        "hours": (7260, "2h 01m"),
        "days": (3 * 86400 + 4 * 3600, "3d 04h"),
    },
)
def test_a_span_is_shown_in_its_two_largest_units(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
