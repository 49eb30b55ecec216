"""Frees one record, from the order to the write (SAFETY.md C11, C12).

Where the store compares versions: look, confirm, write. Where it can't: look, confirm, put up a
fence, let it stand, look again, confirm, write. The look that confirms a write also proves it (L4).

A clean that follows a destroy (C20) or a refused create (U6) is tried again until it is done or
something forbids it. Any other clean ends with its outcome, and the next plan judges the record
again. After a restart nothing is freed on what the former run judged: the workflow looks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.core.execute.effects import FenceRecord, FreeRecord, LiftFence, LookAtRecord, Wait
from nodemanager.core.execute.news import FenceStands
from nodemanager.core.execute.pre_write_check import confirm_clean
from nodemanager.core.execute.workflow import (
    UNANSWERED,
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
    Stopping,
    Unwritten,
    WorkflowEvent,
)
from nodemanager.core.explain.events import CLEANED, EXPIRED, LIFTED, record_fields
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import FreedLife, Guarantee, Record
from nodemanager.core.observe.evidence import CleanEvidence, Look, look_at
from nodemanager.core.observe.facts import Fact, LivesFreed, NodesAnswered, TagsAnswered
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.safety.orders import NEVER, CleanOrder, fenced_order, order_release
from nodemanager.errors import RemoteError, TooLate

# The states of a clean: where one record stands on the way to its write.


@dataclass(frozen=True, slots=True)
class Looking(InFlight):
    """The record is read and the cloud asked; this clean has written nothing to the store yet.

    The journal has only a clean after a destroy or a refused create: a restart finds any other
    stale record again. `error` is why the newest look failed, or UNANSWERED; a clean that a former
    run left (`inherited`) then counts as a failed attempt, and the fifth is the last (R1).
    """

    order: CleanOrder
    tries: int = 0
    inherited: bool = False
    error: str | None = None
    before = None

    @property
    def is_written(self) -> bool:
        return self.order.is_exception


@dataclass(frozen=True, slots=True)
class Checking(Unwritten):
    """A write of this clean may have taken effect: the record is read and the cloud asked.

    The journal keeps its entry for that write, which may have to prove it.
    """

    order: CleanOrder
    tries: int = 0
    inherited: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Pausing(Unwritten):
    """The clean is tried again after a wait; `is_first` says that it has sent no write yet."""

    order: CleanOrder
    tries: int
    is_first: bool
    inherited: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Fencing(InFlight):
    """The fence was sent, or may have been. `before` is the record as it was judged."""

    order: CleanOrder
    before: Record
    look: Look | None = None
    tries: int = 0
    is_written = True


@dataclass(frozen=True, slots=True)
class Standing(InFlight):
    """The fence stands for `fence_wait` seconds, then the record is read and the cloud asked.

    `fenced` is the record with its fence, None where a former run put the fence up: then the look
    comes at once. The journal has the fence.
    """

    order: CleanOrder
    before: Record
    fenced: Record | None = None
    tries: int = 0
    is_written = False


@dataclass(frozen=True, slots=True)
class Writing(InFlight):
    """The write was sent, or may have been. `before` is the record before the write and its fence.

    `doubted` is since when the outcome of an earlier write is unknown, CLOCK_BOOTTIME; else None.
    """

    order: CleanOrder
    before: Record
    look: Look | None = None
    doubted: float | None = None
    tries: int = 0
    is_written = True


@dataclass(frozen=True, slots=True)
class Unsure(InFlight):
    """A write behind a fence may still take effect: the fence stays until that is known (C12).

    `since` is when that doubt began, CLOCK_BOOTTIME. The journal has the write.
    """

    order: CleanOrder
    before: Record
    since: float
    tries: int = 0
    is_written = False


@dataclass(frozen=True, slots=True)
class Lifting(InFlight):
    """The node gets its secret back. `why` is what kept the record, where something did.

    `again` says that the obstacle may pass, and the clean be tried again. The journal has the fence
    already, unless a listing showed it standing (`found`).
    """

    order: CleanOrder
    before: Record
    fenced: Record | None = None
    again: bool = False
    why: Verdict | None = None
    tries: int = 0
    found: bool = False

    @property
    def is_written(self) -> bool:
        return self.found


@dataclass(frozen=True, slots=True)
class GivenUp(InFlight):
    """The write took too long. The next plan judges the record again; a late answer counts."""

    order: CleanOrder
    before: Record
    is_written = False
    is_under_way = False


CleanState = (
    Looking | Checking | Pausing | Fencing | Standing | Writing | Unsure | Lifting | GivenUp
)  # fmt: skip
Fenceless = Looking | Checking


# What every clean does, with a fence and without: it looks, ends, tells, or tries again.


FIRST_QUESTION_S = 2.0
MOST_DOUBLINGS = 16
"""The first wait in seconds, and how often it may double; `max_poll_time` caps it."""
FOUND_FREED = "a later look showed that the write took effect"


# How a clean goes on, or ends.


def again(order: CleanOrder, tries: int, seen: Seen, *lines: LogLine) -> Step[CleanState]:
    return pause(Pausing(order, tries, is_first=False), seen, *lines)


def pause(state: Pausing, seen: Seen, *lines: LogLine) -> Step[CleanState]:
    """Try again after a wait; when stopping, leave it to the next run, which reads the journal."""
    if seen.stopping:
        return Step(None, tell=lines)
    wait = wait_before(state.tries, seen)
    return Step(replace(state, tries=one_more(state.tries)), (wait,), tell=lines)


def undone(
    order: CleanOrder, tries: int, error: RemoteError, seen: Seen, line: LogLine
) -> Step[CleanState]:
    """After a fence or a write that failed with no fence up: try again (C20, U6), or end."""
    if order.is_exception:
        return again(order, tries, seen, line)
    outcome = "failed" if error.definite else "unknown"
    return Step(None, tell=(line,), ended=ended_as(order, outcome))


def freed(order: CleanOrder, before: Record, seen: Seen) -> Step[CleanState]:
    fields = {
        "reason": order.reason,
        **record_fields(before, order.uuid),
        "guarantee": seen.guarantee,
        "plan": order.plan_id,
    }
    return Step(
        None,
        tell=(LogLine(Event.RECORD_CLEANED, fields),),
        facts=(_life_ended(order, seen),),
        ended=ended_as(order, CLEANED),
    )


def done(order: CleanOrder, why: Verdict, seen: Seen) -> Step[CleanState]:
    """The end of a clean whose write took effect, as the look shows; its record may be in use."""
    fields = {"reason": order.reason, **known(order), "detail": FOUND_FREED, "plan": order.plan_id}
    return Step(
        None,
        tell=(LogLine(Event.RECORD_CLEANED, fields),),
        facts=(_life_ended(order, seen),),
        ended=ended_as(order, CLEANED, why),
    )


# What it asks, and what the answers come to.


def look_at_record(order: CleanOrder) -> LookAtRecord:
    return LookAtRecord(order.uuid, asks_id=True, instance_id=order.instance_id)


def first_look(order: CleanOrder) -> LookAtRecord:
    """The look before any write: nothing hangs on it once the order is void."""
    return replace(look_at_record(order), not_after=order.not_after)


def free(order: CleanOrder, record: Record) -> FreeRecord:
    return FreeRecord(record, order.reason.value)


def wait_before(tries: int, seen: Seen) -> Wait:
    return Wait(min(seen.settings.max_poll_time, FIRST_QUESTION_S * 2.0**tries))


def one_more(tries: int) -> int:
    return min(tries + 1, MOST_DOUBLINGS)


def reissued(order: CleanOrder, seen: Seen) -> CleanOrder:
    """The order of an exception (C20, U6), given again as of now."""
    return order_release(
        order.uuid,
        order.reason,
        seen.snapshot,
        incarnation=order.incarnation,
        instance_id=order.instance_id,
        slot=order.slot,
        hostname=order.hostname,
        created_at=order.created_at,
    )


def only_looked_at(order: CleanOrder) -> CleanOrder:
    """The order made void: what a former run judged frees nothing, so the record is only read."""
    return replace(order, not_after=NEVER)


def evidence(order: CleanOrder, found: CleanEvidence, record: Record, seen: Seen) -> Look:
    """What the pre-write check saw: the evidence that confirmed the write, for the proof."""
    return look_at(
        record,
        found,
        seen.snapshot,
        seen.settings,
        node_id=order.instance_id,
        guarantee=seen.guarantee,
        fence_wait=seen.fence_wait,
    )


def why_not(verdict: Verdict) -> Verdict:
    """What keeps the record: the verdict that forbids its clean, or that the daemon stops."""
    if verdict.kind is not Kind.CLEAN:
        return verdict
    return keep(verdict.id, Reason.STOPPING)


def passes(order: CleanOrder, why: Verdict, seen: Seen) -> bool:
    """Whether what keeps the record passes by itself.

    A failed write may have opened the breaker: then the clean waits for the store to work again.
    A stop ends this run alone: the next one finishes what a destroy or a refused create began. So
    does the next attempt where the order waited too long for a worker.
    """
    if why.reason is Reason.BREAKER_OPEN:
        return seen.failing
    if why.reason in (Reason.DENIED_TOO_EARLY, Reason.ORDER_EXPIRED, Reason.STOPPING):
        return order.is_exception
    if why.reason is Reason.NODE_ALIVE:
        # A listing still shows what a refused create had begun.
        return order.reason is Reason.CREATE_REFUSED
    return why.reason in (Reason.PAUSED, Reason.EVIDENCE_MISSING, Reason.READ_ONLY)


def unwritten(order: CleanOrder, problem: str) -> Verdict:
    return keep(order.uuid, Reason.READ_ONLY, detail=problem)


def is_done(order: CleanOrder, found: CleanEvidence) -> bool:
    """Whether a write of ours took effect: the record is free, or has another incarnation."""
    record = found.record
    if found.error is not None or record is None:
        return False
    return not record.holds_anything or record.incarnation != order.incarnation


def facts_of(order: CleanOrder, found: CleanEvidence, seen: Seen) -> tuple[Fact, ...]:
    """The facts of a look that later decisions need.

    The id that the record's node pings with may be no node's id (P1a). The cloud may have a node
    that no listing shows: this breaks a run of denials (P6), and a silent node is shut down (D13).
    """
    facts: tuple[Fact, ...] = ()
    now, asked_at = seen.snapshot.now, found.asked_at
    if found.malformed and found.record is not None and found.record.instance_id is not None:
        facts = (NodesAnswered({}, now, frozenset({found.record.instance_id})),)
    if order.is_exception:
        return facts
    if found.by_id is not None and not found.by_id.is_absent:
        by_id = NodesAnswered({found.by_id.id: found.by_id}, now, asked_at=asked_at)
        facts = (*facts, by_id)
    if any(not node.is_absent for node in found.tagged or ()):
        by_tag = TagsAnswered({order.uuid: found.tagged or ()}, now, asked_at=asked_at)
        facts = (*facts, by_tag)
    return facts


def _life_ended(order: CleanOrder, seen: Seen) -> LivesFreed:
    now = seen.snapshot.now
    life = FreedLife(
        order.uuid,
        order.incarnation,
        now,
        node_id=order.instance_id,
        slot=order.slot,
        hostname=order.hostname,
        why=order.reason.value,
    )
    return LivesFreed((life,), now)


def ended_as(order: CleanOrder, name: str, why: Verdict | None = None) -> Ended:
    return Ended(name, {"reason": order.reason.value}, why)


def skipped(order: CleanOrder, why: Verdict, record: Record | None) -> LogLine:
    fields = skip_fields(order, why, record_fields(record, order.uuid))
    return LogLine(Event.RECORD_CLEAN_SKIPPED, fields)


def skip_fields(order: CleanOrder, why: Verdict, known: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**known, "reason": why.reason, **(why.measures or {}), "plan": order.plan_id}


def known(order: CleanOrder) -> dict[str, Any]:
    return {"record": order.uuid, "slot": order.slot, "host": order.hostname}


def failed(order: CleanOrder, stage: str, error: RemoteError) -> LogLine:
    fields = {**known(order), "action": stage, "error": error, "plan": order.plan_id}
    return LogLine(Event.RECORD_CLEAN_FAILED, fields, Level.WARNING)


# The part of a clean that is behind a fence, for a store that can't compare versions (C12).
#
# The fence keeps the node's pings out. It stands for a while, then the record is read again, and
# written if nothing has changed. While the outcome of that write is unknown, the fence stays.


def fencing(state: Fencing, event: WorkflowEvent, seen: Seen) -> Step[CleanState]:
    order, before = state.order, state.before
    match event:
        case Answered(answer=Record() as fenced):
            behind = fenced_order(order, before, fenced, seen.snapshot.now)
            if behind is None or seen.stopping:
                return lift(Lifting(order, before, fenced, seen.stopping, tries=state.tries))
            standing = Standing(behind, before, fenced, state.tries)
            return Step(standing, (_stand(seen),), learn=_counts(order))
        case Failed(error=error):
            line = failed(order, "fence", error)
            if error.definite:
                return undone(order, state.tries, error, seen, line)
            # Nobody knows whether the fence is up.
            return lift(Lifting(order, before, again=True, tries=state.tries), line)
    return Step(state)


def _counts(order: CleanOrder) -> tuple[FenceStands, ...]:
    """A fence counts for the cycle's cap (C10), but not where it releases a claim (U6)."""
    return () if order.reason is Reason.CREATE_REFUSED else (FenceStands(),)


def _stand(seen: Seen) -> Wait:
    return Wait(seen.fence_wait)


def standing(state: Standing, event: WorkflowEvent, seen: Seen) -> Step[CleanState]:
    order, before = state.order, state.before
    match event:
        case Due():
            return Step(state, (look_at_record(order),))
        case Answered(answer=CleanEvidence() as found):
            return _looked_behind(state, found, seen)
        case Failed(error=error):
            return _looked_behind(state, CleanEvidence(None, None, error=str(error)), seen)
        case Refused(problem=problem):
            why = unwritten(order, problem)
            lifting = Lifting(order, before, state.fenced, True, why, state.tries)
            return lift(lifting, skipped(order, why, before))
        case Stopping():
            return lift(Lifting(order, before, state.fenced, again=True, tries=state.tries))
    return Step(state)


def _looked_behind(state: Standing, found: CleanEvidence, seen: Seen) -> Step[CleanState]:
    order, before = state.order, state.before
    facts = facts_of(order, found, seen)
    verdict = confirm_clean(order, found, seen.snapshot, seen.settings)
    if verdict.kind is Kind.CLEAN and not seen.stopping and found.record is not None:
        look = evidence(order, found, found.record, seen)
        writing = Writing(order, before, look, tries=state.tries)
        return Step(writing, (free(order, found.record),), facts=facts)
    why = why_not(verdict)
    if is_done(order, found):
        step = done(order, why, seen)
    else:
        line = skipped(order, why, found.record)
        again = passes(order, why, seen)
        step = lift(Lifting(order, before, state.fenced, again, why, state.tries), line)
    return replace(step, facts=(*step.facts, *facts))


# A write of unknown outcome.


def doubt(state: Writing, seen: Seen, *lines: LogLine) -> Step[CleanState]:
    since = seen.snapshot.now if state.doubted is None else state.doubted
    return _doubting(Unsure(state.order, state.before, since, state.tries), seen, *lines)


def _doubting(state: Unsure, seen: Seen, *lines: LogLine) -> Step[CleanState]:
    """Look again later; when stopping, leave it to the next run: the journal has the write."""
    wait = () if seen.stopping else (wait_before(state.tries, seen),)
    return Step(replace(state, tries=one_more(state.tries)), wait, tell=lines)


def unsure(state: Unsure, event: WorkflowEvent, seen: Seen) -> Step[CleanState]:
    order = state.order
    match event:
        case Due():
            return Step(state, (look_at_record(order),))
        case Answered(answer=CleanEvidence() as found):
            return _looked_after(state, found, seen)
        case Failed(effect=LookAtRecord(), error=error):
            return _looked_after(state, CleanEvidence(None, None, error=str(error)), seen)
        case Answered(effect=FenceRecord(record=judged), answer=Record() as fenced):
            state = replace(state, before=judged)
            behind = fenced_order(order, judged, fenced, seen.snapshot.now)
            if behind is None or seen.stopping:
                return _doubting(state, seen)
            return Step(replace(state, order=behind), (_stand(seen),), learn=_counts(order))
        case Failed(effect=FenceRecord(record=judged), error=error):
            if not error.definite:
                state = replace(state, before=judged)
            return _doubting(state, seen, failed(order, "fence", error))
        case Refused(problem=problem):
            why = unwritten(order, problem)
            return _doubting(state, seen, skipped(order, why, state.before))
    return Step(state)


def _looked_after(state: Unsure, found: CleanEvidence, seen: Seen) -> Step[CleanState]:
    before, facts = state.before, facts_of(state.order, found, seen)
    order, verdict = after_unknown(state, found, seen.snapshot, seen.settings)
    if verdict.reason is Reason.HOLDS_NOTHING:
        step = freed(order, before, seen)
        return replace(step, facts=(*step.facts, *facts))
    why = why_not(verdict)
    line = skipped(order, why, found.record)
    if verdict.kind is Kind.LIFT and not seen.stopping:
        step = lift(Lifting(order, before, why=why, tries=state.tries), line)
        return replace(step, facts=facts)
    state = replace(state, order=order)
    if verdict.kind is Kind.CLEAN and not seen.stopping and found.record is not None:
        if not order.fenced:
            # A late write of ours has removed the fence.
            return Step(state, (FenceRecord(found.record),), facts=facts)
        look = evidence(order, found, found.record, seen)
        writing = Writing(order, before, look, state.since, state.tries)
        return Step(writing, (free(order, found.record),), facts=facts)
    return replace(_doubting(state, seen, line), facts=facts)


def after_unknown(
    state: Unsure, found: CleanEvidence, snapshot: Snapshot, settings: Settings
) -> tuple[CleanOrder, Verdict]:
    """The order as it stands now, and what to do about a clean of unknown outcome (C12).

    KEEP with HOLDS_NOTHING: the clean took effect. CLEAN: only our own late writes changed the
    record, and the cloud denies its node again: write it once more; where a late write took the
    fence away, the order is not `fenced`, and the fence goes up again first. LIFT: the clean will
    never take effect, or the record is another's by now. Other KEEP: the fence stays for now.
    """
    order, record = replace(state.order, fenced=True), found.record
    if found.error is not None:
        return order, keep(order.uuid, Reason.EVIDENCE_MISSING, error=found.error)
    if record is None or record.incarnation not in (None, order.incarnation):
        return order, _lift(order, "the record is another's by now")
    if not record.holds_anything or record.incarnation != order.incarnation:
        return order, keep(order.uuid, Reason.HOLDS_NOTHING)
    if not _lives_on(state.before, record):
        order = replace(order, version=record.version)
    verdict = confirm_clean(order, found, snapshot, settings)
    if verdict.kind is Kind.CLEAN:
        return replace(order, fenced=record.fenced), verdict
    waited_s = snapshot.now - state.since
    if waited_s > settings.node_stale_after:
        return order, _lift(order, verdict.reason.value, waited_s, settings)
    return order, verdict


def _lift(
    order: CleanOrder, why: str, waited_s: float | None = None, settings: Settings | None = None
) -> Verdict:
    limit_s = settings.node_stale_after if settings is not None else None
    measures = {"age_s": waited_s, "limit_s": limit_s, "detail": why}
    return Verdict(Kind.LIFT, Reason.FENCE_LEFT, order.uuid, measures)


def _lives_on(judged: Record, found: Record) -> bool:
    """Whether a ping changed the record since it was judged."""
    return (
        judged.last_ping_at != found.last_ping_at
        or judged.first_ping_at != found.first_ping_at
        or judged.instance_id != found.instance_id
    )


# Lifting a fence.


def found_fenced(order: CleanOrder, seen: Seen) -> Step[CleanState]:
    """Lift a fence that a listing shows, and that no clean of ours needs any more."""
    items = seen.snapshot.history.listed_records
    record = next((one for one in items if one.uuid == order.uuid), None)
    if record is None:
        return Step(None)
    fields = {**record_fields(record, order.uuid), "reason": order.reason, "plan": order.plan_id}
    return lift(Lifting(order, record, found=True), LogLine(Event.RECORD_UNFENCED, fields))


def lift(state: Lifting, *lines: LogLine) -> Step[CleanState]:
    return Step(state, (_lift_of(state),), tell=lines)


def _lift_of(state: Lifting) -> LiftFence:
    """The effect that lifts it. The store has the secret of a fence that a listing showed."""
    left = state.order.reason is Reason.FENCE_LEFT
    secret = None if left else state.before.ping_secret
    return LiftFence(state.fenced or state.before, secret)


def lifting(state: Lifting, event: WorkflowEvent, seen: Seen) -> Step[CleanState]:
    order = state.order
    match event:
        case Answered():
            return _lifted(state, LIFTED, seen)
        case Failed(error=error):
            fields = {
                "record": order.uuid,
                "action": "unfence",
                "error": error,
                "plan": order.plan_id,
            }
            line = LogLine(Event.RECORD_CLEAN_FAILED, fields, Level.WARNING)
            if error.definite:
                step = _lifted(state, "failed", seen)
                return replace(step, tell=(line, *step.tell))
            if seen.stopping:
                # The journal has it: the next start lifts it.
                return Step(None, tell=(line,))
            # The node may live, and can't ping before it has its secret back.
            wait = wait_before(state.tries, seen)
            return Step(replace(state, tries=one_more(state.tries)), (wait,), tell=(line,))
        case Due() | Stopping():
            return Step(state, (_lift_of(state),))
    return Step(state)


def _lifted(state: Lifting, outcome: str, seen: Seen) -> Step[CleanState]:
    order = state.order
    if order.is_exception and state.again:
        return again(order, state.tries, seen)
    return Step(None, ended=ended_as(order, outcome, state.why))


class Clean:
    """Look, confirm, write; where the store can't compare versions, behind a fence."""

    action = Action.CLEAN
    states = (Looking, Checking, Pausing, Fencing, Standing, Writing, Unsure, Lifting, GivenUp)

    def id(self, order: CleanOrder) -> str:
        return order.uuid

    def about(self, state: CleanState) -> About:
        return About(record=state.order.uuid, names=state.order.instance_id)

    def flight(self, state: CleanState) -> str:
        if state.order.reason is Reason.CREATE_REFUSED:
            # The claim counts as a future node until it is released (U6).
            return "setup"
        if state.order.not_after == NEVER:
            return "unfence"
        # A clean whose fence is up counts for the cycle in which it went up, and for no later one
        # (C10), unless it waits to begin again.
        is_up = state.order.fenced and not isinstance(state, Pausing)
        return "fenced" if is_up else "clean"

    def start(self, order: CleanOrder, seen: Seen) -> Step[CleanState]:
        if order.reason is Reason.FENCE_LEFT:
            return found_fenced(order, seen)
        return Step(Looking(order), (first_look(order),))

    def resume(self, state: CleanState, seen: Seen) -> Step[CleanState]:
        order, fences = state.order, seen.guarantee is Guarantee.FENCED
        match state:
            case Looking() if order.is_exception:
                order = reissued(order, seen)
                return Step(Looking(order, inherited=True, error=UNANSWERED), (first_look(order),))
            case Writing(before=before) if fences and order.fenced:
                past = only_looked_at(order)
                if order.is_exception:
                    # The order stood when the former run wrote: only a later change can forbid it.
                    past = replace(
                        reissued(order, seen),
                        not_after=float("inf"),
                        fenced=True,
                        fenced_at=NEVER,
                    )
                return Step(Unsure(past, before, seen.snapshot.now), (look_at_record(past),))
            case Fencing(before=before) | Writing(before=before) | Lifting(before=before) if fences:
                past = only_looked_at(order)
                return Step(Standing(past, before), (look_at_record(past),))
            case Fencing() | Writing() | Lifting():
                past = reissued(order, seen) if order.is_exception else only_looked_at(order)
                checking = Checking(past, inherited=True, error=UNANSWERED)
                return Step(checking, (look_at_record(past),))
        return Step(None)

    def on(self, state: CleanState, event: WorkflowEvent, seen: Seen) -> Step[CleanState]:
        match state:
            case Looking() | Checking():
                return _looking(state, event, seen)
            case Pausing():
                return _pausing(state, event, seen)
            case Fencing():
                return fencing(state, event, seen)
            case Standing():
                return standing(state, event, seen)
            case Writing():
                return _writing(state, event, seen)
            case Unsure():
                return unsure(state, event, seen)
            case Lifting():
                return lifting(state, event, seen)
            case GivenUp():
                return _given_up(state, event, seen)


# The look before the write.


def _looking(state: Fenceless, event: WorkflowEvent, seen: Seen) -> Step[CleanState]:
    order = state.order
    match event:
        case Answered(answer=CleanEvidence() as found):
            return _looked(replace(state, error=None), found, seen)
        case Failed(error=TooLate()):
            why = keep(order.uuid, Reason.ORDER_EXPIRED, late_s=seen.snapshot.now - order.not_after)
            line = LogLine(Event.RECORD_CLEAN_SKIPPED, skip_fields(order, why, known(order)))
            return _kept(state, why, seen, line, may_wait=passes(order, why, seen))
        case Failed(error=error):
            unanswered = replace(state, error=str(error))
            return _looked(unanswered, CleanEvidence(None, None, error=str(error)), seen)
        case Refused(problem=problem):
            why = unwritten(order, problem)
            line = LogLine(Event.RECORD_CLEAN_SKIPPED, skip_fields(order, why, known(order)))
            return _kept(replace(state, error=None), why, seen, line, may_wait=True)
        case Expired():
            return _too_long(state)
    return Step(state)


def _looked(state: Fenceless, found: CleanEvidence, seen: Seen) -> Step[CleanState]:
    order = state.order
    verdict = confirm_clean(order, found, seen.snapshot, seen.settings)
    if verdict.kind is Kind.CLEAN and not seen.stopping and found.record is not None:
        look = evidence(order, found, found.record, seen)
        return _confirmed(state, found, found.record, look, seen)
    why = why_not(verdict)
    if isinstance(state, Checking) and is_done(order, found):
        step = done(order, why, seen)
    else:
        line = skipped(order, why, found.record)
        step = _kept(state, why, seen, line, may_wait=passes(order, why, seen))
    return replace(step, facts=(*step.facts, *facts_of(order, found, seen)))


def _confirmed(
    state: Fenceless, found: CleanEvidence, record: Record, look: Look, seen: Seen
) -> Step[CleanState]:
    """The fence or the write, once the record's pre-image and the proof are on the disk."""
    order, facts = state.order, facts_of(state.order, found, seen)
    if seen.guarantee is Guarantee.FENCED:
        return Step(
            Fencing(order, record, look, state.tries), (FenceRecord(record),), facts=facts
        )  # fmt: skip
    return Step(
        Writing(order, record, look, tries=state.tries), (free(order, record),), facts=facts
    )


def _kept(
    state: Fenceless, why: Verdict, seen: Seen, line: LogLine, *, may_wait: bool
) -> Step[CleanState]:
    """The clean is not written now: it is tried again later, or it ends with `why`."""
    order, is_first = state.order, isinstance(state, Looking)
    if may_wait and (order.is_exception or not is_first):
        pausing = Pausing(order, state.tries, is_first, state.inherited, state.error)
        return pause(pausing, seen, line)
    return Step(None, tell=(line,), ended=ended_as(order, why.reason.value, why))


def _too_long(state: Fenceless | Pausing) -> Step[CleanState]:
    if state.inherited and state.error is not None:
        # The next look is on its way already, or waits for its time.
        return Step(replace(state, error=UNANSWERED), attempt_failed=state.error)
    return Step(None, ended=ended_as(state.order, EXPIRED))


def _pausing(state: Pausing, event: WorkflowEvent, seen: Seen) -> Step[CleanState]:
    order = state.order
    match event:
        case Due():
            if order.is_exception:
                order = reissued(order, seen)
            kind, look = (Looking, first_look) if state.is_first else (Checking, look_at_record)
            looking = kind(order, state.tries, state.inherited, state.error)
            return Step(looking, (look(order),))
        case Refused():
            return pause(state, seen)
        case Expired():
            return _too_long(state)
    return Step(state)


# The write.


def _writing(state: Writing, event: WorkflowEvent, seen: Seen) -> Step[CleanState]:
    order, before = state.order, state.before
    match event:
        case Answered():
            return freed(order, before, seen)
        case Failed(error=error):
            line = failed(order, "write", error)
            if not order.fenced:
                return undone(order, state.tries, error, seen, line)
            if not (error.definite or error.unsent):
                return doubt(replace(state, doubted=seen.snapshot.now), seen, line)
            if state.doubted is not None:
                return doubt(state, seen, line)
            return lift(Lifting(order, before, again=True, tries=state.tries), line)
        case Expired() if not order.fenced:
            return Step(GivenUp(order, before), ended=ended_as(order, EXPIRED))
    return Step(state)


def _given_up(state: GivenUp, event: WorkflowEvent, seen: Seen) -> Step[CleanState]:
    match event:
        case Answered():
            return freed(state.order, state.before, seen)
        case Failed(error=error):
            return Step(None, tell=(failed(state.order, "write", error),))
    return Step(state)
