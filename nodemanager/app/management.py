"""The management server of a running daemon, and the way of commands from it to the actor."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from nodemanager.actors.base import tell
from nodemanager.actors.messages import Ordered, PowerAsked, Ref
from nodemanager.app import adapters
from nodemanager.app.state import StateDirectory
from nodemanager.config import Config
from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.safety.lease import LeaseView
from nodemanager.httpserver.server import HttpServer
from nodemanager.lib import control, log
from nodemanager.lib.clock import Clock
from nodemanager.web.dashboard.history import ChartHistory
from nodemanager.web.metrics import Metrics
from nodemanager.web.observer import WebObserver
from nodemanager.web.server import ManagementServer
from nodemanager.web.status import HELD, Board

ANSWER_S = 20.0
UNANSWERED = f"the daemon did not answer within {ANSWER_S:g} s; look at its log"
STARTING = "the daemon is still starting; try again"


class OperatorCommands:
    """Gives operators' commands to the daemon actor and waits until the journal has them.

    `daemon` is set once the actor runs. `elsewhere` tells who acts for the pool where this manager
    only stands by: it takes no commands then (L6). A clean by hand also waits for its outcome, for
    ANSWER_S seconds at most.
    """

    def __init__(self) -> None:
        self.daemon: Ref | None = None
        self.elsewhere: Callable[[], str | None] = lambda: None

    def give(self, command: Command) -> Reply:
        """The result of a command. Only a web thread may wait here, never an actor."""
        reply: Reply | str = self.order(lambda answered: Ordered(command, answered))
        if isinstance(reply, Reply):
            return reply
        if command.verb is Verb.CLEAN and reply == UNANSWERED:
            text = f"the clean of {command.id} is under way; the log tells how it ends"
            return Reply(Result.UNDER_WAY, text)
        return Reply(Result.FAILED, reply)

    def power(self, direction: str, nodes: str, by: str) -> bool:
        """Pass on what a scheduler's power saving says; False while the daemon is starting."""
        if self.daemon is None:
            return False
        tell(self.daemon, PowerAsked(direction, nodes, by))
        return True

    def ask(self, message: Callable[[Callable[[Any], None]], Any]) -> Any:
        """The daemon actor's answer to the message; a text says why there is none."""
        if self.daemon is None:
            return STARTING
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        tell(self.daemon, message(answers.put))
        try:
            return answers.get(timeout=ANSWER_S)
        except queue.Empty:
            return UNANSWERED

    def order(self, message: Callable[[Callable[[Any], None]], Any]) -> Any:
        """The daemon actor's answer to what changes something; a text says why there is none."""
        return self.elsewhere() or self.ask(message)


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
        board = Board(
            self.clock,
            self.lease,
            journal=adapters.journal_path(config, dry_run=dry_run),
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
            healthy_for=healthy_for,
            read_token=read_token,
            public_url=None if public is None else public.url,
            charts=charts,
            reload=self.reload,
        )
        server.start()
        stack.callback(server.stop)
        observer = WebObserver(board, metrics, charts)
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
