"""Shuts a node down: pre-write check, destroy, and the wait until the node is gone (D2-D4, C20).

Once the node is gone, the record that it was paired with is cleaned at once. The journal gets that
clean together with the end of the destroy. Where there is a scheduler, it is told in between that
the node is down: once the record is clean, its hostname may be another node's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.core.execute import effects, news
from nodemanager.core.execute.workflow import (
    UNANSWERED,
    Abandoned,
    About,
    Action,
    Answered,
    Due,
    Ended,
    Expired,
    Failed,
    FollowUp,
    Level,
    LogLine,
    Refused,
    Seen,
    Step,
    Unwritten,
    WorkflowEvent,
    Written,
)
from nodemanager.core.judge.idle import ROTATE, UNCAPPED
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.settings import ASK_AGAIN_S, CLOCK_STEP_S
from nodemanager.core.model.verdict import keep
from nodemanager.core.model.world import CloudNode, CloudState, Outcome, life_key
from nodemanager.core.observe.facts import DestroySent, NodesExplained
from nodemanager.core.observe.signs import launched_for
from nodemanager.core.observe.unlisted import is_missed
from nodemanager.core.plan.destroy import ShutdownOrder, confirm_shutdown
from nodemanager.core.plan.rotation import ROTATING
from nodemanager.core.safety.orders import order_release

PINS_TRIES = 3
"""After this many looks that don't tell what a node pins, it is destroyed all the same."""
FIRST_QUESTION_S = 2.0
"""Seconds until the first question whether it is gone; the waits double, up to max_poll_time."""
MOST_DOUBLINGS = 16
"""So often the wait for a scheduler doubles."""


@dataclass(frozen=True, slots=True)
class Looking(Unwritten):
    """The cloud is asked what the node pins, and its record is read; nothing is written yet."""

    order: ShutdownOrder


@dataclass(frozen=True, slots=True)
class Destroying(Written):
    """The destroy was sent, or may have been."""

    order: ShutdownOrder


@dataclass(frozen=True, slots=True)
class Asking(Written):
    """The destroy was sent: the cloud is asked for the node by its id until the node is gone."""

    order: ShutdownOrder
    sent_at: float
    """When the destroy was answered, or taken up by a restart. Times are CLOCK_BOOTTIME."""
    denied_at: float | None = None
    """When the first "no such node" was answered (D3)."""
    asked_at: float | None = None
    """When the question in flight was ordered: its answer may be as old as that (A1)."""
    questions: int = 0
    """How often the wait between two questions was doubled."""
    inherited: bool = False
    """A former run sent it, or was killed before: the fifth failed attempt is the last (R1)."""
    error: str | None = None
    """Why the newest question failed, or UNANSWERED; None where it was answered."""


@dataclass(frozen=True, slots=True)
class Marking(Written):
    """The node is gone, and the scheduler is told that it is down; then its record is cleaned."""

    order: ShutdownOrder
    tries: int = 0
    """How many times that had no clear answer."""
    is_asked: bool = True
    """Whether an answer is on its way: while it is, the record is not freed."""
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class GivenUp(Abandoned):
    """It took too long. The next plan judges the node again; the worker may still answer."""

    order: ShutdownOrder


ShutdownState = Looking | Destroying | Asking | Marking | GivenUp


class ShutDown:
    """Look, write down what the node pins, destroy, ask until it is gone, tell the scheduler."""

    action = Action.SHUTDOWN
    states = (Looking, Destroying, Asking, Marking, GivenUp)

    def id(self, order: ShutdownOrder) -> str:
        return order.node_id

    def about(self, state: ShutdownState) -> About:
        return About(record=state.order.record, node=state.order.node_id)

    def flight(self, state: ShutdownState) -> str:
        if state.order.reason in ROTATE:
            return ROTATING
        return "shutdown:idle" if state.order.reason in UNCAPPED else "shutdown:bad"

    def start(self, order: ShutdownOrder, seen: Seen) -> Step[ShutdownState]:
        return _look(order, seen)

    def resume(self, state: ShutdownState, seen: Seen) -> Step[ShutdownState]:
        match state:
            case Destroying() | Asking():
                sent_at = seen.snapshot.now
                return _ask(Asking(state.order, sent_at, inherited=True, error=UNANSWERED), seen)
            case Marking():
                return _begin_to_mark(state.order, seen)
        return Step(None)

    def on(self, state: ShutdownState, event: WorkflowEvent, seen: Seen) -> Step[ShutdownState]:
        match state:
            case Looking():
                return _looking(state, event, seen)
            case Destroying():
                return _destroying(state, event, seen)
            case Asking():
                return _asking(state, event, seen)
            case Marking():
                return _marking(state, event, seen)
            case GivenUp():
                return _given_up(state, event, seen)


def _look(order: ShutdownOrder, seen: Seen) -> Step[ShutdownState]:
    asks_pins = seen.pins_failed.get(order.node_id, 0) < PINS_TRIES
    # A kill waits for no scheduler (O2).
    asks_scheduler = seen.settings.scheduled and order.reason is not Reason.KILLED
    own = (order.hostname,) if order.hostname is not None else order.hostnames
    hostnames = own if asks_scheduler else ()
    look = effects.LookAtNode(order.node_id, order.record, asks_pins, hostnames)
    return Step(Looking(order), (look,))


def _looking(state: Looking, event: WorkflowEvent, seen: Seen) -> Step[ShutdownState]:
    order = state.order
    match event:
        case Answered(answer=effects.NodeLooked() as looked):
            return _looked(order, looked, seen)
        case Failed(error=error):
            return _skipped(order, Reason.EVIDENCE_MISSING, {"error": str(error)})
        case Refused(problem=problem):
            step = _skipped(order, Reason.READ_ONLY, {"detail": problem})
            return replace(step, learn=(news.PinsCalledOff(order.node_id),))
        case Expired():
            return Step(GivenUp(order), learn=(news.PinsDoubted(order.node_id),))
    return Step(state)


def _looked(order: ShutdownOrder, looked: effects.NodeLooked, seen: Seen) -> Step[ShutdownState]:
    snapshot = seen.snapshot
    if snapshot.limits.throttled_until > snapshot.now and not seen.stopping:
        # It waits for a worker until the cloud may be called again, and is looked at anew (D2).
        return _look(order, seen)
    verdict = confirm_shutdown(
        order, looked.found, snapshot, seen.settings, wanted=order.size in seen.unmet
    )
    if seen.undecided and order.cancellable and verdict.kind is Kind.SHUTDOWN:
        detail = "news that no plan has weighed yet"
        verdict = keep(order.node_id, Reason.CHANGED_SINCE_PLAN, detail=detail)
    learn, tell, failed = _count_look(order, looked, seen, verdict.reason)
    if verdict.kind is not Kind.SHUTDOWN:
        step = _skipped(order, verdict.reason, verdict.measures or {})
    elif seen.stopping:
        step = _skipped(order, Reason.STOPPING, {})
    elif looked.pins is None and failed < PINS_TRIES:
        measures = {"error": looked.pins_error, "attempt": failed, "limit": PINS_TRIES}
        step = _skipped(order, Reason.PINS_UNKNOWN, measures)
    else:
        destroy = effects.DestroyNode(order.node_id, order.not_after)
        sent = DestroySent(order.node_id, snapshot.now)
        step = Step(Destroying(order), (destroy,), facts=(sent,), pins=looked.pins or ())
        if looked.pins is None:
            fields = {
                "node": order.node_id,
                "detail": "its shutdown goes on: what it leaves is found by its tags",
                "attempt": failed,
                "limit": PINS_TRIES,
                "plan": order.plan_id,
            }
            tell = (*tell, LogLine(Event.LEFTOVER_UNKNOWN, fields, Level.WARNING))
            learn = (*learn, news.PinsTold(order.node_id))
    return replace(step, tell=(*tell, *step.tell), learn=(*learn, *step.learn))


def _count_look(
    order: ShutdownOrder, looked: effects.NodeLooked, seen: Seen, reason: Reason
) -> tuple[tuple[news.Learned, ...], tuple[LogLine, ...], int]:
    """What the State learns of a look for pins, the log events, and the failed looks in a row."""
    before = seen.pins_failed.get(order.node_id, 0)
    if looked.pins is not None and reason is not Reason.ORDER_EXPIRED:
        return ((news.PinsTold(order.node_id),) if before else ()), (), 0
    if looked.pins is None and looked.pins_error is None:
        return (), (), before
    fields = {
        "node": order.node_id,
        "error": looked.pins_error or "the answer came too late",
        "attempt": before + 1,
        "limit": PINS_TRIES,
        "plan": order.plan_id,
    }
    line = LogLine(Event.LEFTOVER_UNKNOWN, fields, Level.WARNING)
    return (news.PinsFailed(order.node_id, looked.pins_error),), (line,), before + 1


def _destroying(state: Destroying, event: WorkflowEvent, seen: Seen) -> Step[ShutdownState]:
    order, now = state.order, seen.snapshot.now
    match event:
        case Answered(answer=Outcome.GONE):
            return _gone(order, seen)
        case Answered():
            return _ask_later(Asking(order, now), seen)
        case Failed(error=error) if error.definite:
            return Step(
                None,
                tell=(_failed(order, Outcome.FAILED, error),),
                facts=(_refused(order, seen),),
                learn=(news.PinsCalledOff(order.node_id),),
                ended=Ended(Outcome.FAILED.value),
            )
        case Failed(error=error):
            step = _ask_later(Asking(order, now), seen)
            return replace(step, tell=(_failed(order, Outcome.UNKNOWN, error),))
        case Expired():
            return _too_long(order)
    return Step(state)


def _asking(state: Asking, event: WorkflowEvent, seen: Seen) -> Step[ShutdownState]:
    order, snapshot = state.order, seen.snapshot
    match event:
        case Due():
            wait_s = snapshot.limits.throttled_until - snapshot.now
            if wait_s > 0:
                return Step(state, (effects.Wait(wait_s),))
            return _ask(state, seen)
        case Answered(effect=effects.AskNode(), answer=node):
            return _answered(replace(state, error=None), node, seen)
        case Failed(effect=effects.AskNode(), error=error):
            step = _ask_later(replace(state, error=str(error)), seen)
            return replace(step, tell=(_failed(order, Outcome.UNKNOWN, error),))
        case Expired() if state.inherited and state.error is not None:
            # The next question is on its way already, or waits for its time.
            return Step(replace(state, questions=0, error=UNANSWERED), attempt_failed=state.error)
        case Expired():
            return _too_long(order)
    return Step(state)


def _ask(state: Asking, seen: Seen) -> Step[ShutdownState]:
    asking = replace(state, asked_at=seen.snapshot.now)
    return Step(asking, (effects.AskNode(state.order.node_id),))


def _answered(state: Asking, node: CloudNode | None, seen: Seen) -> Step[ShutdownState]:
    is_gone, denied_at = judge_gone(state, node, seen)
    if is_gone and not (node is None and _is_in_doubt(state, seen)):
        return _gone(state.order, seen)
    return _ask_later(replace(state, denied_at=denied_at), seen)


def judge_gone(state: Asking, node: CloudNode | None, seen: Seen) -> tuple[bool, float | None]:
    """Whether the destroyed node is gone (D3), and when the first "no such node" was answered.

    Terminated is gone. "No such node" (`node` None) is gone only `visible_after` past the node's
    launch, answered twice ASK_AGAIN_S apart; a cloud with consistent reads (`visible_after` 0) is
    believed at once. An answer may be as old as its question (A1).
    """
    if node is not None:
        return node.state is CloudState.TERMINATED, None
    order, visible_after, now = state.order, seen.settings.visible_after, seen.snapshot.now
    if visible_after == 0:
        return True, state.denied_at
    asked_at = state.sent_at if state.asked_at is None else state.asked_at
    age_s = max(asked_at - state.sent_at, _launched_s(order, seen) - (now - asked_at))
    if age_s <= visible_after:
        return False, state.denied_at
    if state.denied_at is None:
        return False, now
    return asked_at - state.denied_at >= ASK_AGAIN_S, state.denied_at


def _launched_s(order: ShutdownOrder, seen: Seen) -> float:
    """For how long the node has been launched at least; 0 where that is not known.

    The launch time is by the cloud's clock, which may be off by CLOCK_STEP_S (A3).
    """
    if order.created_at is None:
        return 0.0
    return launched_for(order.created_at, seen.snapshot, order.claimed_at) - CLOCK_STEP_S


def _is_in_doubt(state: Asking, seen: Seen) -> bool:
    """Whether a "no such node" does not count yet: a former run may have been killed before it sent
    the destroy, and the node's absence is not settled (C5, C20)."""
    order, records = state.order, seen.snapshot.history.records
    if not state.inherited or order.record is None or order.reason is Reason.UNPAIRED:
        return False
    if records is None:
        return True
    record = next((one for one in records.items if one.uuid == order.record), None)
    if record is None or record.incarnation != order.incarnation:
        return False
    return not is_missed(record, seen.snapshot, seen.settings)


def _ask_later(state: Asking, seen: Seen) -> Step[ShutdownState]:
    now, longest = seen.snapshot.now, seen.settings.max_poll_time
    wait_s = min(longest, FIRST_QUESTION_S * 2.0**state.questions)
    asked = state.questions + (wait_s < longest)
    if state.denied_at is not None and now < state.denied_at + ASK_AGAIN_S:
        # A second "no such node" settles it (D3).
        wait_s = max(1.0, state.denied_at + ASK_AGAIN_S - now)
    return Step(replace(state, questions=asked, asked_at=None), (effects.Wait(wait_s),))


def _given_up(state: GivenUp, event: WorkflowEvent, seen: Seen) -> Step[ShutdownState]:
    order = state.order
    match event:
        case Answered(effect=effects.DestroyNode(), answer=Outcome.GONE):
            # By now the name may be another node's in the scheduler.
            return _told_gone(_freed(order, seen), order, seen)
        case Failed(effect=effects.DestroyNode(), error=error):
            facts = (_refused(order, seen),) if error.definite else ()
            return Step(None, tell=(_failed(order, Outcome.UNKNOWN, error),), facts=facts)
        case Answered() | Failed() | Due():
            return Step(None)
    return Step(state)


# How a shutdown ends.


def _gone(order: ShutdownOrder, seen: Seen) -> Step[ShutdownState]:
    """The node is gone: tell it, also the scheduler, before its record is freed.

    Without its record nobody knows whose name that is by now. One that the scheduler itself had
    switched off may be wanted again: what waits for it waits for the next machine (U14).
    """
    is_left = order.reason in (Reason.UNPAIRED, Reason.SUSPENDED) or order.hostname is None
    if order.record is None or is_left or not seen.settings.scheduled:
        return _told_gone(_freed(order, seen), order, seen)
    return _told_gone(_begin_to_mark(order, seen), order, seen)


def _begin_to_mark(order: ShutdownOrder, seen: Seen) -> Step[ShutdownState]:
    wait_s = _twin_shows_in(order, seen)
    if wait_s > 0:
        return Step(Marking(order, is_asked=False), (effects.Wait(wait_s),))
    return Step(Marking(order), (_mark_down(order, seen),))


def _twin_shows_in(order: ShutdownOrder, seen: Seen) -> float:
    """Seconds until the cloud must show a second node of the same create, if there is one (A1).

    A node that an operator kills may be at work, and so may its twin, under the same name: to mark
    that down would end its job. Any other node had no work when its destroy was sent.
    """
    visible_after = seen.settings.visible_after
    if order.reason is not Reason.KILLED or visible_after == 0:
        return 0.0
    return visible_after - _launched_s(order, seen)


def _mark_down(order: ShutdownOrder, seen: Seen) -> effects.MarkDown:
    assert order.hostname is not None
    assert order.record is not None
    life = seen.snapshot.history.hostnames.get(life_key(order.record, order.incarnation))
    return effects.MarkDown(
        order.hostname,
        order.record,
        order.incarnation,
        order.node_id,
        asks_twins=order.reason is Reason.KILLED,
        had_joined=life is not None and not life.waits,
    )


def _marking(state: Marking, event: WorkflowEvent, seen: Seen) -> Step[ShutdownState]:
    """Tell the scheduler until it has answered, for `action_timeout` at the most."""
    order = state.order
    match event:
        case Answered(effect=effects.MarkDown(), answer=False):
            left = _marked(order, Level.INFO, detail="its scheduler waits for the next machine")
            return replace(_freed(order, seen), tell=(left,))
        case Answered(effect=effects.MarkDown()):
            return _freed(order, seen)
        case Failed(effect=effects.MarkDown(), error=error) if error.definite:
            return replace(_freed(order, seen), tell=(_not_marked(order, str(error)),))
        case Failed(effect=effects.MarkDown(), error=error) if state.is_last:
            return replace(_freed(order, seen), tell=(_not_marked(order, str(error)),))
        case Failed(effect=effects.MarkDown(), error=error):
            wait_s = min(seen.settings.max_poll_time, FIRST_QUESTION_S * 2.0**state.tries)
            tries = min(state.tries + 1, MOST_DOUBLINGS)
            tried = replace(state, tries=tries, is_asked=False)
            tell = () if state.tries else (_not_marked(order, str(error)),)
            return Step(tried, (effects.Wait(wait_s),), tell=tell)
        case Due():
            return Step(replace(state, is_asked=True), (_mark_down(order, seen),))
        case Expired() if state.is_asked:
            # Told after the record is free, it could be told of the next node of that name.
            return Step(replace(state, is_last=True))
        case Expired():
            return replace(_freed(order, seen), tell=(_not_marked(order, UNANSWERED),))
    return Step(state)


def _not_marked(order: ShutdownOrder, error: str) -> LogLine:
    return _marked(order, Level.WARNING, error=error)


def _marked(order: ShutdownOrder, level: Level, **said: str) -> LogLine:
    fields = {
        "node": order.node_id,
        "record": order.record,
        "host": order.hostname,
        "action": "down",
        **said,
        "plan": order.plan_id,
    }
    return LogLine(Event.NODE_DRAIN, fields, level)


def _told_gone(step: Step[ShutdownState], order: ShutdownOrder, seen: Seen) -> Step[ShutdownState]:
    """The step, which also says that the node is gone."""
    fields = {
        "node": order.node_id,
        "reason": order.reason,
        "record": order.record,
        "host": order.hostname,
        "size": order.size,
        "outcome": Outcome.GONE,
        "plan": order.plan_id,
    }
    gone = news.NodeGone(order.node_id, order.reason, order.size, order.record, order.incarnation)
    return replace(
        step,
        tell=(LogLine(Event.NODE_GONE, fields),),
        facts=(NodesExplained((order.node_id,), seen.snapshot.now),),
        learn=(gone,),
    )


def _freed(order: ShutdownOrder, seen: Seen) -> Step[ShutdownState]:
    """The end of a shutdown whose node is gone: its record is cleaned (C20)."""
    step: Step[ShutdownState] = Step(None, ended=Ended(Outcome.GONE.value))
    if order.record is None or order.reason is Reason.UNPAIRED:
        return step
    clean = order_release(
        order.record,
        Reason.AFTER_SHUTDOWN,
        replace(seen.snapshot, plan_id=order.plan_id),
        incarnation=order.incarnation,
        instance_id=order.node_id,
        slot=order.slot,
        hostname=order.hostname,
        created_at=order.created_at,
    )
    return replace(step, begin=(FollowUp(Action.CLEAN, clean),))


def _refused(order: ShutdownOrder, seen: Seen) -> DestroySent:
    return DestroySent(order.node_id, seen.snapshot.now, refused=True)


def _too_long(order: ShutdownOrder) -> Step[ShutdownState]:
    """Give up: the next plan judges the node again, and what it pins may be left behind."""
    return Step(GivenUp(order), learn=(news.PinsDoubted(order.node_id),), ended=Ended("expired"))


def _skipped(
    order: ShutdownOrder, reason: Reason, measures: Mapping[str, Any]
) -> Step[ShutdownState]:
    fields = {"node": order.node_id, "reason": reason, **measures, "plan": order.plan_id}
    return Step(None, tell=(LogLine(Event.NODE_SHUTDOWN_SKIPPED, fields),))


def _failed(order: ShutdownOrder, outcome: Outcome, error: Exception) -> LogLine:
    fields = {
        "node": order.node_id,
        "outcome": outcome,
        "error": error,
        "plan": order.plan_id,
    }
    return LogLine(Event.NODE_SHUTDOWN_FAILED, fields, Level.WARNING)
