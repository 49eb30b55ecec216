"""The verdicts of operators' orders on a node, after the checks that protect it (O1, O2, O5)."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import CloudNode, WorkerState
from nodemanager.core.observe.snapshot import Snapshot

BY_HAND = frozenset({Reason.DRAINED, Reason.KILLED})
"""The reasons for a shutdown that an operator ordered."""


def of_node(marks: Mapping[str, Mark], node: CloudNode) -> Mark | None:
    """The mark on this node, but not one on an earlier node with the same id."""
    mark = marks.get(node.id)
    return mark if mark is not None and mark.is_on(node.tags.incarnation) else None


def killed(node: CloudNode, snapshot: Snapshot) -> Verdict | None:
    """The shutdown that a kill calls for, busy or not; None without one, or untagged (O2, D11)."""
    kill = of_node(snapshot.kills, node)
    if kill is None or node.tags.pool is None:
        return None
    return Verdict(Kind.SHUTDOWN, Reason.KILLED, node.id, kill.measures(snapshot.wall))


def cordoned(node: CloudNode, snapshot: Snapshot) -> Verdict | None:
    """The verdict of a cordon, whatever the node does: it is kept (O5). None without one."""
    mark = of_node(snapshot.drains, node)
    if mark is None or not mark.kept or node.tags.pool is None:
        return None
    return keep(node.id, Reason.CORDONED, **mark.measures(snapshot.wall))


def drained(node: CloudNode, state: WorkerState, snapshot: Snapshot) -> Verdict | None:
    """The verdict that a drain calls for on a node with this fresh `state`; None without one (O1).

    It is shut down once idle, whatever demand, windows and idle counts say, and kept while busy.
    With any other state it is judged like other nodes: None.
    """
    drain = of_node(snapshot.drains, node)
    if drain is None or drain.kept or node.tags.pool is None:
        return None
    measures = {**drain.measures(snapshot.wall), "state": state.value}
    if state is WorkerState.IDLE:
        return Verdict(Kind.SHUTDOWN, Reason.DRAINED, node.id, measures)
    if state is WorkerState.BUSY:
        return Verdict(Kind.KEEP, Reason.DRAINING, node.id, measures)
    return None
