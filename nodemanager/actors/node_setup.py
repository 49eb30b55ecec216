"""Sets nodes up: claims a record, creates the node on it; adopts. It never cleans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodemanager.actors.base import OnDeath, RoleActor
from nodemanager.actors.carry_out import carried_out, not_mine
from nodemanager.actors.messages import (
    CarryOut,
    NodeCreated,
    RecordClaimed,
    Ref,
    SetupFailed,
    SetUpNode,
)
from nodemanager.clock import Clock
from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.core.execute.effects import AdoptNode, AskNode, Effect
from nodemanager.core.model import Record, Tags
from nodemanager.core.settings import CREATE_WITHIN_S
from nodemanager.errors import RemoteError, StoreRefused, before_writing
from nodemanager.records.api import RecordStore

UserData = Callable[[Record, str], str]
"""The user data for a record's node, from the record and its ping URL."""


class NodeSetupActor(RoleActor):
    """Carries out one SetUpNode at a time and ends each in NodeCreated or SetupFailed (D5)."""

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

    def on_SetUpNode(self, order: SetUpNode) -> None:
        if self._clock.boottime() > order.not_after:
            error = RemoteError("its order expired before it was begun")
            self._daemon.tell(SetupFailed(order.order_id, None, error, True, "claim"))
            return
        try:
            self._cloud.check_image()
        except RemoteError as error:
            self._daemon.tell(SetupFailed(order.order_id, None, error, True, "image"))
            return
        try:
            record = self._claim(order)
        except RemoteError as error:
            self._daemon.tell(SetupFailed(order.order_id, None, error, error.definite, "claim"))
            return
        self._daemon.tell(RecordClaimed(order.order_id, record))
        self._create(order, record)

    def on_CarryOut(self, message: CarryOut) -> None:
        self._daemon.tell(carried_out(message, self._carry_out))

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case AskNode(node_id=node_id):
                return self._cloud.ask(node_id)
            case AdoptNode(node_id=node_id, tags=tags):
                return self._cloud.adopt(node_id, tags)
        raise not_mine(self, effect)

    def _claim(self, order: SetUpNode) -> Record:
        with before_writing():
            found = self._store.store_id()
        if found != order.store_id:
            raise StoreRefused(f"the store is {found} now, and was {order.store_id} (L5)")
        claim = replace(order.claim, at=order.store_offset + self._clock.boottime())
        if order.boot.record is not None:
            return self._store.claim(order.boot.record, claim)
        return self._store.create(claim)

    def _create(self, order: SetUpNode, record: Record) -> None:
        began_at = self._clock.boottime()
        stage = "claim"
        try:
            record = self._renewed(order, record)
            stage = "create"
            create = CreateOrder(
                name=record.hostname or order.claim.node_name,
                size=order.boot.size,
                tags=Tags(
                    order.claim.pool, record.uuid, order.claim.incarnation, order.boot.size.name
                ),
                client_token=order.claim.incarnation,
                user_data=self._user_data(record, self._store.ping_url(record)),
            )
            node = self._cloud.create(create)
        except RemoteError as error:
            self._daemon.tell(SetupFailed(order.order_id, record, error, error.definite, stage))
            return
        took_s = self._clock.boottime() - began_at
        self._daemon.tell(NodeCreated(order.order_id, record, node, took_s))

    def _renewed(self, order: SetUpNode, record: Record) -> Record:
        """The claim renewed where it is too old to send a create on (U5, A2)."""
        assert record.claim is not None
        now = order.store_offset + self._clock.boottime()
        if now - record.claim.at <= CREATE_WITHIN_S:
            return record
        return self._store.claim(record, replace(record.claim, at=now))
