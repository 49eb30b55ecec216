"""How garbage is collected in a process that keeps whole listings in memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from nodemanager.clock import Clock

COLLECT_S = 600.0


class Collector:
    """Collects now and then, and not whenever enough was made.

    What a poll brings, and what is decided from it, refers to nothing that refers back: counting
    references frees it. Python's own collections walk all of it to find nothing, the more often
    the more was listed. What does form cycles - errors with their frames - is little, and waits.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._collected_at = clock.boottime()

    def beat(self) -> bool:
        """Collect if it is time; whether it was. To be called every few seconds."""
        now = self._clock.boottime()
        if now - self._collected_at < COLLECT_S:
            return False
        gc.collect()
        self._collected_at = now
        return True


@contextmanager
def collecting(clock: Clock) -> Iterator[Collector]:
    """Leave collecting to a Collector for a while."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield Collector(clock)
    finally:
        if was_on:
            gc.enable()
