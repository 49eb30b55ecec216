"""What must be so a while after the faults have stopped, beyond free slots.

What a former run left open was taken up (R1), no node that lives stays locked out behind a fence
(C12), and whose record was freed while it lived is told of once it pings again (U8).
"""

from __future__ import annotations

from collections.abc import Iterator

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import LatePing, Record
from nodemanager.journal.api import Intent, IntentKind, OpenIntent
from tests.simulation.bounds import FENCE_STANDS_S, RECOVERS_S, TOLD_S
from tests.simulation.cloud import Instance
from tests.simulation.debts import Owed
from tests.simulation.manager import Manager
from tests.simulation.told import Told
from tests.simulation.world import World

LATE_S = 200.0
"""So long after a clean a ping is late on any clock that stepped by less than the steps drawn."""
FENCED_SECRET = "fenced_ping_secret"


class Aftermath:
    """Watches what each manager inherits, and what became of it."""

    def __init__(self, world: World, told: Told) -> None:
        self.world, self.told = world, told
        self.inherited: dict[str, tuple[OpenIntent, ...]] = {}
        self._told: set[tuple[object, object]] = set()
        world.events.append(self._logged)
        world.starts.append(self._started)

    def _started(self, manager: Manager) -> None:
        self.inherited[manager.name] = manager.pool.open_intents()

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is Event.RECORD_FALSE_CLEAN:
            self._told.add((fields["record"], fields["incarnation"]))

    def owed(self) -> Iterator[Owed]:
        yield from self._fences()
        yield from self._false_cleans()
        for pool in self.world.pools.values():
            if pool.manager is not None:
                yield from self._inheritance(pool.manager)

    def _inheritance(self, manager: Manager) -> Iterator[Owed]:
        still_open = {(one.intent.key, one.opened_at) for one in manager.pool.open_intents()}
        for one in self.inherited[manager.name]:
            key = one.intent.key
            if one.passed_over or (key, one.opened_at) not in still_open:
                continue
            if self._is_due(manager, one.intent):
                what = f"{manager.name} takes up {key}"
                yield Owed("R1", f"inherited {manager.name} {key}", what, 0.0, RECOVERS_S)

    def _is_due(self, manager: Manager, intent: Intent) -> bool:
        """Whether it should have been taken up: asked after, or ended where its end is known."""
        if intent.kind not in (IntentKind.CREATE, IntentKind.CLAIM):
            return not self._asked_after(manager, intent)
        incarnation = intent.details["order"]["claim"]["incarnation"]
        records = self.world.registry.records()
        claimed = next((one for one in records if one.incarnation == incarnation), None)
        return claimed is None or claimed.last_ping_at is not None

    def _asked_after(self, manager: Manager, intent: Intent) -> bool:
        """Whether it asked the cloud for the node, or read the record."""
        ears = self.told.ears[manager.name]
        if intent.kind is IntentKind.DESTROY:
            return bool(ears.by_id.get(intent.node or ""))
        return bool(ears.reads.get(intent.record or ""))

    def _false_cleans(self) -> Iterator[Owed]:
        """All freed lives that pinged later are told, by whichever manager of the pool."""
        for life in self.world.registry.late.values():
            pool = self.world.pools.get(life.pool or "")
            if pool is None or (life.record, life.incarnation) in self._told:
                continue
            if life.at - life.freed_at <= LATE_S:
                continue
            if not self._is_a_sign(life):
                continue
            if pool.manager is None or pool.manager.mode != "apply":
                continue
            what = f"somebody is told that {life.record} was freed and pinged"
            key = f"late {life.record} {life.incarnation}"
            yield Owed("U8", key, what, pool.manager.started_at, TOLD_S)

    def _is_a_sign(self, late: LatePing) -> bool:
        """Whether a late ping tells of life: not of another instance than was known, and not where
        pings had ceased to tell anything (U8, P6). Those nodes a listing shows, or nobody."""
        known, reason = self.world.registry.ended_as[late.record, late.incarnation]
        if reason == Reason.PINGER_DENIED:
            return False
        if None not in (known, late.instance_id) and known != late.instance_id:
            return False
        if reason == Reason.AFTER_SHUTDOWN:
            family = self.told.family(late.pool or "")
            return any(late.instance_id in ears.destroys for ears in family)
        return True

    def _fences(self) -> Iterator[Owed]:
        records = {record.uuid: record for record in self.world.registry.records()}
        for node in self.world.cloud.living():
            record = records.get(node.tags.record or "")
            if record is None or not self._is_locked_out(node, record):
                continue
            what = f"{node.id}, which lives, is locked out of {record.uuid} no more"
            since, late_s = self._a_write_may_be_late(record)
            yield Owed("C12", f"fence {node.id}", what, since, FENCE_STANDS_S + late_s)

    def _a_write_may_be_late(self, record: Record) -> tuple[float, float]:
        """From when on, and for how long, a clean by a former run that was killed may take effect.

        The former run wrote down that it would send it, behind this fence. Nobody can know whether
        it did. A node that was made far too late (A2) is let in once the write can't come any more
        (A4).
        """
        pool = self.world.pools.get(record.pool or "")
        if pool is None or pool.manager is None:
            return 0.0, 0.0
        left = [one.intent for one in self.inherited[pool.manager.name]]
        cleans = [one for one in left if one.kind is IntentKind.CLEAN and one.record == record.uuid]
        if not any(one.details["order"]["fenced"] for one in cleans):
            return 0.0, 0.0
        return pool.manager.started_at, pool.settings.node_stale_after

    def _is_locked_out(self, node: Instance, record: Record) -> bool:
        machine = node.machine
        return (
            machine is not None
            and machine.on
            and node.tags.incarnation == record.incarnation
            and record.info.get(FENCED_SECRET) == machine.secret
        )
