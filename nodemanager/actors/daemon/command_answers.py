"""How a command finds what it names, waits for a plan, and gets its one answer (O1-O6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.intents import shutdowns_in
from nodemanager.actors.messages import Ordered
from nodemanager.core.execute.news import HandCleans
from nodemanager.core.execute.workflow import Action, End
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.explain.explain import APPLY, STANDBY
from nodemanager.core.model.annotations import Mark, Marks
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.verdict import Objection, keep
from nodemanager.core.model.world import Tags
from nodemanager.core.observe.facts import CommandGiven
from nodemanager.core.observe.pairing import NO_PAIRS
from nodemanager.core.observe.queries import node_shown
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate import commands
from nodemanager.core.operate.naming import Known, Named
from nodemanager.core.operate.replies import Command, Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan
from nodemanager.lib.log import INFO, WARNING
from nodemanager.lib.logline import timestamp


@dataclass(eq=False)
class OperatorMarks:
    """Changes the marks in the State; all but cleans by hand are in the journal, too."""

    _context: Context

    @property
    def all(self) -> Marks:
        """All marks that stand, but no cleans by hand."""
        return self._context.state.marks

    def put(self, kind: str, node_id: str, mark: Mark | None) -> None:
        """Set the mark of that kind on a node, or take it away, until it is written."""
        others = {id: one for id, one in getattr(self.all, kind).items() if id != node_id}
        changed = others if mark is None else {**others, node_id: mark}
        changes: dict[str, Any] = {kind: changed}
        self._context.learn(replace(self.all, **changes))

    def save(self, marks: Marks) -> bool:
        """Write these marks, and take them over once they are on the disk; whether they are."""
        written = self._context.journal_writer.save_marks(marks)
        if written:
            self._context.learn(marks)
        return written

    def forget(self, ended: frozenset[str]) -> None:
        """Forget the drains and kills of these nodes, which do not exist any more."""
        marks = commands.without_marks(self.all, ended)
        if marks != self.all:
            self._context.learn(marks)
            self.save(marks)


class Answered(Exception):
    """Ends the handling of a command: it names nothing, or can't be carried out now."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.text)
        self.reply = reply


@dataclass(eq=False)
class Names:
    """Looks ids up in all that this daemon knows."""

    _context: Context
    _marks: OperatorMarks

    def known(self) -> Known:
        """All that an id may name: what is listed, expected, left over or marked."""
        plan = self._context.state.plan
        nodes = self._context.state.expected.values()
        expected = {one.node_id for one in nodes if one.node_id is not None}
        left = {one.leftover.id for one in self._context.state.ledger.entries.values()}
        left |= {one.leftover.node_id for one in self._context.state.ledger.entries.values()}
        marks = self._marks.all
        marked = {*marks.drains, *marks.kills, *marks.holds}
        return Known(
            self._context.history,
            plan.pairs if plan is not None else NO_PAIRS,
            frozenset(expected | (left - {""}) | marked),
        )

    def found(self, command: Command) -> Named:
        """What the command names. Raises Answered if it names nothing."""
        found = commands.find(command.id or "", self.known())
        if isinstance(found, Reply):
            raise Answered(found)
        return found

    def node(self, command: Command) -> Named:
        """The node that the command names. Raises Answered if there is none, or it has gone."""
        self._check_sent_away(command)
        named = self.found(command)
        if named.node is None:
            raise Answered(commands.without(named, Reason.NO_NODE, self.known()))
        return named

    def _check_sent_away(self, command: Command) -> None:
        """Raise Answered if the command names a node that was sent away lately."""
        given, wall = command.id or "", self._context.clock.wall()
        found = commands.find(given, self.known())
        named = found if isinstance(found, Named) else None
        if named is not None and given in (named.record, named.node):
            return
        gone = shutdowns_in(self._context.journal_writer.concluded(wall - commands.SENT_AWAY_S))
        before = commands.sent_away(given, named, gone)
        if before is not None:
            order, at = before
            now = None if named is None else named.node or named.id
            raise Answered(commands.of_sent_away(command.verb, given, order, wall - at, now))


@dataclass(eq=False)
class CommandAnswers:
    """Words the answers, and gives each command its one."""

    _context: Context

    def check_acts(self, command: Command, named: Named) -> None:
        """Raise Answered unless this daemon does what it decides (S3, L6)."""
        mode = self._context.inputs.mode
        if mode != APPLY:
            why = Reason.STANDBY if mode == STANDBY else Reason.DRY_RUN
            raise Answered(commands.refused(command.verb, keep(named.id, why), named))

    def check_writes(self, named: Named | None) -> None:
        """Raise Answered unless the journal takes writes."""
        if self._context.journal_writer.problem is not None:
            raise Answered(self.not_written(named))

    def done(self, command: Command, named: Named | None, more: str = "") -> Reply:
        """That it is done, and what `more` there is to say."""
        text = commands.worded(command.verb, command.verb.row.done, named) + more
        return reply_of(Result.DONE, named, text)

    def already(
        self,
        command: Command,
        named: Named | None,
        more: str = "",
        *,
        text: str = "",
        earlier: Mark | None = None,
    ) -> Reply:
        """That there was nothing to do; `earlier` is the order that says so.

        `text` stands in the place of the verb's own words.
        """
        text = text or commands.worded(command.verb, command.verb.row.already, named)
        if earlier is not None:
            more += f", {commands.since(earlier, timestamp(earlier.at))}"
        return reply_of(Result.ALREADY, named, text + more)

    def not_written(self, named: Named | None) -> Reply:
        """That the journal did not take the order."""
        text = self._context.journal_writer.problem or "the journal can't be written"
        return reply_of(Result.FAILED, named, text)

    def give(self, said: Ordered, reply: Reply) -> None:
        """Log the command and its result, note both in the journal, and answer."""
        fields: dict[str, Any] = {
            **reply.measures,
            "id": said.command.id,
            "record": reply.record,
            "node": reply.node,
            "by": said.command.by or "somebody",
            "cause": said.command.reason or None,
            "forced": ",".join(said.command.forced) or None,
            "result": reply.result,
            "reason": reply.reason,
            "rule": reply.rule,
        }
        if reply.result is Result.FAILED:
            fields["problem"] = reply.text
        # Whoever gave it has the refusal; a warning is what others must know of, too.
        level = WARNING if reply.result is Result.FAILED else INFO
        self._context.log.event(said.command.verb.event, level=level, **fields)
        self._context.journal_writer.note(
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
        if reply.result is Result.DONE:
            # Whoever has the answer and looks must not be shown the time before it.
            self._context.show_orders()
        answered: Callable[[Reply], None] = said.answered
        answered(reply)


def reply_of(result: Result, named: Named | None, text: str) -> Reply:
    """An answer that says what the command named, if it named anything."""
    if named is None:
        return Reply(result, text)
    return Reply(result, text, record=named.record, node=named.node)


JUDGED = {
    Verb.DRAIN: ("drains", commands.of_drain),
    Verb.CORDON: ("drains", commands.of_cordon),
    Verb.KILL: ("kills", commands.of_kill),
}
"""The verbs that a plan answers by its verdict, each with its marks."""

NamedOrder = tuple[Ordered, Named]


@dataclass(eq=False)
class Questions:
    """Keeps each command until a plan has judged it, and a clean until it has ended."""

    _context: Context
    _marks: OperatorMarks
    _answers: CommandAnswers
    _asked: list[NamedOrder] = field(default_factory=list, init=False)
    """Drains, kills and cleans that no plan has judged yet."""
    _awaited: dict[str, list[NamedOrder]] = field(default_factory=dict, init=False)
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
        before = shutdowns_in(self._context.journal_writer.concluded(id=node_id))
        gone = self._context.state.recent.gone
        return frozenset((*gone, *(order.node_id for order, _ in before)))

    def before_plan(self) -> None:
        """Give the newest orders the life of a node that was not listed when they were given."""
        for _, named in self._asked:
            node_id = named.node or named.id
            node = node_shown(self._context.history, node_id)
            for kind in ("drains", "kills"):
                mark = getattr(self._marks.all, kind).get(node_id)
                if mark is not None and mark.incarnation is None and node is not None:
                    mark = replace(mark, incarnation=node.tags.incarnation)
                    self._marks.put(kind, node_id, mark)

    def after_plan(self, made: Plan, snapshot: Snapshot, *, undone: Objection | None) -> None:
        """Answer the commands that this plan judged, and drop the marks of those it forbids.

        `undone` is why the plan's orders will not be carried out; None if they will.
        """
        asked, self._asked = self._asked, []
        marks = self._marks.all
        self._marks.forget(commands.ended({**marks.drains, **marks.kills}, snapshot))
        self._forget_lost()
        if not asked:
            return
        replies: list[tuple[NamedOrder, Reply]] = []
        for said, named in asked:
            reply = self._judged(said, named, made, snapshot, undone=undone)
            if reply is not None:
                replies.append(((said, named), reply))
        self._context.learn(HandCleans({}))
        is_mark = any(said.command.verb is not Verb.CLEAN for said, _ in asked)
        if is_mark and not self._marks.save(self._marks.all):
            replies = [(one, self._withdrawn(one, reply)) for one, reply in replies]
        for (said, _), reply in replies:
            self._answers.give(said, reply)

    def ended(self, end: End) -> None:
        if end.key.action is not Action.CLEAN:
            return
        order, ended = end.order, end.ended
        name = Reason.STOPPING.value if ended is None else ended.name
        why = None if ended is None else ended.why
        for said, named in self._awaited.pop(order.uuid, ()):
            if name == CLEANED:
                freed = "" if order.slot is None else f", and slot {order.slot} is free"
                self._answers.give(said, self._answers.done(said.command, named, freed))
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
        undone: Objection | None,
    ) -> Reply | None:
        """The answer to a command; None for a clean whose outcome will be the answer."""
        node_id = named.node or named.id
        if said.command.verb in JUDGED:
            kind, answer = JUDGED[said.command.verb]
            reply = answer(named, made, snapshot, self.destroyed(node_id))
            if reply.result is not Result.DONE:
                self._marks.put(kind, node_id, None)
            return reply
        of_clean = commands.of_clean(named, made)
        if of_clean is not None:
            return of_clean
        if undone is not None:
            verdict = undone.to(named.record or named.id)
            return commands.refused(said.command.verb, verdict, named)
        self._awaited.setdefault(named.record or named.id, []).append((said, named))
        return None

    def _withdrawn(self, asked: NamedOrder, reply: Reply) -> Reply:
        """Drop a mark that could not be written; the answer that says so."""
        said, named = asked
        if said.command.verb not in JUDGED or reply.result is not Result.DONE:
            return reply
        self._marks.put(JUDGED[said.command.verb][0], named.node or named.id, None)
        return self._answers.not_written(named)

    def _forget_lost(self) -> None:
        """Answer commands whose clean took too long and is judged again."""
        flights, _ = self._context.flights.by_record_and_node()
        for uuid in [one for one in self._awaited if one not in flights]:
            for said, named in self._awaited.pop(uuid):
                text = f"{uuid}: the outcome of its clean is not known yet; see the log"
                self._answers.give(said, commands.failed(named, text))
