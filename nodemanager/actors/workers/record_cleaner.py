"""The one writer that frees, restores, deletes, binds and drains records (C11, C12, U8, P1a)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.actors.workers.worker_pool import WorkerActor
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


class RecordCleanerActor(WorkerActor):
    """Looks, fences (if the store can't compare), and writes; the daemon decides in between."""

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case LookAtRecord():
                return self._look(effect)
            case FenceRecord(record=record):
                return self._context.store.fence(record)
            case LiftFence(record=record, ping_secret=secret):
                return self._context.store.unfence(record, secret)
            case FreeRecord(record=record, reason=reason):
                return self._context.store.clean(record, reason)
            case DeleteRecord(record=record):
                return self._context.store.delete(record)
            case ReadRecord(uuid=uuid):
                return self._context.store.read(uuid)
            case WriteClaim(record=record, claim=claim):
                return self._context.store.claim(record, claim)
            case TellDrain(record=record, on=on):
                return self._context.store.drain(record, on=on)
            case RestoreRecord(record=record, known=known):
                return self._context.store.restore(record, known)
        raise self._not_mine(effect)

    def _look(self, effect: LookAtRecord) -> CleanEvidence:
        if effect.not_after is not None:
            self._check_in_time(effect.not_after)
        record = self._context.store.read(effect.uuid)
        asked_at = self._context.clock.boottime()
        tagged = self._context.cloud.find_by_record(effect.uuid)
        found = CleanEvidence(record, tagged, asked_at=asked_at)
        node_id = effect.instance_id or (record.instance_id if record is not None else None)
        if node_id is None or not effect.asks_id:
            return found
        try:
            by_id = self._context.cloud.ask(node_id)
        except MalformedId:
            return replace(found, asked_id=True, malformed=True)
        return replace(found, by_id=by_id, asked_id=True)
