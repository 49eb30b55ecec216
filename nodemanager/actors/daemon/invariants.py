"""Checks each clean again afterwards, and that what was freed stays free (SAFETY.md C0-C12, U8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.intents import clean_key, clean_look, clean_order, destroy_key
from nodemanager.core.execute.restore import order_restore
from nodemanager.core.execute.workflow import Action, End
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.judge import false_clean
from nodemanager.core.model.breaker import Cause
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import FREED_KEPT_S
from nodemanager.core.model.world import FreedLife, LatePing
from nodemanager.core.observe.facts import LatePinged, LivesFreed, NodesAnswered
from nodemanager.core.observe.history import Records
from nodemanager.core.replay.fold import after_fact
from nodemanager.core.safety import proof
from nodemanager.core.safety.breaker import opened
from nodemanager.core.safety.orders import CleanOrder
from nodemanager.core.safety.proof import Violation
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.kept import GIVEN_BACK
from nodemanager.lib.log import ERROR


@dataclass(eq=False)
class Invariants:
    """Checks each clean's journal entry against the rules, once its outcome is known."""

    _context: Context
    _unproven: set[str] = field(default_factory=set, init=False)
    _seen_again: frozenset[str] = frozenset()
    _seen_reported: frozenset[str] = frozenset()

    def ended(self, end: End) -> None:
        if end.has_freed:
            self._prove(end.key.id)

    def _prove(self, uuid: str) -> None:
        """Check one clean, or owe that while the journal can't be read."""
        readable, intent = self._context.journal_writer.newest(clean_key(uuid))
        if not readable:
            self._unproven.add(uuid)
            return
        if intent is not None and intent.kind is IntentKind.FENCE:
            # No write of ours freed it.
            self._unproven.discard(uuid)
            return
        found = _violations(intent)
        rests_on = _rests_on(intent)
        if rests_on is not None:
            readable, destroy = self._context.journal_writer.newest(
                destroy_key(proof.needs_destroy(rests_on) or "")
            )
            if not readable:
                self._unproven.add(uuid)
                return
            if destroy is None or destroy.kind is not IntentKind.DESTROY:
                found = (*found, proof.without_destroy(rests_on))
        self._unproven.discard(uuid)
        if found:
            self._broken(uuid, found, intent.plan_id if intent is not None else None)

    def prove_owed(self) -> None:
        """Check the cleans that the journal could not be read for."""
        for uuid in sorted(self._unproven):
            self._prove(uuid)

    def _broken(self, uuid: str, found: Iterable[Violation], plan_id: str | None) -> None:
        for violation in found:
            self._context.log.event(
                Event.INVARIANT_BROKEN,
                level=ERROR,
                **{
                    **violation.measures,
                    "rule": violation.rule,
                    "record": uuid,
                    "plan": plan_id,
                },
            )
        breaker = self._context.breaker
        part = breaker.part(Cause.INVARIANT)
        ids = frozenset({uuid}) if part is None else part.ids | {uuid}
        now = self._context.now
        self._context.turn_breaker(opened(breaker, Cause.INVARIANT, ids, now, {"count": len(ids)}))

    def watch_freed(self, listing: Records) -> None:
        """Report a freed life that two complete listings in a row show on its record again."""
        if not listing.complete:
            return
        history = self._context.history
        again = proof.listed_again(
            history.freed, self._context.breaker.reported, listing, history.clock
        )
        for key in sorted(again.keys() & self._seen_again):
            life = again[key]
            measures = {
                "incarnation": life.incarnation,
                "late_s": listing.started_at - life.freed_at,
                "detail": "a freed incarnation is listed again",
            }
            if key not in self._seen_reported:
                self._broken(life.record, [Violation("U8", measures)], None)
        self._seen_reported = (self._seen_reported | self._seen_again) & again.keys()
        self._seen_again = frozenset(again)


def _rests_on(intent: Intent | None) -> CleanOrder | None:
    """The order of a clean that needs an earlier destroy of ours as its proof; else None."""
    try:
        order = None if intent is None else clean_order(intent)
    except ValueError:
        # `_violations` reports it as unproven.
        return None
    return order if order is not None and proof.needs_destroy(order) is not None else None


def _violations(intent: Intent | None) -> tuple[Violation, ...]:
    if intent is None:
        return (proof.unproven("the journal has no entry of it"),)
    if intent.pre_image is None:
        return (proof.unproven("the journal has no pre-image of it"),)
    try:
        order, look = clean_order(intent), clean_look(intent)
        return proof.violations(order, look, intent.pre_image)
    except ValueError as error:
        return (proof.unproven(str(error)),)


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
            self._context.runner.begin(Action.RESTORE, order, now)
