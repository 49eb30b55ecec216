"""What holds where Slurm's nodes are the records, judged by machines, jobs and slurmctld's orders.

A name is given to a machine only when no other lives that was told it, and only while Slurm has it
switched off or wants it up: what it calls up, or what somebody sets aside, gets none. No order of a
manager ends a job that its machine is at, and none ends what waits for a machine, but where the
cloud refused one of its size, or it ended. A drain that is not ours survives. In the calm, each job
that was submitted is run, and what idles beyond min_nodes goes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nodemanager.core.model.scheduling import OURS
from nodemanager.core.model.streaks import LONGEST_REST_S
from nodemanager.core.model.world import Record
from nodemanager.core.safety.boot_loops import SIZE_LOOP
from nodemanager.errors import RemoteError
from tests.records.slurm_model import UNASKED, Node, Times
from tests.simulation.cloud import Instance
from tests.simulation.debts import Owed
from tests.simulation.engine import EPOCH
from tests.simulation.machine import Machine
from tests.simulation.seats import (
    COMES,
    RESUME_TIMEOUT_S,
    SLURMD_TIMEOUT_S,
    SUSPEND_TIMEOUT_S,
    Controller,
    SeatJob,
)
from tests.simulation.slurm import is_up
from tests.simulation.standing import StandingOrders
from tests.simulation.world import Pool, World

if TYPE_CHECKING:
    from tests.simulation.latch import Latch
    from tests.simulation.liveness import Calm

OFF_AT_ONCE, ON = "State=POWER_DOWN_FORCE", "State=POWER_UP"
ENDS = (OFF_AT_ONCE, "State=DOWN")
UNDRAINS = ("State=UNDRAIN", "State=RESUME", "State=POWER_DOWN", OFF_AT_ONCE)
BOOTS_S = 100.0
SLACK_S = 60.0
LOOK_S = 10.0
"""A look at Slurm takes no longer: the time-out of its call."""
A_SECOND = 1.0
"""Slurm tells since when a reason is there in whole seconds."""


class SeatRules:
    """Watches claims, orders to slurmctld and destroys, and what the calm owes to jobs."""

    def __init__(
        self,
        world: World,
        controller: Controller,
        orders: StandingOrders,
        calm: Calm,
        latch: Latch,
    ) -> None:
        self.world, self.controller, self.orders = world, controller, orders
        self.calm, self.latch = calm, latch
        self._refused_at: dict[tuple[str, str], float] = {}
        """By pool and size, when the cloud last refused a node."""
        self._lost: dict[str, float] = {}
        """By uuid, when the newest was made of the record's nodes that ended, and Slurm had heard;
        of the others, when it ended."""
        self._failed: Counter[str] = Counter()
        """By pool, how many nodes ended that had never been heard."""
        self._done: dict[str, tuple[int, float]] = {}
        """By pool, how many of its jobs were done at the last look, and since when."""
        self._heard: set[str] = set()
        world.registry.pinged.append(lambda _, secret: self._heard.add(secret))
        world.cloud.books.ended.append(self._ended)
        controller.ordered.append(self._ordered)
        world.weather.failed.append(self._refused)
        world.weather.answered.append(self._refused_in_the_end)
        world.registry.changed.append(self._changed)
        world.cloud.books.destroyed.append(self._destroyed)

    def _living(self, name: str) -> list[Machine]:
        return [
            machine
            for machine in self.world.machines.values()
            if machine.hostname == name and machine.instance.lives
        ]

    def _refused(self, manager: str, method: str, about: str, error: RemoteError) -> None:
        if method == "cloud.create" and error.definite:
            node = self.controller.model.nodes[self.controller.registry.names[about]]
            self._refused_at[self._sort(node)] = self.world.engine.now

    def _refused_in_the_end(self, manager: str, method: str, about: str, answer: object) -> None:
        """A create that went on is refused where its manager asks how it ended."""
        if method == "cloud.finish" and isinstance(answer, RemoteError):
            record = self.world.cloud.instances[about].tags.record or ""
            self._refused(manager, "cloud.create", record, answer)

    def _ended(self, one: Instance) -> None:
        if one.machine is not None and one.machine.secret not in self._heard:
            self._failed[one.tags.pool or ""] += 1
        was_heard = one.machine is not None and one.machine.heard_at is not None
        since = one.created_at if was_heard else self.world.engine.now
        uuid = one.tags.record or ""
        self._lost[uuid] = max(since, self._lost.get(uuid, since))

    def _changed(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        if before is None or after is None or what != "claim" or after.hostname is None:
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
        self._is_its_own(by, after.hostname, "claims")
        flags = self.controller.model.nodes[after.hostname].flags
        # Its store has looked at Slurm right before. What changes after that, a set-up is asked
        # about once more before its create (U10).
        looked_at = self.world.weather.sent_at - LOOK_S
        came = flags & COMES or self.controller.came_at.get(after.hostname, 0.0) >= looked_at
        if after.incarnation != before.incarnation and not came:
            self.world.violate("D16", f"{by} claims {after.hostname}, which is {sorted(flags)}")

    def _is_its_own(self, by: str, name: str, what: str) -> None:
        manager = self.world.managers.get(by)
        if manager is not None and manager.pool.name != self.controller.pool_of[name]:
            self.world.violate("T3", f"{by} {what} {name}, which is of another pool's partition")

    def _ordered(self, by: str, node: Node, argv: Sequence[str]) -> None:
        """An order takes effect: what it ends must not live, and no job be hit by it."""
        self._is_its_own(by, node.name, "orders")
        is_drained = "DRAIN" in node.flags and node.reason is not None
        if is_drained and not node.reason[0].startswith(OURS) and any(o in argv for o in UNDRAINS):
            self.world.violate("D16", f"{by} ends the drain of {node.name}: {node.reason[0]}")
        forbidden = node.flags & {"DRAIN", "DOWN", "RESERVED"}
        if node.reason is not None:
            drained_s = self.controller.model.clock() - node.reason[1]
            if drained_s <= self.world.engine.now - self.world.weather.sent_at + A_SECOND:
                # Somebody drained it while the order was on its way.
                forbidden -= {"DRAIN"}
        if ON in argv and forbidden:
            self.world.violate("D16", f"{by} powers {node.name} up, {sorted(node.flags)}")
        job = self.controller.jobs.get(node.job or "")
        if job is None or not any(one in argv for one in ENDS):
            return
        alive = [machine for machine in self._living(node.name) if is_up(machine)]
        if job.runs and job.on in alive:
            self._hit(job, by, " ".join(argv[2:]))
        since = node.since - EPOCH
        was_sent_before = self.world.weather.sent_at < since
        if "POWERING_UP" in node.flags and not (was_sent_before or self._is_lost(node, since)):
            self.world.violate("U14", f"{by} has job {job.id} queued again, which waits")

    def _is_lost(self, node: Node, since: float) -> bool:
        """Whether no machine comes for what waits there since Slurm called the node up for it.

        The cloud refused one of its size, also before that while it is news; or the machine ended.
        One that Slurm had heard before is not waited for: Slurm itself had it switched off.
        """
        pool = self.world.pools[self.controller.pool_of[node.name]]
        news_s = pool.settings.poll_stale_after + SLACK_S
        lost_at = self._lost.get(self.controller.registry.uuids[node.name], -math.inf)
        refused_at = self._refused_at.get(self._sort(node), -math.inf)
        return lost_at >= since or refused_at >= min(since, self.world.engine.now - news_s)

    def _sort(self, node: Node) -> tuple[str, str]:
        return self.controller.pool_of[node.name], node.size

    def _destroyed(self, one: Instance, by: str) -> None:
        job = next((job for job in self.controller.jobs.values() if job.on is one.machine), None)
        if job is None or not job.runs or one.machine is None or not is_up(one.machine):
            return
        if self.orders.is_killed(one.tags.pool or "", one.id):
            return
        if job.began > self.world.weather.sent_at:
            # The destroy was on its way to the cloud when the job began.
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
        for pool in self.world.pools.values():
            since = max(self.calm.awake(pool), self.latch.open_until.get(pool.name, 0.0))
            yield from self._jobs(pool, since)
            yield from self._idle(pool, since)
            yield from self._switched_off(pool, since)

    def _waiting(self, pool: Pool) -> list[SeatJob]:
        """Its jobs, but for those that its price can never pay for."""
        controller = self.controller
        return [
            job
            for job in controller.jobs.values()
            if controller.pool_of[job.name] == pool.name
            if job.on is not None or controller.is_in_reach(job.name)
        ]

    def _jobs(self, pool: Pool, since: float) -> Iterator[Owed]:
        """Each is run: its node is freed of what was there, booted, and at it undisturbed."""
        boots_in = self._seat_is_free(pool) + RESUME_TIMEOUT_S + BOOTS_S + Times.requeued_for
        failed = self._failed[pool.name]
        if failed >= SIZE_LOOP:
            doubled = pool.settings.boot_fail_after * 2.0 ** min(failed - SIZE_LOOP, 16)
            boots_in += min(LONGEST_REST_S, doubled)
        waiting = self._waiting(pool)
        if pool.settings.max_total_price > 0 and waiting:
            # They take turns: meanwhile Slurm gives up the node of the next, and queues that again.
            since = max(since, self._done_since(pool))
            within = boots_in + max(job.lasts for job in waiting)
            what = f"one of {len(waiting)} jobs that share a price is run to its end"
            yield Owed("PROGRESS", f"jobs {pool.name}", what, since, within)
            return
        for job in waiting:
            within = boots_in if job.on is None else boots_in + job.lasts
            what = f"job {job.id} on {job.name} is run to its end"
            yield Owed("PROGRESS", f"job {job.id} {job.began}", what, since, within)

    def _done_since(self, pool: Pool) -> float:
        """When the last of the pool's jobs was done, give or take a look."""
        of = self.controller.pool_of
        count = sum(of[job.name] == pool.name for job in self.controller.done)
        known, at = self._done.get(pool.name, (0, 0.0))
        if count != known:
            at = self.world.engine.now
            self._done[pool.name] = count, at
        return at

    def _seat_is_free(self, pool: Pool) -> float:
        """Whatever holds a node ends, and its record is cleaned."""
        settings, bounds = pool.settings, self.calm.bounds(pool)
        window = max(settings.claim_window, settings.node_stale_after + SLURMD_TIMEOUT_S)
        silent = bounds.silent(settings.max_nodes, pinged=True)
        return max(silent, bounds.unpaired(3)) + window + settings.settle + bounds.rounds(8)

    def _idle(self, pool: Pool, since: float) -> Iterator[Owed]:
        """Of the machines that are up and have no job, those beyond min_nodes go."""
        if self._waiting(pool):
            return
        up = [one for one in self.world.cloud.living() if one.tags.pool == pool.name]
        over = len(up) - pool.settings.min_nodes
        if over <= 0:
            return
        bounds = self.calm.bounds(pool)
        within = bounds.surplus + SUSPEND_TIMEOUT_S + self._seat_is_free(pool)
        what = f"one of {over} idle machines goes"
        yield Owed("PROGRESS", f"idle {pool.name} {len(up)}", what, since, within)

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
