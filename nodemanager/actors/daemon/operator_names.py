"""Finds what an operator's command names: a node, a record, or what was sent away lately."""

from __future__ import annotations

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.intents import shutdowns_in
from nodemanager.actors.daemon.leftover_book import LeftoverBook
from nodemanager.actors.daemon.operator_answers import Answers
from nodemanager.actors.daemon.operator_marks import OperatorMarks
from nodemanager.actors.messages import Ordered
from nodemanager.core.model.reasons import Reason
from nodemanager.core.observe.pairing import NO_PAIRS
from nodemanager.core.operate import commands
from nodemanager.core.operate.naming import Known, Named


class Names:
    """Looks ids up in all that this daemon knows; answers the command that names nothing."""

    def __init__(
        self, context: Context, marks: OperatorMarks, leftovers: LeftoverBook, answers: Answers
    ) -> None:
        self._context = context
        self._scribe = context.journal_writer
        self._marks = marks
        self._leftovers = leftovers
        self._answers = answers

    def known(self) -> Known:
        """All that an id may name: what is listed, expected, left over or marked."""
        plan = self._context.plan
        expected = {
            one.node_id for one in self._context.books.expected.values() if one.node_id is not None
        }
        left = {one.leftover.id for one in self._leftovers.ledger.entries.values()}
        left |= {one.leftover.node_id for one in self._leftovers.ledger.entries.values()}
        marked = {*self._marks.drains, *self._marks.kills, *self._scribe.orders.held}
        return Known(
            self._context.history,
            plan.pairs if plan is not None else NO_PAIRS,
            frozenset(expected | (left - {""}) | marked),
        )

    def found(self, said: Ordered) -> Named | None:
        """What the command names; None if nothing, and then it is answered."""
        found = commands.find(said.command.id or "", self.known())
        if isinstance(found, Named):
            return found
        self._answers.give(said, found)
        return None

    def node(self, said: Ordered) -> Named | None:
        """The node that the command names; None if there is none, and then it is answered."""
        if self._sent_away(said):
            return None
        named = self.found(said)
        if named is not None and named.node is None:
            self._answers.give(said, commands.without(named, Reason.NO_NODE, self.known()))
            return None
        return named

    def _sent_away(self, said: Ordered) -> bool:
        """Whether the command names a node that was sent away lately; then it is answered."""
        given, wall = said.command.id or "", self._context.clock.wall()
        found = commands.find(given, self.known())
        named = found if isinstance(found, Named) else None
        if named is not None and given in (named.record, named.node):
            return False
        gone = shutdowns_in(self._scribe.concluded(wall - commands.SENT_AWAY_S))
        before = commands.sent_away(given, named, gone)
        if before is None:
            return False
        order, at = before
        now = None if named is None else named.node or named.id
        self._answers.give(
            said, commands.of_sent_away(said.command.verb, given, order, wall - at, now)
        )
        return True
