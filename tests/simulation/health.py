"""What is true of each pool's nodes in the calm: what each is, and what the pool lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from nodemanager.core.model.sizes import by_price
from nodemanager.core.model.world import CloudState, Record, Size, WorkerState
from tests.simulation.cloud import Instance
from tests.simulation.registry import Registry
from tests.simulation.world import Pool, World

ROBBERS = ("A1", "A2", "A4", "A5")
"""What, once broken, may take a record from its living node. A wrong clock (A3) can't do it alone:
no record is freed whose node the cloud, asked for it, has (C11)."""


class Health(StrEnum):
    """What a living node of ours truly is."""

    SERVING = "serving"
    """It pings, and its own record takes the pings."""
    BOOTING = "booting"
    """It has not pinged in this life yet, and will."""
    SILENT = "silent"
    """It has a record, and will never ping it (again), or is refused when it does."""
    UNPAIRED = "unpaired"
    """No record is its own: none takes its pings, or nothing tells that they are its (P1, D7)."""
    UNJOINED = "unjoined"
    """It pings, and its scheduler will never hear it (D17)."""
    ENDING = "ending"
    """A destroy took effect; the cloud is at it."""
    HELD = "held"
    """An operator wants it left alone."""


@dataclass(frozen=True)
class Patient:
    """One living node of a pool."""

    node: Instance
    health: Health
    paired: bool
    idle: bool
    pinged: bool


@dataclass(frozen=True)
class Ward:
    """All living nodes of one pool, and its records that none of them has."""

    patients: tuple[Patient, ...]
    others: int
    """Nodes without any pool's tag that the pool may count as its own (D11)."""
    estranged: int
    """Records that a living node still pings whose tags an operator took, and that no listing of
    the pool shows: it may cost what a node costs, and serves nobody (D11, P6)."""
    bereft: tuple[Record, ...]
    free_slots: int

    def of(self, *healths: Health) -> list[Patient]:
        return [one for one in self.patients if one.health in healths]

    @property
    def strays(self) -> list[Patient]:
        """Those that name no record, and that no record names: they serve nobody (D11)."""
        return [one for one in self.of(Health.UNPAIRED) if one.node.tags.record is None]

    @property
    def idle(self) -> list[Patient]:
        return [one for one in self.of(Health.SERVING) if one.idle]


def ward(world: World, pool: Pool) -> Ward:
    registry = world.registry
    records = registry.records()
    living = world.cloud.living()
    patients = tuple(_patient(world, pool, one) for one in living if one.tags.pool == pool.name)
    lives = {(one.tags.record, one.tags.incarnation) for one in living}
    pinging = _secrets(living)
    untagged = [one for one in living if one.tags.pool is None]
    lost = _secrets(untagged) - _secrets(one for one in living if one.tags.pool is not None)
    broad = world.shape.traits.broad
    ours = [one for one in records if one.pool == pool.name and one.holds_anything]
    return Ward(
        patients,
        len(untagged) if broad else 0,
        0 if broad else sum(one.ping_secret in lost for one in ours),
        tuple(
            one
            for one in ours
            if (one.uuid, one.incarnation) not in lives and one.ping_secret not in pinging
        ),
        free_slots(registry),
    )


def free_slots(registry: Registry) -> int:
    """How many slots neither a record holds nor a claim will be given."""
    records = registry.records()
    held = sum(one.slot_number is not None for one in records)
    claims = sum(one.slot_number is None and one.claim is not None for one in records)
    return registry.naming.slots - held - claims


def _secrets(nodes: Iterable[Instance]) -> set[str]:
    """What they ping with."""
    return {one.machine.secret for one in nodes if one.machine is not None}


def _patient(world: World, pool: Pool, node: Instance) -> Patient:
    machine = node.machine
    record = world.registry.record(node.tags.record or "")
    paired = record is not None and record.incarnation == node.tags.incarnation
    pinged = machine is not None and machine.heard_at is not None
    # A twin's pings made the record one that was heard.
    pinged = pinged or (paired and record is not None and record.last_ping_at is not None)
    theirs = None if machine is None else world.registry.record(machine.uuid)
    knows = machine is not None and theirs is not None and theirs.ping_secret == machine.secret
    taken = knows and not is_refused(node, theirs)
    own = record if paired else theirs if knows else None
    idle = (
        (paired or _pairs_by_id(world, pool, node, own))
        and own is not None
        and own.worker_state is WorkerState.IDLE
        and machine is not None
        and machine.state == "idle"
    )
    marks = {node.id, *(() if own is None else (own.uuid,))}
    if node.state is CloudState.STOPPING:
        health = Health.ENDING
    elif node.held or (own is not None and own.held) or marks & pool.holds:
        health = Health.HELD
    elif not paired and not taken:
        health = Health.UNPAIRED
    elif machine is None or not machine.on or machine.mute:
        health = Health.SILENT
    elif not machine.up:
        health = Health.BOOTING
    elif not taken:
        health = Health.SILENT
    else:
        health = Health.SERVING if paired or _is_named(node, theirs) else Health.UNPAIRED
    if health is Health.SERVING and world.slurm is not None and node.id in world.slurm.deaf:
        health = Health.UNJOINED
    return Patient(node, health, paired, idle, pinged)


def _pairs_by_id(world: World, pool: Pool, node: Instance, record: Record | None) -> bool:
    """Whether it pairs with the record that it pings, though no tag of it names one (P1)."""
    shown = world.cloud.shown(node)
    if not pool.settings.ids_unique or node.tags.record is not None or record is None:
        return False
    if shown is None or shown.created_at is None or record.first_ping_at is None:
        return False
    ours = record.pool == pool.name and record.instance_id == node.id
    return ours and record.first_ping_at >= shown.created_at


def _is_named(node: Instance, record: Record | None) -> bool:
    """Whether an instance id or a tag says that the record it pings is its own (D7)."""
    if record is None:
        return False
    tags, life = node.tags, record.incarnation
    if record.instance_id is None:
        return tags.record == record.uuid and None in (tags.incarnation, life)
    return record.instance_id == node.id and (life is None or tags.record in (None, record.uuid))


def is_refused(node: Instance, record: Record | None) -> bool:
    """Whether its pings name another node than the record's own (P1a): its twin pinged first."""
    tells = node.machine is not None and node.machine.habits.tells_instance
    return tells and record is not None and record.instance_id not in (None, node.id)


def is_lost(world: World, one: Patient) -> bool:
    """Whether nothing leads to it: no listing shows it, and it was robbed of what D13 asks by.

    That is a claim of its own. The cloud denied the node until it expired (A1, C21); the node was
    made only then (A2); or somebody wrote over the record (A4, A5).
    """
    node = one.node
    if node.id not in world.cloud.hidden or one.paired:
        return False
    return any(world.is_excused(node.id, node.tags.record, which=which) for which in ROBBERS)


def wanted(world: World, pool: Pool) -> tuple[int, int]:
    """How many idle or coming nodes demand and spare_nodes want: at least, and at most."""
    spare = sum(size.spare_nodes for size in pool.settings.sizes)
    low, high = jobs_wanted(world, pool)
    return min(low + spare, pool.settings.max_nodes), high + spare


def jobs_wanted(world: World, pool: Pool) -> tuple[int, int]:
    """How many nodes the jobs that wait want: at least, and at most.

    More of one job than max_nodes can't be had (U12): it may boot as many as may be, or none. Nor
    can what fits no size.
    """
    settings = pool.settings
    if not settings.demand_polled:
        return 0, 0
    counts = [
        job.count
        for job in world.jobs(pool)
        if any(one.cores >= job.cores and one.ram_mb >= job.ram_mb for one in settings.sizes)
    ]
    # Nor what costs more than max_total_price by itself.
    most = min(settings.max_nodes, _affordable(pool, 0))
    return sum(count for count in counts if count <= most), sum(counts)


def lacking(world: World, pool: Pool, seen: Ward) -> int:
    """How many nodes should be created, and can be; never too many.

    `seen` has those bereft records that the pool may still take a node to be of.
    """
    settings = pool.settings
    waiting = sum(is_unpinged_claim(one) for one in seen.bereft)
    up = len(seen.patients) - len(seen.of(Health.ENDING)) - len(seen.strays)
    up += seen.others + waiting
    # Any that may yet take work, or that the manager may still take for such.
    at_work = [one for one in seen.of(Health.SERVING, Health.HELD) if not one.idle]
    low, _ = wanted(world, pool)
    lacks = max(low - (up - len(at_work)), settings.min_nodes - up)
    existing = len(seen.patients) + seen.others + seen.estranged + len(seen.bereft)
    ours = [one for one in world.registry.records() if one.pool == pool.name]
    claims = sum(is_unpinged_claim(one) and not ended_in_setup(world, one) for one in ours)
    room = min(settings.max_nodes - existing, settings.max_nodes - claims)
    room = min(room, seen.free_slots, _affordable(pool, existing))
    return max(0, min(lacks, room))


def may_replace(pool: Pool, seen: Ward) -> bool:
    """Whether there surely is a slot (U7) and money for another node once one has gone (D15).

    Records that were there before us may hold more slots than there are: one on slot 0 counts.
    """
    if seen.free_slots < 0:
        return False
    existing = len(seen.patients) + seen.others + seen.estranged + len(seen.bereft)
    return _affordable(pool, existing - 1) > 0


def _affordable(pool: Pool, existing: int) -> int:
    """How many more may be booted for max_total_price, if each of those were the dearest."""
    settings = pool.settings
    if settings.max_total_price <= 0:
        return settings.max_nodes
    dearest = max((one.price or 0.0 for one in settings.sizes), default=0.0)
    return 0 if dearest <= 0 else int(settings.max_total_price / dearest + 1e-9) - existing


def surplus(world: World, pool: Pool, seen: Ward) -> int:
    """How many idle nodes should be shut down; never too many."""
    settings = pool.settings
    idle, serving = len(seen.idle), len(seen.of(Health.SERVING))
    _, high = wanted(world, pool)
    # Strays that are listed fill max_nodes until they end, and min_nodes never.
    strays = sum(one.node.id not in world.cloud.hidden for one in seen.strays)
    over = min(idle, serving + strays - settings.max_nodes)
    return max(0, min(max(idle - high, over), serving - settings.min_nodes))


def spare_beyond(world: World, pool: Pool, seen: Ward) -> int:
    """How many idle nodes should go because their own size keeps fewer; never too many.

    Jobs may want any size, so that what they want at most is allowed for in each.
    """
    settings = pool.settings
    _, high = jobs_wanted(world, pool)
    idle = Counter(one.node.tags.size for one in seen.idle)
    beyond = sum(max(0, idle[size.name] - size.spare_nodes - high) for size in settings.sizes)
    return max(0, min(beyond, len(seen.of(Health.SERVING)) - settings.min_nodes))


def given_up(world: World, pool: Pool, seen: Ward) -> int:
    """How many spare nodes should go, because jobs lack room for a node of the size that they want.

    Jobs of one core want the cheapest size that is not preemptible, and larger ones, if they are
    all that waits, the only size that fits; only max_nodes is asked. A node with more cores than
    that size serves them as well.
    """
    settings, living = pool.settings, seen.patients
    wanted, count = _asked_for(world, pool)
    keeps = any(size.spare_nodes for size in settings.sizes)
    if wanted is None or not keeps or not settings.demand_polled or settings.max_total_price > 0:
        return 0
    cores = {size.name: size.cores for size in settings.sizes}

    def is_too_small(one: Patient) -> bool:
        return cores.get(one.node.tags.size or "", wanted.cores) < wanted.cores

    alike = sum(not is_too_small(one) for one in living)
    others = [one for one in seen.idle if is_too_small(one)]
    is_full = len(seen.of(Health.SERVING)) == len(living) == settings.max_nodes
    if not is_full or seen.bereft or alike >= count:
        return 0
    return max(0, min(len(others), len(living) - settings.min_nodes, count - alike))


def _asked_for(world: World, pool: Pool) -> tuple[Size | None, int]:
    """The size that the pool's jobs want, and how many of it; None where that is not sure."""
    sizes = [one for one in by_price(pool.settings.sizes) if not one.preemptible]
    if pool.wanted > 0:
        return next(iter(sizes), None), pool.wanted
    jobs = world.jobs(pool)
    fits = {one.name: one for job in jobs for one in sizes if one.cores >= job.cores}
    is_sure = len(fits) == 1 and all(job.count == 1 and job.ram_mb == 0 for job in jobs)
    return (next(iter(fits.values())), len(jobs)) if is_sure else (None, 0)


def ended_in_setup(world: World, record: Record) -> bool:
    """Whether the record's node was there, and has ended without a ping."""
    made = world.cloud.by_record.get(record.uuid, ())
    own = [one for one in made if one.tags.incarnation == record.incarnation]
    return is_unpinged_claim(record) and bool(own) and not any(one.lives for one in own)


def is_unpinged_claim(record: Record) -> bool:
    """It is one of those that never exceed max_nodes until they are cleaned (U6)."""
    pinged = record.first_ping_at is not None or record.last_ping_at is not None
    return record.claim is not None and not pinged
