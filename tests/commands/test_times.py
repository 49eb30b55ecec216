"""How a moment is given, and how moments and spans are shown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click
import pytest

from nodemanager.commands.times import _given, local, moment, time_text
from nodemanager.lib.logline import span

NOW = 1_772_366_700.0
"""2026-03-01T12:05:00Z, 13:05 in Berlin."""


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        pytest.param("now", 0, id="now"),
        pytest.param("today", 13 * 3600 + 300, id="from-midnight"),
        pytest.param("Yesterday", 37 * 3600 + 300, id="from-the-midnight-before"),
        pytest.param("2h", 7200, id="two-hours-ago"),
        pytest.param("90s ago", 90, id="with-the-word"),
        pytest.param("1.5d", 129600, id="a-day-and-a-half"),
        pytest.param("13:05", 0, id="this-minute"),
        pytest.param("13:04:30", 30, id="with-seconds"),
        pytest.param("13:06", 86400 - 60, id="a-time-to-come-was-yesterday"),
        pytest.param("2026-03-01T12:00:00Z", 300, id="utc"),
        pytest.param("2026-03-01T07:00:00-05:00", 300, id="an-offset"),
        pytest.param("2026-03-01T12:00:00.250z", 299.75, id="as-the-log-writes-it"),
        pytest.param("2026-03-01 13:00", 300, id="local-time"),
        pytest.param("2026-03-01", 13 * 3600 + 300, id="a-day-begins-at-midnight"),
        pytest.param(" 2026-02-28T13:05 ", 86400, id="blanks-around-it"),
    ],
)
def test_a_moment_is_a_time_of_the_past_as_people_write_it(text: str, ago: float) -> None:
    assert moment(text, NOW) == pytest.approx(NOW - ago, abs=1e-3)


TWICE = datetime(2026, 10, 25, 1, 10, tzinfo=UTC).timestamp()
"""02:10 in Berlin, for the second time: at 03:00 the clocks went back to 02:00."""

SKIPPED = datetime(2026, 3, 29, 1, 10, tzinfo=UTC).timestamp()
"""03:10 in Berlin: at 02:00 the clocks went forward to 03:00."""


@pytest.mark.parametrize(
    ("now", "text", "ago"),
    [
        pytest.param(TWICE, "02:30", 40 * 60, id="it-was-only-the-first-time"),
        pytest.param(TWICE, "02:05", 5 * 60, id="the-second-of-both-times"),
        pytest.param(TWICE - 3600, "02:05", 5 * 60, id="the-first-time-still"),
        pytest.param(TWICE - 3600, "02:30", 86400 - 20 * 60, id="not-yet-once"),
        pytest.param(TWICE, "03:30", 86400 - 20 * 60, id="a-day-of-25-hours-ends-later"),
        pytest.param(TWICE + 3600, "02:30", 40 * 60, id="after-both"),
        pytest.param(TWICE + 3600, "1:30", 160 * 60, id="before-both"),
        pytest.param(SKIPPED, "02:30", 40 * 60, id="a-time-that-never-was-is-not-to-come"),
        pytest.param(SKIPPED, "01:50", 20 * 60, id="before-the-gap"),
    ],
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("soon", "is not a time: write 14:05", id="a-word"),
        pytest.param("90", "is not a time: write 14:05", id="without-a-unit"),
        pytest.param("", "is not a time", id="nothing"),
        pytest.param("25:00", "not a time of day", id="too-late-an-hour"),
        pytest.param("2026-13-01", "is not a time", id="too-late-a-month"),
        pytest.param("-2h", "above zero", id="to-come"),
        pytest.param("xh", "not a duration", id="no-number"),
    ],
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


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        pytest.param(-3, "0s", id="never-below-zero"),
        pytest.param(59.4, "59s", id="seconds"),
        pytest.param(59.6, "1m 00s", id="rounded-up"),
        pytest.param(7260, "2h 01m", id="hours"),
        pytest.param(3 * 86400 + 4 * 3600, "3d 04h", id="days"),
    ],
)
def test_a_span_is_shown_in_its_two_largest_units(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
