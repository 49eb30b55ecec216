"""Destroys nodes, releases leftovers, and reports each outcome. It never writes a record."""

from __future__ import annotations

from typing import Any

from nodemanager.actors.messages import (
    FindLeftovers,
    LeftoverReleased,
    LeftoversFound,
    ReleaseLeftover,
)
from nodemanager.actors.workers.worker import WorkerActor
from nodemanager.core.execute.destroy import ShutdownEvidence
from nodemanager.core.execute.effects import (
    AskNode,
    DestroyNode,
    Effect,
    LookAtNode,
    NodeLooked,
)
from nodemanager.core.model.world import Outcome
from nodemanager.errors import RemoteError, TooLate


class NodeShutdownActor(WorkerActor):
    """Answers each order after one or two remote calls; the timer does the waiting (D3)."""

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case LookAtNode():
                return self._look(effect)
            case DestroyNode(node_id=node_id, not_after=not_after):
                late_s = self._context.clock.boottime() - not_after
                if late_s > 0:
                    raise TooLate(f"its order expired {late_s:.0f} s before it could be sent")
                return self._context.cloud.destroy(node_id)
            case AskNode(node_id=node_id):
                return self._context.cloud.ask(node_id)
        raise self._not_mine(effect)

    def _look(self, effect: LookAtNode) -> NodeLooked:
        pins, failed = None, None
        if effect.pins:
            # Before the record is read: the destroy is decided on what was read last.
            try:
                pins = self._context.cloud.pins(effect.node_id)
            except RemoteError as error:
                failed = error
        try:
            record = self._context.store.read(effect.record) if effect.record is not None else None
            found = ShutdownEvidence(record)
        except RemoteError as error:
            found = ShutdownEvidence(None, error=str(error))
        return NodeLooked(found, pins, failed)

    def on_FindLeftovers(self, message: FindLeftovers) -> None:
        try:
            answer = LeftoversFound(self._context.cloud.find_leftovers())
        except RemoteError as error:
            answer = LeftoversFound((), error)
        self._context.report(answer)

    def on_ReleaseLeftover(self, message: ReleaseLeftover) -> None:
        leftover = message.leftover
        try:
            answer = LeftoverReleased(leftover, self._context.cloud.release(leftover))
        except RemoteError as error:
            outcome = Outcome.FAILED if error.definite else Outcome.UNKNOWN
            answer = LeftoverReleased(leftover, outcome, error)
        self._context.report(answer)
