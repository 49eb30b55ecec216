"""The daemon's pruning: surplus records that have long been clean are deleted (C8-C12)."""

from __future__ import annotations

from collections.abc import Iterable

from nodemanager.actors.clean_desk import CleanDesk
from nodemanager.actors.intents import prune_intent, prune_key
from nodemanager.actors.messages import (
    LookBeforePrune,
    PruneFailed,
    PruneLooked,
    PruneRecord,
    RecordPruned,
)
from nodemanager.core import history as histories
from nodemanager.core.facts import RecordsExplained
from nodemanager.core.history import Records
from nodemanager.core.prune import PruneOrder, confirm_prune
from nodemanager.core.reasons import Event, Kind, Reason
from nodemanager.errors import Throttled
from nodemanager.journal.api import IntentKind, OpenIntent
from nodemanager.log import WARNING


class PruneDesk(CleanDesk):
    """Hands out looks and deletes; core confirms each before it is sent."""

    _unproven_prunes: frozenset[str] = frozenset()

    def _load_prunes(self, intents: Iterable[OpenIntent]) -> None:
        """Deletes of a former run, of which the next record listing tells (R1)."""
        self._unproven_prunes = frozenset(
            one.intent.record
            for one in intents
            if one.intent.kind is IntentKind.PRUNE and one.intent.record is not None
        )

    def _watch_prunes(self, listing: Records) -> None:
        """Conclude them: the delete was bound to a version, so that nothing of it is left over."""
        if not self._unproven_prunes or not listing.complete:
            return
        listed = {record.uuid for record in listing.items}
        for uuid in sorted(self._unproven_prunes):
            self._conclude(prune_key(uuid), "failed" if uuid in listed else "pruned")
        self._unproven_prunes = frozenset()

    def _begin_prune(self, order: PruneOrder) -> None:
        self._flights.prune_begun(order, self._clock.boottime())
        self._cleaner.give(order.uuid, LookBeforePrune(order))

    def _tell_prune(self, order: PruneOrder) -> None:
        if self._narrator.is_news(order.uuid, order.reason):
            self._log.event(
                Event.RECORD_PRUNE,
                reason=order.reason,
                record=order.uuid,
                **order.measures,
                plan=order.plan_id,
                mode=self._role.mode,
            )

    def on_PruneLooked(self, message: PruneLooked) -> None:
        order, found = message.order, message.found
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        if not self._flights.is_prune(order):
            self._cleaner.done(order.uuid)
            self._settled()
            return
        snapshot = self._snapshot(order.plan_id, without=order.uuid)
        verdict = confirm_prune(order, found, snapshot, self._settings)
        reason, measures = verdict.reason, dict(verdict.measures or {})
        if verdict.kind is Kind.PRUNE and self._stopping is None and found.record is not None:
            if self._scribe.intend([prune_intent(order, found.record)]):
                self._cleaner.go_on(order.uuid, PruneRecord(order, found.record))
                return
            reason, measures = Reason.READ_ONLY, {"detail": self._scribe.problem}
        elif verdict.kind is Kind.PRUNE:
            reason, measures = Reason.STOPPING, {}
        self._log.event(
            Event.RECORD_PRUNE_SKIPPED,
            **{**measures, "record": order.uuid, "reason": reason},
            plan=order.plan_id,
        )
        self._cleaner.done(order.uuid)
        self._prune_ended(order, reason.value)

    def on_RecordPruned(self, message: RecordPruned) -> None:
        order = message.order
        self._cleaner.done(order.uuid)
        self._wrote()
        self._explain(order.uuid)
        self._own_cleans.pop(order.uuid, None)
        self._log.event(
            Event.RECORD_PRUNED,
            reason=order.reason,
            record=order.uuid,
            guarantee=self._role.guarantee,
            plan=order.plan_id,
        )
        self._role.observer.pruned()
        self._prune_ended(order, "pruned")

    def on_PruneFailed(self, message: PruneFailed) -> None:
        order, error = message.order, message.error
        self._cleaner.done(order.uuid)
        self._write_failed(error)
        if not error.definite:
            # It may be gone all the same, and that would be our own doing.
            self._explain(order.uuid)
        self._log.event(
            Event.RECORD_PRUNE_FAILED,
            level=WARNING,
            record=order.uuid,
            error=error,
            plan=order.plan_id,
        )
        self._prune_ended(order, "failed" if error.definite else "unknown")

    def _prune_expired(self, uuid: str) -> None:
        self._explain(uuid)
        self._conclude(prune_key(uuid), "expired")

    def _explain(self, uuid: str) -> None:
        """No listing that lacks it is short for that (L3)."""
        self._scribe.note(RecordsExplained((uuid,), self._clock.boottime()))
        self._history = histories.records_explained(self._history, (uuid,))

    def _prune_ended(self, order: PruneOrder, outcome: str) -> None:
        self._flights.prune_ended(order.uuid, self._clock.boottime())
        self._conclude(prune_key(order.uuid), outcome, reason=order.reason.value)
        self._settled()
