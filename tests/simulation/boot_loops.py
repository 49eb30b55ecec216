"""Boots that come to nothing are told and counted, and booting rests ever longer (B5).

A boot has failed whose node ended and never came up, by what the world did. When its manager knew
is bounded: not before the node's end, and at the latest when listings, answers and its own destroy
had told it. A rest is as short as these allow; that a node came up ends a streak at once here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from nodemanager.actors.messages import RecordsListed
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, CloudState, Record, life_key
from nodemanager.core.observe.facts import SchedulerSeen
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.told import Heard, Told
from tests.simulation.world import Pool, World

SIZE_LOOP = 5
"""So many of a size in a row, and the size rests."""
POOL_LOOP = 10
"""So many over all sizes, and one probe is booted at a time."""
LONGEST_REST_S = 86400.0
FAILED = frozenset({Reason.BOOT_FAILED, Reason.NOT_JOINED})
"""A destroy for one of these is of a node whose boot came to nothing."""
ILL = frozenset({Reason.NODE_STOPPED, Reason.NODE_DOWN})
"""So is one for these, where the node never came up."""
NEVER = float("inf")
LATE_S = 400.0
"""So long after its node's end a failure is counted at the latest."""


@dataclass
class Failure:
    """One boot that came to nothing. It is counted not before `since`, and surely at `by`."""

    size: str | None
    since: float
    by: float = NEVER
    counter: str = ""
    """The manager that knew it."""


@dataclass
class Streaks:
    """What one pool's managers may have counted, and what they must have."""

    failures: dict[str, Failure] = field(default_factory=dict)
    """By node, or by life where no node is known. All that may be counted."""
    forgiven: dict[str | None, float] = field(default_factory=dict)
    """By size, None for all sizes: who ended by then need not be counted any more."""
    shown: dict[str | None, float] = field(default_factory=dict)
    """So of who is shown up to a run that did not see it come up: it may forgive who ended by then,
    and need not."""
    unwritten_at: float = 0.0
    """What was counted by then may be forgotten by the next run, and is not by this one."""
    probes: list[float] = field(default_factory=list)
    """When the boots were ordered since only probes are."""
    shortest: float = NEVER
    longest: float = 0.0
    """Of the boot_fail_after that were in force."""

    def came_up(self, size: str | None, at: float) -> None:
        """A boot came to something: whatever ended by then may be forgotten."""
        self.forgiven[size] = self.forgiven[None] = at
        self.probes.clear()

    def is_shown_up(self, size: str | None, at: float) -> None:
        self.shown[size] = self.shown[None] = at
        self.probes.clear()

    def reset(self, at: float) -> None:
        for size in {one.size for one in self.failures.values()}:
            self.came_up(size, at)
        self.came_up(None, at)
        self.failures.clear()

    def may_be_forgotten(self, at: float) -> None:
        self.unwritten_at = at
        self.probes.clear()

    def knew_it(self, size: str | None, at: float) -> None:
        """A manager surely saw that one of that size came up: its streak is none any more."""
        self.failures = {
            key: one for key, one in self.failures.items() if one.size != size or one.by > at
        }

    def may(self, size: str | None) -> list[Failure]:
        """All that may be counted of a size, or of all sizes."""
        return [one for one in self.failures.values() if size is None or one.size == size]

    def left(self, size: str | None) -> int:
        """How many may be counted still, now that whoever came up is known to have done so."""
        forgiven = self.forgiven.get(size, float("-inf"))
        return sum(
            one.since > forgiven or forgiven < one.by <= one.since + LATE_S
            for one in self.may(size)
        )

    def must(self, size: str | None, manager: Manager) -> list[Failure]:
        """Those of them that this manager must have counted, or found in its journal."""
        forgiven = max(self.forgiven.get(size, 0.0), self.shown.get(size, 0.0), self.unwritten_at)
        return [
            one
            for one in self.may(size)
            if one.by < NEVER
            and one.since > forgiven
            and (one.counter == manager.name or one.by < manager.started_at)
        ]


def rests(
    must: Iterable[Failure], may: Iterable[Failure], first: int, shortest: float, longest: float
) -> list[tuple[float, float]]:
    """When each rest has surely begun, and until when it lasts at least.

    The first begins with failure number `first`, each further one with the first failure after it.
    """
    counted, possible = sorted(must, key=lambda one: one.by), list(may)
    if len(counted) < first:
        return []
    begun, ended = counted[first - 1].by, sorted(one.since for one in possible)[first - 1]
    found: list[tuple[float, float]] = []
    while begun < NEVER:
        times = 2.0 ** len(found)
        until = ended + shortest * times
        found.append((begun, until))
        over = begun + longest * times
        begun = min((one.by for one in counted if one.since > over), default=NEVER)
        ended = min((max(one.since, until) for one in possible if one.by >= until), default=NEVER)
    return found


class BootLoops:
    """Watches every create, and what is told of nodes that end before they come up."""

    def __init__(self, world: World, told: Told) -> None:
        self.world, self.told = world, told
        self.of: dict[str, Streaks] = defaultdict(Streaks)
        self._ordered_at: dict[str, float] = {}
        """By incarnation, when its set-up was ordered."""
        self._told_ended: dict[tuple[str, str], tuple[float, object]] = {}
        """By pool and node, when and with which reason a manager told that the node ended."""
        self._gone: dict[str, list[str]] = defaultdict(list)
        """By manager, the failed boots that it has called gone since its newest plan."""
        self._shown: dict[str, dict[str, bool]] = defaultdict(dict)
        """By manager, the lives it was shown, and whether one had pinged."""
        self._destroyed: set[str] = set()
        self._lost: dict[str, int] = {}
        """By pool, how often its journal had been lost at its newest start."""
        world.registry.changed.append(self._changed)
        world.cloud.books.created.append(self._created)
        world.cloud.books.ended.append(self._ended)
        world.weather.sent.append(self._sent)
        world.events.append(self._logged)
        world.given.append(self._given)
        world.starts.append(self._starts)
        world.plans.append(self._planned)

    def rest_of(self, pool: Pool) -> tuple[float, float]:
        """How long booting may rest in that pool, and since when at the latest it is so.

        With each node that comes up, a rest that was for its size, or for all, is over.
        """
        streaks = self.of[pool.name]
        sizes = {one.size for one in streaks.failures.values()} - {None}
        doubled = [streaks.left(size) - SIZE_LOOP for size in sizes]
        if streaks.left(None) >= POOL_LOOP:
            # While only probes are booted, the next one waits twice as long as the one before.
            doubled.append(streaks.left(None) - POOL_LOOP + 1)
        rests_s = [streaks.longest * 2.0 ** min(times, 16) for times in doubled if times >= 0]
        rest_s = min(LONGEST_REST_S, max(rests_s, default=0.0))
        return rest_s, max(streaks.forgiven.get(None, 0.0), streaks.unwritten_at)

    def has_failed(self, pool: Pool) -> bool:
        return bool(self.of[pool.name].failures)

    # What happens.

    def _sent(self, manager: str, method: str, about: str) -> None:
        if method == "cloud.destroy":
            self._destroyed.add(about)

    def _is_up(self, node: Instance) -> bool:
        if self.world.slurm is not None:
            return node.id in self.world.slurm.joined
        return node.machine is not None and node.machine.heard_at is not None

    def _ended(self, node: Instance) -> None:
        if node.tags.pool in self.world.pools and not self._is_up(node):
            failures = self.of[node.tags.pool].failures
            failures.setdefault(node.id, Failure(node.tags.size, self.world.engine.now))

    def _changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        """A first ping; or a claim that was cleaned, and never pinged."""
        if before is None or before.claim is None or before.last_ping_at is not None:
            return
        streaks, now = self.of[before.claim.pool], self.world.engine.now
        if what == "ping" and self.world.slurm is None:
            streaks.came_up(before.claim.size, now)
        elif what.startswith("clean") and by in self.world.managers:
            made = self.world.cloud.by_record.get(before.uuid, ())
            if not any(one.tags.incarnation == before.incarnation for one in made):
                key = life_key(before.uuid, before.incarnation)
                streaks.failures.setdefault(key, Failure(before.claim.size, now))

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        streaks, now = self.of[manager.pool.name], self.world.engine.now
        if event is Event.OPERATOR_BREAKER_RESET and fields.get("result") == "done":
            streaks.reset(now)
        elif event is Event.NODE_SETUP_STARTED:
            self._ordered_at[str(fields["incarnation"])] = now
        elif event is Event.NODE_ENDED:
            self._told_ended[manager.pool.name, str(fields["node"])] = now, fields["detail"]
            self._may_count(streaks, manager, fields)
        elif event is Event.NODE_GONE:
            # Where its destroy was written down and never sent, it ended all the same.
            self._destroyed.add(str(fields["node"]))
            if fields["reason"] in FAILED | ILL:
                self._may_count(streaks, manager, fields)
                self._gone[manager.name].append(str(fields["node"]))

    def _may_count(self, streaks: Streaks, manager: Manager, fields: dict[str, object]) -> None:
        """Also twice, where it was killed before the first was written down."""
        node, size = str(fields["node"]), fields["size"]
        found = Failure(None if size is None else str(size), self.world.engine.now)
        known = streaks.failures.setdefault(node, found)
        if known is not found and known.counter not in ("", manager.name):
            streaks.failures[f"{node} {manager.name}"] = found

    def _starts(self, manager: Manager) -> None:
        """What the run before could not write is forgotten, or lost with its journal."""
        pool, journal = manager.pool.name, manager.pool.journal
        is_lost = journal.lost != self._lost.get(pool, 0)
        self._lost[pool] = journal.lost
        if is_lost or not journal.takes_writes_of(""):
            self.of[pool].may_be_forgotten(self.world.engine.now)

    def _given(self, manager: str, message: object) -> None:
        """A manager is shown who is up."""
        if not isinstance(message, RecordsListed | SchedulerSeen):
            return
        ears, shown = self.told.ears[manager], self._shown[manager]
        streaks = self.of[self.world.managers[manager].pool.name]
        complete = isinstance(message, RecordsListed) and message.listing.complete
        items = message.listing.items if isinstance(message, RecordsListed) else ()
        newest = ears.newest("records")
        for record in items or (() if newest is None else newest.items.values()):
            if record.claim is None or not self._may_be_up(record):
                continue
            key, is_up = life_key(record.uuid, record.incarnation), record.last_ping_at is not None
            before = shown.get(key)
            if is_up and before is None:
                streaks.is_shown_up(record.claim.size, self.world.engine.now)
            elif is_up and before is False:
                streaks.came_up(record.claim.size, self.world.engine.now)
                if complete and self.world.slurm is None:
                    streaks.knew_it(record.claim.size, self.world.engine.now)
            if is_up or complete:
                shown[key] = is_up

    def _may_be_up(self, record: Record) -> bool:
        """Whether a ping in that record may be of a node that came up."""
        made = self.world.cloud.by_record.get(record.uuid, ())
        own = [one for one in made if one.tags.incarnation == record.incarnation]
        return self.world.slurm is None or any(self._is_up(one) for one in own)

    # What is told and counted.

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        if manager.mode != "apply":
            return
        pool, now = manager.pool, self.world.engine.now
        streaks = self.of[pool.name]
        streaks.shortest = min(streaks.shortest, settings.boot_fail_after)
        streaks.longest = max(streaks.longest, settings.boot_fail_after)
        if not pool.journal.takes_writes_of(manager.name):
            streaks.may_be_forgotten(now)
            self._gone[manager.name].clear()
            return
        ears = self.told.ears[manager.name]
        cloud, records = ears.newest("cloud"), ears.newest("records")
        for node_id in self._gone.pop(manager.name, ()):
            self._must_count(manager, node_id)
        if plan.aborted is None and cloud is not None and records is not None:
            for node in self._ended_in_setup(settings.pool, cloud, records, snapshot):
                self._tells(manager, node)
                self._must_count(manager, node.id)

    def _must_count(self, manager: Manager, node_id: str) -> None:
        node = self.world.cloud.instances.get(node_id)
        if node is None or node.lives or node.twin or self._is_up(node):
            return
        failure = self.of[manager.pool.name].failures.get(node_id)
        if failure is not None and failure.by == NEVER:
            failure.by, failure.counter = self.world.engine.now, manager.name

    def _ended_in_setup(
        self, pool: str, cloud: Heard, records: Heard, snapshot: Snapshot
    ) -> Iterable[CloudNode]:
        """The pool's nodes that the newest listings show as ended, with a record never pinged."""
        for node in cloud.items.values():
            if node.state is not CloudState.TERMINATED or node.id in cloud.doubled:
                continue
            if node.tags.pool != pool:
                continue
            uuid, life = node.tags.record, node.tags.incarnation
            record = records.items.get(uuid or "")
            one = self.world.cloud.instances.get(node.id)
            if record is None or one is None or record.incarnation != life or life is None:
                continue
            made = self.world.cloud.by_record.get(record.uuid, ())
            own = [each for each in made if each.tags == node.tags]
            waits = record.claim is not None and record.last_ping_at is None
            waits = waits and record.instance_id in (None, node.id) and not self._is_up(one)
            is_ours = node.id in self._destroyed or record.uuid in snapshot.record_flights
            if waits and len(own) == 1 and not is_ours:
                yield node

    def _tells(self, manager: Manager, node: CloudNode) -> None:
        told = self._told_ended.get((manager.pool.name, node.id))
        if told is None:
            self._wrong(manager, f"never tells that {node.id} ended before it was up")
        elif told[0] == self.world.engine.now and told[1] != node.why:
            # An earlier plan may have known it by a denial alone.
            self._wrong(manager, f"tells of {node.id} {told[1]!r}, the cloud says {node.why!r}")

    # What is booted.

    def _created(self, made: Instance, by: str) -> None:
        manager, tags = self.world.managers[by], made.tags
        ordered_at = self._ordered_at.get(tags.incarnation or "")
        if ordered_at is None:
            return
        streaks = self.of[manager.pool.name]
        self._rests(manager, tags.size, ordered_at, SIZE_LOOP)
        surely = self._rests(manager, None, ordered_at, POOL_LOOP)
        if surely is None:
            return
        wait_s = streaks.shortest * 2.0 ** len(streaks.probes)
        if streaks.probes and ordered_at < max(streaks.probes) + wait_s:
            after_s = ordered_at - max(streaks.probes)
            number = len(streaks.probes) + 1
            what = f"boots probe {number}, {made.id}, {after_s:.0f} s after the one before"
            self._wrong(manager, f"{what}, not {wait_s:.0f} s")
        streaks.probes.append(ordered_at)

    def _rests(
        self, manager: Manager, size: str | None, ordered_at: float, first: int
    ) -> float | None:
        """When the first rest has surely begun, before that order; None where none has."""
        streaks = self.of[manager.pool.name]
        must, may = streaks.must(size, manager), streaks.may(size)
        found = rests(must, may, first, streaks.shortest, streaks.longest)
        begun = [one for one in found if one[0] <= ordered_at]
        if not begun:
            return None
        of = size or "any size"
        for number, (since, until) in enumerate(begun if size is not None else begun[:1], 1):
            if ordered_at < until:
                what = f"boots {of}, which rests for the time {number} since {since:.0f}"
                self._wrong(manager, f"{what} until {until:.0f}, at {ordered_at:.0f}")
        return begun[0][0]

    def _wrong(self, manager: Manager, why: str) -> None:
        self.world.violate("B5", f"{manager.name} {why}")
