"""What a seed stands for: the shape of its world, which assumption it may break, its script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

from nodemanager.core.model.settings import Settings
from tests.simulation.choices import LARGE, POLL_TIMES, SMALL, SPOT, UNPRICED, ZONES
from tests.simulation.cloud import CloudTraits
from tests.simulation.faults import KINDS, Fault, Kind
from tests.simulation.faults.clocks import ONE_CLOCK
from tests.simulation.hosts import Leasing
from tests.simulation.jobs import Rounds, draw_rounds, with_scheduler
from tests.simulation.machine import Habits
from tests.simulation.seats import Seating, draw_seating, with_more, with_seats
from tests.simulation.slurm import Dispatching, draw_dispatching, with_dispatcher
from tests.simulation.world import Shape

ASSUMPTIONS = ("A1", "A2", "A3", "A4", "A5")
SPARED = 0.15
"""In so many worlds spare nodes are kept."""
OF_IMAGES = frozenset(
    {
        "the image changes",
        "new nodes get the former image",
        "no replacement can be had",
        ONE_CLOCK,
    }
)
"""Where one of these comes, the cloud tells its nodes' images."""
CROWDS = "a large job waits beside spare nodes"
"""Where this comes, spare nodes fill the pool."""
QUIET_S = 240.0
"""Nothing goes wrong for this long at the start."""


_PINGS = "nodes send no pings there; its equal: "
_QUEUE = "Slurm's own queue is the demand there; its equal: "
_OF_QUEUE = "where Slurm's nodes are the records, its equal: "
NOT_SEATED: Mapping[str, str] = {
    "a job for a larger size": f"{_QUEUE}jobs wait for nodes of any size (Controller)",
    "a job that fits no size": f"{_QUEUE}a job for a node that is too dear, or unpriced (Seating)",
    "a large job waits beside spare nodes": f"{_QUEUE}jobs for nodes beyond the price (Seating)",
    "a node pings late": f"{_PINGS}nodes boot slowly; store list slow; the scheduler answers late",
    "a node says that it is down": f"{_PINGS}somebody calls a seat down",
    "all nodes are reserved for maintenance": f"{_OF_QUEUE}seats are reserved for maintenance",
    "demand changes": f"{_QUEUE}jobs come (Controller) and somebody cancels jobs",
    "no replacement can be had": "no other pool can take a seat's slot",
    "an operator parks the pool": "only storms name it",
    "pings lost on the way": f"{_PINGS}a node loses the network; the scheduler is lost",
    "slurm.conf lacks a name": "only storms name it",
    "machines never join the scheduler": "only storms name it; its equal: nodes never boot",
    "somebody deletes a node's record": "there is no order that deletes a seat's record",
    "somebody drains a node": f"{_OF_QUEUE}somebody drains a seat",
    "somebody drains all nodes": f"{_OF_QUEUE}seats are reserved for maintenance",
    "somebody marks a node down": f"{_OF_QUEUE}somebody calls a seat down",
    "somebody reserves a node": f"{_OF_QUEUE}seats are reserved for maintenance",
    "the controller forgets who is drained": f"{_OF_QUEUE}slurmctld is killed",
    "the controller is killed": f"{_OF_QUEUE}slurmctld is killed",
    "the cloud takes back what boots": "only storms name it",
    "the cloud takes nodes with notice": "only storms name it",
    "the wishlist fails": f"{_QUEUE}the scheduler's polls fail",
}
"""Kinds that can't come where Slurm's nodes are the records, each with the reason.

Those that break an assumption don't come there either: all five are kept in these worlds.
"""
NOT_LEASED = frozenset({"the journal is lost"})
"""Kinds that can't come where the managers share a database: it is not theirs to lose."""
SWAPPED = "store swapped for an empty one"
"""It comes to one of these worlds in ten, from a stream of its own."""
SEATED_LATER = frozenset(
    {
        "a stranger's node appears",
        "an operator buries a young node",
        "an operator holds a record",
        "creates happen twice",
        "late pings can't be asked for",
        "no node ever boots",
        "probe fails",
        "restores fail",
        "store list late",
        "store reads fail",
        "store reads slow",
        "the settings are reloaded",
        "the store's clock drifts",
        "the store's clock steps",
        "the store's id can't be asked for",
    }
)
"""Kinds that came there later, with those of seats alone: from a stream of their own."""


WIDE = 0.05
"""The share of worlds in which more, or fewer, creates and destroys run at once."""
SLOW = 0.05
"""The share of worlds whose cloud goes on with a create after its answer."""


@dataclass(frozen=True)
class Storm:
    """So many faults of those kinds alone, in place of what a seed draws."""

    kinds: tuple[str, ...]
    breaks: str | None = None
    count: int = 20
    dispatching: Dispatching | None = None
    seated: Seating | None = None


@dataclass(frozen=True)
class Scenario:
    """`breaks` is the assumption the run may break, None for one that respects A1-A5.

    Faults begin within `stormy` seconds of the start and are over by then.
    """

    seed: int
    shape: Shape
    breaks: str | None
    stormy: float
    script: tuple[Fault, ...]
    restart_after: bool
    rounds: Rounds | None = None
    """The scheduler's; None where nodes take work by themselves."""

    @property
    def label(self) -> str:
        return f"breaks {self.breaks}" if self.breaks else "respects A1-A5"


def draw(
    seed: int, storm: Storm | None = None, *, seated: bool = False, leased: bool = False
) -> Scenario:
    """The scenario of a seed, with that storm in place of its own.

    With `seated` its records are Slurm's nodes, whatever the seed draws. With `leased` each pool
    has several managers with a lease in a database, in a world that keeps all assumptions.
    """
    if leased:
        return _with_slow_creates(_leased(seed))
    drawn = _drawn(seed, storm, seated=seated)
    if storm is not None:
        return drawn
    return _with_slow_creates(replace(drawn, shape=_with_width(seed, drawn.shape)))


def _with_slow_creates(drawn: Scenario) -> Scenario:
    """In some worlds the cloud goes on with a create, and says only later whether it failed (D6).

    The stream's name spares each world that a test or a mutant names.
    """
    random = Random(f"{drawn.seed}/slow creates 29307")
    if random.random() >= SLOW:
        return drawn
    traits = replace(drawn.shape.traits, goes_on=True, leaves=random.random() < 0.5)
    return replace(drawn, shape=replace(drawn.shape, traits=traits))


def _with_width(seed: int, shape: Shape) -> Shape:
    """In some worlds, with another number of creates, destroys and cleans at once (U13).

    The stream's name spares each world that a test or a mutant names.
    """
    random = Random(f"{seed}/at once 20234")
    if random.random() >= WIDE:
        return shape
    most = random.choice((1, 4, 16, 16))
    pools = tuple((replace(one, max_creates=most), every) for one, every in shape.pools)
    return replace(shape, pools=pools, setups=most, shutdowns=most, cleaners=most)


def _drawn(seed: int, storm: Storm | None, *, seated: bool) -> Scenario:
    random = Random(f"{seed}/scenario")
    breaks = random.choice(ASSUMPTIONS) if random.random() < 0.35 else None
    if storm is not None:
        breaks = storm.breaks
    shape = _special(Random(f"{seed}/special"), _shape(random, breaks), breaks)
    stormy = random.choice((1200.0, 2400.0, 3600.0))
    seating = draw_seating(seed, forced=seated) if storm is None else storm.seated
    if seating is not None and storm is None:
        seating = with_more(seed, seating)
    if seating is not None:
        return _seated(seed, shape, seating, storm, stormy)
    if storm is None:
        script = _script(random, shape, breaks, stormy)
        own = [one for one in KINDS.values() if _may_come(one, breaks)]
        script = _with_shares(seed, script, own, shape, stormy)
    else:
        kinds = [KINDS[name] for name in storm.kinds]
        script = _faults(random, kinds, storm.count, shape, breaks, stormy)
    if any(one.kind == "a zone has no room" for one in script):
        shape = _with_zones(Random(f"{seed}/zones"), shape)
    if any(one.kind in OF_IMAGES for one in script):
        shape = _with_images(Random(f"{seed}/images"), shape)
    crowded = {one.pool for one in script if one.kind == CROWDS}
    dispatching = draw_dispatching(seed) if storm is None else storm.dispatching
    if dispatching is not None:
        own = storm is None
        return _dispatched(random, seed, shape, dispatching, script, stormy, draws=own)
    shape = _crowded(_with_spares(Random(f"{seed}/spares"), shape), crowded)
    rounds = draw_rounds(seed)
    if rounds is not None:
        shape = with_scheduler(shape, rounds)
    return Scenario(seed, shape, breaks, stormy, script, random.random() < 0.4, rounds)


def _leased(seed: int) -> Scenario:
    """Several managers of each pool, from a stream of its own, in the world of the next seed that
    breaks no assumption and has no scheduler."""
    random = Random(f"{seed}/leased")
    world = _drawn(random.randrange(10**9), None, seated=False)
    while world.breaks is not None or world.shape.dispatching or world.shape.seated:
        world = _drawn(random.randrange(10**9), None, seated=False)
    leasing = Leasing(
        duration=random.choice((10.0, 30.0, 60.0)),
        dates=tuple(random.uniform(-25.0, 25.0) for _ in range(random.choice((2, 2, 3)))),
    )
    script = [one for one in world.script if one.kind not in NOT_LEASED]
    kinds = [kind for _, kind in sorted(KINDS.items()) if kind.leased]
    count = 3 + int(world.stormy / 300)
    own = _faults(random, kinds, count, world.shape, None, world.stormy)
    script += [replace(one, number=len(script) + one.number) for one in own]
    shape = replace(world.shape, leasing=leasing, sqlite=False)
    ordered = tuple(sorted(script, key=lambda one: one.at))
    return replace(world, seed=seed, shape=shape, script=ordered)


def _dispatched(
    random: Random,
    seed: int,
    shape: Shape,
    dispatching: Dispatching,
    script: tuple[Fault, ...],
    stormy: float,
    *,
    draws: bool,
) -> Scenario:
    """With a scheduler, and what goes wrong with it besides; no assumption is broken."""
    shape = with_dispatcher(replace(shape, stampless_pings=False), dispatching)
    kept = [one for one in script if KINDS[one.kind].breaks is None and one.kind != CROWDS]
    own, count = Random(f"{seed}/dispatched"), 2 + int(stormy / 400)
    there = [kind for _, kind in sorted(KINDS.items()) if kind.dispatched and not kind.apart]
    kinds = [kind for kind in there if not kind.later]
    weighed = [kind for kind in kinds if not kind.share]
    drawn = _faults(own, weighed, count if draws else 0, shape, None, stormy)
    script = tuple(
        replace(one, number=number)
        for number, one in enumerate(sorted((*kept, *drawn), key=lambda one: one.at))
    )
    if draws:
        script = _with_shares(seed, script, kinds, shape, stormy)
        script = _dispatched_later(seed, script, [one for one in there if one.later], shape, stormy)
    return Scenario(seed, shape, None, stormy, script, random.random() < 0.4)


def _dispatched_later(
    seed: int, script: tuple[Fault, ...], kinds: list[Kind], shape: Shape, stormy: float
) -> tuple[Fault, ...]:
    """In some of these worlds, what came there later, too.

    The stream's name spares each world that a test or a mutant names.
    """
    random = Random(f"{seed}/joins 0")
    if random.random() >= 0.4:
        return script
    later = _faults(random, kinds, random.randrange(1, 4), shape, None, stormy)
    numbered = (replace(one, number=len(script) + one.number) for one in later)
    return tuple(sorted((*script, *numbered), key=lambda one: one.at))


def _seated(
    seed: int, shape: Shape, seated: Seating, storm: Storm | None, stormy: float
) -> Scenario:
    """With Slurm's nodes as the records, from streams of its own; no assumption is broken."""
    random = Random(f"{seed}/seated")
    if seated.second_pool and len(shape.pools) == 1:
        shape = _with_second_pool(Random(f"{seed}/second seats"), shape)
    shape = with_seats(shape, seated)
    if storm is None:
        kinds = [kind for name, kind in sorted(KINDS.items()) if _is_of_seats(kind)]
        script = _faults(random, kinds, 2 + int(stormy / 200), shape, None, stormy)
        script = _with_later(seed, script, shape, stormy)
        script = _with_swap(seed, script, shape, stormy)
        own = [kind for kind in KINDS.values() if kind.share and _may_be_seated(kind)]
        script = _with_shares(seed, script, own, shape, stormy)
    else:
        kinds = [KINDS[name] for name in storm.kinds]
        script = _faults(random, kinds, storm.count, shape, None, stormy)
    if any(one.kind == "a zone has no room" for one in script):
        shape = _with_zones(Random(f"{seed}/zones"), shape)
    if any(one.kind in OF_IMAGES for one in script):
        shape = replace(shape, traits=replace(shape.traits, images=True))
    return Scenario(seed, shape, None, stormy, script, random.random() < 0.4)


def _with_second_pool(random: Random, shape: Shape) -> Shape:
    traits = shape.traits
    other = _pool(random, "other", visible_after=traits.visible_after, ids_unique=traits.ids_unique)
    return replace(shape, pools=(*shape.pools, other))


def _with_later(
    seed: int, script: tuple[Fault, ...], shape: Shape, stormy: float
) -> tuple[Fault, ...]:
    """In half of these worlds, what came there later, too."""
    random = Random(f"{seed}/seated later")
    if random.random() < 0.5:
        return script
    kinds = [
        kind
        for name, kind in sorted(KINDS.items())
        if (kind.seated and not kind.share) or name in SEATED_LATER
    ]
    later = _faults(random, kinds, random.randrange(1, 4), shape, None, stormy)
    numbered = (replace(one, number=len(script) + one.number) for one in later)
    return tuple(sorted((*script, *numbered), key=lambda one: one.at))


def _with_swap(
    seed: int, script: tuple[Fault, ...], shape: Shape, stormy: float
) -> tuple[Fault, ...]:
    """In some of these worlds, also another database for a while.

    The stream's name spares each world that a test or a mutant names.
    """
    random = Random(f"{seed}/seats swapped")
    if random.random() >= 0.1:
        return script
    (swap,) = _faults(random, [KINDS[SWAPPED]], 1, shape, None, stormy)
    return tuple(sorted((*script, replace(swap, number=len(script))), key=lambda one: one.at))


def _may_be_seated(kind: Kind) -> bool:
    return kind.breaks is None and not kind.leased and kind.name not in NOT_SEATED


def _is_of_seats(kind: Kind) -> bool:
    """Whether it came there from the first on."""
    if (
        kind.share
        or kind.seated
        or kind.leased
        or kind.name in SEATED_LATER
        or kind.name == SWAPPED
    ):
        return False
    return _may_be_seated(kind)


def _shape(random: Random, breaks: str | None) -> Shape:
    visible_after = random.choice((0.0, 60.0, 120.0))
    ids_unique = random.random() < 0.5
    two_pools = random.random() < 0.25
    names = ["main", "other"] if two_pools else ["main"]
    pools = tuple(
        _pool(random, name, visible_after=visible_after, ids_unique=ids_unique) for name in names
    )
    most = sum(settings.max_nodes for settings, _ in pools)
    return Shape(
        pools=pools,
        slots=max(2, most + random.choice((-1, 0, 0, 1, 3))),
        traits=CloudTraits(
            visible_after=visible_after,
            ids_unique=ids_unique,
            client_tokens=random.random() < 0.6,
            broad=random.random() < 0.4,
            clock_error=random.choice((0.0, 0.0, -30.0, 30.0)),
            shutdown_s=random.choice((1.0, 30.0, 90.0)),
        ),
        habits=Habits(
            ping_every=random.choice((20.0, 45.0)),
            works=random.choice((0.2, 0.5, 0.9)),
            tells_state=random.random() < 0.8,
            tells_instance=random.random() < 0.8,
            dies_every=random.choice((0.0, 1000.0, 3000.0)),
        ),
        fenced=breaks != "A4" and random.random() < 0.2,
        stampless_pings=breaks == "A4",
        demand_every=random.choice((100.0, 300.0, 1000.0)),
        heirlooms=random.randrange(6) if random.random() < 0.4 else 0,
        proven=random.random() > 0.03,
    )


def _special(random: Random, shape: Shape, breaks: str | None) -> Shape:
    """With what only some worlds have, each drawn by itself."""
    traits = replace(shape.traits, pins=random.random() < 0.35, two_listings=random.random() < 0.3)
    sqlite = random.random() < 0.12
    operators_every = random.choice((150.0, 300.0, 600.0)) if random.random() < 0.25 else 0.0
    pools = []
    for settings, poll_time in shape.pools:
        if random.random() < 0.2:
            settings = replace(settings, prune_after=random.choice((200.0, 400.0)))
        if random.random() < 0.15:
            sizes = settings.sizes if random.random() < 0.5 else (SMALL, UNPRICED)
            cap = random.choice((0.1, 0.25, 0.6, 1.1))
            settings = replace(settings, max_total_price=cap, sizes=sizes)
        pools.append((settings, poll_time))
    heirlooms = shape.heirlooms
    if random.random() < 0.08:
        # Much was there before, of which the operators decide (S5, D11).
        heirlooms = random.randrange(10, 30)
        traits = replace(traits, broad=True)
        operators_every = operators_every or 150.0
        pools[0] = (replace(pools[0][0], hold_backlog=True, max_cleans_per_cycle=1), pools[0][1])
    if breaks == "A4" and random.random() < 0.4:
        # By a ping that hangs, behind the fence.
        shape = replace(shape, fenced=True, stampless_pings=False)
    crowd = 0
    if random.random() < 0.01:
        crowd = random.randrange(40, 130)
        pools[0] = (replace(pools[0][0], hold_backlog=random.random() < 0.3), pools[0][1])
    return replace(
        shape,
        pools=tuple(pools),
        traits=traits,
        sqlite=sqlite,
        operators_every=operators_every,
        heirlooms=heirlooms,
        crowd=crowd,
        slots=shape.slots + crowd + max(0, heirlooms - 5),
    )


def _with_spares(random: Random, shape: Shape) -> Shape:
    """The same pools; in some worlds one or two nodes of some sizes are kept spare."""
    if random.random() >= SPARED:
        return shape
    pools = []
    for settings, poll_time in shape.pools:
        sizes = tuple(
            replace(size, spare_nodes=random.choice((0, 1, 1, 2)) if size.price else 0)
            for size in settings.sizes
        )
        # With one more than before, so that demand finds some room beside them.
        most = settings.max_nodes + random.choice((0, 1, 2))
        pools.append((replace(settings, sizes=sizes, max_nodes=most), poll_time))
    return replace(shape, pools=tuple(pools), slots=shape.slots + 2)


def _crowded(shape: Shape, names: set[str]) -> Shape:
    """The same pools; those of these names keep small spare nodes, as many as they may have."""
    pools = []
    for settings, poll_time in shape.pools:
        if settings.pool in names:
            most = max(2, settings.max_nodes)
            settings = replace(
                settings,
                sizes=(replace(SMALL, spare_nodes=most), LARGE),
                max_nodes=most,
                min_nodes=min(settings.min_nodes, most - 1),
                max_total_price=0.0,
                demand_polled=True,
            )
        pools.append((settings, poll_time))
    if not names:
        return shape
    # Nodes that say nothing are never known to be idle.
    habits = replace(shape.habits, tells_state=True, dies_every=0.0)
    return replace(shape, pools=tuple(pools), habits=habits, slots=shape.slots + len(names))


def _with_images(random: Random, shape: Shape) -> Shape:
    """The same pools in a cloud that tells its nodes' images; each keeps some idle nodes."""
    pools = []
    for settings, poll_time in shape.pools:
        sizes = tuple(
            replace(size, spare_nodes=random.choice((0, 1, 2)) if size.price else 0)
            for size in settings.sizes
        )
        oldest = random.choice((None, None, 900.0, 1500.0))
        most = settings.max_nodes + random.choice((0, 1, 2))
        settings = replace(settings, sizes=sizes, max_nodes=most, max_node_age=oldest)
        pools.append((settings, poll_time))
    traits = replace(shape.traits, images=True)
    return replace(shape, pools=tuple(pools), traits=traits, slots=shape.slots + 2)


def _with_zones(random: Random, shape: Shape) -> Shape:
    """The same pools, whose sizes are booted in several zones."""
    pools = []
    for settings, poll_time in shape.pools:
        zones, spread = ZONES[: random.choice((1, 2, 3))], random.random() < 0.5
        sizes = tuple(replace(size, places=zones, spread=spread) for size in settings.sizes)
        pools.append((replace(settings, sizes=sizes), poll_time))
    return replace(shape, pools=tuple(pools))


def _pool(
    random: Random, name: str, *, visible_after: float, ids_unique: bool
) -> tuple[Settings, float]:
    poll_time = random.choice(POLL_TIMES)
    max_nodes = random.choice((1, 2, 3, 5, 6, 8))
    settings = Settings(
        pool=name,
        node_stale_after=random.choice((240.0, 300.0, 420.0)),
        poll_stale_after=random.choice((100.0, 150.0)),
        boot_fail_after=random.choice((180.0, 240.0)),
        settle=random.choice((45.0, 60.0, 90.0)),
        absent_listings=random.choice((1, 2, 2, 3)),
        max_cleans_per_cycle=random.choice((1, 2, 25)),
        max_shutdowns_per_cycle=random.choice((1, 5)),
        hold_backlog=random.random() < 0.3,
        action_timeout=random.choice((200.0, 400.0)),
        visible_after=visible_after,
        claim_expiry=random.random() < 0.8,
        ids_unique=ids_unique,
        demand_polled=random.random() < 0.5,
        min_nodes=random.randrange(max_nodes + 1),
        max_nodes=max_nodes,
        max_poll_time=random.choice((60.0, 90.0)),
        sizes=random.choice(((SMALL,), (SMALL, LARGE, SPOT))),
        shutdown_windows=random.choice(((), (), (300.0, 120.0))),
    )
    return settings, poll_time


def _script(random: Random, shape: Shape, breaks: str | None, stormy: float) -> tuple[Fault, ...]:
    kinds = (KINDS[name] for name in sorted(KINDS))
    allowed = [one for one in kinds if _may_come(one, breaks) and not one.share]
    count = random.randrange(2, 5 + int(stormy / 200))
    return _faults(random, allowed, count, shape, breaks, stormy)


def _with_shares(
    seed: int, script: tuple[Fault, ...], kinds: Iterable[Kind], shape: Shape, stormy: float
) -> tuple[Fault, ...]:
    """And those of the kinds of which each is drawn by itself."""
    for kind in sorted(kinds, key=lambda one: one.name):
        random = Random(f"{seed}/{kind.name}")
        if not kind.share or random.random() >= kind.share:
            continue
        (one,) = _faults(random, [kind], 1, shape, None, stormy)
        script = (*script, replace(one, number=len(script)))
    return tuple(sorted(script, key=lambda one: one.at))


def _may_come(kind: Kind, breaks: str | None) -> bool:
    if kind.dispatched or kind.seated or kind.apart or kind.leased:
        return False
    return kind.breaks is None or kind.breaks == breaks


def _faults(
    random: Random,
    allowed: list[Kind],
    count: int,
    shape: Shape,
    breaks: str | None,
    stormy: float,
) -> tuple[Fault, ...]:
    weights = [_weight(kind, breaks) for kind in allowed]
    pools = [settings.pool for settings, _ in shape.pools]
    script: list[Fault] = []
    for number, kind in enumerate(random.choices(allowed, weights, k=count)):
        at = QUIET_S + random.random() * (stormy - QUIET_S)
        if script and random.random() < 0.4:
            # Trouble comes in groups.
            at = min(stormy - 1.0, script[-1].at + random.random() * 120.0)
        low, high = kind.lasts
        lasts = min(low + random.random() * (high - low), stormy - at)
        script.append(Fault(kind.name, at, lasts, number, random.choice(pools)))
    return tuple(sorted(script, key=lambda one: one.at))


def _weight(kind: Kind, breaks: str | None) -> float:
    return kind.weight * (8.0 if kind.breaks is not None and kind.breaks == breaks else 1.0)
