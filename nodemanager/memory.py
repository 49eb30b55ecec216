"""How garbage is collected in a process that keeps whole listings in memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from nodemanager.clock import Clock

COLLECT_S = 600.0
"""The longest time between two collections."""
COLLECT_OBJECTS = 20_000
"""So many new objects bring one forward; or half of what survived the last, where that is more."""


class Collector:
    """Collects now and then, and not whenever enough was made.

    What a poll brings, and what is decided from it, refers to nothing that refers back: counting
    references frees it. Python's own collections walk all of it to find nothing, the more often
    the more was listed. What does form cycles - errors with their frames, what a library leaves
    behind with each call - waits, until it is time or there is much of it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._collected_at = clock.boottime()
        self._most = _most()

    def beat(self) -> bool:
        """Collect if it is time; whether it was. To be called every few seconds."""
        now = self._clock.boottime()
        # Counted on while collections are off: what was made since the last one, less what went.
        made = gc.get_count()[0]
        if now - self._collected_at < COLLECT_S and made <= self._most:
            return False
        gc.collect()
        self._collected_at, self._most = now, _most()
        return True


def _most() -> int:
    """By what there is: a listing of many nodes that replaces another is no reason to collect."""
    return max(COLLECT_OBJECTS, len(gc.get_objects()) // 2)


@contextmanager
def collecting(clock: Clock) -> Iterator[Collector]:
    """Leave collecting to a Collector for a while. What is there by now is not walked again."""
    was_on = gc.isenabled()
    gc.disable()
    gc.collect()
    gc.freeze()
    try:
        yield Collector(clock)
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
