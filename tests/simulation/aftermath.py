"""What must be so a while after the faults have stopped, beyond free slots.

What a former run left open was taken up (R1), no node that lives stays locked out behind a fence
(C12), and whose record was freed while it lived is told of once it pings again (U8).
"""

from __future__ import annotations

from nodemanager.core.model import Record
from nodemanager.core.reasons import Event
from nodemanager.journal.api import Intent, IntentKind, OpenIntent
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.told import Told
from tests.simulation.world import World

RECOVERS_S = 200.0
"""A manager has both its listings by then, and has asked after all that it inherited."""
FENCE_STANDS_S = 180.0
"""Longer than any fence is up in fair weather: its wait, the last look, and the lift."""
LATE_S = 200.0
"""So long after a clean a ping is late on any clock that stepped by less than the steps drawn."""
TOLD_S = 300.0
"""A manager has listed the records by then, some times over."""
FENCED_SECRET = "fenced_ping_secret"


class Aftermath:
    """Watches what each manager inherits, and, once it is asked to, what became of it."""

    def __init__(self, world: World, told: Told) -> None:
        self.world, self.told = world, told
        self.inherited: dict[str, tuple[OpenIntent, ...]] = {}
        self._locked_out: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._told: set[tuple[object, object]] = set()
        self._late: dict[tuple[str, str | None], float] = {}
        world.events.append(self._logged)
        world.starts.append(self._started)

    def _started(self, manager: Manager) -> None:
        self.inherited[manager.name] = manager.pool.open_intents()

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is Event.RECORD_FALSE_CLEAN:
            self._told.add((fields["record"], fields["incarnation"]))

    def check(self) -> bool:
        """Look now; says whether nothing is left to wait for."""
        self._fences()
        settled = self._false_cleans()
        for pool in self.world.pools.values():
            if pool.manager is not None and not self._inheritance(pool.manager):
                settled = False
        return settled

    def _inheritance(self, manager: Manager) -> bool:
        now = self.world.engine.now
        still_open = {(one.intent.key, one.opened_at) for one in manager.pool.open_intents()}
        settled = True
        for one in self.inherited[manager.name]:
            intent = one.intent
            if one.parked or (intent.key, one.opened_at) not in still_open:
                continue
            if not self._is_due(manager, intent):
                self._due.pop(intent.key, None)
                continue
            settled = False
            since = self._due.setdefault(intent.key, now)
            if now - since > RECOVERS_S:
                self.world.violate("R1", f"{manager.name} passes over {intent.key}")
        return settled

    def _is_due(self, manager: Manager, intent: Intent) -> bool:
        """Whether it should have been taken up: asked after, or ended where its end is known."""
        if intent.kind not in (IntentKind.CREATE, IntentKind.CLAIM):
            return not self._asked_after(manager, intent)
        incarnation = intent.details.get("incarnation")
        records = self.world.registry.records()
        claimed = next((one for one in records if one.incarnation == incarnation), None)
        return claimed is None or claimed.last_ping_at is not None

    def _asked_after(self, manager: Manager, intent: Intent) -> bool:
        """Whether it asked the cloud for the node, or read the record."""
        ears = self.told.ears[manager.name]
        if intent.kind is IntentKind.DESTROY:
            return bool(ears.by_id.get(intent.node or ""))
        return bool(ears.reads.get(intent.record or ""))

    def _false_cleans(self) -> bool:
        """Whether all freed lives that pinged later were told, by whichever manager of the pool."""
        now, settled = self.world.engine.now, True
        for life in self.world.registry.late.values():
            key = (life.record, life.incarnation)
            pool = self.world.pools.get(life.pool or "")
            if pool is None or key in self._told or life.at - life.freed_at <= LATE_S:
                continue
            if pool.manager is None or pool.manager.mode != "apply":
                continue
            settled = False
            since = max(self._late.setdefault(key, now), pool.manager.started_at)
            if now - since > TOLD_S:
                self.world.violate("U8", f"{life.record} was freed, pinged, and nobody was told")
        return settled

    def _fences(self) -> None:
        now = self.world.engine.now
        records = {record.uuid: record for record in self.world.registry.records()}
        locked_out: dict[str, float] = {}
        for node in self.world.cloud.living():
            record = records.get(node.tags.record or "")
            if record is None or not self._is_locked_out(node, record):
                continue
            since = locked_out[node.id] = self._locked_out.get(node.id, now)
            if now - since > FENCE_STANDS_S:
                what = f"{node.id} lives and is locked out of {record.uuid}"
                self.world.violate("C12", f"{what} since {now - since:.0f} s")
        self._locked_out = locked_out

    def _is_locked_out(self, node: Instance, record: Record) -> bool:
        machine = node.machine
        return (
            machine is not None
            and machine.on
            and node.tags.incarnation == record.incarnation
            and record.info.get(FENCED_SECRET) == machine.secret
        )
