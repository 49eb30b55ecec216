"""The daemon's cleaning: from an order over the last look to the write (SAFETY.md C11, C12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.actors.intents import (
    clean_intent,
    clean_key,
    destroy_key,
)
from nodemanager.actors.messages import (
    CleanAgain,
    CleanFailed,
    CleanLooked,
    Fence,
    FenceLifted,
    FenceRecord,
    FreeRecord,
    LiftFence,
    LookBeforeClean,
    RecordCleaned,
    RecordFenced,
)
from nodemanager.actors.narrator import record_fields
from nodemanager.actors.restore_desk import RestoreDesk
from nodemanager.core.evidence import look_at
from nodemanager.core.last_look import CleanEvidence, confirm_clean
from nodemanager.core.late import NEVER, Unknown, after_unknown
from nodemanager.core.model import Guarantee, Outcome, Record
from nodemanager.core.orders import CleanOrder, fenced_order, order_release
from nodemanager.core.reasons import Event, Kind, Reason
from nodemanager.core.verdict import Verdict
from nodemanager.errors import Throttled
from nodemanager.log import WARNING


class CleanDesk(RestoreDesk):
    """Hands out looks, fences and writes; core confirms each before the next."""

    def _afresh(self, order: CleanOrder) -> CleanOrder:
        """A clean of its own right, ordered again now."""
        return order_release(
            order.uuid,
            order.reason,
            self._snapshot(order.plan_id),
            incarnation=order.incarnation,
            instance_id=order.instance_id,
            slot=order.slot,
            hostname=order.hostname,
        )

    def _begin_clean(self, order: CleanOrder) -> None:
        if order.is_exception:
            # A stale record will be stale after a restart; this one only we know of.
            self._intend_afresh(order)
        self._flights.clean_begun(order, self._clock.boottime())
        self._cleaner.give(order.uuid, LookBeforeClean(order))

    def _intend_afresh(self, order: CleanOrder) -> None:
        """Unless a write of it may have been sent: then its proof must stay."""
        if not self._scribe.may_be_written(clean_key(order.uuid)):
            self._scribe.intend([clean_intent(order)])

    def _lift_left(self, order: CleanOrder) -> None:
        """Lift a fence that a listing shows, and that nothing of ours is behind any more."""
        record = self._listed(order.uuid)
        if record is None or not self._scribe.intend([clean_intent(order, record, fence=True)]):
            return
        fields = record_fields(record, order.uuid)
        self._log.event(Event.RECORD_UNFENCED, **fields, reason=order.reason, plan=order.plan_id)
        fence = Fence(record, record)
        self._flights.clean_begun(order, self._clock.boottime())
        self._flights.fenced(fence, order)
        self._cleaner.give(order.uuid, LiftFence(order, fence))

    def _listed(self, uuid: str) -> Record | None:
        listing = self._history.records
        items = listing.items if listing is not None else ()
        return next((record for record in items if record.uuid == uuid), None)

    def on_CleanLooked(self, message: CleanLooked) -> None:
        order, found = message.order, message.found
        key = clean_key(order.uuid)
        self._recovery.answered(key, found.error)
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        if found.malformed and found.record is not None and found.record.instance_id is not None:
            self._take_answers({}, frozenset({found.record.instance_id}))
        if not self._flights.is_clean(order):
            if message.fenced is not None:
                self._cleaner.go_on(order.uuid, LiftFence(order, message.fenced))
                return
            self._cleaner.done(order.uuid)
            self._settled()
            return
        unknown = self._flights.unknown.get(order.uuid)
        if unknown is not None and message.fenced is not None:
            self._look_behind(replace(unknown, order=order), message.fenced, found)
            return
        verdict = confirm_clean(
            order, found, self._snapshot(order.plan_id, without=order.uuid), self._settings
        )
        if verdict.kind is not Kind.CLEAN or self._stopping is not None:
            self._tell_skipped(order, found, verdict)
            reason, _ = why_not(verdict)
            # One that failed to be written itself opened the breaker: it waits for the store.
            waits = reason is Reason.BREAKER_OPEN and self._failed_writes > 0
            waits = waits or reason is Reason.PAUSED
            again = waits or reason in (Reason.EVIDENCE_MISSING, Reason.READ_ONLY)
            done = self._scribe.may_be_written(key) and _is_done(order, found)
            if message.fenced is not None and not done:
                self._cleaner.go_on(order.uuid, LiftFence(order, message.fenced, again))
                return
            if done:
                self._flights.unfenced(order.uuid)
            self._cleaner.done(order.uuid)
            self._clean_ended(order, "cleaned" if done else reason.value, again=again)
            return
        assert found.record is not None
        self._write_clean(order, found, found.record, message.fenced)

    def _look_behind(self, unknown: Unknown, fence: Fence, found: CleanEvidence) -> None:
        """A clean of unknown outcome: its fence stays until that is known (C12)."""
        uuid = unknown.order.uuid
        snapshot = self._snapshot(unknown.order.plan_id, without=uuid)
        order, verdict = after_unknown(unknown, found, snapshot, self._settings)
        if order is not unknown.order:
            self._flights.clean_begun(order, self._flights.cleans[uuid][1])
        if verdict.reason is Reason.HOLDS_NOTHING:
            self._cleaner.done(uuid)
            self._freed(order, fence.judged)
        elif verdict.kind is Kind.LIFT and self._stopping is None:
            self._tell_skipped(order, found, verdict)
            self._flights.unknown.pop(uuid, None)
            self._cleaner.go_on(uuid, LiftFence(order, fence))
        elif verdict.kind is Kind.CLEAN and self._stopping is None and found.record is not None:
            if order.fenced:
                self._write_clean(order, found, found.record, fence)
            else:
                self._cleaner.go_on(uuid, FenceRecord(order, found.record))
        else:
            self._tell_skipped(order, found, verdict)
            self._look_again(order)

    def _look_again(self, order: CleanOrder) -> None:
        """Later; or by the next run, which finds the intent open."""
        self._cleaner.done(order.uuid)
        if self._stopping is None:
            wait_s = self._flights.next_question_s(order.uuid, self._settings.max_poll_time)
            self._timer.after(wait_s, self.actor_ref, CleanAgain(order))
        self._settled()

    def _tell_skipped(self, order: CleanOrder, found: CleanEvidence, verdict: Verdict) -> None:
        reason, measures = why_not(verdict)
        self._log.event(
            Event.RECORD_CLEAN_SKIPPED,
            **{**record_fields(found.record, order.uuid), "reason": reason, **measures},
            plan=order.plan_id,
        )

    def _write_clean(
        self, order: CleanOrder, found: CleanEvidence, record: Record, fence: Fence | None
    ) -> None:
        """Fence or free the record, once its pre-image and the proof are on the disk."""
        fences = self._role.guarantee is Guarantee.FENCED and fence is None
        judged = record if fence is None else fence.judged
        look = look_at(
            record,
            found.tagged,
            found.by_id,
            self._snapshot(order.plan_id, without=order.uuid),
            self._settings,
            asked_id=found.asked_id,
            node_id=order.instance_id,
            guarantee=self._role.guarantee,
            fence_wait=self._role.fence_wait,
            malformed=found.malformed,
        )
        if not self._scribe.intend([clean_intent(order, judged, fence=fences, look=look)]):
            self._log.event(
                Event.RECORD_CLEAN_SKIPPED,
                **record_fields(record, order.uuid),
                reason=Reason.READ_ONLY,
                detail=self._scribe.problem,
                plan=order.plan_id,
            )
            if fence is not None and order.uuid in self._flights.unknown:
                self._look_again(order)
                return
            if fence is not None:
                self._cleaner.go_on(order.uuid, LiftFence(order, fence, again=True))
                return
            self._cleaner.done(order.uuid)
            self._clean_ended(order, Reason.READ_ONLY.value, again=True)
        elif fences:
            self._cleaner.go_on(order.uuid, FenceRecord(order, record))
        else:
            self._cleaner.go_on(order.uuid, FreeRecord(order, record))

    def on_RecordFenced(self, message: RecordFenced) -> None:
        order, fence = message.order, message.fence
        self._wrote()
        self._flights.fenced(fence, order)
        behind = fenced_order(order, fence.judged, fence.fenced, self._clock.boottime())
        due = self._flights.is_clean(order) and self._stopping is None
        if (behind is None or not due) and order.uuid in self._flights.unknown:
            self._look_again(order)
            return
        if behind is None or not due:
            self._cleaner.go_on(order.uuid, LiftFence(order, fence))
            return
        self._cleaner.done(order.uuid)
        self._flights.clean_begun(behind, self._clock.boottime())
        look = LookBeforeClean(behind, fence)
        self._timer.after(self._role.fence_wait, self.actor_ref, look)

    def on_LookBeforeClean(self, message: LookBeforeClean) -> None:
        """The timer says that the fence has stood for long enough (C12)."""
        if self._stopping is None and self._flights.is_clean(message.order):
            self._cleaner.give(message.order.uuid, message)

    def on_FenceLifted(self, message: FenceLifted) -> None:
        order, error = message.order, message.error
        self._cleaner.done(order.uuid)
        if error is None:
            self._wrote()
        else:
            self._write_failed(error)
        if error is not None and not (error.definite or error.unsent):
            self._may_be_late(order.uuid)
        if error is not None:
            self._log.event(
                Event.RECORD_CLEAN_FAILED,
                level=WARNING,
                record=order.uuid,
                action="unfence",
                error=error,
                plan=order.plan_id,
            )
            if self._stopping is None and not getattr(error, "definite", False):
                # Its node may live, and can't ping before it has its secret back.
                wait_s = self._flights.next_question_s(order.uuid, self._settings.max_poll_time)
                again = LiftFence(order, message.fence, message.again)
                self._timer.after(wait_s, self.actor_ref, again)
                return
            if not getattr(error, "definite", False):
                # Its intent stays open: the next start lifts it.
                self._flights.unfenced(order.uuid)
                self._flights.clean_ended(order.uuid, self._clock.boottime())
                self._settled()
                return
        self._flights.unfenced(order.uuid)
        self._clean_ended(order, "lifted" if error is None else "failed", again=message.again)

    def on_LiftFence(self, message: LiftFence) -> None:
        """The timer says that a fence that could not be lifted is to be tried again."""
        uuid = message.order.uuid
        if uuid in self._flights.fences and not self._cleaner.has(uuid):
            self._cleaner.give(uuid, message)

    def on_RecordCleaned(self, message: RecordCleaned) -> None:
        order = message.order
        self._cleaner.done(order.uuid)
        self._wrote()
        self._own_cleans[order.uuid] = (message.after.version, self._clock.boottime())
        self._expected.pop(order.uuid, None)
        self._freed(order, message.before)

    def _freed(self, order: CleanOrder, before: Record) -> None:
        self._flights.unfenced(order.uuid)
        self._flights.forget_questions(order.uuid)
        self._log.event(
            Event.RECORD_CLEANED,
            reason=order.reason,
            **record_fields(before, order.uuid),
            guarantee=self._role.guarantee,
            plan=order.plan_id,
        )
        self._clean_ended(order, "cleaned", again=False)

    def on_CleanFailed(self, message: CleanFailed) -> None:
        order = message.order
        self._write_failed(message.error)
        self._log.event(
            Event.RECORD_CLEAN_FAILED,
            level=WARNING,
            record=order.uuid,
            slot=order.slot,
            host=order.hostname,
            action=message.stage,
            error=message.error,
            plan=order.plan_id,
        )
        if message.fence is not None:
            # Nobody knows whether the fence is up.
            self._flights.fenced(message.fence, order)
        definite = getattr(message.error, "definite", False)
        fence = self._flights.fences.get(order.uuid)
        if not definite and not getattr(message.error, "unsent", False):
            self._may_be_late(order.uuid, clean=message.stage == "write")
            if fence is not None and message.stage == "write":
                now = self._clock.boottime()
                self._flights.unknown[order.uuid] = Unknown(order, fence[0].judged, now)
        if fence is not None and order.uuid in self._flights.unknown:
            self._look_again(order)
            return
        if fence is not None:
            self._cleaner.go_on(order.uuid, LiftFence(order, fence[0], again=True))
            return
        self._cleaner.done(order.uuid)
        self._clean_ended(order, "failed" if definite else "unknown", again=True)

    def _clean_ended(self, order: CleanOrder, outcome: str, *, again: bool) -> None:
        """A clean of its own right that failed is tried again; a stale one is judged afresh."""
        now = self._clock.boottime()
        key = clean_key(order.uuid)
        since = self._flights.clean_ended(order.uuid, now)
        if outcome == "cleaned":
            self._flights.skipped.pop(order.uuid, None)
            incarnation, size = self._created.pop(order.uuid, (None, ""))
            if order.reason is Reason.CLAIM_EXPIRED and incarnation == order.incarnation:
                # It was created, and vanished before it came up.
                self._boot_failed(None, size)
            self._freed_by(order)
        if self._stopping is not None and again:
            # Its intent stays open for the next start.
            self._settled()
            return
        retries = again and (order.is_exception or self._recovery.has(key))
        if retries and since is not None and now - since < self._settings.action_timeout:
            wait_s = self._flights.next_question_s(order.uuid, self._settings.max_poll_time)
            self._flights.clean_begun(order, since)
            self._timer.after(wait_s, self.actor_ref, CleanAgain(order))
        elif outcome == "cleaned" or not self._recovery.goes_on(key):
            self._clean_concluded(order, outcome)
        self._settled()

    def _clean_concluded(self, order: CleanOrder, outcome: str) -> None:
        self._conclude(clean_key(order.uuid), outcome, reason=order.reason.value)
        if outcome == "cleaned":
            self._prove(order.uuid)
        if order.reason is Reason.AFTER_SHUTDOWN and order.instance_id is not None:
            self._conclude(destroy_key(order.instance_id), Outcome.GONE.value)
        relieved = outcome == "lifted" and order.not_after == NEVER
        if relieved and order.is_exception and self._stopping is None:
            self._begin_clean(self._afresh(order))

    def on_CleanAgain(self, message: CleanAgain) -> None:
        order = message.order
        if self._stopping is not None or not self._flights.is_clean(order):
            return
        fence = self._flights.fences.get(order.uuid)
        if order.is_exception and fence is None:
            order = self._afresh(order)
            self._intend_afresh(order)
        self._flights.clean_begun(order, self._flights.cleans[order.uuid][1])
        self._cleaner.give(order.uuid, LookBeforeClean(order, fence[0] if fence else None))


def _is_done(order: CleanOrder, found: CleanEvidence) -> bool:
    """Whether the record no longer is what was to be freed: a write of ours took effect."""
    record = found.record
    if found.error is not None or record is None:
        return False
    return not record.holds_anything or record.incarnation != order.incarnation


def why_not(verdict: Verdict) -> tuple[Reason, dict[str, Any]]:
    """Why an order ends at the last look: what forbids it now, or that we stop."""
    if verdict.kind is not Kind.CLEAN:
        return verdict.reason, dict(verdict.measures or {})
    return Reason.STOPPING, {}
