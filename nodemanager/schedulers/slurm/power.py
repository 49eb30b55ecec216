"""Slurm's own power saving as demand: it chooses the nodes to boot and to end, by their state.

ResumeProgram and SuspendProgram only say that there is something new. What they ask for is in the
nodes' states for as long as it is asked for, so nothing is lost while the daemon is not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.scheduling import OURS, SchedulerNode
from nodemanager.core.model.world import Job, Listed, WorkerState

UP, DOWN, TO_BE_DOWN = "powering_up", "powering_down", "power_down"
SUSPENDED = f"{OURS}suspended by Slurm"


def queue(nodes: Iterable[SchedulerNode]) -> tuple[Job, ...]:
    """A job for each node that Slurm powers up: only that node serves it."""
    return tuple(
        Job(id=f"power_up {node.name}", instance_type=size_of(node), host=node.name)
        for node in nodes
        if UP in (words := words_of(node)) and TO_BE_DOWN not in words and "down" not in words
    )


def listing(listed: Listed[SchedulerNode]) -> Listed[SchedulerNode]:
    """The nodes, with those that Slurm suspends as idle and drained: it gives them no work."""
    return replace(listed, items=tuple(_suspended(node) for node in listed.items))


def _suspended(node: SchedulerNode) -> SchedulerNode:
    words = words_of(node)
    if "idle" not in words or not words & {DOWN, "powered_down"}:
        return node
    # Its slurmd is not asked any more, so that is no sign of life.
    return replace(node, state=WorkerState.IDLE, draining=True, reason=SUSPENDED, responds=False)


def words_of(node: SchedulerNode) -> frozenset[str]:
    return frozenset(node.said.split("+"))


def size_of(node: SchedulerNode) -> str | None:
    """The size that the node's features name, by its own name before its instance type's."""
    named = (one for one in node.features if one.startswith(SIZE_FEATURE))
    first = next(named, None)
    return None if first is None else first.removeprefix(SIZE_FEATURE)
