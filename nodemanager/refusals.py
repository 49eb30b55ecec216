"""What a server refused, counted by reason, with a line in the log now and then."""

from __future__ import annotations

import threading
from collections import Counter

from nodemanager import log
from nodemanager.clock import Clock, SystemClock
from nodemanager.core.reasons import Event, Reason

EVERY_S = 60.0
"""At most one line in this time for each reason: whoever knocks must not fill the disk."""

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
    """The refused requests and connections of the server `name`. Any thread may use it."""

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._counts: Counter[Reason] = Counter()
        self._logged: dict[Reason, tuple[float, int]] = {}

    def counts(self) -> dict[Reason, int]:
        """How many so far, for each reason there may be."""
        with self._lock:
            return {reason: self._counts[reason] for reason in REASONS}

    def note(self, reason: Reason, peer: str, record: str | None = None) -> None:
        """Count one, from `peer`, about `record`; log it unless a line was written just now."""
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
