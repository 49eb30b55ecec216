"""Sets a node up: claims a record, creates the node, and settles a refused or unclear create.

The plan orders boots, and each becomes a workflow. It checks right before its claim, and again
right before its create, whether it may go on (U10). An unclear create is repeated with the same
client token where the cloud knows such tokens (U9). Elsewhere, and once that took too long, the
record listing and the node's tag tell what became of it (U5).
"""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.execute.books import (
    Claimed,
    CreateRefused,
    Learned,
)
from nodemanager.core.execute.effects import (
    CheckImage,
    ClaimRecord,
    Created,
    CreateNode,
    RenewClaim,
    Wait,
)
from nodemanager.core.execute.setup_doubt import in_doubt
from nodemanager.core.execute.setup_state import (
    Checking,
    Claiming,
    Creating,
    Doubtful,
    Renewing,
    SetUpOrder,
    State,
    Waiting,
    doubtful,
)
from nodemanager.core.execute.setup_steps import (
    created_as,
    failed,
    in_doubt_of,
    perhaps,
    refused,
    released,
    whose,
    withdrawn,
)
from nodemanager.core.execute.workflow import (
    About,
    Action,
    Answered,
    Due,
    Ended,
    Event,
    Expired,
    Failed,
    Refused,
    Seen,
    Step,
    Told,
)
from nodemanager.core.judge.preconditions import Block, standing_block
from nodemanager.core.model.reasons import Event as Name
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.seats import seat_of
from nodemanager.core.model.settings import CREATE_WITHIN_S
from nodemanager.core.model.world import Record
from nodemanager.core.plan.places import choose, nodes_by_place
from nodemanager.core.plan.supply import held_records
from nodemanager.errors import PlaceFull, Throttled

FIRST_REPEAT_S = 2.0
LONGEST_REPEAT_S = 30.0
"""The first and the longest wait before an unclear create is repeated; it doubles (U9)."""
GIVES_UP = frozenset(
    {
        *(Reason.NO_LONGER_WANTED, Reason.AT_MAX_NODES, Reason.AT_MAX_PRICE),
        *(Reason.NO_LEASE, Reason.HELD),
    }
)
"""A block for one of these ends the repeats of an unclear create (`_go_on`)."""


def confirm_setup(order: SetUpOrder, seen: Seen, record: Record | None) -> Block | None:
    """What forbids the claim or the create at this moment (U10); None where it may be sent.

    `record` is the one to claim, or claimed; None where a new one will be made.
    """
    snapshot = seen.snapshot
    if seen.stopping:
        return Reason.STOPPING, {}
    block = standing_block(snapshot, seen.settings, breaker=snapshot.breaker.stops_booting)
    if block is not None and block[0] is not Reason.NOT_AUTHORISED:
        return block
    wait_s = snapshot.limits.throttled_until - snapshot.now
    if wait_s > 0:
        return Reason.THROTTLED, {"retry_s": wait_s}
    if record is not None and (record.held or record.uuid in held_records(snapshot)):
        return Reason.HELD, {}
    if _is_needless(order, seen, record):
        return Reason.NO_LONGER_WANTED, {}
    if seen.too_many:
        return Reason.AT_MAX_NODES, {}
    if seen.too_dear.get(order.size.name, 0) > 0:
        return Reason.AT_MAX_PRICE, {}
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
    states = (Checking, Claiming, Renewing, Creating, Waiting, Doubtful)

    def id(self, order: SetUpOrder) -> str:
        return order.claim.incarnation

    def about(self, state: State) -> About:
        match state:
            case Checking() | Claiming():
                reused = state.order.record
                return About(record=reused.uuid if reused is not None else None)
            case Doubtful():
                return About(record=state.record)
        return About(record=state.record.uuid)

    def flight(self, state: State) -> str:
        return "setup"

    def start(self, order: SetUpOrder, seen: Seen) -> Step[State]:
        reused = order.record
        learn = () if reused is None else (Claimed(reused.uuid, order.size.name),)
        return Step(Checking(order), (CheckImage(),), learn=learn)

    def resume(self, state: State, seen: Seen) -> Step[State]:
        match state:
            case Checking():
                return Step(None)
            case Doubtful():
                left = replace(state, since=seen.snapshot.now, asked=False, denied_at=None)
            case _:
                left = doubtful(state, seen)
        if not left.sent or left.record is None:
            return Step(left)
        # A listing may not show the claim yet, and the create may still take effect (U9). Its time
        # is no longer than without the restart (P4): the claim may be freed since.
        return Step(left, learn=(perhaps(left.order, left.record, seen.left_at),))

    def on(self, state: State, event: Event, seen: Seen) -> Step[State]:
        match state:
            case Checking():
                return _checking(state, event, seen)
            case Claiming():
                return _claiming(state, event, seen)
            case Renewing():
                return _renewing(state, event, seen)
            case Creating():
                return _creating(state, event, seen)
            case Waiting():
                return _waiting(state, event, seen)
            case Doubtful():
                return in_doubt(state, event, seen)


def _checking(state: Checking, event: Event, seen: Seen) -> Step[State]:
    order = state.order
    match event:
        case Answered():
            if seen.snapshot.now > order.not_after:
                late_s = seen.snapshot.now - order.not_after
                return withdrawn(order, (Reason.ORDER_EXPIRED, {"late_s": late_s}))
            block = confirm_setup(order, seen, order.record)
            if block is not None:
                return withdrawn(order, block)
            order = _stamped(order, seen)
            claim = ClaimRecord(order.record, order.claim, order.store_id, order.offset)
            return Step(Claiming(order), (claim,))
        case Failed(error=error):
            # Every size boots from this image.
            sizes = tuple(size.name for size in seen.settings.sizes)
            told = failed(order, None, "image", error, definite=True)
            return Step(None, tell=(told,), learn=(CreateRefused(sizes, error),))
        case Refused(problem=problem):
            return withdrawn(order, (Reason.READ_ONLY, {"detail": problem}))
        case Expired():
            return withdrawn(order, (Reason.ORDER_EXPIRED, {}))
    return Step(state)


def _claiming(state: Claiming, event: Event, seen: Seen) -> Step[State]:
    order = state.order
    match event:
        case Answered(answer=Record() as record):
            return _claimed(order, record, seen)
        case Failed(error=error) if error.definite:
            told = failed(order, None, "claim", error)
            return Step(None, tell=(told,), ended=Ended("refused", {"stage": "claim"}))
        case Failed(error=error):
            told = failed(order, None, "claim", error)
            learn = () if error.unsent else in_doubt_of(order.record)
            return Step(doubtful(state, seen), tell=(told,), learn=learn)
        case Expired():
            return Step(doubtful(state, seen), learn=in_doubt_of(order.record))
    return Step(state)


def _claimed(order: SetUpOrder, record: Record, seen: Seen) -> Step[State]:
    fields = {**whose(record), "incarnation": record.incarnation}
    told = (Told(Name.RECORD_CLAIMED, fields),)
    learn = (Claimed(record.uuid, order.size.name),)
    step = _go_on(order, record, 0, seen)
    return replace(step, tell=(*told, *step.tell), learn=(*learn, *step.learn))


def _go_on(order: SetUpOrder, record: Record, tries: int, seen: Seen) -> Step[State]:
    """Send the create if nothing forbids it; first renew a claim that is too old for it (U5)."""
    block = confirm_setup(order, seen, record)
    if block is None and not tries:
        order, block = _placed(order, seen)
    if block is not None and tries:
        # An earlier create may have made a node, and the claim stands for that node.
        if block[0] in GIVES_UP:
            return Step(doubtful(Waiting(order, record, tries), seen))
        return _again(order, record, tries, seen)
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


def _placed(order: SetUpOrder, seen: Seen) -> tuple[SetUpOrder, Block | None]:
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
        return order, (Reason.PLACES_REST, {})
    return replace(order, place=place), None


def _renewing(state: Renewing, event: Event, seen: Seen) -> Step[State]:
    order, record = state.order, state.record
    match event:
        case Answered(answer=Record() as renewed):
            return _go_on(order, renewed, state.tries, seen)
        case Failed(error=error) if error.definite and not state.tries:
            step: Step[State] = Step(None, tell=(failed(order, record, "claim", error),))
            return released(order, record, step, "refused", seen, stage="claim")
        case Failed(error=error):
            told = failed(order, record, "claim", error, definite=False)
            learn = () if error.unsent or error.definite else in_doubt_of(record)
            return Step(doubtful(state, seen), tell=(told,), learn=learn)
        case Expired():
            return Step(doubtful(state, seen), learn=in_doubt_of(record))
    return Step(state)


def _creating(state: Creating, event: Event, seen: Seen) -> Step[State]:
    order, record = state.order, state.record
    match event:
        case Answered(answer=Created() as created):
            return created_as(order, record, created)
        case Failed(error=PlaceFull() as error) if not state.tries:
            return _elsewhere(order, record, error, seen)
        case Failed(error=error) if error.definite and not state.tries:
            return refused(order, record, error, seen)
        case Failed(error=error):
            # A later refusal says nothing about an earlier create that was unclear.
            news = not state.tries
            told = failed(order, record, "create", error, definite=False, is_news=news)
            learn: tuple[Learned, ...] = (CreateRefused((order.size.name,), error),)
            step = _again(order, record, state.tries + 1, seen)
            if error.definite and not isinstance(error, Throttled):
                step = Step(doubtful(state, seen))
            return replace(step, tell=(told,), learn=(*learn, perhaps(order, record.uuid)))
        case Expired():
            return Step(doubtful(state, seen), learn=(perhaps(order, record.uuid),))
    return Step(state)


def _elsewhere(order: SetUpOrder, record: Record, error: PlaceFull, seen: Seen) -> Step[State]:
    """Send the create to the next place at once: in this one nothing was made, nor will be (U6).

    A claim that waited too long is renewed first. Without another place the order has failed.
    """
    order = replace(order, tried=(*order.tried, error.place))
    # While something with the node's tags is left, another node would be its double.
    if error.lingers or _placed(order, seen)[1] is not None:
        return refused(order, record, error, seen)
    step = _go_on(order, record, 0, seen)
    told = failed(order, record, "create", error)
    learn = CreateRefused((order.size.name,), error)
    return replace(step, tell=(told, *step.tell), learn=(learn, *step.learn))


def _again(order: SetUpOrder, record: Record, tries: int, seen: Seen) -> Step[State]:
    """Repeat the unclear create later, or leave it to the listings and the tag (U9)."""
    state = Waiting(order, record, tries)
    if not seen.repeats_creates:
        return Step(doubtful(state, seen))
    wait_s = min(LONGEST_REPEAT_S, FIRST_REPEAT_S * 2.0 ** min(tries - 1, 16))
    wait_s = max(wait_s, seen.snapshot.limits.throttled_until - seen.snapshot.now)
    return Step(state, (Wait(wait_s),))


def _waiting(state: Waiting, event: Event, seen: Seen) -> Step[State]:
    match event:
        case Due():
            # It waits for a free worker first: a check made now would be old by then (U10).
            return Step(state, (CheckImage(),))
        case Answered():
            return _go_on(state.order, state.record, state.tries, seen)
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
