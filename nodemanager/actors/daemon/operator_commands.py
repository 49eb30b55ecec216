"""Takes operators' commands: marks them, has the next plan judge them, and answers them.

Marks go into the snapshot, and core decides from them (O1-O4); this package decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from nodemanager.actors.daemon.boot_failures import BootFailures
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.leftover_book import LeftoverBook
from nodemanager.actors.daemon.operator_answers import Answers
from nodemanager.actors.daemon.operator_drains import Drains
from nodemanager.actors.daemon.operator_holds import Holds
from nodemanager.actors.daemon.operator_marks import OperatorMarks
from nodemanager.actors.daemon.operator_names import Names
from nodemanager.actors.daemon.operator_pool import PoolOrders
from nodemanager.actors.daemon.operator_questions import Questions
from nodemanager.actors.messages import Ordered
from nodemanager.core.execute.workflow import End
from nodemanager.core.judge.preconditions import Block
from nodemanager.core.model.annotations import HandClean
from nodemanager.core.model.reasons import Reason
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate import commands
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.plan import Plan

UNDOING = frozenset({Verb.RELEASE, Verb.UNCORDON, Verb.RUN, Verb.RESUME, Verb.ROTATE_RESUME})
"""The verbs that end an order, mostly one that the journal keeps."""


class CommandHandler:
    """Gives each command to what carries it out."""

    def __init__(
        self,
        context: Context,
        marks: OperatorMarks,
        leftovers: LeftoverBook,
        boot_failures: BootFailures,
    ) -> None:
        self._scribe = context.journal_writer
        self.marks = marks
        self._answers = Answers(context)
        self._names = Names(context, marks, leftovers, self._answers)
        self._questions = Questions(context, marks, self._answers)
        holds = Holds(context, self._names, self._answers)
        drains = Drains(context, marks, self._names, self._answers, self._questions)
        pool = PoolOrders(context, marks, boot_failures, self._answers, self._questions)
        self._orders: dict[Verb, Callable[[Ordered], None]] = {
            Verb.HOLD: holds.hold,
            Verb.RELEASE: holds.release,
            Verb.DRAIN: drains.drain,
            Verb.KILL: drains.kill,
            Verb.CORDON: drains.drain,
            Verb.UNCORDON: drains.uncordon,
            Verb.RUN: drains.run,
            Verb.CLEAN: self._clean,
            Verb.PAUSE: pool.pause,
            Verb.RESUME: pool.resume,
            Verb.ROTATE_PAUSE: pool.rotate_pause,
            Verb.ROTATE_RESUME: pool.rotate_resume,
            Verb.BREAKER_RESET: pool.reset_breaker,
        }

    @property
    def waits(self) -> bool:
        """Whether a command waits for the next plan to judge it."""
        return self._questions.waits

    def order(self, said: Ordered) -> None:
        """Begin what the command's verb says, or answer why not."""
        if said.command.verb in UNDOING and self._scribe.problem is not None:
            # What a former run was ordered may not be known yet: that it stands is not denied.
            self._answers.not_written(said, None)
            return
        self._orders[said.command.verb](said)

    def _clean(self, said: Ordered) -> None:
        """Free the record now, unless a rule that was not broken by name forbids it (O3)."""
        never = commands.forcing(said.command.forced, self._questions.mark(said))
        if never is not None:
            self._answers.give(said, never)
            return
        named = self._names.found(said)
        if named is None:
            return
        if named.record is None:
            self._answers.give(said, commands.without(named, Reason.NO_RECORD, self._names.known()))
        elif self._answers.acts(said, named):
            mark = self._questions.mark(said)
            self.marks.by_hand[named.record] = HandClean(
                mark.by, mark.at, mark.reason, said.command.forced
            )
            self._questions.ask(said, named)

    def ended(self, end: End) -> None:
        """Answer the commands that wait for a clean that ended."""
        self._questions.ended(end)

    def before_plan(self) -> None:
        """Have the commands that the next plan judges be about the nodes that it knows."""
        self._questions.before_plan()

    def after_plan(self, made: Plan, snapshot: Snapshot, *, undone: Block | None) -> None:
        """Answer the commands that this plan judged, and drop the marks of those it forbids."""
        self._questions.after_plan(made, snapshot, undone=undone)
