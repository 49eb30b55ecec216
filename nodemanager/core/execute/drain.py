"""Tells nodes to take no more work, or to take work again (SAFETY.md D12).

The plan gives the orders (`drain_orders`); the workflow tells the node. The books have the orders
of this run that stand (`Drains`): a node that can drain is shut down as idle only by such an order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodemanager.core.execute.books import DrainTold, Learned
from nodemanager.core.execute.effects import ReadRecord, TellDrain
from nodemanager.core.execute.once import State, reading, writing
from nodemanager.core.execute.workflow import (
    About,
    Action,
    Failed,
    Level,
    Seen,
    Step,
    Told,
)
from nodemanager.core.judge.idle import can_drain, stays_drained
from nodemanager.core.judge.node_view import NodeView
from nodemanager.core.judge.overrides import of_node
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Event as Name
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record
from nodemanager.core.observe.snapshot import Snapshot

UNDECIDED = frozenset(
    {Reason.HELD, Reason.SHUTTING_DOWN, Reason.CHANGED_SINCE_LISTING, Reason.IMPOSSIBLE}
)
"""A node with one of these verdicts gets no order now: what it was told stands."""


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """Tell the node of `record` to take no more work or, with `on` False, to take work again."""

    node_id: str
    record: Record
    on: bool
    reason: Reason
    plan_id: str


def drain_orders(
    views: Iterable[NodeView], snapshot: Snapshot, settings: Settings
) -> Iterator[DrainOrder]:
    """The orders that this plan calls for.

    A node is told to drain where only that keeps it from its shutdown, or where an operator drains
    it. Only orders of this run count as told: a late write of a former run may still take back the
    order that it gave. A node that is wanted again is told so, whoever drained it, but not while a
    destroy that was sent may still hit it.
    """
    # An open breaker forbids destroying a node, not giving it work again.
    if not settings.tells_drain or standing_block(snapshot, settings, breaker=False) is not None:
        return
    unwanted, told = snapshot.history.unwanted, snapshot.drain_orders
    for view in views:
        record, node_id, reason = view.record, view.node.id, view.verdict.reason
        if record is None or record.uuid in snapshot.record_flights or reason in UNDECIDED:
            continue
        if node_id not in unwanted:
            if record.drain is not None and not stays_drained(node_id, record, snapshot):
                yield DrainOrder(node_id, record, False, reason, snapshot.plan_id)
        elif record.uuid not in told and not snapshot.breaker.is_open:
            drains = reason is Reason.DRAIN_AWAITED or of_node(snapshot.drains, view.node)
            if drains and can_drain(record, settings):
                yield DrainOrder(node_id, record, True, reason, snapshot.plan_id)


def is_still_due(order: DrainOrder, record: Record | None, seen: Seen) -> bool:
    """Whether the order may be written at this moment; `record` was just read.

    The order may have waited for a worker, and lease, breaker, holds or demand may have changed.
    """
    snapshot, settings, uuid = seen.snapshot, seen.settings, order.record.uuid
    if seen.stopping or standing_block(snapshot, settings, breaker=order.on) is not None:
        return False
    if record is None or record.held or not snapshot.holds.isdisjoint((uuid, order.node_id)):
        return False
    return (order.node_id in snapshot.history.unwanted) is order.on


# The workflow.


class Drain:
    """Read, confirm, write. The write names incarnation and drain order: a late one is refused."""

    action = Action.DRAIN
    flight = "drain"

    def id(self, order: DrainOrder) -> str:
        return order.record.uuid

    def about(self, order: DrainOrder) -> About:
        return About(record=order.record.uuid)

    def start(self, order: DrainOrder) -> Step[State[DrainOrder]]:
        return reading(order, ReadRecord(order.record.uuid))

    def found(
        self, order: DrainOrder, answer: Record | None, seen: Seen
    ) -> Step[State[DrainOrder]]:
        if not is_still_due(order, answer, seen):
            return Step(None)
        unknown = DrainTold(order.record.uuid, None)
        return writing(order, TellDrain(order.record, order.on), unknown)

    def done(
        self, order: DrainOrder, answer: Record, seen: Seen, *, late: bool
    ) -> Step[State[DrainOrder]]:
        told = DrainTold(answer.uuid, answer.drain)
        return Step(None, tell=(_told(order, None),), learn=() if late else (told,))

    def failed(
        self, order: DrainOrder, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[State[DrainOrder]]:
        return Step(None, tell=(_told(order, failed.error),))

    def in_doubt(self, order: DrainOrder) -> tuple[Learned, ...]:
        return ()


def _told(order: DrainOrder, error: Exception | None) -> Told:
    fields = {
        "node": order.node_id,
        "record": order.record.uuid,
        "reason": order.reason,
        "action": "drain" if order.on else "resume",
        "error": error,
        "plan": order.plan_id,
    }
    return Told(Name.NODE_DRAIN, fields, Level.INFO if error is None else Level.WARNING)
