"""Claims records, creates nodes for them, and adopts nodes. It never cleans a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodemanager.actors.base import TeamContext
from nodemanager.actors.messages import TakeUserData
from nodemanager.actors.workers.worker_pool import WorkerActor
from nodemanager.cloud.api import CreateOrder
from nodemanager.core.execute.effects import (
    AdoptNode,
    AskNode,
    CheckImage,
    ClaimRecord,
    Created,
    CreateNode,
    Effect,
    FindByTag,
    FinishCreate,
    RenewClaim,
)
from nodemanager.core.model.world import Claim, Record, Tags
from nodemanager.core.plan.availability import client_token
from nodemanager.errors import StoreRefused, before_writing

UserData = Callable[[Record, str], str]
"""The user data for a record's node, from the record and its ping URL."""


class NodeSetupActor(WorkerActor):
    """Carries out one step of a set-up at a time; the daemon decides in between (D5, U10)."""

    def __init__(self, context: TeamContext, user_data: UserData) -> None:
        super().__init__(context)
        self._user_data = user_data

    def on_TakeUserData(self, message: TakeUserData) -> None:
        self._user_data = message.user_data

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case CheckImage():
                return self._context.cloud.check_image()
            case ClaimRecord():
                return self._claim(effect)
            case RenewClaim(record=record, claim=claim, offset=offset):
                return self._context.store.claim(record, self._stamped(claim, offset))
            case CreateNode():
                return self._create(effect)
            case FinishCreate(pending=pending, place=place):
                return self._context.cloud.finish(pending, place)
            case FindByTag(uuid=uuid):
                return self._context.cloud.find_by_record(uuid)
            case AskNode(node_id=node_id):
                return self._context.cloud.ask(node_id)
            case AdoptNode(node_id=node_id, tags=tags):
                return self._context.cloud.adopt(node_id, tags)
        raise self._not_mine(effect)

    def _claim(self, effect: ClaimRecord) -> Record:
        with before_writing():
            found = self._context.store.store_id()
        if found != effect.store_id:
            raise StoreRefused(f"the store is {found} now, and was {effect.store_id} (L5)")
        claim = self._stamped(effect.claim, effect.offset)
        if effect.record is not None:
            return self._context.store.claim(effect.record, claim)
        return self._context.store.create(claim)

    def _stamped(self, claim: Claim, offset: float) -> Claim:
        return replace(claim, at=offset + self._context.clock.boottime())

    def _create(self, effect: CreateNode) -> Created:
        began_at = self._context.clock.boottime()
        record, claim = effect.record, effect.claim
        order = CreateOrder(
            name=record.hostname or claim.node_name,
            size=effect.size,
            tags=Tags(claim.pool, record.uuid, claim.incarnation, effect.size.name),
            client_token=client_token(claim.incarnation, effect.place),
            user_data=self._user_data(record, self._context.store.ping_url(record)),
            place=effect.place,
        )
        node = self._context.cloud.create(order)
        return Created(node, self._context.clock.boottime() - began_at)
