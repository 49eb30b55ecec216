"""How many nodes of each size the queue wants, and which of its jobs no boot serves (U12)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from nodemanager.core.model.features import shown, shown_gres
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import Job, Size, WorkerState
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.availability import has_room, lacked_room
from nodemanager.core.plan.packing import Fitting, Packing, least_of
from nodemanager.core.plan.slots import FreeSeats, NextNames
from nodemanager.core.plan.supply import Supply

PRICE_ERROR = 1e-9
"""By how much a float sum of prices may differ from the decimal sum that an operator makes."""


@dataclass(frozen=True, slots=True)
class Lot:
    """How many nodes of a size are wanted, and why; `host` is the seat that one is for."""

    size: Size
    reason: Reason
    count: int
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What a job of the queue has: the nodes that serve it, by hostname (None: not known yet).

    `lacks` is how many more of the `size` are wanted for it.
    """

    job: Job
    hosts: tuple[str | None, ...] = ()
    size: Size | None = None
    lacks: int = 0


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the queue wants: nodes by size, the missing lots in its order, the impossible jobs.

    `shares` has each job that a boot can serve, in its order.
    """

    by_size: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    lots: list[Lot] = field(default_factory=list)
    unsatisfiable: list[Verdict] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)


def is_over(price: float, settings: Settings) -> bool:
    return price > settings.max_total_price + PRICE_ERROR


def weigh(
    supply: Supply,
    snapshot: Snapshot,
    settings: Settings,
    free_seats: FreeSeats | None,
    names: NextNames | None = None,
) -> Wishes:
    """What the queue wants, the nodes that serve it already included.

    Spare nodes serve its first jobs (U12). A job whose size lately had no room is served by the
    next one that fits (D6). `names` are the hostnames that new nodes would get, where known.
    """
    weighing = _Weighing(supply, snapshot, settings, free_seats, names)
    for job in snapshot.demand or ():
        weighing.add(job)
    return weighing.found


class _Weighing:
    """The queue as far as it was weighed."""

    def __init__(
        self,
        supply: Supply,
        snapshot: Snapshot,
        settings: Settings,
        free_seats: FreeSeats | None,
        names: NextNames | None,
    ) -> None:
        self.supply = supply
        self._sizes = Fitting(supply.sizes.by_price, settings)
        self.snapshot = snapshot
        self.settings = settings
        self.free_seats = free_seats
        self.found = Wishes()
        self._names = () if names is None else names.names
        self._booted = 0
        listing = snapshot.history.scheduler
        self._nodes = {} if listing is None else {node.name: node for node in listing.items}
        self._packing = Packing(
            supply.hosts,
            settings.node_mem_scaling,
            self._nodes,
            least_of(
                self._nodes[name] for name in self._names or self._nodes if name in self._nodes
            ),
            supply.filling,
        )

    def add(self, job: Job) -> None:
        job, size = self._sizes.shaped(job)
        verdict = self._unsatisfiable(job, size)
        if verdict is not None:
            self.found.unsatisfiable.append(verdict)
        elif size is None:
            return
        elif job.host is not None:
            # Nodes that serve other seats don't serve this one.
            self.found.by_size[size.name] += job.count
            lacks = 0 if self.free_seats is None else self.free_seats.count_for(job.host)
            self.found.lots.append(Lot(size, Reason.WANTED, lacks, job.host))
            hosts = (job.host,) * (job.count - min(lacks, job.count))
            self.found.shares.append(Share(job, hosts, size, min(lacks, job.count)))
        else:
            self._serve(job, size)

    def _without_its_own(self, job: Job) -> Job:
        """The rest of a job that names some of its nodes, which are there or come already."""
        for host in job.on:
            name = self._packing.take_host(host)
            if name is not None:
                self.found.by_size[name] += 1
        if not job.on:
            return job
        return replace(job, count=max(0, job.count - len(job.on)), not_on=(*job.not_on, *job.on))

    def _serve(self, whole: Job, size: Size) -> None:
        """Give the job what is there, and ask for the rest."""
        job = self._without_its_own(whole)
        others = self._instead_of(size, job)
        joined = self._joined(job, size)
        hosts, lacks = [*whole.on, *joined], job.count - len(joined)
        for one in (size, *others):
            served = self._packing.take(job, one, lacks)
            self.found.by_size[one.name] += len(served)
            hosts += served
            lacks -= len(served)
        boot = self._with_room((size, *others)) if lacks else size
        self.found.shares.append(Share(whole, tuple(hosts), boot, lacks))
        next_names = self._names[: self._booted + lacks] if job.not_on else ()
        left_out = set(job.not_on).intersection(next_names)
        if lacks and left_out:
            detail = f"it excludes {min(left_out)}, a name that the next nodes would get"
            self.found.unsatisfiable.append(keep(job.id, Reason.JOB_TIED, detail=detail))
        elif lacks:
            self._booted += lacks
            self.found.by_size[boot.name] += lacks
            self.found.lots.append(Lot(boot, Reason.WANTED, lacks))
            for _ in range(lacks):
                self._packing.open(job, boot)

    def _joined(self, job: Job, size: Size) -> list[str | None]:
        """The job's nodes that other jobs have, too."""
        if not job.shares:
            return []
        instead = self._sizes.instead(job, size)
        return self._packing.join(job, {one.name for one in (size, *instead)}, job.count)

    def _instead_of(self, size: Size, job: Job) -> list[Size]:
        """The other sizes that may serve the job, if `size` lately had no room (D6)."""
        limits, now = self.snapshot.limits, self.snapshot.now
        if not lacked_room(limits, size.name, now, self.settings):
            return []
        others = self._sizes.instead(job, size)
        return [one for one in others if self._unsatisfiable(job, one) is None]

    def _with_room(self, choice: Sequence[Size]) -> Size:
        """The first of these sizes that there is room for; the first of all if there is none."""
        limits, now = self.snapshot.limits, self.snapshot.now
        if len(choice) == 1 or has_room(limits, choice[0], now):
            return choice[0]
        for one in choice[1:]:
            price = self.supply.price + (one.price or 0.0)
            dear = self.settings.max_total_price > 0 and is_over(price, self.settings)
            if has_room(limits, one, now) and not dear:
                return one
        return choice[0]

    def _unsatisfiable(self, job: Job, size: Size | None) -> Verdict | None:
        """Why the job could not be served even in an empty pool; None if it could (U12)."""
        return next(self._causes(job, size), None)

    def _causes(self, job: Job, size: Size | None) -> Iterator[Verdict]:
        settings = self.settings
        name = None if size is None else size.name
        if size is None and job.unserved is None:
            yield keep(job.id, Reason.NO_FITTING_SIZE, size=job.instance_type, **_asked(job))
        if job.count > settings.max_nodes:
            measures = {"size": name, "count": job.count, "limit": settings.max_nodes}
            yield keep(job.id, Reason.JOB_OVER_MAX_NODES, **measures)
        if job.unserved is not None:
            yield keep(job.id, job.unserved.reason, detail=job.unserved.detail)
        lacking = self._lacking(job)
        if lacking:
            detail = f"it asks for nodes by name, and no boot is sure to bring {lacking[0]}"
            yield keep(job.id, Reason.JOB_TIED, detail=detail)
        if settings.max_total_price <= 0 or size is None:
            return
        if not size.price:
            yield keep(job.id, Reason.UNPRICED_SIZE, size=name)
            return
        price = job.count * size.price
        if is_over(self.supply.fixed_price + price, settings):
            limit = settings.max_total_price - self.supply.fixed_price
            yield keep(job.id, Reason.JOB_OVER_MAX_PRICE, size=name, price=price, limit=limit)

    def _lacking(self, job: Job) -> list[str]:
        """The nodes that the job names, without those that work in the scheduler or are to come."""
        if not job.on:
            return []
        known, down = self._hostnames, WorkerState.DOWN
        return [
            host
            for host in job.on
            if host not in known and (host not in self._nodes or self._nodes[host].state is down)
        ]

    @cached_property
    def _hostnames(self) -> frozenset[str | None]:
        """Those of the listed records."""
        return frozenset(record.hostname for record in self.snapshot.history.listed_records)


def _asked(job: Job) -> dict[str, object]:
    asked: dict[str, object] = {
        "cores": job.cores,
        "ram_mb": job.ram_mb,
        "scratch_mb": job.scratch_mb,
    }
    if job.features:
        asked["features"] = shown(job.features)
    if job.gres:
        asked["gres"] = shown_gres(job.gres)
    return asked
