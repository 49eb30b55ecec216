"""What operators' orders make of a node (SAFETY.md O1, O2).

They go behind every rule that forbids to touch a node, and never before one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodemanager.core.model import Record, WorkerState
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.records import worker_state
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.verdict import Verdict, keep

if TYPE_CHECKING:
    from nodemanager.core.shutdown import ShutdownOrder

UNTOUCHABLE = frozenset({Reason.HELD, Reason.UNREADABLE, Reason.UNTAGGED, Reason.AMBIGUOUS})
"""Nodes that no order reaches (C9, P3, D11, P2)."""

BY_HAND = frozenset({Reason.DRAINED, Reason.KILLED})
"""Why a node goes that an operator wants gone."""


def ordered(so_far: Verdict, state: WorkerState, snapshot: Snapshot) -> Verdict | None:
    """What an order makes of a node that would get the verdict `so_far`; None without one.

    A drained node goes once its own fresh word is that it is idle, whatever demand, windows and
    idle counts say. One that is going anyway goes for that reason.
    """
    node_id = so_far.id
    if so_far.reason in UNTOUCHABLE:
        return None
    kill = snapshot.kills.get(node_id)
    if kill is not None:
        return Verdict(Kind.SHUTDOWN, Reason.KILLED, node_id, kill.measures(snapshot.wall))
    drain = snapshot.drains.get(node_id)
    if drain is None or so_far.kind is not Kind.KEEP:
        return None
    measures = {**drain.measures(snapshot.wall), "state": state.value}
    if state is WorkerState.IDLE:
        return Verdict(Kind.SHUTDOWN, Reason.DRAINED, node_id, measures)
    measures["detail"] = so_far.reason.value
    return Verdict(Kind.KEEP, Reason.DRAINING, node_id, measures)


def called_off(
    order: ShutdownOrder, record: Record | None, snapshot: Snapshot, settings: Settings
) -> Verdict | None:
    """Why a shutdown by hand is left undone at the last look; None when it stands (D2).

    `record` is the node's as it was read just now.
    """
    node_id = order.node_id
    if node_id in snapshot.kills:
        return None
    if order.reason is Reason.KILLED or node_id not in snapshot.drains:
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="an operator called it off")
    if record is None or record.incarnation != order.incarnation:
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="its record is another's")
    state = worker_state(record, snapshot.history.clock, snapshot.now, settings)
    if state is not WorkerState.IDLE:
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="it is not idle any more")
    return None
