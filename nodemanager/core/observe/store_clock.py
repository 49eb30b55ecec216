"""The store's clock, as measured: offset, steps and stamps from the future (SAFETY.md T1)."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import CLOCK_AGREE_POLLS, CLOCK_STEP_S
from nodemanager.core.model.world import StoreTime

STEPS_KEPT = 16
KEEP_OFFSET_S = 1.0
ROUNDING_S = 0.001
Steps = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Future:
    """A record's version whose stamp was ahead of the store's clock, or with known jumps taken off
    may have been, when we first saw it so.

    Its age counts from `seen_at`, CLOCK_BOOTTIME, so that no clock of others has a say in it.
    `stamp` is the newest one: where it moves on, though the version does not, the node was heard.
    """

    version: str
    seen_at: float
    stamp: float = 0.0


@dataclass(frozen=True)
class StoreClock:
    """The store's clock against ours: epoch seconds = `offset` + CLOCK_BOOTTIME (T1).

    `steps` are forward jumps as (store time, size): a stamp from before that time was, or may have
    been, made before the jump, and looks too old by its size. `agreed` counts the polls since the
    last jump; `read_at` is CLOCK_BOOTTIME of the newest reading. `debts` are jumps back not made
    good yet, as (what the clock showed before, size). `known_since` is CLOCK_BOOTTIME: what is from
    before it may have any age, and counts from then. `by_wall` says that the offset was carried
    over a boot by our wall clock. `peak` is the most that the clock can have shown before any jump
    back.
    """

    offset: float
    error_s: float
    agreed: int = CLOCK_AGREE_POLLS
    steps: Steps = ()
    read_at: float = float("inf")
    debts: Steps = ()
    known_since: float = float("-inf")
    by_wall: bool = False
    peak: float = float("-inf")

    def now(self, boottime: float) -> float:
        return self.offset + boottime

    def age(self, stamp: float, boottime: float) -> float:
        """Seconds since `stamp`, never too many: less the measuring error and known jumps."""
        age = self.offset + boottime - stamp - self.error_s
        for after, size in self.steps:
            if stamp < after:
                age -= size
        longest = boottime - self.known_since
        return longest if longest < age else age

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
            return changed(
                self,
                offset=offset,
                error_s=seen.error_s,
                agreed=min(self.agreed + 1, CLOCK_AGREE_POLLS),
                read_at=seen.boottime,
                by_wall=False,
            )
        if self.by_wall:
            # Whose clock moved over the boot, the store's or ours, is not told. What was stamped
            # by now counts from now, so that no jump before matters any more.
            return changed(first_reading(seen), agreed=1, known_since=seen.boottime)
        # What the clock would show now without the jump, at the most.
        shown = self.now(seen.boottime) + seen.error_s + self.error_s + ROUNDING_S
        peak = self.peak
        if step > 0:
            steps, debts = _forward(self.steps, self.debts, shown, seen.at, step, peak)
        else:
            steps, debts = _back(self.steps, self.debts, shown, seen.at, step)
            peak = max(peak, shown)
        return StoreClock(
            offset,
            seen.error_s,
            1,
            steps,
            seen.boottime,
            debts,
            known_since=self.known_since,
            peak=peak,
        )


def _forward(
    steps: Steps, debts: Steps, shown: float, after: float, size: float, peak: float
) -> tuple[Steps, Steps]:
    """With one more jump; too many become one, which makes an old stamp younger, never older.

    What undoes a jump back is taken off those stamps only that the slow clock can have made:
    others are from before both, and their age is right again.
    """
    made_by = shown
    while debts and size > 0.0:
        *earlier, (before, debt) = debts
        part = min(size, debt)
        steps = (*steps, (min(made_by, after), part))
        size -= part
        debts = (*earlier, (before, debt - part)) if debt > part else tuple(earlier)
        made_by = max(made_by, before)
    if size > 0.0:
        # What is stamped later than the clock can have shown was stamped after the jump.
        steps = (*steps, (min(max(made_by, peak), after), size))
    while len(steps) > STEPS_KEPT:
        (first, one), (second, other), *rest = steps
        steps = ((max(first, second), one + other), *rest)
    return steps, debts


def _back(steps: Steps, debts: Steps, shown: float, now: float, size: float) -> tuple[Steps, Steps]:
    """A jump back undoes as much of the newest jumps forward; the rest is a debt.

    Otherwise a clock set wrong and right again would make every later stamp look young. What is
    left of a jump counts for stamps before `now` only: those after it were made after it. Older
    debts are forgotten where a jump is undone: which of them it had made good is not told.

    What is undone is a debt, too, where all that the jump made older is stamped before `now`: the
    slow clock shows more than that already, so that its stamps tell themselves from the fast one's.
    """
    undo = -size
    kept: Steps = ()
    owed: Steps = ()
    before = shown
    for after, jump in reversed(steps):
        part = min(jump, undo)
        undo -= part
        if part > 0.0:
            owed = (*owed, (before, part)) if after <= now else ()
            before = after
        if jump > part:
            kept = ((min(after, now), jump - part), *kept)
    if undo > 0.0:
        # It goes on down from where the oldest of them began, and no clock there showed more than
        # is known of that jump: by two measures of one jump alone there is such a rest.
        owed = (*owed, (before, undo))
    if kept != steps:
        debts = ()
    return kept, (*debts, *owed)[-STEPS_KEPT:]


def first_reading(seen: StoreTime) -> StoreClock:
    return StoreClock(seen.at - seen.boottime, seen.error_s, read_at=seen.boottime)


def is_news(kept: StoreClock | None, now: StoreClock) -> bool:
    """Whether the clock differs from the one last kept by more than what polls always differ by."""
    if kept is None or abs(now.offset - kept.offset) > KEEP_OFFSET_S:
        return True
    return changed(now, offset=kept.offset, error_s=kept.error_s, read_at=kept.read_at) != kept


def after_boot(kept: StoreClock, by_s: float) -> StoreClock:
    """The clock that another boot of this machine left, before it is read again (R4).

    `by_s` is how much less CLOCK_BOOTTIME shows now than it would have shown, by our wall clock.
    """
    return changed(
        kept,
        offset=kept.offset + by_s,
        known_since=kept.known_since - by_s,
        read_at=float("-inf"),
        by_wall=True,
    )


def joined(kept: StoreClock, now: StoreClock) -> StoreClock:
    """`kept` and what was read since without it; a jump that both know makes stamps younger."""
    read = kept.read(StoreTime(now.now(now.read_at), now.read_at, now.error_s))
    if read.known_since != kept.known_since:
        # Over a boot `kept` moved against our wall clock: all that was stamped by then counts anew.
        return read
    steps, debts = now.steps, read.debts
    if now.steps or now.peak > float("-inf"):
        # Neither knows what was stamped while only the other saw the jumps.
        shown = max(kept.peak, kept.now(now.read_at) + kept.error_s + now.error_s + ROUNDING_S)
        steps = tuple((max(after, shown), size) for after, size in now.steps)
        debts = ()
    return changed(
        read,
        steps=(*read.steps, *steps),
        agreed=min(read.agreed, now.agreed),
        debts=debts,
        peak=max(read.peak, now.peak),
    )
