"""Everything that goes wrong, as a script: a list of faults, each with its time and its reach.

A script is drawn from a seed and can be played without some of its faults, which is how a failing
one is made short. Each fault draws from a stream of its own, named by its number, so that taking
one out leaves what the others do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from nodemanager.actors.messages import HoldId, ReleaseId
from nodemanager.core.commands import Reply
from nodemanager.core.model import CloudNode, CloudState, Listed, Record, Tags
from nodemanager.errors import (
    BadRequest,
    CapacityUnavailable,
    CloudError,
    Conflict,
    QuotaExceeded,
    RemoteError,
    StoreError,
    StoreRefused,
    Throttled,
)
from nodemanager.records import wire
from tests.simulation.cloud import Instance
from tests.simulation.engine import START
from tests.simulation.machine import Machine
from tests.simulation.weather import Fate, Sometimes, Watcher
from tests.simulation.world import Pool, World


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong: `at` seconds from the start, for `lasts` seconds.

    `number` names its stream of choices; `pool` is whose manager or nodes it strikes.
    """

    kind: str
    at: float
    lasts: float
    number: int
    pool: str = "main"

    def __str__(self) -> str:
        return f"{self.at:7.0f} s  {self.kind:24} for {self.lasts:5.0f} s  ({self.pool})"


@dataclass
class Scene:
    """What a fault acts on; `random` is its own stream."""

    world: World
    fault: Fault
    random: Random

    @property
    def pool(self) -> Pool:
        return self.world.pools[self.fault.pool]

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.world.engine.after(seconds, action)

    def finally_(self, action: Callable[[], None]) -> None:
        """At the end of the fault."""
        self.later(self.fault.lasts, action)

    def nodes(self) -> list[Instance]:
        """Our living nodes with something running on them, in the order of their making."""
        return [
            one
            for one in self.world.cloud.living()
            if one.tags.pool == self.fault.pool and one.machine is not None
        ]

    def node(self) -> Instance | None:
        nodes = self.nodes()
        return self.random.choice(nodes) if nodes else None

    def machine(self) -> Machine | None:
        node = self.node()
        return node.machine if node is not None else None

    def machines(self) -> list[Machine]:
        return [one.machine for one in self.nodes() if one.machine is not None]


Effect = Callable[[Scene], None]


@dataclass(frozen=True)
class Kind:
    """A kind of fault: how often it is drawn, how long it lasts, which assumption it breaks."""

    name: str
    effect: Effect
    weight: float
    lasts: tuple[float, float]
    breaks: str | None = None


KINDS: dict[str, Kind] = {}


def fault(
    name: str,
    *,
    weight: float = 1.0,
    lasts: tuple[float, float] = (0.0, 0.0),
    breaks: str | None = None,
) -> Callable[[Effect], Effect]:
    def register(effect: Effect) -> Effect:
        KINDS[name] = Kind(name, effect, weight, lasts, breaks)
        return effect

    return register


SHORT, MIDDLING, LONG = (20.0, 120.0), (60.0, 400.0), (300.0, 1500.0)


def spell(
    methods: str,
    fate: Callable[[Scene], Callable[[], Fate]],
    often: tuple[float, float] = (0.3, 1.0),
) -> Effect:
    """Calls of these methods meet that fate, some of them, while it lasts."""

    def effect(scene: Scene) -> None:
        low, high = often
        chance = low + scene.random.random() * (high - low)
        cast = Sometimes(scene.random, frozenset(methods.split()), chance, fate(scene))
        scene.world.weather.spells.append(cast)
        scene.finally_(lambda: scene.world.weather.spells.remove(cast))

    return effect


def raises(*errors: Callable[[], RemoteError], effect: bool = False) -> Callable[..., Any]:
    """The call is answered by one of these errors, with or without its effect."""

    def fate(scene: Scene) -> Callable[[], Fate]:
        return lambda: Fate(effect=effect, error=scene.random.choice(errors))

    return fate


def slow(low: float, high: float, *, effect: bool = True) -> Callable[..., Any]:
    """It takes that long to get there: the caller may have given up by then."""

    def fate(scene: Scene) -> Callable[[], Fate]:
        return lambda: Fate(effect=effect, there=low + scene.random.random() * (high - low))

    return fate


def lost_reply(scene: Scene) -> Callable[[], Fate]:
    return lambda: Fate(back=1e6)


def throttled() -> Throttled:
    return Throttled("429", retry_after=30.0)


def store_429() -> StoreError:
    return StoreRefused("429", retry_after=20.0)


def error_503() -> StoreError:
    return StoreError("503")


def error_500() -> StoreError:
    return StoreError("500")


CLOUD_QUESTIONS = "cloud.find cloud.ask"
STORE_WRITES = "store.create store.claim store.clean store.update"

# Listings of the cloud.

fault("cloud list fails", weight=2, lasts=MIDDLING)(
    spell("cloud.list", raises(lambda: CloudError("500"), throttled))
)
fault("cloud list hangs", lasts=SHORT)(spell("cloud.list", slow(61, 400)))
fault("cloud list slow", lasts=MIDDLING)(spell("cloud.list", slow(5, 55)))


def altering(change: Callable[[Scene, tuple[CloudNode, ...]], Listed[CloudNode]]) -> Effect:
    """While it lasts, some cloud listings are not what the cloud has."""

    def effect(scene: Scene) -> None:
        chance = 0.3 + 0.7 * scene.random.random()

        def make(_: Random) -> Callable[[tuple[CloudNode, ...]], Listed[CloudNode]]:
            def alter(nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
                if scene.random.random() >= chance:
                    return Listed(nodes)
                return change(scene, nodes)

            return alter

        alterations = scene.world.cloud.alterations
        alterations.append(make)
        scene.finally_(lambda: alterations.remove(make))

    return effect


@fault("cloud list empty", weight=2, lasts=MIDDLING)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    return Listed(())


@fault("cloud list short", weight=3, lasts=MIDDLING)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    return Listed(tuple(node for node in nodes if scene.random.random() < 0.6))


@fault("cloud list incomplete", weight=3, lasts=LONG)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    """And from another replica: it may show what the others hide."""
    cloud = scene.world.cloud
    hidden = [cloud.shown(cloud.instances[one]) for one in sorted(cloud.hidden)]
    all_of_them = (*nodes, *(node for node in hidden if node is not None))
    kept = tuple(node for node in all_of_them if scene.random.random() < 0.5)
    return Listed(kept, complete=False, problems=("an item could not be identified",))


@fault("cloud list duplicated", lasts=MIDDLING)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    if not nodes:
        return Listed(nodes)
    twice = scene.random.choice(nodes)
    if scene.random.random() < 0.5:
        twice = replace(twice, state=CloudState.TERMINATED)
    return Listed((*nodes, twice))


@fault("cloud list out of order", lasts=LONG)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    shuffled = list(nodes)
    scene.random.shuffle(shuffled)
    return Listed(tuple(shuffled))


@fault("cloud list unreadable items", lasts=MIDDLING)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    def broken(node: CloudNode) -> CloudNode:
        if scene.random.random() < 0.5:
            return node
        return replace(node, created_at=None, problems=("no launch time",))

    return Listed(tuple(broken(node) for node in nodes))


def hiding(scene: Scene, nodes: list[Instance]) -> None:
    """They are in no listing while it lasts; questions by id and tag are answered truly."""
    hidden = {one.id for one in nodes}
    cloud = scene.world.cloud
    cloud.hidden |= hidden
    scene.finally_(lambda: cloud.hidden.difference_update(hidden))


@fault("cloud list truncated for good", weight=3, lasts=LONG)
def _(scene: Scene) -> None:
    """Some nodes are never listed while it lasts: the filter is wrong."""
    hiding(scene, [one for one in scene.nodes() if scene.random.random() < 0.4])


@fault("a node vanishes from sight", weight=4, lasts=(400.0, 1500.0))
def _(scene: Scene) -> None:
    """Neither listed nor heard, and alive."""
    node = scene.node()
    if node is None or node.machine is None:
        return
    machine = node.machine
    machine.cut_off = True
    scene.finally_(lambda: setattr(machine, "cut_off", False))
    hiding(scene, [node])


@fault("a zone vanishes from sight", weight=1.5, lasts=(300.0, 1200.0))
def _(scene: Scene) -> None:
    chosen = [one for one in scene.nodes() if scene.random.random() < 0.5]
    for node in chosen:
        if node.machine is not None:
            node.machine.cut_off = True

    def back() -> None:
        for node in chosen:
            if node.machine is not None:
                node.machine.cut_off = False

    scene.finally_(back)
    hiding(scene, chosen)


@fault("cloud list late", weight=3, lasts=LONG)
def _(scene: Scene) -> None:
    """Every listing shows the cloud as it was minutes ago."""
    cloud = scene.world.cloud
    cloud.late_by = 30 + scene.random.random() * 400
    scene.finally_(lambda: setattr(cloud, "late_by", 0.0))


@fault("cloud lists another account", lasts=MIDDLING)
@altering
def _(scene: Scene, nodes: tuple[CloudNode, ...]) -> Listed[CloudNode]:
    return Listed((CloudNode("i-other", "other", CloudState.RUNNING, managed=False),))


# Questions to the cloud, creates, destroys.

fault("cloud questions fail", lasts=MIDDLING)(
    spell(CLOUD_QUESTIONS, raises(lambda: CloudError("500"), throttled))
)
fault("cloud questions slow", lasts=MIDDLING)(spell(CLOUD_QUESTIONS, slow(5, 90)))
fault("creates refused", weight=2, lasts=MIDDLING)(
    spell(
        "cloud.create",
        raises(
            lambda: QuotaExceeded("quota"),
            lambda: CapacityUnavailable("none of this size"),
            lambda: BadRequest("bad image"),
            throttled,
        ),
    )
)
fault("creates fail", lasts=MIDDLING)(spell("cloud.create", raises(lambda: CloudError("500"))))
fault("creates time out but succeed", weight=3, lasts=MIDDLING)(
    spell("cloud.create", slow(30, 290))
)
fault("creates answered by an error but succeed", weight=2, lasts=MIDDLING)(
    spell("cloud.create", raises(lambda: CloudError("502"), effect=True))
)


@fault("creates happen twice", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    cloud = scene.world.cloud
    cloud.twins = True
    for node in scene.nodes()[:1]:
        # So that there is something to create.
        cloud.end(node)
    scene.finally_(lambda: setattr(cloud, "twins", False))


fault("creates lost", lasts=MIDDLING)(spell("cloud.create", slow(100, 200, effect=False)))
fault("destroys fail", lasts=MIDDLING)(
    spell("cloud.destroy", raises(lambda: CloudError("500"), lambda: BadRequest("no")))
)
fault("destroys answered by an error but happen", lasts=MIDDLING)(
    spell("cloud.destroy", raises(lambda: CloudError("502"), effect=True))
)
fault("destroys slow", lasts=MIDDLING)(spell("cloud.destroy", slow(20, 200)))


@fault("destroys accepted and never happen", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    cloud = scene.world.cloud
    cloud.lazy_destroys = True
    scene.finally_(lambda: setattr(cloud, "lazy_destroys", False))


# The record API.

fault("store list fails", weight=2, lasts=MIDDLING)(
    spell("store.list store.time", raises(error_500, error_503, store_429))
)
fault("store list slow", lasts=MIDDLING)(spell("store.list store.time", slow(2, 30)))
fault("store writes fail", weight=2, lasts=MIDDLING)(
    spell(STORE_WRITES, raises(error_500, error_503, store_429, lambda: Conflict("409")))
)
fault("store replies lost", weight=3, lasts=MIDDLING)(spell(STORE_WRITES, lost_reply))
fault("store writes late", weight=3, lasts=MIDDLING)(spell(STORE_WRITES, slow(10, 200)))
fault("store reads fail", lasts=MIDDLING)(spell("store.read", raises(error_503)))
fault("store reads slow", lasts=MIDDLING)(spell("store.read", slow(2, 20)))
fault("store down", weight=2, lasts=LONG)(
    spell(
        f"store.list store.time store.read store.probe store.ping {STORE_WRITES}",
        raises(error_503),
        often=(1.0, 1.0),
    )
)
fault("pings lost on the way", weight=2, lasts=LONG)(
    spell("store.ping", raises(error_503), often=(0.3, 1.0))
)
fault("probe fails", lasts=MIDDLING)(spell("store.probe", raises(error_503)))


def altering_records(change: Callable[[Scene, tuple[Record, ...]], Listed[Record]]) -> Effect:
    def effect(scene: Scene) -> None:
        chance = 0.3 + 0.7 * scene.random.random()

        def alter(records: tuple[Record, ...]) -> Listed[Record]:
            if scene.random.random() >= chance:
                return Listed(records)
            return change(scene, records)

        alterations = scene.world.bulletin.alterations
        alterations.append(alter)
        scene.finally_(lambda: alterations.remove(alter))

    return effect


@fault("store list short", weight=2, lasts=MIDDLING)
@altering_records
def _(scene: Scene, records: tuple[Record, ...]) -> Listed[Record]:
    return Listed(tuple(one for one in records if scene.random.random() < 0.7))


@fault("store list empty", lasts=MIDDLING)
@altering_records
def _(scene: Scene, records: tuple[Record, ...]) -> Listed[Record]:
    return Listed(())


@fault("store list incomplete", lasts=MIDDLING)
@altering_records
def _(scene: Scene, records: tuple[Record, ...]) -> Listed[Record]:
    kept = tuple(one for one in records if scene.random.random() < 0.5)
    return Listed(kept, complete=False, problems=("an item has no uuid",))


@fault("store list unreadable items", lasts=MIDDLING)
@altering_records
def _(scene: Scene, records: tuple[Record, ...]) -> Listed[Record]:
    def broken(record: Record) -> Record:
        if scene.random.random() < 0.6:
            return record
        return replace(record, modified_at=None, problems=("modified_at is not a time",))

    return Listed(tuple(broken(one) for one in records))


@fault("store list late", weight=2, lasts=MIDDLING)
def _(scene: Scene) -> None:
    registry = scene.world.registry
    registry.late_by = 30 + scene.random.random() * 300
    scene.finally_(lambda: setattr(registry, "late_by", 0.0))


@fault("store swapped for an empty one", weight=0.5, lasts=MIDDLING)
def _(scene: Scene) -> None:
    registry = scene.world.registry
    if registry.is_swapped:
        return
    rows, store_id = registry.rows, registry.store_id
    registry.swap({}, "store-2")
    scene.finally_(lambda: registry.swap(rows, store_id))


# Nodes.


@fault("a node dies unseen", weight=5)
def _(scene: Scene) -> None:
    node = scene.node()
    if node is not None:
        scene.world.cloud.end(node)


@fault("all nodes die", weight=0.7)
def _(scene: Scene) -> None:
    for node in scene.nodes():
        scene.world.cloud.end(node)


@fault("a node freezes", weight=3, lasts=(100.0, 1500.0))
def _(scene: Scene) -> None:
    machine = scene.machine()
    if machine is not None:
        machine.frozen = True
        scene.finally_(lambda: setattr(machine, "frozen", False))


@fault("a node loses the network", weight=3, lasts=(100.0, 1500.0))
def _(scene: Scene) -> None:
    machine = scene.machine()
    if machine is not None:
        machine.cut_off = True
        scene.finally_(lambda: setattr(machine, "cut_off", False))


@fault("all nodes lose the network", lasts=(100.0, 1200.0))
def _(scene: Scene) -> None:
    machines = scene.machines()
    for machine in machines:
        machine.cut_off = True

    def back() -> None:
        for machine in machines:
            machine.cut_off = False

    scene.finally_(back)


@fault("a node reboots", weight=1.5)
def _(scene: Scene) -> None:
    machine = scene.machine()
    if machine is not None:
        machine.reboot()


@fault("a node is stopped", weight=2, lasts=(60.0, 1200.0))
def _(scene: Scene) -> None:
    node = scene.node()
    if node is None or node.machine is None:
        return
    cloud, machine = scene.world.cloud, node.machine
    cloud.set_state(node, CloudState.STOPPED)
    machine.power_off()

    def start() -> None:
        if node.lives and node.state is CloudState.STOPPED:
            cloud.start_again(node)
            machine.boot()

    scene.finally_(start)


@fault("a node pings late", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    machine = scene.machine()
    if machine is not None:
        machine.late = 30 + scene.random.random() * 600
        scene.finally_(lambda: setattr(machine, "late", 0.0))


@fault("nodes boot slowly", lasts=MIDDLING)
def _(scene: Scene) -> None:
    scene.world.moods.boot_slowly = 50 + scene.random.random() * 500
    scene.finally_(lambda: setattr(scene.world.moods, "boot_slowly", 0.0))


@fault("nodes never boot", lasts=MIDDLING)
def _(scene: Scene) -> None:
    scene.world.moods.never_boot = True
    scene.finally_(lambda: setattr(scene.world.moods, "never_boot", False))


@fault("a stranger's node appears", lasts=LONG)
def _(scene: Scene) -> None:
    made = scene.world.stranger(scene.random.choice((None, "elsewhere")))
    scene.finally_(lambda: scene.world.cloud.end(made))


# Clocks. A step or drift is measured by the manager; a lie in the measuring is not.


@fault("the store's clock steps", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    step = scene.random.choice((-7200.0, -900.0, -90.0, 90.0, 900.0, 7200.0))
    world = scene.world
    world.step_store_clock(step)
    if scene.random.random() < 0.6:
        scene.finally_(lambda: world.step_store_clock(-step))


@fault("the manager's clock steps", lasts=LONG)
def _(scene: Scene) -> None:
    step = scene.random.choice((-7200.0, 90.0, 900.0, 7200.0))
    pool = scene.pool

    def move(by: float) -> None:
        pool.wall_error += by
        if pool.manager is not None:
            pool.manager.clock.error += by

    move(step)
    scene.finally_(lambda: move(-step))


@fault("the store's clock is measured wrong", lasts=MIDDLING, breaks="A3")
def _(scene: Scene) -> None:
    lie = scene.random.choice((-2000.0, -300.0, 300.0, 2000.0))
    scene.world.break_assumption("A3", f"the store's clock is measured {lie} s wrong")
    scene.world.bulletin.clock_lie += lie
    scene.world.clock_lies += abs(lie)
    bulletin = scene.world.bulletin
    scene.finally_(lambda: setattr(bulletin, "clock_lie", bulletin.clock_lie - lie))


# The manager.


def killing(scene: Scene) -> None:
    """kill -9 now; a new one starts after `lasts`."""
    pool = scene.pool
    manager = pool.manager
    if manager is None or not manager.alive:
        return
    scene.world.note(f"{manager.name} is killed")
    manager.kill()
    scene.finally_(lambda: restart(scene.world, pool))


def restart(world: World, pool: Pool) -> None:
    if pool.manager is None or not pool.manager.alive:
        world.start(pool)


def at_a_call(act: Effect) -> Effect:
    """Not at once, but when a call of some kind reaches a stage: between any two steps."""

    def effect(scene: Scene) -> None:
        manager = scene.pool.manager
        if manager is None or not manager.alive:
            return
        method = scene.random.choice(
            [f"cloud.{one}" for one in ("create", "destroy", "ask", "find", "list")]
            + [f"store.{one}" for one in ("create", "claim", "clean", "read", "list", "update")]
        )
        stage = scene.random.choice(("sent", "done"))
        steps = scene.random.randrange(4)

        def soon() -> None:
            scene.later(scene.random.random() * 0.1 * steps, lambda: act(scene))

        watcher = Watcher(manager.name, method, stage, soon)
        scene.world.weather.watchers.append(watcher)

    return effect


fault("manager killed", weight=3, lasts=(1.0, 300.0))(killing)
fault("manager killed at a call", weight=4, lasts=(1.0, 120.0))(at_a_call(killing))


def pausing(scene: Scene) -> None:
    manager = scene.pool.manager
    if manager is not None and manager.alive:
        scene.world.note(f"{manager.name} is paused for {scene.fault.lasts:.0f} s")
        manager.pause(scene.fault.lasts)


fault("manager paused", weight=2, lasts=(5.0, 900.0))(pausing)
fault("manager paused at a call", weight=4, lasts=(5.0, 900.0))(at_a_call(pausing))


@fault("manager restarted by systemd", lasts=(1.0, 20.0))
def _(scene: Scene) -> None:
    killing(scene)


@fault("the lease is taken over", weight=0.7, lasts=(5.0, 60.0))
def _(scene: Scene) -> None:
    """Someone removed the lock file, and a second manager started: both run for a while."""
    pool, world = scene.pool, scene.world
    old = pool.manager
    if old is None or not old.alive:
        return
    old.lease = False
    world.start(pool)
    scene.finally_(old.kill)


@fault("a dry run beside it", weight=0.7, lasts=LONG)
def _(scene: Scene) -> None:
    shadow = scene.world.start(scene.pool, mode="dry-run")
    scene.finally_(shadow.kill)


@fault("the journal's disk is full", weight=2, lasts=LONG)
def _(scene: Scene) -> None:
    journal = scene.pool.journal
    journal.fail("the disk is full")
    scene.finally_(journal.heal)


# Demand and operators.


@fault("demand changes", weight=3)
def _(scene: Scene) -> None:
    scene.pool.wanted = scene.random.randrange(scene.pool.settings.max_nodes + 2)


@fault("the wishlist fails", lasts=MIDDLING)
def _(scene: Scene) -> None:
    scene.pool.wishlist_fails = True
    scene.finally_(lambda: setattr(scene.pool, "wishlist_fails", False))


@fault("an operator holds a record", weight=1.5, lasts=LONG)
def _(scene: Scene) -> None:
    registry = scene.world.registry
    if not registry.rows:
        return
    uuid = scene.random.choice(sorted(registry.rows))

    def mark(held: bool) -> None:
        row = registry.rows.get(uuid)
        if row is not None:
            properties = {**row["properties"]}
            properties.pop(wire.HOLD, None)
            if held:
                properties[wire.HOLD] = "wait for me"
            registry.change(row, {"properties": properties}, "operator", "hold")

    mark(True)
    scene.finally_(lambda: mark(False))


@fault("an operator holds a node", weight=1.5, lasts=LONG)
def _(scene: Scene) -> None:
    node = scene.node()
    if node is None:
        return

    def mark(held: bool) -> None:
        node.held, node.view = held, None

    mark(True)
    scene.finally_(lambda: mark(False))


@fault("an operator holds by command", weight=1.5, lasts=LONG)
def _(scene: Scene) -> None:
    """`nodemanager hold ID`, of a record or a node, and `release ID`."""
    pool, world = scene.pool, scene.world
    names = [*sorted(world.registry.rows), *(one.id for one in scene.nodes())]
    if not names or pool.manager is None or not pool.manager.alive:
        return
    name = scene.random.choice(names)

    def answered(reply: Reply) -> None:
        if reply.ok:
            pool.holds.add(name)

    pool.manager.daemon.tell(HoldId(name, "wait for me", "operator", answered, True))
    scene.finally_(lambda: release(pool, name))


def release(pool: Pool, name: str) -> None:
    def answered(reply: Reply) -> None:
        # One that stood still takes the hold and its release when it goes on.
        pool.holds.discard(name)

    pool.holds.discard(name)
    if pool.manager is not None and pool.manager.alive:
        pool.manager.daemon.tell(ReleaseId(name, "operator", answered))


@fault("an operator ends a node", weight=1.5)
def _(scene: Scene) -> None:
    node = scene.node()
    if node is not None:
        scene.world.cloud.end(node)


@fault("an operator deletes a record", breaks="A5")
def _(scene: Scene) -> None:
    registry = scene.world.registry
    if registry.rows:
        uuid = scene.random.choice(sorted(registry.rows))
        scene.world.break_assumption("A5", f"an operator deletes {uuid}")
        registry.delete(uuid, "operator")


@fault("an operator edits a record", breaks="A5")
def _(scene: Scene) -> None:
    registry, random = scene.world.registry, scene.random
    if not registry.rows:
        return
    uuid = random.choice(sorted(registry.rows))
    row = registry.rows[uuid]
    scene.world.break_assumption("A5", f"an operator edits {uuid}")
    values: dict[str, Any] = random.choice(
        (
            {"slot_number": None, "hostname": None},
            {"last_ping_at": None, "first_ping_at": None},
            {"properties": {}},
            {"info": {}},
            {"ip_address": None},
            {"last_ping_at": registry.now_ns() + int(9000e9)},
        )
    )
    registry.change(row, values, "operator", "edit")


@fault("an operator takes a node's tags", breaks="A5")
def _(scene: Scene) -> None:
    node = scene.node()
    if node is not None:
        scene.world.break_assumption("A5", f"an operator takes the tags of {node.id}")
        tags = node.tags
        kept = scene.random.choice((Tags(), replace(tags, record=None), Tags(pool=tags.pool)))
        scene.world.cloud.retag(node, kept)


# What breaks A1, A2.


@fault("living nodes are denied", weight=2, lasts=(400.0, 1500.0), breaks="A1")
def _(scene: Scene) -> None:
    """And some of them are neither listed nor heard, so that someone comes to ask."""
    chance = 0.5 + scene.random.random()
    random = scene.random

    def denial(instance: Instance) -> bool:
        return random.random() < chance

    denials = scene.world.cloud.denials
    denials.append(denial)
    scene.finally_(lambda: denials.remove(denial))
    if random.random() < 0.7:
        KINDS["a zone vanishes from sight"].effect(scene)


@fault("the credentials lead to another account", lasts=LONG, breaks="A1")
def _(scene: Scene) -> None:
    cloud = scene.world.cloud
    cloud.wrong_account = True
    scene.finally_(lambda: setattr(cloud, "wrong_account", False))


@fault("creates take effect far too late", weight=2, lasts=LONG, breaks="A2")
def _(scene: Scene) -> None:
    for node in scene.nodes()[:2]:
        scene.world.cloud.end(node)
    spell("cloud.create", slow(300, 1500))(scene)


def begin(world: World, script: tuple[Fault, ...]) -> None:
    """Put the whole script on the heap."""
    for one in script:
        random = world.engine.random(f"fault/{one.number}/{one.kind}")
        scene = Scene(world, one, random)

        def strike(scene: Scene = scene) -> None:
            world.note(f"-- {scene.fault.kind} for {scene.fault.lasts:.0f} s")
            KINDS[scene.fault.kind].effect(scene)

        world.engine.at(START + one.at, strike)
