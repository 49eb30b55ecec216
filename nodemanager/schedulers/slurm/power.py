"""Slurm's own power saving as demand: it chooses the nodes to boot and to end, by their state.

ResumeProgram and SuspendProgram only say that there is something new. What they ask for is in the
nodes' states for as long as it is asked for, so nothing is lost while the daemon is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodemanager.core.model.features import SIZE_FEATURE
from nodemanager.core.model.scheduling import OURS, SchedulerNode, is_drained_by_us
from nodemanager.core.model.worker_words import (
    NO_ANSWER,
    NOT_COME,
    POWER_DOWN,
    POWER_UP,
    POWERED_DOWN,
    POWERING_DOWN,
    POWERING_UP,
)
from nodemanager.core.model.world import Job, Listed, WorkerState

_PARTITIONS = re.compile(r" Partitions=(\S+)")
RESUME, UNDRAIN = "State=RESUME", "State=UNDRAIN"
ON, OFF, OFF_AT_ONCE = "State=POWER_UP", "State=POWER_DOWN", "State=POWER_DOWN_FORCE"
CHANGES = frozenset({POWERING_UP, POWERING_DOWN, POWER_UP, POWER_DOWN})


def queue(nodes: Iterable[SchedulerNode]) -> tuple[Job, ...]:
    """A job for each node that Slurm powers up: only that node serves it."""
    return tuple(
        Job(id=f"power_up {node.name}", instance_type=size_of(node), host=node.name)
        for node in nodes
        if node.wanted and not node.elsewhere
    )


def listing(
    listed: Listed[SchedulerNode],
    partitions: Mapping[str, frozenset[str]] | None = None,
    served: frozenset[str] = frozenset(),
) -> Listed[SchedulerNode]:
    """The nodes, with what power saving adds: which are switched off, wanted, and given up.

    With the `partitions` of each node, those in none of the `served` ones are elsewhere.
    """
    nodes = (_with_power(node) for node in listed.items)
    if partitions is not None:
        ours = {name for name, its in partitions.items() if not served.isdisjoint(its)}
        nodes = (replace(node, elsewhere=node.name not in ours) for node in nodes)
    return replace(listed, items=tuple(nodes))


def partitions_of(output: str) -> dict[str, frozenset[str]]:
    """The partitions of each node, by `scontrol --oneliner show node`."""
    return {
        name: frozenset(found[1].split(",")) if (found := _PARTITIONS.search(line)) else frozenset()
        for line in output.splitlines()
        if (name := line.partition("NodeName=")[2].partition(" ")[0])
    }


def _with_power(node: SchedulerNode) -> SchedulerNode:
    words = words_of(node)
    timed_out = "down" in words and node.reason == NOT_COME
    is_off = "idle" in words and not words.isdisjoint({POWERING_DOWN, POWERED_DOWN})
    if timed_out or is_off or ("down" not in words and POWERING_UP in words):
        # Its slurmd is not asked any more, so that is no sign of life; nor has its job begun.
        state = node.state if timed_out else WorkerState.UNKNOWN
        node = replace(node, state=state, suspended=True, responds=False)
    # An operator's order to be down has a reason of its own.
    is_ours = node.reason in (NOT_COME, NO_ANSWER) or node.reason.startswith(OURS)
    is_down = "down" in words and words.isdisjoint(CHANGES)
    return replace(
        node,
        given_up=is_down and is_ours and not node.reserved,
        off={"idle", POWERED_DOWN} <= words and words.isdisjoint(CHANGES),
        wanted=_is_wanted(words),
    )


def _is_wanted(words: frozenset[str]) -> bool:
    """Whether Slurm waits for a machine, or is about to.

    One that came at once may leave the order to power up behind, on a node that is up.
    """
    if not words.isdisjoint({POWER_DOWN, POWERING_DOWN, "down"}):
        return False
    return POWERING_UP in words or (POWER_UP in words and POWERED_DOWN in words)


def orders_to_resume(node: SchedulerNode | None) -> tuple[str, ...]:
    """What to tell Slurm of a node, as listed, that is to get work again.

    One that is down, and not powered down, would be down again for want of its machine's answer.
    """
    is_up = node is None or not node.given_up or POWERED_DOWN in words_of(node)
    return (RESUME if is_up else OFF,)


def orders_to_switch_off(node: SchedulerNode, *, had_joined: bool = False) -> tuple[str, ...]:
    """What to tell Slurm of a node whose machine is gone, or does not come.

    What waits for it, or ran on it, is queued again, but for what waits for the next machine, after
    one that `had_joined` (U14). A drain of ours ends with the machine; with an operator's drain
    Slurm keeps the node as it is, since it would end that with the power (D16).
    """
    if node.draining and not is_drained_by_us(node):
        return ()
    if is_left_to_the_next(node, had_joined):
        return ()
    is_off = not words_of(node).isdisjoint({POWERED_DOWN, POWERING_DOWN})
    undrain = (UNDRAIN,) if node.draining else ()
    return undrain if is_off and not node.wanted else (OFF_AT_ONCE, *undrain)


def is_left_to_the_next(node: SchedulerNode, had_joined: bool) -> bool:
    """Whether Slurm waits for a machine of that name that can't be the one that is gone."""
    return node.wanted and had_joined


def orders_to_switch_on(node: SchedulerNode) -> tuple[str, ...]:
    """What to tell Slurm of a node that is to be powered up: nothing unless it is just off.

    An order that comes too late would be left behind on a node that is up.
    """
    may_be = node.off and not (node.draining or node.reserved)
    return (ON,) if may_be else ()


def words_of(node: SchedulerNode) -> frozenset[str]:
    return frozenset(node.said.split("+"))


def size_of(node: SchedulerNode) -> str | None:
    """The size that the node's features name, by its own name before its instance type's."""
    named = (one for one in node.features if one.startswith(SIZE_FEATURE))
    first = next(named, None)
    return None if first is None else first.removeprefix(SIZE_FEATURE)
