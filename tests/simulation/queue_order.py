"""Who waits first is booted for first: demand is served in the order of the queue (U12).

Held against the queue as it was when it was last read. Of each size, all that may serve a job is
counted for it: what lacks is never more than that, whatever its manager knows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodemanager.actors.messages import RecordsListed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import by_price
from nodemanager.core.model.world import CloudNode, Job, Record, Size, WorkerState
from nodemanager.core.observe.facts import SchedulerSeen
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import RemoteError
from tests.simulation.boot_loops import SIZE_LOOP, BootLoops
from tests.simulation.causes import Causes, may_be_had
from tests.simulation.manager import Manager
from tests.simulation.setups import SetUpRules
from tests.simulation.told import Told
from tests.simulation.world import World

BUSY = WorkerState.BUSY
CLOCK_S = 60.0
"""By so much a manager may misjudge when a node turned busy, by the store's clock."""


@dataclass(frozen=True)
class Waiting:
    """What waits for one size, in the order of the queue."""

    size: Size
    count: int


class QueueOrder:
    """Watches which sizes a plan boots while others lack that are wanted before them."""

    def __init__(
        self, world: World, told: Told, causes: Causes, loops: BootLoops, setups: SetUpRules
    ) -> None:
        self.world, self.told, self.causes = world, told, causes
        self.loops, self.setups = loops, setups
        self._busy_since: dict[str, dict[str, float]] = defaultdict(dict)
        """By manager and hostname, when it was first shown as busy, and in each listing since."""
        self._refused_at: dict[str, float] = {}
        """By pool, when the cloud last refused a create, or did not answer it."""
        self._ordered: dict[tuple[str, str], str] = {}
        """By manager and record, the size of the newest boot that it ordered there."""
        world.given.append(self._given)
        world.weather.failed.append(self._failed)
        world.plans.append(self._planned)

    def _given(self, manager: str, message: object) -> None:
        if self.world.slurm is None and isinstance(message, RecordsListed):
            listed = {one.hostname: one.worker_state for one in message.listing.items}
        elif self.world.slurm is not None and isinstance(message, SchedulerSeen):
            listed = {one.name: one.state for one in message.listing.items}
        else:
            return
        known, now = self._busy_since[manager], self.world.engine.now
        self._busy_since[manager] = {
            name: known.get(name, now)
            for name, state in listed.items()
            if name is not None and state is BUSY
        }

    def _failed(self, manager: str, method: str, about: str, error: RemoteError) -> None:
        if method == "cloud.create":
            self._refused_at[self.world.managers[manager].pool.name] = self.world.engine.now

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        for boot in plan.boots:
            if boot.record is not None:
                self._ordered[manager.name, boot.record.uuid] = boot.size.name
        booted = Counter(one.size.name for one in plan.boots if one.reason is Reason.WANTED)
        if manager.mode != "apply" or not booted or self._is_excused(manager, settings):
            return
        queue = list(waiting(self.causes.queue.get(manager.name, ()), settings))
        for number, first in enumerate(queue):
            later = {one.size.name for one in queue[number + 1 :]} - {first.size.name}
            served = [name for name in later if booted[name]]
            lacks = first.count - booted[first.size.name]
            if not served or lacks <= 0 or self._has_no_turn(first.size, manager, settings):
                continue
            lacks -= self._may_serve(first.size, manager, snapshot, settings)
            if lacks > 0:
                what = f"boots {served}, and {first.size.name} lacks {lacks} for who waits first"
                self.world.violate("U12", f"{manager.name} {what}")

    def _is_excused(self, manager: Manager, settings: Settings) -> bool:
        """Whether the cloud lately had no room for a size (D6), or nobody can tell who is busy."""
        pool, now = manager.pool.name, self.world.engine.now
        lately = settings.boot_fail_after + 2 * settings.max_poll_time
        refused = self._refused_at.get(pool, float("-inf")) + lately
        refused = max(refused, self.setups.refused_until.get(pool, 0.0))
        return now <= refused or bool(self.world.clock_lies or self.world.broken)

    def _has_no_turn(self, size: Size, manager: Manager, settings: Settings) -> bool:
        """Whether the size may rest (B5), or max_total_price never has room for it."""
        if len(self.loops.of[manager.pool.name].may(size.name)) >= SIZE_LOOP:
            return True
        if settings.max_total_price <= 0:
            return False
        others = sum(one.tags.pool is None for one in self.world.cloud.living())
        dearest = max(one.price or 0.0 for one in settings.sizes)
        fills = next((one for one in by_price(settings.sizes) if not one.preemptible), size)
        stays = settings.min_nodes * (fills.price or 0.0) + others * dearest
        return not size.price or stays + size.price > settings.max_total_price + 1e-9

    def _may_serve(
        self, size: Size, manager: Manager, snapshot: Snapshot, settings: Settings
    ) -> int:
        """How many nodes, or claims for one, may serve what wants that size, at most."""
        cloud = self.told.ears[manager.name].newest("cloud")
        shown = {} if cloud is None else cloud.items
        records = [one for one in self.world.registry.records() if one.pool == settings.pool]
        lives = {(one.uuid, one.incarnation) for one in records if one.claim is not None}
        own = [one for one in records if one.claim is not None and one.claim.size == size.name]
        claimed = {uuid for uuid, _ in lives}
        count = snapshot.boots_unclaimed.count(size.name)
        count += sum(
            self._ordered.get((manager.name, uuid)) == size.name
            for uuid, flight in snapshot.record_flights.items()
            if flight.kind == "setup" and uuid not in claimed
        )
        count += sum(not self._is_busy(one, manager, shown.values()) for one in own)
        for node in self.world.cloud.living():
            is_of_it = node.tags.size == size.name or node.tags.size is None
            if is_of_it and (node.tags.record, node.tags.incarnation) not in lives:
                count += 1
        return count

    def _is_busy(self, record: Record, manager: Manager, shown: Iterable[CloudNode]) -> bool:
        """Whether its manager knew before that poll of demand that its listed node works."""
        since = self._busy_since[manager.name].get(record.hostname or "")
        read_at = self.causes.read_at.get(manager.name)
        tags = record.uuid, record.incarnation
        listed = [one for one in shown if (one.tags.record, one.tags.incarnation) == tags]
        is_known = since is not None and read_at is not None and since < read_at - CLOCK_S
        return is_known and len(listed) == 1 and not listed[0].problems and not record.problems


def waiting(queue: tuple[Job, ...], settings: Settings) -> Iterator[Waiting]:
    """What waits in its order, by the size that each job wants: the cheapest that fits."""
    before: Size | None = None
    count = 0
    for job in queue:
        if not may_be_had(job, settings):
            continue
        size = _wants(job, settings)
        if size is not before and before is not None:
            yield Waiting(before, count)
            count = 0
        before, count = size, count + job.count
    if before is not None:
        yield Waiting(before, count)


def _wants(job: Job, settings: Settings) -> Size:
    fits = [
        one
        for one in by_price(settings.sizes)
        if one.cores >= job.cores and one.ram_mb >= job.ram_mb
    ]
    return next((one for one in fits if job.preemptible or not one.preemptible), fits[0])
