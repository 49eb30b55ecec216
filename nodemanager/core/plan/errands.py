"""What a scheduler is told besides drains: why a job can't run, a node's size, that a node is gone,
and that a name may be used again.

These errands are small, and may wait: nothing is freed, booted or destroyed for them. The plan
orders them, and the actor that polls the scheduler runs them. An errand that failed is ordered
again later; one that a listing shows to be done is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

from nodemanager.core.judge.node_view import NodeView
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.scheduling import (
    OURS,
    Dispatched,
    ErrandOutcome,
    ErrandTried,
    SchedulerNode,
    SchedulerVerb,
    is_drained_by_us,
    may_take,
    seat_of,
)
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import FreedLife, Job, Record, Size, WorkerState
from nodemanager.core.observe.history import History
from nodemanager.core.observe.scheduled import report_on
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.availability import has_room, lacked_room
from nodemanager.core.plan.demand import DemandPlan

ERRANDS_LIMIT = 20
"""At most this many a plan: the scheduler's next poll must not wait long for them."""
REFUSED_AGAIN_S = 3600.0
"""What the scheduler refused is tried again after this: an operator may have put it right."""
CANCELLED_FOR = frozenset({Reason.NO_FITTING_SIZE, Reason.JOB_OVER_MAX_NODES})
"""What no waiting mends. A price limit leaves more room once another node is gone."""
PRICE_STEPS = 1000
"""Weights for one unit of price: a node of a cheaper size gets work first."""
RELEASED = frozenset({Reason.CREATE_REFUSED.value})
"""Why a claim ended whose node could not be had."""
_FEATURE = re.compile(r"[\w.=:/+-]+")


@dataclass(frozen=True, slots=True)
class TellJob:
    """Tell the owner of a job, or of a whole array, why no node comes for it."""

    job: str
    text: str
    reason: Reason

    @property
    def key(self) -> str:
        return f"comment:{self.job}:{self.reason.value}"

    @property
    def log_fields(self) -> Mapping[str, Any]:
        return {"action": "comment", "job": self.job, "reason": self.reason, "detail": self.text}


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Take a job, or a whole array, out of the queue: no node ever comes for it."""

    job: str
    reason: Reason

    @property
    def key(self) -> str:
        return f"cancel:{self.job}"

    @property
    def log_fields(self) -> Mapping[str, Any]:
        return {"action": "cancel", "job": self.job, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class OfNode:
    """What the errands about a node have: `verb` is what the log calls it."""

    verb: ClassVar[str]
    node: str

    @property
    def key(self) -> str:
        return f"{self.verb}:{self.node}"

    @property
    def log_fields(self) -> Mapping[str, Any]:
        return {"action": self.verb, "host": self.node}


@dataclass(frozen=True, slots=True)
class OfRecord(OfNode):
    """What those have that know which record has, or had, the node's name."""

    record: str

    @property
    def log_fields(self) -> Mapping[str, Any]:
        return {"action": self.verb, "host": self.node, "record": self.record}


@dataclass(frozen=True, slots=True)
class DescribeNode(OfNode):
    """Give the node the weight and the features of its size; `drop` are those of other sizes."""

    verb = "describe"
    weight: int
    features: tuple[str, ...]
    drop: tuple[str, ...] = ()

    @property
    def log_fields(self) -> Mapping[str, Any]:
        fields = {"weight": self.weight, "features": ",".join(self.features)}
        return {"action": self.verb, "host": self.node, **fields}


class MarkGone(OfRecord):
    """Say that the node is gone: the record that had its name is free."""

    verb = "down"


class ReturnNode(OfRecord):
    """Let the scheduler use a name again that it gave up, or that we called gone too late."""

    verb = "resume"


class SwitchOn(OfNode):
    """Have the scheduler want a machine of that name: the pool lacks one (min_nodes, spares)."""

    verb = "power_up"


@dataclass(frozen=True, slots=True)
class SwitchOff(OfRecord):
    """Have the scheduler want no machine of that name now: none comes for it, or it has gone.

    `life` is of the record whose claim was released; None where the order is for no certain life.
    """

    verb = "power_down"
    life: str | None = None

    @property
    def key(self) -> str:
        return f"{self.verb}:{self.node}:{self.life or ''}"


Errand = TellJob | CancelJob | DescribeNode | MarkGone | ReturnNode | SwitchOn | SwitchOff


def errands(
    views: Iterable[NodeView], wants: DemandPlan, snapshot: Snapshot, settings: Settings
) -> tuple[Errand, ...]:
    """The errands that this plan calls for; those about nodes that are gone come first."""
    if not settings.scheduled or standing_block(snapshot, settings, breaker=False) is not None:
        return ()
    found = (
        *_gone_nodes(snapshot, settings),
        *_seats_to_switch_off(snapshot, settings),
        *_seats_to_return(snapshot),
        *_nodes_to_return(views, snapshot, settings),
        *(SwitchOn(name) for name in sorted(wants.power_ups)),
        *_nodes_to_describe(views, snapshot, settings),
        *_jobs_to_tell(wants, snapshot, settings),
    )
    due = (one for one in found if _is_due(one, snapshot, settings))
    return tuple(islice(due, ERRANDS_LIMIT))


def _is_due(errand: Errand, snapshot: Snapshot, settings: Settings) -> bool:
    tried = snapshot.dispatched.errands.get(errand.key)
    if tried is None:
        return True
    age_s = snapshot.now - tried.at
    match tried.outcome:
        case ErrandOutcome.SENT:
            return age_s > settings.action_timeout
        case ErrandOutcome.REFUSED if isinstance(errand, ReturnNode):
            # A slot waits for it.
            return age_s > settings.boot_fail_after
        case ErrandOutcome.REFUSED:
            return age_s > REFUSED_AGAIN_S
        case ErrandOutcome.DONE if isinstance(errand, TellJob):
            return False
        case ErrandOutcome.DONE if isinstance(errand, SwitchOff) and errand.life is not None:
            # What is waited for by then is news.
            return False
    return age_s > settings.max_poll_time


# Jobs.


def _jobs_to_tell(
    wants: DemandPlan, snapshot: Snapshot, settings: Settings
) -> Iterator[TellJob | CancelJob]:
    jobs = {job.id: job for job in snapshot.demand or ()}
    seen: set[str] = set()
    for verdict in wants.unsatisfiable:
        job = jobs[verdict.id]
        id = job.array or job.id
        if id in seen:
            continue
        seen.add(id)
        tell = TellJob(id, OURS + why(job, verdict), verdict.reason)
        if SchedulerVerb.COMMENT in settings.scheduler_can:
            yield tell
        if _is_cancelled(job, tell, snapshot, settings):
            yield CancelJob(id, verdict.reason)


def _is_cancelled(job: Job, tell: TellJob, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether a job is cancelled: asked for, its owner was told why, and nothing else can run it.

    Its owner is told `settle` before, so that a file that was wrong for a moment cancels nothing.
    """
    if not settings.cancel_unsatisfiable or SchedulerVerb.CANCEL not in settings.scheduler_can:
        return False
    if tell.reason not in CANCELLED_FOR or _may_run_elsewhere(job, snapshot):
        return False
    tried = snapshot.dispatched.errands.get(tell.key)
    is_told = tried is not None and tried.outcome is ErrandOutcome.DONE
    return is_told and tried is not None and snapshot.now - tried.at > settings.settle


def _may_run_elsewhere(job: Job, snapshot: Snapshot) -> bool:
    """Whether the scheduler has a node that is not ours, is not down, and may be large enough."""
    listing, records = snapshot.history.scheduler, snapshot.history.records
    if listing is None or records is None:
        return True
    ours = {record.hostname for record in records.items}
    return any(
        node.name not in ours
        and node.state is not WorkerState.DOWN
        and (node.cores is None or node.cores >= job.cores)
        for node in listing.items
    )


def why(job: Job, verdict: Verdict) -> str:
    """Why no node comes for the job, in words for its owner."""
    measures: Mapping[str, object] = verdict.measures or {}
    match verdict.reason:
        case Reason.NO_FITTING_SIZE:
            asked = ", ".join(
                f"{name}={value}" for name, value in measures.items() if value not in (None, 0)
            )
            return f"no size of pool nodes has what it asks for ({asked})"
        case Reason.JOB_OVER_MAX_NODES:
            return (
                f"it asks for {measures.get('count')} nodes; the pool has {measures.get('limit')}"
            )
        case Reason.UNPRICED_SIZE:
            return f"size {measures.get('size')} has no price, and the pool has a limit of it"
        case Reason.JOB_OVER_MAX_PRICE:
            price, limit = measures.get("price"), measures.get("limit")
            return f"its nodes cost {price} an hour; the limit is {limit}"
        case Reason.JOB_UNREADABLE:
            return f"what it asks for can't be read: {measures.get('detail')}"
        case Reason.JOB_TIED | Reason.PARTITION_LIMIT:
            return f"no node is booted for it: {measures.get('detail')}"
    return f"no node comes for it ({verdict.reason.value})"


# Nodes.


def _nodes_to_describe(
    views: Iterable[NodeView], snapshot: Snapshot, settings: Settings
) -> Iterator[DescribeNode]:
    """The nodes of ours whose weight or features are not those of their size."""
    if SchedulerVerb.DESCRIBE not in settings.scheduler_can:
        return
    sizes = Sizes(settings.sizes)
    of_any = {feature for size in settings.sizes for feature in size.features}
    for view in views:
        record = view.record
        size = None if view.size is None else sizes.named(view.size)
        if record is None or record.hostname is None or size is None or record.held:
            continue
        word = report_on(record, snapshot, settings)
        if word is not None:
            wanted = described(word.node, size, of_any)
            if wanted is not None:
                yield wanted


def described(node: SchedulerNode, size: Size, of_any: Iterable[str]) -> DescribeNode | None:
    """What to tell of a node of that size; None where it is so, or can't be told.

    `of_any` are the features of any size: the node has those of its own alone.
    """
    names = (f"{SIZE_FEATURE}{name}" for name in size.names)
    features = tuple(dict.fromkeys((*names, *size.features)))
    if not all(_FEATURE.fullmatch(one) for one in features):
        return None
    drop = tuple(sorted(set(of_any) - set(features)))
    others = [one for one in node.features if not one.startswith(SIZE_FEATURE) and one not in drop]
    weight = round(size.price * PRICE_STEPS) if size.price else node.weight or 1
    is_so = {*others, *features} == set(node.features) and weight == node.weight
    return None if is_so else DescribeNode(node.name, weight, features, drop)


def _last_lives(history: History) -> dict[str, FreedLife]:
    """The life that was freed last, by its hostname, where its record is listed."""
    listed = {record.uuid for record in history.listed_records}
    lives: dict[str, FreedLife] = {}
    for life in history.freed.values():
        name = life.hostname
        if name is not None and (name not in lives or lives[name].freed_at < life.freed_at):
            lives[name] = life
    return {name: life for name, life in lives.items() if life.record in listed}


def _gone_nodes(snapshot: Snapshot, settings: Settings) -> Iterator[MarkGone]:
    """The nodes of freed lives that the scheduler does not know to be gone (C20, T6).

    A listing from after the clean shows the record, and no record with the name: so no other node
    has it. A listing that lacks the record may be short, and lack the one that has the name now.
    """
    history, breaker = snapshot.history, snapshot.breaker
    listing, records = history.scheduler, history.records
    if listing is None or records is None or not records.complete or breaker.is_open:
        return
    # Seats are told apart: `_seats_to_switch_off`.
    named = {name for record in records.items for name in (record.hostname, seat_of(record))}
    lives = _last_lives(history)
    for node in listing.items if lives else ():
        life_of = lives.get(node.name)
        if life_of is None or node.name in named or not is_left(node):
            continue
        is_after = life_of.freed_at < min(listing.started_at, records.started_at)
        if (
            is_after
            and life_of.reported_at is None
            and life_of.record not in snapshot.record_flights
        ):
            yield MarkGone(node.name, life_of.record)


def _free_seats(snapshot: Snapshot) -> Iterator[tuple[Record, SchedulerNode]]:
    """The seats that nobody holds, and what the scheduler says of each since they are free.

    A machine may still come of a claim that is under way, so that one is left alone. A node of
    other partitions is another manager's matter (T3), or an operator's.
    """
    history, breaker = snapshot.history, snapshot.breaker
    if history.scheduler is None or breaker.is_open:
        return
    nodes = {node.name: node for node in history.scheduler.items}
    for record in history.listed_records:
        node = nodes.get(seat_of(record) or "")
        is_free = not (record.holds_anything or record.problems or record.held)
        is_free = is_free and record.uuid not in snapshot.holds
        if node is None or node.elsewhere:
            continue
        if is_free and record.uuid not in snapshot.record_flights:
            yield record, node


def _nodes_to_return(
    views: Iterable[NodeView], snapshot: Snapshot, settings: Settings
) -> Iterator[ReturnNode]:
    """The nodes that we called gone, and that live.

    The order was about the one of that name before; it had no answer, and took effect once the next
    one was up. Seats have no such order.
    """
    for view in views:
        record = view.record
        if record is None or view.verdict.kind is not Kind.KEEP or seat_of(record) is not None:
            continue
        word = report_on(record, snapshot, settings)
        if word is None or record.uuid in snapshot.record_flights:
            continue
        is_called_gone = word.node.state is WorkerState.DOWN and word.node.reason.startswith(OURS)
        if is_called_gone and word.node.responds:
            yield ReturnNode(word.node.name, record.uuid)


def _seats_to_return(snapshot: Snapshot) -> Iterator[ReturnNode]:
    """The free seats that the scheduler gave up: it would use them never again."""
    for record, node in _free_seats(snapshot):
        if node.given_up:
            yield ReturnNode(node.name, record.uuid)


def _seats_to_switch_off(snapshot: Snapshot, settings: Settings) -> Iterator[SwitchOff]:
    """The free seats whose machine does not come, or is gone, as the scheduler does not know yet.

    A job that waits for a machine that the cloud refused is queued again, once for each refused
    claim and while the refusal is news, so that it may get a node of another size. What waits later
    is something else, and a boot may serve it.
    """
    lives = _last_lives(snapshot.history)
    for record, node in _free_seats(snapshot):
        life = lives.get(node.name)
        if is_drained_off(node):
            yield SwitchOff(node.name, record.uuid)
            continue
        is_news = life is not None and node.wanted and _is_news(life, snapshot, settings)
        if life is not None and is_news and _is_refused(record, snapshot, settings):
            yield SwitchOff(node.name, record.uuid, life.key)


def _is_news(life: FreedLife, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether a claim was released just before the scheduler answered."""
    listing = snapshot.history.scheduler
    if listing is None or life.why not in RELEASED:
        return False
    return 0 < listing.started_at - life.freed_at <= settings.poll_stale_after


def _is_refused(seat: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether the cloud lately refused a node of the seat's size."""
    limits, now = snapshot.limits, snapshot.now
    if limits.quota is not None and now - limits.quota_at <= settings.max_poll_time:
        return True
    sizes = (one for one in settings.sizes if may_take(seat, one, None))
    return any(
        not has_room(limits, one, now) or lacked_room(limits, one.name, now, settings)
        for one in sizes
    )


def is_drained_off(node: SchedulerNode) -> bool:
    """Whether our drain has outlived the machine that it was for."""
    is_gone = node.suspended or not node.responds
    return is_gone and is_drained_by_us(node) and not (node.reserved or node.given_up)


def is_still_off(errand: SwitchOff, node: SchedulerNode) -> bool:
    """Whether the order is still called for, by the scheduler's word of now."""
    return is_drained_off(node) if errand.life is None else node.wanted


def is_left(node: SchedulerNode) -> bool:
    """Whether a node that is gone left a state that the next of its name would suffer from.

    Its job is not queued again before the scheduler gives the node up, or it is still drained by
    us. A node that the scheduler reaches is somebody's.
    """
    if node.reserved:
        return False
    if node.state is WorkerState.DOWN:
        return is_drained_by_us(node)
    return not node.responds and (not node.draining or is_drained_by_us(node))


# What the State has of it.


def errands_sent(
    dispatched: Dispatched, sent: Iterable[Errand], jobs: Iterable[Job] | None, now: float
) -> Dispatched:
    """With these errands under way, and without what need not be known any more.

    What a job was told is known as long as it waits (`jobs`, None where that is not known).
    """
    sent = tuple(sent)
    if not sent and not dispatched.errands:
        return dispatched
    waiting = None if jobs is None else {job.array or job.id for job in jobs}
    kept = {
        key: tried
        for key, tried in dispatched.errands.items()
        if now - tried.at <= REFUSED_AGAIN_S or _still_waits(key, waiting)
    }
    kept |= {one.key: ErrandTried(ErrandOutcome.SENT, now) for one in sent}
    return dispatched if kept == dispatched.errands else replace(dispatched, errands=kept)


def _still_waits(key: str, waiting: set[str] | None) -> bool:
    verb, _, rest = key.partition(":")
    return verb == "comment" and (waiting is None or rest.rpartition(":")[0] in waiting)


def errand_ended(
    dispatched: Dispatched, errand: Errand, outcome: ErrandOutcome, now: float
) -> Dispatched:
    tried = {**dispatched.errands, errand.key: ErrandTried(outcome, now)}
    return replace(dispatched, errands=tried)
