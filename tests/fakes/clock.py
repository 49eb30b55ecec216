"""Clocks turned by hand."""

from __future__ import annotations

from threading import Lock

TICK_S = 1e-6


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


class TickingClock(ManualClock):
    """One that, like a real clock, never shows the same time twice.

    Each reading is a microsecond later, so that what ended is before what begins (C6).
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def boottime(self) -> float:
        with self._lock:
            self._boottime += TICK_S
            self._wall += TICK_S
            return self._boottime

    def advance(self, seconds: float) -> None:
        with self._lock:
            super().advance(seconds)

    def advance_to(self, boottime: float) -> None:
        with self._lock:
            super().advance(max(0.0, boottime - self._boottime))
