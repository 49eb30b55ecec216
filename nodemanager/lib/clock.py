"""The two clocks for code outside core; core takes times from the snapshot (SAFETY.md T2)."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """`boottime` counts seconds, through suspends too, and never steps; `wall` is epoch seconds."""

    def boottime(self) -> float: ...

    def wall(self) -> float: ...


class SystemClock:
    """The machine's own clocks."""

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        return time.time()
