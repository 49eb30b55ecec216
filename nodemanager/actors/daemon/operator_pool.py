"""Operators' commands about the pool as a whole: its pause, its rotation's, and its breaker."""

from __future__ import annotations

from nodemanager.actors.daemon.boot_failures import BootFailures
from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.operator_answers import Answers
from nodemanager.actors.daemon.operator_marks import OperatorMarks
from nodemanager.actors.daemon.operator_questions import Questions
from nodemanager.actors.messages import Ordered
from nodemanager.core.safety import breaker as breakers
from nodemanager.core.safety.boot_loops import after_reset
from nodemanager.journal.kept import BOOT_LOOPS, BREAKER


class PoolOrders:
    """Takes `pause`, `resume`, `rotate pause`, `rotate resume` and `breaker reset`."""

    def __init__(
        self,
        context: Context,
        marks: OperatorMarks,
        boot_failures: BootFailures,
        answers: Answers,
        questions: Questions,
    ) -> None:
        self._context = context
        self._scribe = context.journal_writer
        self._marks = marks
        self._boot_failures = boot_failures
        self._answers = answers
        self._questions = questions

    def pause(self, said: Ordered) -> None:
        """Pause the pool: nothing is created, destroyed or freed until `resume` (O4)."""
        if self._marks.paused is not None:
            self._answers.already(said, None, "the pool is paused already", self._marks.paused)
            return
        self._marks.paused = self._questions.mark(said)
        if not self._marks.save():
            self._marks.paused = None
            self._answers.not_written(said, None)
            return
        self._context.decide_soon()
        text = (
            "the pool is paused: nothing is created, destroyed or freed; actions that were already "
            "sent still end; `nodemanager resume` ends the pause"
        )
        self._answers.did(said, None, text)

    def resume(self, said: Ordered) -> None:
        """End the pause."""
        standing, self._marks.paused = self._marks.paused, None
        if standing is None:
            self._answers.already(said, None, "the pool is not paused")
        elif not self._marks.save():
            self._marks.paused = standing
            self._answers.not_written(said, None)
        else:
            self._context.decide_soon()
            self._answers.did(said, None, "the pool goes on")

    def rotate_pause(self, said: Ordered) -> None:
        """Replace no outdated node until `rotate resume` (O6)."""
        if self._marks.rotation is not None:
            self._answers.already(
                said, None, "the rotation is paused already", self._marks.rotation
            )
            return
        self._marks.rotation = self._questions.mark(said)
        if not self._marks.save():
            self._marks.rotation = None
            self._answers.not_written(said, None)
            return
        self._context.decide_soon()
        text = (
            "the rotation is paused: no outdated node is replaced; a destroy that was already sent "
            "still ends; `nodemanager rotate resume` ends the pause"
        )
        self._answers.did(said, None, text)

    def rotate_resume(self, said: Ordered) -> None:
        """End the pause of the rotation."""
        standing, self._marks.rotation = self._marks.rotation, None
        if standing is None:
            self._answers.already(said, None, "the rotation is not paused")
        elif not self._marks.save():
            self._marks.rotation = standing
            self._answers.not_written(said, None)
        else:
            self._context.decide_soon()
            self._answers.did(said, None, "the rotation goes on")

    def reset_breaker(self, said: Ordered) -> None:
        """Close the breaker, and forget failed boots (B3, B5)."""
        if self._scribe.problem is not None:
            self._answers.not_written(said, None)
            return
        loops = self._context.limits.loops
        if not self._context.breaker.is_open and loops.are_none:
            self._answers.already(said, None, "the breaker is closed")
            return
        breaker = self._context.breaker
        after = breakers.reset(breaker, self._context.now) if breaker.is_open else breaker
        if not self._scribe.keep_all({BREAKER: after, BOOT_LOOPS: after_reset(loops)}):
            self._answers.not_written(said, None)
            return
        self._boot_failures.reset()
        self._context.turn_breaker(after)
        self._answers.did(said, None, "the breaker is closed")
