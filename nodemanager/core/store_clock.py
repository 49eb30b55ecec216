"""The store's clock, as measured: offset, steps and stamps from the future (SAFETY.md T1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodemanager.core.model import StoreTime
from nodemanager.core.settings import CLOCK_AGREE_POLLS, CLOCK_STEP_S

STEPS_KEPT = 16


@dataclass(frozen=True, slots=True)
class Future:
    """A record's version whose stamp was ahead of the store's clock when we first saw it.

    Its age counts from `seen_at`, CLOCK_BOOTTIME, so that no clock of others has a say in it.
    """

    version: str
    seen_at: float


@dataclass(frozen=True, slots=True)
class StoreClock:
    """The store's clock against ours: epoch seconds = `offset` + CLOCK_BOOTTIME (T1).

    `steps` are forward jumps as (store time after the jump, size): a stamp from before one looks
    too old by its size. `agreed` counts the polls since the last jump; `read_at` is CLOCK_BOOTTIME
    of the newest reading.
    """

    offset: float
    error_s: float
    agreed: int = CLOCK_AGREE_POLLS
    steps: tuple[tuple[float, float], ...] = ()
    read_at: float = float("inf")

    def now(self, boottime: float) -> float:
        return self.offset + boottime

    def age(self, stamp: float, boottime: float) -> float:
        """Seconds since `stamp`, never too many: less the measuring error and known jumps."""
        age = self.offset + boottime - stamp - self.error_s
        for after, size in self.steps:
            if stamp < after:
                age -= size
        return age

    @property
    def trusted(self) -> bool:
        return self.agreed >= CLOCK_AGREE_POLLS

    def trusted_at(self, boottime: float, fresh_s: float) -> bool:
        """Trusted, and read not longer than `fresh_s` ago: an old reading measures no skew."""
        return self.trusted and boottime - self.read_at <= fresh_s

    def read(self, seen: StoreTime) -> StoreClock:
        """The clock after another reading; a jump is remembered, and trust begins anew."""
        offset = seen.at - seen.boottime
        step = offset - self.offset
        if abs(step) <= CLOCK_STEP_S + seen.error_s + self.error_s:
            return replace(
                self,
                offset=offset,
                error_s=seen.error_s,
                agreed=min(self.agreed + 1, CLOCK_AGREE_POLLS),
                read_at=seen.boottime,
            )
        steps = (
            _forward(self.steps, seen.at, step) if step > 0 else _back(self.steps, seen.at, step)
        )
        return StoreClock(offset, seen.error_s, 1, steps, seen.boottime)


Steps = tuple[tuple[float, float], ...]


def _forward(steps: Steps, after: float, size: float) -> Steps:
    """With one more jump; too many become one, which makes an old stamp younger, never older."""
    steps = (*steps, (after, size))
    if len(steps) <= STEPS_KEPT:
        return steps
    (first, one), (second, other), *rest = steps
    return ((max(first, second), one + other), *rest)


def _back(steps: Steps, now: float, size: float) -> Steps:
    """A jump back undoes as much of the newest jumps forward.

    Otherwise a clock set wrong and right again would make every later stamp look young. What is
    left of a jump counts for stamps before `now` only: those after it were made after it.
    """
    undo = -size
    kept: Steps = ()
    for after, jump in reversed(steps):
        left = max(0.0, jump - undo)
        undo = max(0.0, undo - jump)
        if left > 0.0:
            kept = ((min(after, now), left), *kept)
    return kept


def first_reading(seen: StoreTime) -> StoreClock:
    return StoreClock(seen.at - seen.boottime, seen.error_s, read_at=seen.boottime)
