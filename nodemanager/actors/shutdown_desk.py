"""The daemon's shutdowns: the last look, the destroy, and the wait for gone (SAFETY.md D2, D3)."""

from __future__ import annotations

from nodemanager.actors.leftover_desk import LeftoverDesk
from nodemanager.actors.messages import DrainTold, TellDrain
from nodemanager.core.drain import DrainOrder
from nodemanager.core.execute.books import NodeGone
from nodemanager.core.reasons import Event, Reason
from nodemanager.errors import Throttled
from nodemanager.log import INFO, WARNING


class ShutdownDesk(LeftoverDesk):
    """Tells nodes to drain, and keeps what their end leaves behind."""

    def _begin_drain(self, order: DrainOrder) -> None:
        self._flights.drain_begun(order, self._clock.boottime())
        self._cleaner.give(order.record.uuid, TellDrain(order))

    def on_DrainTold(self, message: DrainTold) -> None:
        order = message.order
        self._cleaner.done(order.record.uuid)
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        self._flights.drain_told(order, message.record, self._clock.boottime())
        self._log.event(
            Event.NODE_DRAIN,
            level=INFO if message.error is None else WARNING,
            node=order.node_id,
            record=order.record.uuid,
            reason=order.reason,
            action="drain" if order.on else "resume",
            error=message.error,
            plan=order.plan_id,
        )
        self._settled()

    def _node_gone(self, gone: NodeGone) -> None:
        """What the daemon's other books make of it."""
        now = self._clock.boottime()
        self._flights.gone[gone.node_id] = now
        self._narrator.forget_node(gone.node_id)
        self._flights.shut_down(gone.reason, now)
        self._role.observer.shut_down(gone.reason, gone.size or "")
        if gone.reason is Reason.BOOT_FAILED:
            self._boot_failed(gone.node_id, gone.size)
        self._leftovers.ended(gone.node_id, now)
        self._tend_leftovers()
