"""Judges a destroy: its order, and its pre-write check (D2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodemanager.core.judge.idle import ROTATE, doubt, is_done, outdated
from nodemanager.core.judge.node_view import BY_HAND, NodeView
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.settings import ORDER_TTL_S, Settings
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import CloudNode, CloudState, Record, WorkerState
from nodemanager.core.observe.scheduled import (
    hostname_of,
    is_not_up,
    joined_state,
    may_get_work,
)
from nodemanager.core.observe.signs import claimed_at_of, worker_state
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.observe.unlisted import is_answered_held


@dataclass(frozen=True, slots=True)
class ShutdownOrder:
    """One node to destroy, and what was judged. `not_after` is CLOCK_BOOTTIME.

    `created_at` is when it was launched, by the cloud's clock, `claimed_at` its record's claim by
    the store's (`launched_for`). `hostnames` are those under which the scheduler may know a node
    that has no record, if its own is not known.

    News that no plan has weighed yet calls a `cancellable` shutdown off (D2).
    """

    node_id: str
    name: str
    size: str | None
    reason: Reason
    plan_id: str
    breaker_generation: int
    not_after: float
    created_at: float | None
    record: str | None
    record_version: str | None
    incarnation: str | None
    slot: int | None = None
    hostname: str | None = None
    hostnames: tuple[str, ...] = ()
    claimed_at: float | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cancellable(self) -> bool:
        return self.reason is Reason.IDLE_BEYOND_DEMAND or self.reason in ROTATE


def order_shutdown(view: NodeView, snapshot: Snapshot) -> ShutdownOrder:
    record, node = view.record, view.node
    return ShutdownOrder(
        node_id=node.id,
        name=node.name,
        size=view.size,
        reason=view.verdict.reason,
        plan_id=snapshot.plan_id,
        breaker_generation=snapshot.breaker.generation,
        not_after=snapshot.now + ORDER_TTL_S,
        created_at=node.created_at,
        claimed_at=claimed_at_of(record),
        record=record.uuid if record else node.tags.record,
        record_version=record.version if record else None,
        incarnation=node.tags.incarnation or (record.incarnation if record else None),
        slot=record.slot_number if record else None,
        hostname=record.hostname if record else hostname_of(node, snapshot.history),
        hostnames=view.hostnames,
        measures=view.verdict.measures or {},
    )


@dataclass(frozen=True, slots=True)
class ShutdownEvidence:
    """What was found right before a destroy: the record as it is now (D2).

    `error` is set when the record could not be read, or the scheduler not asked; `record` is None
    when there is none. `scheduled` is what the scheduler said after that of each hostname that the
    node may have; empty where it was not asked, or lists none of them.
    """

    record: Record | None
    error: str | None = None
    scheduled: tuple[SchedulerNode, ...] = ()

    @property
    def in_scheduler(self) -> SchedulerNode | None:
        """What the scheduler said of a node whose hostname is known."""
        return next(iter(self.scheduled), None)


def confirm_shutdown(
    order: ShutdownOrder,
    found: ShutdownEvidence,
    snapshot: Snapshot,
    settings: Settings,
    *,
    wanted: bool,
) -> Verdict:
    """The pre-write check of a destroy: SHUTDOWN, or KEEP with what forbids it now (D2).

    `wanted` says that demand lacks a node of this size by the newest plan (`Wants.unmet`).
    """
    node_id = order.node_id
    if found.error is not None:
        return keep(node_id, Reason.EVIDENCE_MISSING, error=found.error)
    if snapshot.now > order.not_after:
        return keep(node_id, Reason.ORDER_EXPIRED, late_s=snapshot.now - order.not_after)
    if snapshot.breaker.is_open or snapshot.breaker.generation != order.breaker_generation:
        return keep(node_id, Reason.BREAKER_OPEN)
    block = standing_block(snapshot, settings)
    if block is not None:
        return block.to(node_id)
    record, listed = found.record, snapshot.history.present.get(node_id)
    if _is_held(order, record, listed, snapshot, settings):
        return keep(node_id, Reason.HELD)
    if order.reason is not Reason.KILLED and _is_cordoned(order, listed, snapshot):
        return keep(node_id, Reason.CORDONED)
    if listed is not None and listed.tags.pool != settings.pool:
        pool = listed.tags.pool
        return keep(node_id, Reason.UNTAGGED if pool is None else Reason.FOREIGN_NODE, pool=pool)
    undone = _undone(order, found, snapshot, settings, wanted=wanted)
    return undone or Verdict(Kind.SHUTDOWN, order.reason, node_id, order.measures)


def _is_cordoned(order: ShutdownOrder, listed: CloudNode | None, snapshot: Snapshot) -> bool:
    """Whether the node has a cordon, as ordered or as it is listed now (O5)."""
    mark = snapshot.drains.get(order.node_id)
    if mark is None or not mark.kept:
        return False
    return mark.is_on(order.incarnation) or (
        listed is not None and mark.is_on(listed.tags.incarnation)
    )


def _is_held(
    order: ShutdownOrder,
    record: Record | None,
    listed: CloudNode | None,
    snapshot: Snapshot,
    settings: Settings,
) -> bool:
    """Whether an operator, the record, the listing or an answer of the cloud holds the node."""
    if not snapshot.holds.isdisjoint((order.node_id, order.record)):
        return True
    if any(one is not None and one.held for one in (record, listed)):
        return True
    return is_answered_held(order.node_id, order.record, snapshot, settings)


def _undone(
    order: ShutdownOrder,
    found: ShutdownEvidence,
    snapshot: Snapshot,
    settings: Settings,
    *,
    wanted: bool,
) -> Verdict | None:
    """What has undone the order's own reason since it was judged."""
    record = found.record
    if order.reason is Reason.UNPAIRED:
        return _not_unpaired(order, found, snapshot)
    if order.reason is Reason.IDLE_BEYOND_DEMAND:
        idle = _not_idle(order, record, snapshot, settings, wanted=wanted)
        return idle or _not_done(order, found, settings)
    if order.reason is Reason.SUSPENDED:
        return _not_off(order, found)
    if order.reason is Reason.NOT_JOINED:
        return _joined(order, found, snapshot, settings)
    if order.reason in ROTATE:
        listed = snapshot.history.present.get(order.node_id)
        off = _kept_after_all(order, listed, record, snapshot, settings)
        return off or _not_done(order, found, settings)
    if order.reason in (Reason.NOTICED, Reason.PARKED):
        is_noticed = order.reason is Reason.NOTICED
        off = _not_taken(order, record) if is_noticed else _unparked(order, snapshot)
        off = off or _not_idle(order, record, snapshot, settings)
        return off or _not_done(order, found, settings)
    if order.reason in BY_HAND:
        off = called_off(order, record, snapshot, settings)
        return off if order.reason is Reason.KILLED else off or _not_done(order, found, settings)
    return _not_bad(order, found, snapshot, settings)


def _not_unpaired(
    order: ShutdownOrder, found: ShutdownEvidence, snapshot: Snapshot
) -> Verdict | None:
    """What shows that a node without a record has one, that its tags name, or may be at work."""
    node_id, record = order.node_id, found.record
    if any(may_get_work(reported) for reported in found.scheduled):
        detail = "its scheduler has it at work, or gives it work"
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail=detail)
    if record is None:
        return None
    if record.incarnation is not None and record.incarnation == order.incarnation:
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="it has its record again")
    if record.instance_id == node_id and _was_heard(record, snapshot):
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="its record was pinged")
    return None


def _not_off(order: ShutdownOrder, found: ShutdownEvidence) -> Verdict | None:
    """What shows that a node is of use to its scheduler again, or may be (D12)."""
    node_id, record, reported = order.node_id, found.record, found.in_scheduler
    if record is None or record.incarnation != order.incarnation:
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="its record is another's")
    if reported is None or not reported.suspended or reported.reserved:
        detail = "it is not switched off in the scheduler any more"
        return keep(node_id, Reason.NO_LONGER_WANTED, detail=detail)
    return None


def _joined(
    order: ShutdownOrder, found: ShutdownEvidence, snapshot: Snapshot, settings: Settings
) -> Verdict | None:
    """What shows that a node that was never up in its scheduler is, or may be at work (D17)."""
    node_id, record, reported = order.node_id, found.record, found.in_scheduler
    if record is None or record.incarnation != order.incarnation:
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="its record is another's")
    if worker_state(record, snapshot, settings) is WorkerState.BUSY:
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="it says that it is busy")
    if not is_not_up(reported):
        detail = "its scheduler does not say any more that it is not up"
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail=detail)
    return None


def _not_bad(
    order: ShutdownOrder, found: ShutdownEvidence, snapshot: Snapshot, settings: Settings
) -> Verdict | None:
    """What shows that a node that failed, fell silent or was stopped is well, or may be."""
    record, node_id = found.record, order.node_id
    listed, reported = snapshot.history.present.get(node_id), found.in_scheduler
    if reported is not None and reported.state is WorkerState.BUSY and reported.responds:
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="it works in the scheduler")
    runs = listed is not None and listed.state is not CloudState.STOPPED
    if order.reason is Reason.NODE_STOPPED and runs:
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="it runs again")
    if order.record is not None and not _still_bad(order, record, snapshot, settings):
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="its record changed")
    return None


def _kept_after_all(
    order: ShutdownOrder,
    listed: CloudNode | None,
    record: Record | None,
    snapshot: Snapshot,
    settings: Settings,
) -> Verdict | None:
    """Why a node that was to be replaced stays after all; None if it still goes (D15)."""
    node_id, sizes = order.node_id, Sizes(settings.sizes)
    if snapshot.rotation_paused is not None:
        return keep(node_id, Reason.ROTATION_PAUSED)
    size = sizes.named(order.size)
    if listed is not None and size is not None:
        why = outdated(listed, record, size, snapshot, settings)
        if why is None or why.reason is not order.reason:
            return keep(node_id, Reason.NO_LONGER_WANTED, detail="it is not outdated any more")
    return _not_idle(order, record, snapshot, settings)


def _not_taken(order: ShutdownOrder, record: Record | None) -> Verdict | None:
    """What shows that the cloud will not take the node after all (D18)."""
    if record is not None and record.notice is not None:
        return None
    detail = "its cloud does not say any more that it will take it"
    return keep(order.node_id, Reason.NO_LONGER_WANTED, detail=detail)


def _unparked(order: ShutdownOrder, snapshot: Snapshot) -> Verdict | None:
    """What shows that the pool is parked no more (O7)."""
    if snapshot.parked is not None:
        return None
    return keep(order.node_id, Reason.NO_LONGER_WANTED, detail="the pool is parked no more")


def called_off(
    order: ShutdownOrder, record: Record | None, snapshot: Snapshot, settings: Settings
) -> Verdict | None:
    """Why an operator's kill or drain is not carried out now; None where it stands (D2).

    `record` is the node's, as just read.
    """
    node_id = order.node_id
    kill, drain = snapshot.kills.get(node_id), snapshot.drains.get(node_id)
    if kill is not None and kill.incarnation == order.incarnation:
        return None
    stands = drain is not None and drain.incarnation == order.incarnation
    if order.reason is Reason.KILLED or not stands:
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="an operator called it off")
    return _not_idle(order, record, snapshot, settings)


def _not_idle(
    order: ShutdownOrder,
    record: Record | None,
    snapshot: Snapshot,
    settings: Settings,
    *,
    wanted: bool = False,
) -> Verdict | None:
    """Why a node that goes only while it is idle and unwanted stays; None where it is both."""
    node_id = order.node_id
    if record is None or record.incarnation != order.incarnation:
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="its record is another's")
    if joined_state(record, snapshot, settings) is not WorkerState.IDLE:
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="it is not idle any more")
    if wanted:
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="demand came back")
    return doubt(node_id, record, snapshot, settings)


def _not_done(order: ShutdownOrder, found: ShutdownEvidence, settings: Settings) -> Verdict | None:
    """Why a node stays that goes only while our drain holds, and it does no work (D2, D12)."""
    reported = found.in_scheduler
    if not settings.scheduled or (reported is not None and is_done(reported)):
        return None
    detail = "it is not drained in the scheduler any more"
    return keep(order.node_id, Reason.NO_LONGER_WANTED, detail=detail)


def _was_heard(record: Record, snapshot: Snapshot) -> bool:
    """Whether the record shows a ping that no listing has shown yet."""
    heard = snapshot.history.heard.get(record.uuid)
    return heard is None or heard.last_ping_at != record.last_ping_at


def _still_bad(
    order: ShutdownOrder, record: Record | None, snapshot: Snapshot, settings: Settings
) -> bool:
    """Whether the node's record did not change since the plan: any change is a sign of life.

    Only a node that reports `down`, and is destroyed for that, may go on pinging.
    """
    if record is None:
        return False
    if record.version == order.record_version:
        return True
    state = worker_state(record, snapshot, settings)
    return order.reason is Reason.NODE_DOWN and state is WorkerState.DOWN
