"""What a recording shows of each window: the silences, boots, absences and gaps that ended.

A window may be shorter only if the recording has some of what it waits for that came to an end by
itself: nothing else shows how short is too short. Times are epoch seconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from nodemanager.core.judge.node_view import FAILED_BOOTS
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.replay.spending import CostCause, Stretch
from nodemanager.core.replay.whatif import is_life, life_of

UNUSUAL = 3.0
"""So many times the usual time between two pings or listings is a silence or a gap."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How many of a kind ended; the longest, whose it was, and when it ended."""

    count: int = 0
    longest_s: float = 0.0
    whose: str = ""
    at: float = 0.0


@dataclass(slots=True)
class Lengths:
    """Lengths by whole seconds: how many there were, and the newest of each."""

    by_s: dict[int, Seen] = field(default_factory=dict)

    def add(self, length_s: float, whose: str, at: float) -> None:
        key = int(length_s)
        before = self.by_s.get(key)
        longest_s = length_s if before is None else max(length_s, before.longest_s)
        self.by_s[key] = Seen(1 if before is None else before.count + 1, longest_s, whose, at)

    @property
    def usual_s(self) -> float:
        """The median; 0 without any."""
        left = sum(one.count for one in self.by_s.values()) / 2
        for key in sorted(self.by_s):
            left -= self.by_s[key].count
            if left <= 0:
                return self.by_s[key].longest_s
        return 0.0

    def above(self, limit_s: float = -1.0) -> Seen:
        found = [one for one in self.by_s.values() if one.longest_s > limit_s]
        if not found:
            return Seen()
        return replace(max(found, key=_longest), count=sum(one.count for one in found))

    @property
    def unusual(self) -> Seen:
        return self.above(UNUSUAL * self.usual_s)


def _longest(seen: Seen) -> float:
    return seen.longest_s


class Evidence:
    """Follows a recording's listings and decisions."""

    def __init__(self) -> None:
        self.pings = Lengths()
        """The time between two pings of one life, as listed."""
        self.boots = Lengths()
        """From a claim to the first ping of its node."""
        self.absences = Lengths()
        """For how long a living node was not listed."""
        self.absent = Seen()
        """The same, with the most listings in a row in place of the longest time."""
        self.gaps = Lengths()
        """The time between two complete listings of one kind."""
        self.failed: set[str] = set()
        """The nodes whose boot failed."""
        self.stalled = 0
        """Decisions that did nothing because a poll was too old."""
        self.claims: dict[str, list[float]] = {}
        """By size: when each boot began."""
        self._records: Mapping[str, Record] = {}
        self._nodes: Mapping[str, CloudNode] = {}
        self._missing: dict[str, tuple[float, int]] = {}
        """When each was last listed, and how many listings there had been."""
        self._listings = 0
        self._nodes_at: float | None = None
        self._records_at: float | None = None
        self._steps_s = (math.inf, math.inf)
        """Of the last two record listings."""

    def begun(
        self,
        nodes: Mapping[str, CloudNode],
        records: Mapping[str, Record],
        nodes_at: float | None,
        records_at: float | None,
    ) -> None:
        """Go on from these listings and when they began; None: what lay before is not known."""
        self._nodes, self._records = nodes, records
        self._nodes_at, self._records_at = nodes_at, records_at
        if nodes_at is None:
            self._missing.clear()

    def nodes_listed(self, nodes: Mapping[str, CloudNode], at: float) -> None:
        """Take a complete cloud listing that began `at`."""
        before, since = self._nodes, self._nodes_at
        self._nodes, self._nodes_at = nodes, at
        if since is None:
            return
        self.gaps.add(at - since, "cloud", at)
        self._missing |= dict.fromkeys(before.keys() - nodes.keys(), (since, self._listings))
        self._listings += 1
        for node_id in (nodes.keys() - before.keys()) & self._missing.keys():
            left_at, listings = self._missing.pop(node_id)
            node = nodes[node_id]
            if not node.is_absent:
                record = self._records.get(node.tags.record or "")
                whose = (record.hostname if record is not None else None) or node.name or node_id
                self.absences.add(at - left_at, whose, at)
                seen = Seen(0, self._listings - 1 - listings, whose, at)
                most = max(self.absent, seen, key=_longest)
                self.absent = replace(most, count=self.absent.count + 1)

    def records_listed(self, records: Mapping[str, Record], at: float) -> None:
        """Take a complete record listing that began `at`."""
        before, since = self._records, self._records_at
        self._records, self._records_at = records, at
        if since is not None:
            self._steps_s = self._steps_s[1], at - since
            self.gaps.add(at - since, "records", at)
        for uuid, record in records.items():
            was = before.get(uuid)
            if was is not record:
                self._pinged(was, record, since, at)

    def _pinged(self, was: Record | None, record: Record, since: float | None, at: float) -> None:
        claim, first, last = record.claim, record.first_ping_at, record.last_ping_at
        is_same = was is not None and was.holds_anything and is_life(record, life_of(was))
        if claim is not None and not is_same and since is not None and claim.size is not None:
            self.claims.setdefault(claim.size, []).append(claim.at)
        if claim is not None and first is not None and since is not None:
            new = was is not None and was.first_ping_at is None if is_same else claim.at >= since
            if new:
                self.boots.add(max(0.0, first - claim.at), record.hostname or record.uuid, first)
        if not is_same or was is None or last is None or was.last_ping_at is None:
            return
        gap_s = last - was.last_ping_at
        if gap_s > 0.0 and since is not None:
            # It was silent until the listing before; pings that a late listing hides are not known.
            quiet_s = max(0.0, since - was.last_ping_at) + min(self._steps_s)
            self.pings.add(min(gap_s, quiet_s), record.hostname or record.uuid, last)

    def decided(self, changes: Mapping[str, Reason | None], aborted: Reason | None) -> None:
        """Take a decision's changed reasons by node id."""
        self.failed |= {one for one, reason in changes.items() if reason in FAILED_BOOTS}
        self.stalled += aborted is Reason.POLL_STALE

    def facts_of(self, option: str) -> dict[str, float]:
        """What else counts for an option."""
        facts = {
            "boot_fail_after": {"boots failed": len(self.failed)},
            "poll_stale_after": {"decisions waited for a poll": self.stalled},
        }
        return dict(facts.get(option, {}))


# Idle time.


def is_idle(stretch: Stretch) -> bool:
    return stretch.cause in (CostCause.IDLE, CostCause.SPARE, CostCause.LATE)


@dataclass(slots=True)
class IdleSpell:
    """A node's time from its last work to its next (`worked`), or to its shutdown as idle."""

    size: str
    price: float | None
    until: float
    worked: bool
    shut_down: bool
    stretches: list[Stretch]

    def of(self, reason: Reason) -> float:
        """Its seconds under that reason."""
        return sum(one.until - one.since for one in self.stretches if one.reason is reason)


def by_node(stretches: Iterable[Stretch]) -> list[list[Stretch]]:
    found: dict[str, list[Stretch]] = {}
    for one in sorted(stretches, key=lambda one: one.since):
        found.setdefault(one.node, []).append(one)
    return [*found.values()]


def idle_spells(stretches: Iterable[Stretch]) -> list[IdleSpell]:
    """The spells in which a node was idle and that ended."""
    spells = []
    for own in by_node(stretches):
        idle: list[Stretch] = []
        for one in own:
            if is_idle(one):
                idle.append(one)
                continue
            if idle:
                worked = one.cause is CostCause.BUSY
                shut_down = one.reason is Reason.IDLE_BEYOND_DEMAND
                until = idle[-1].until
                spells.append(IdleSpell(one.size, one.price, until, worked, shut_down, idle))
            idle = []
    return spells


def levels(stretches: Iterable[Stretch], since: float, until: float) -> Iterator[tuple[float, int]]:
    """How many of these there were at once from `since` to `until`: for how long, and how many."""
    steps: Counter[float] = Counter({since: 0, until: 0})
    for one in stretches:
        begin, end = max(one.since, since), min(one.until, until)
        if begin < end:
            steps[begin] += 1
            steps[end] -= 1
    now = 0
    for at, later in pairwise(sorted(steps)):
        now += steps[at]
        yield later - at, now
