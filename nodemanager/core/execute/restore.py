"""Gives a record that was freed by mistake back to its node (SAFETY.md U8).

`false_clean` judges which lives may be given back, and the plan lists them. The workflow reads the
record again, confirms, and restores the record from before its clean (the pre-image). A restart
need not remember it: the breaker has the life, and the record shows an attempt that took effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nodemanager.core.execute.effects import ReadRecord, RestoreRecord
from nodemanager.core.execute.news import Learned, NotRestored, Restored, WriteInDoubt
from nodemanager.core.execute.once import OnceState, RecordAction, writing
from nodemanager.core.execute.workflow import Action, Failed, Level, LogLine, Seen, Step
from nodemanager.core.judge import false_clean
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import FreedLife, Record
from nodemanager.errors import Conflict, NoSuchRecord, RemoteError, SlotTaken


@dataclass(frozen=True, slots=True)
class RestoreOrder:
    """One life to give its record back; `known` is the record before its clean, None if unknown."""

    life: FreedLife
    known: Record | None = field(repr=False)
    plan_id: str

    @property
    def uuid(self) -> str:
        return self.life.record


def order_restore(life: FreedLife, images: Iterable[Record], plan_id: str) -> RestoreOrder:
    """The order with the newest pre-image of that life; `images` are pre-images, newest first."""
    lives = (one for one in images if one.holds_anything)
    known = next((one for one in lives if one.incarnation == life.incarnation), None)
    return RestoreOrder(life, known, plan_id)


def confirm_restore(order: RestoreOrder, record: Record | None, seen: Seen) -> Verdict:
    """The pre-write check of a restore: RESTORE, or KEEP with why not; `record` was just read."""
    life, uuid, snapshot = order.life, order.uuid, seen.snapshot
    if record is None:
        return keep(uuid, Reason.RECORD_DELETED, error=NoSuchRecord(f"no record {uuid}"))
    if record.holds_anything:
        error = Conflict(f"record {uuid} was claimed or written to since")
        return keep(uuid, Reason.RECORD_REUSED, error=error)
    if record.held or uuid in snapshot.holds or life.node_id in snapshot.holds:
        return keep(uuid, Reason.HELD)
    if seen.stopping:
        return keep(uuid, Reason.STOPPING)
    block = standing_block(snapshot, seen.settings, polls=False, breaker=False, authorised=False)
    if block is not None:
        return block.to(uuid)
    if life.key not in {one.key for one in false_clean.open_lives(snapshot.breaker)}:
        # Its node is confirmed gone, or an operator closed the breaker.
        return keep(uuid, Reason.NO_LONGER_WANTED)
    return Verdict(Kind.RESTORE, Reason.FALSE_CLEAN, uuid)


class Restore(RecordAction[RestoreOrder]):
    """Read, confirm, write. A store that compares versions refuses a late write."""

    action = Action.RESTORE
    in_flight = "restore"

    def start(self, order: RestoreOrder, seen: Seen) -> Step[OnceState[RestoreOrder]]:
        if order.known is None:
            return Step(None, learn=(NotRestored(keep(order.uuid, Reason.NO_PRE_IMAGE)),))
        return super().start(order, seen)

    def found(
        self, order: RestoreOrder, answer: Record | None, seen: Seen
    ) -> Step[OnceState[RestoreOrder]]:
        incarnation = order.life.incarnation
        if answer is not None and incarnation is not None and answer.incarnation == incarnation:
            # An earlier attempt took effect, and its answer was lost.
            return _restored(order, answer, seen)
        verdict = confirm_restore(order, answer, seen)
        if verdict.kind is Kind.RESTORE and answer is not None and order.known is not None:
            return writing(order, RestoreRecord(answer, order.known))
        # A reason that passes by itself is not logged: the next plans judge the life again.
        return Step(None, learn=(NotRestored(verdict),) if verdict.reason.row.restores else ())

    def done(
        self, order: RestoreOrder, answer: Record, seen: Seen, *, late: bool
    ) -> Step[OnceState[RestoreOrder]]:
        return _restored(order, answer, seen)

    def failed(
        self, order: RestoreOrder, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[OnceState[RestoreOrder]]:
        error = failed.error
        is_clear = isinstance(failed.effect, ReadRecord) or error.definite or error.unsent
        return _failed(order, error, () if is_clear else self.in_doubt(order))

    def in_doubt(self, order: RestoreOrder) -> tuple[Learned, ...]:
        return (WriteInDoubt(order.uuid),)


def _restored(order: RestoreOrder, after: Record, seen: Seen) -> Step[OnceState[RestoreOrder]]:
    life = order.life
    fields = {
        "reason": Reason.FALSE_CLEAN,
        "record": life.record,
        "slot": after.slot_number,
        "host": after.hostname,
        "incarnation": life.incarnation,
        "node": life.node_id,
        "guarantee": seen.guarantee,
    }
    line = LogLine(Event.RECORD_RESTORED, fields, Level.WARNING)
    return Step(None, tell=(line,), learn=(Restored(life.record),))


_WHY = {
    SlotTaken: Reason.SLOT_TAKEN,
    NoSuchRecord: Reason.RECORD_DELETED,
    Conflict: Reason.RECORD_REUSED,
}


def _failed(
    order: RestoreOrder, error: RemoteError, learn: tuple[Learned, ...] = ()
) -> Step[OnceState[RestoreOrder]]:
    reason = next((why for kind, why in _WHY.items() if isinstance(error, kind)), None)
    if reason is not None:
        not_restored = NotRestored(keep(order.uuid, reason, error=error))
        return Step(None, learn=(*learn, not_restored))
    # The next plan judges the life again.
    fields = {"record": order.uuid, "error": error}
    return Step(
        None, tell=(LogLine(Event.RECORD_NOT_RESTORED, fields, Level.WARNING),), learn=learn
    )
