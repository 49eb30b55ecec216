"""Answers operators' commands: logs each with its result, notes both in the journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.messages import Ordered
from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.verdict import keep
from nodemanager.core.observe.facts import CommandGiven
from nodemanager.core.operate import commands
from nodemanager.core.operate.naming import Named
from nodemanager.core.operate.verbs import Reply, Result, Verb
from nodemanager.log import INFO, WARNING
from nodemanager.logline import timestamp

_EVENTS = {
    Verb.HOLD: Event.OPERATOR_HOLD,
    Verb.RELEASE: Event.OPERATOR_RELEASE,
    Verb.DRAIN: Event.OPERATOR_DRAIN,
    Verb.CORDON: Event.OPERATOR_CORDON,
    Verb.UNCORDON: Event.OPERATOR_UNCORDON,
    Verb.RUN: Event.OPERATOR_RUN,
    Verb.KILL: Event.OPERATOR_KILL,
    Verb.CLEAN: Event.OPERATOR_CLEAN,
    Verb.PAUSE: Event.OPERATOR_PAUSE,
    Verb.RESUME: Event.OPERATOR_RESUME,
    Verb.ROTATE_PAUSE: Event.OPERATOR_ROTATE_PAUSE,
    Verb.ROTATE_RESUME: Event.OPERATOR_ROTATE_RESUME,
    Verb.BREAKER_RESET: Event.OPERATOR_BREAKER_RESET,
}


class Answers:
    """Gives each command its one answer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scribe = context.journal_writer

    def acts(self, said: Ordered, named: Named) -> bool:
        """Whether this is no dry run; if it is one, the command is answered (S3)."""
        if self._context.inputs.mode == "apply":
            return True
        self.give(said, commands.refused(said.command.verb, keep(named.id, Reason.DRY_RUN), named))
        return False

    def may_write(self, said: Ordered, named: Named) -> bool:
        """Whether the journal takes writes; if not, the command is answered."""
        if self._scribe.problem is None:
            return True
        self.not_written(said, named)
        return False

    def did(self, said: Ordered, named: Named | None, text: str) -> None:
        """Answer that it is done."""
        self.give(said, reply_of(Result.DONE, named, text))

    def already(
        self, said: Ordered, named: Named | None, text: str, standing: Mark | None = None
    ) -> None:
        """Answer that there was nothing to do; `standing` is the order that says so."""
        if standing is not None:
            text = f"{text}, {commands.since(standing, timestamp(standing.at))}"
        self.give(said, reply_of(Result.ALREADY, named, text))

    def not_written(self, said: Ordered, named: Named | None) -> None:
        """Answer that the journal did not take the order."""
        text = self._scribe.problem or "the journal can't be written"
        self.give(said, reply_of(Result.FAILED, named, text))

    def give(self, said: Ordered, reply: Reply) -> None:
        """Log the command and its result, note both in the journal, and answer."""
        told: dict[str, Any] = {
            **reply.measures,
            "id": said.command.id,
            "record": reply.record,
            "node": reply.node,
            "by": said.command.by,
            "cause": said.command.reason or None,
            "forced": ",".join(said.command.forced) or None,
            "result": reply.result,
            "reason": reply.reason,
            "rule": reply.rule,
        }
        if reply.result is Result.FAILED:
            told["problem"] = reply.text
        level = INFO if reply.ok else WARNING
        self._context.log.event(_EVENTS[said.command.verb], level=level, **told)
        self._scribe.note(
            CommandGiven(
                command=said.command.verb.value,
                id=said.command.id,
                by=said.command.by,
                reason=said.command.reason,
                result=reply.result.value,
                at=self._context.now,
                refusal=reply.reason.value if reply.reason is not None else None,
                rule=reply.rule,
                forced=said.command.forced,
                record=reply.record,
                node=reply.node,
            )
        )
        answered: Callable[[Reply], None] = said.answered
        answered(reply)


def reply_of(result: Result, named: Named | None, text: str) -> Reply:
    """An answer that says what the command named, if it named anything."""
    if named is None:
        return Reply(result, text)
    return Reply(result, text, record=named.record, node=named.node)
