"""What operators order: each verb, carried out or refused (SAFETY.md O1-O6).

Marks go into the snapshot, and core decides from them (O1-O4); this package decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nodemanager.actors.daemon import command_answers
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.messages import Ordered
from nodemanager.core.execute.news import HandCleans, LoopsReset
from nodemanager.core.execute.workflow import Action, Key
from nodemanager.core.model.annotations import PARK, HandClean, Mark
from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate import commands
from nodemanager.core.operate.naming import Named
from nodemanager.core.operate.replies import Reply, Result
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.safety import breaker as breakers
from nodemanager.core.safety.boot_loops import after_reset
from nodemanager.journal.kept import BOOT_LOOPS, BREAKER
from nodemanager.lib.logline import timestamp

# Each handler gives its answer, or None where the next plan judges the command.


@dataclass(eq=False)
class Holds:
    """Takes `hold` and `release`; the journal keeps what is on hold."""

    _context: Context
    _marks: command_answers.OperatorMarks
    _names: command_answers.Names
    _answers: command_answers.CommandAnswers

    def hold(self, said: Ordered) -> Reply:
        """Hold the id: nothing automatic touches it until it is released."""
        command, given = said.command, said.command.id or ""
        found = commands.find(given, self._names.known())
        is_unlisted = isinstance(found, Reply) and found.reason in commands.UNLISTED
        if isinstance(found, Reply) and not (is_unlisted and command.unlisted):
            return found
        named = Named(given) if isinstance(found, Reply) else found
        marks = self._marks.all
        earlier = marks.holds.get(named.id)
        if earlier is not None:
            return self._answers.already(command, named, earlier=earlier)
        mark = Mark(command.by, self._context.clock.wall(), command.reason)
        if not self._marks.save(replace(marks, holds={**marks.holds, named.id: mark})):
            return self._answers.not_written(named)
        self._context.decide_soon()
        more = "; no listing shows that id, and a hostname or slot is not an id"
        return self._answers.done(command, named, more if is_unlisted else "")

    def release(self, said: Ordered) -> Reply:
        given, holds = said.command.id or "", self._marks.all.holds
        found = commands.find(given, self._names.known())
        if isinstance(found, Reply) or found.id != given:
            # A hold may be on what is no id: only this very text ends it.
            found = Named(given) if given in holds else found
        if isinstance(found, Reply):
            return found
        named = found
        if named.id not in holds:
            node = self._context.history.present.get(named.node or "")
            # Its record may be deleted; a hold on it keeps the node all the same (C9).
            others = (named.node, named.record, None if node is None else node.tags.record)
            held = next((one for one in others if one in holds), None)
            more = f"; {held} is: `nodemanager release {held}`" if held is not None else ""
            return self._answers.already(said.command, named, more)
        left = {id: mark for id, mark in holds.items() if id != named.id}
        if not self._marks.save(replace(self._marks.all, holds=left)):
            return self._answers.not_written(named)
        self._context.decide_soon()
        return self._answers.done(said.command, named)


@dataclass(eq=False)
class DrainCommands:
    """Takes `drain`, `cordon`, `uncordon`, `kill` and `undrain`; the next plan judges them."""

    _context: Context
    _marks: command_answers.OperatorMarks
    _names: command_answers.Names
    _answers: command_answers.CommandAnswers
    _questions: command_answers.Questions

    def drain(self, said: Ordered) -> Reply | None:
        """Shut the node down once it is idle (O1), or, cordoned, keep it out of use (O5)."""
        named, kept = self._names.node(said.command), said.command.verb is Verb.CORDON
        node_id, marks = named.node or named.id, self._marks.all
        killed, earlier = marks.kills.get(node_id), marks.drains.get(node_id)
        if killed is not None and kept:
            text = f"{node_id} is to be killed: `nodemanager undrain {node_id}` first undoes that"
            return replace(
                command_answers.reply_of(Result.REFUSED, named, text), reason=Reason.KILLED
            )
        if killed is not None:
            text = f"{node_id} is to be killed"
            return self._answers.already(said.command, named, text=text, earlier=killed)
        if earlier is not None and not self._questions.has(node_id):
            return self._change_drain(said, named, earlier, kept=kept)
        if kept and self._context.flights.is_written(Key(Action.SHUTDOWN, node_id)):
            return commands.too_late(named)
        self._answers.check_writes(named)
        mark = replace(self._questions.mark(said, node_id), kept=kept)
        self._marks.put("drains", node_id, mark)
        self._questions.ask(said, named)
        return None

    def _change_drain(self, said: Ordered, named: Named, earlier: Mark, *, kept: bool) -> Reply:
        """Make a drain of a cordon, or a cordon of a drain; a plan judged it before."""
        node_id = named.node or named.id
        if earlier.kept is kept:
            return self._answers.already(said.command, named, earlier=earlier)
        if kept and self._context.flights.is_written(Key(Action.SHUTDOWN, node_id)):
            return commands.too_late(named)
        mark = self._questions.mark(said, node_id, replaced=earlier)
        drains = {**self._marks.all.drains, node_id: replace(mark, kept=kept)}
        if not self._marks.save(replace(self._marks.all, drains=drains)):
            return self._answers.not_written(named)
        self._context.decide_soon()
        ended = Verb.CORDON.value if earlier.kept else Verb.DRAIN.value
        whose = commands.since(earlier, timestamp(earlier.at))
        return self._answers.done(said.command, named, f"; it takes the place of a {ended} {whose}")

    def uncordon(self, said: Ordered) -> Reply:
        """End a cordon; a drain that is none, and a kill, are not undone."""
        named = self._names.node(said.command)
        node_id, marks = named.node or named.id, self._marks.all
        earlier = marks.drains.get(node_id)
        if earlier is not None and earlier.kept and node_id not in marks.kills:
            return self.run(said)
        orders = {"draining": earlier, "to be killed": marks.kills.get(node_id)}
        also = "".join(
            f"; it is {word}: `nodemanager undrain {node_id}` undoes that"
            for word, mark in orders.items()
            if mark is not None and not mark.kept
        )
        return self._answers.already(said.command, named, also)

    def kill(self, said: Ordered) -> Reply | None:
        """Shut the node down now (O2)."""
        named = self._names.node(said.command)
        node_id = named.node or named.id
        earlier = self._marks.all.kills.get(node_id)
        if earlier is not None and not self._questions.has(node_id):
            return self._answers.already(said.command, named, earlier=earlier)
        self._answers.check_acts(said.command, named)
        self._answers.check_writes(named)
        self._marks.put("kills", node_id, self._questions.mark(said, node_id))
        self._questions.ask(said, named)
        return None

    def run(self, said: Ordered) -> Reply:
        named = self._names.node(said.command)
        node_id = named.node or named.id
        if self._context.flights.is_written(Key(Action.SHUTDOWN, node_id)):
            return commands.too_late(named)
        left = commands.without_marks(self._marks.all, {node_id})
        if left == self._marks.all and not self._may_be_there(node_id):
            destroyed = self._questions.destroyed(node_id)
            return commands.nothing_to_undo(named, self._names.known(), destroyed)
        if left == self._marks.all:
            return self._answers.already(said.command, named)
        if not self._marks.save(left):
            return self._answers.not_written(named)
        self._questions.undone(node_id)
        self._context.decide_soon()
        parked = PARK in left.pool and "; but the pool is parked: `nodemanager unpark` ends that"
        return self._answers.done(said.command, named, parked or "")

    def _may_be_there(self, node_id: str) -> bool:
        expected = (one.node_id for one in self._context.state.expected.values())
        return node_id in self._context.history.present or node_id in expected


@dataclass(eq=False)
class PoolOrders:
    """Takes the orders that set or end a mark on the whole pool, and `breaker reset`."""

    _context: Context
    _marks: command_answers.OperatorMarks
    _answers: command_answers.CommandAnswers
    _questions: command_answers.Questions

    def mark(self, said: Ordered) -> Reply:
        """Set the verb's mark, or take it off (O4, O6)."""
        verb, marks = said.command.verb, self._marks.all
        earlier, ends = marks.pool.get(verb.kind), bool(verb.row.ends)
        if (earlier is None) is ends:
            return self._answers.already(said.command, None, earlier=earlier)
        pool = {kind: one for kind, one in marks.pool.items() if kind != verb.kind}
        if not ends:
            pool[verb.kind] = self._questions.mark(said)
        if not self._marks.save(replace(marks, pool=pool)):
            return self._answers.not_written(None)
        self._context.decide_soon()
        return self._answers.done(said.command, None)

    def reset_breaker(self, said: Ordered) -> Reply:
        """Close the breaker, and forget failed boots (B3, B5)."""
        self._answers.check_writes(None)
        loops, breaker = self._context.limits.loops, self._context.breaker
        if not breaker.is_open and loops.are_none:
            return self._answers.already(said.command, None)
        after = breakers.reset(breaker, self._context.now) if breaker.is_open else breaker
        if not self._context.journal_writer.keep_all(
            {BREAKER: after, BOOT_LOOPS: after_reset(loops)}
        ):
            return self._answers.not_written(None)
        self._context.learn(LoopsReset())
        self._context.turn_breaker(after)
        return self._answers.done(said.command, None)


class CommandHandler:
    """Gives each command to what carries it out; `questions` has those that a plan judges."""

    def __init__(self, context: Context, marks: command_answers.OperatorMarks) -> None:
        self._context = context
        self.marks = marks
        self._answers = command_answers.CommandAnswers(context)
        self._names = command_answers.Names(context, marks)
        self.questions = command_answers.Questions(context, marks, self._answers)
        holds = Holds(context, marks, self._names, self._answers)
        drains = DrainCommands(context, marks, self._names, self._answers, self.questions)
        self._pool = PoolOrders(context, marks, self._answers, self.questions)
        self._orders: dict[Verb, Callable[[Ordered], Reply | None]] = {
            Verb.HOLD: holds.hold,
            Verb.RELEASE: holds.release,
            Verb.DRAIN: drains.drain,
            Verb.KILL: drains.kill,
            Verb.CORDON: drains.drain,
            Verb.UNCORDON: drains.uncordon,
            Verb.RUN: drains.run,
            Verb.CLEAN: self._clean,
            Verb.BREAKER_RESET: self._pool.reset_breaker,
        }

    def order(self, said: Ordered) -> None:
        """Begin what the command's verb says, or answer why not."""
        try:
            if said.command.verb.row.ends:
                # What a former run was ordered may not be known yet: that it stands is not denied.
                self._answers.check_writes(None)
            reply = self._orders.get(said.command.verb, self._pool.mark)(said)
        except command_answers.Answered as early:
            reply = early.reply
        if reply is not None:
            self._answers.give(said, reply)

    def _clean(self, said: Ordered) -> Reply | None:
        """Free the record now, unless a rule that was not broken by name forbids it (O3)."""
        mark = self.questions.mark(said)
        never = commands.forcing(said.command.forced, mark)
        if never is not None:
            return never
        named = self._names.found(said.command)
        if named.record is None:
            return commands.without(named, Reason.NO_RECORD, self._names.known())
        self._answers.check_acts(said.command, named)
        hand = HandClean(mark.by, mark.at, mark.reason, said.command.forced)
        by_hand = {**self._context.state.by_hand, named.record: hand}
        self._context.learn(HandCleans(by_hand))
        self.questions.ask(said, named)
        return None
