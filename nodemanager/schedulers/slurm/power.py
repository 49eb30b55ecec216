"""Slurm's own power saving as demand: it chooses the nodes to boot and to end, by their state.

ResumeProgram and SuspendProgram only say that there is something new. What they ask for is in the
nodes' states for as long as it is asked for, so nothing is lost while the daemon is not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.scheduling import OURS, SchedulerNode
from nodemanager.core.model.worker_words import NO_ANSWER, NOT_COME, POWERED_DOWN
from nodemanager.core.model.world import Job, Listed, WorkerState

UP, DOWN = "powering_up", "powering_down"
TO_BE_UP, TO_BE_DOWN = "power_up", "power_down"
RESUME, POWER_DOWN = "State=RESUME", "State=POWER_DOWN"


def queue(nodes: Iterable[SchedulerNode]) -> tuple[Job, ...]:
    """A job for each node that Slurm powers up: only that node serves it."""
    return tuple(
        Job(id=f"power_up {node.name}", instance_type=size_of(node), host=node.name)
        for node in nodes
        if UP in (words := words_of(node)) and TO_BE_DOWN not in words and "down" not in words
    )


def listing(listed: Listed[SchedulerNode]) -> Listed[SchedulerNode]:
    """The nodes, with what power saving adds: which are switched off, and which are given up."""
    return replace(listed, items=tuple(_with_power(node) for node in listed.items))


def _with_power(node: SchedulerNode) -> SchedulerNode:
    words = words_of(node)
    timed_out = "down" in words and node.reason == NOT_COME
    is_off = "idle" in words and not words.isdisjoint({DOWN, POWERED_DOWN})
    if timed_out or is_off or ("down" not in words and UP in words):
        # Its slurmd is not asked any more, so that is no sign of life; nor has its job begun.
        state = node.state if timed_out else WorkerState.UNKNOWN
        node = replace(node, state=state, suspended=True, responds=False)
    # An operator's order to be down has a reason of its own.
    is_ours = node.reason in (NOT_COME, NO_ANSWER) or node.reason.startswith(OURS)
    is_down = "down" in words and words.isdisjoint({UP, DOWN, TO_BE_UP, TO_BE_DOWN})
    return replace(node, given_up=True) if is_down and is_ours and not node.reserved else node


def order_to_resume(node: SchedulerNode | None) -> str:
    """What to tell Slurm of a node, as listed, that is to get work again.

    One that is down, and not powered down, would be down again for want of its machine's answer.
    """
    is_up = node is None or not node.given_up or POWERED_DOWN in words_of(node)
    return RESUME if is_up else POWER_DOWN


def words_of(node: SchedulerNode) -> frozenset[str]:
    return frozenset(node.said.split("+"))


def size_of(node: SchedulerNode) -> str | None:
    """The size that the node's features name, by its own name before its instance type's."""
    named = (one for one in node.features if one.startswith(SIZE_FEATURE))
    first = next(named, None)
    return None if first is None else first.removeprefix(SIZE_FEATURE)
