"""The one writer that frees, restores, deletes, binds and drains records (C11, C12, U8, P1a)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.actors.base import OnDeath, RoleActor, tell
from nodemanager.actors.messages import (
    CarryOut,
    Ref,
)
from nodemanager.actors.workers.carry_out import carried_out, not_mine
from nodemanager.clock import Clock
from nodemanager.cloud.api import CloudDriver
from nodemanager.core.execute.effects import (
    DeleteRecord,
    Effect,
    FenceRecord,
    FreeRecord,
    LiftFence,
    LookAtRecord,
    ReadRecord,
    RestoreRecord,
    TellDrain,
    WriteClaim,
)
from nodemanager.core.execute.pre_write_check import CleanEvidence
from nodemanager.errors import MalformedId
from nodemanager.records.api import RecordStore


class RecordCleanerActor(RoleActor):
    """Looks, fences (if the store can't compare), and writes; the daemon decides in between."""

    def __init__(
        self,
        *,
        cloud: CloudDriver,
        store: RecordStore,
        daemon: Ref,
        clock: Clock,
        on_death: OnDeath,
    ) -> None:
        super().__init__(on_death)
        self._cloud = cloud
        self._store = store
        self._daemon = daemon
        self._clock = clock

    def on_CarryOut(self, message: CarryOut) -> None:
        tell(self._daemon, carried_out(message, self._carry_out))

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
            case ReadRecord(uuid=uuid):
                return self._store.read(uuid)
            case WriteClaim(record=record, claim=claim):
                return self._store.claim(record, claim)
            case TellDrain(record=record, on=on):
                return self._store.drain(record, on=on)
            case RestoreRecord(record=record, known=known):
                return self._store.restore(record, known)
        raise not_mine(self, effect)

    def _look(self, effect: LookAtRecord) -> CleanEvidence:
        record = self._store.read(effect.uuid)
        asked_at = self._clock.boottime()
        found = CleanEvidence(record, self._cloud.find_by_record(effect.uuid), asked_at=asked_at)
        node_id = effect.instance_id or (record.instance_id if record is not None else None)
        if node_id is None or not effect.asks_id:
            return found
        try:
            by_id = self._cloud.ask(node_id)
        except MalformedId:
            return replace(found, asked_id=True, malformed=True)
        return replace(found, by_id=by_id, asked_id=True)
