"""What operators' orders make of a node (doc/rules O1, O2).

They go behind every rule that forbids to touch a node, and never before one.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudNode, WorkerState
from nodemanager.core.plan.snapshot import Snapshot

BY_HAND = frozenset({Reason.DRAINED, Reason.KILLED})
"""Why a node goes that an operator wants gone."""


def of_node(marks: Mapping[str, Mark], node: CloudNode) -> Mark | None:
    """The mark on this very node, and on no earlier one of its id."""
    mark = marks.get(node.id)
    return mark if mark is not None and mark.incarnation == node.tags.incarnation else None


def killed(node: CloudNode, snapshot: Snapshot) -> Verdict | None:
    """What an operator's kill makes of a node, busy or not; None without one (O2, D11)."""
    kill = of_node(snapshot.kills, node)
    if kill is None or node.tags.pool is None:
        return None
    return Verdict(Kind.SHUTDOWN, Reason.KILLED, node.id, kill.measures(snapshot.wall))


def drained(node: CloudNode, state: WorkerState, snapshot: Snapshot) -> Verdict | None:
    """What a drain makes of a node whose fresh word is `state`; None without one (O1).

    It goes once that is idle, whatever demand, windows and idle counts say. Without a fresh word
    it is judged like any other.
    """
    drain = of_node(snapshot.drains, node)
    if drain is None or node.tags.pool is None:
        return None
    measures = {**drain.measures(snapshot.wall), "state": state.value}
    if state is WorkerState.IDLE:
        return Verdict(Kind.SHUTDOWN, Reason.DRAINED, node.id, measures)
    if state is WorkerState.BUSY:
        return Verdict(Kind.KEEP, Reason.DRAINING, node.id, measures)
    return None
