"""One simulated world: a cloud, a record API, pools with their managers, nodes, and watchers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import CLOCK_STEP_S, Settings
from nodemanager.core.model.world import CloudState, Job, Listed, Record, Tags
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.replies import Reply
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import NodeManagerError
from nodemanager.journal.api import OpenIntent
from nodemanager.journal.kept import MARKS
from nodemanager.lease.keeper import Term
from nodemanager.records import wire
from tests.simulation.cloud import CloudTraits, Instance, SimCloud, SimDriver
from tests.simulation.engine import Engine, SimClock
from tests.simulation.hosts import Host, LeaseRows, Leasing, fenced_line
from tests.simulation.machine import Habits, Machine, Moods
from tests.simulation.manager import CLOUD_TIMEOUT_S, STORE_TIMEOUT_S, Facts, Manager, SimLog
from tests.simulation.measured import Measured
from tests.simulation.pen import Paper
from tests.simulation.registry import CasStore, Registry
from tests.simulation.seats import Controller, Seating, SeatRegistry, Slurmd
from tests.simulation.slurm import Dispatching, SimScheduler, Slurm, scheduler_line
from tests.simulation.weather import Weather, cloud_line, store_line

STEP_MATTERS_S = 3000.0
"""Longer than any window here: no stamp from before a step is judged later."""
EVERYONE = "*"
STEP_READ_S = 5.0
"""A step is measured by two readings, each good to half a round trip."""


@dataclass
class Pool:
    """One pool: its settings, its managers' state directory, what its users want."""

    name: str
    settings: Settings
    poll_time: float
    clock: SimClock
    """Of the machine that its managers run on."""
    journal: Paper
    facts: Facts = field(default_factory=Facts)
    wanted: int = 0
    clock_read_at: float = 0.0
    wishlist_fails: bool = False
    odd_jobs: tuple[Job, ...] = ()
    """What the wishlist asks for besides."""
    holder: str | None = None
    """Who holds its lock, in truth."""
    leases: LeaseRows = field(init=False)
    hosts: list[Host] = field(default_factory=list)
    """Its managers' machines, where they have a lease in a database."""
    manager: Manager | None = None
    shadow: Manager | None = None
    starts: int = 0
    holds: set[str] = field(default_factory=set)
    """What an operator's command has on hold: said so, and not released since."""

    def move_clocks(self, by: float) -> None:
        """The wall clock of each machine that a manager of it runs on."""
        for clock in (self.clock, *(host.clock for host in self.hosts)):
            clock.error += by

    def open_intents(self) -> tuple[OpenIntent, ...]:
        """What the journal has open, also while its disk fails."""
        return self.journal.whole().open_intents()

    def held(self) -> list[str]:
        """What is held by name."""
        return sorted(self.journal.whole().kept(MARKS).holds)


@dataclass(frozen=True)
class Shape:
    """What a world is made of; the faults come on top."""

    pools: tuple[tuple[Settings, float], ...]
    slots: int
    traits: CloudTraits
    habits: Habits
    fenced: bool = False
    stampless_pings: bool = False
    demand_every: float = 0.0
    heirlooms: int = 0
    """So many records were there before the first manager, some with a node."""
    proven: bool = True
    """The adapters prove their listings complete (L2)."""
    sqlite: bool = False
    """The managers' journals are files, and not kept in memory."""
    operators_every: float = 0.0
    """Mean seconds between two commands of a pool's operators, 0 where they give none."""
    dispatching: Dispatching | None = None
    """How a scheduler gives out the work, and is told to drain; None where the pools have none."""
    seated: Seating | None = None
    """The records are Slurm's own nodes, and how its users submit jobs; None for another store."""
    crowd: int = 0
    """So many records more were there before the first manager, all leaked."""
    leasing: Leasing | None = None
    """How the managers of a pool share a lease; None where each pool has one machine."""
    setups: int = 3
    """So many creates run at once, at the most, so many destroys and so many cleans: most worlds
    have had these numbers from the first on."""
    shutdowns: int = 2
    cleaners: int = 1


@dataclass(frozen=True)
class Violation:
    """A rule that was broken; `at` is boottime."""

    rule: str
    at: float
    what: str


class Bulletin:
    """What record listings show other than what is so, and who is told of each."""

    def __init__(self) -> None:
        self.alterations: list[Callable[[tuple[Record, ...]], Listed[Record]]] = []
        self.clock_lie = 0.0
        self.told: list[Callable[[str, float, float, Listed[Record]], None]] = []

    def tell(self, manager: str, started: float, ended: float, listed: Listed[Record]) -> None:
        for told in self.told:
            told(manager, started, ended, listed)


class World:
    """Everything, and the only place where its parts meet."""

    def __init__(self, seed: str, shape: Shape, *, verbose: bool = False) -> None:
        self.seed, self.shape, self.verbose = seed, shape, verbose
        self.engine = Engine(seed)
        self.quiet = SimLog(lambda event, fields: None, verbose=False)
        """For what no monitor needs to hear."""
        self.weather = Weather(self.engine)
        self.cloud = SimCloud(self.engine, shape.traits, self._boot)
        kind = Registry if shape.seated is None else SeatRegistry
        self.registry = kind(
            self.engine,
            slots=shape.slots,
            stampless_pings=shape.stampless_pings,
            keeps_addresses=not shape.fenced,
        )
        self.bulletin = Bulletin()
        self.moods = Moods()
        self.machines: dict[str, Machine] = {}
        self.pools = {
            settings.pool: self._pool(settings, poll_time) for settings, poll_time in shape.pools
        }
        self.managers: dict[str, Manager] = {}
        self.violations: list[Violation] = []
        self.enough: Callable[[str], bool] = lambda rule: False
        """Whether a violation of that rule is all that is wanted of the run."""
        self.may_break: str | None = None
        """The assumption that the scenario may break."""
        self.broken: dict[str, float] = {}
        self._broken_for: dict[str, set[str]] = {}
        self.trace: list[str] = []
        self.plans: list[Callable[[Manager, Plan, Snapshot, Settings], None]] = []
        self.events: list[Callable[[Manager, Event, dict[str, object]], None]] = []
        self.given: list[Callable[[str, object], None]] = []
        self.handed: list[Callable[[Manager, object], None]] = []
        """Told what an actor of a manager is told by its others, at that moment."""
        self.starts: list[Callable[[Manager], None]] = []
        self.wishlists: list[Callable[[Manager], None]] = []
        self.calms: list[Callable[[], None]] = []
        """What ends with the storm, wherever it stands."""
        self.replies: list[Callable[[Reply], None]] = []
        """Told what each operator was answered."""
        self.planned_count = 0
        self.clock_lies = 0.0
        """Seconds by which an age may be wrong: what no reading showed, or not to the second."""
        self.clock_steps: list[tuple[float, float]] = []
        self._one_clock_steps: list[tuple[float, float]] = []
        self.open_breakers: dict[str, bool] = {}
        self.weather.answered.append(self._clock_read)
        self.measured = Measured(self)
        self._addresses = 0
        dispatching = shape.dispatching
        self.slurm = None if dispatching is None else Slurm(self, dispatching)
        self.controller = None if shape.seated is None else Controller(self, shape.seated)
        self._random = self.engine.random("world")
        self._secrets = self.engine.random("secrets")

    def _pool(self, settings: Settings, poll_time: float) -> Pool:
        clock = SimClock(self.engine)
        journal = Paper(settings.pool, clock, sqlite=self.shape.sqlite)
        journal.clockless = self._missed_steps
        pool = Pool(settings.pool, settings, poll_time, clock, journal)
        pool.leases = LeaseRows(SimClock(self.engine))
        leasing = self.shape.leasing
        if leasing is not None:
            pool.hosts = [
                Host(self, pool, f"{pool.name}-host{number}", leasing, date)
                for number, date in enumerate(leasing.dates)
            ]
        return pool

    # What the product draws at random.

    def token_hex(self, size: int) -> str:
        return f"{self._secrets.getrandbits(8 * size):0{2 * size}x}"

    # Clocks.

    def step_store_clock(self, step: float) -> None:
        self.registry.clock_error += step
        self.measured.stepped()
        self.clock_lies += STEP_READ_S
        before = self.clock_steps[-1] if self.clock_steps else None
        self.clock_steps.append((self.engine.now, step))
        if self.shape.stampless_pings:
            # A version that does not move with its pings hides how new their stamps are.
            self.clock_lies += abs(step)
        if before is not None and any(
            pool.clock_read_at < before[0] for pool in self.pools.values()
        ):
            self.clock_lies += abs(step) + abs(before[1])
            self.break_assumption(
                "A3", f"steps of {before[1]:.0f} and {step:.0f} s came unmeasured"
            )

    def step_one_clock(self, step: float) -> None:
        """The store runs on the managers' machine, and its date moves."""
        self.step_store_clock(step)
        for pool in self.pools.values():
            pool.move_clocks(step)
        self._one_clock_steps.append((self.engine.now, step))

    def _clock_read(self, manager: str, method: str, about: str, result: object) -> None:
        if method != "store.time":
            return
        one = self.managers[manager]
        pool = one.pool
        before, pool.clock_read_at = pool.clock_read_at, self.engine.now
        if before < one.clock.booted_at:
            # Over a reboot nothing witnesses what both clocks did together.
            step = sum(step for at, step in self._one_clock_steps if at > before)
            if step:
                self.clock_lies += abs(step)
                self.break_assumption("A3", f"the one clock moved by {step:.0f} s over a reboot")

    def _missed_steps(self, name: str | None = None) -> None:
        """One starts without a journal, or finds it lost: it has not measured the steps before."""
        manager = self.managers.get(name or "")
        began = self.engine.now if manager is None else manager.started_at
        for at, step in self.clock_steps:
            if at <= began and self.engine.now - at < STEP_MATTERS_S and abs(step) > CLOCK_STEP_S:
                self.clock_lies += abs(step)
                self.break_assumption("A3", f"a step of {step:.0f} s was not measured")

    # Managers.

    def start(self, pool: Pool, *, mode: str = "apply") -> Manager:
        manager = self._new(pool, mode)
        if mode != "apply":
            pool.shadow = manager
        return manager

    def on_duty(self, host: Host, term: Term | None) -> Manager:
        """The actors of a host that acts under `term`, or stands by."""
        return self._new(host.pool, "standby" if term is None else "apply", host, term)

    def _new(
        self, pool: Pool, mode: str, host: Host | None = None, term: Term | None = None
    ) -> Manager:
        pool.starts += 1
        if mode != "apply":
            self._missed_steps()
        name = f"{pool.name}-{pool.starts}"
        manager = Manager(self, pool, name, mode=mode, host=host, term=term)
        self.managers[manager.name] = manager
        if mode == "apply":
            pool.manager, pool.holder = manager, manager.name
            for told in self.starts:
                told(manager)
        self.note(f"{manager.name} starts ({mode})")
        return manager

    def start_again(self, pool: Pool) -> None:
        """As systemd does it, unless one runs."""
        for host in pool.hosts:
            if not host.alive:
                host.start()
        if not pool.hosts and (pool.manager is None or not pool.manager.alive):
            self.start(pool)

    def driver(self, manager: Manager) -> SimDriver:
        line = cloud_line(self.engine, self.weather, manager.process, CLOUD_TIMEOUT_S)
        return SimDriver(self.cloud, line, manager.pool.name, manager.name)

    def store(self, manager: Manager) -> Any:
        line: Any = store_line(self.engine, self.weather, manager.process, STORE_TIMEOUT_S)
        if self.controller is not None:
            from tests.simulation.seat_store import SeatStore

            slurm_line = scheduler_line(self.engine, self, manager)
            return SeatStore(
                self.controller,
                line,
                slurm_line,
                manager.name,
                self.bulletin,
                clock=manager.clock,
            )
        if self.shape.fenced:
            # Its client's libraries are heavy.
            from tests.simulation.arvados import FencedStore

            return FencedStore(
                self.registry,
                line,
                manager.name,
                self.bulletin,
                timeout=STORE_TIMEOUT_S,
                clock=manager.clock,
            )
        line = fenced_line(line, self.registry, manager.pool.name, manager.term)
        return CasStore(self.registry, line, manager.name, self.bulletin, clock=manager.clock)

    def scheduler(self, manager: Manager) -> Any:
        line = scheduler_line(self.engine, self, manager)
        if self.controller is not None:
            from tests.simulation.seat_store import SeatScheduler

            return SeatScheduler(self.controller, line, manager)
        return None if self.slurm is None else SimScheduler(self.slurm, line, manager)

    def wishlist(self, manager: Manager) -> tuple[Job, ...]:
        if manager.pool.wishlist_fails:
            raise NodeManagerError("the wishlist command failed")
        manager.wishlist_at = self.engine.now
        for told in self.wishlists:
            told(manager)
        return self.jobs(manager.pool)

    def jobs(self, pool: Pool) -> tuple[Job, ...]:
        """What the pool's users have in the queue."""
        jobs = tuple(Job(f"j{number}") for number in range(pool.wanted))
        return jobs + pool.odd_jobs

    def users(self) -> None:
        """What the users want changes by and by."""
        random = self.engine.random("users")

        def change(pool: Pool) -> None:
            if not self.engine.calm:
                pool.wanted = random.randrange(pool.settings.max_nodes + 2)
                wait = random.expovariate(1 / self.shape.demand_every)
                self.engine.after(wait, lambda: change(pool))

        if self.shape.demand_every:
            for pool in self.pools.values():
                change(pool)

    def before_us(self, name: str, size: str) -> Machine:
        """A machine of that name that is up, which somebody else has started."""
        node = self.cloud.start(tags=Tags(), size=size, name=name, by="somebody")
        self._boot(node, name)
        self.cloud.set_state(node, CloudState.RUNNING)
        assert node.machine is not None
        node.machine.up = True
        return node.machine

    def inherit(self) -> None:
        """Records that were there before us: clean, leaked, of others, and of nodes that live."""
        random = self.engine.random("heirlooms")
        names = [None, None, "elsewhere", *self.pools]
        long_leaked = 0
        for _ in range(self.shape.heirlooms):
            pool = random.choice(names)
            kind = random.choice(("clean", "leaked", "leaked", "living", "long leaked"))
            if kind == "long leaked":
                # The first of them at slot 0, which is one.
                self._leaked(pool, long_leaked, random, age=1000.0)
                long_leaked = max(long_leaked, self.shape.slots) + 1
                continue
            values: dict[str, object] = {"info": {}, "properties": {}}
            if pool is not None:
                values["properties"] = {wire.POOL: pool}
            row = self.registry.insert(values, "server", "heirloom")
            record = self.registry.record(row["uuid"])
            assert record is not None
            if kind == "clean":
                continue
            tags = Tags(pool, None, None)
            node = self.cloud.start(tags=tags, size="s.1", name="old", by="somebody")
            self._boot(node, f"{record.uuid}?{record.ping_secret}")
            if kind == "leaked":
                lives = random.random() * 400
                self.engine.after(lives, lambda node=node: self.cloud.end(node))
        for slot in range(1, self.shape.crowd + 1):
            # The first plan frees the old ones; all the others become stale at once after that.
            self._leaked(next(iter(self.pools)), slot, random, age=1000.0 if slot < 4 else 0.0)

    def _leaked(self, pool: str | None, slot: int, random: Random, *, age: float = 0.0) -> None:
        """A record that holds its slot since long ago, and whose node is no more; 0 is a slot."""
        before = self.registry.now_ns() - int(1000e9 * (1 + random.random()))
        values: dict[str, object] = {
            "properties": {} if pool is None else {wire.POOL: pool},
            "info": {wire.INSTANCE_ID: f"i-gone{slot}"},
            "slot_number": slot,
            "hostname": f"compute{slot}",
            "first_ping_at": before,
            "last_ping_at": before,
        }
        self.registry.insert(values, "server", "heirloom", age=age)

    # Nodes.

    def _boot(self, instance: Instance, user_data: str) -> None:
        uuid, _, secret = user_data.partition("?")
        kind = Machine
        if self.controller is not None:
            # Its user data is a name, which its slurmd takes.
            kind, uuid = Slurmd, instance.tags.record or ""
            secret = self.controller.registry.secret_in(uuid, instance.tags.incarnation)
        self._addresses += 1
        machine = kind(
            self.engine,
            self.cloud,
            self.registry,
            self.weather,
            self.shape.habits,
            self.moods,
            instance,
            uuid,
            secret,
            # A few addresses for all that ever live, so that they are used again.
            address=f"10.0.0.{self._addresses % 11}",
            wanted=self._is_wanted,
        )
        if self.controller is not None:
            machine.hostname = user_data
        instance.machine = machine
        self.machines[instance.id] = machine
        self.note(f"{instance.id} is created for {uuid[-4:]} by {instance.by}")
        machine.boot()

    def _is_wanted(self, machine: Machine) -> bool:
        pool = self.pools.get(machine.instance.tags.pool or "")
        return pool is None or not pool.settings.demand_polled or pool.wanted > 0

    def stranger(self, pool: str | None) -> Instance:
        """A node that nobody here made; without a tag, or of another pool."""
        tags = Tags(pool, None, None)
        return self.cloud.start(tags=tags, size="s.1", name="stranger", by="somebody")

    # What is told.

    def planned(self, manager: Manager, plan: Plan, snapshot: Snapshot, settings: Settings) -> None:
        self.planned_count += 1
        self.open_breakers[manager.name] = plan.breaker.is_open
        for told in self.plans:
            told(manager, plan, snapshot, settings)

    def heard(self, manager: str, message: object) -> None:
        for told in self.given:
            told(manager, message)

    def logged(self, manager: Manager, event: Event, fields: dict[str, object]) -> None:
        if self.verbose:
            shown = " ".join(f"{key}={value}" for key, value in fields.items() if value is not None)
            self.note(f"{manager.name} {event.value} {shown}")
        for told in self.events:
            told(manager, event, fields)

    def died(self, actor: str, error: BaseException) -> None:
        self.violate("CRASH", f"{actor}: {type(error).__name__}: {error}")

    def note(self, line: str) -> None:
        if self.verbose:
            self.trace.append(f"{self.engine.now - 100_000.0:9.2f} {line}")

    def break_assumption(self, which: str, why: str, *about: str) -> None:
        """It does not hold any more for these nodes and records; for none said, for all."""
        if which not in self.broken:
            self.broken[which] = self.engine.now
            self.note(f"!! {which} is broken: {why}")
        self._broken_for.setdefault(which, set()).update(about or (EVERYONE,))

    def keep_assumption(self, which: str, *about: str) -> None:
        """It holds again for these nodes and records."""
        left = self._broken_for.get(which, set())
        left.difference_update(about)
        if not left:
            self.broken.pop(which, None)

    def is_excused(self, *names: str | None, which: str | None = None) -> bool:
        """Whether an assumption, or that one, is broken for one of these nodes and records."""
        found = self._broken_for.values() if which is None else [self._broken_for.get(which, set())]
        return any(EVERYONE in one or not one.isdisjoint(names) for one in found)

    def violate(self, rule: str, what: str) -> None:
        self.violations.append(Violation(rule, self.engine.now, what))
        self.note(f"## {rule}: {what}")
        if self.enough(rule):
            self.engine.halted = True
