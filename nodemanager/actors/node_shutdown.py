"""Shuts nodes down, and says what became of each. It never touches the record."""

from __future__ import annotations

from nodemanager.actors.base import OnDeath, RoleActor
from nodemanager.actors.messages import (
    AskGone,
    DestroyNode,
    GoneAsked,
    LookBeforeShutdown,
    NodeDestroyed,
    Ref,
    ShutdownLooked,
)
from nodemanager.cloud.api import CloudDriver
from nodemanager.core.model import Outcome
from nodemanager.core.shutdown import ShutdownEvidence
from nodemanager.errors import RemoteError
from nodemanager.records.api import RecordStore


class NodeShutdownActor(RoleActor):
    """Each command is one or two remote calls and one answer; waiting is the timer's (D3)."""

    def __init__(
        self, *, cloud: CloudDriver, store: RecordStore, daemon: Ref, on_death: OnDeath
    ) -> None:
        super().__init__(on_death)
        self._cloud = cloud
        self._store = store
        self._daemon = daemon

    def on_LookBeforeShutdown(self, message: LookBeforeShutdown) -> None:
        uuid = message.order.record
        try:
            record = self._store.read(uuid) if uuid is not None else None
            found = ShutdownEvidence(record)
        except RemoteError as error:
            found = ShutdownEvidence(None, error=str(error))
        self._daemon.tell(ShutdownLooked(message.order, found))

    def on_DestroyNode(self, message: DestroyNode) -> None:
        order = message.order
        try:
            answer = NodeDestroyed(order, self._cloud.destroy(order.node_id))
        except RemoteError as error:
            outcome = Outcome.FAILED if error.definite else Outcome.UNKNOWN
            answer = NodeDestroyed(order, outcome, error)
        self._daemon.tell(answer)

    def on_AskGone(self, message: AskGone) -> None:
        order = message.order
        try:
            answer = GoneAsked(order, self._cloud.ask(order.node_id))
        except RemoteError as error:
            answer = GoneAsked(order, None, error)
        self._daemon.tell(answer)
