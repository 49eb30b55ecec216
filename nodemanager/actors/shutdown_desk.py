"""What the end of a node that we destroyed leaves behind (SAFETY.md D2-D4)."""

from __future__ import annotations

from nodemanager.actors.leftover_desk import LeftoverDesk
from nodemanager.core.execute.books import NodeGone
from nodemanager.core.reasons import Reason


class ShutdownDesk(LeftoverDesk):
    """Enters into the daemon's books that a node is gone."""

    def _node_gone(self, gone: NodeGone) -> None:
        now = self._clock.boottime()
        self._flights.gone[gone.node_id] = now
        self._narrator.forget_node(gone.node_id)
        self._flights.shut_down(gone.reason, now)
        if gone.reason is Reason.BOOT_FAILED:
            self._boot_failed(gone.node_id, gone.size)
        self._leftovers.ended(gone.node_id, now)
        self._tend_leftovers()
