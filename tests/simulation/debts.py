"""What the calm still owes: each debt with the time by which it must be paid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tests.simulation.world import World

NEVER = float("inf")


@dataclass(frozen=True)
class Owed:
    """`what` must come `within` that many seconds of `since`, or of when it was first owed.

    `rule` is what is broken where it does not. With `within` NEVER it only keeps the run going:
    the world itself is not at rest. `key` tells one debt from all others.
    """

    rule: str
    key: str
    what: str
    since: float
    within: float


class Debtor(Protocol):
    """A monitor that tells what is owed now."""

    def owed(self) -> Iterator[Owed]: ...


class Debts:
    """Remembers since when each debt is owed without a break."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._first: dict[str, float] = {}
        self._owed: list[Owed] = []

    def look(self, owed: Iterable[Owed]) -> bool:
        """Say whether nothing is owed now; what is overdue is a violation."""
        now = self.world.engine.now
        self._owed = list(owed)
        self._first = {one.key: self._first.get(one.key, now) for one in self._owed}
        for one in self._owed:
            since = max(one.since, self._first[one.key])
            if now > since + one.within:
                late = now - since - one.within
                self.world.violate(
                    one.rule,
                    f"{one.what}: due {one.within:.0f} s after {since:.0f}, {late:.0f} ago",
                )
        return not self._owed

    def due_by(self, at: float) -> float:
        """When all is due that is owed now and was first owed by `at`; `at` where nothing is."""
        ends = [
            max(one.since, self._first[one.key]) + one.within
            for one in self._owed
            if one.within < NEVER and self._first[one.key] <= at
        ]
        return max(ends, default=at)

    def end(self) -> None:
        """The calm is over: whatever is owed now does not come."""
        for one in self._owed:
            since = self.world.engine.now - self._first[one.key]
            self.world.violate(one.rule, f"{one.what}: not at rest, for {since:.0f} s")
