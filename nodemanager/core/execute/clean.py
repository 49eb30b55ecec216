"""Frees one record, from the order to the write (SAFETY.md C11, C12).

Where the store compares versions: look, confirm, write. Where it can't: look, confirm, put up a
fence, let it stand, look again, confirm, write. The look that confirms a write also proves it (L4).

A clean that follows a destroy (C20) or a refused create (U6) is tried again until it is done or
something forbids it. Any other clean ends with its outcome, and the next plan judges the record
again. After a restart nothing is freed on what the former run judged: the workflow looks again.
"""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.execute.clean_fenced import (
    doubt,
    fencing,
    found_fenced,
    lift,
    lifting,
    standing,
    unsure,
)
from nodemanager.core.execute.clean_state import (
    Checking,
    Fenceless,
    Fencing,
    GivenUp,
    Lifting,
    Looking,
    Pausing,
    Standing,
    State,
    Unsure,
    Writing,
)
from nodemanager.core.execute.clean_steps import (
    afresh,
    done,
    ended_as,
    evidence,
    facts_of,
    failed,
    free,
    freed,
    is_done,
    known,
    look_at_record,
    only_looked_at,
    passes,
    pause,
    skip_fields,
    skipped,
    undone,
    unwritten,
    why_not,
)
from nodemanager.core.execute.effects import FenceRecord
from nodemanager.core.execute.pre_write_check import CleanEvidence, confirm_clean
from nodemanager.core.execute.workflow import (
    UNANSWERED,
    About,
    Action,
    Answered,
    Due,
    Event,
    Expired,
    Failed,
    Refused,
    Seen,
    Step,
    Told,
)
from nodemanager.core.explain.events import EXPIRED
from nodemanager.core.model.reasons import Event as Name
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Guarantee, Record
from nodemanager.core.observe.evidence import Look
from nodemanager.core.safety.orders import NEVER, CleanOrder


class Clean:
    """Look, confirm, write; where the store can't compare versions, behind a fence."""

    action = Action.CLEAN
    states = (Looking, Checking, Pausing, Fencing, Standing, Writing, Unsure, Lifting, GivenUp)

    def id(self, order: CleanOrder) -> str:
        return order.uuid

    def about(self, state: State) -> About:
        return About(record=state.order.uuid, names=state.order.instance_id)

    def flight(self, state: State) -> str:
        if state.order.reason is Reason.CREATE_REFUSED:
            # The claim counts as a future node until it is released (U6).
            return "setup"
        if state.order.not_after == NEVER:
            return "unfence"
        # A clean whose fence is up counts for the cycle in which it went up, and for no later one
        # (C10), unless it waits to begin again.
        is_up = state.order.fenced and not isinstance(state, Pausing)
        return "fenced" if is_up else "clean"

    def start(self, order: CleanOrder, seen: Seen) -> Step[State]:
        if order.reason is Reason.FENCE_LEFT:
            return found_fenced(order, seen)
        return Step(Looking(order), (look_at_record(order),))

    def resume(self, state: State, seen: Seen) -> Step[State]:
        order, fences = state.order, seen.guarantee is Guarantee.FENCED
        match state:
            case Looking() if order.is_exception:
                order = afresh(order, seen)
                return Step(
                    Looking(order, inherited=True, error=UNANSWERED), (look_at_record(order),)
                )
            case Writing(before=before) if fences and order.fenced:
                past = only_looked_at(order)
                if order.is_exception:
                    # The order stood when the former run wrote: only a later change can forbid it.
                    past = replace(
                        afresh(order, seen),
                        not_after=float("inf"),
                        fenced=True,
                        fenced_at=NEVER,
                    )
                return Step(Unsure(past, before, seen.snapshot.now), (look_at_record(past),))
            case Fencing(before=before) | Writing(before=before) | Lifting(before=before) if fences:
                past = only_looked_at(order)
                return Step(Standing(past, before), (look_at_record(past),))
            case Fencing() | Writing() | Lifting():
                past = afresh(order, seen) if order.is_exception else only_looked_at(order)
                checking = Checking(past, inherited=True, error=UNANSWERED)
                return Step(checking, (look_at_record(past),))
        return Step(None)

    def on(self, state: State, event: Event, seen: Seen) -> Step[State]:
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


def _looking(state: Fenceless, event: Event, seen: Seen) -> Step[State]:
    order = state.order
    match event:
        case Answered(answer=CleanEvidence() as found):
            return _looked(replace(state, error=None), found, seen)
        case Failed(error=error):
            unanswered = replace(state, error=str(error))
            return _looked(unanswered, CleanEvidence(None, None, error=str(error)), seen)
        case Refused(problem=problem):
            why = unwritten(order, problem)
            told = Told(Name.RECORD_CLEAN_SKIPPED, skip_fields(order, why, known(order)))
            return _kept(replace(state, error=None), why, seen, told, may_wait=True)
        case Expired():
            return _too_long(state)
    return Step(state)


def _looked(state: Fenceless, found: CleanEvidence, seen: Seen) -> Step[State]:
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
) -> Step[State]:
    """The fence or the write, once the record's pre-image and the proof are on the disk."""
    order, facts = state.order, facts_of(state.order, found, seen)
    if seen.guarantee is Guarantee.FENCED:
        return Step(
            Fencing(order, record, look, state.tries), (FenceRecord(record),), facts=facts
        )  # fmt: skip
    return Step(
        Writing(order, record, look, tries=state.tries), (free(order, record),), facts=facts
    )


def _kept(state: Fenceless, why: Verdict, seen: Seen, told: Told, *, may_wait: bool) -> Step[State]:
    """The clean is not written now: it is tried again later, or it ends with `why`."""
    order, is_first = state.order, isinstance(state, Looking)
    if may_wait and (order.is_exception or not is_first):
        pausing = Pausing(order, state.tries, is_first, state.inherited, state.error)
        return pause(pausing, seen, told)
    return Step(None, tell=(told,), ended=ended_as(order, why.reason.value, why))


def _too_long(state: Fenceless | Pausing) -> Step[State]:
    if state.inherited and state.error is not None:
        # The next look is on its way already, or waits for its time.
        return Step(replace(state, error=UNANSWERED), attempt_failed=state.error)
    return Step(None, ended=ended_as(state.order, EXPIRED))


def _pausing(state: Pausing, event: Event, seen: Seen) -> Step[State]:
    order = state.order
    match event:
        case Due():
            if order.is_exception:
                order = afresh(order, seen)
            kind = Looking if state.is_first else Checking
            looking = kind(order, state.tries, state.inherited, state.error)
            return Step(looking, (look_at_record(order),))
        case Refused():
            return pause(state, seen)
        case Expired():
            return _too_long(state)
    return Step(state)


# The write.


def _writing(state: Writing, event: Event, seen: Seen) -> Step[State]:
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


def _given_up(state: GivenUp, event: Event, seen: Seen) -> Step[State]:
    match event:
        case Answered():
            return freed(state.order, state.before, seen)
        case Failed(error=error):
            return Step(None, tell=(failed(state.order, "write", error),))
    return Step(state)
