"""Counts of a server's refused requests by reason, with a rate-limited log line."""

from __future__ import annotations

import threading
from collections import Counter

from nodemanager import log
from nodemanager.clock import Clock, SystemClock
from nodemanager.core.model.reasons import Event, Reason

EVERY_S = 60.0
"""Seconds between two lines for one reason: clients must not be able to fill the disk."""

REASONS = (
    Reason.NO_TOKEN,
    Reason.WRONG_TOKEN,
    Reason.WRONG_SECRET,
    Reason.WRONG_INSTANCE,
    Reason.WRONG_HOST,
    Reason.NOT_HTTP,
    Reason.TOO_LARGE,
    Reason.TOO_SLOW,
    Reason.TOO_MANY_CONNECTIONS,
)

_log = log.get(__name__)


class Refusals:
    """Counts the refused requests and connections of the server `name`, in any thread."""

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._counts: Counter[Reason] = Counter()
        self._logged: dict[Reason, tuple[float, int]] = {}

    def counts(self) -> dict[Reason, int]:
        """The number of refusals so far for each possible reason."""
        with self._lock:
            return {reason: self._counts[reason] for reason in REASONS}

    def note(self, reason: Reason, peer: str, record: str | None = None) -> None:
        """Count a refusal of `peer`, about `record`; log it unless one was just logged."""
        now = self._clock.boottime()
        with self._lock:
            self._counts[reason] += 1
            count = self._counts[reason]
            at, told = self._logged.get(reason, (None, 0))
            if at is not None and now - at < EVERY_S:
                return
            self._logged[reason] = (now, count)
        _log.event(
            Event.REQUEST_REFUSED,
            level=log.WARNING,
            name=self.name,
            reason=reason,
            address=peer,
            record=record,
            count=count - told,
        )
