"""A monitor for set-ups: who may send a create, how often, and what comes of it (U9, U10).

Who holds a pool's lock is the world's to know (`Pool.holder`), not what a manager looked at. A
create that was handed to its worker under the lock may leave after it is lost: the way from one to
the other is the process's own, and may be long where that stands still (see the fault model).
"""

from __future__ import annotations

from collections import Counter

from nodemanager.actors.messages import CarryOut
from nodemanager.core.execute.effects import ClaimRecord, CreateNode, RenewClaim
from nodemanager.errors import RemoteError
from tests.simulation.cleans import EXACT_S
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.world import World

FIRST_REPEAT_S = 2.0
LONGEST_REPEAT_S = 30.0
CLAIMS = ("store.claim", "store.create")
Call = tuple[str, str]
"""A manager, and the record that a create or a claim is about; no record for a new one's claim."""


class SetUpRules:
    """Watches what set-up workers are handed, what they send, and what the cloud makes of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._creates: dict[Call, tuple[str, bool]] = {}
        """The incarnation of the create handed last, and whether its manager held the lock then."""
        self._claims: dict[Call, bool] = {}
        self._sent_of: Counter[tuple[str, str]] = Counter()
        """By manager and incarnation, the creates that left."""
        self._failed_at: dict[tuple[str, str], float] = {}
        self._made: dict[str | None, Instance] = {}
        world.handed.append(self._handed)
        world.weather.sent.append(self._sent)
        world.weather.failed.append(self._failed)
        world.cloud.books.created.append(self._created)

    def _handed(self, manager: Manager, message: object) -> None:
        if not isinstance(message, CarryOut):
            return
        match message.effect:
            case CreateNode(record=record, claim=claim):
                self._creates[manager.name, record.uuid] = claim.incarnation, manager.lease
            case ClaimRecord(record=None):
                self._claims[manager.name, ""] = manager.lease
            case ClaimRecord(record=record) | RenewClaim(record=record) if record is not None:
                self._claims[manager.name, record.uuid] = manager.lease

    def _sent(self, name: str, method: str, about: str) -> None:
        manager = self.world.managers[name]
        if method == "cloud.create":
            incarnation, was_held = self._creates[name, about]
            self._created_by(manager, incarnation)
            if not (was_held or manager.lease):
                self._wrong("U10", manager, f"sends the create of {about} without the lease")
        elif method in CLAIMS:
            was_held = self._claims.pop((name, about), True)
            if not (was_held or manager.lease):
                self._wrong("U10", manager, f"claims {about or 'a record'} without the lease")

    def _created_by(self, manager: Manager, incarnation: str) -> None:
        """How often it was sent, and how soon after the last one failed."""
        key = manager.name, incarnation
        failed = self._sent_of[key]
        self._sent_of[key] += 1
        if failed and not self.world.shape.traits.client_tokens:
            self._wrong("U9", manager, f"repeats the create of {incarnation}, which has no token")
        if key in self._failed_at:
            after = self.world.engine.now - self._failed_at[key]
            least = min(LONGEST_REPEAT_S, FIRST_REPEAT_S * 2.0 ** min(failed - 1, 16))
            if after < least - EXACT_S:
                self._wrong(
                    "U9", manager, f"repeats {incarnation} {after:.1f} s after failure {failed}"
                )

    def _failed(self, name: str, method: str, about: str, error: RemoteError) -> None:
        if method == "cloud.create":
            incarnation, _ = self._creates[name, about]
            self._failed_at[name, incarnation] = self.world.engine.now

    def _created(self, made: Instance, by: str) -> None:
        """One node for each set-up, which gives the same token each time."""
        before = self._made.setdefault(made.tags.incarnation, made)
        if before is not made and self.world.shape.traits.client_tokens:
            manager = self.world.managers[by]
            self._wrong("U9", manager, f"made {made.id} for the set-up that made {before.id}")

    def _wrong(self, rule: str, manager: Manager, why: str) -> None:
        self.world.violate(rule, f"{manager.name}: {why}")
