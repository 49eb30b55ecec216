"""The order for a set-up, the states that it passes through, and how it ends and is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nodemanager.core.execute.effects import (
    Created,
)
from nodemanager.core.execute.news import (
    CreateRefused,
    Learned,
    NodeExpected,
    Withdrawn,
    WriteInDoubt,
)
from nodemanager.core.execute.workflow import (
    Action,
    Ended,
    FollowUp,
    Level,
    LogLine,
    Seen,
    Step,
    Unwritten,
    Written,
)
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import ORDER_TTL_S
from nodemanager.core.model.verdict import Objection
from nodemanager.core.model.world import Claim, Record, Size
from nodemanager.core.plan.orders import BootOrder
from nodemanager.core.safety.orders import order_release
from nodemanager.errors import RemoteError

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


# How a set-up ends, and how that is told: created, refused, released, withdrawn.


def created_as(order: SetUpOrder, record: Record, created: Created) -> Step[SetupState]:
    node, life = created.node, record.incarnation
    fields = {
        "node": node.id,
        "name": node.name,
        **whose(record),
        "size": order.size.name,
        "place": order.place,
        "took_s": created.took_s,
    }
    return Step(
        None,
        tell=(LogLine(Event.NODE_CREATED, fields),),
        learn=(NodeExpected(record.uuid, life, order.size.name, node.id, place=order.place),),
        ended=Ended("created", {"node": node.id, **whose(record)}),
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
    ended = Ended(outcome, {**more, **whose(record)})
    return replace(step, begin=(FollowUp(Action.CLEAN, clean),), ended=ended)


def withdrawn(
    order: SetUpOrder, block: Objection, record: Record | None = None
) -> Step[SetupState]:
    """The end of a set-up that must not go on; `record` is the one that it has claimed."""
    record = record or order.record
    fields = {
        **block.measures,
        "reason": block.reason,
        **(whose(record) if record is not None else {}),
        "size": order.size.name,
        "plan": order.plan_id,
    }
    told = LogLine(Event.NODE_SETUP_WITHDRAWN, fields)
    return Step(None, tell=(told,), learn=(Withdrawn(order.size.name),))


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
        **(whose(record) if record is not None else {}),
        "size": order.size.name,
        "place": order.place if stage == "create" else None,
        "action": stage,
        "definite": error.definite if definite is None else definite,
        "error": error,
    }
    return LogLine(Event.NODE_SETUP_FAILED, fields, Level.WARNING if is_news else Level.DEBUG)


def whose(record: Record) -> dict[str, Any]:
    return {"record": record.uuid, "slot": record.slot_number, "host": record.hostname}
