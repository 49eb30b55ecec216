"""The two clocks of the shell; core takes its times from the snapshot (SAFETY.md T2)."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """`boottime` counts seconds through suspends and never steps; `wall` is epoch seconds, UTC."""

    def boottime(self) -> float: ...

    def wall(self) -> float: ...


class SystemClock:
    """The machine's own clocks."""

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        return time.time()


class ManualClock:
    """A clock that a test or a simulation moves by hand."""

    def __init__(self, boottime: float = 1000.0, wall: float = 1_700_000_000.0) -> None:
        self._boottime = boottime
        self._wall = wall

    def boottime(self) -> float:
        return self._boottime

    def wall(self) -> float:
        return self._wall

    def advance(self, seconds: float) -> None:
        self._boottime += seconds
        self._wall += seconds

    def step_wall(self, seconds: float) -> None:
        """Move the wall clock alone, as an NTP step or an operator does."""
        self._wall += seconds
