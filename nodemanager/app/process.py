"""What each long-running process of nodemanager does: its log, its signals, its watchdog."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pykka

from nodemanager.actors.base import tell
from nodemanager.actors.messages import Beat
from nodemanager.app.from_config import secrets_of
from nodemanager.config import Config
from nodemanager.httpserver.server import HttpServer
from nodemanager.lib import log, sdnotify
from nodemanager.lib.clock import Clock

# The watchdog of the daemon's own actors and HTTP servers.

BEAT_S = 5.0
"""Seconds between two beats, at most."""


@dataclass
class Pulse:
    """Checks that each actor and each HTTP server still answers.

    Beats go through the same mailboxes and event loops as all other messages. Only time in which
    this process ran counts: after a suspend or a SIGSTOP every actor first gets time to answer.
    So the time between two beats counts as `most` seconds at most.
    """

    clock: Clock
    actors: tuple[pykka.ActorRef[Any], ...]
    most: float = BEAT_S
    ran_s: float = 0.0
    beaten_at: float | None = None
    asked: dict[str, float] = field(default_factory=dict)
    servers: tuple[HttpServer, ...] = ()

    def beat(self) -> None:
        now = self.clock.boottime()
        if self.beaten_at is not None:
            self.ran_s += min(now - self.beaten_at, self.most)
        self.beaten_at = now
        for actor in self.actors:
            urn = actor.actor_urn
            if urn not in self.asked:
                self.asked[urn] = self.ran_s
                tell(actor, Beat(self._answer_for(urn)))
        for server in self.servers:
            if server.name not in self.asked:
                self.asked[server.name] = self.ran_s
                server.ask(self._answer_for(server.name))

    def _answer_for(self, urn: str) -> Callable[[], None]:
        def answered() -> None:
            self.asked.pop(urn, None)

        return answered

    def stuck(self, longest: float) -> list[tuple[str, float]]:
        """The actors and servers without an answer for over `longest` seconds, and the seconds."""
        asked = self.asked.copy()
        names = {actor.actor_urn: actor.actor_class.__name__ for actor in self.actors}
        names |= {server.name: f"http-{server.name}" for server in self.servers}
        return [
            (name, self.ran_s - asked[key])
            for key, name in names.items()
            if key in asked and self.ran_s - asked[key] > longest
        ]


STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals for an orderly stop; Arvados Node Manager took SIGQUIT, too."""


def wait_between_beats() -> float:
    """How many seconds the process may wait before it next tells systemd that it lives."""
    interval = sdnotify.watchdog_interval()
    return min(BEAT_S, interval / 3) if interval is not None else BEAT_S


def set_up_log(config: Config) -> None:
    logging = config.logging
    log.setup(str(logging.file), logging.level, config.log_levels, logging.format)
    log.hide(*secrets_of(config))
