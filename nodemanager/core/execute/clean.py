"""Frees one record, from the order to the write (SAFETY.md C11, C12).

Where the store compares versions: look, confirm, write. Where it can't: look, confirm, put up a
fence, let it stand, look again, confirm, write. The look that confirms a write also proves it (L4).

A clean that follows a destroy (C20) or a refused create (U6) is tried again until it is done or
something forbids it. Any other clean ends with its outcome, and the next plan judges the record
again. After a restart nothing is freed on what the former run judged: the workflow looks again.
"""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.execute.clean_steps import (
    Checking,
    CleanState,
    Fenceless,
    Fencing,
    GivenUp,
    Lifting,
    Looking,
    Pausing,
    Standing,
    Unsure,
    Writing,
    again,
    done,
    ended_as,
    evidence,
    facts_of,
    failed,
    first_look,
    free,
    freed,
    is_done,
    known,
    look_at_record,
    one_more,
    only_looked_at,
    passes,
    pause,
    reissued,
    skip_fields,
    skipped,
    undone,
    unwritten,
    wait_before,
    why_not,
)
from nodemanager.core.execute.effects import FenceRecord, LiftFence, LookAtRecord, Wait
from nodemanager.core.execute.news import FenceStands
from nodemanager.core.execute.pre_write_check import CleanEvidence, confirm_clean
from nodemanager.core.execute.unacknowledged import Unknown, after_unknown
from nodemanager.core.execute.workflow import (
    UNANSWERED,
    About,
    Action,
    Answered,
    Due,
    Expired,
    Failed,
    Level,
    LogLine,
    Refused,
    Seen,
    Step,
    Stopping,
    WorkflowEvent,
)
from nodemanager.core.explain.events import EXPIRED, LIFTED, record_fields
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import Guarantee, Record
from nodemanager.core.observe.evidence import Look
from nodemanager.core.safety.orders import NEVER, CleanOrder, fenced_order
from nodemanager.errors import TooLate

# The part of a clean that is behind a fence, for a store that can't compare versions (C12).
#
# The fence keeps the node's pings out. It stands for a while, then the record is read again, and
# written if nothing has changed. While the outcome of that write is unknown, the fence stays.


# The fence.


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
            told = failed(order, "fence", error)
            if error.definite:
                return undone(order, state.tries, error, seen, told)
            # Nobody knows whether the fence is up.
            return lift(Lifting(order, before, again=True, tries=state.tries), told)
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
        told = skipped(order, why, found.record)
        again = passes(order, why, seen)
        step = lift(Lifting(order, before, state.fenced, again, why, state.tries), told)
    return replace(step, facts=(*step.facts, *facts))


# A write of unknown outcome.


def doubt(state: Writing, seen: Seen, *told: LogLine) -> Step[CleanState]:
    since = seen.snapshot.now if state.doubted is None else state.doubted
    return _doubting(Unsure(state.order, state.before, since, state.tries), seen, *told)


def _doubting(state: Unsure, seen: Seen, *told: LogLine) -> Step[CleanState]:
    """Look again later; when stopping, leave it to the next run: the journal has the write."""
    wait = () if seen.stopping else (wait_before(state.tries, seen),)
    return Step(replace(state, tries=one_more(state.tries)), wait, tell=told)


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
    unknown = Unknown(state.order, before, state.since)
    order, verdict = after_unknown(unknown, found, seen.snapshot, seen.settings)
    if verdict.reason is Reason.HOLDS_NOTHING:
        step = freed(order, before, seen)
        return replace(step, facts=(*step.facts, *facts))
    why = why_not(verdict)
    told = skipped(order, why, found.record)
    if verdict.kind is Kind.LIFT and not seen.stopping:
        step = lift(Lifting(order, before, why=why, tries=state.tries), told)
        return replace(step, facts=facts)
    state = replace(state, order=order)
    if verdict.kind is Kind.CLEAN and not seen.stopping and found.record is not None:
        if not order.fenced:
            # A late write of ours has removed the fence.
            return Step(state, (FenceRecord(found.record),), facts=facts)
        look = evidence(order, found, found.record, seen)
        writing = Writing(order, before, look, state.since, state.tries)
        return Step(writing, (free(order, found.record),), facts=facts)
    return replace(_doubting(state, seen, told), facts=facts)


# Lifting a fence.


def found_fenced(order: CleanOrder, seen: Seen) -> Step[CleanState]:
    """Lift a fence that a listing shows, and that no clean of ours needs any more."""
    listing = seen.snapshot.history.records
    items = listing.items if listing is not None else ()
    record = next((one for one in items if one.uuid == order.uuid), None)
    if record is None:
        return Step(None)
    fields = {**record_fields(record, order.uuid), "reason": order.reason, "plan": order.plan_id}
    return lift(Lifting(order, record, found=True), LogLine(Event.RECORD_UNFENCED, fields))


def lift(state: Lifting, *told: LogLine) -> Step[CleanState]:
    return Step(state, (_lift_of(state),), tell=told)


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
            told = LogLine(Event.RECORD_CLEAN_FAILED, fields, Level.WARNING)
            if error.definite:
                step = _lifted(state, "failed", seen)
                return replace(step, tell=(told, *step.tell))
            if seen.stopping:
                # The journal has it: the next start lifts it.
                return Step(None, tell=(told,))
            # The node may live, and can't ping before it has its secret back.
            wait = wait_before(state.tries, seen)
            return Step(replace(state, tries=one_more(state.tries)), (wait,), tell=(told,))
        case Due() | Stopping():
            return Step(state, (_lift_of(state),))
    return Step(state)


def _lifted(state: Lifting, outcome: str, seen: Seen) -> Step[CleanState]:
    order = state.order
    if order.is_exception and state.again:
        return again(order, state.tries, seen)
    return Step(None, ended=ended_as(order, outcome, state.why))


# The workflow.


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
            told = LogLine(Event.RECORD_CLEAN_SKIPPED, skip_fields(order, why, known(order)))
            return _kept(state, why, seen, told, may_wait=passes(order, why, seen))
        case Failed(error=error):
            unanswered = replace(state, error=str(error))
            return _looked(unanswered, CleanEvidence(None, None, error=str(error)), seen)
        case Refused(problem=problem):
            why = unwritten(order, problem)
            told = LogLine(Event.RECORD_CLEAN_SKIPPED, skip_fields(order, why, known(order)))
            return _kept(replace(state, error=None), why, seen, told, may_wait=True)
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
        told = skipped(order, why, found.record)
        step = _kept(state, why, seen, told, may_wait=passes(order, why, seen))
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
    state: Fenceless, why: Verdict, seen: Seen, told: LogLine, *, may_wait: bool
) -> Step[CleanState]:
    """The clean is not written now: it is tried again later, or it ends with `why`."""
    order, is_first = state.order, isinstance(state, Looking)
    if may_wait and (order.is_exception or not is_first):
        pausing = Pausing(order, state.tries, is_first, state.inherited, state.error)
        return pause(pausing, seen, told)
    return Step(None, tell=(told,), ended=ended_as(order, why.reason.value, why))


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
            told = failed(order, "write", error)
            if not order.fenced:
                return undone(order, state.tries, error, seen, told)
            if not (error.definite or error.unsent):
                return doubt(replace(state, doubted=seen.snapshot.now), seen, told)
            if state.doubted is not None:
                return doubt(state, seen, told)
            return lift(Lifting(order, before, again=True, tries=state.tries), told)
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
