"""A scheduler: it gives waiting jobs to idle nodes, and demand falls by what it gave out.

What waits in a pool is `Pool.wanted`, which is also what its wishlist shows. A job is given to a
node that is idle in truth, whatever its manager was last told of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from nodemanager.core.model.world import CloudState
from tests.simulation.machine import Machine
from tests.simulation.world import Pool, Shape, World


@dataclass(frozen=True)
class Rounds:
    """When the scheduler gives out work: a round every so many seconds, and jobs of that length."""

    every: float
    job_s: float
    drain_hook: bool = False


def draw_rounds(seed: int) -> Rounds | None:
    """Of half of all worlds; from a stream of its own, so that it moves no other choice."""
    random = Random(f"{seed}/jobs")
    if random.random() < 0.5:
        return None
    return Rounds(
        every=random.choice((10.0, 30.0, 60.0)),
        job_s=random.choice((40.0, 200.0)),
        drain_hook=random.random() < 0.5,
    )


def with_scheduler(shape: Shape, rounds: Rounds) -> Shape:
    """Its nodes work for the scheduler alone, and its managers see what waits."""
    pools = tuple(
        (replace(settings, demand_polled=True), poll_time) for settings, poll_time in shape.pools
    )
    return replace(
        shape,
        pools=pools,
        habits=replace(shape.habits, scheduled=True, drain_hook=rounds.drain_hook),
    )


class Scheduler:
    """Gives out the work of every pool, in rounds."""

    def __init__(self, world: World, rounds: Rounds) -> None:
        self.world, self.rounds = world, rounds
        self._random = world.engine.random("jobs")
        for pool in world.pools.values():
            self._next(pool)

    def _next(self, pool: Pool) -> None:
        self.world.engine.after(self.rounds.every, lambda: self._round(pool))

    def _round(self, pool: Pool) -> None:
        ready = [one for one in self.world.machines.values() if self._may_work(one, pool)]
        self._random.shuffle(ready)
        for machine in ready[: pool.wanted]:
            pool.wanted -= 1
            machine.begin_job(5.0 + self._random.expovariate(1 / self.rounds.job_s))
        self._next(pool)

    def _may_work(self, machine: Machine, pool: Pool) -> bool:
        instance = machine.instance
        return (
            machine.is_ready
            and instance.lives
            and instance.state is CloudState.RUNNING
            and instance.tags.pool == pool.name
        )
