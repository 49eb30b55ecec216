"""Carries an operator's command from a web thread to the daemon actor, and its answer back."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from nodemanager.actors.backlog_desk import ApplyBacklog, ShowBacklog, Shown, StopBacklog
from nodemanager.actors.messages import HoldId, Ref, ReleaseId, ResetBreaker
from nodemanager.actors.timer import tell
from nodemanager.core.backlog_run import Order, Run

ANSWER_S = 20.0

Answered = Callable[[str | None], None]


class OperatorCommands:
    """`daemon` is set once the actor runs; each command waits for the journal's word."""

    def __init__(self) -> None:
        self.daemon: Ref | None = None

    def reset_breaker(self, by: str) -> str | None:
        return self._ask(lambda answered: ResetBreaker(by, answered))

    def hold(self, id: str, reason: str, by: str) -> str | None:
        return self._ask(lambda answered: HoldId(id, reason, by, answered))

    def release(self, id: str, by: str) -> str | None:
        return self._ask(lambda answered: ReleaseId(id, by, answered))

    def _ask(self, message: Callable[[Answered], Any]) -> str | None:
        """Why it was not done, or None. Only a web thread waits here, never an actor."""
        daemon = self.daemon
        if daemon is None:
            return "the daemon is still starting; try again"
        answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        tell(daemon, message(answers.put))
        try:
            return answers.get(timeout=ANSWER_S)
        except queue.Empty:
            return f"the daemon did not answer within {ANSWER_S:g} s; look at its log"


class BacklogCommands:
    """The backlog's own way to the daemon actor that `commands` leads to."""

    def __init__(self, commands: OperatorCommands) -> None:
        self._commands = commands

    def show(self) -> Shown | str:
        shown: Shown | str = self._ask(ShowBacklog)
        return shown

    def run(self) -> Run | str | None:
        shown = self.show()
        return shown if isinstance(shown, str) else shown.run

    def apply(self, order: Order) -> Run | str:
        run: Run | str = self._ask(lambda answered: ApplyBacklog(order, answered))
        return run

    def stop(self, by: str) -> Run | str | None:
        run: Run | str | None = self._ask(lambda answered: StopBacklog(by, answered))
        return run

    def _ask(self, message: Callable[[Callable[[Any], None]], Any]) -> Any:
        daemon = self._commands.daemon
        if daemon is None:
            return "the daemon is still starting; try again"
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        tell(daemon, message(answers.put))
        try:
            return answers.get(timeout=ANSWER_S)
        except queue.Empty:
            return f"the daemon did not answer within {ANSWER_S:g} s; look at its log"
