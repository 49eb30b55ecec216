"""How a set-up ends, and how that is told: created, refused, released, withdrawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.core.execute.books import (
    CreateRefused,
    Learned,
    NodeExpected,
    Withdrawn,
    WriteInDoubt,
)
from nodemanager.core.execute.effects import (
    Created,
)
from nodemanager.core.execute.setup_state import (
    SetUpOrder,
    State,
)
from nodemanager.core.execute.workflow import (
    Action,
    Begin,
    Ended,
    Level,
    Seen,
    Step,
    Told,
)
from nodemanager.core.judge.preconditions import Block
from nodemanager.core.model.reasons import Event as Name
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Record
from nodemanager.core.safety.orders import order_release
from nodemanager.errors import RemoteError


def created_as(order: SetUpOrder, record: Record, created: Created) -> Step[State]:
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
        tell=(Told(Name.NODE_CREATED, fields),),
        learn=(NodeExpected(record.uuid, life, order.size.name, node.id, place=order.place),),
        ended=Ended("created", {"node": node.id, **whose(record)}),
    )


def refused(order: SetUpOrder, record: Record, error: RemoteError, seen: Seen) -> Step[State]:
    """The end after a definite refusal: nothing was created, so the claim is released (U6)."""
    step: Step[State] = Step(
        None,
        tell=(failed(order, record, "create", error),),
        learn=(CreateRefused((order.size.name,), error),),
    )
    return released(order, record, step, "refused", seen, stage="create")


def released(
    order: SetUpOrder, record: Record, step: Step[State], outcome: str, seen: Seen, **more: Any
) -> Step[State]:
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
    return replace(step, begin=(Begin(Action.CLEAN, clean),), ended=ended)


def withdrawn(order: SetUpOrder, block: Block, record: Record | None = None) -> Step[State]:
    """The end of a set-up that must not go on; `record` is the one that it has claimed."""
    record = record or order.record
    fields = {
        **block[1],
        "reason": block[0],
        **(whose(record) if record is not None else {}),
        "size": order.size.name,
        "plan": order.plan_id,
    }
    told = Told(Name.NODE_SETUP_WITHDRAWN, fields)
    return Step(None, tell=(told,), learn=(Withdrawn(order.size.name),))


def perhaps(order: SetUpOrder, uuid: str, since: float | None = None) -> NodeExpected:
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
) -> Told:
    fields = {
        **(whose(record) if record is not None else {}),
        "size": order.size.name,
        "place": order.place if stage == "create" else None,
        "action": stage,
        "definite": error.definite if definite is None else definite,
        "error": error,
    }
    return Told(Name.NODE_SETUP_FAILED, fields, Level.WARNING if is_news else Level.DEBUG)


def whose(record: Record) -> dict[str, Any]:
    return {"record": record.uuid, "slot": record.slot_number, "host": record.hostname}
