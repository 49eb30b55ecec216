"""That every slot comes back: the promise's Liveness, once the faults have stopped.

t0 of a record is the latest of its node's end, its last write, the end of the last hold, the last
moment at which a breaker stood open, and the moment from which the manager runs unbroken with fresh
polls. All of these are the world's: what the manager gives as its reason is no excuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import Listed, Record
from tests.simulation import health
from tests.simulation.bounds import Bounds
from tests.simulation.debts import Owed
from tests.simulation.manager import Manager
from tests.simulation.world import Pool, World

if TYPE_CHECKING:
    from tests.simulation.latch import Latch
    from tests.simulation.truth import Truth


class Calm:
    """The calm's own facts: when it began, how long a round is, from when each pool is awake."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.begun: float | None = None
        self.longest: dict[str, float] = {}
        self._last: dict[tuple[str, str], float] = {}
        world.bulletin.told.append(self._listed("records"))
        world.cloud.books.listed.append(self._listed("cloud"))

    def begin(self) -> None:
        self.begun = self.world.engine.now
        self._last.clear()

    def since(self, pool: Pool) -> float:
        """From when the pool's manager has run in the calm."""
        assert self.begun is not None
        assert pool.manager is not None
        return max(self.begun, pool.manager.started_at)

    def awake(self, pool: Pool) -> float:
        """From when it must know of everything; what its polls owe is owed by itself."""
        return self.since(pool) + self.bounds(pool).polls

    def bounds(self, pool: Pool) -> Bounds:
        shape = self.world.shape
        return Bounds(
            pool.settings,
            shape.habits,
            shape.fenced,
            max(pool.poll_time, self.longest.get(pool.name, 0.0)),
            len(self.world.registry.rows),
            shape.traits.shutdown_s,
        )

    def _listed(self, source: str):  # type: ignore[no-untyped-def]
        def listed(manager: str, started: float, ended: float, answer: Listed[object]) -> None:
            if self.begun is None or not answer.complete:
                return
            pool = self.world.managers[manager].pool.name
            last = self._last.get((manager, source))
            self._last[manager, source] = ended
            if last is not None:
                gap = ended - last
                self.longest[pool] = max(self.longest.get(pool, 0.0), gap)

        return listed

    def owed(self) -> Iterator[Owed]:
        """That every configured poll is answered."""
        now = self.world.engine.now
        for pool in self.world.pools.values():
            manager = pool.manager
            assert manager is not None
            polled = {
                source: self._last.get((manager.name, source)) for source in ("cloud", "records")
            }
            if pool.settings.demand_polled:
                polled["demand"] = manager.wishlist_at
            for source, at in polled.items():
                since = max(self.since(pool), at or 0.0)
                if at is None or now - since > pool.settings.max_poll_time:
                    what = f"a whole answer of {manager.name}'s {source}"
                    within = self.bounds(pool).polls
                    yield Owed("LIVENESS", f"poll {manager.name} {source}", what, since, within)


class Liveness:
    """The slots that should be free and are not, each with the time by which it must be."""

    def __init__(self, world: World, truth: Truth, calm: Calm, latch: Latch) -> None:
        self.world, self.truth, self.calm, self.latch = world, truth, calm, latch
        self.written: dict[str, float] = {}
        self._missed: set[str] = set()
        """Nodes of which operators were told that they live and that no listing shows them."""
        world.registry.changed.append(self._changed)
        world.events.append(self._logged)

    def _changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        record = after or before
        if record is not None:
            self.written[record.uuid] = self.world.engine.now

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if fields.get("reason") == Reason.LISTING_SHORT and "node" in fields:
            self._missed.add(str(fields["node"]))

    def _end_lost_nodes(self) -> None:
        """An operator ends each such node that a broken assumption robbed of its claim (D13).

        Nothing else ends it, and while it lives nothing of its pool is freed: the listing is
        short (P6).
        """
        for pool in self.world.pools.values():
            for one in health.ward(self.world, pool).patients:
                if one.node.id in self._missed and health.is_lost(self.world, one):
                    self.world.note(f"an operator ends {one.node.id}, which no listing shows")
                    self.world.cloud.end(one.node)

    def owed(self) -> Iterator[Owed]:
        self._end_lost_nodes()
        for record in self.world.registry.records():
            pool = self.world.pools.get(record.pool or "")
            if pool is None or not self._must_go(record, pool):
                continue
            calm = self.calm
            bounds = calm.bounds(pool)
            t0 = max(
                calm.awake(pool) + bounds.clock,
                self.written.get(record.uuid, 0.0),
                self.latch.open_until.get(pool.name, 0.0),
            )
            # A wrong measure of the clock makes ages too small by as much, never too great (T1).
            within = bounds.slot(record) + 2 * self.world.clock_lies
            what = f"{record.uuid} gives back slot {record.slot_number}, its node is gone"
            yield Owed("LIVENESS", f"slot {record.uuid} {record.incarnation}", what, t0, within)

    def _must_go(self, record: Record, pool: Pool) -> bool:
        if not record.holds_anything or record.held or record.problems:
            return False
        if record.uuid in pool.holds or record.instance_id in pool.holds:
            return False
        if record.claim is None and record.instance_id is None:
            # Nothing to ask by: an operator's (C11).
            return False
        named = self.world.cloud.instances.get(record.instance_id or "")
        if named is not None and named.lives and named.tags.record is None:
            # It pings no more as the record, and no tag tells it from the record's node (C4).
            return False
        return self.truth.live_node_of(record) is None and not self._is_up_by_name(record)

    def _is_up_by_name(self, record: Record) -> bool:
        """Whether the scheduler hears a machine under its hostname, whosever that is (C2).

        A machine from before us whose record somebody deleted keeps the name that it was told. Only
        an operator ends it, and the next node of that name would take its work.
        """
        slurm = self.world.slurm
        node = None if slurm is None else slurm.nodes.get(record.hostname or "")
        return node is not None and node.is_heard
