"""The one writer that frees a record, gives it back, deletes it, and tells it its node
(SAFETY.md C11, C12, U8, P1a).
"""

from __future__ import annotations

from typing import Any

from nodemanager.actors.base import OnDeath, RoleActor
from nodemanager.actors.carry_out import carried_out, not_mine
from nodemanager.actors.messages import (
    CarryOut,
    CleanFailed,
    CleanLooked,
    Fence,
    FenceLifted,
    FenceRecord,
    FreeRecord,
    LiftFence,
    LookBeforeClean,
    RecordCleaned,
    RecordFenced,
    Ref,
)
from nodemanager.cloud.api import CloudDriver
from nodemanager.core.execute.effects import (
    DeleteRecord,
    Effect,
    LookAtRecord,
    ReadRecord,
    RestoreRecord,
    TellDrain,
    WriteClaim,
)
from nodemanager.core.last_look import CleanEvidence
from nodemanager.core.orders import CleanOrder
from nodemanager.errors import (
    MalformedId,
    RemoteError,
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

    def on_LookBeforeClean(self, message: LookBeforeClean) -> None:
        failed: RemoteError | None = None
        try:
            found = self._look(message.order)
        except RemoteError as error:
            failed = error
            found = CleanEvidence(None, None, error=str(error))
        self._daemon.tell(CleanLooked(message.order, found, message.fenced, failed))

    def _look(self, order: CleanOrder) -> CleanEvidence:
        record = self._store.read(order.uuid)
        tagged = self._cloud.find_by_record(order.uuid)
        asked = order.instance_id or (record.instance_id if record is not None else None)
        if asked is None:
            return CleanEvidence(record, tagged)
        try:
            by_id = self._cloud.ask(asked)
        except MalformedId:
            return CleanEvidence(record, tagged, asked_id=True, malformed=True)
        return CleanEvidence(record, tagged, by_id, asked_id=True)

    def on_FenceRecord(self, message: FenceRecord) -> None:
        judged = message.record
        try:
            fenced = self._store.fence(judged)
        except RemoteError as error:
            perhaps = None if error.definite else Fence(judged, judged, judged.ping_secret)
            self._daemon.tell(CleanFailed(message.order, error, "fence", perhaps))
            return
        fence = Fence(judged, fenced, judged.ping_secret)
        self._daemon.tell(RecordFenced(message.order, fence))

    def on_LiftFence(self, message: LiftFence) -> None:
        fence = message.fence
        error: RemoteError | None = None
        try:
            self._store.unfence(fence.fenced, fence.ping_secret)
        except RemoteError as failed:
            error = failed
        self._daemon.tell(FenceLifted(message.order, fence, message.again, error))

    def on_FreeRecord(self, message: FreeRecord) -> None:
        order, record = message.order, message.record
        try:
            after = self._store.clean(record, order.reason.value)
        except RemoteError as error:
            self._daemon.tell(CleanFailed(order, error, "write"))
            return
        self._daemon.tell(RecordCleaned(order, record, after))

    def on_CarryOut(self, message: CarryOut) -> None:
        self._daemon.tell(carried_out(message, self._carry_out))

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case LookAtRecord(uuid=uuid):
                return CleanEvidence(self._store.read(uuid), self._cloud.find_by_record(uuid))
            case ReadRecord(uuid=uuid):
                return self._store.read(uuid)
            case WriteClaim(record=record, claim=claim):
                return self._store.claim(record, claim)
            case TellDrain(record=record, on=on):
                return self._store.drain(record, on=on)
            case RestoreRecord(record=record, known=known):
                return self._store.restore(record, known)
            case DeleteRecord(record=record):
                return self._store.delete(record)
        raise not_mine(self, effect)
