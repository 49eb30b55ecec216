"""How long a refused client waits for its answer, so that refusals cost the others nothing.

A few refusals are answered at once: nodes that were freed still ping, people mistype. A client
that is refused again and again is answered more slowly, which also limits how many tokens and
secrets it can try. Nobody waits whose request is fulfilled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rate:
    """So many refusals are answered at once, and then so many a second."""

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
