"""Holds: what an operator wants nothing automatic to touch, until it is released."""

from __future__ import annotations

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.operator_answers import Answers
from nodemanager.actors.daemon.operator_names import Names
from nodemanager.actors.messages import Ordered
from nodemanager.core.operate import commands
from nodemanager.core.operate.naming import Named
from nodemanager.core.operate.verbs import Reply
from nodemanager.journal.api import Hold


class Holds:
    """Takes `hold` and `release`; the journal keeps what is on hold."""

    def __init__(self, context: Context, names: Names, answers: Answers) -> None:
        self._context = context
        self._scribe = context.journal_writer
        self._names = names
        self._answers = answers

    def hold(self, said: Ordered) -> None:
        """Hold the id: nothing automatic touches it until it is released."""
        given = said.command.id or ""
        found = commands.find(given, self._names.known())
        is_unlisted = isinstance(found, Reply) and found.reason in commands.UNLISTED
        if isinstance(found, Reply) and not (is_unlisted and said.command.unlisted):
            self._answers.give(said, found)
            return
        named = Named(given) if isinstance(found, Reply) else found
        standing = self._scribe.orders.hold_on(named.id)
        if standing is not None:
            self._answers.already(said, named, f"{named.id} is on hold already", standing)
            return
        hold = Hold(named.id, said.command.reason, said.command.by, self._context.clock.wall())
        if not self._scribe.orders.hold(hold):
            self._answers.not_written(said, named)
            return
        self._context.decide_soon()
        text = (
            f"{named.id} is on hold: nothing automatic touches it until it is released; "
            f"`nodemanager release {named.id}` ends that"
        )
        if is_unlisted:
            text += "; no listing shows that id, and a hostname or slot is not an id"
        self._answers.did(said, named, text)

    def release(self, said: Ordered) -> None:
        """End the hold."""
        given = said.command.id or ""
        found = commands.find(given, self._names.known())
        if isinstance(found, Reply) or found.id != given:
            # A hold may be on what is no id: only this very text ends it.
            found = Named(given) if self._scribe.orders.hold_on(given) is not None else found
        if isinstance(found, Reply):
            self._answers.give(said, found)
            return
        named = found
        if self._scribe.orders.hold_on(named.id) is None:
            node = self._context.history.present.get(named.node or "")
            # Its record may be deleted; a hold on it keeps the node all the same (C9).
            others = (named.node, named.record, None if node is None else node.tags.record)
            held = next((one for one in others if one and self._scribe.orders.hold_on(one)), None)
            more = f"; {held} is: `nodemanager release {held}`" if held is not None else ""
            self._answers.already(said, named, f"{named.id} is not on hold{more}")
        elif not self._scribe.orders.release(named.id):
            self._answers.not_written(said, named)
        else:
            self._context.decide_soon()
            self._answers.did(said, named, f"{named.id} is on hold no longer")
