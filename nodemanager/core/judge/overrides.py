"""The verdicts on a node that somebody takes out of use, after the checks that protect it.

Operators' orders (O1, O2, O5, O7), and the cloud's word that it will take the node (D18).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import CloudNode, Record, WorkerState
from nodemanager.core.observe.snapshot import Snapshot

BY_HAND = frozenset({Reason.DRAINED, Reason.KILLED})
"""The reasons for a shutdown that an operator ordered."""


def of_node(marks: Mapping[str, Mark], node: CloudNode) -> Mark | None:
    """The mark on this node, but not one on an earlier node with the same id."""
    mark = marks.get(node.id)
    return mark if mark is not None and mark.is_on(node.tags.incarnation) else None


def is_leaving(node: CloudNode, record: Record | None, snapshot: Snapshot) -> bool:
    """Whether a node takes no more work, even if demand wants it (O1, O5, D18).

    An operator drains or cordons it, or its cloud will take it.
    """
    if snapshot.drains and of_node(snapshot.drains, node) is not None:
        return True
    return record is not None and record.notice is not None and node.tags.pool is not None


def killed(node: CloudNode, snapshot: Snapshot) -> Verdict | None:
    """The shutdown that a kill calls for, busy or not; None without one, or untagged (O2, D11)."""
    kill = of_node(snapshot.kills, node)
    if kill is None or node.tags.pool is None:
        return None
    return Verdict(Kind.SHUTDOWN, Reason.KILLED, node.id, kill.measures(snapshot.wall))


def cordoned(node: CloudNode, snapshot: Snapshot) -> Verdict | None:
    """The verdict of a cordon, for any state of the node: it is kept (O5). None without one."""
    mark = of_node(snapshot.drains, node)
    if mark is None or not mark.kept or node.tags.pool is None:
        return None
    return keep(node.id, Reason.CORDONED, **mark.measures(snapshot.wall))


def drained(node: CloudNode, state: WorkerState, snapshot: Snapshot) -> Verdict | None:
    """The verdict that a drain calls for on a node with this fresh `state`; None without one (O1).

    It is shut down once idle and kept while busy; demand, windows and idle counts do not matter.
    With any other state it is judged like other nodes: None.
    """
    drain = of_node(snapshot.drains, node)
    if drain is None or drain.kept or node.tags.pool is None:
        return None
    measures = drain.measures(snapshot.wall)
    return _once_idle(node, state, measures, Reason.DRAINED, Reason.DRAINING)


def parked(node: CloudNode, state: WorkerState, snapshot: Snapshot) -> Verdict | None:
    """The verdict of a parked pool on a node, as that of a drain; None without one (O7)."""
    if snapshot.parked is None or node.tags.pool is None:
        return None
    measures = snapshot.parked.measures(snapshot.wall)
    return _once_idle(node, state, measures, Reason.PARKED, Reason.PARKING)


def noticed(
    node: CloudNode, record: Record, state: WorkerState, snapshot: Snapshot
) -> Verdict | None:
    """The verdict on a node that its cloud will take, as of a drained one; None without notice.

    Its job has the time that is left: nobody but the cloud ends it (D18).
    """
    if record.notice is None or node.tags.pool is None:
        return None
    measures = measures_of_notice(record, snapshot)
    return _once_idle(node, state, measures, Reason.NOTICED, Reason.LEAVING)


def measures_of_notice(record: Record, snapshot: Snapshot) -> dict[str, Any]:
    """The measures that a verdict shows of the cloud's notice, none without one."""
    notice = record.notice
    if notice is None:
        return {}
    left = {} if notice.at is None else {"left_s": max(0.0, notice.at - snapshot.wall)}
    return {"cause": notice.why.value, **left}


def _once_idle(
    node: CloudNode, state: WorkerState, measures: Mapping[str, Any], goes: Reason, waits: Reason
) -> Verdict | None:
    """The shutdown of an idle node, the keeping of a busy one; None for any other state."""
    measures = {**measures, "state": state.value}
    verdicts = {
        WorkerState.IDLE: Verdict(Kind.SHUTDOWN, goes, node.id, measures),
        WorkerState.BUSY: Verdict(Kind.KEEP, waits, node.id, measures),
    }
    return verdicts.get(state)
