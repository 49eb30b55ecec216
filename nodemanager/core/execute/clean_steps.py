"""What every clean does, with a fence and without: it looks, ends, tells, or tries again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nodemanager.core.execute.clean_state import (
    Pausing,
    State,
)
from nodemanager.core.execute.effects import FreeRecord, LookAtRecord, Wait
from nodemanager.core.execute.pre_write_check import CleanEvidence
from nodemanager.core.execute.workflow import (
    Ended,
    Level,
    Seen,
    Step,
    Told,
)
from nodemanager.core.explain.events import CLEANED, record_fields
from nodemanager.core.model.reasons import Event as Name
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import FreedLife, Record
from nodemanager.core.observe.evidence import Look, look_at
from nodemanager.core.observe.facts import Fact, LivesFreed, NodesAnswered, TagsAnswered
from nodemanager.core.safety.orders import NEVER, CleanOrder, order_release
from nodemanager.errors import RemoteError

FIRST_QUESTION_S = 2.0
MOST_DOUBLINGS = 16
"""The first wait in seconds, and how often it may double; `max_poll_time` caps it."""
FOUND_FREED = "a later look showed that the write took effect"


# How a clean goes on, or ends.


def again(order: CleanOrder, tries: int, seen: Seen, *told: Told) -> Step[State]:
    return pause(Pausing(order, tries, is_first=False), seen, *told)


def pause(state: Pausing, seen: Seen, *told: Told) -> Step[State]:
    """Try again after a wait; when stopping, leave it to the next run, which reads the journal."""
    if seen.stopping:
        return Step(None, tell=told)
    wait = wait_before(state.tries, seen)
    return Step(replace(state, tries=one_more(state.tries)), (wait,), tell=told)


def undone(
    order: CleanOrder, tries: int, error: RemoteError, seen: Seen, told: Told
) -> Step[State]:
    """After a fence or a write that failed with no fence up: try again (C20, U6), or end."""
    if order.is_exception:
        return again(order, tries, seen, told)
    outcome = "failed" if error.definite else "unknown"
    return Step(None, tell=(told,), ended=ended_as(order, outcome))


def freed(order: CleanOrder, before: Record, seen: Seen) -> Step[State]:
    fields = {
        "reason": order.reason,
        **record_fields(before, order.uuid),
        "guarantee": seen.guarantee,
        "plan": order.plan_id,
    }
    return Step(
        None,
        tell=(Told(Name.RECORD_CLEANED, fields),),
        facts=(_life_ended(order, seen),),
        ended=ended_as(order, CLEANED),
    )


def done(order: CleanOrder, why: Verdict, seen: Seen) -> Step[State]:
    """The end of a clean whose write took effect, as the look shows; its record may be in use."""
    fields = {"reason": order.reason, **known(order), "detail": FOUND_FREED, "plan": order.plan_id}
    return Step(
        None,
        tell=(Told(Name.RECORD_CLEANED, fields),),
        facts=(_life_ended(order, seen),),
        ended=ended_as(order, CLEANED, why),
    )


# What it asks, and what the answers come to.


def look_at_record(order: CleanOrder) -> LookAtRecord:
    return LookAtRecord(order.uuid, asks_id=True, instance_id=order.instance_id)


def free(order: CleanOrder, record: Record) -> FreeRecord:
    return FreeRecord(record, order.reason.value)


def wait_before(tries: int, seen: Seen) -> Wait:
    return Wait(min(seen.settings.max_poll_time, FIRST_QUESTION_S * 2.0**tries))


def one_more(tries: int) -> int:
    return min(tries + 1, MOST_DOUBLINGS)


def afresh(order: CleanOrder, seen: Seen) -> CleanOrder:
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
        found.tagged,
        found.by_id,
        seen.snapshot,
        seen.settings,
        asked_id=found.asked_id,
        node_id=order.instance_id,
        guarantee=seen.guarantee,
        fence_wait=seen.fence_wait,
        malformed=found.malformed,
        asked_at=found.asked_at,
    )


def why_not(verdict: Verdict) -> Verdict:
    """What keeps the record: the verdict that forbids its clean, or that the daemon stops."""
    if verdict.kind is not Kind.CLEAN:
        return verdict
    return keep(verdict.id, Reason.STOPPING)


def passes(order: CleanOrder, why: Verdict, seen: Seen) -> bool:
    """Whether what keeps the record passes by itself.

    A failed write may have opened the breaker: then the clean waits for the store to work again.
    A stop ends this run alone: the next one finishes what a destroy or a refused create began.
    """
    if why.reason is Reason.BREAKER_OPEN:
        return seen.failing
    if why.reason in (Reason.DENIED_TOO_EARLY, Reason.STOPPING):
        return order.is_exception
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


def skipped(order: CleanOrder, why: Verdict, record: Record | None) -> Told:
    fields = skip_fields(order, why, record_fields(record, order.uuid))
    return Told(Name.RECORD_CLEAN_SKIPPED, fields)


def skip_fields(order: CleanOrder, why: Verdict, known: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**known, "reason": why.reason, **(why.measures or {}), "plan": order.plan_id}


def known(order: CleanOrder) -> dict[str, Any]:
    return {"record": order.uuid, "slot": order.slot, "host": order.hostname}


def failed(order: CleanOrder, stage: str, error: RemoteError) -> Told:
    fields = {**known(order), "action": stage, "error": error, "plan": order.plan_id}
    return Told(Name.RECORD_CLEAN_FAILED, fields, Level.WARNING)
