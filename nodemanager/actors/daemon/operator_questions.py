"""The commands that the next plan judges: drains, kills and cleans, until each has its answer."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.intents import shutdowns_in
from nodemanager.actors.daemon.operator_answers import Answers
from nodemanager.actors.daemon.operator_marks import OperatorMarks
from nodemanager.actors.messages import Ordered
from nodemanager.core.execute.workflow import Action, End
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.judge.preconditions import Block
from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.verdict import keep
from nodemanager.core.model.world import Tags
from nodemanager.core.observe.queries import node_shown
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate import commands
from nodemanager.core.operate.naming import Named
from nodemanager.core.operate.verbs import Reply, Result, Verb
from nodemanager.core.plan.plan import Plan

DRAINING = frozenset({Verb.DRAIN, Verb.CORDON})

Asked = tuple[Ordered, Named]


class Questions:
    """Keeps each command until a plan has judged it, and a clean until it has ended."""

    def __init__(self, context: Context, marks: OperatorMarks, answers: Answers) -> None:
        self._context = context
        self._scribe = context.journal_writer
        self._marks = marks
        self._answers = answers
        self._asked: list[Asked] = []
        """Drains, kills and cleans that no plan has judged yet."""
        self._awaited: dict[str, list[Asked]] = {}
        """The commands that wait for the outcome of a clean, by record uuid."""

    @property
    def waits(self) -> bool:
        """Whether a command waits for the next plan to judge it."""
        return bool(self._asked)

    def mark(
        self, said: Ordered, node_id: str | None = None, *, replaced: Mark | None = None
    ) -> Mark:
        """What the command orders, with the life of the node as it is listed now.

        An unlisted one's is that of the order whose place this one takes.
        """
        node = self._context.history.present.get(node_id or "")
        of: Tags | Mark | None = node.tags if node is not None else replaced
        life = None if of is None else of.incarnation
        return Mark(said.command.by, self._context.clock.wall(), said.command.reason, life)

    def ask(self, said: Ordered, named: Named) -> None:
        """Have the next plan judge the command, soon."""
        self._asked.append((said, named))
        self._context.decide_soon()

    def has(self, node_id: str) -> bool:
        """Whether a command about that node waits for the next plan."""
        return any((named.node or named.id) == node_id for _, named in self._asked)

    def undone(self, node_id: str) -> None:
        """Answer what no plan has judged yet, and what a later order about that node undid."""
        asked, self._asked = self._asked, []
        for said, named in asked:
            is_undone = (named.node or named.id) == node_id and said.command.verb is not Verb.CLEAN
            if is_undone:
                text = f"{node_id} may take work again: a later order undid this one"
                self._answers.give(said, commands.failed(named, text))
            else:
                self._asked.append((said, named))

    def destroyed(self, node_id: str) -> frozenset[str]:
        """The nodes that we destroyed lately, and `node_id` if the journal says so of it."""
        before = shutdowns_in(self._scribe.concluded(id=node_id))
        return frozenset((*self._context.recent.gone, *(order.node_id for order, _ in before)))

    def before_plan(self) -> None:
        """Give the newest orders the life of a node that was not listed when they were given."""
        for _, named in self._asked:
            node_id = named.node or named.id
            node = node_shown(self._context.history, node_id)
            for marks in (self._marks.drains, self._marks.kills):
                mark = marks.get(node_id)
                if mark is not None and mark.incarnation is None and node is not None:
                    marks[node_id] = replace(mark, incarnation=node.tags.incarnation)

    def after_plan(self, made: Plan, snapshot: Snapshot, *, undone: Block | None) -> None:
        """Answer the commands that this plan judged, and drop the marks of those it forbids.

        `undone` is why the plan's orders will not be carried out; None if they will.
        """
        asked, self._asked = self._asked, []
        self._marks.forget(commands.ended({**self._marks.drains, **self._marks.kills}, snapshot))
        self._forget_lost()
        if not asked:
            return
        replies: list[tuple[Asked, Reply]] = []
        for said, named in asked:
            reply = self._judged(said, named, made, snapshot, undone=undone)
            if reply is not None:
                replies.append(((said, named), reply))
        self._marks.by_hand.clear()
        if any(said.command.verb is not Verb.CLEAN for said, _ in asked) and not self._marks.save():
            replies = [(one, self._withdrawn(one, reply)) for one, reply in replies]
        for (said, _), reply in replies:
            self._answers.give(said, reply)

    def ended(self, end: End) -> None:
        """Answer the commands that wait for a clean that ended."""
        if end.key.action is not Action.CLEAN:
            return
        order, ended = end.order, end.ended
        name = Reason.STOPPING.value if ended is None else ended.name
        why = None if ended is None else ended.why
        for said, named in self._awaited.pop(order.uuid, ()):
            if name == CLEANED:
                freed = "" if order.slot is None else f", and slot {order.slot} is free"
                self._answers.did(said, named, f"{order.uuid} is clean{freed}")
            elif why is not None and why.reason is not Reason.STOPPING:
                self._answers.give(said, commands.refused(Verb.CLEAN, why, named))
            else:
                text = f"{order.uuid} was not cleaned: {name}; see the log"
                self._answers.give(said, commands.failed(named, text))

    def _judged(
        self,
        said: Ordered,
        named: Named,
        made: Plan,
        snapshot: Snapshot,
        *,
        undone: Block | None,
    ) -> Reply | None:
        """The answer to a command; None for a clean whose outcome will be the answer."""
        node_id = named.node or named.id
        if said.command.verb in DRAINING:
            answer = commands.of_drain if said.command.verb is Verb.DRAIN else commands.of_cordon
            reply = answer(named, made, snapshot, self.destroyed(node_id))
            if reply.result is not Result.DONE:
                self._marks.drains.pop(node_id, None)
            return reply
        if said.command.verb is Verb.KILL:
            reply = commands.of_kill(named, made, snapshot, self.destroyed(node_id))
            if reply.result is not Result.DONE:
                self._marks.kills.pop(node_id, None)
            return reply
        of_clean = commands.of_clean(named, made, snapshot)
        if of_clean is not None:
            return of_clean
        if undone is not None:
            reason, measures = undone
            verdict = keep(named.record or named.id, reason, **measures)
            return commands.refused(said.command.verb, verdict, named)
        self._awaited.setdefault(named.record or named.id, []).append((said, named))
        return None

    def _withdrawn(self, asked: Asked, reply: Reply) -> Reply:
        """Drop a mark that could not be written; the answer that says so."""
        said, named = asked
        if said.command.verb is Verb.CLEAN or reply.result is not Result.DONE:
            return reply
        marks = self._marks.drains if said.command.verb in DRAINING else self._marks.kills
        marks.pop(named.node or named.id, None)
        return commands.failed(named, self._scribe.problem or "the journal can't be written")

    def _forget_lost(self) -> None:
        """Answer commands whose clean took too long and is judged again."""
        flights, _ = self._context.runner.flights()
        for uuid in [one for one in self._awaited if one not in flights]:
            for said, named in self._awaited.pop(uuid):
                text = f"{uuid}: the outcome of its clean is not known yet; see the log"
                self._answers.give(said, commands.failed(named, text))
