"""A boot has its cause, and what can't be had boots nothing and is told: D16, U12.

Held against what users truly wanted when the queue was last read, and against nodes that were
surely there: whoever else may be there makes the true lack smaller still.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudState, Job, Record, WorkerState
from nodemanager.core.observe.facts import DemandSeen, SchedulerSeen
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from tests.simulation.cloud import Instance
from tests.simulation.manager import Manager
from tests.simulation.standing import StandingOrders
from tests.simulation.told import Ears, Told
from tests.simulation.world import World

AT_WORK = frozenset({CloudState.PENDING, CloudState.RUNNING})
BOOTS_S = 150.0
"""A node younger than this, by any clock, is within its boot grace."""


class Causes:
    """Watches the boots that plans order, and the lines that tell of jobs."""

    def __init__(self, world: World, told: Told, orders: StandingOrders) -> None:
        self.world, self.told, self.orders = world, told, orders
        self._read: dict[str, tuple[Job, ...]] = {}
        """By manager, the queue as it truly was when it was last read."""
        self.queue: dict[str, tuple[Job, ...]] = {}
        """By manager, that of the newest reading which its daemon has."""
        self._asked_at: dict[str, float] = {}
        self.read_at: dict[str, float] = {}
        """By manager, when that was read, or its scheduler asked for it."""
        self._sent_away: dict[str, set[str]] = defaultdict(set)
        """By pool, the nodes that a plan ever ordered away, or that the cloud would take."""
        self._named: set[tuple[str, str]] = set()
        """Manager and id of each job of which it said that it can't be had."""
        self._owed: dict[str, set[str]] = defaultdict(set)
        """By manager, the jobs of which its newest plan had to say so."""
        world.wishlists.append(self._asked)
        world.given.append(self._given)
        world.events.append(self._logged)
        world.plans.append(self._planned)

    def _asked(self, manager: Manager) -> None:
        self._read[manager.name] = self.world.jobs(manager.pool)
        self._asked_at[manager.name] = self.world.engine.now

    def _given(self, manager: str, message: object) -> None:
        if isinstance(message, DemandSeen) and manager in self._read:
            self.queue[manager] = self._read[manager]
            self.read_at[manager] = self._asked_at[manager]
        elif isinstance(message, SchedulerSeen):
            # Between the question and its answer jobs come and go: it is believed.
            self.queue[manager] = message.jobs
            booted_at = self.world.managers[manager].clock.booted_at
            self.read_at[manager] = booted_at + message.asked_at

    def _logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if event is Event.JOB_UNSATISFIABLE:
            self._named.add((manager.name, str(fields["job"])))

    def _planned(
        self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings
    ) -> None:
        if manager.mode != "apply":
            return
        away = self._sent_away[manager.pool.name]
        away |= {one.node_id for one in (*plan.shutdowns, *plan.drains)}
        away |= {one.node.id for one in plan.views if one.record and one.record.notice}
        queue = self.queue.get(manager.name, ())
        if plan.boots:
            self._boots(manager, plan, queue, settings)
        if plan.aborted is None:
            self._tells(manager, queue, settings)

    def _boots(
        self, manager: Manager, plan: Plan, queue: tuple[Job, ...], settings: Settings
    ) -> None:
        jobs = [job for job in queue if may_be_had(job, settings)]
        reasons = [boot.reason for boot in plan.boots]
        wanted, spare = reasons.count(Reason.WANTED), reasons.count(Reason.BELOW_SPARE_NODES)
        fill = reasons.count(Reason.BELOW_MIN_NODES)
        there = list(self._there(manager, settings))
        idle = 0 if len(settings.sizes) > 1 else sum(is_idle for _, is_idle in there)
        most = sum(job.count for job in jobs)
        if wanted > max(0, most):
            self._wrong("U12", manager, f"boots {wanted} for jobs that want {most}")
        spares = sum(size.spare_nodes for size in settings.sizes)
        if wanted + spare > max(0, most + spares - idle):
            what = f"boots {wanted + spare} for {most} jobs and {spares} spare nodes"
            self._wrong("D16", manager, f"{what}, and {idle} are idle")
        lacks = max(0, settings.min_nodes - len(there) - wanted - spare)
        if fill > lacks:
            names = sorted(node.id for node, _ in there)
            what = f"boots {fill} for a min_nodes of {settings.min_nodes}"
            self._wrong("D16", manager, f"{what}, and {names} are there")
        if len(reasons) != wanted + spare + fill:
            self._wrong("D16", manager, f"boots for {sorted(set(reasons))}")

    def _there(self, manager: Manager, settings: Settings) -> Iterator[tuple[Instance, bool]]:
        """The nodes of which nobody can say that they are not there, and whether each is idle."""
        ears, away = self.told.ears[manager.name], self._sent_away[manager.pool.name]
        cloud, records = ears.newest("cloud"), ears.newest("records")
        if cloud is None or records is None or self.world.clock_lies or self.world.broken:
            return
        family = self.told.family(manager.pool.name)
        lives = [one.tags for one in self.world.cloud.instances.values()]
        for shown in cloud.items.values():
            node = self.world.cloud.instances.get(shown.id)
            record = records.items.get(shown.tags.record or "")
            if node is None or record is None or not node.lives or shown.state not in AT_WORK:
                continue
            if shown.tags.pool != settings.pool or record.incarnation != shown.tags.incarnation:
                continue
            destroyed = node.id in away or any(node.id in one.destroys for one in family)
            # Of a node without a launch time nobody knows whether it still boots (P3).
            is_odd = record.problems or shown.problems or lives.count(shown.tags) > 1
            if destroyed or is_odd or node.id in self.orders.named_ever:
                continue
            if node.id in cloud.doubled:
                # Which of the two it is, if there are two, nobody knows (L4).
                continue
            if self.world.slurm is not None and node.id in self.world.slurm.deaf:
                # Up is what the scheduler hears (D17).
                continue
            if self._is_silent(record, settings) or record.worker_state is WorkerState.DOWN:
                # By a late listing it is silent or down, and so a lack, whatever it says by now.
                continue
            if self._is_new(node, record) or self._is_heard(node, ears, settings):
                yield node, self._shows_idle(record, settings) and self.world.slurm is None

    def _is_new(self, node: Instance, record: Record) -> bool:
        age_s = self.world.engine.now - min(node.created_at, node.launched_at)
        return record.last_ping_at is None and record.claim is not None and age_s < BOOTS_S

    def _is_silent(self, record: Record, settings: Settings) -> bool:
        """Whether its newest word, as listed, is too old (T6), or its grace ended without one."""
        now = self.world.registry.now()
        if record.last_ping_at is None:
            return record.claim is not None and now - record.claim.at > settings.boot_fail_after
        return now - record.last_ping_at > settings.node_stale_after

    def _shows_idle(self, record: Record, settings: Settings) -> bool:
        """Whether it may take work by that listing."""
        return record.last_ping_at is None or record.worker_state is WorkerState.IDLE

    def _is_heard(self, node: Instance, ears: Ears, settings: Settings) -> bool:
        """Whether it said lately that it is up, and nothing else since."""
        machine = node.machine
        words = list(machine.words.values()) if machine is not None else []
        since = self.world.engine.now - settings.poll_stale_after
        return bool(words) and words[-1].arrived >= since and words[-1].state in ("idle", "busy")

    # What can't be had.

    def _tells(self, manager: Manager, queue: tuple[Job, ...], settings: Settings) -> None:
        """U12: whoever reads the log knows of it, by the plan after the one that found it."""
        if self.world.slurm is None:
            for job_id in self._owed[manager.name]:
                if (manager.name, job_id) not in self._named:
                    self._wrong("U12", manager, f"never says that {job_id} can't be had")
        self._owed[manager.name] = {job.id for job in queue if not may_be_had(job, settings)}

    def _wrong(self, rule: str, manager: Manager, why: str) -> None:
        self.world.violate(rule, f"{manager.name}: {why}")


def may_be_had(job: Job, settings: Settings) -> bool:
    """Whether an empty pool could serve the job."""
    fits = [
        size.price or 0.0
        for size in settings.sizes
        if size.cores >= job.cores and size.ram_mb >= job.ram_mb
    ]
    if not fits or job.count > settings.max_nodes:
        return False
    return settings.max_total_price <= 0 or job.count * min(fits) <= settings.max_total_price + 1e-9
