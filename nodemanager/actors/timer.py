"""Delayed messages, so that no handler sleeps."""

from __future__ import annotations

import heapq
import itertools
import threading
from typing import Any, Protocol

from nodemanager.actors.base import tell
from nodemanager.actors.messages import Ref
from nodemanager.lib.clock import Clock


class Timer(Protocol):
    def after(self, seconds: float, to: Ref, message: Any) -> None:
        """Send the message to `to` after that many seconds of CLOCK_BOOTTIME."""
        ...


class ThreadTimer:
    """One thread for all reminders.

    It waits on CLOCK_BOOTTIME in steps of at most a second, because a condition's own time-out
    stands still while the machine is suspended.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Ref, Any]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="timer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout=5)

    def after(self, seconds: float, to: Ref, message: Any) -> None:
        due = self._clock.boottime() + max(0.0, seconds)
        with self._changed:
            heapq.heappush(self._heap, (due, next(self._numbers), to, message))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                now = self._clock.boottime()
                due = []
                while self._heap and self._heap[0][0] <= now:
                    due.append(heapq.heappop(self._heap))
                if not due:
                    wait = self._heap[0][0] - now if self._heap else 1.0
                    self._changed.wait(min(wait, 1.0))
            for _, _, to, message in due:
                tell(to, message)
