"""The one writer that frees a record, gives it back, deletes it, and tells it its node
(SAFETY.md C11, C12, U8, P1a).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.actors.base import OnDeath, RoleActor
from nodemanager.actors.carry_out import carried_out, not_mine
from nodemanager.actors.messages import (
    BindRecord,
    CarryOut,
    DrainTold,
    RecordBound,
    RecordRestored,
    Ref,
    RestoreFailed,
    RestoreRecord,
    TellDrain,
)
from nodemanager.cloud.api import CloudDriver
from nodemanager.core.binding import BindOrder
from nodemanager.core.execute.effects import (
    DeleteRecord,
    Effect,
    FenceRecord,
    FreeRecord,
    LiftFence,
    LookAtRecord,
)
from nodemanager.core.last_look import CleanEvidence
from nodemanager.core.model import FreedLife, Record
from nodemanager.errors import (
    Conflict,
    MalformedId,
    NoSuchRecord,
    RemoteError,
    before_writing,
)
from nodemanager.records.api import RecordStore


class RecordCleanerActor(RoleActor):
    """Looks, fences where the store can't compare, writes. The daemon decides in between."""

    def __init__(
        self, *, cloud: CloudDriver, store: RecordStore, daemon: Ref, on_death: OnDeath
    ) -> None:
        super().__init__(on_death)
        self._cloud = cloud
        self._store = store
        self._daemon = daemon

    def on_CarryOut(self, message: CarryOut) -> None:
        self._daemon.tell(carried_out(message, self._carry_out))

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case LookAtRecord():
                return self._look(effect)
            case FenceRecord(record=record):
                return self._store.fence(record)
            case LiftFence(record=record, ping_secret=secret):
                return self._store.unfence(record, secret)
            case FreeRecord(record=record, reason=reason):
                return self._store.clean(record, reason)
            case DeleteRecord(record=record):
                return self._store.delete(record)
        raise not_mine(self, effect)

    def _look(self, effect: LookAtRecord) -> CleanEvidence:
        record = self._store.read(effect.uuid)
        tagged = self._cloud.find_by_record(effect.uuid)
        asked = effect.instance_id or (record.instance_id if record is not None else None)
        if asked is None or not effect.asks_id:
            return CleanEvidence(record, tagged)
        try:
            by_id = self._cloud.ask(asked)
        except MalformedId:
            return CleanEvidence(record, tagged, asked_id=True, malformed=True)
        return CleanEvidence(record, tagged, by_id, asked_id=True)

    def on_TellDrain(self, message: TellDrain) -> None:
        order = message.order
        try:
            after = self._store.drain(order.record, on=order.on)
        except RemoteError as error:
            self._daemon.tell(DrainTold(order, None, error))
            return
        self._daemon.tell(DrainTold(order, after))

    def on_BindRecord(self, message: BindRecord) -> None:
        order, failed = message.order, None
        try:
            self._bind(order)
        except RemoteError as error:
            failed = error
        self._daemon.tell(RecordBound(order, failed))

    def _bind(self, order: BindOrder) -> None:
        """Read anew: each ping makes another version. Another life needs no word of this node."""
        with before_writing():
            record = self._store.read(order.uuid)
        claim = record.claim if record is not None else None
        if record is None or claim is None or claim.incarnation != order.incarnation:
            return
        if claim.node_id is None:
            self._store.claim(record, replace(claim, node_id=order.node_id))

    def on_RestoreRecord(self, message: RestoreRecord) -> None:
        life = message.life
        try:
            after = self._restored(life, message.before)
        except RemoteError as error:
            self._daemon.tell(RestoreFailed(life, error))
            return
        self._daemon.tell(RecordRestored(life, after))

    def _restored(self, life: FreedLife, before: Record) -> Record:
        now = self._store.read(life.record)
        if now is None:
            raise NoSuchRecord(f"no record {life.record}")
        if life.incarnation is not None and now.incarnation == life.incarnation:
            # An earlier try, whose answer was lost.
            return now
        if now.holds_anything:
            raise Conflict(f"record {life.record} was claimed or written to since")
        return self._store.restore(now, before)
