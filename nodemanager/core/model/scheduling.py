"""What a scheduler says of its nodes."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.model.world import WorkerState


@dataclass(frozen=True, slots=True)
class SchedulerNode:
    """A node in a scheduler's listing; `name` is the hostname of its record.

    `draining`: it is given no new work, by anyone's order; `reason` is the text of that order, or
    of why the node is down. `reserved`: an advance reservation holds it. `said` is its state in the
    scheduler's own words. `weight` is its rank among nodes that a job may run on, the lowest
    first; None where the scheduler has none. `cores` is what the scheduler believes it to have.
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

    @property
    def drained(self) -> bool:
        """Whether it does no work and is given none."""
        return self.draining and self.state in (WorkerState.IDLE, WorkerState.DOWN)
