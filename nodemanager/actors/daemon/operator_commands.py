"""Takes operators' commands: marks them, has the next plan judge them, and answers them.

Marks go into the snapshot, and core decides from them (O1-O4); this module decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodemanager.actors.daemon.boot_failures import BootFailures
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.intents import shutdowns_in
from nodemanager.actors.daemon.leftover_book import LeftoverBook
from nodemanager.actors.daemon.operator_marks import OperatorMarks
from nodemanager.actors.messages import Ordered
from nodemanager.core.execute.workflow import Action, End, Key
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.judge.preconditions import Block
from nodemanager.core.model.annotations import HandClean, Mark
from nodemanager.core.model.facts import CommandGiven
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.verdict import keep
from nodemanager.core.observe.pairing import NO_PAIRS
from nodemanager.core.operate import commands
from nodemanager.core.operate.naming import Known, Named
from nodemanager.core.operate.verbs import Reply, Result, Verb
from nodemanager.core.plan.plan import Plan
from nodemanager.core.plan.snapshot import Snapshot
from nodemanager.core.safety import breaker as breakers
from nodemanager.core.safety.boot_loops import NONE
from nodemanager.journal.api import Hold
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
UNDOING = frozenset({Verb.RELEASE, Verb.UNCORDON, Verb.RUN, Verb.RESUME, Verb.ROTATE_RESUME})
"""The verbs that end an order, mostly one that the journal keeps."""

DRAINING = frozenset({Verb.DRAIN, Verb.CORDON})

Asked = tuple[Ordered, Named]


class CommandHandler:
    """Keeps the operators' marks, and answers each command once its result is known."""

    def __init__(
        self,
        context: Context,
        marks: OperatorMarks,
        leftovers: LeftoverBook,
        boot_failures: BootFailures,
    ) -> None:
        self._context = context
        self._scribe = context.journal_writer
        self.marks = marks
        self._leftovers = leftovers
        self._boot_failures = boot_failures
        self._orders: dict[Verb, Callable[[Ordered], None]] = {
            Verb.HOLD: self._hold,
            Verb.RELEASE: self._release,
            Verb.DRAIN: self._drain,
            Verb.KILL: self._kill,
            Verb.CORDON: self._drain,
            Verb.UNCORDON: self._uncordon,
            Verb.RUN: self._run,
            Verb.CLEAN: self._clean,
            Verb.PAUSE: self._pause,
            Verb.RESUME: self._resume,
            Verb.ROTATE_PAUSE: self._rotate_pause,
            Verb.ROTATE_RESUME: self._rotate_resume,
            Verb.BREAKER_RESET: self._reset_breaker,
        }
        self._asked: list[Asked] = []
        """Drains, kills and cleans that no plan has judged yet."""
        self._awaited: dict[str, list[Asked]] = {}
        """The commands that wait for the outcome of a clean, by record uuid."""

    @property
    def waits(self) -> bool:
        """Whether a command waits for the next plan to judge it."""
        return bool(self._asked)

    def order(self, said: Ordered) -> None:
        """Begin what the command's verb says, or answer why not."""
        if said.command.verb in UNDOING and self._scribe.problem is not None:
            # What a former run was ordered may not be known yet: that it stands is not denied.
            self._not_written(said, None)
            return
        self._orders[said.command.verb](said)

    # What a command names.

    def _known(self) -> Known:
        plan = self._context.plan
        expected = {
            one.node_id for one in self._context.books.expected.values() if one.node_id is not None
        }
        left = {one.leftover.id for one in self._leftovers.ledger.entries.values()}
        left |= {one.leftover.node_id for one in self._leftovers.ledger.entries.values()}
        marked = {*self.marks.drains, *self.marks.kills, *self._scribe.orders.held}
        return Known(
            self._context.history,
            plan.pairs if plan is not None else NO_PAIRS,
            frozenset(expected | (left - {""}) | marked),
        )

    def _found(self, said: Ordered) -> Named | None:
        """What the command names; None if nothing, and then it is answered."""
        found = commands.find(said.command.id or "", self._known())
        if isinstance(found, Named):
            return found
        self._answer(said, found)
        return None

    def _node(self, said: Ordered) -> Named | None:
        """The node that the command names; None if there is none, and then it is answered."""
        if self._sent_away(said):
            return None
        named = self._found(said)
        if named is not None and named.node is None:
            self._answer(said, commands.without(named, Reason.NO_NODE, self._known()))
            return None
        return named

    def _sent_away(self, said: Ordered) -> bool:
        """Whether the command names a node that was sent away lately; then it is answered."""
        given, wall = said.command.id or "", self._context.clock.wall()
        found = commands.find(given, self._known())
        named = found if isinstance(found, Named) else None
        if named is not None and given in (named.record, named.node):
            return False
        gone = shutdowns_in(self._scribe.concluded(wall - commands.SENT_AWAY_S))
        before = commands.sent_away(given, named, gone)
        if before is None:
            return False
        order, at = before
        now = None if named is None else named.node or named.id
        self._answer(said, commands.of_sent_away(said.command.verb, given, order, wall - at, now))
        return True

    # Holds.

    def _hold(self, said: Ordered) -> None:
        """Hold the id: nothing automatic touches it until it is released."""
        given = said.command.id or ""
        found = commands.find(given, self._known())
        is_unlisted = isinstance(found, Reply) and found.reason in commands.UNLISTED
        if isinstance(found, Reply) and not (is_unlisted and said.command.unlisted):
            self._answer(said, found)
            return
        named = Named(given) if isinstance(found, Reply) else found
        standing = self._scribe.orders.hold_on(named.id)
        if standing is not None:
            self._already(said, named, f"{named.id} is on hold already", standing)
            return
        hold = Hold(named.id, said.command.reason, said.command.by, self._context.clock.wall())
        if not self._scribe.orders.hold(hold):
            self._not_written(said, named)
            return
        self._context.decide_soon()
        text = (
            f"{named.id} is on hold: nothing automatic touches it until it is released; "
            f"`nodemanager release {named.id}` ends that"
        )
        if is_unlisted:
            text += "; no listing shows that id, and a hostname or slot is not an id"
        self._did(said, named, text)

    def _release(self, said: Ordered) -> None:
        """End the hold."""
        given = said.command.id or ""
        found = commands.find(given, self._known())
        if isinstance(found, Reply) or found.id != given:
            # A hold may be on what is no id: only this very text ends it.
            found = Named(given) if self._scribe.orders.hold_on(given) is not None else found
        if isinstance(found, Reply):
            self._answer(said, found)
            return
        named = found
        if self._scribe.orders.hold_on(named.id) is None:
            node = self._context.history.present.get(named.node or "")
            # Its record may be deleted; a hold on it keeps the node all the same (C9).
            others = (named.node, named.record, None if node is None else node.tags.record)
            held = next((one for one in others if one and self._scribe.orders.hold_on(one)), None)
            more = f"; {held} is: `nodemanager release {held}`" if held is not None else ""
            self._already(said, named, f"{named.id} is not on hold{more}")
        elif not self._scribe.orders.release(named.id):
            self._not_written(said, named)
        else:
            self._context.decide_soon()
            self._did(said, named, f"{named.id} is on hold no longer")

    # Drains and kills.

    def _drain(self, said: Ordered) -> None:
        """Shut the node down once it is idle (O1), or, cordoned, keep it out of use (O5)."""
        named = self._node(said)
        if named is None:
            return
        node_id, kept = named.node or named.id, said.command.verb is Verb.CORDON
        killed, standing = self.marks.kills.get(node_id), self.marks.drains.get(node_id)
        if killed is not None and kept:
            text = f"{node_id} is to be killed: `nodemanager undrain {node_id}` first undoes that"
            self._answer(said, replace(_reply(Result.REFUSED, named, text), reason=Reason.KILLED))
        elif killed is not None:
            self._already(said, named, f"{node_id} is to be killed", killed)
        elif standing is not None and not self._is_asked(node_id):
            self._change_drain(said, named, standing, kept=kept)
        elif kept and self._context.runner.is_written(Key(Action.SHUTDOWN, node_id)):
            self._answer(said, commands.too_late(named))
        elif self._may_write(said, named):
            self.marks.drains[node_id] = replace(self._mark(said, node_id), kept=kept)
            self._ask(said, named)

    def _change_drain(self, said: Ordered, named: Named, standing: Mark, *, kept: bool) -> None:
        """Make a drain of a standing cordon, or a cordon of a drain; a plan judged it before."""
        node_id = named.node or named.id
        if standing.kept is kept:
            word = "cordoned" if kept else "draining"
            self._already(said, named, f"{node_id} is {word} already", standing)
            return
        if kept and self._context.runner.is_written(Key(Action.SHUTDOWN, node_id)):
            self._answer(said, commands.too_late(named))
            return
        self.marks.drains[node_id] = replace(self._mark(said, node_id), kept=kept)
        if not self.marks.save():
            self.marks.drains[node_id] = standing
            self._not_written(said, named)
            return
        self._context.decide_soon()
        self._answer(said, commands.cordoned(named) if kept else commands.draining(named))

    def _uncordon(self, said: Ordered) -> None:
        """End a cordon; a drain that is none, and a kill, are not undone."""
        named = self._node(said)
        if named is None:
            return
        node_id = named.node or named.id
        standing = self.marks.drains.get(node_id)
        if standing is not None and standing.kept and node_id not in self.marks.kills:
            self._run(said)
            return
        orders = {"draining": standing, "to be killed": self.marks.kills.get(node_id)}
        also = "".join(
            f"; it is {word}: `nodemanager undrain {node_id}` undoes that"
            for word, mark in orders.items()
            if mark is not None and not mark.kept
        )
        self._already(said, named, f"{node_id} is not cordoned{also}")

    def _kill(self, said: Ordered) -> None:
        """Shut the node down now (O2)."""
        named = self._node(said)
        if named is None:
            return
        node_id = named.node or named.id
        standing = self.marks.kills.get(node_id)
        if standing is not None and not self._is_asked(node_id):
            self._already(said, named, f"{node_id} is to be killed already", standing)
        elif self._acts(said, named) and self._may_write(said, named):
            self.marks.kills[node_id] = self._mark(said, node_id)
            self._ask(said, named)

    def _run(self, said: Ordered) -> None:
        """Undo a drain or a kill."""
        named = self._node(said)
        if named is None:
            return
        node_id = named.node or named.id
        if self._context.runner.is_written(Key(Action.SHUTDOWN, node_id)):
            self._answer(said, commands.too_late(named))
            return
        drain, kill = self.marks.drains.pop(node_id, None), self.marks.kills.pop(node_id, None)
        if drain is None and kill is None and not self._may_be_there(node_id):
            destroyed = self._destroyed(node_id)
            self._answer(said, commands.nothing_to_undo(named, self._known(), destroyed))
            return
        if drain is None and kill is None:
            self._already(said, named, f"{node_id} is neither draining nor to be killed")
            return
        if not self.marks.save():
            self.marks.drains |= {} if drain is None else {node_id: drain}
            self.marks.kills |= {} if kill is None else {node_id: kill}
            self._not_written(said, named)
            return
        self._context.decide_soon()
        self._did(said, named, f"{node_id} may take work again")

    def _may_be_there(self, node_id: str) -> bool:
        expected = (one.node_id for one in self._context.books.expected.values())
        return node_id in self._context.history.present or node_id in expected

    def _destroyed(self, node_id: str) -> frozenset[str]:
        """The nodes that we destroyed lately, and `node_id` if the journal says so of it."""
        before = shutdowns_in(self._scribe.concluded(id=node_id))
        return frozenset((*self._context.recent.gone, *(order.node_id for order, _ in before)))

    # Cleans by hand.

    def _clean(self, said: Ordered) -> None:
        """Free the record now, unless a rule that was not broken by name forbids it (O3)."""
        never = commands.forcing(said.command.forced, self._mark(said))
        if never is not None:
            self._answer(said, never)
            return
        named = self._found(said)
        if named is None:
            return
        if named.record is None:
            self._answer(said, commands.without(named, Reason.NO_RECORD, self._known()))
        elif self._acts(said, named):
            mark = self._mark(said)
            self.marks.by_hand[named.record] = HandClean(
                mark.by, mark.at, mark.reason, said.command.forced
            )
            self._ask(said, named)

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
                self._did(said, named, f"{order.uuid} is clean{freed}")
            elif why is not None and why.reason is not Reason.STOPPING:
                self._answer(said, commands.refused(Verb.CLEAN, why, named))
            else:
                text = f"{order.uuid} was not cleaned: {name}; see the log"
                self._answer(said, commands.failed(named, text))

    # The pool.

    def _pause(self, said: Ordered) -> None:
        """Pause the pool: nothing is created, destroyed or freed until `resume` (O4)."""
        if self.marks.paused is not None:
            self._already(said, None, "the pool is paused already", self.marks.paused)
            return
        self.marks.paused = self._mark(said)
        if not self.marks.save():
            self.marks.paused = None
            self._not_written(said, None)
            return
        self._context.decide_soon()
        text = (
            "the pool is paused: nothing is created, destroyed or freed; actions that were already "
            "sent still end; `nodemanager resume` ends the pause"
        )
        self._did(said, None, text)

    def _resume(self, said: Ordered) -> None:
        """End the pause."""
        standing, self.marks.paused = self.marks.paused, None
        if standing is None:
            self._already(said, None, "the pool is not paused")
        elif not self.marks.save():
            self.marks.paused = standing
            self._not_written(said, None)
        else:
            self._context.decide_soon()
            self._did(said, None, "the pool goes on")

    def _rotate_pause(self, said: Ordered) -> None:
        """Replace no outdated node until `rotate resume` (O6)."""
        if self.marks.rotation is not None:
            self._already(said, None, "the rotation is paused already", self.marks.rotation)
            return
        self.marks.rotation = self._mark(said)
        if not self.marks.save():
            self.marks.rotation = None
            self._not_written(said, None)
            return
        self._context.decide_soon()
        text = (
            "the rotation is paused: no outdated node is replaced; a destroy that was already sent "
            "still ends; `nodemanager rotate resume` ends the pause"
        )
        self._did(said, None, text)

    def _rotate_resume(self, said: Ordered) -> None:
        """End the pause of the rotation."""
        standing, self.marks.rotation = self.marks.rotation, None
        if standing is None:
            self._already(said, None, "the rotation is not paused")
        elif not self.marks.save():
            self.marks.rotation = standing
            self._not_written(said, None)
        else:
            self._context.decide_soon()
            self._did(said, None, "the rotation goes on")

    def _reset_breaker(self, said: Ordered) -> None:
        """Close the breaker, and forget failed boots (B3, B5)."""
        if self._scribe.problem is not None:
            self._not_written(said, None)
            return
        if not self._context.breaker.is_open and self._context.limits.loops == NONE:
            self._already(said, None, "the breaker is closed")
            return
        self._boot_failures.reset()
        if self._context.breaker.is_open:
            now = self._context.now
            self._context.turn_breaker(breakers.reset(self._context.breaker, now))
        if self._scribe.problem is not None:
            self._not_written(said, None)
        else:
            self._did(said, None, "the breaker is closed")

    # What the next plan decides.

    def _mark(self, said: Ordered, node_id: str | None = None) -> Mark:
        node = self._context.history.present.get(node_id or "")
        incarnation = node.tags.incarnation if node is not None else None
        return Mark(said.command.by, self._context.clock.wall(), said.command.reason, incarnation)

    def _ask(self, said: Ordered, named: Named) -> None:
        self._asked.append((said, named))
        self._context.decide_soon()

    def _is_asked(self, node_id: str) -> bool:
        return any((named.node or named.id) == node_id for _, named in self._asked)

    def after_plan(self, made: Plan, snapshot: Snapshot, *, undone: Block | None) -> None:
        """Answer the commands that this plan judged, and drop the marks of those it forbids.

        `undone` is why the plan's orders will not be carried out; None if they will.
        """
        asked, self._asked = self._asked, []
        self.marks.forget(commands.ended({**self.marks.drains, **self.marks.kills}, snapshot))
        self._forget_lost()
        if not asked:
            return
        replies: list[tuple[Asked, Reply]] = []
        for said, named in asked:
            reply = self._judged(said, named, made, snapshot, undone=undone)
            if reply is not None:
                replies.append(((said, named), reply))
        self.marks.by_hand.clear()
        if any(said.command.verb is not Verb.CLEAN for said, _ in asked) and not self.marks.save():
            replies = [(one, self._withdrawn(one, reply)) for one, reply in replies]
        for (said, _), reply in replies:
            self._answer(said, reply)

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
            reply = answer(named, made, snapshot, self._destroyed(node_id))
            if reply.result is not Result.DONE:
                self.marks.drains.pop(node_id, None)
            return reply
        if said.command.verb is Verb.KILL:
            reply = commands.of_kill(named, made, snapshot, self._destroyed(node_id))
            if reply.result is not Result.DONE:
                self.marks.kills.pop(node_id, None)
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
        marks = self.marks.drains if said.command.verb in DRAINING else self.marks.kills
        marks.pop(named.node or named.id, None)
        return commands.failed(named, self._scribe.problem or "the journal can't be written")

    def _forget_lost(self) -> None:
        """Answer commands whose clean took too long and is judged again."""
        flights, _ = self._context.runner.flights()
        for uuid in [one for one in self._awaited if one not in flights]:
            for said, named in self._awaited.pop(uuid):
                text = f"{uuid}: the outcome of its clean is not known yet; see the log"
                self._answer(said, commands.failed(named, text))

    # Answers.

    def _acts(self, said: Ordered, named: Named) -> bool:
        """Whether this is no dry run; if it is one, the command is answered (S3)."""
        if self._context.inputs.mode == "apply":
            return True
        self._answer(
            said, commands.refused(said.command.verb, keep(named.id, Reason.DRY_RUN), named)
        )
        return False

    def _may_write(self, said: Ordered, named: Named) -> bool:
        if self._scribe.problem is None:
            return True
        self._not_written(said, named)
        return False

    def _did(self, said: Ordered, named: Named | None, text: str) -> None:
        self._answer(said, _reply(Result.DONE, named, text))

    def _already(
        self, said: Ordered, named: Named | None, text: str, standing: Mark | None = None
    ) -> None:
        if standing is not None:
            text = f"{text}, {commands.since(standing, timestamp(standing.at))}"
        self._answer(said, _reply(Result.ALREADY, named, text))

    def _not_written(self, said: Ordered, named: Named | None) -> None:
        text = self._scribe.problem or "the journal can't be written"
        self._answer(said, _reply(Result.FAILED, named, text))

    def _answer(self, said: Ordered, reply: Reply) -> None:
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


def _reply(result: Result, named: Named | None, text: str) -> Reply:
    if named is None:
        return Reply(result, text)
    return Reply(result, text, record=named.record, node=named.node)
