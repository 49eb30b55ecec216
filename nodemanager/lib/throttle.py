"""How often something may be told in the log that others can make happen as often as they like."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable
from traceback import walk_tb

from nodemanager.lib.clock import Clock, SystemClock

EVERY_S = 60.0
"""Seconds between two lines about one thing: nobody must be able to fill the disk."""
_MOST_THINGS = 200
_OTHERS = "all others"


class Throttle:
    """Counts things, and says when to tell of one; in any thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._counts: Counter[Hashable] = Counter()
        self._logged: dict[Hashable, tuple[float, int]] = {}

    def to_tell(self, thing: Hashable) -> int:
        """Count it; how often it came since it was told of, 0 where that was a moment ago.

        Whoever gets a number must tell it now. Things beyond a few hundred are counted as one.
        """
        now = self._clock.boottime()
        with self._lock:
            if thing not in self._counts and len(self._counts) >= _MOST_THINGS:
                thing = _OTHERS
            self._counts[thing] += 1
            count = self._counts[thing]
            at, logged = self._logged.get(thing, (None, 0))
            if at is not None and now - at < EVERY_S:
                return 0
            self._logged[thing] = (now, count)
            return count - logged

    def count(self, thing: Hashable) -> int:
        with self._lock:
            return self._counts[thing]


def place_of(error: BaseException) -> str:
    """The kind of an error and where in the code it was raised: one thing to tell of."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    file, line = frames[-1] if frames else ("", 0)
    return f"{type(error).__name__} {file}:{line}"
