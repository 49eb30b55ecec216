"""The values of a sweep: round, within the range, each by about the same factor."""

from __future__ import annotations

import pytest

from nodemanager.commands.replay_values import duration, over_range, spread
from nodemanager.core.model.settings import Settings

MINUTE, HOUR = 60.0, 3600.0


def test_durations_are_round_and_the_ends_are_as_given() -> None:
    values = spread(5 * MINUTE, 4 * HOUR, 9, of=float, duration=True)
    assert [duration(value) for value in values] == [
        *("5m", "8m", "12m", "20m", "35m"),
        *("1h", "90m", "150m", "4h"),
    ]


def test_whole_numbers_are_whole_and_told_once() -> None:
    assert spread(1, 4, 9, of=int, duration=False) == [1, 2, 3, 4]
    assert spread(0, 10, 3, of=int, duration=False) == [0, 5, 10]


def test_two_steps_are_the_ends() -> None:
    assert spread(0.1, 0.9, 2, of=float, duration=False) == [0.1, 0.9]


@pytest.mark.parametrize("text", ["node_stale_after=1h..3h", "Daemon.node_stale_after=1h .. 3h"])
def test_the_recorded_value_is_one_of_them(text: str) -> None:
    sweep, tried = over_range(Settings("main"), text, (), 3, 60.0)
    assert sweep.recorded == 7200.0
    assert [one.label for one in tried] == ["1h", "105m", "2h", "3h"]
    assert dict(tried[2].variation.changes) == {}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.5, "0.5s"),
        (45.0, "45s"),
        (90.0, "90s"),
        (300.0, "5m"),
        (5400.0, "90m"),
        (7200.0, "2h"),
        (86400.0, "24h"),
        (172800.0, "2d"),
    ],
)
def test_a_duration_is_shown_as_it_is_written(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
