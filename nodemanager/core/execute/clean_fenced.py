"""The part of a clean that is behind a fence, for a store that can't compare versions (C12).

The fence keeps the node's pings out. It stands for a while, then the record is read again, and
written if nothing has changed. While the outcome of that write is unknown, the fence stays.
"""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.execute.books import FenceStands
from nodemanager.core.execute.clean_state import (
    Checking,
    Fencing,
    Lifting,
    Standing,
    State,
    Unsure,
    Writing,
)
from nodemanager.core.execute.clean_steps import (
    afresh,
    again,
    done,
    ended_as,
    evidence,
    facts_of,
    failed,
    free,
    freed,
    is_done,
    look_at_record,
    one_more,
    passes,
    skipped,
    undone,
    unwritten,
    wait_before,
    why_not,
)
from nodemanager.core.execute.effects import FenceRecord, LiftFence, LookAtRecord, Wait
from nodemanager.core.execute.pre_write_check import CleanEvidence, confirm_clean
from nodemanager.core.execute.unacknowledged import Unknown, after_unknown
from nodemanager.core.execute.workflow import (
    Answered,
    Due,
    Event,
    Failed,
    Level,
    Refused,
    Seen,
    Step,
    Stopping,
    Told,
)
from nodemanager.core.explain.events import LIFTED, record_fields
from nodemanager.core.model.reasons import Event as Name
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import Record
from nodemanager.core.safety.orders import NEVER, CleanOrder, fenced_order

# The fence.


def fencing(state: Fencing, event: Event, seen: Seen) -> Step[State]:
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


def standing(state: Standing, event: Event, seen: Seen) -> Step[State]:
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


def _looked_behind(state: Standing, found: CleanEvidence, seen: Seen) -> Step[State]:
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


def doubt(state: Writing, seen: Seen, *told: Told) -> Step[State]:
    since = seen.snapshot.now if state.doubted is None else state.doubted
    return _doubting(Unsure(state.order, state.before, since, state.tries), seen, *told)


def _doubting(state: Unsure, seen: Seen, *told: Told) -> Step[State]:
    """Look again later; when stopping, leave it to the next run: the journal has the write."""
    wait = () if seen.stopping else (wait_before(state.tries, seen),)
    return Step(replace(state, tries=one_more(state.tries)), wait, tell=told)


def unsure(state: Unsure, event: Event, seen: Seen) -> Step[State]:
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


def _looked_after(state: Unsure, found: CleanEvidence, seen: Seen) -> Step[State]:
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


def found_fenced(order: CleanOrder, seen: Seen) -> Step[State]:
    """Lift a fence that a listing shows, and that no clean of ours needs any more."""
    listing = seen.snapshot.history.records
    items = listing.items if listing is not None else ()
    record = next((one for one in items if one.uuid == order.uuid), None)
    if record is None:
        return Step(None)
    fields = {**record_fields(record, order.uuid), "reason": order.reason, "plan": order.plan_id}
    return lift(Lifting(order, record, found=True), Told(Name.RECORD_UNFENCED, fields))


def lift(state: Lifting, *told: Told) -> Step[State]:
    return Step(state, (_lift_of(state),), tell=told)


def _lift_of(state: Lifting) -> LiftFence:
    """The effect that lifts it. The store has the secret of a fence that a listing showed."""
    left = state.order.reason is Reason.FENCE_LEFT
    secret = None if left else state.before.ping_secret
    return LiftFence(state.fenced or state.before, secret)


def lifting(state: Lifting, event: Event, seen: Seen) -> Step[State]:
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
            told = Told(Name.RECORD_CLEAN_FAILED, fields, Level.WARNING)
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


def _lifted(state: Lifting, outcome: str, seen: Seen) -> Step[State]:
    order = state.order
    if order.is_exception and state.again:
        return again(order, state.tries, seen)
    relieved = outcome == LIFTED and order.not_after == NEVER
    if relieved and order.is_exception and not seen.stopping:
        # A former run began this clean: begin it again.
        order = afresh(order, seen)
        return Step(Checking(order, state.tries), (look_at_record(order),))
    return Step(None, ended=ended_as(order, outcome, state.why))
