"""The pre-write check of a clean: compares what is found now with what was judged (C11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import CloudNode, CloudState, Record, WorkerState
from nodemanager.core.observe import signs
from nodemanager.core.observe.evidence import CleanEvidence
from nodemanager.core.observe.history import partially_listed_as
from nodemanager.core.observe.nodes_by_record import may_be_of
from nodemanager.core.observe.pools import not_ours
from nodemanager.core.observe.scheduled import is_up_in_scheduler
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.observe.unlisted import is_denied_for_good, look_for_unlisted
from nodemanager.core.safety.orders import CleanOrder


def _broken(order: CleanOrder, reason: Reason) -> bool:
    """Whether an operator's order breaks the rule that keeps the record for this reason (O3)."""
    return order.hand is not None and order.hand.breaks(reason)


def confirm_clean(
    order: CleanOrder, found: CleanEvidence, snapshot: Snapshot, settings: Settings
) -> Verdict:
    """The pre-write check of a clean: CLEAN, or KEEP with what forbids it now (C11).

    `snapshot` is of this moment, without the order's own action.
    """
    uuid = order.uuid
    if found.error is not None or found.tagged is None:
        return keep(uuid, Reason.EVIDENCE_MISSING, error=found.error)
    record = found.record
    if record is None:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="the record is gone")
    check = _Check(order, record, found, snapshot, settings)
    kept = _still_permitted(check) or _sign_of_life(check)
    if order.is_exception:
        kept = kept or _may_have_a_twin(check)
    else:
        judge = _not_denied if order.reason is Reason.PINGER_DENIED else _not_stale
        kept = kept or _can_be_told(check) or judge(check) or _denied_too_early(check)
    return kept or Verdict(Kind.CLEAN, order.reason, uuid, order.measures)


@dataclass(frozen=True, slots=True)
class _Check:
    """What each step of the check asks: what was judged, what was found, what is known now."""

    order: CleanOrder
    record: Record
    found: CleanEvidence
    snapshot: Snapshot
    settings: Settings


def _still_permitted(check: _Check) -> Verdict | None:
    """What forbids the write by C0, C7-C10 (asked again) or the order's not-after."""
    order, record, snapshot, settings = check.order, check.record, check.snapshot, check.settings
    uuid = order.uuid
    if snapshot.now > order.not_after:
        return keep(uuid, Reason.ORDER_EXPIRED, late_s=snapshot.now - order.not_after)
    if snapshot.breaker.generation != order.breaker_generation or snapshot.breaker.is_open:
        cause = snapshot.breaker.cause
        return keep(uuid, Reason.BREAKER_OPEN, cause=cause.value if cause else None)
    if record.problems:
        return keep(uuid, Reason.UNREADABLE, detail="; ".join(record.problems))
    foreign = not_ours(record, settings.pool, settings.adopt_unclaimed)
    if foreign is not None:
        return keep(uuid, foreign, pool=record.pool)
    if record.held or uuid in snapshot.holds or order.instance_id in snapshot.holds:
        return keep(uuid, Reason.HELD)
    if uuid in snapshot.record_flights:
        return keep(uuid, Reason.IN_FLIGHT, action=snapshot.record_flights[uuid].kind)
    block = standing_block(snapshot, settings, polls=not order.is_exception)
    return None if block is None else block.to(uuid)


def _sign_of_life(check: _Check) -> Verdict | None:
    """What shows that the record changed or its node lives (C4, C11); None where nothing does."""
    order, record, uuid = check.order, check.record, check.order.uuid
    changed = _changed(order, record)
    if changed is not None:
        return changed
    for node in _shown(check):
        # C20 asks for "no other node with its uuid"; C4 only for the incarnation's own.
        is_other = order.is_exception and node.tags.record == uuid
        known_as = {record.instance_id, order.instance_id}
        if _is_alive(node, order) and (is_other or may_be_of(node, record, known_as)):
            return keep(uuid, Reason.NODE_ALIVE, node=node.id, state=node.state.value)
    return None


def _changed(order: CleanOrder, record: Record) -> Verdict | None:
    """What shows that the record is not the one that was judged; None where nothing does."""
    uuid = order.uuid
    if order.version is not None and record.version != order.version:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, version=record.version, judged=order.version)
    if record.incarnation != order.incarnation:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="another incarnation")
    if _was_pinged_since(order, record):
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="it was pinged since it was judged")
    if order.is_exception and record.instance_id not in (None, order.instance_id):
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="another instance pings it")
    if order.is_exception and order.incarnation is None and record.instance_id is None:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="nothing says whose it is")
    pinged = record.first_ping_at is not None or record.last_ping_at is not None
    if order.reason is Reason.CREATE_REFUSED and pinged:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="it was pinged after all")
    return None


def _shown(check: _Check) -> Iterator[CloudNode]:
    """The nodes in the answers, and those that listings show with the record's tag or id (C4)."""
    order, record, history = check.order, check.record, check.snapshot.history
    yield from check.found.tagged or ()
    if check.found.by_id is not None:
        yield check.found.by_id
    # A node seen in an incomplete listing is seen (C5).
    listed = [*history.nodes_by_record.get(order.uuid, ())]
    listed += partially_listed_as(history, order.uuid, record.instance_id)
    if record.instance_id is not None and record.instance_id in history.present:
        listed.append(history.present[record.instance_id])
    # The newest listing may have begun before the node that we destroyed was gone.
    gone = order.instance_id if order.is_exception else None
    yield from (node for node in listed if node.id != gone)


def _was_pinged_since(order: CleanOrder, record: Record) -> bool:
    """Whether the record shows a ping that the plan did not see, even at the same version.

    That counts for nothing where the cloud denies the node that pings (P6).
    """
    if order.grounds is None or order.reason is Reason.PINGER_DENIED:
        return False
    judged = order.grounds.signs
    return (judged.first_ping_at, judged.last_ping_at, judged.instance_id) != (
        record.first_ping_at,
        record.last_ping_at,
        record.instance_id,
    )


def _is_alive(node: CloudNode, order: CleanOrder) -> bool:
    """Whether the node's state keeps the record: any but terminated.

    The node that we destroyed may also be stopping: a late answer may still show it so (C20).
    """
    if order.reason is Reason.AFTER_SHUTDOWN and node.id == order.instance_id:
        return node.state not in (CloudState.STOPPING, CloudState.TERMINATED)
    return node.state is not CloudState.TERMINATED


def _may_have_a_twin(check: _Check) -> Verdict | None:
    """What keeps a record whose create may have made a second node, not visible yet (C20)."""
    order, settings = check.order, check.settings
    if order.reason is not Reason.AFTER_SHUTDOWN or check.record.claim is None:
        return None
    if settings.visible_after == 0:
        return None
    if check.snapshot.history.clock is None:
        return keep(order.uuid, Reason.EVIDENCE_MISSING, detail="the store's time is not known")
    return _denied_too_early(check)


def _can_be_told(check: _Check) -> Verdict | None:
    """What keeps the record because its quiet time or its node's absence can't be known now."""
    order, record, found = check.order, check.record, check.found
    snapshot, settings, uuid = check.snapshot, check.settings, check.order.uuid
    if record.instance_id is not None and not found.asked_id:
        return keep(uuid, Reason.EVIDENCE_MISSING, detail="not asked by its instance id")
    blind = record.claim is None and (record.instance_id is None or found.malformed)
    if blind and not _broken(order, Reason.UNVERIFIABLE):
        detail = f"{record.instance_id} is no node's id" if found.malformed else None
        return keep(uuid, Reason.UNVERIFIABLE, detail=detail)
    # Without any answer it would look at every record for nothing.
    if snapshot.history.asked and look_for_unlisted(snapshot, settings).short:
        return keep(uuid, Reason.LISTING_SHORT)
    if signs.trusted_clock(snapshot, settings) is None:
        return keep(uuid, Reason.CLOCK_UNKNOWN)
    return None


def _not_denied(check: _Check) -> Verdict | None:
    """What keeps a record whose pinging node is no longer denied for long enough (P6)."""
    uuid, settings = check.order.uuid, check.settings
    unlisted = look_for_unlisted(check.snapshot, settings)
    if is_denied_for_good(unlisted.verdicts.get(uuid), settings):
        return None
    return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="its denials were broken")


def _not_stale(check: _Check) -> Verdict | None:
    """What keeps a record that is not quiet any more, or whose node may be at work (C2, C3)."""
    order, record, snapshot, settings = check.order, check.record, check.snapshot, check.settings
    uuid, window_s = order.uuid, signs.window_of(record, settings)
    quiet_s = signs.quiet_for(record, snapshot)
    # A fence is our own write, so the record's new stamp is no sign of life. `fenced_order` has
    # compared the rest of the record.
    within = not order.fenced and (quiet_s is None or not quiet_s > window_s)
    if within and (quiet_s is None or not _broken(order, Reason.WITHIN_WINDOW)):
        return keep(uuid, Reason.WITHIN_WINDOW, idle_s=quiet_s, window_s=window_s)
    # The fence made a new version, but the node's last ping is no younger for that.
    known_s = float(order.measures.get("idle_s", 0.0)) if order.fenced else 0.0
    state = signs.word_of(record, snapshot, settings, known_s)
    if state in (WorkerState.BUSY, WorkerState.IDLE) and not _broken(order, Reason.BUSY):
        return keep(uuid, Reason.BUSY if state is WorkerState.BUSY else Reason.IDLE)
    if is_up_in_scheduler(record, snapshot, settings) and not _broken(order, Reason.BUSY):
        return keep(uuid, Reason.UP_IN_SCHEDULER)
    return None


def _denied_too_early(check: _Check) -> Verdict | None:
    """What keeps a record whose node may be so young that the cloud still denies it (A1).

    An answer counts as old as its question.
    """
    order, snapshot, settings = check.order, check.snapshot, check.settings
    limit_s = settings.visible_after
    if order.fenced:
        # This was asked before the fence, whose write now hides how long the record was quiet.
        return None
    asked_at = snapshot.now if check.found.asked_at is None else check.found.asked_at
    idle_s = float(order.measures.get("idle_s", 0.0))
    denied_s = float(order.measures.get("denied_s", 0.0))
    age_s = signs.age_of_nodes(
        check.record,
        snapshot,
        settings,
        created_at=order.created_at,
        idle_s=idle_s,
        denied_s=denied_s,
    ) - (snapshot.now - asked_at)
    if age_s > limit_s:
        return None
    age_s = max(0.0, age_s)
    return keep(order.uuid, Reason.DENIED_TOO_EARLY, age_s=age_s, limit_s=limit_s)
