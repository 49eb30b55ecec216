"""A simulated Slurm whose CLOUD nodes are the records: its controller, its jobs, and its slurmds.

The controller is the model that the store's own tests use (tests/records/slurm_model.py), on the
world's clock. Slurm chooses the nodes: jobs wait for a node by its name, and power it up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from nodemanager.core.model.scheduling import SchedulerVerb
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record, Size
from nodemanager.lib.program import ProgramResult
from nodemanager.records import seats, wire
from nodemanager.records.slurm import uuid_of
from nodemanager.records.slurm_nodes import SlurmNode
from tests.records.slurm_model import UNASKED, Node, SlurmModel, Times
from tests.simulation.choices import LARGE, SMALL, SPOT, UNPRICED
from tests.simulation.cloud import Instance
from tests.simulation.engine import EPOCH
from tests.simulation.machine import Machine
from tests.simulation.registry import Registry, Row
from tests.simulation.slurm import is_up

if TYPE_CHECKING:
    from tests.simulation.world import Shape, World

CLUSTER = "model"
LOOK_EVERY_S = 5.0
SLURMD_TIMEOUT_S, RESUME_TIMEOUT_S, SUSPEND_TIMEOUT_S = 60.0, 300.0, 30.0
SHARE = 0.03
SWAPPED_VERSION = 1_000_000
"""From here on count the versions of another database's rows."""
COMES = frozenset({"POWERED_DOWN", "POWERING_UP"})
ON_ITS_WAY = frozenset({"POWERED_DOWN", "POWER_UP", "POWERING_UP", "NOT_RESPONDING"})
"""A node with no other flags is off, and can come up."""


@dataclass(frozen=True)
class Seating:
    """Mean seconds between two jobs, and of a job; `suspend_time` is Slurm's own, None for never.

    `spare` is how many nodes slurm.conf has besides those that max_nodes lets live, `before` how
    many have a machine of the site's own power saving at first. `sizes` are in place of those that
    are drawn, where there are any. A `second_pool` has nodes, a partition and managers of its own.
    """

    every: float
    job_s: float
    suspend_time: float | None = None
    spare: int = 0
    operators_every: float = 0.0
    before: int = 0
    max_total_price: float = 0.0
    sizes: tuple[Size, ...] = ()
    second_pool: bool = False


def draw_seating(seed: int, *, forced: bool = False) -> Seating | None:
    """Of a few worlds, or `forced` of this one; from a stream of its own.

    Its name spares each world that a test or a mutant names.
    """
    random = Random(f"{seed}/seats525")
    if random.random() >= SHARE and not forced:
        return None
    return Seating(
        every=random.choice((60.0, 150.0, 400.0)),
        job_s=random.choice((40.0, 200.0)),
        suspend_time=random.choice((None, None, 120.0)),
        spare=random.choice((0, 0, 1, 3)),
    )


def with_more(seed: int, seated: Seating) -> Seating:
    """What came to these worlds later, from a stream of its own: each in some of them."""
    random = Random(f"{seed}/seats, and more")
    if random.random() < 0.3:
        seated = replace(seated, operators_every=random.choice((150.0, 300.0, 600.0)))
    if random.random() < 0.3:
        seated = replace(seated, before=random.randrange(1, 4))
    if random.random() < 0.3:
        sizes = random.choice(((), (SMALL, UNPRICED), (SMALL, LARGE, SPOT), (SMALL, SPOT)))
        cap = random.choice((0.0, 0.1, 0.25, 0.6, 1.1))
        seated = replace(seated, max_total_price=cap, sizes=sizes)
    return replace(seated, second_pool=random.random() < 0.3)


def with_seats(shape: Shape, seated: Seating) -> Shape:
    """Pools whose slots are Slurm's nodes, so many as `seated` says."""
    pools = tuple(
        (_seated(settings, seated), poll_time)
        for settings, poll_time in shape.pools[: 1 + seated.second_pool]
    )
    return replace(
        shape,
        pools=pools,
        slots=sum(settings.max_nodes + seated.spare for settings, _ in pools),
        habits=replace(shape.habits, scheduled=True, drain_hook=False),
        fenced=False,
        stampless_pings=False,
        demand_every=0.0,
        operators_every=seated.operators_every,
        heirlooms=0,
        crowd=0,
        proven=True,
        seated=seated,
    )


def _seated(settings: Settings, seated: Seating) -> Settings:
    sizes = seated.sizes or ((SMALL, LARGE) if len(settings.sizes) > 1 else (SMALL,))
    settings = replace(
        settings,
        demand_polled=True,
        scheduled=True,
        scheduler_can=frozenset(SchedulerVerb),
        max_total_price=seated.max_total_price,
        hold_backlog=False,
        prune_after=None,
        sizes=sizes,
    )
    return with_kept_nodes(settings, seated)


def with_kept_nodes(settings: Settings, seated: Seating) -> Settings:
    """With such a min_nodes as this world can reach.

    With several sizes 0: no job may want the size that those nodes have. Where Slurm ends idle
    nodes (SuspendTime), 1 at most: Slurm ends a node of min_nodes like any other, the manager
    boots another. With many, one would be on its way at all times, and the world never at rest.
    An operator who sets min_nodes tells Slurm to spare them, as `slurm-config` prints it.
    """
    most = settings.max_nodes if seated.suspend_time is None else 1
    if len(settings.sizes) > 1:
        most = 0
    return replace(settings, min_nodes=min(settings.min_nodes, most))


@dataclass
class SeatJob:
    """One job of Slurm, for one node. `on` is the machine that runs it, in which of its lives."""

    id: str
    name: str
    lasts: float
    submitted: float
    on: Machine | None = None
    life: int = 0
    began: float = 0.0

    @property
    def runs(self) -> bool:
        """The machine is at it, in truth."""
        return self.on is not None and self.on.life == self.life


class Controller:
    """slurmctld. `ordered` is told of each update by a manager, before it takes effect."""

    def __init__(self, world: World, seated: Seating) -> None:
        self.world, self.seated = world, seated
        names = self._names()
        times = Times(SLURMD_TIMEOUT_S, RESUME_TIMEOUT_S, SUSPEND_TIMEOUT_S, seated.suspend_time)
        self.model = SlurmModel(
            {name: size for of in names.values() for name, size in of.items()},
            lambda: EPOCH + world.engine.now,
            times,
        )
        self.pool_of = {name: pool for pool, of in names.items() for name in of}
        """By node, the pool whose partition it is of, whether that names it just now or not."""
        if seated.second_pool:
            self.model.configured = {pool: tuple(of) for pool, of in names.items()}
            self.model.partitions = dict(self.model.configured)
        self.of: dict[str, tuple[Machine, int]] = {}
        """By node, the machine whose slurmd it heard last, in which of its lives."""
        self.jobs: dict[str, SeatJob] = {}
        self.done: list[SeatJob] = []
        self.requeued = 0
        self.ordered: list[Callable[[str, Node, Sequence[str]], None]] = []
        self.described: dict[str, tuple[int, tuple[str, ...]]] = {}
        self.came_at: dict[str, float] = {}
        """By node, when Slurm last had it switched off or wanted it up."""
        self._random = world.engine.random("seats")
        self._from_before: dict[str, Machine] = {}
        """By node, the machine that the site's own power saving had started."""
        self.registry.begin(self)

    def _names(self) -> dict[str, dict[str, str]]:
        """The nodes of each pool, with their sizes."""
        names: dict[str, dict[str, str]] = {}
        number = 0
        for settings, _ in self.world.shape.pools:
            sizes, of = settings.sizes, names.setdefault(settings.pool, {})
            for _ in range(settings.max_nodes + self.seated.spare):
                size = sizes[number % len(sizes)].name
                number += 1
                of[f"{size}-{number}"] = size
        return names

    def begin(self) -> None:
        self._inherit()
        self._look()
        self._next()

    def _inherit(self) -> None:
        """Some nodes are up on machines that the site's own power saving started, before us.

        They have no tag of ours, and run out by and by. Slurm still has that site's SuspendProgram
        for them: a machine ends with the power of its node.
        """
        random = self.world.engine.random("seats from before")
        names = list(self.model.nodes)
        for name in random.sample(names, min(len(names), self.seated.before)):
            machine = self.world.before_us(name, self.model.nodes[name].size)
            self._from_before[name] = machine
            lives = random.uniform(100.0, 1500.0)
            self.world.engine.after(
                lives, lambda machine=machine: self.world.cloud.end(machine.instance)
            )

    def _suspend(self) -> None:
        for name, machine in list(self._from_before.items()):
            if "POWERING_DOWN" in self.model.nodes[name].flags:
                self.world.cloud.end(machine.instance)
                del self._from_before[name]

    def partition_of(self, pool: str) -> str:
        """The name of that pool's partition."""
        return pool if self.seated.second_pool else next(iter(self.model.partitions))

    def is_in_reach(self, name: str) -> bool:
        """Whether its pool may ever boot a node of that size for the price, on its own (S4)."""
        settings = self.world.pools[self.pool_of[name]].settings
        price = next(one.price for one in settings.sizes if one.name == self.model.nodes[name].size)
        return settings.max_total_price <= 0 or 0 < (price or 0.0) <= settings.max_total_price

    @property
    def registry(self) -> SeatRegistry:
        registry = self.world.registry
        assert isinstance(registry, SeatRegistry)
        return registry

    # Jobs.

    def _next(self) -> None:
        wait = self._random.expovariate(1 / self.seated.every)
        self.world.engine.after(wait, self._submit)

    def _submit(self) -> None:
        if self.world.engine.calm:
            return
        self.look()
        pools = list(self.world.pools.values())
        pool = pools[0] if len(pools) == 1 else self._random.choice(pools)
        busy = {job.name for job in self.jobs.values() if self.pool_of[job.name] == pool.name}
        free = [
            name
            for name in self.model.nodes
            if name not in busy and self.model.is_in_use(name) and self.pool_of[name] == pool.name
        ]
        up = [name for name in free if self.model.nodes[name].takes_work]
        if free and len(busy) < pool.settings.max_nodes:
            name = self._random.choice(up or free)
            number = self.model.submit(name)
            lasts = 5.0 + self._random.expovariate(1 / self.seated.job_s)
            self.jobs[number] = SeatJob(number, name, lasts, self.world.engine.now)
            self.look()
        self._next()

    def _place_jobs(self) -> None:
        """A job that waits goes where Slurm can run it: on a node that is up, or can come up.

        One that is up has it at once, also where its own could come up.
        """
        nodes = self.model.nodes
        for job in self.jobs.values():
            node = nodes[job.name]
            if node.job == job.id or node.takes_work:
                continue
            taken = {other.name for other in self.jobs.values()}
            free = [
                one
                for one in nodes.values()
                if one.name not in taken
                and one.size == node.size
                and self.pool_of[one.name] == self.pool_of[job.name]
            ]
            up = [one for one in free if one.takes_work]
            off = [one for one in free if one.flags - {"NOT_RESPONDING"} == {"POWERED_DOWN"}]
            if up or (off and not node.flags <= ON_ITS_WAY):
                job.name = (up or off)[0].name
                self.model.jobs[job.id].name = job.name

    def _watch_jobs(self) -> None:
        now = self.world.engine.now
        for job in list(self.jobs.values()):
            node = self.model.nodes[job.name]
            if node.job != job.id:
                self._stopped(job)
            elif job.on is None:
                if node.is_asked:
                    self._started(job)
            elif not job.runs:
                # Its machine came up anew, and knows nothing of the job: Slurm queues it again.
                self.model.requeue(job.id)
                self._stopped(job)
            elif now - job.began >= job.lasts and is_up(job.on):
                self.model.end_job(job.id)
                job.on.busy_since = None
                self.done.append(self.jobs.pop(job.id))

    def _started(self, job: SeatJob) -> None:
        machine, life = self.of[job.name]
        if machine.life == life and is_up(machine):
            job.on, job.life, job.began = machine, life, self.world.engine.now
            machine.busy_since = job.began

    def _stopped(self, job: SeatJob) -> None:
        if job.on is None:
            return
        self.requeued += 1
        if job.runs:
            job.on.busy_since = None
        job.on = None

    def cancel(self, job: SeatJob) -> None:
        """By an operator, or whoever it is of."""
        self._stopped(job)
        self.model.end_job(job.id)
        del self.jobs[job.id]

    # Machines.

    def _look(self) -> None:
        self.look()
        self.world.engine.after(LOOK_EVERY_S, self._look)

    def look(self) -> None:
        """See which slurmds answer, and what became of the jobs."""
        reached: dict[str, list[Machine]] = {}
        for machine in self.world.machines.values():
            if machine.hostname in self.model.nodes and machine.up:
                machine.heard_at = machine.heard_at or self.world.engine.now
                if is_up(machine):
                    reached.setdefault(machine.hostname, []).append(machine)
        for name, node in self.model.nodes.items():
            newest = max(reached.get(name, ()), key=_age, default=None)
            self._hear(name, node, newest)
        self.model.settle()
        for name, node in self.model.nodes.items():
            if node.flags & COMES:
                self.came_at[name] = self.world.engine.now
        self._suspend()
        self._watch_jobs()
        self._place_jobs()

    def _hear(self, name: str, node: Node, machine: Machine | None) -> None:
        if machine is None:
            if node.slurmd is not None:
                self.model.kill_slurmd(name)
            return
        if self.of.get(name) != (machine, machine.life):
            self.of[name] = machine, machine.life
            self.model.start_slurmd(name)
        elif node.slurmd is None:
            self.model.hear_again(name)

    def asks(self, instance: Instance) -> bool:
        """Whether its slurmd is one that Slurm asks for a sign of life."""
        machine = instance.machine
        node = None if machine is None else self.model.nodes.get(machine.hostname or "")
        return node is None or not node.flags & UNASKED

    def restart(self, *, killed: bool = False) -> None:
        """slurmctld ends and begins again; jobs that it had not saved are lost.

        Of one that it had not saved as ended its node knows nothing: it ends once more.
        """
        self.look()
        self.model.stop(killed=killed)
        self.model.start()
        for id in self.jobs.keys() - self.model.jobs.keys():
            job = self.jobs.pop(id)
            if job.on is not None and job.runs:
                job.on.busy_since = None
        for id in self.model.jobs.keys() - self.jobs.keys():
            self.model.end_job(id)
        for id, job in self.jobs.items():
            # It may have forgotten that the job waits for another node by now.
            job.name = self.model.jobs[id].name
        self.look()

    # What managers ask and order.

    def run(self, by: str, argv: Sequence[str], timeout: float) -> tuple[float, ProgramResult]:
        """A manager's program has reached the controller: what its clock says, and the answer."""
        self.look()
        name = self.named(argv)
        if name is None:
            return self.registry.now(), self.model.run("slurm", argv, timeout)
        for told in self.ordered:
            told(by, self.model.nodes[name], argv)
        ended = self.model.run("slurm", argv, timeout)
        self._watch_jobs()
        return self.registry.now(), ended

    def named(self, argv: Sequence[str]) -> str | None:
        """The node that an update is about."""
        word = next((one for one in argv if one.startswith("NodeName=")), "")
        name = word.removeprefix("NodeName=")
        return name if name in self.model.nodes else None


def _age(machine: Machine) -> tuple[float, str]:
    return machine.instance.created_at, machine.instance.id


class SeatRegistry(Registry):
    """The records of Slurm's nodes, one for each, bound to it by name."""

    def begin(self, controller: Controller) -> None:
        self.names: dict[str, str] = {}
        self._controller = controller
        self._bind()

    def _bind(self) -> None:
        for slot, node in enumerate(self._controller.model.nodes.values(), 1):
            uuid = uuid_of(CLUSTER, node.name)
            self.names[uuid] = node.name
            binding = seats.bound(node.name, (node.size,), slot, CLUSTER)
            self.insert({"uuid": uuid, "properties": binding}, "server", "seat", age=1.0)
        self.uuids = {name: uuid for uuid, name in self.names.items()}

    def swap(self, rows: dict[str, Row], store_id: str) -> None:
        """An empty one gets its rows from slurm.conf: nobody holds any, and no slurmd was heard.

        Nothing that was judged by the rows before can be written to them.
        """
        super().swap(rows, store_id)
        if not rows:
            self._bind()
            for row in self.rows.values():
                row["version"] += SWAPPED_VERSION

    def _tell(self, before: Record | None, after: Record | None, by: str, what: str) -> None:
        """What slurmds say is no sign of life in the store whose rows the monitors know."""
        if not (self.is_swapped and what in ("ping", "slurmd")):
            super()._tell(before, after, by, what)

    def of(self, name: str) -> Record:
        record = self.record(self.uuids[name])
        assert record is not None
        return record

    def relay(
        self, found: Iterable[SlurmNode], slurmd_timeout: float | None, asked_at: float
    ) -> int:
        """What the nodes say is in their records; gives when it was so, on the store's clock."""
        now = self.now_ns()
        seen = now - int((self.engine.now - asked_at) * 1e9)
        for node in found:
            row = self.rows[self.uuids[node.name]]
            said, last = seats.news(row, node), row["last_ping_at"]
            if said.lives_on and slurmd_timeout is not None:
                self._heard_late(row["uuid"], seen / 1e9 - slurmd_timeout)
            if said.lives and (last is None or not seen < last <= now):
                first = {} if row["first_ping_at"] is not None else {"first_ping_at": seen}
                secret = row["info"][wire.PING_SECRET]
                values = {**said.values, **first, "last_ping_at": seen}
                self.change(row, values, f"secret {secret}", "ping", sign=True)
                for told in self.pinged if not self.is_swapped else ():
                    told(self.of(node.name), secret)
            elif said.values:
                self.change(row, said.values, "server", "slurmd")
        return seen

    def _heard_late(self, uuid: str, at: float) -> None:
        lives = [(life.freed_at, key) for key, life in self.freed.items() if key[0] == uuid]
        if lives and max(lives)[0] < at:
            key = max(lives)[1]
            self.late[key] = replace(self.freed[key], at=at)

    def secret_in(self, uuid: str, incarnation: str | None) -> str:
        """The secret of that life of the record, which its machine has, so to say.

        It tells the monitors which machine is which record's.
        """
        record = self.record(uuid)
        if record is not None and record.incarnation == incarnation and record.ping_secret:
            return record.ping_secret
        lives = (key[1] for key, life in self.freed.items() if life.incarnation == incarnation)
        return next(lives, f"{uuid}/{incarnation}")


class Slurmd(Machine):
    """A machine that runs a slurmd under the name that its user data told it; it pings nobody."""

    def _ping(self) -> None:
        """Nothing: slurmctld hears it (Controller.look)."""
