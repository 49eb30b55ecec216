"""How a moment is given, and how moments and spans are shown."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click
import pytest

from nodemanager.commands.times import given, local, moment, told
from nodemanager.logline import span

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
    assert moment(text, NOW) == pytest.approx(NOW - ago)


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
    assert given("2026-03-01T12:05:00Z") == NOW
    with pytest.raises(click.BadParameter, match="is not a time"):
        given("never")


def test_a_terminal_is_told_local_time_and_a_pipe_utc() -> None:
    assert told(NOW, terminal=True) == local(NOW) == "2026-03-01 13:05:00"
    assert told(NOW, terminal=False) == "2026-03-01T12:05:00.000Z"


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
