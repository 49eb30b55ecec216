"""What metrics count from the logged events: how slots came free, how soon, and the trend."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from nodemanager.core.model.reasons import Event
from nodemanager.lib.logline import Fields

MOST = 100_000
"""The most ends that are remembered, of records that were not freed yet."""


class ReleaseTimes:
    """Remembers for each record, from the logged events, when its node ended (boottime seconds).

    A node that went away by itself ended with its last sign of life, as its clean tells it
    (`idle_s`); one that we destroyed, once the cloud said that it was gone.
    """

    def __init__(self) -> None:
        self._ended: dict[str, float] = {}

    def heard(self, event: Event, fields: Fields, now: float) -> float | None:
        """Take an event. For a freed record: the seconds since its node's end, if it is known."""
        record = fields.get("record")
        if record is None:
            return None
        if event is Event.NODE_GONE:
            self._note(record, now)
        elif event is Event.RECORD_CLEAN and (idle_s := fields.get("idle_s")) is not None:
            self._note(record, now - idle_s)
        elif event is Event.RECORD_CLEANED and (ended := self._ended.pop(record, None)) is not None:
            return max(0.0, now - ended)
        return None

    def _note(self, record: str, at: float) -> None:
        self._ended.pop(record, None)
        self._ended[record] = at
        if len(self._ended) > MOST:
            del self._ended[next(iter(self._ended))]


# When the slots run out, if they go on being taken as they were lately.

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


# By which way the nodes went whose slots leak.


"""The most records whose node's way out is remembered."""
UNSEEN = "unseen"
"""No destroy of this run is known: the node died or was ended by others, or before the start."""
GOING = frozenset({Event.NODE_SHUTDOWN_STARTED, Event.NODE_GONE})


class WaysOut:
    """Remembers for each record, from the logged events, why its node was ended.

    The reasons are those of doc/tune. A record that is freed, or gets a new node, is forgotten.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def heard(self, event: Event, fields: Fields) -> None:
        record = fields.get("record")
        if record is None:
            return
        if event in GOING:
            self._reasons.pop(record, None)
            reason = fields["reason"]
            self._reasons[record] = reason.value if isinstance(reason, StrEnum) else str(reason)
            if len(self._reasons) > MOST:
                del self._reasons[next(iter(self._reasons))]
        elif event in (Event.RECORD_CLEANED, Event.NODE_CREATED):
            self._reasons.pop(record, None)

    def count(self, records: Iterable[str]) -> Mapping[str, int]:
        """How many of those records, by uuid, had a node that went each way."""
        return Counter(self._reasons.get(record, UNSEEN) for record in records)
