"""The management server of a running daemon, with all that it shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from nodemanager.app import adapters
from nodemanager.app.operators import BacklogCommands, OperatorCommands
from nodemanager.app.state import StateDirectory
from nodemanager.config import Config
from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.model.lease import LeaseView
from nodemanager.httpserver.server import HttpServer
from nodemanager.lib import control, log
from nodemanager.lib.clock import Clock
from nodemanager.web.dashboard.dashboard import Dashboard
from nodemanager.web.dashboard.history import ChartHistory
from nodemanager.web.explain import Explanations
from nodemanager.web.metrics import Metrics
from nodemanager.web.observer import WebObserver
from nodemanager.web.server import ManagementServer
from nodemanager.web.status import HELD, Board


@dataclass(frozen=True)
class Management:
    """What the management server needs of the process that it shows."""

    config: Config
    state: StateDirectory
    clock: Clock
    commands: OperatorCommands
    reload: Callable[[str], dict[str, Any] | None]
    servers: tuple[HttpServer, ...] = ()
    """The other servers of this process, whose refusals are counted."""
    pings: Callable[[], int] | None = None
    """How many pings this process has answered, if it serves the registry."""
    dry_run: bool = False
    lease: Callable[[], LeaseView] = lambda: HELD

    def serve(
        self, stack: ExitStack, logs: tuple[log.Logger, ...]
    ) -> tuple[ManagementServer, Callable[[DecisionView], None]]:
        """Serve status and metrics of what is logged by `logs` from now on, until `stack` ends.

        Gives the server, and what is to be called with each new picture.
        """
        config, dry_run = self.config, self.dry_run
        token, read_token = self.tokens(config)
        board = Board(self.clock, self.lease)
        explanations = Explanations(
            adapters.journal_path(config, dry_run=dry_run),
            standby=adapters.journal_path(config, dry_run=True),
        )
        public = config.manage.public_url
        healthy_for = max(config.daemon.poll_stale_after, 2 * config.daemon.max_poll_time)
        charts = ChartHistory(self.state.path / f"charts{'-dry-run' * dry_run}.history")
        metrics = self._metrics()
        server = ManagementServer(
            board,
            metrics,
            listen=(config.manage.address, config.manage.port),
            control_socket=control.place(self.state.path, os.environ),
            takes_over=not dry_run,
            token=token,
            commands=self.commands,
            backlog=BacklogCommands(self.commands),
            explanations=explanations,
            healthy_for=healthy_for,
            read_token=read_token,
            public_url=None if public is None else public.url,
            dashboard=Dashboard(board, explanations, charts, self.clock, old_after=healthy_for),
            reload=self.reload,
        )
        server.start()
        stack.callback(server.stop)
        observer = WebObserver(board, metrics, explanations=explanations, charts=charts)
        for one in logs:
            one.listeners.append(observer.heard)
        return server, observer.show

    def tokens(self, config: Config) -> tuple[str, str | None]:
        """The token that may change everything, and the one that may only look."""
        given, read = config.manage.management_token, config.manage.read_token
        token = given.reveal() if given is not None else self.state.token("management")
        return token, None if read is None else read.reveal()

    def _metrics(self) -> Metrics:
        metrics = Metrics(self.config.daemon.pool, self.clock)
        for server in self.servers:
            metrics.count_refusals(server.refusals)
        if self.pings is not None:
            metrics.count_pings(self.pings)
        return metrics
