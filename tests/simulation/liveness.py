"""That every slot comes back: the promise's Liveness, once the faults have stopped.

t0 of a record is the latest of its node's end, its last write, the end of the last hold, ambiguity,
suspicion or open breaker, and the moment from which the manager runs unbroken with fresh polls.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nodemanager.core.model import Listed, Record
from nodemanager.core.plan import Plan
from nodemanager.core.reasons import Reason
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot
from tests.simulation.manager import Manager
from tests.simulation.world import Pool, World

if TYPE_CHECKING:
    from tests.simulation.truth import Truth

SLACK_S = 20.0
"""For the messages and calls of one clean, in fair weather."""
EXCUSED = frozenset(
    {
        Reason.HELD,
        Reason.AMBIGUOUS,
        Reason.PINGING_UNLISTED,
        Reason.BACKLOG_HELD,
        Reason.UNVERIFIABLE,
        Reason.CLOCK_UNKNOWN,
        Reason.READ_ONLY,
        Reason.BREAKER_OPEN,
        Reason.NO_LEASE,
        Reason.POLL_STALE,
        Reason.IMPOSSIBLE,
        Reason.UNCLAIMED_POOL,
        Reason.UNREADABLE,
    }
)
"""Reasons that start the count of a record anew: an operator's, or the world's."""


class Liveness:
    """Watches from `begin` on; `overdue` are the slots that should be free and are not."""

    def __init__(self, world: World, truth: Truth) -> None:
        self.world, self.truth = world, truth
        self.written: dict[str, float] = {}
        self.excused: dict[str, float] = {}
        self.unsettled: dict[str, float] = {}
        self.longest: dict[str, float] = {}
        self._last: dict[tuple[str, str], float] = {}
        self._bereft: dict[str, float] = {}
        self.begun: float | None = None
        world.registry.changed.append(self._changed)
        world.plans.append(self._planned)
        world.bulletin.told.append(self._listed("records"))
        world.cloud.books.listed.append(self._listed("cloud"))

    def begin(self) -> None:
        self.begun = self.world.engine.now
        self._last.clear()

    def _changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        record = after or before
        if record is not None:
            self.written[record.uuid] = self.world.engine.now

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        now = self.world.engine.now
        if plan.aborted is not None or plan.breaker.is_open or snapshot.read_only is not None:
            self.unsettled[settings.pool] = now
        for verdict in plan.records:
            if verdict.reason in EXCUSED:
                self.excused[verdict.id] = now

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

    def check(self) -> bool:
        """Look at every slot now; says whether all those held are their living nodes'."""
        assert self.begun is not None
        now = self.world.engine.now
        clear = True
        bereft: dict[str, float] = {}
        for record in self.world.registry.records():
            pool = self.world.pools.get(record.pool or "")
            if pool is None or not record.holds_anything or record.held:
                continue
            if self.truth.live_node_of(record) is not None:
                continue
            if record.claim is None and record.instance_id is None:
                # Nothing to ask by: an operator's (C11).
                continue
            clear = False
            bereft[record.uuid] = self._bereft.get(record.uuid, now)
            due = self.due(record, pool, bereft[record.uuid])
            if now > due:
                self.world.violate(
                    "LIVENESS",
                    f"{record.uuid} holds slot {record.slot_number} since "
                    f"{now - bereft[record.uuid]:.0f} s without a living node, due {due:.0f}",
                )
        self._bereft = bereft
        return clear

    def due(self, record: Record, pool: Pool, bereft_at: float) -> float:
        settings = pool.settings
        assert self.begun is not None
        assert pool.manager is not None
        t0 = max(
            self.begun,
            bereft_at,
            self.written.get(record.uuid, 0.0),
            self.excused.get(record.uuid, 0.0),
            self.unsettled.get(pool.name, 0.0),
            pool.manager.started_at,
        )
        never_pinged = record.first_ping_at is None and record.last_ping_at is None
        window = settings.node_stale_after
        if never_pinged and record.claim is not None:
            window = settings.claim_window
        round_s = self.longest.get(pool.name, pool.poll_time)
        backlog = math.ceil(len(self.world.registry.rows) / settings.max_cleans_per_cycle)
        rounds = max(2, settings.absent_listings) + backlog
        # A wrong measure of the clock makes ages too small by as much, never too great (T1).
        lies = 2 * self.world.clock_lies
        return t0 + window + settings.settle + rounds * round_s + SLACK_S + lies
