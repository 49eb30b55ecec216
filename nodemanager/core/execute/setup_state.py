"""The order for a set-up, and the states that it passes through (setup.py)."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.execute.workflow import (
    Seen,
    Unwritten,
    Written,
)
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import ORDER_TTL_S
from nodemanager.core.model.world import Claim, Record, Size
from nodemanager.core.plan.boots import BootOrder


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
class Waiting(Written):
    """An unclear create will be repeated: it waits for its time, and then for a worker."""

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


State = Checking | Claiming | Renewing | Creating | Waiting | Doubtful


def is_unclear(state: object) -> bool:
    """Whether a set-up in this state has sent a create without a clear answer (U9)."""
    match state:
        case Waiting():
            return True
        case Creating() | Renewing():
            return state.tries > 0
        case Doubtful():
            return state.sent
    return False


def doubtful(state: Claiming | Renewing | Creating | Waiting, seen: Seen) -> Doubtful:
    sent = isinstance(state, Creating | Waiting) or (
        isinstance(state, Renewing) and state.tries > 0
    )
    if isinstance(state, Claiming):
        uuid = state.order.record.uuid if state.order.record is not None else None
    else:
        uuid = state.record.uuid
    return Doubtful(state.order, uuid, seen.snapshot.now, sent)
