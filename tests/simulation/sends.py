"""What a daemon hands to its workers to be sent: under the lease (L6), the breaker closed (B2).

Judged at the moment at which it is handed over. What was on its way by then can't be called back,
and counts as sent before.
"""

from __future__ import annotations

from nodemanager.actors.messages import CarryOut
from nodemanager.core.execute.effects import (
    AdoptNode,
    ClaimRecord,
    CreateNode,
    DeleteRecord,
    DestroyNode,
    Effect,
    FenceRecord,
    FinishCreate,
    FreeRecord,
    RenewClaim,
    RestoreRecord,
)
from nodemanager.core.model.breaker import COLLAPSES, Cause
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from tests.simulation.manager import Manager
from tests.simulation.world import World

ENDS = DestroyNode | FinishCreate | DeleteRecord | FenceRecord | FreeRecord
"""Nothing of it goes out while the breaker is open. A fence comes before its clean, and a create's
end may take what it left."""
BOOTS = ClaimRecord | RenewClaim | CreateNode
WRITES = ENDS | BOOTS | AdoptNode | RestoreRecord


class Sends:
    """Watches what is handed to the workers of each manager."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._open: dict[str, set[Cause]] = {}
        """By manager, the causes in its newest plan; none once it says that the breaker closed."""
        world.plans.append(self._planned)
        world.events.append(self._logged)
        world.handed.append(self._handed)

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        causes = {part.cause for part in plan.breaker.parts if part.cause is not None}
        self._open[manager.name] = causes
        if plan.boots and causes & COLLAPSES:
            self.world.violate("B2", f"{manager.name} boots while a listing can't be believed")

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is Event.BREAKER_CLOSED:
            self._open.pop(manager.name, None)

    def _handed(self, manager: Manager, message: object) -> None:
        if isinstance(message, CarryOut) and manager.mode == "apply":
            self._sent(manager, message.effect, str(message.key))

    def _sent(self, manager: Manager, effect: Effect, key: str) -> None:
        what = f"{manager.name} sends {type(effect).__name__} of {key}"
        if isinstance(effect, WRITES) and not manager.lease:
            self.world.violate("L6", f"{what} without the lease")
        causes = self._open.get(manager.name, set())
        if isinstance(effect, ENDS) and causes:
            self.world.violate("B2", f"{what} while the breaker is open ({sorted(causes)})")
