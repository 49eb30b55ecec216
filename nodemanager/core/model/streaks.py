"""Boots in a row that came to nothing, and the rests that followed (SAFETY.md B5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

POOL_LOOP = 10
"""After this many over all sizes, only one probe is booted at a time (B5)."""
LONGEST_REST_S = 86400.0


@dataclass(frozen=True, slots=True)
class Streak:
    """Boots in a row that came to nothing, and the rests of booting that followed.

    `until` is when booting may go on, CLOCK_BOOTTIME. `rests` counts the rests so far, each twice
    as long as the one before, up to LONGEST_REST_S. `spent` is what those nodes cost, as far as
    prices are known.
    """

    failed: int = 0
    rests: int = 0
    until: float = 0.0
    spent: float = 0.0

    def failed_again(self, spent: float) -> Streak:
        """The streak with one more node, which cost `spent`."""
        return replace(self, failed=self.failed + 1, spent=self.spent + spent)

    def rested(self, at: float, first_s: float) -> Streak:
        """The streak with a rest that begins at `at`; the first rest lasts `first_s` seconds."""
        rest_s = min(LONGEST_REST_S, first_s * 2.0 ** min(self.rests, 32))
        return replace(self, rests=self.rests + 1, until=at + rest_s)


@dataclass(frozen=True, slots=True)
class Loops:
    """The streaks, by the size's name and over all sizes.

    `counted` are the lives, by key, whose node we ended, or which were counted or logged as lost,
    for as long as their records hold them: a later plan or run sees that end, too.
    """

    sizes: Mapping[str, Streak] = field(default_factory=dict)
    pool: Streak = Streak()
    counted: frozenset[str] = frozenset()

    @property
    def are_none(self) -> bool:
        """Whether no boot came to nothing since the last one that came to something."""
        return not self.sizes and self.pool == Streak()

    @property
    def probing(self) -> bool:
        """Whether only probes are booted, one per rest."""
        return self.pool.failed >= POOL_LOOP

    def resting_until(self, size: str, at: float) -> float | None:
        """When that size may be booted again, CLOCK_BOOTTIME; None if it may be now."""
        until = self.sizes.get(size, Streak()).until
        if self.probing:
            until = max(until, self.pool.until)
        return until if until > at else None


NONE = Loops()
