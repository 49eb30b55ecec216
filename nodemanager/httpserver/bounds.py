"""How long a request's head may be, and how long a refused client waits for its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

LONGEST_URL = 8 * 1024
"""Each application reads a query before it knows who asks. A longer list query goes as a POST."""
_VERSIONS = ("1.0", "1.1")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::\d{1,5})?")

Header = tuple[bytes, bytes]


def problem_of(
    version: str, url: bytes, headers: Sequence[Header], most: Callable[[bytes], int]
) -> HTTPStatus | None:
    """With which status such a request is refused; None for a proper one.

    `most` gives how many bytes a request of that path, without its query, may have as its body.
    """
    if version not in _VERSIONS:
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    if len(url) > LONGEST_URL:
        return HTTPStatus.REQUEST_URI_TOO_LONG
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        return HTTPStatus.BAD_REQUEST
    if hosts and not _HOST.fullmatch(hosts[0]):
        return HTTPStatus.BAD_REQUEST
    declared = [value for name, value in headers if name == b"content-length"]
    if declared and int(declared[0]) > most(url.partition(b"?")[0]):
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return None


# How long a refused client waits for its answer, so that refusals cost the others nothing.


@dataclass(frozen=True, slots=True)
class Rate:
    """How many refusals are answered at once, and then each second."""

    at_once: int
    per_s: float


PEER = Rate(200, 50.0)
ALL = Rate(800, 200.0)
LONGEST_S = 20.0
"""No client waits longer: its connection costs little, and counts for its peer meanwhile."""
_MOST_PEERS = 10_000


@dataclass(slots=True)
class Pace:
    """The pace of one server. `now` gives seconds of a clock that never steps. For one thread."""

    now: Callable[[], float]
    _peers: dict[str, float] = field(default_factory=dict)
    _all: float = 0.0

    def wait(self, peer: str) -> float:
        """Count a refusal of `peer`; gives the seconds that its answer must wait."""
        now = self.now()
        if len(self._peers) > _MOST_PEERS:
            self._peers = {one: due for one, due in self._peers.items() if due > now}
        own = _next(self._peers.get(peer, 0.0), now, PEER)
        self._peers[peer] = own
        self._all = _next(self._all, now, ALL)
        late = max(own - PEER.at_once / PEER.per_s, self._all - ALL.at_once / ALL.per_s) - now
        return min(LONGEST_S, max(0.0, late))


def _next(due: float, now: float, rate: Rate) -> float:
    """When the refusals counted so far, and one more, would be over at `rate`."""
    longest = now + rate.at_once / rate.per_s + LONGEST_S
    return min(longest, max(due, now) + 1 / rate.per_s)
