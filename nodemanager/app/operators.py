"""The path of operators' commands from web threads to the daemon actor, and of its answers."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from nodemanager.actors.base import tell
from nodemanager.actors.daemon.backlog_marks import (
    ApplyBacklog,
    BacklogView,
    ShowBacklog,
    StopBacklog,
)
from nodemanager.actors.messages import Ordered, PowerAsked, Ref
from nodemanager.core.operate.backlog import Order, Statuses
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb

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


class BacklogCommands:
    """Gives backlog requests to the daemon actor of `commands` and waits for its answers."""

    def __init__(self, commands: OperatorCommands) -> None:
        self._ask, self._order = commands.ask, commands.order

    def show(self) -> BacklogView | str:
        shown: BacklogView | str = self._ask(ShowBacklog)
        return shown

    def apply(self, order: Order) -> Statuses | str:
        found: Statuses | str = self._order(lambda answered: ApplyBacklog(order, answered))
        return found

    def stop(self, by: str) -> int | str:
        count: int | str = self._order(lambda answered: StopBacklog(by, answered))
        return count
