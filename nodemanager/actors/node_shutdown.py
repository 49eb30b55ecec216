"""Shuts nodes down and releases what they leave, and says what became of each.

It never touches the record.
"""

from __future__ import annotations

from nodemanager.actors.base import OnDeath, RoleActor
from nodemanager.actors.messages import (
    AskGone,
    DestroyNode,
    FindLeftovers,
    GoneAsked,
    LeftoverReleased,
    LeftoversFound,
    LookBeforeShutdown,
    NodeDestroyed,
    Ref,
    ReleaseLeftover,
    ShutdownLooked,
)
from nodemanager.cloud.api import CloudDriver
from nodemanager.core.destroy import ShutdownEvidence
from nodemanager.core.model import Outcome
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
        pins, failed = None, None
        if message.pins:
            # Before the record is read: the destroy is decided on what was read last.
            try:
                pins = self._cloud.pins(message.order.node_id)
            except RemoteError as error:
                failed = error
        try:
            record = self._store.read(uuid) if uuid is not None else None
            found = ShutdownEvidence(record)
        except RemoteError as error:
            found = ShutdownEvidence(None, error=str(error))
        self._daemon.tell(ShutdownLooked(message.order, found, pins, failed))

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

    def on_FindLeftovers(self, message: FindLeftovers) -> None:
        try:
            answer = LeftoversFound(self._cloud.find_leftovers())
        except RemoteError as error:
            answer = LeftoversFound((), error)
        self._daemon.tell(answer)

    def on_ReleaseLeftover(self, message: ReleaseLeftover) -> None:
        leftover = message.leftover
        try:
            answer = LeftoverReleased(leftover, self._cloud.release(leftover))
        except RemoteError as error:
            outcome = Outcome.FAILED if error.definite else Outcome.UNKNOWN
            answer = LeftoverReleased(leftover, outcome, error)
        self._daemon.tell(answer)
