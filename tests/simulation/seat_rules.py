"""What holds where Slurm's nodes are the records, judged by machines, jobs and slurmctld's orders.

A name is given to a machine only when no other lives that was told it. No order of a manager ends
a job that its machine is at: a node is powered down or called down only behind a fence or a drain,
and its machine destroyed only behind a drain. In the calm, each job that was submitted is run, and
what idles beyond min_nodes goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nodemanager.core.model.world import Record
from tests.records.slurm_model import UNASKED, Node, Times
from tests.simulation.bounds import FENCE_STANDS_S
from tests.simulation.cleans import CleanRules
from tests.simulation.cloud import Instance
from tests.simulation.debts import Owed
from tests.simulation.machine import Machine
from tests.simulation.seats import (
    RESUME_TIMEOUT_S,
    SLURMD_TIMEOUT_S,
    SUSPEND_TIMEOUT_S,
    Controller,
    SeatJob,
)
from tests.simulation.slurm import is_up
from tests.simulation.world import Pool, World

if TYPE_CHECKING:
    from tests.simulation.latch import Latch
    from tests.simulation.liveness import Calm

POWER_DOWN = "State=POWER_DOWN_FORCE"
ENDS = (POWER_DOWN, "State=DOWN")
BOOTS_S = 100.0
SLACK_S = 60.0


class SeatRules:
    """Watches claims, orders to slurmctld and destroys, and what the calm owes to jobs."""

    def __init__(
        self, world: World, controller: Controller, cleans: CleanRules, calm: Calm, latch: Latch
    ) -> None:
        self.world, self.controller, self.cleans = world, controller, cleans
        self.calm, self.latch = calm, latch
        self.ordered_down = 0
        controller.ordered.append(self._ordered)
        world.registry.changed.append(self._changed)
        world.cloud.books.destroyed.append(self._destroyed)

    def _living(self, name: str) -> list[Machine]:
        return [
            machine
            for machine in self.world.machines.values()
            if machine.hostname == name and machine.instance.lives
        ]

    def _changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        if after is None or what != "claim" or after.claim is None or after.hostname is None:
            return
        others = [
            machine.instance.id
            for machine in self._living(after.hostname)
            if machine.instance.tags.incarnation != after.incarnation
        ]
        if others and not self.world.is_excused(after.uuid, *others):
            self.world.violate(
                "SAFETY", f"{by} claims {after.hostname}, {others} live by that name"
            )

    def _ordered(self, by: str, node: Node, argv: Sequence[str]) -> None:
        """An order takes effect: what it ends must not live, and no job be hit by it."""
        if not any(one in argv for one in ENDS):
            return
        self.ordered_down += 1
        # A late order may end its drain; while it is down it gets no work either. Slurm refuses the
        # order, which may be late, for one that is off. One that powers up runs nothing yet: its
        # job waits again.
        safe = node.flags & {"DRAIN", "DOWN", *UNASKED}
        if POWER_DOWN in argv and not safe:
            self.world.violate("C12", f"{by} powers {node.name} down, which may be given work")
        alive = [machine for machine in self._living(node.name) if is_up(machine)]
        job = self.controller.jobs.get(node.job or "")
        if job is not None and job.runs and job.on in alive:
            self._hit(job, by, " ".join(argv[2:]))

    def _destroyed(self, one: Instance, by: str) -> None:
        job = next((job for job in self.controller.jobs.values() if job.on is one.machine), None)
        if job is None or not job.runs or one.machine is None or not is_up(one.machine):
            return
        node = self.controller.model.nodes[job.name]
        if node.job == job.id and "DOWN" not in node.flags:
            self._hit(job, by, f"destroys {one.id}")

    def _hit(self, job: SeatJob, by: str, how: str) -> None:
        works_s = self.world.engine.now - job.began
        what = f"{by}: {how}, where job {job.id} has run for {works_s:.0f} s"
        self.world.violate("WORK", what)

    # The calm.

    def owed(self) -> Iterator[Owed]:
        (pool,) = self.world.pools.values()
        since = max(self.calm.awake(pool), self.latch.open_until.get(pool.name, 0.0))
        yield from self._jobs(pool, since)
        yield from self._idle(pool, since)
        yield from self._switched_off(pool, since)
        yield from self._fences()

    def _jobs(self, pool: Pool, since: float) -> Iterator[Owed]:
        """Each is run: its node is freed of what was there, booted, and at it undisturbed."""
        for job in self.controller.jobs.values():
            within = self._seat_is_free(pool) + RESUME_TIMEOUT_S + BOOTS_S + Times.requeued_for
            if job.on is not None:
                within += job.lasts
            what = f"job {job.id} on {job.name} is run to its end"
            yield Owed("PROGRESS", f"job {job.id} {job.began}", what, since, within)

    def _seat_is_free(self, pool: Pool) -> float:
        """Whatever holds a node ends, and its record is cleaned."""
        settings, bounds = pool.settings, self.calm.bounds(pool)
        window = max(settings.claim_window, settings.node_stale_after + SLURMD_TIMEOUT_S)
        silent = bounds.silent(settings.max_nodes, pinged=True)
        return max(silent, bounds.unpaired(3)) + window + settings.settle + bounds.rounds(8)

    def _idle(self, pool: Pool, since: float) -> Iterator[Owed]:
        """Of the machines that are up and have no job, those beyond min_nodes go."""
        if self.controller.jobs:
            return
        up = [one for one in self.world.cloud.living() if one.tags.pool == pool.name]
        over = len(up) - pool.settings.min_nodes
        if over <= 0:
            return
        bounds = self.calm.bounds(pool)
        within = bounds.surplus + SUSPEND_TIMEOUT_S + self._seat_is_free(pool)
        what = f"one of {over} idle machines goes"
        yield Owed("PROGRESS", f"idle {len(up)}", what, since, within)

    def _switched_off(self, pool: Pool, since: float) -> Iterator[Owed]:
        """A machine that Slurm has switched off is of no use to it, and waits for no window."""
        bounds, controller = self.calm.bounds(pool), self.controller
        within = bounds.rounds(4) + bounds.stops_in + pool.settings.action_timeout + SLACK_S
        for name, (machine, life) in controller.of.items():
            one, node = machine.instance, controller.model.nodes[name]
            is_its = one.tags.pool == pool.name and machine.life == life and is_up(machine)
            if is_its and one.lives and node.flags & UNASKED and "DOWN" not in node.flags:
                what = f"{one.id}, which Slurm has switched off as {name}, goes"
                yield Owed("PROGRESS", f"off {one.id}", what, since, within)

    def _fences(self) -> Iterator[Owed]:
        """No node that lives stays drained by a fence."""
        for name in self.controller.model.nodes:
            record = self.controller.registry.of(name)
            if record.fenced and any(is_up(machine) for machine in self._living(name)):
                what = f"{name}, whose machine lives, is fenced no more"
                yield Owed("C12", f"fence {name} {record.incarnation}", what, 0.0, FENCE_STANDS_S)
