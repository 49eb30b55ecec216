"""A clock turned by hand that, like a real one, never shows the same time twice."""

from __future__ import annotations

from threading import Lock

from nodemanager.clock import ManualClock

TICK_S = 1e-6


class TickingClock(ManualClock):
    """Each reading is a microsecond later, so that what ended is before what begins (C6)."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def boottime(self) -> float:
        with self._lock:
            super().advance(TICK_S)
            return super().boottime()

    def advance(self, seconds: float) -> None:
        with self._lock:
            super().advance(seconds)

    def advance_to(self, boottime: float) -> None:
        with self._lock:
            super().advance(max(0.0, boottime - super().boottime()))
