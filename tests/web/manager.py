"""A management server of a test: on a free port, with the clock and the daemon in our hands."""

from __future__ import annotations

from typing import Any

import requests

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.model.annotations import NO_MARKS, Marks
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.web.dashboard.history import ChartHistory
from nodemanager.web.metrics import Metrics
from nodemanager.web.observer import WebObserver
from nodemanager.web.server import ManagementServer
from nodemanager.web.status import Board, Status
from tests.core.build import World
from tests.fakes.clock import ManualClock

TOKEN, READ_TOKEN = "correct-horse-battery", "battery-staple"
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
HEALTHY_FOR = 600.0


class Daemon:
    """Hears commands, and answers what the test wants."""

    def __init__(self) -> None:
        self.heard: list[Command] = []
        self.reply = Reply(Result.DONE, "it is so", record="r-1", node="i-1")

    def give(self, command: Command) -> Reply:
        self.heard.append(command)
        return self.reply


class Manager:
    """A management server that is not started yet; `settings` are its own."""

    def __init__(
        self, board: Board | None = None, charts: ChartHistory | None = None, **settings: Any
    ) -> None:
        self.board = board or Board(ManualClock())
        self.clock: Any = self.board.clock
        self.metrics = Metrics("prod", self.clock)
        self.observer = WebObserver(self.board, self.metrics, charts)
        self.daemon = Daemon()
        usual = {
            "listen": ("127.0.0.1", 0),
            "token": TOKEN,
            "healthy_for": HEALTHY_FOR,
            "commands": self.daemon,
            "charts": charts,
        }
        self.server = ManagementServer(self.board, self.metrics, **{**usual, **settings})

    def get(self, path: str, headers: dict[str, str] | None = None) -> requests.Response:
        return requests.get(self.server.url + path, headers=headers, timeout=5)

    def ask(self, path: str) -> requests.Response:
        """What is answered to whoever has the token."""
        return self.get(path, WITH_TOKEN)

    def post(self, path: str, body: Any = None, **how: Any) -> requests.Response:
        how.setdefault("headers", WITH_TOKEN)
        return requests.post(self.server.url + path, json=body, timeout=5, **how)

    def cycle(self, **fields: Any) -> Status:
        """Put the status of a decision on the board, as of now."""
        status = Status(made_at=self.clock.boottime(), pool="prod", **fields)
        self.board.replace(status.made_at, lambda: status)
        return status

    def decides(self, made: World) -> DecisionView:
        """Show the world's next decision."""
        made.settle()
        decision = decision_on(made)
        self.observer.show(decision)
        return decision


def decision_on(made: World, marks: Marks = NO_MARKS) -> DecisionView:
    """The world's newest decision as it is shown."""
    assert made.decided is not None
    assert made.last is not None
    return DecisionView(made.decided, made.last, made.settings, marks=marks)
