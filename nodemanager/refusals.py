"""Counts of a server's refused requests by reason, with a rate-limited log line.

Requests that end in an error of ours have such a limit, too: one traceback for each place in the
code where they fail.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from traceback import format_exception, walk_tb

from nodemanager import log
from nodemanager.clock import Clock, SystemClock
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.logline import describe

EVERY_S = 60.0
"""Seconds between two lines for one reason: clients must not be able to fill the disk."""
_MOST_PLACES = 50
_QUERY = re.compile(r"\?[^\s'\"]*")

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
        self._failures: Counter[str] = Counter()
        self._logged: dict[Reason | str, tuple[float, int]] = {}

    def counts(self) -> dict[Reason, int]:
        """The number of refusals so far for each possible reason."""
        with self._lock:
            return {reason: self._counts[reason] for reason in REASONS}

    def note(self, reason: Reason, peer: str, record: str | None = None) -> None:
        """Count a refusal of `peer`, about `record`; log it unless one was just logged."""
        with self._lock:
            self._counts[reason] += 1
            count = self._untold(reason, self._counts[reason])
        if count:
            _log.event(
                Event.REQUEST_REFUSED,
                level=log.WARNING,
                name=self.name,
                reason=reason,
                address=peer,
                record=record,
                count=count,
            )

    def to_tell(self, what: str) -> int:
        """Count it; how often it came since a line told of it, 0 while one was just written."""
        with self._lock:
            self._failures[what] += 1
            return self._untold(what, self._failures[what])

    def failed(self, error: Exception, path: str, note: str | None = None) -> None:
        """Log an error of ours in a request for `path`, unless one from there was just logged.

        It is logged without query strings, which have secrets: an error's text may quote a request.
        """
        place = _place_of(error)
        with self._lock:
            if place not in self._failures and len(self._failures) >= _MOST_PLACES:
                place = "elsewhere"
            self._failures[place] += 1
            count = self._untold(place, self._failures[place])
        if count:
            told = "".join(format_exception(error)).strip()
            _log.event(
                Event.SERVER_FAILED,
                level=log.ERROR,
                name=self.name,
                url=path,
                count=count,
                message=note,
                error=_QUERY.sub("?...", describe(error)),
                traceback=_QUERY.sub("?...", told),
            )

    def _untold(self, what: Reason | str, count: int) -> int:
        """How many of those `count` no line has told yet; 0 where it is too early for a line."""
        now = self._clock.boottime()
        at, told = self._logged.get(what, (None, 0))
        if at is not None and now - at < EVERY_S:
            return 0
        self._logged[what] = (now, count)
        return count - told


def _place_of(error: Exception) -> str:
    """Where in the code it was raised, and its kind."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    file, line = frames[-1] if frames else ("", 0)
    return f"{type(error).__name__} {file}:{line}"
