"""One simulated world: a cloud, a record API, pools with their managers, nodes, and watchers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nodemanager.core.model import Job, Listed, Record, Size, Tags
from nodemanager.core.plan import Plan
from nodemanager.core.reasons import Event
from nodemanager.core.settings import CLOCK_STEP_S, Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.errors import NodeManagerError
from nodemanager.journal.api import OpenIntent
from nodemanager.journal.memory import MemoryJournal
from nodemanager.records import wire
from tests.simulation.cloud import CloudTraits, Instance, SimCloud, SimDriver
from tests.simulation.engine import Engine, SimClock
from tests.simulation.machine import Habits, Machine, Moods
from tests.simulation.manager import CLOUD_TIMEOUT_S, STORE_TIMEOUT_S, Facts, Manager
from tests.simulation.registry import CasStore, Registry
from tests.simulation.weather import Weather, cloud_line, store_line

SMALL = Size("small", "s.1", cores=1, ram_mb=1000, price=0.1)
STEP_MATTERS_S = 3000.0
"""Longer than any window here: no stamp from before a step is judged later."""
STEP_READ_S = 5.0
"""A step is measured by two readings, each good to half a round trip."""
LARGE = Size("large", "s.4", cores=4, ram_mb=8000, price=0.5)


@dataclass
class Pool:
    """One pool: its settings, its managers' state directory, what its users want."""

    name: str
    settings: Settings
    poll_time: float
    journal: MemoryJournal
    facts: Facts = field(default_factory=Facts)
    wall_error: float = 0.0
    wanted: int = 0
    clock_read_at: float = 0.0
    wishlist_fails: bool = False
    manager: Manager | None = None
    shadow: Manager | None = None
    starts: int = 0
    holds: set[str] = field(default_factory=set)
    """What an operator's command has on hold: said so, and not released since."""

    def open_intents(self) -> tuple[OpenIntent, ...]:
        """What the journal has open, also while its disk fails."""
        fault = self.journal.fault
        self.journal.heal()
        found = self.journal.open_intents()
        self.journal.fault = fault
        return found


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
        self.weather = Weather(self.engine)
        self.cloud = SimCloud(self.engine, shape.traits, self._boot)
        self.registry = Registry(
            self.engine, slots=shape.slots, stampless_pings=shape.stampless_pings
        )
        self.bulletin = Bulletin()
        self.moods = Moods()
        self.machines: dict[str, Machine] = {}
        self.pools = {
            settings.pool: Pool(
                settings.pool,
                settings,
                poll_time,
                MemoryJournal(SimClock(self.engine), keeps_entries=False),
            )
            for settings, poll_time in shape.pools
        }
        self.managers: dict[str, Manager] = {}
        self.violations: list[Violation] = []
        self.enough: Callable[[str], bool] = lambda rule: False
        """Whether a violation of that rule is all that is wanted of the run."""
        self.broken: dict[str, float] = {}
        self.trace: list[str] = []
        self.plans: list[Callable[[Manager, Plan, Snapshot, Settings], None]] = []
        self.events: list[Callable[[Manager, Event, dict[str, object]], None]] = []
        self.given: list[Callable[[str, object], None]] = []
        self.starts: list[Callable[[Manager], None]] = []
        self.planned_count = 0
        self.clock_lies = 0.0
        """Seconds by which an age may be wrong: what no reading showed, or not to the second."""
        self.clock_steps: list[tuple[float, float]] = []
        self.open_breakers: dict[str, bool] = {}
        self.weather.answered.append(self._clock_read)
        self._addresses = 0
        self._random = self.engine.random("world")
        self._secrets = self.engine.random("secrets")

    # What the product draws at random.

    def token_hex(self, size: int) -> str:
        return f"{self._secrets.getrandbits(8 * size):0{2 * size}x}"

    # Clocks.

    def step_store_clock(self, step: float) -> None:
        self.registry.clock_error += step
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

    def _clock_read(self, manager: str, method: str, about: str, result: object) -> None:
        if method == "store.time":
            self.managers[manager].pool.clock_read_at = self.engine.now

    def _missed_steps(self) -> None:
        """A shadow starts without a journal: it has not measured the steps before."""
        for at, step in self.clock_steps:
            if self.engine.now - at < STEP_MATTERS_S and abs(step) > CLOCK_STEP_S:
                self.clock_lies += abs(step)
                self.break_assumption("A3", f"a step of {step:.0f} s was not measured")

    # Managers.

    def start(self, pool: Pool, *, mode: str = "apply") -> Manager:
        pool.starts += 1
        if mode != "apply":
            self._missed_steps()
        manager = Manager(self, pool, f"{pool.name}-{pool.starts}", mode=mode)
        self.managers[manager.name] = manager
        if mode == "apply":
            pool.manager = manager
            for told in self.starts:
                told(manager)
        else:
            pool.shadow = manager
        self.note(f"{manager.name} starts ({mode})")
        return manager

    def driver(self, manager: Manager) -> SimDriver:
        line = cloud_line(self.engine, self.weather, manager.process, CLOUD_TIMEOUT_S)
        return SimDriver(self.cloud, line, manager.pool.name, manager.name)

    def store(self, manager: Manager) -> Any:
        line = store_line(self.engine, self.weather, manager.process, STORE_TIMEOUT_S)
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
        return CasStore(self.registry, line, manager.name, self.bulletin)

    def wishlist(self, manager: Manager) -> tuple[Job, ...]:
        if manager.pool.wishlist_fails:
            raise NodeManagerError("the wishlist command failed")
        wanted = manager.pool.wanted
        manager.wishlist_at = self.engine.now
        return (Job("j", count=wanted),) if wanted else ()

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

    def inherit(self) -> None:
        """Records that were there before us: clean, leaked, of others, and of nodes that live."""
        random = self.engine.random("heirlooms")
        names = [None, None, "elsewhere", *self.pools]
        for _ in range(self.shape.heirlooms):
            pool = random.choice(names)
            values: dict[str, object] = {"info": {}, "properties": {}}
            if pool is not None:
                values["properties"] = {wire.POOL: pool}
            kind = random.choice(("clean", "leaked", "leaked", "living"))
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

    # Nodes.

    def _boot(self, instance: Instance, user_data: str) -> None:
        uuid, _, secret = user_data.partition("?")
        self._addresses += 1
        machine = Machine(
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

    def break_assumption(self, which: str, why: str) -> None:
        if which not in self.broken:
            self.broken[which] = self.engine.now
            self.note(f"!! {which} is broken: {why}")

    def violate(self, rule: str, what: str) -> None:
        self.violations.append(Violation(rule, self.engine.now, what))
        self.note(f"## {rule}: {what}")
        if self.enough(rule):
            self.engine.halted = True
