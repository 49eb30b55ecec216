"""A timer turned by hand."""

from __future__ import annotations

import heapq
import itertools
from typing import Any

from nodemanager.actors.base import tell
from nodemanager.actors.messages import Ref
from nodemanager.lib.clock import Clock


class ManualTimer:
    """A timer that a test or a simulation turns by hand."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Ref, Any]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, to: Ref, message: Any) -> None:
        due = self._clock.boottime() + max(0.0, seconds)
        heapq.heappush(self._heap, (due, next(self._numbers), to, message))

    @property
    def next_due(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def fire_next(self) -> bool:
        """Deliver the next message if it is due; whether one was."""
        if not self._heap or self._heap[0][0] > self._clock.boottime():
            return False
        _, _, to, message = heapq.heappop(self._heap)
        tell(to, message)
        return True

    def fire(self) -> int:
        """Deliver all that is due; how many that were."""
        fired = 0
        while self.fire_next():
            fired += 1
        return fired
