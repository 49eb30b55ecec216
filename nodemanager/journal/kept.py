"""The values that must outlive the process (R4): of each its name, its form, and its times.

Adding one is a declaration here. Times are CLOCK_BOOTTIME, which begins anew with each boot, unless
the declaration says that they are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from nodemanager.core.execute.writes import Late
from nodemanager.core.model.annotations import NO_MARKS, Marks
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.streaks import NONE, Loops, Streak
from nodemanager.core.model.world import FreedLife
from nodemanager.core.observe.clocks import Clocks, after_boot
from nodemanager.core.observe.pings import Hostname, Hostnames, hostnames_joined
from nodemanager.core.observe.snapshot import LateWrite, Rests
from nodemanager.core.safety.boot_loops import joined as loops_joined
from nodemanager.core.safety.breaker import opened
from nodemanager.journal.codec import codec_of, decoded

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Now:
    """The clocks of whoever reads or writes, in seconds.

    `boot_id` is the boot that `boottime` counts from; '' if unknown. `wall` is epoch seconds.
    """

    boot_id: str
    boottime: float
    wall: float


@dataclass(frozen=True, slots=True, eq=False)
class Kept(Generic[T]):
    """A value that is kept by `name`; `title` is what an operator calls it.

    `write` gives its JSON form (None: nothing to keep), and `read` gives it back. `read` raises
    ValueError, KeyError, TypeError or AttributeError for a form that this program does not know.
    """

    name: str
    title: str
    nothing: T
    """The value where nothing is kept."""
    write: Callable[[T, Now], Any]
    read: Callable[[Any, Now], T]
    joined: Callable[[T, T], T] = lambda kept, own: own or kept
    """What is true where `kept` is read only after this run has set `own`. The daemon may join them
    better, and keeps that then."""

    def loaded(self, data: Any, now: Now) -> T:
        """The value of the JSON form `data`, by the clocks of now. Raises as `read` does."""
        return self.nothing if data is None else self.read(data, now)


def _stamped(part: str, of: Any) -> Callable[[Any, Now], dict[str, Any] | None]:
    """Writes a value as `part`, with the boot and the clocks that its times refer to."""

    def write(value: Any, now: Now) -> dict[str, Any] | None:
        if value is None:
            return None
        return {
            part: codec_of(of).encode(value),
            "boot_id": now.boot_id,
            "boottime": now.boottime,
            "wall": now.wall,
        }

    return write


def moved_by(data: Mapping[str, Any], now: Now, passed_s: float = 0.0) -> float:
    """Seconds to add to the CLOCK_BOOTTIME times in `data` for the clock of this boot.

    Nobody knows how long ago another boot kept `data`, because the wall clock may have been set
    since. So a time is as old now as it was then, and as far ahead: no wait ends too early, and
    none lasts longer than its own length. Only where a wait may end early `passed_s` is the time
    since then by the wall clock.
    """
    if now.boot_id and data["boot_id"] == now.boot_id:
        return 0.0
    kept_at: float = data["boottime"]
    return now.boottime - passed_s - kept_at


# The breaker.


def breaker_from(data: Mapping[str, Any], now: Now) -> Breaker:
    """The breaker with its times converted to this boot's clock.

    One that can't be read is open until an operator resets it: nobody knows what it was open for.
    """
    try:
        return _breaker_moved(decoded(Breaker, data["breaker"]), moved_by(data, now))
    except (ValueError, KeyError, TypeError, AttributeError):
        return opened(Breaker(), Cause.UNREADABLE, frozenset(), now.boottime, {})


def _breaker_moved(breaker: Breaker, by_s: float) -> Breaker:
    return replace(
        breaker,
        opened_at=breaker.opened_at + by_s if breaker.is_open else breaker.opened_at,
        denied={node_id: at + by_s for node_id, at in breaker.denied.items()},
        others=tuple(_breaker_moved(other, by_s) for other in breaker.others),
        looked_at=breaker.looked_at + by_s,
        reported={key: _life_moved(life, by_s) for key, life in breaker.reported.items()},
    )


def _life_moved(life: FreedLife, by_s: float) -> FreedLife:
    reported_at = None if life.reported_at is None else life.reported_at + by_s
    return replace(life, freed_at=life.freed_at + by_s, reported_at=reported_at)


BREAKER: Kept[Breaker | None] = Kept(
    "breaker", "the breaker", None, _stamped("breaker", Breaker), breaker_from
)


# The clocks that ages are measured by.


def _clocks_from(data: Mapping[str, Any], now: Now) -> Clocks:
    """The clocks relative to this boot's; the store's by our wall clock until it is read."""
    clocks: Clocks = decoded(Clocks, data["clocks"])
    if now.boot_id and data["boot_id"] == now.boot_id:
        return clocks
    passed_s = now.wall - data["wall"]
    by_s = -moved_by(data, now, passed_s)
    store, wall = clocks.store, after_boot(clocks.wall, by_s, passed_s)
    return Clocks(None if store is None else after_boot(store, by_s, passed_s), wall)


CLOCKS: Kept[Clocks | None] = Kept(
    "clocks", "the clocks", None, _stamped("clocks", Clocks), _clocks_from
)


# The hostnames of lives.


def _hostnames_from(data: Mapping[str, Any], now: Now) -> Hostnames:
    hostnames: Hostnames = decoded(Mapping[str, Hostname], data["hostnames"])
    by_s = moved_by(data, now)
    return {
        key: one if one.missed_at is None else replace(one, missed_at=one.missed_at + by_s)
        for key, one in hostnames.items()
    }


HOSTNAMES: Kept[Hostnames] = Kept(
    "hostnames",
    "the hostnames of nodes",
    {},
    _stamped("hostnames", Mapping[str, Hostname]),
    _hostnames_from,
    hostnames_joined,
)


# The writes to records that may still take effect.


def _late_from(data: Mapping[str, Any], now: Now) -> Late:
    """The late writes, as old now as they were when they were kept."""
    late: Late = decoded(Mapping[str, LateWrite], data["writes"])
    by_s = moved_by(data, now)
    return {
        uuid: LateWrite(one.at + by_s, None if one.clean_at is None else one.clean_at + by_s)
        for uuid, one in late.items()
    }


LATE_WRITES: Kept[Late] = Kept(
    "late_writes", "late writes", {}, _stamped("writes", Mapping[str, LateWrite]), _late_from
)


# The streaks of failed boots.


def _loops_from(data: Mapping[str, Any], now: Now) -> Loops:
    """The streaks with their times converted to this boot's clock; none where another version of
    this program wrote them.

    After a reboot our wall clock tells how much of a rest is over. Where it was set ahead the rest
    ends early, which costs the price of one more node and frees nothing.
    """
    try:
        loops: Loops = decoded(Loops, data["loops"])
        by_s = moved_by(data, now, max(0.0, now.wall - data["wall"]))
    except (ValueError, KeyError):
        return NONE
    sizes = {name: _streak_moved(streak, by_s) for name, streak in loops.sizes.items()}
    return replace(loops, sizes=sizes, pool=_streak_moved(loops.pool, by_s))


def _streak_moved(streak: Streak, by_s: float) -> Streak:
    return replace(streak, until=streak.until + by_s) if streak.rests else streak


BOOT_LOOPS: Kept[Loops] = Kept(
    "boot_loops",
    "boot loops",
    NONE,
    _stamped("loops", Loops),
    _loops_from,
    loops_joined,
)


# Values whose times are epoch seconds.


def _write_rests(rests: Rests, now: Now) -> Any:
    ahead_s = now.wall - now.boottime
    return _shifted(rests, ahead_s) if rests else None


def _rests_from(data: Any, now: Now) -> Rests:
    """The rests by this boot's clock, as our wall clock tells it. Where that was set, a place is
    asked once too often, or another one is taken."""
    rests: Rests = decoded(Rests, data)
    return _shifted(rests, now.boottime - now.wall)


def _shifted(rests: Rests, by_s: float) -> Rests:
    return {
        size: {place: until + by_s for place, until in places.items()}
        for size, places in rests.items()
    }


PLACE_RESTS: Kept[Rests] = Kept("place_rests", "rests of places", {}, _write_rests, _rests_from)


def _write_marks(marks: Marks, now: Now) -> Any:
    return codec_of(Marks).encode(marks) or None


def _marks_from(data: Any, now: Now) -> Marks:
    marks: Marks = decoded(Marks, data)
    return marks


def _as_it_is(value: Any, now: Now) -> Any:
    return value


MARKS: Kept[Marks] = Kept("operator_marks", "operators' marks", NO_MARKS, _write_marks, _marks_from)
GIVEN_BACK: Kept[Mapping[str, float]] = Kept(
    "given_back",
    "given_back",
    {},
    _as_it_is,
    _as_it_is,
    lambda kept, own: {**kept, **own},
)
"""By its key, when each freed life got its record back (U8), in epoch seconds."""
BACKLOG_MARKS: Kept[Any] = Kept("backlog_marks", "backlog_marks", None, _as_it_is, _as_it_is)
"""The items of a backlog plan that an operator let go (S5), as JSON."""
ALL: tuple[Kept[Any], ...] = (
    BREAKER,
    LATE_WRITES,
    CLOCKS,
    HOSTNAMES,
    GIVEN_BACK,
    BACKLOG_MARKS,
    MARKS,
    BOOT_LOOPS,
    PLACE_RESTS,
)
