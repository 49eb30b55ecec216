"""Claims records, creates nodes for them, and adopts nodes. It never cleans a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodemanager.actors.base import OnDeath, RoleActor, tell
from nodemanager.actors.messages import (
    CarryOut,
    Ref,
)
from nodemanager.actors.workers.carry_out import carried_out, not_mine
from nodemanager.clock import Clock
from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.core.execute.effects import (
    AdoptNode,
    AskNode,
    CheckImage,
    ClaimRecord,
    Created,
    CreateNode,
    Effect,
    FindByTag,
    RenewClaim,
)
from nodemanager.core.model.world import Claim, Record, Tags
from nodemanager.errors import StoreRefused, before_writing
from nodemanager.records.api import RecordStore

UserData = Callable[[Record, str], str]
"""The user data for a record's node, from the record and its ping URL."""


class NodeSetupActor(RoleActor):
    """Carries out one step of a set-up at a time; the daemon decides in between (D5, U10)."""

    def __init__(
        self,
        *,
        cloud: CloudDriver,
        store: RecordStore,
        daemon: Ref,
        clock: Clock,
        user_data: UserData,
        on_death: OnDeath,
    ) -> None:
        super().__init__(on_death)
        self._cloud = cloud
        self._store = store
        self._daemon = daemon
        self._clock = clock
        self._user_data = user_data

    def on_CarryOut(self, message: CarryOut) -> None:
        tell(self._daemon, carried_out(message, self._carry_out))

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case CheckImage():
                return self._cloud.check_image()
            case ClaimRecord():
                return self._claim(effect)
            case RenewClaim(record=record, claim=claim, offset=offset):
                return self._store.claim(record, self._stamped(claim, offset))
            case CreateNode():
                return self._create(effect)
            case FindByTag(uuid=uuid):
                return self._cloud.find_by_record(uuid)
            case AskNode(node_id=node_id):
                return self._cloud.ask(node_id)
            case AdoptNode(node_id=node_id, tags=tags):
                return self._cloud.adopt(node_id, tags)
        raise not_mine(self, effect)

    def _claim(self, effect: ClaimRecord) -> Record:
        with before_writing():
            found = self._store.store_id()
        if found != effect.store_id:
            raise StoreRefused(f"the store is {found} now, and was {effect.store_id} (L5)")
        claim = self._stamped(effect.claim, effect.offset)
        if effect.record is not None:
            return self._store.claim(effect.record, claim)
        return self._store.create(claim)

    def _stamped(self, claim: Claim, offset: float) -> Claim:
        return replace(claim, at=offset + self._clock.boottime())

    def _create(self, effect: CreateNode) -> Created:
        began_at = self._clock.boottime()
        record, claim = effect.record, effect.claim
        order = CreateOrder(
            name=record.hostname or claim.node_name,
            size=effect.size,
            tags=Tags(claim.pool, record.uuid, claim.incarnation, effect.size.name),
            client_token=claim.incarnation,
            user_data=self._user_data(record, self._store.ping_url(record)),
        )
        node = self._cloud.create(order)
        return Created(node, self._clock.boottime() - began_at)
