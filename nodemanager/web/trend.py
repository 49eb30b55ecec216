"""When the slots run out, if they go on being taken as they were lately."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

WINDOW_S = 6 * 3600.0
"""How far back the trend looks."""
NEEDED_S = 3600.0
"""The least time of samples for a trend: the nodes that a start boots are none."""
EVERY_S = 60.0


class Taken(NamedTuple):
    """How many slots were held at `at` (boottime seconds), and how many were free."""

    at: float
    used: int
    free: int


class SlotTrend:
    """Keeps a sample a minute of the slots taken. Any thread may call its methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[Taken] = deque()

    def note(self, sample: Taken) -> None:
        """Take a sample, in the place of the last one until that is a minute from its own last."""
        with self._lock:
            samples = self._samples
            if len(samples) > 1 and samples[-1].at - samples[-2].at < EVERY_S:
                samples.pop()
            samples.append(sample)
            while sample.at - samples[0].at > WINDOW_S:
                samples.popleft()

    def run_out_s(self) -> float:
        """See `run_out_s`."""
        with self._lock:
            samples = tuple(self._samples)
        return run_out_s(samples)


def run_out_s(samples: Sequence[Taken]) -> float:
    """Seconds until no slot is free, by a straight line through `samples`; from the newest on.

    0 where none is free, infinite where they are not taken faster than given back, or where there
    are samples of less than NEEDED_S.
    """
    if not samples:
        return math.inf
    newest = samples[-1]
    if newest.free <= 0:
        return 0.0
    if newest.at - samples[0].at < NEEDED_S:
        return math.inf
    mean_at = math.fsum(one.at for one in samples) / len(samples)
    mean_used = math.fsum(one.used for one in samples) / len(samples)
    spread = math.fsum((one.at - mean_at) ** 2 for one in samples)
    rise = math.fsum((one.at - mean_at) * (one.used - mean_used) for one in samples)
    return newest.free * spread / rise if rise > 0.0 else math.inf
