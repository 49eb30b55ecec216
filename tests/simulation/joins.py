"""Up is what the scheduler hears: a machine that never joins it ends, and none that joined (D17).

Whether a machine has joined is asked of the scheduler's model, never of a manager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nodemanager.actors.messages import RecordsListed
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import WorkerState
from nodemanager.core.observe.facts import SchedulerSeen
from tests.simulation import health
from tests.simulation.bounds import Bounds
from tests.simulation.cloud import Instance
from tests.simulation.debts import Owed
from tests.simulation.health import Health, Patient
from tests.simulation.manager import Manager
from tests.simulation.nodes import NodeRules
from tests.simulation.world import Pool, World

if TYPE_CHECKING:
    from tests.simulation.latch import Latch
    from tests.simulation.liveness import Calm

TELLS = frozenset({Reason.UNSCHEDULED, Reason.DOWN_IN_SCHEDULER})
"""What tells an operator of a node that no manager watched from its boot on."""
CLAIMED_S = 120.0
"""A node's boot grace may begin so long before its create: with its claim (U5)."""


class Joins:
    """Watches destroys for want of a join, and what the calm owes of those who never join."""

    def __init__(self, world: World, rules: NodeRules, calm: Calm, latch: Latch) -> None:
        assert world.slurm is not None
        self.world, self.slurm, self.rules = world, world.slurm, rules
        self.calm, self.latch = calm, latch
        self._told: set[str] = set()
        """Nodes of which an operator was told that their scheduler does not call them up."""
        self._at_once: dict[str, int] = {}
        """By pool, the most that never joined at once, since there was none."""
        self._told_up: dict[tuple[str, str], float] = {}
        """By pool and hostname, when the newest answer began that called a node of it up."""
        self._shown: dict[tuple[str, str, str | None], float] = {}
        """By manager, record and incarnation, when the first listing ended that it was given."""
        world.cloud.books.destroyed.append(self._destroyed)
        world.events.append(self._logged)
        world.given.append(self._given)

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is Event.NODE_KEEP:
            told = self._told.add if fields.get("reason") in TELLS else self._told.discard
            told(str(fields["node"]))

    def _given(self, name: str, message: object) -> None:
        if not isinstance(message, RecordsListed | SchedulerSeen):
            return
        if not message.listing.complete:
            return
        pool = self.world.managers[name].pool
        if isinstance(message, RecordsListed):
            ended = pool.clock.booted_at + message.listing.ended_at
            for record in message.listing.items:
                self._shown.setdefault((name, record.uuid, record.incarnation), ended)
            return
        began = pool.clock.booted_at + message.listing.started_at
        for node in message.listing.items:
            if node.responds and node.state in (WorkerState.BUSY, WorkerState.IDLE):
                self._told_up[pool.name, node.name] = began

    def _was_told(self, one: Instance, pool: Pool, joined_at: float) -> bool:
        """Whether any run of the pool was told that it is up, before it was lost again."""
        hostname = None if one.machine is None else one.machine.hostname
        return self._told_up.get((pool.name, hostname or ""), float("-inf")) >= joined_at

    def _destroyed(self, one: Instance, by: str) -> None:
        known = self.rules.order_of(by, one.id, self.world.weather.sent_at)
        if known is None or known[1].reason is not Reason.NOT_JOINED:
            return
        ordered_at, _ = known
        joined_at = self.slurm.joined.get(one.id)
        manager = self.world.managers[by]
        if manager.pool.journal.lost:
            # Who had joined in its boot grace was lost with it.
            return
        if joined_at is None or not self._was_told(one, manager.pool, joined_at):
            return
        if joined_at < ordered_at:
            ago_s = ordered_at - joined_at
            what = f"{by} destroys {one.id} as never joined, which joined {ago_s:.0f} s before that"
            self.world.violate("D17", what)

    def owed(self) -> Iterator[Owed]:
        for pool in self.world.pools.values():
            bounds = self.calm.bounds(pool)
            since = max(self.calm.awake(pool), self.latch.open_until.get(pool.name, 0.0))
            unjoined = health.ward(self.world, pool).of(Health.UNJOINED)
            count = max(len(unjoined), self._at_once.get(pool.name, 0)) if unjoined else 0
            self._at_once[pool.name] = count
            for one in unjoined:
                yield self._owed(one, pool, bounds, since, count)

    def _owed(self, one: Patient, pool: Pool, bounds: Bounds, since: float, count: int) -> Owed:
        name, within = one.node.id, bounds.unjoined(count)
        if not self._was_watched(one.node, pool):
            if name in self._told:
                self.world.note(f"an operator ends {name}, which never joined")
                self.world.cloud.end(one.node)
            what = f"somebody is told that {name} never joined"
            return Owed("D17", f"told {name}", what, since, within)
        return Owed("D17", f"unjoined {name}", f"{name} ends, which never joins", since, within)

    def _was_watched(self, node: Instance, pool: Pool) -> bool:
        """Whether its manager must know of it from its boot grace on.

        A listing showed it the record by then: the store may have failed, or it was paused. Its
        journal was kept, and no clock by which the claim is dated jumped. A word on the machine
        that had the name before was none on this one.
        """
        manager = pool.manager
        assert manager is not None
        if pool.journal.lost or self.world.clock_lies or node.id in self.slurm.mistaken:
            return False
        shown_at = self._shown.get((manager.name, node.tags.record or "", node.tags.incarnation))
        grace_s = pool.settings.boot_fail_after - CLAIMED_S
        return shown_at is not None and shown_at <= node.created_at + grace_s
