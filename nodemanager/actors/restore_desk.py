"""The daemon's way back from a false clean: what is told, and what is given back (SAFETY.md U8)."""

from __future__ import annotations

from collections.abc import Iterable

from nodemanager.actors.monitor_desk import MonitorDesk
from nodemanager.core import breaker as breakers
from nodemanager.core import false_clean
from nodemanager.core.asking import Answers
from nodemanager.core.execute.restore import order_restore
from nodemanager.core.execute.workflow import Action
from nodemanager.core.facts import LatePinged, LivesFreed, NodesAnswered
from nodemanager.core.false_clean import Folded
from nodemanager.core.model import FreedLife, LatePing, life_key
from nodemanager.core.reasons import Event
from nodemanager.core.settings import FREED_KEPT_S
from nodemanager.log import ERROR


class RestoreDesk(MonitorDesk):
    """Remembers what was freed, tells of the lives that go on, and has them given back."""

    def _lives_freed(self, lives: Iterable[FreedLife]) -> None:
        freed, now = tuple(lives), self._clock.boottime()
        if freed:
            self._scribe.note(LivesFreed(freed, now))
            self._history = false_clean.lives_freed(self._history, freed, now)

    def _remember_freed(self) -> None:
        """What former runs freed, by the journal's pre-images."""
        wall, boottime = self._clock.wall(), self._clock.boottime()
        lives = []
        for image in self._scribe.pre_images(since=wall - FREED_KEPT_S):
            if image.outcome != "cleaned" or image.ended_at is None:
                continue
            before = image.record
            key = life_key(before.uuid, before.incarnation)
            if self._scribe.was_given_back(key, image.ended_at):
                continue
            life = FreedLife(
                before.uuid,
                before.incarnation,
                boottime - (wall - image.ended_at),
                node_id=before.instance_id,
                slot=before.slot_number,
                hostname=before.hostname,
                why=image.reason,
            )
            lives.append(life)
        # Oldest first: of a life that was freed twice the later end counts.
        self._lives_freed(reversed(lives))

    def _late_pings(self, late: tuple[LatePing, ...]) -> None:
        if not late and not self._breaker.is_open:
            return
        now = self._clock.boottime()
        folded = false_clean.pings_seen(self._breaker, self._history, late, now, self._settings)
        if folded.breaker != self._breaker:
            self._scribe.note(LatePinged(late, now))
            self._take(folded)

    def _take(self, folded: Folded) -> None:
        """Go on from what a fact left behind, and tell what it told."""
        self._history = folded.history
        back = self._breaker.told.keys() - folded.breaker.told.keys()
        if back:
            wall = self._clock.wall()
            self._scribe.given_back(back, wall, wall - FREED_KEPT_S)
        self._set_breaker(folded.breaker)
        for one in folded.told:
            life = one.life
            self._log.event(
                Event.RECORD_FALSE_CLEAN,
                level=ERROR,
                reason=one.reason,
                record=life.record,
                slot=life.slot,
                host=life.hostname,
                incarnation=life.incarnation,
                node=life.node_id,
                cause=life.why,
                **one.measures,
                clear=false_clean.CLEAR,
            )
        self._tell_broken(folded.told)
        if folded.told:
            self._decide_soon()

    def _take_answers(
        self, answers: Answers, malformed: frozenset[str], asked_at: float | None = None
    ) -> None:
        """The cloud's answers by id; a life that waits for one is judged at once."""
        at = self._clock.boottime()
        self._scribe.note(NodesAnswered(answers, at, malformed, asked_at))
        self._set_breaker(
            breakers.after_answers(
                self._breaker,
                answers,
                asked_at=at if asked_at is None else asked_at,
                settings=self._settings,
            )
        )
        self._take(
            false_clean.answers_seen(
                self._breaker,
                self._history,
                answers,
                at,
                self._settings,
                malformed,
                asked_at=asked_at,
            )
        )
        asked_for = {life.node_id for life in false_clean.open_lives(self._breaker)}
        if asked_for & answers.keys():
            self._decide_soon()

    def _begin_restore(self, life: FreedLife, plan_id: str, now: float) -> None:
        """Hand out the restore, with what the journal knows the record was (U8)."""
        images = self._scribe.pre_images(record=life.record)
        order = order_restore(life, (one.record for one in images), plan_id)
        if order.known is not None or self._scribe.problem is None:
            self._runner.begin(Action.RESTORE, order, plan_id, now)
