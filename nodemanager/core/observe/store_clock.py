"""The store's clock as we measure it: offset, jumps and stamps from the future (SAFETY.md T1)."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import CLOCK_AGREE_POLLS, CLOCK_STEP_S
from nodemanager.core.model.world import StoreTime

STEPS_KEPT = 16
KEEP_OFFSET_S = 1.0
QUICK_S = 1.0
"""A reading with a smaller error says by itself what the clock shows."""
Steps = tuple[tuple[float, float], ...]
Readings = tuple[StoreTime, ...]


@dataclass(frozen=True, slots=True)
class Future:
    """A record's version whose stamp was, or may have been, ahead of the store's clock when seen.

    It may have been if its age is negative once known jumps are subtracted. The version's age
    counts from `seen_at`, when we first saw it so (CLOCK_BOOTTIME), whatever other clocks do.
    `stamp` is its newest stamp: a new stamp on the same version is a sign of life.
    """

    version: str
    seen_at: float
    stamp: float = 0.0


@dataclass(frozen=True)
class StoreClock:
    """The store's clock relative to ours: its epoch seconds = `offset` + CLOCK_BOOTTIME (T1).

    The newest reading was made at `read_at`, CLOCK_BOOTTIME, with an error of at most `error_s`.
    `agreed` counts the readings since the last jump, up to CLOCK_AGREE_POLLS. `steps` are forward
    jumps as (store time, size): a stamp below that time may be from before the jump, and then looks
    too old by the size. `debts` are jumps back that no forward jump has made good yet, as (what the
    clock showed before, size). No age is longer than the time since `known_since`, CLOCK_BOOTTIME.
    `by_wall` says that the offset was carried over a boot by our wall clock. `peak` is the most
    that the clock can have shown before any jump back. `firm` is the offset and the error of the
    last reading that took no long time, None where that is the newest: a reading that took long
    agrees with the clock before a jump and with the clock after it.
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
    firm: tuple[float, float] | None = None

    def now(self, boottime: float) -> float:
        """The store's time, epoch seconds, at `boottime`."""
        return self.offset + boottime

    def age(self, stamp: float, boottime: float) -> float:
        """Seconds from `stamp` to `boottime`, never too many: less the error and known jumps."""
        age = self.offset + boottime - stamp - self.error_s
        for after, size in self.steps:
            if stamp < after:
                age -= size
        longest = boottime - self.known_since
        return longest if longest < age else age

    @property
    def newest(self) -> StoreTime:
        """The newest reading."""
        return StoreTime(self.now(self.read_at), self.read_at, self.error_s)

    @property
    def trusted(self) -> bool:
        """Whether enough readings agree since the last jump."""
        return self.agreed >= CLOCK_AGREE_POLLS

    def trusted_at(self, boottime: float, fresh_s: float) -> bool:
        """Whether it is trusted and was read at most `fresh_s` ago; an old reading may be wrong."""
        return self.trusted and boottime - self.read_at <= fresh_s

    def read(self, seen: StoreTime) -> StoreClock:
        """The clock after another reading; a jump is remembered and resets `agreed` to 1."""
        offset = seen.at - seen.boottime
        before, error_s = self.firm or (self.offset, self.error_s)
        step = offset - before
        if abs(step) <= CLOCK_STEP_S + seen.error_s + error_s:
            took_long = seen.error_s > max(QUICK_S, error_s)
            return changed(
                self,
                offset=offset,
                error_s=seen.error_s,
                agreed=min(self.agreed + 1, CLOCK_AGREE_POLLS),
                read_at=seen.boottime,
                by_wall=False,
                firm=(before, error_s) if took_long else None,
            )
        if self.by_wall:
            # Nobody knows which clock jumped over the boot, the store's or our wall clock. Every
            # earlier stamp counts from now, so earlier jumps no longer matter.
            return changed(first_reading(seen), agreed=1, known_since=seen.boottime)
        # The most that the clock could show now had it not jumped.
        shown = before + seen.boottime + seen.error_s + error_s + CLOCK_STEP_S
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
    """The steps and debts after a forward jump by `size` to store time `after`.

    The part that makes good an earlier jump back is subtracted only from stamps that the slow clock
    can have made: other stamps are older than both jumps, and their age is right again. Above
    STEPS_KEPT the oldest steps are merged, which makes old stamps younger, never older.
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
        # A stamp above all that the clock can have shown before was made after the jump.
        steps = (*steps, (min(max(made_by, peak), after), size))
    while len(steps) > STEPS_KEPT:
        (first, one), (second, other), *rest = steps
        steps = ((max(first, second), one + other), *rest)
    return steps, debts


def _back(steps: Steps, debts: Steps, shown: float, now: float, size: float) -> tuple[Steps, Steps]:
    """The steps and debts after a jump back by -`size` to store time `now`.

    It undoes the newest forward jumps up to its size, and the rest is a debt; otherwise a clock set
    wrong and right again would make every later stamp look too young. What is left of a forward
    jump is subtracted only from stamps below `now`, because later ones were made after that jump.
    If a jump is undone, older debts are dropped: nobody knows which of them it had made good. An
    undone part also becomes a debt if its forward jump counted only for stamps up to `now`. From
    now on the clock shows more than those, so the two kinds of stamp can be told apart.
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
        # The rest goes on down from where the oldest undone jump began: no clock showed more there.
        # Two measurements of one and the same jump may already leave such a rest.
        owed = (*owed, (before, undo))
    if kept != steps:
        debts = ()
    return kept, (*debts, *owed)[-STEPS_KEPT:]


def first_reading(seen: StoreTime) -> StoreClock:
    """The clock after its first reading, trusted at once."""
    return StoreClock(seen.at - seen.boottime, seen.error_s, read_at=seen.boottime)


def is_news(kept: StoreClock | None, now: StoreClock, wall_moved_s: float) -> bool:
    """Whether the clock differs from the one last stored by more than the noise of readings.

    Or our wall clock moved by `wall_moved_s` against CLOCK_BOOTTIME since that one was stored:
    after a boot the wall clock tells what the stored offset means (`after_boot`).
    """
    if kept is None or max(abs(now.offset - kept.offset), abs(wall_moved_s)) > KEEP_OFFSET_S:
        return True
    return changed(now, offset=kept.offset, error_s=kept.error_s, read_at=kept.read_at) != kept


def after_boot(kept: StoreClock, by_s: float) -> StoreClock:
    """The clock stored before a reboot of this machine, converted to this boot (R4).

    `by_s` is how much less CLOCK_BOOTTIME shows because of the reboot, by our wall clock.
    """
    return changed(
        kept,
        offset=kept.offset + by_s,
        firm=None if kept.firm is None else (kept.firm[0] + by_s, kept.firm[1]),
        known_since=kept.known_since - by_s,
        read_at=float("-inf"),
        by_wall=True,
    )


def noted(readings: Readings, before: StoreClock, seen: StoreTime) -> Readings:
    """The readings, plus the two around the jump if `seen` shows one: the one before, and `seen`.

    Too many readings are all dropped.
    """
    if before.read(seen).agreed > 1:
        return readings
    readings = (*readings, before.newest, seen)
    return readings if len(readings) <= 2 * STEPS_KEPT else ()


def joined(kept: StoreClock, readings: Readings, now: StoreClock) -> StoreClock:
    """`kept`, the clock of a former run, joined with `now`, the clock of this run (T1, R4).

    `kept` reads all `readings` from which `now` was made, so that no jump counts twice. Without
    them it is unknown what jumped: then every earlier stamp counts from the newest reading.
    """
    if not readings:
        return changed(now, known_since=now.read_at)
    if now.read_at > readings[-1].boottime:
        readings = (*readings, now.newest)
    clock = kept
    for seen in readings:
        clock = clock.read(seen)
    return changed(
        clock,
        agreed=min(clock.agreed, now.agreed),
        known_since=max(clock.known_since, now.known_since),
        peak=max(clock.peak, now.peak),
    )
