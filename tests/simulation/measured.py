"""What no journal knows of the store's clock: a slow time whose measurement died unwritten (A3).

This is said of the world alone: what the clock showed, who read it when, and which reading a disk
took or would have taken. What a manager makes of its readings plays no part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nodemanager.actors.messages import RecordsListed
from nodemanager.core.model.settings import CLOCK_STEP_S
from nodemanager.core.model.world import Record
from tests.simulation.engine import EPOCH

if TYPE_CHECKING:
    from tests.simulation.world import Pool, World


@dataclass
class Era:
    """The time from one step of the store's clock to the next.

    `error` is how far the clock is ahead of the truth. `stamps` are those made in it, by uuid.
    """

    since: float
    error: float
    stamps: defaultdict[str, set[float]] = field(default_factory=lambda: defaultdict(set))


@dataclass(frozen=True)
class Reading:
    """What a manager was answered at that time: how far the clock is ahead of the truth."""

    at: float
    error: float


@dataclass(frozen=True)
class Lost:
    """Stamps of this time look older than they are by `slow_s`; `uuids` are what bears them."""

    since: float
    until: float
    slow_s: float
    uuids: frozenset[str]


class Measured:
    """Breaks A3 for the records that bear stamps of a slow time, once a run knows nothing of it.

    A contradiction between the stamps of any record that a run is shown tells it: from then on A3
    holds for these records.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._eras = [Era(float("-inf"), 0.0)]
        self._read: dict[str, Reading] = {}
        """By manager, its newest reading."""
        self._kept: dict[str, Reading] = {}
        """By pool, the newest reading that is in its journal, or that nothing kept out of it."""
        self._begun: set[str] = set()
        self._lost: defaultdict[str, list[Lost]] = defaultdict(list)
        world.weather.answered.append(self._answered)
        world.registry.changed.append(self._changed)
        world.given.append(self._given)
        for pool in world.pools.values():
            pool.journal.clock_kept = partial(self._keep, pool)

    def stepped(self) -> None:
        now = self.world.engine.now
        self._eras.append(Era(now, self.world.registry.now() - EPOCH - now))

    def slow_s(self, pool: Pool, at: float) -> float:
        """By how much older than it is a stamp of that time may look to the pool's managers."""
        lost = self._lost[pool.name]
        return max((one.slow_s for one in lost if one.since <= at < one.until), default=0.0)

    def _answered(self, manager: str, method: str, about: str, result: Any) -> None:
        if method == "store.time":
            now = self.world.engine.now
            shown = result["now"] if isinstance(result, dict) else result[0]
            self._read[manager] = Reading(now, shown - EPOCH - now)

    def _changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        if after is not None:
            known = set() if before is None else stamps_of(before)
            self._eras[-1].stamps[after.uuid] |= stamps_of(after) - known

    def _keep(self, pool: Pool, writer: str) -> None:
        if writer in self._read:
            self._kept[pool.name] = self._read[writer]

    def _given(self, name: str, message: object) -> None:
        """A run is given a listing, with the reading of the clock that was made for it."""
        manager = self.world.managers[name]
        if not isinstance(message, RecordsListed) or manager.mode != "apply":
            return
        pool, listing = manager.pool, message.listing
        is_first = name not in self._begun
        self._begun.add(name)
        if listing.complete and any(contradicts_itself(one) for one in listing.items):
            for lost in self._lost.pop(pool.name, ()):
                self.world.keep_assumption("A3", *lost.uuids)
        elif is_first:
            self._lose(pool, self._read[name])
        if manager.lease and pool.journal.takes_writes_of(name):
            # A run that may write and writes nothing down all the same is not excused.
            self._keep(pool, name)

    def _lose(self, pool: Pool, now: Reading) -> None:
        kept = self._kept.get(pool.name)
        if kept is None:
            # It has no journal to know anything from, which is told elsewhere.
            return
        for lost in self._unknown(pool, kept, now):
            self._lost[pool.name].append(lost)
            why = f"nobody kept that the store's clock was slow by {lost.slow_s:.0f} s"
            self.world.break_assumption("A3", why, *lost.uuids)

    def _unknown(self, pool: Pool, kept: Reading, now: Reading) -> Iterator[Lost]:
        """The slow times between what the journal knows and what the run read first."""
        for era, after in pairwise(self._eras):
            is_between = kept.at < after.since and era.since < now.at
            slow_s = now.error - era.error
            is_known = abs(era.error - kept.error) <= CLOCK_STEP_S
            if not is_between or slow_s <= CLOCK_STEP_S or is_known:
                continue
            ours = frozenset(
                one.uuid
                for one in self.world.registry.records()
                if one.pool in (pool.name, None) and stamps_of(one) & era.stamps[one.uuid]
            )
            if ours:
                yield Lost(era.since, after.since, slow_s, ours)


def stamps_of(record: Record) -> set[float]:
    """All times in it that the store's clock made."""
    claimed = None if record.claim is None else record.claim.at
    stamps = (record.modified_at, record.first_ping_at, record.last_ping_at, claimed)
    return {stamp for stamp in stamps if stamp is not None}


def contradicts_itself(record: Record) -> bool:
    """Whether a later write bears the lower stamp, by over a minute."""
    modified, first, last = record.modified_at, record.first_ping_at, record.last_ping_at
    claimed = None if record.claim is None else record.claim.at
    pairs = ((claimed, modified), (first, modified), (last, modified), (first, last))
    return any(
        earlier is not None and later is not None and earlier - later > CLOCK_STEP_S
        for earlier, later in pairs
    )
