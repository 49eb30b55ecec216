"""Sets a node up: claims a record, creates the node, and settles a refused or unclear create.

The plan orders boots, and each becomes a workflow. It checks right before its claim, and again
right before its create, whether it may go on (U10). Where the cloud goes on with a create after its
answer, it is asked for the create's end, which counts as an answer would have (D6). An unclear
create is repeated with the same client token where the cloud knows such tokens (U9). Elsewhere, and
once that took too long, the record listing and the node's tag tell what became of it (U5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.core.execute.effects import (
    CheckImage,
    ClaimRecord,
    Created,
    CreateNode,
    FindByTag,
    FinishCreate,
    RenewClaim,
    Wait,
)
from nodemanager.core.execute.news import (
    Claimed,
    CreateRefused,
    Learned,
    NodeDenied,
    NodeExpected,
    Withdrawn,
    WriteInDoubt,
)
from nodemanager.core.execute.workflow import (
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
    News,
    Refused,
    Seen,
    Step,
    Unwritten,
    WorkflowEvent,
    Written,
)
from nodemanager.core.explain.events import record_fields
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.judge.records import is_touched
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.scheduling import seat_of
from nodemanager.core.model.settings import ASK_AGAIN_S, CREATE_WITHIN_S, ORDER_TTL_S
from nodemanager.core.model.verdict import Objection
from nodemanager.core.model.world import Claim, CloudNode, CloudState, Guarantee, Record, Size
from nodemanager.core.plan.availability import choose, nodes_by_place
from nodemanager.core.plan.orders import BootOrder
from nodemanager.core.plan.supply import held_records
from nodemanager.core.safety.orders import order_release
from nodemanager.errors import PlaceFull, RemoteError, Throttled

# The order for a set-up, and the states that it passes through.


@dataclass(frozen=True, slots=True)
class SetUpOrder:
    """One node to set up: on a cleaned record, or on a new one. `not_after` is CLOCK_BOOTTIME.

    The worker will set `claim.at`: its CLOCK_BOOTTIME plus `offset`, in seconds. The claim is
    written to no store but `store_id` (L5). `place` is where the node is created, None for a size
    without places; `tried` had no room for it.
    """

    size: Size
    reason: Reason
    plan_id: str
    claim: Claim
    store_id: str
    not_after: float
    record: Record | None = None
    place: str | None = None
    tried: tuple[str, ...] = ()
    offset: float = 0.0


def order_setup(boot: BootOrder, claim: Claim, store_id: str, now: float) -> SetUpOrder:
    """The order for a boot that a plan called for; `claim` starts a new incarnation."""
    not_after = now + ORDER_TTL_S
    return SetUpOrder(
        boot.size, boot.reason, boot.plan_id, claim, store_id, not_after, boot.record, boot.place
    )


@dataclass(frozen=True, slots=True)
class Checking(Unwritten):
    """It waits for a worker, which first asks the cloud for the image; nothing is written yet."""

    order: SetUpOrder


@dataclass(frozen=True, slots=True)
class Claiming(Written):
    """The claim was sent, or may have been."""

    order: SetUpOrder


@dataclass(frozen=True, slots=True)
class Renewing(Written):
    """The claim is too old for a create, and is written again (U5, A2)."""

    order: SetUpOrder
    record: Record
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Creating(Written):
    """The create was sent, or may have been. `tries` counts earlier ones without a clear answer."""

    order: SetUpOrder
    record: Record
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Finishing(Written):
    """The create was answered and goes on: the cloud is asked by timer how it ended (D6).

    `tries` is as in Creating.
    """

    order: SetUpOrder
    record: Record
    created: Created
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Waiting(Written):
    """A create will be sent: it waits for its time, and then for a worker.

    `tries` counts earlier ones without a clear answer; 0: the cloud asked for fewer calls before
    one was sent, or in answer to it.
    """

    order: SetUpOrder
    record: Record
    tries: int


@dataclass(frozen=True, slots=True)
class Doubtful(Written):
    """The claim or the create has an unknown outcome, which record listings and the tag will tell.

    A listing must have begun after `since`, CLOCK_BOOTTIME; None until a restart takes it up.
    `record` is the uuid of the claimed record, None where it is not known.
    """

    order: SetUpOrder
    record: str | None
    since: float | None
    sent: bool = True
    """Whether a create was sent, or may have been."""
    asked: bool = False
    denied_at: float | None = None
    """When the cloud, asked by tag, first had no such node (U9)."""
    is_under_way = False
    listens = True


SetupState = Checking | Claiming | Renewing | Creating | Finishing | Waiting | Doubtful


def is_unclear(state: object) -> bool:
    """Whether a set-up in this state has sent a create without a clear answer (U9)."""
    match state:
        case Waiting() | Creating() | Renewing():
            return state.tries > 0
        case Doubtful():
            return state.sent
    return False


def doubtful(state: Claiming | Renewing | Creating | Waiting, seen: Seen) -> Doubtful:
    sent = isinstance(state, Creating) or is_unclear(state)
    if isinstance(state, Claiming):
        uuid = state.order.record.uuid if state.order.record is not None else None
    else:
        uuid = state.record.uuid
    return Doubtful(state.order, uuid, seen.snapshot.now, sent)


# How a set-up ends, and how that is logged: created, refused, released, withdrawn.


def created_as(order: SetUpOrder, record: Record, created: Created) -> Step[SetupState]:
    node, life = created.node, record.incarnation
    fields = {
        "node": node.id,
        "name": node.name,
        **record_fields(record, record.uuid),
        "size": order.size.name,
        "place": order.place,
        "took_s": created.took_s,
    }
    return Step(
        None,
        tell=(LogLine(Event.NODE_CREATED, fields),),
        learn=(NodeExpected(record.uuid, life, order.size.name, node.id, place=order.place),),
        ended=Ended("created", {"node": node.id, **record_fields(record, record.uuid)}),
    )


def refused(
    order: SetUpOrder, record: Record, error: RemoteError, seen: Seen, node_id: str | None = None
) -> Step[SetupState]:
    """The end after a definite refusal: nothing was created, so the claim is released (U6)."""
    step: Step[SetupState] = Step(
        None,
        tell=(failed(order, record, "create", error),),
        learn=(CreateRefused((order.size.name,), error, node_id),),
    )
    return released(order, record, step, "refused", seen, stage="create")


def released(
    order: SetUpOrder, record: Record, step: Step[SetupState], outcome: str, seen: Seen, **more: Any
) -> Step[SetupState]:
    """The end `step`, with a clean that releases the claim (U6)."""
    clean = order_release(
        record.uuid,
        Reason.CREATE_REFUSED,
        replace(seen.snapshot, plan_id=order.plan_id),
        incarnation=record.incarnation,
        instance_id=None,
        slot=record.slot_number,
        hostname=record.hostname,
    )
    ended = Ended(outcome, {**more, **record_fields(record, record.uuid)})
    return replace(step, begin=(FollowUp(Action.CLEAN, clean),), ended=ended)


def withdrawn(
    order: SetUpOrder, block: Objection, record: Record | None = None
) -> Step[SetupState]:
    """The end of a set-up that must not go on; `record` is the one that it has claimed."""
    record = record or order.record
    fields = {
        **block.measures,
        "reason": block.reason,
        **(record_fields(record, record.uuid) if record is not None else {}),
        "size": order.size.name,
        "plan": order.plan_id,
    }
    line = LogLine(Event.NODE_SETUP_WITHDRAWN, fields)
    return Step(None, tell=(line,), learn=(Withdrawn(order.size.name),))


def node_may_exist(order: SetUpOrder, uuid: str, since: float | None = None) -> NodeExpected:
    """Expect the node that may exist: a listing from before the claim must not hide it.

    `since` is when its set-up began, CLOCK_BOOTTIME: no create was sent before. None: now.
    """
    life, size = order.claim.incarnation, order.size.name
    return NodeExpected(uuid, life, size, place=order.place, since=since)


def in_doubt_of(record: Record | None) -> tuple[Learned, ...]:
    return () if record is None else (WriteInDoubt(record.uuid),)


def failed(
    order: SetUpOrder,
    record: Record | None,
    stage: str,
    error: RemoteError,
    *,
    definite: bool | None = None,
    is_news: bool = True,
) -> LogLine:
    fields = {
        **(record_fields(record, record.uuid) if record is not None else {}),
        "size": order.size.name,
        "place": order.place if stage == "create" else None,
        "action": stage,
        "definite": error.definite if definite is None else definite,
        "error": error,
    }
    return LogLine(Event.NODE_SETUP_FAILED, fields, Level.WARNING if is_news else Level.DEBUG)


# The part of a set-up whose claim or create has an unknown outcome (U5, U9).
#
# The record listing tells what became of the claim, and the node's tag what became of the create.


def in_doubt(state: Doubtful, event: WorkflowEvent, seen: Seen) -> Step[SetupState]:
    order = state.order
    match event:
        case News():
            return _listed(state, seen)
        case Answered(effect=FindByTag(), answer=nodes):
            for node in nodes:
                if not node.is_absent and node.tags.incarnation == order.claim.incarnation:
                    uuid, life = state.record or "", order.claim.incarnation
                    found = NodeExpected(
                        uuid, life, order.size.name, node.id, is_new=False, place=order.place
                    )
                    details = {"node": node.id, "record": state.record}
                    return Step(None, learn=(found,), ended=Ended("created", details))
            return _denied(state, seen.snapshot.now)
        case Failed(effect=FindByTag()):
            return Step(replace(state, asked=False))
        # A worker that was given up answers after all.
        case Answered(effect=CreateNode(record=record), answer=Created() as created):
            return created_as(order, record, created)
        case Answered(effect=ClaimRecord() | RenewClaim(), answer=Record() as record):
            if state.sent:
                return Step(state)
            return released(order, record, Step(None), "withdrawn", seen)
        case Failed(effect=CreateNode(record=record), error=error):
            line = failed(order, record, "create", error, definite=False)
            return Step(state, tell=(line,))
        case Failed(effect=ClaimRecord(), error=error) if error.definite:
            line = failed(order, None, "claim", error)
            return Step(None, tell=(line,), ended=Ended("refused", {"stage": "claim"}))
        case Failed(effect=ClaimRecord(), error=error):
            return Step(state, tell=(failed(order, None, "claim", error),))
    return Step(state)


def _denied(state: Doubtful, now: float) -> Step[SetupState]:
    """The cloud has no node of the create, which may still come (U9, A2); it is asked once more."""
    if not state.sent or state.record is None:
        return Step(state)
    denied = NodeDenied(state.record, state.order.claim.incarnation)
    is_first = state.denied_at is None
    left = replace(state, denied_at=now, asked=False) if is_first else state
    return Step(left, learn=(denied,))


def _listed(state: Doubtful, seen: Seen) -> Step[SetupState]:
    """What the listings tell of the set-up; where they don't, ask the cloud by the record's tag."""
    history = seen.snapshot.history
    listing, incarnation = history.records, state.order.claim.incarnation
    if listing is None or state.since is None or listing.started_at <= state.since:
        return Step(state)
    claimed = (one for one in listing.items if one.incarnation == incarnation)
    record = next((one for one in claimed if one.claim is not None), None)
    if record is None and is_touched(state.record or "", seen.snapshot):
        # The listing shows the record as before the claim, though it began later.
        return Step(state)
    if record is None:
        # The record was never claimed, or was freed since: by C21 at the latest.
        return Step(None, ended=Ended("released"))
    return _claim_in_doubt(state, record, seen)


def _claim_in_doubt(state: Doubtful, record: Record, seen: Seen) -> Step[SetupState]:
    """What the listings tell of the node; its record is claimed."""
    doubt, nodes = in_doubt_of(record), seen.snapshot.history.nodes_by_record.get(record.uuid, ())
    borne = any(node.tags.incarnation == record.incarnation for node in nodes)
    if record.last_ping_at is not None or borne:
        return Step(None, learn=doubt, ended=Ended("created", record_fields(record, record.uuid)))
    if not state.sent and seen.guarantee is Guarantee.CAS:
        # No create follows it, so it need not hold its slot until it expires. A renewal that is on
        # its way is refused once it is freed, where the store compares.
        return released(state.order, record, Step(None), "withdrawn", seen)
    now = seen.snapshot.now
    if state.asked or (state.denied_at is not None and now - state.denied_at < ASK_AGAIN_S):
        return Step(state)
    asking = replace(state, record=record.uuid, asked=True)
    return Step(asking, (FindByTag(record.uuid),), learn=doubt)


FIRST_REPEAT_S = 2.0
LONGEST_REPEAT_S = 30.0
"""The first and the longest wait before an unclear create is repeated; it doubles (U9)."""
FIRST_ASK_S = 2.0
LONGEST_ASK_S = 15.0
"""The shortest and the longest wait before the cloud is asked again how a create ended."""
GIVES_UP = frozenset(
    {
        *(Reason.NO_LONGER_WANTED, Reason.AT_MAX_NODES, Reason.AT_MAX_PRICE),
        *(Reason.NO_LEASE, Reason.HELD, Reason.POOL_PARKED),
    }
)
"""A block for one of these ends the repeats of an unclear create (`_go_on`)."""


def confirm_setup(order: SetUpOrder, seen: Seen, record: Record | None) -> Objection | None:
    """What forbids the claim or the create at this moment (U10); None where it may be sent.

    `record` is the one to claim, or claimed; None where a new one will be made.
    """
    snapshot = seen.snapshot
    if seen.stopping:
        return Objection(Reason.STOPPING)
    stops = snapshot.breaker.stops_booting
    block = standing_block(snapshot, seen.settings, breaker=stops, authorised=False)
    if block is not None:
        return block
    if snapshot.parked is not None:
        return Objection(Reason.POOL_PARKED, snapshot.parked.measures(snapshot.wall))
    wait_s = snapshot.limits.throttled_until - snapshot.now
    if wait_s > 0:
        return Objection(Reason.THROTTLED, {"retry_s": wait_s})
    if record is not None and (record.held or record.uuid in held_records(snapshot)):
        return Objection(Reason.HELD)
    if _is_needless(order, seen, record):
        return Objection(Reason.NO_LONGER_WANTED)
    if seen.too_many:
        return Objection(Reason.AT_MAX_NODES)
    if seen.too_dear.get(order.size.name, 0) > 0:
        return Objection(Reason.AT_MAX_PRICE)
    return None


def _refused_since(order: SetUpOrder, seen: Seen) -> Objection | None:
    """Why a create that was planned before the newest refusal of its like is not sent (U13).

    The next plan knows of that refusal, and of the nodes that there are by then.
    """
    snapshot, size = seen.snapshot, order.size.name
    limits, planned_at = snapshot.limits, order.not_after - ORDER_TTL_S
    if limits.quota is not None and planned_at <= limits.quota_at:
        return Objection(Reason.AT_QUOTA, {"limit": limits.quota})
    rests = limits.resting.get(size, 0.0) > snapshot.now
    if rests and planned_at <= limits.full.get(size, -math.inf):
        return Objection(Reason.SIZE_RESTS, {"size": size})
    return None


def _is_needless(order: SetUpOrder, seen: Seen, record: Record | None) -> bool:
    """Whether demand wants its node no more: that seat, or else one of its size (U14)."""
    seat = None if record is None else seat_of(record)
    if seat is not None and seen.wished is not None:
        return seat not in seen.wished
    return seen.needless.get(order.size.name, 0) > 0


class SetUp:
    """Claim and create; then repeat the create, release the claim, or look for the node."""

    action = Action.SETUP
    states = (Checking, Claiming, Renewing, Creating, Finishing, Waiting, Doubtful)

    def id(self, order: SetUpOrder) -> str:
        return order.claim.incarnation

    def about(self, state: SetupState) -> About:
        match state:
            case Checking() | Claiming():
                reused = state.order.record
                return About(record=reused.uuid if reused is not None else None)
            case Doubtful():
                return About(record=state.record)
        return About(record=state.record.uuid)

    def flight(self, state: SetupState) -> str:
        return "setup"

    def start(self, order: SetUpOrder, seen: Seen) -> Step[SetupState]:
        reused = order.record
        learn = () if reused is None else (Claimed(reused.uuid, order.size.name),)
        return Step(Checking(order), (CheckImage(),), learn=learn)

    def resume(self, state: SetupState, seen: Seen) -> Step[SetupState]:
        match state:
            case Checking():
                return Step(None)
            case Finishing():
                return _asked(state, seen)
            case Doubtful():
                left = replace(state, since=seen.snapshot.now, asked=False, denied_at=None)
            case _:
                left = doubtful(state, seen)
        if not left.sent or left.record is None:
            return Step(left)
        # A listing may not show the claim yet, and the create may still take effect (U9). Its time
        # is no longer than without the restart (P4): the claim may be freed since.
        return Step(left, learn=(node_may_exist(left.order, left.record, seen.left_at),))

    def on(self, state: SetupState, event: WorkflowEvent, seen: Seen) -> Step[SetupState]:
        match state:
            case Checking():
                return _checking(state, event, seen)
            case Claiming():
                return _claiming(state, event, seen)
            case Renewing():
                return _renewing(state, event, seen)
            case Creating():
                return _creating(state, event, seen)
            case Finishing():
                return _finishing(state, event, seen)
            case Waiting():
                return _waiting(state, event, seen)
            case Doubtful():
                return in_doubt(state, event, seen)


def _checking(state: Checking, event: WorkflowEvent, seen: Seen) -> Step[SetupState]:
    order = state.order
    match event:
        case Answered():
            if seen.snapshot.now > order.not_after:
                late_s = seen.snapshot.now - order.not_after
                return withdrawn(order, Objection(Reason.ORDER_EXPIRED, {"late_s": late_s}))
            block = confirm_setup(order, seen, order.record) or _refused_since(order, seen)
            if block is not None and block.reason is Reason.THROTTLED:
                return Step(state, (CheckImage(),))
            if block is not None:
                return withdrawn(order, block)
            order = _stamped(order, seen)
            claim = ClaimRecord(order.record, order.claim, order.store_id, order.offset)
            return Step(Claiming(order), (claim,))
        case Failed(error=Throttled()):
            return Step(state, (CheckImage(),))
        case Failed(error=error):
            # Every size boots from this image.
            sizes = tuple(size.name for size in seen.settings.sizes)
            line = failed(order, None, "image", error, definite=True)
            return Step(None, tell=(line,), learn=(CreateRefused(sizes, error),))
        case Refused(problem=problem):
            return withdrawn(order, Objection(Reason.READ_ONLY, {"detail": problem}))
        case Expired():
            return withdrawn(order, Objection(Reason.ORDER_EXPIRED))
    return Step(state)


def _claiming(state: Claiming, event: WorkflowEvent, seen: Seen) -> Step[SetupState]:
    order = state.order
    match event:
        case Answered(answer=Record() as record):
            return _claimed(order, record, seen)
        case Failed(error=error) if error.definite:
            line = failed(order, None, "claim", error)
            return Step(None, tell=(line,), ended=Ended("refused", {"stage": "claim"}))
        case Failed(error=error):
            line = failed(order, None, "claim", error)
            learn = () if error.unsent else in_doubt_of(order.record)
            return Step(doubtful(state, seen), tell=(line,), learn=learn)
        case Expired():
            return Step(doubtful(state, seen), learn=in_doubt_of(order.record))
    return Step(state)


def _claimed(order: SetUpOrder, record: Record, seen: Seen) -> Step[SetupState]:
    fields = {**record_fields(record, record.uuid), "incarnation": record.incarnation}
    line = LogLine(Event.RECORD_CLAIMED, fields)
    learn = (Claimed(record.uuid, order.size.name),)
    step = _go_on(order, record, 0, seen)
    return replace(step, tell=(line, *step.tell), learn=(*learn, *step.learn))


def _go_on(order: SetUpOrder, record: Record, tries: int, seen: Seen) -> Step[SetupState]:
    """Send the create if nothing forbids it; first renew a claim that is too old for it (U5)."""
    block = confirm_setup(order, seen, record)
    if block is None and not tries:
        block = _refused_since(order, seen)
    if block is None and not tries:
        order, block = _placed(order, seen)
    if block is not None and tries:
        # An earlier create may have made a node, and the claim stands for that node.
        if block.reason in GIVES_UP:
            return Step(doubtful(Waiting(order, record, tries), seen))
        return _again(order, record, tries, seen)
    if block is not None and block.reason is Reason.THROTTLED:
        return _once_it_may(order, record)
    if block is not None:
        return released(order, record, withdrawn(order, block, record), "withdrawn", seen)
    claim = record.claim or order.claim
    # By CLOCK_BOOTTIME: the store's clock may have jumped since (T1).
    age_s = seen.snapshot.now - (claim.at - order.offset)
    if age_s > CREATE_WITHIN_S:
        order = _stamped(order, seen)
        return Step(Renewing(order, record, tries), (RenewClaim(record, claim, order.offset),))
    create = CreateNode(record, claim, order.size, order.place)
    return Step(Creating(order, record, tries), (create,))


def _once_it_may(order: SetUpOrder, record: Record) -> Step[SetupState]:
    """Send the create once the cloud may be called again: until then it waits for a worker (U13).

    Then it is confirmed once more, and a claim that is too old is renewed (U10, U5).
    """
    return Step(Waiting(order, record, 0), (CheckImage(),))


def _placed(order: SetUpOrder, seen: Seen) -> tuple[SetUpOrder, Objection | None]:
    """The order in its own place or, if that rests or was tried, in the next; or why in none."""
    size, limits, now = order.size, seen.snapshot.limits, seen.snapshot.now
    if order.place is None:
        return order, None
    own = replace(size, places=(order.place,))
    nodes = nodes_by_place(seen.snapshot) if size.spread else {}
    place = choose(own, limits.places, {}, now, order.tried) or choose(
        size, limits.places, nodes, now, order.tried
    )
    if place is None:
        return order, Objection(Reason.PLACES_REST)
    return replace(order, place=place), None


def _renewing(state: Renewing, event: WorkflowEvent, seen: Seen) -> Step[SetupState]:
    order, record = state.order, state.record
    match event:
        case Answered(answer=Record() as renewed):
            return _go_on(order, renewed, state.tries, seen)
        case Failed(error=error) if error.definite and not state.tries:
            step: Step[SetupState] = Step(None, tell=(failed(order, record, "claim", error),))
            return released(order, record, step, "refused", seen, stage="claim")
        case Failed(error=error):
            line = failed(order, record, "claim", error, definite=False)
            learn = () if error.unsent or error.definite else in_doubt_of(record)
            return Step(doubtful(state, seen), tell=(line,), learn=learn)
        case Expired():
            return Step(doubtful(state, seen), learn=in_doubt_of(record))
    return Step(state)


def _creating(state: Creating, event: WorkflowEvent, seen: Seen) -> Step[SetupState]:
    order, record = state.order, state.record
    match event:
        case Answered(answer=Created() as created) if created.node.pending:
            return _asked(Finishing(order, record, created, state.tries), seen)
        case Answered(answer=Created() as created):
            return created_as(order, record, created)
        case Failed(error=error):
            return _not_created(state, error, seen)
        case Expired():
            return Step(doubtful(state, seen), learn=(node_may_exist(order, record.uuid),))
    return Step(state)


def _not_created(state: Creating | Finishing, error: RemoteError, seen: Seen) -> Step[SetupState]:
    """What follows a create that failed with that error, in its answer or in the end (D6)."""
    order, record = state.order, state.record
    node_id = state.created.node.id if isinstance(state, Finishing) else None
    match error:
        case PlaceFull() if not state.tries:
            return _elsewhere(order, record, error, seen, node_id)
        case Throttled() if not state.tries:
            line = failed(order, record, "create", error, is_news=False)
            return replace(_once_it_may(order, record), tell=(line,))
    if error.definite and not state.tries:
        return refused(order, record, error, seen, node_id)
    # A later refusal says nothing about an earlier create that was unclear.
    news = not state.tries
    line = failed(order, record, "create", error, definite=False, is_news=news)
    learn: tuple[Learned, ...] = (CreateRefused((order.size.name,), error),)
    step = _again(order, record, state.tries + 1, seen)
    if error.definite and not isinstance(error, Throttled):
        step = Step(doubtful(Creating(order, record, state.tries), seen))
    return replace(step, tell=(line,), learn=(*learn, node_may_exist(order, record.uuid)))


def _finishing(state: Finishing, event: WorkflowEvent, seen: Seen) -> Step[SetupState]:
    order, record, created = state.order, state.record, state.created
    match event:
        case Due():
            return _asked(state, seen)
        case Answered(answer=None) | Expired():
            # After action_timeout the listings show what becomes of the node, as of any other.
            return created_as(order, record, created)
        case Answered(answer=str() as pending):
            node = replace(created.node, pending=pending)
            return _asked_later(replace(state, created=replace(created, node=node)), seen)
        case Answered(answer=RemoteError() as error):
            return _not_created(state, error, seen)
        case Failed(error=error):
            line = failed(order, record, "create", error, definite=False, is_news=False)
            return replace(_asked_later(state, seen), tell=(line,))
    return Step(state)


def _asked(state: Finishing, seen: Seen) -> Step[SetupState]:
    """Ask how the create ended, unless its node is listed as running already.

    The order removes what a failed create left, so it waits while nothing may be destroyed (B2).
    """
    order, node = state.order, state.created.node
    listed = seen.snapshot.history.present.get(node.id)
    if listed is not None and listed.state is CloudState.RUNNING:
        return created_as(order, state.record, state.created)
    if not _may_ask(state.record, listed or node, seen):
        return _asked_later(state, seen)
    return Step(state, (FinishCreate(node.pending, order.place),))


def _may_ask(record: Record, node: CloudNode, seen: Seen) -> bool:
    snapshot = seen.snapshot
    if standing_block(snapshot, seen.settings, polls=False, authorised=False) is not None:
        return False
    is_held = node.held or not snapshot.holds.isdisjoint((record.uuid, node.id))
    return not (seen.stopping or is_held or snapshot.limits.throttled_until > snapshot.now)


def _asked_later(state: Finishing, seen: Seen) -> Step[SetupState]:
    """Wait for a part of the set-up's age: most creates end soon."""
    now = seen.snapshot.now
    age_s = now - (state.order.not_after - ORDER_TTL_S)
    wait_s = min(LONGEST_ASK_S, max(FIRST_ASK_S, age_s / 4))
    return Step(state, (Wait(max(wait_s, seen.snapshot.limits.throttled_until - now)),))


def _elsewhere(
    order: SetUpOrder, record: Record, error: PlaceFull, seen: Seen, node_id: str | None
) -> Step[SetupState]:
    """Send the create to the next place at once: in this one nothing was made, nor will be (U6).

    A claim that waited too long is renewed first. Without another place the order has failed.
    """
    order = replace(order, tried=(*order.tried, error.place))
    if _placed(order, seen)[1] is not None:
        return refused(order, record, error, seen, node_id)
    step = _go_on(order, record, 0, seen)
    line = failed(order, record, "create", error)
    learn = CreateRefused((order.size.name,), error, node_id)
    return replace(step, tell=(line, *step.tell), learn=(learn, *step.learn))


def _again(order: SetUpOrder, record: Record, tries: int, seen: Seen) -> Step[SetupState]:
    """Repeat the unclear create later, or leave it to the listings and the tag (U9)."""
    state = Waiting(order, record, tries)
    if tries and not seen.repeats_creates:
        return Step(doubtful(state, seen))
    wait_s = min(LONGEST_REPEAT_S, FIRST_REPEAT_S * 2.0 ** min(tries - 1, 16))
    wait_s = max(wait_s, seen.snapshot.limits.throttled_until - seen.snapshot.now)
    return Step(state, (Wait(wait_s),))


def _waiting(state: Waiting, event: WorkflowEvent, seen: Seen) -> Step[SetupState]:
    match event:
        case Due():
            # It waits for a free worker first: a check made now would be old by then (U10).
            return Step(state, (CheckImage(),))
        case Answered():
            return _go_on(state.order, state.record, state.tries, seen)
        case Failed(error=Throttled()) if not state.tries:
            return _once_it_may(state.order, state.record)
        case Failed(error=error) if not state.tries:
            return refused(state.order, state.record, error, seen)
        case Failed() | Refused():
            return _again(state.order, state.record, state.tries, seen)
        case Expired():
            return Step(doubtful(state, seen))
    return Step(state)


def _stamped(order: SetUpOrder, seen: Seen) -> SetUpOrder:
    """The order, whose claim is written next with the time of the store's clock."""
    clock = seen.snapshot.history.clock
    assert clock is not None, "a plan with boots has seen a record poll, and so its clock"
    return replace(order, offset=clock.offset)
