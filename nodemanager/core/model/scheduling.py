"""What a scheduler says of its nodes, in one answer and in successive ones."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.model.world import WorkerState

OURS = "nodemanager: "
"""What the reason of each of our orders begins with, so that an operator's own orders stand out."""


@dataclass(frozen=True, slots=True)
class SchedulerNode:
    """A node in a scheduler's listing; `name` is the hostname of its record.

    `draining`: it is given no new work, by anyone's order; `reason` is the text of that order, or
    of why the node is down. `reserved`: an advance reservation holds it. `said` is its state in the
    scheduler's own words. `weight` is its rank among nodes that a job may run on, the lowest
    first; None where the scheduler has none. `cores` is what the scheduler believes it to have.
    `responds` is False where the scheduler has tried in vain to reach the node.
    """

    name: str
    state: WorkerState
    draining: bool = False
    reserved: bool = False
    reason: str = ""
    said: str = ""
    features: tuple[str, ...] = ()
    weight: int | None = None
    cores: int | None = None
    responds: bool = True

    @property
    def drained(self) -> bool:
        """Whether it does no work and is given none."""
        return self.draining and self.state in (WorkerState.IDLE, WorkerState.DOWN)


@dataclass(frozen=True, slots=True)
class SchedulerWord:
    """What the newest complete answer of a scheduler says of a node, and what led to it (D12).

    It is about the life `incarnation` of the node's record. `idle` counts the complete answers in a
    row that call the node idle. `busy_since` is when the first answer in a row began that calls it
    busy. `was_up`: some answer has called this life busy or idle. Times are CLOCK_BOOTTIME.
    """

    node: SchedulerNode
    incarnation: str | None
    idle: int = 0
    busy_since: float | None = None
    was_up: bool = False

    @property
    def is_set_aside(self) -> bool:
        """Whether somebody else keeps work from the node: an operator's drain, or a reservation."""
        node = self.node
        return node.reserved or (node.draining and not node.reason.startswith(OURS))
