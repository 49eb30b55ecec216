"""Deletes cleaned records that are more than the pool will ever need (SAFETY.md C8-C12).

A pool never needs more records than max_nodes. Where it has more, those that hold nothing and did
not change for longer than `prune_after` are deleted, the longest clean first. The store must
compare versions, so that a claim that comes meanwhile wins.

The plan gives the orders (`plan.prune`); the workflow checks each record again and deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nodemanager.core.execute.effects import DeleteRecord, LookAtRecord, Wait
from nodemanager.core.execute.workflow import (
    Abandoned,
    About,
    Action,
    Answered,
    Due,
    Ended,
    Expired,
    Failed,
    InFlight,
    Level,
    LogLine,
    Refused,
    Seen,
    Step,
    Unwritten,
    WorkflowEvent,
)
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.evidence import CleanEvidence
from nodemanager.core.observe.facts import RecordsExplained
from nodemanager.core.observe.history import History, partially_listed_as
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.due import PruneOrder, may_come_back


def _in_use(record: Record, order: PruneOrder, snapshot: Snapshot) -> Verdict | None:
    """KEEP if the record is not the one that was judged, or anybody needs it; else None."""
    uuid = order.uuid
    if record.version != order.version or record.holds_anything or record.problems:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, version=record.version, judged=order.version)
    if record.held or uuid in snapshot.holds:
        return keep(uuid, Reason.HELD)
    if uuid in snapshot.record_flights:
        return keep(uuid, Reason.IN_FLIGHT, action=snapshot.record_flights[uuid].kind)
    if uuid in may_come_back(snapshot):
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="freed within the last week")
    return None


def confirm_prune(
    order: PruneOrder, found: CleanEvidence, snapshot: Snapshot, settings: Settings
) -> Verdict:
    """The pre-write check of a delete: PRUNE, or KEEP with what forbids it now (C8-C11).

    `snapshot` is of this moment, without the order's own action.
    """
    uuid, record = order.uuid, found.record
    if found.error is not None or found.tagged is None:
        return keep(uuid, Reason.EVIDENCE_MISSING, error=found.error)
    if record is None:
        return keep(uuid, Reason.RECORD_GONE)
    if snapshot.now > order.not_after:
        return keep(uuid, Reason.ORDER_EXPIRED, late_s=snapshot.now - order.not_after)
    if snapshot.breaker.generation != order.breaker_generation or snapshot.breaker.is_open:
        cause = snapshot.breaker.cause
        return keep(uuid, Reason.BREAKER_OPEN, cause=cause.value if cause else None)
    block = standing_block(snapshot, settings)
    if block is not None:
        return block.to(uuid)
    if settings.prune_after is None or not settings.compare_and_set:
        return keep(uuid, Reason.NO_LONGER_WANTED)
    used = _in_use(record, order, snapshot)
    if used is not None:
        return used
    node = _node_of(uuid, found.tagged, snapshot.history)
    if node is not None:
        return keep(uuid, Reason.NODE_ALIVE, node=node.id, state=node.state.value)
    return Verdict(Kind.PRUNE, order.reason, uuid, order.measures)


def _node_of(uuid: str, tagged: Iterable[CloudNode], history: History) -> CloudNode | None:
    """A node that bears the record's tag, by the answer by tag or by any listing."""
    shown = (*history.nodes_by_record.get(uuid, ()), *partially_listed_as(history, uuid, None))
    return next((node for node in (*tagged, *shown) if not node.is_absent), None)


LOOK_AGAIN_S = 30.0
"""Seconds until the next look after a restart, where the store or the cloud did not answer."""


@dataclass(frozen=True, slots=True)
class Looking(Unwritten):
    """The record is read and the cloud asked once more; nothing is written yet."""

    order: PruneOrder


@dataclass(frozen=True, slots=True)
class Deleting(InFlight):
    """The delete was sent, or may have been. `before` is the record before that."""

    order: PruneOrder
    before: Record
    is_written = True


@dataclass(frozen=True, slots=True)
class Checking(InFlight):
    """A former run may have deleted the record: the store is asked whether it is still there."""

    order: PruneOrder
    before: Record
    is_written = True


@dataclass(frozen=True, slots=True)
class GivenUp(Abandoned):
    """It took too long. The next plan judges the record again; the worker may still answer."""

    order: PruneOrder


PruneState = Looking | Deleting | Checking | GivenUp


class Prune:
    """Look, confirm, delete. The delete names a version: it can't hit a record that changed."""

    action = Action.PRUNE
    states = (Looking, Deleting, Checking, GivenUp)

    def id(self, order: PruneOrder) -> str:
        return order.uuid

    def about(self, state: PruneState) -> About:
        return About(record=state.order.uuid)

    def flight(self, state: PruneState) -> str:
        return "prune"

    def start(self, order: PruneOrder, seen: Seen) -> Step[PruneState]:
        return Step(Looking(order), (LookAtRecord(order.uuid),))

    def resume(self, state: PruneState, seen: Seen) -> Step[PruneState]:
        if not isinstance(state, Deleting | Checking):
            return Step(None)
        return Step(Checking(state.order, state.before), (LookAtRecord(state.order.uuid),))

    def on(self, state: PruneState, event: WorkflowEvent, seen: Seen) -> Step[PruneState]:
        match state:
            case Looking():
                return _looking(state, event, seen)
            case Deleting():
                return _deleting(state, event, seen)
            case Checking():
                return _checking(state, event)
            case GivenUp():
                return _given_up(state, event, seen)


def _looking(state: Looking, event: WorkflowEvent, seen: Seen) -> Step[PruneState]:
    order = state.order
    match event:
        case Answered(answer=CleanEvidence() as found):
            return _looked(order, found, seen)
        case Failed(error=error):
            return _looked(order, CleanEvidence(None, None, error=str(error)), seen)
        case Refused(problem=problem):
            return _skipped(order, Reason.READ_ONLY, {"detail": problem})
        case Expired():
            return Step(GivenUp(order))
    return Step(state)


def _looked(order: PruneOrder, found: CleanEvidence, seen: Seen) -> Step[PruneState]:
    verdict = confirm_prune(order, found, seen.snapshot, seen.settings)
    if verdict.kind is not Kind.PRUNE or found.record is None:
        return _skipped(order, verdict.reason, verdict.measures or {})
    if seen.stopping:
        return _skipped(order, Reason.STOPPING, {})
    return Step(Deleting(order, found.record), (DeleteRecord(found.record),))


def _deleting(state: Deleting, event: WorkflowEvent, seen: Seen) -> Step[PruneState]:
    order = state.order
    match event:
        case Answered():
            return Step(
                None,
                tell=(_pruned(order, seen),),
                facts=(_explained(order, seen),),
                ended=_ended(order, "pruned"),
            )
        case Failed(error=error):
            # The delete may have taken effect all the same.
            return Step(
                None,
                tell=(_failed(order, error),),
                facts=() if error.definite else (_explained(order, seen),),
                ended=_ended(order, "failed" if error.definite else "unknown"),
            )
        case Expired():
            explained = (_explained(order, seen),)
            return Step(GivenUp(order), facts=explained, ended=_ended(order, "expired"))
    return Step(state)


def _checking(state: Checking, event: WorkflowEvent) -> Step[PruneState]:
    order = state.order
    match event:
        case Answered(answer=CleanEvidence() as found):
            return Step(None, ended=_ended(order, "failed" if found.record else "pruned"))
        case Failed():
            return Step(state, (Wait(LOOK_AGAIN_S),))
        case Due():
            return Step(state, (LookAtRecord(order.uuid),))
        case Expired():
            return Step(GivenUp(order), ended=_ended(order, "unknown"))
    return Step(state)


def _given_up(state: GivenUp, event: WorkflowEvent, seen: Seen) -> Step[PruneState]:
    order = state.order
    match event:
        case Answered(effect=DeleteRecord()):
            return Step(None, tell=(_pruned(order, seen),), facts=(_explained(order, seen),))
        case Failed(effect=DeleteRecord(), error=error):
            return Step(None, tell=(_failed(order, error),))
        case Answered() | Failed() | Due():
            return Step(None)
    return Step(state)


def _skipped(order: PruneOrder, reason: Reason, measures: Mapping[str, Any]) -> Step[PruneState]:
    fields = {**measures, "record": order.uuid, "reason": reason, "plan": order.plan_id}
    return Step(None, tell=(LogLine(Event.RECORD_PRUNE_SKIPPED, fields),))


def _explained(order: PruneOrder, seen: Seen) -> RecordsExplained:
    """We deleted the record: a listing without it has not collapsed for that (L3)."""
    return RecordsExplained((order.uuid,), seen.snapshot.now)


def _ended(order: PruneOrder, name: str) -> Ended:
    return Ended(name, {"reason": order.reason.value})


def _pruned(order: PruneOrder, seen: Seen) -> LogLine:
    fields = {
        "reason": order.reason,
        "record": order.uuid,
        "guarantee": seen.guarantee,
        "plan": order.plan_id,
    }
    return LogLine(Event.RECORD_PRUNED, fields)


def _failed(order: PruneOrder, error: Exception) -> LogLine:
    fields = {"record": order.uuid, "error": error, "plan": order.plan_id}
    return LogLine(Event.RECORD_PRUNE_FAILED, fields, Level.WARNING)
