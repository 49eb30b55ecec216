"""The dashboard as one part of the management server."""

from __future__ import annotations

from typing import Any

from nodemanager.lib.clock import Clock
from nodemanager.lib.workers import Workers
from nodemanager.web.commands import Commands
from nodemanager.web.dashboard.acts import add_acts
from nodemanager.web.dashboard.history import ChartHistory
from nodemanager.web.dashboard.site import Site, add_dashboard
from nodemanager.web.dashboard.source import Source
from nodemanager.web.dashboard.sweep import Sweeps
from nodemanager.web.door import Door
from nodemanager.web.explain import Explanations
from nodemanager.web.status import Board

THREADS = 2


class Dashboard:
    """Shows what `board`, `explanations` and `history` hold. `old_after` is the age in seconds
    above which a decision is too old."""

    def __init__(
        self,
        board: Board,
        explanations: Explanations,
        history: ChartHistory,
        clock: Clock,
        *,
        old_after: float,
    ) -> None:
        self._source = Source(board, explanations, history, clock, old_after)
        self._sweeps = Sweeps(explanations.journal, clock)

    def add_to(
        self,
        app: Any,
        door: Door,
        commands: Commands | None,
        public_url: str | None = None,
    ) -> None:
        """Add the pages to the server's application; without `commands` they only show.

        `public_url` is where browsers find them behind a proxy.
        """
        workers = Workers("dashboard", THREADS)
        site = Site(self._source, door, workers, self._sweeps, public_url)
        add_dashboard(app, site)
        if commands is not None:
            add_acts(app, site, commands)

    def stop(self) -> None:
        """End what the dashboard started."""
        self._sweeps.stop()
