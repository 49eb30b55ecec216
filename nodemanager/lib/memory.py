"""Garbage collection for a process that keeps whole listings in memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from nodemanager.lib.clock import Clock

COLLECT_S = 600.0
"""The longest time between two collections, in seconds."""
COLLECT_OBJECTS = 20_000
"""The number of new objects that causes an earlier collection, or half the number of objects that
survived the last collection where that is more."""


class Collector:
    """Collects garbage by time and by large numbers of objects, in place of Python's own rules.

    Listings and the decisions from them contain no reference cycles, so reference counting frees
    them. Python's own collections would walk all of them and find nothing, and would run more
    often the more was listed. Objects that do form cycles (errors with their frames, what a
    library leaves behind with each call) can wait until it is time or there are many of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._collected_at = clock.boottime()
        self._most = _most()

    def beat(self) -> bool:
        """Collect if it is time; True if it was. Call it every few seconds."""
        now = self._clock.boottime()
        # Python counts even while collections are off: objects made since the last collection,
        # less those freed.
        made = gc.get_count()[0]
        if now - self._collected_at < COLLECT_S and made <= self._most:
            return False
        gc.collect()
        self._collected_at, self._most = now, _most()
        return True


def _most() -> int:
    """The limit of new objects, which grows with the number of objects, so that a large listing
    that replaces another causes no collection."""
    return max(COLLECT_OBJECTS, len(gc.get_objects()) // 2)


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing is collected for a while. What a program imports stays for good, and Python's own
    collections take a tenth of the time that it needs to start."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def collecting(clock: Clock) -> Iterator[Collector]:
    """Leave collecting to a Collector for a while; it never walks the objects that exist now."""
    with uncollected():
        was_frozen = gc.get_freeze_count() > 0
        gc.collect()
        gc.freeze()
        try:
            yield Collector(clock)
        finally:
            # Else what the caller froze would be walked again, too.
            if not was_frozen:
                gc.unfreeze()
