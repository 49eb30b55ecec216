"""Which nodes are told to take no more work, and which to take it again (SAFETY.md D12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodemanager.core.by_hand import of_node
from nodemanager.core.idle import can_drain
from nodemanager.core.model import Record
from nodemanager.core.node_view import NodeView
from nodemanager.core.reasons import Reason
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.standing import standing_block

UNDECIDED = frozenset(
    {Reason.HELD, Reason.SHUTTING_DOWN, Reason.CHANGED_SINCE_LISTING, Reason.IMPOSSIBLE}
)
"""Nodes that nothing is to be told of now: what they were told stands."""


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """Tell the node of `record` to take no more work; or with `on` False to take it again."""

    node_id: str
    record: Record
    on: bool
    reason: Reason
    plan_id: str


def drain_orders(
    views: Iterable[NodeView], snapshot: Snapshot, settings: Settings
) -> Iterator[DrainOrder]:
    """The orders that this plan calls for.

    A node is told to drain that would go had it drained, or that an operator drains. By what this
    run itself told alone: an order of a former run may yet be taken back, by a write of that run
    that is still on its way. What nobody drains any more is told so, whoever drained it.
    """
    # An open breaker forbids to destroy a node, not to give it work again.
    if not settings.tells_drain or standing_block(snapshot, settings, breaker=False) is not None:
        return
    unwanted, told = snapshot.history.unwanted, snapshot.drain_orders
    for view in views:
        record, node_id, reason = view.record, view.node.id, view.verdict.reason
        if record is None or record.uuid in snapshot.record_flights or reason in UNDECIDED:
            continue
        if node_id not in unwanted:
            if record.drain is not None:
                yield DrainOrder(node_id, record, False, reason, snapshot.plan_id)
        elif record.uuid not in told and not snapshot.breaker.is_open:
            drains = reason is Reason.DRAIN_AWAITED or of_node(snapshot.drains, view.node)
            if drains and can_drain(record, settings):
                yield DrainOrder(node_id, record, True, reason, snapshot.plan_id)
