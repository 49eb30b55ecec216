"""A simulated scheduler behind the port: its nodes come up with machines, and it gives them jobs.

Its nodes have the hostnames that machines were told. A machine that is up registers under its own,
as a slurmd does: that ends `down`, never a drain. What waits is `Pool.wanted`, as for `jobs.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, TypeVar

from nodemanager.core.model.scheduling import OURS, SchedulerNode, SchedulerVerb
from nodemanager.core.model.world import CloudState, Job, Listed, WorkerState
from nodemanager.errors import SchedulerError, SchedulerRefused
from tests.simulation.engine import EPOCH, Engine
from tests.simulation.machine import Machine
from tests.simulation.registry import HOSTNAME
from tests.simulation.weather import Line

if TYPE_CHECKING:
    from tests.simulation.manager import Manager
    from tests.simulation.world import Pool, Shape, World

T = TypeVar("T")

TIMEOUT_S = 20.0
LOOK_EVERY_S = 5.0
GIVEN_UP_AFTER_S = 120.0
"""After so long without an answer of a node's own, its job is queued again (SlurmdTimeout)."""
NOT_YET_UP = "not yet up"
BUSY, IDLE = WorkerState.BUSY, WorkerState.IDLE
ASKED_IN_S = 4.0
"""So long after its start slurmctld has slurmds register again; until then it knows no start."""
SAVED_WITHIN_S = 5.0
"""A change is on slurmctld's disk by then."""
SHARE = 0.045


@dataclass(frozen=True)
class Dispatching:
    """How the scheduler gives out work: a round every so many seconds, and jobs of that length."""

    every: float
    job_s: float


def draw_dispatching(seed: int) -> Dispatching | None:
    """Of a few worlds; from a stream of its own, whose name spares each world that a test names."""
    random = Random(f"{seed}/slurm9391")
    if random.random() >= SHARE:
        return None
    return Dispatching(random.choice((5.0, 15.0, 60.0)), random.choice((40.0, 200.0)))


def with_dispatcher(shape: Shape, dispatching: Dispatching) -> Shape:
    """Pools that ask a scheduler; nothing that an operator did, and no price, is in its way.

    Its names are those of the slots, which the registry gives in turn (U12).
    """
    pools = tuple(
        (
            replace(
                settings,
                demand_polled=True,
                scheduled=True,
                scheduler_can=frozenset(SchedulerVerb),
                max_total_price=0.0,
                hold_backlog=False,
                hostname=None if shape.fenced else HOSTNAME,
            ),
            poll_time,
        )
        for settings, poll_time in shape.pools
    )
    habits = replace(shape.habits, scheduled=True, drain_hook=False)
    return replace(shape, pools=pools, habits=habits, operators_every=0.0, dispatching=dispatching)


RETIRED = "it has no record"
"""The reason of an operator's drain."""


@dataclass(eq=False)
class Node:
    """One node of the scheduler, and the machine that last registered under its name.

    `drained` is the reason of the drain. `works_since` is since when it has had its job; `lost_at`
    is since when its machine does not answer. `started_at` is when that one's slurmd was started; a
    controller that was killed does not know it before that registers again.
    """

    name: str
    machine: Machine | None = None
    life: int = 0
    drained: str | None = None
    down: str | None = NOT_YET_UP
    reserved: bool = False
    works_since: float | None = None
    pool: Pool | None = None
    lost_at: float | None = None
    weight: int = 1
    features: tuple[str, ...] = ()
    drained_at: float = 0.0
    started_at: int | None = None

    @property
    def answers(self) -> bool:
        return self.machine is not None and self.lost_at is None

    @property
    def is_heard(self) -> bool:
        """Whether it answers, at work or idle, so that it lives as far as anyone can tell."""
        return self.answers and self.told().state in (BUSY, IDLE)

    @property
    def is_free(self) -> bool:
        kept = self.drained is not None or self.down is not None or self.reserved
        return self.answers and not kept and self.works_since is None

    def told(self) -> SchedulerNode:
        state = WorkerState.IDLE if self.answers else WorkerState.UNKNOWN
        if self.works_since is not None:
            state = WorkerState.BUSY
        elif self.down is not None and self.down != NOT_YET_UP:
            state = WorkerState.DOWN
        elif self.reserved:
            # The adapter takes no word but idle alone for idle.
            state = WorkerState.UNKNOWN
        return SchedulerNode(
            self.name,
            state,
            draining=self.drained is not None,
            reserved=self.reserved,
            reason=self.drained or (self.down if state is WorkerState.DOWN else None) or "",
            features=self.features,
            weight=self.weight,
            cores=1,
            responds=self.answers,
            started_at=self.started_at,
        )


class Slurm:
    """The controller. `marked` is told of each node that somebody says is gone, before it is."""

    def __init__(self, world: World, dispatching: Dispatching) -> None:
        self.world, self.dispatching = world, dispatching
        hosts = map(world.registry.naming.host, range(1, world.shape.slots + 1))
        self.nodes: dict[str, Node] = {name: Node(name) for name in hosts}
        """slurm.conf names one for each slot; another comes with its machine."""
        self.marked: list[Callable[[Node, str], None]] = []
        self.started: dict[str, int] = dict.fromkeys(world.pools, 0)
        """How many jobs began, by pool."""
        self.ended_at: dict[str, float] = dict.fromkeys(world.pools, 0.0)
        """When a job last began or ended, by pool."""
        self.requeued = 0
        self.forgotten: dict[str, float] = {}
        """Nodes whose drain of ours somebody else ended, and when."""
        self.lacks: dict[str, float] = {}
        """Names that slurm.conf lacks, since when: no machine joins under them."""
        self.deaf: set[str] = set()
        """The ids of nodes that are up and never join: their slurmd does not start."""
        self.mistaken: set[str] = set()
        """Those of them that pinged while the machine before them was still called up."""
        self.joined: dict[str, float] = {}
        """When each node's machine first registered."""
        self.deafens: set[str] = set()
        """Pools whose machines are such when they first come up."""
        self._started: dict[tuple[str, int], int] = {}
        """When each machine's slurmd was started, by node id and life."""
        self._began = -ASKED_IN_S
        self._random = world.engine.random("slurm")
        self._look()
        for pool in world.pools.values():
            self._next(pool)

    def _next(self, pool: Pool) -> None:
        self.world.engine.after(self.dispatching.every, lambda: self._round(pool))

    def _round(self, pool: Pool) -> None:
        self.look()
        free = [node for node in self.nodes.values() if node.is_free and self._is_of(node, pool)]
        self._random.shuffle(free)
        for node in free[: pool.wanted]:
            assert node.machine is not None
            pool.wanted -= 1
            node.works_since, node.pool = self.world.engine.now, pool
            self.started[pool.name] += 1
            self.ended_at[pool.name] = self.world.engine.now
            node.machine.begin_job(5.0 + self._random.expovariate(1 / self.dispatching.job_s))
        self._next(pool)

    def _is_of(self, node: Node, pool: Pool) -> bool:
        return node.machine is not None and node.machine.instance.tags.pool == pool.name

    def _look(self) -> None:
        self.look()
        self.world.engine.after(LOOK_EVERY_S, self._look)

    def look(self) -> None:
        """See which machines are up, which answer no more, and whose job is done."""
        for machine in self.world.machines.values():
            name = machine.hostname
            if name is not None and is_up(machine) and self._joins(machine, name):
                self._registers(machine, name)
        now = self.world.engine.now
        for node in self.nodes.values():
            machine = node.machine
            if machine is None:
                continue
            if machine.life != node.life or not is_up(machine):
                node.lost_at = now if node.lost_at is None else node.lost_at
            else:
                node.lost_at = None
                if now - self._began > ASKED_IN_S:
                    node.started_at = self._start_of(machine)
            if node.works_since is not None and machine.life != node.life:
                # It came up anew, and does not know of the job any more.
                if is_up(machine):
                    self._requeue(node)
            elif node.works_since is not None and machine.busy_since is None and node.answers:
                self._done(node)
            if node.drained == RETIRED and not machine.instance.lives:
                # The operator has waited for that, and gives the name back.
                node.drained = None
            if node.lost_at is not None and now - node.lost_at > GIVEN_UP_AFTER_S:
                self.give_up(node, "Not responding")

    def _start_of(self, machine: Machine) -> int:
        began = int(EPOCH + self.world.engine.now)
        return self._started.setdefault((machine.instance.id, machine.life), began)

    def _joins(self, machine: Machine, name: str) -> bool:
        """Whether its slurmd starts and finds its name."""
        one = machine.instance
        node = self.nodes.get(name)
        if one.tags.pool in self.deafens and (node is None or node.machine is not machine):
            self.deaf.add(one.id)
        if one.id in self.deaf and node is not None and node.told().state in (BUSY, IDLE):
            self.mistaken.add(one.id)
        return name not in self.lacks and one.id not in self.deaf

    def _registers(self, machine: Machine, name: str) -> None:
        node = self.nodes.setdefault(name, Node(name))
        if node.machine is machine and node.life == machine.life:
            if node.down is not None and node.lost_at is not None:
                node.down = None
            return
        self.joined.setdefault(machine.instance.id, self.world.engine.now)
        before = node.machine
        if before is None:
            # In the order in which they came first.
            self.nodes[name] = self.nodes.pop(name)
        if (
            before is not None
            and before is not machine
            and is_up(before)
            and before.hostname == name
            and before.instance.created_at > machine.instance.created_at
        ):
            # Two of one name: the scheduler hears the newer one.
            return
        self._requeue(node)
        if node.drained == RETIRED and node.machine is not machine:
            # That was of the machine before it.
            node.drained = None
        node.machine, node.life, node.down, node.lost_at = machine, machine.life, None, None
        node.started_at = self._start_of(machine)

    def _done(self, node: Node) -> None:
        node.works_since = None
        if node.pool is not None:
            self.ended_at[node.pool.name] = self.world.engine.now

    def _requeue(self, node: Node) -> None:
        if node.works_since is None:
            return
        assert node.pool is not None
        node.pool.wanted += 1
        self.requeued += 1
        self._done(node)
        machine = node.machine
        if machine is not None and machine.life == node.life:
            # What still runs there is killed.
            machine.busy_since = None

    def take_name(self, name: str) -> None:
        """slurm.conf is read again without that name: what ran there has failed."""
        self.lacks[name] = self.world.engine.now
        node = self.nodes.pop(name, None)
        if node is not None and node.works_since is not None:
            self._done(node)
            if node.machine is not None and node.machine.life == node.life:
                node.machine.busy_since = None

    def give_name_back(self, name: str) -> None:
        if name in self.lacks:
            del self.lacks[name]
            self.nodes[name] = Node(name)

    def kill(self) -> None:
        """slurmctld is killed and started again: drains of the last seconds are lost."""
        now = self.world.engine.now
        self.restart()
        for node in self.nodes.values():
            if node.drained is not None and now - node.drained_at < SAVED_WITHIN_S:
                if node.drained.startswith(OURS):
                    self.forgotten[node.name] = now
                node.drained = None

    def restart(self) -> None:
        """slurmctld ends and begins again: it does not know when the slurmds were started."""
        self._began = self.world.engine.now
        for node in self.nodes.values():
            node.started_at = None

    def give_up(self, node: Node, why: str) -> None:
        if node.down is None:
            node.down = why
        self._requeue(node)

    def has_another_of_its_name(self, machine: Machine | None) -> bool:
        """Whether another machine registered last under the machine's name."""
        node = None if machine is None else self.nodes.get(machine.hostname or "")
        return node is not None and node.machine not in (None, machine)

    def works(self, machine: Machine | None) -> bool:
        """Whether it has a job, as far as the scheduler knows."""
        nodes = (one for one in self.nodes.values() if one.machine is machine)
        return machine is not None and any(one.works_since is not None for one in nodes)

    def retire(self, machine: Machine | None) -> None:
        """An operator drains the node of that machine, which has no record."""
        for node in self.nodes.values():
            if machine is not None and node.machine is machine:
                node.drained = RETIRED

    # What a manager asks and orders.

    def queue(self, pool: Pool) -> tuple[Job, ...]:
        return self.world.jobs(pool)

    def listing(self) -> tuple[SchedulerNode, ...]:
        self.look()
        return tuple(node.told() for node in self.nodes.values())

    @property
    def listed(self) -> Listed[SchedulerNode]:
        """With all names that there are: slurm.conf says how many."""
        return Listed(self.listing(), names=frozenset(self.nodes))

    def node(self, name: str) -> Node:
        found = self.nodes.get(name)
        if found is None:
            raise SchedulerRefused(f"invalid node name {name}")
        return found

    def drain(self, name: str, reason: str) -> None:
        node = self.node(name)
        node.drained, node.drained_at = f"{OURS}{reason}", self.world.engine.now

    def resume(self, name: str) -> None:
        node = self.node(name)
        node.drained = None
        if node.answers:
            node.down = None

    def mark_down(self, name: str, reason: str, by: str) -> None:
        node = self.node(name)
        for told in self.marked:
            told(node, by)
        node.drained = None
        node.down = f"{OURS}{reason}"
        self._requeue(node)

    def describe(
        self, name: str, weight: int, features: tuple[str, ...], drop: tuple[str, ...]
    ) -> None:
        node = self.node(name)
        others = [
            one for one in node.features if not one.startswith("instancetype=") and one not in drop
        ]
        node.weight, node.features = weight, (*others, *features)


def is_up(machine: Machine) -> bool:
    """Whether the scheduler reaches it."""
    instance = machine.instance
    runs = instance.lives and instance.state is CloudState.RUNNING
    reached = machine.on and machine.heard_at is not None and machine.up
    return runs and reached and not machine.cut_off and not machine.frozen


class SimScheduler:
    """The port, over a line that may fail, for one manager."""

    provider = "simulated"
    can = frozenset(SchedulerVerb)

    def __init__(self, slurm: Slurm, line: Line, manager: Manager) -> None:
        self._slurm, self._line, self._manager = slurm, line, manager

    def queue(self) -> tuple[Job, ...]:
        world, pool = self._slurm.world, self._manager.pool

        def asked() -> tuple[Job, ...]:
            self._manager.wishlist_at = world.engine.now
            return self._slurm.queue(pool)

        return self._line.call("queue", asked)

    def nodes(self) -> Listed[SchedulerNode]:
        return self._line.call("nodes", lambda: self._slurm.listed)

    def drain(self, node: str, reason: str) -> None:
        self._line.call("drain", lambda: self._slurm.drain(node, reason), node)

    def resume(self, node: str) -> None:
        self._line.call("resume", lambda: self._slurm.resume(node), node)

    def mark_down(self, node: str, reason: str, *, had_joined: bool = False) -> bool:
        by = self._manager.name
        self._line.call("down", lambda: self._slurm.mark_down(node, reason, by), node)
        return True

    def power_up(self, node: str) -> None:
        raise SchedulerRefused("it switches no nodes off")

    def describe(
        self, node: str, weight: int, features: tuple[str, ...], drop: tuple[str, ...] = ()
    ) -> None:
        self._line.call(
            "describe", lambda: self._slurm.describe(node, weight, features, drop), node
        )

    def comment(self, job: str, text: str) -> None:
        self._line.call("comment", lambda: None, job)

    def cancel(self, job: str) -> None:
        self._line.call("cancel", lambda: None, job)


def scheduler_line(engine: Engine, world: World, manager: Manager) -> Line:
    return Line(
        engine,
        world.weather,
        manager.process,
        server="scheduler",
        timeout=TIMEOUT_S,
        error=SchedulerError,
    )
