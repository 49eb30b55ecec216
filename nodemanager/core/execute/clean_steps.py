"""The states of a clean, and the steps that every clean takes: it looks, tells, goes on or ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.core.execute.effects import FreeRecord, LookAtRecord, Wait
from nodemanager.core.execute.pre_write_check import CleanEvidence
from nodemanager.core.execute.workflow import (
    Ended,
    InFlight,
    Level,
    LogLine,
    Seen,
    Step,
    Unwritten,
)
from nodemanager.core.explain.events import CLEANED, record_fields
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import FreedLife, Record
from nodemanager.core.observe.evidence import Look, look_at
from nodemanager.core.observe.facts import Fact, LivesFreed, NodesAnswered, TagsAnswered
from nodemanager.core.safety.orders import NEVER, CleanOrder, order_release
from nodemanager.errors import RemoteError

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


def again(order: CleanOrder, tries: int, seen: Seen, *told: LogLine) -> Step[CleanState]:
    return pause(Pausing(order, tries, is_first=False), seen, *told)


def pause(state: Pausing, seen: Seen, *told: LogLine) -> Step[CleanState]:
    """Try again after a wait; when stopping, leave it to the next run, which reads the journal."""
    if seen.stopping:
        return Step(None, tell=told)
    wait = wait_before(state.tries, seen)
    return Step(replace(state, tries=one_more(state.tries)), (wait,), tell=told)


def undone(
    order: CleanOrder, tries: int, error: RemoteError, seen: Seen, told: LogLine
) -> Step[CleanState]:
    """After a fence or a write that failed with no fence up: try again (C20, U6), or end."""
    if order.is_exception:
        return again(order, tries, seen, told)
    outcome = "failed" if error.definite else "unknown"
    return Step(None, tell=(told,), ended=ended_as(order, outcome))


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
