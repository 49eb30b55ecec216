"""Drains, cordons and kills: the standing orders of operators about one node, and their undoing."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.operator_answers import Answers, reply_of
from nodemanager.actors.daemon.operator_marks import OperatorMarks
from nodemanager.actors.daemon.operator_names import Names
from nodemanager.actors.daemon.operator_questions import Questions
from nodemanager.actors.messages import Ordered
from nodemanager.core.execute.workflow import Action, Key
from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate import commands
from nodemanager.core.operate.naming import Named
from nodemanager.core.operate.verbs import Result, Verb


class Drains:
    """Takes `drain`, `cordon`, `uncordon`, `kill` and `undrain`; the next plan judges them."""

    def __init__(
        self,
        context: Context,
        marks: OperatorMarks,
        names: Names,
        answers: Answers,
        questions: Questions,
    ) -> None:
        self._context = context
        self._marks = marks
        self._names = names
        self._answers = answers
        self._questions = questions

    def drain(self, said: Ordered) -> None:
        """Shut the node down once it is idle (O1), or, cordoned, keep it out of use (O5)."""
        named = self._names.node(said)
        if named is None:
            return
        node_id, kept = named.node or named.id, said.command.verb is Verb.CORDON
        killed, standing = self._marks.kills.get(node_id), self._marks.drains.get(node_id)
        if killed is not None and kept:
            text = f"{node_id} is to be killed: `nodemanager undrain {node_id}` first undoes that"
            self._answers.give(
                said, replace(reply_of(Result.REFUSED, named, text), reason=Reason.KILLED)
            )
        elif killed is not None:
            self._answers.already(said, named, f"{node_id} is to be killed", killed)
        elif standing is not None and not self._questions.has(node_id):
            self._change_drain(said, named, standing, kept=kept)
        elif kept and self._context.runner.is_written(Key(Action.SHUTDOWN, node_id)):
            self._answers.give(said, commands.too_late(named))
        elif self._answers.may_write(said, named):
            self._marks.drains[node_id] = replace(self._questions.mark(said, node_id), kept=kept)
            self._questions.ask(said, named)

    def _change_drain(self, said: Ordered, named: Named, standing: Mark, *, kept: bool) -> None:
        """Make a drain of a standing cordon, or a cordon of a drain; a plan judged it before."""
        node_id = named.node or named.id
        if standing.kept is kept:
            word = "cordoned" if kept else "draining"
            self._answers.already(said, named, f"{node_id} is {word} already", standing)
            return
        if kept and self._context.runner.is_written(Key(Action.SHUTDOWN, node_id)):
            self._answers.give(said, commands.too_late(named))
            return
        mark = self._questions.mark(said, node_id, replaced=standing)
        self._marks.drains[node_id] = replace(mark, kept=kept)
        if not self._marks.save():
            self._marks.drains[node_id] = standing
            self._answers.not_written(said, named)
            return
        self._context.decide_soon()
        self._answers.give(said, commands.cordoned(named) if kept else commands.draining(named))

    def uncordon(self, said: Ordered) -> None:
        """End a cordon; a drain that is none, and a kill, are not undone."""
        named = self._names.node(said)
        if named is None:
            return
        node_id = named.node or named.id
        standing = self._marks.drains.get(node_id)
        if standing is not None and standing.kept and node_id not in self._marks.kills:
            self.run(said)
            return
        orders = {"draining": standing, "to be killed": self._marks.kills.get(node_id)}
        also = "".join(
            f"; it is {word}: `nodemanager undrain {node_id}` undoes that"
            for word, mark in orders.items()
            if mark is not None and not mark.kept
        )
        self._answers.already(said, named, f"{node_id} is not cordoned{also}")

    def kill(self, said: Ordered) -> None:
        """Shut the node down now (O2)."""
        named = self._names.node(said)
        if named is None:
            return
        node_id = named.node or named.id
        standing = self._marks.kills.get(node_id)
        if standing is not None and not self._questions.has(node_id):
            self._answers.already(said, named, f"{node_id} is to be killed already", standing)
        elif self._answers.acts(said, named) and self._answers.may_write(said, named):
            self._marks.kills[node_id] = self._questions.mark(said, node_id)
            self._questions.ask(said, named)

    def run(self, said: Ordered) -> None:
        """Undo a drain or a kill."""
        named = self._names.node(said)
        if named is None:
            return
        node_id = named.node or named.id
        if self._context.runner.is_written(Key(Action.SHUTDOWN, node_id)):
            self._answers.give(said, commands.too_late(named))
            return
        drain, kill = self._marks.drains.pop(node_id, None), self._marks.kills.pop(node_id, None)
        if drain is None and kill is None and not self._may_be_there(node_id):
            destroyed = self._questions.destroyed(node_id)
            self._answers.give(
                said, commands.nothing_to_undo(named, self._names.known(), destroyed)
            )
            return
        if drain is None and kill is None:
            self._answers.already(said, named, f"{node_id} is neither draining nor to be killed")
            return
        if not self._marks.save():
            self._marks.drains |= {} if drain is None else {node_id: drain}
            self._marks.kills |= {} if kill is None else {node_id: kill}
            self._answers.not_written(said, named)
            return
        self._questions.undone(node_id)
        self._context.decide_soon()
        self._answers.did(said, named, f"{node_id} may take work again")

    def _may_be_there(self, node_id: str) -> bool:
        expected = (one.node_id for one in self._context.books.expected.values())
        return node_id in self._context.history.present or node_id in expected
