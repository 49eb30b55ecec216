"""The clocks that ages are measured by, the store's and our wall clock, as we measure them (T1).

CLOCK_BOOTTIME is the witness: a clock that moves against it by more than a minute has jumped, and
no age counts time before that. Both may be one clock, so that they agree tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import CLOCK_AGREE_POLLS, CLOCK_STEP_S
from nodemanager.core.model.world import Listing, Record, StoreTime

KEEP_OFFSET_S = 1.0
QUICK_S = 1.0
"""A reading with a smaller error says by itself what the clock shows."""
ALWAYS = float("-inf")
"""Since when a clock is known that has not jumped as far as anybody knows."""


@dataclass(frozen=True, slots=True)
class Future:
    """A record's version whose stamp was ahead of the store's clock when first seen.

    The version's age counts from `seen_at`, when we first saw it (CLOCK_BOOTTIME), and no other
    clock changes it. `stamp` is its newest stamp: a new stamp on the same version is a sign of
    life.
    """

    version: str
    seen_at: float
    stamp: float = 0.0


@dataclass(frozen=True)
class MeasuredClock:
    """A clock relative to ours: its epoch seconds = `offset` + CLOCK_BOOTTIME (T1).

    The newest reading was made at `read_at`, CLOCK_BOOTTIME, with an error of at most `error_s`.
    `agreed` counts the readings since the last jump, up to CLOCK_AGREE_POLLS. No age is longer than
    the time since `known_since`, CLOCK_BOOTTIME: when we noticed the newest jump.
    `by_wall` says that the offset was carried over a boot by our wall clock. `firm` is the offset
    and the error of the last reading that took no long time, None where that is the newest: a
    reading that took long agrees with the clock before a jump and with the clock after it.
    """

    offset: float
    error_s: float
    agreed: int = CLOCK_AGREE_POLLS
    read_at: float = float("inf")
    known_since: float = ALWAYS
    by_wall: bool = False
    firm: tuple[float, float] | None = None

    def now(self, boottime: float) -> float:
        """What the clock shows, epoch seconds, at `boottime`."""
        return self.offset + boottime

    def age(self, stamp: float, boottime: float) -> float:
        """Seconds from `stamp` to `boottime`, never too many: less the error, none before a jump.

        Negative for a stamp that is in the future.
        """
        age, longest = self.offset + boottime - stamp - self.error_s, boottime - self.known_since
        return longest if longest < age else age

    def since(self, stamp: float, boottime: float) -> float:
        """When `stamp` was made, CLOCK_BOOTTIME, never too early, and not after `boottime`."""
        age = self.age(stamp, boottime)
        return boottime - age if age > 0.0 else boottime

    @property
    def has_jumped(self) -> bool:
        return self.known_since != ALWAYS

    @property
    def newest(self) -> StoreTime:
        return StoreTime(self.now(self.read_at), self.read_at, self.error_s)

    @property
    def trusted(self) -> bool:
        """Whether enough readings agree since the last jump."""
        return self.agreed >= CLOCK_AGREE_POLLS

    def trusted_at(self, boottime: float, fresh_s: float) -> bool:
        """Whether it is trusted and was read at most `fresh_s` ago; an old reading may be wrong."""
        return self.trusted and boottime - self.read_at <= fresh_s

    def read(self, seen: StoreTime) -> MeasuredClock:
        """The clock after another reading; a jump starts every age anew, and `agreed` at 1."""
        offset = seen.at - seen.boottime
        before, error_s = self.firm or (self.offset, self.error_s)
        if abs(offset - before) > CLOCK_STEP_S + seen.error_s + error_s:
            # Nobody knows when between the two readings it jumped: it counts from the later one.
            return changed(first_reading(seen), agreed=1, known_since=seen.boottime)
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


@dataclass(frozen=True)
class Clocks:
    """What a later run must know of both clocks; the store's is None before its first reading."""

    store: MeasuredClock | None
    wall: MeasuredClock


def first_reading(seen: StoreTime) -> MeasuredClock:
    """The clock after its first reading, trusted at once."""
    return MeasuredClock(seen.at - seen.boottime, seen.error_s, read_at=seen.boottime)


def wall_read(before: MeasuredClock | None, wall: float, boottime: float) -> MeasuredClock:
    """Our wall clock after another reading; the same where that tells no later run anything."""
    seen = StoreTime(wall, boottime, 0.0)
    if before is None:
        return first_reading(seen)
    after = before.read(seen)
    return after if is_news(before, after) else before


def is_news(kept: MeasuredClock | None, now: MeasuredClock | None) -> bool:
    """Whether the clock differs from the one last stored by more than the noise of readings."""
    if kept is None or now is None:
        return kept is not now
    if abs(now.offset - kept.offset) > KEEP_OFFSET_S:
        return True
    return changed(now, offset=kept.offset, error_s=kept.error_s, read_at=kept.read_at) != kept


def after_boot(kept: MeasuredClock, by_s: float, passed_s: float = 0.0) -> MeasuredClock:
    """The clock stored before a reboot of this machine, converted to this boot (R4).

    `by_s` is how much less CLOCK_BOOTTIME shows because of the reboot, by our wall clock, which
    says that `passed_s` passed since. Only the offset believes it: a jump is as old now as it was.
    """
    return changed(
        kept,
        offset=kept.offset + by_s,
        firm=None if kept.firm is None else (kept.firm[0] + by_s, kept.firm[1]),
        known_since=kept.known_since - by_s + passed_s,
        read_at=float("-inf"),
        by_wall=True,
    )


def joined(kept: MeasuredClock, now: MeasuredClock) -> MeasuredClock:
    """`now`, the clock of this run, corrected by `kept`, the clock of a former run (T1, R4).

    Where they do not agree, it jumped before our first reading, and it counts from the newest one.
    """
    clock = kept.read(now.newest)
    return changed(
        now,
        agreed=min(clock.agreed, now.agreed),
        known_since=max(clock.known_since, now.known_since),
    )


# What the stamps of records tell on the store's clock: that it was set back unmeasured (T1).


def after_stamps(
    clock: MeasuredClock, listing: Listing[Record], *, is_first: bool
) -> MeasuredClock:
    """The clock after `listing`: known since its end if stamps in it contradict each other.

    A jump that we know of explains such stamps. But not in the first listing of a run: what that
    shows may also come from the time between two runs, in which nobody read the clock.
    """
    if clock.has_jumped and not is_first:
        return clock
    if not contradicted(listing):
        return clock
    return changed(clock, known_since=listing.ended_at)


def contradicted(listing: Listing[Record]) -> list[str]:
    """The uuids of records whose stamps contradict each other."""
    return [record.uuid for record in listing.items if _contradicts_itself(record)]


def _contradicts_itself(record: Record) -> bool:
    """Whether a later write of `record` has the lower stamp, by more than a minute.

    Every write and every ping moves `modified_at`, and no ping comes before the first one. Pings
    may come before the claim, because a node that pings may be adopted.
    """
    modified, last, first = record.modified_at, record.last_ping_at, record.first_ping_at
    claimed = None if record.claim is None else record.claim.at
    if modified is not None:
        for stamp in (last, first, claimed):
            if stamp is not None and stamp - modified > CLOCK_STEP_S:
                return True
    return last is not None and first is not None and first - last > CLOCK_STEP_S
