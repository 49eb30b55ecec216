"""Remembers freed lives, and restores the records of those that go on (SAFETY.md U8)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodemanager.actors.daemon.context import Context
from nodemanager.core.execute.restore import order_restore
from nodemanager.core.execute.workflow import Action
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.judge import false_clean
from nodemanager.core.model.settings import FREED_KEPT_S
from nodemanager.core.model.world import FreedLife, LatePing
from nodemanager.core.observe.facts import LatePinged, LivesFreed, NodesAnswered
from nodemanager.core.replay.fold import after_fact
from nodemanager.journal.kept import GIVEN_BACK


@dataclass(eq=False)
class FalseCleans:
    """Loads freed lives, takes in their signs of life, and begins restores."""

    _context: Context

    def load(self) -> None:
        """Load what former runs freed, from the journal's pre-images."""
        clock, now = self._context.wall_clock, self._context.now
        writer = self._context.journal_writer
        cleans = []
        for image in writer.pre_images(since=clock.now(now) - FREED_KEPT_S):
            if image.outcome != CLEANED or image.ended_at is None:
                continue
            before = image.record
            life = FreedLife(
                before.uuid,
                before.incarnation,
                # If our clock was set back since, it was freed now, not in the future.
                clock.since(image.ended_at, now),
                node_id=before.instance_id,
                slot=before.slot_number,
                hostname=before.hostname,
                why=image.reason,
            )
            cleans.append((life, image.ended_at))
        lives = false_clean.not_given_back(cleans, writer.kept(GIVEN_BACK))
        # Oldest first: if a life was freed twice, the later end counts.
        if lives:
            self._context.fold(LivesFreed(tuple(reversed(lives)), now))

    def late_pings(self, late: tuple[LatePing, ...]) -> None:
        """Take in the late pings that the store remembers, if they change the breaker."""
        context = self._context
        if not late and not context.breaker.is_open:
            return
        fact = LatePinged(late, context.now)
        if after_fact(context.state, fact, context.settings).breaker != context.breaker:
            context.fold(fact)

    def answered(self, fact: NodesAnswered) -> None:
        """Take in the cloud's answers by id, and decide soon if a false clean waits for one."""
        context = self._context
        context.fold(replace(fact, at=context.now))
        asked_for = {life.node_id for life in false_clean.open_lives(context.breaker)}
        if asked_for & fact.answers.keys():
            context.decide_soon()

    def begin_restore(self, life: FreedLife, plan_id: str, now: float) -> None:
        """Begin a restore from the journal's pre-images of the record (U8)."""
        images = self._context.journal_writer.pre_images(record=life.record)
        order = order_restore(life, (one.record for one in images), plan_id)
        if order.known is not None or self._context.journal_writer.problem is None:
            self._context.runner.begin(Action.RESTORE, order, plan_id, now)
