"""Counts of a server's refused requests by reason, with a rate-limited log line.

Requests that end in an error of ours have such a limit, too: one traceback for each place in the
code where they fail.
"""

from __future__ import annotations

import re
from traceback import format_exception

from nodemanager.core.model.reasons import REQUEST, Event, Reason
from nodemanager.lib import log
from nodemanager.lib.clock import Clock
from nodemanager.lib.logline import describe
from nodemanager.lib.throttle import Throttle, place_of

REASONS = tuple(one for one in Reason if REQUEST in one.row.means)
_QUERY = re.compile(r"\?[^\s'\"]*")

_log = log.get(__name__)


class Refusals:
    """Counts the refused requests and connections of the server `name`, in any thread."""

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self._throttle = Throttle(clock)

    def counts(self) -> dict[Reason, int]:
        """The number of refusals so far for each possible reason."""
        return {reason: self._throttle.count(reason) for reason in REASONS}

    def note(self, reason: Reason, peer: str, record: str | None = None) -> None:
        """Count a refusal of `peer`, about `record`; log it unless one was just logged."""
        count = self._throttle.to_tell(reason)
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
        return self._throttle.to_tell(what)

    def failed(self, error: Exception, path: str, note: str | None = None) -> None:
        """Log an error of ours in a request for `path`, unless one from there was just logged.

        It is logged without query strings, which have secrets: an error's text may quote a request.
        """
        count = self._throttle.to_tell(place_of(error))
        if count:
            trace = "".join(format_exception(error)).strip()
            _log.event(
                Event.SERVER_FAILED,
                level=log.ERROR,
                name=self.name,
                url=path,
                count=count,
                message=note,
                error=_QUERY.sub("?...", describe(error)),
                traceback=_QUERY.sub("?...", trace),
            )
