"""How many waiting jobs share one node, as their scheduler would put them there.

It is first fit in the order of the queue: a job takes the first node with room that is there, comes
or is to be booted, whatever its size. No fewer nodes are asked for than the jobs need: what a node
is counted to have is never more than its size, and its scheduler, give it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nodemanager.core.model import features
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Job, Size

# Which size fits a job, and which is the cheapest that does (U11).


class Fitting:
    """Which of `sizes`, the cheapest first, fit a job; what was once asked for is known."""

    def __init__(self, sizes: Sequence[Size], settings: Settings) -> None:
        self._sizes = sizes
        self._scaling = settings.node_mem_scaling
        self._known: dict[tuple[object, ...], tuple[Size, ...]] = {}
        """The sizes that fit, by what a job asks for."""

    def size_for(self, job: Job) -> Size | None:
        """The cheapest size with at least what the job needs; None where there is none.

        A job that is not preemptible gets a preemptible size only where no other fits. A job's
        `instance_type` names a size, or else an instance type.
        """
        fallback = None
        for size in self._fitting(job):
            if job.preemptible or not size.preemptible:
                return size
            fallback = fallback or size
        return fallback

    def shaped(self, job: Job) -> tuple[Job, Size | None]:
        """The job shared out over the fewest nodes for which a size fits, and that size.

        Where none does, it is as its scheduler would have it first.
        """
        size = self.size_for(job)
        if size is None:
            for one in job.shapes:
                other = replace(
                    job,
                    count=one.count,
                    cores=one.cores,
                    ram_mb=one.ram_mb,
                    gres=one.gres,
                    shapes=(),
                )
                size = self.size_for(other)
                if size is not None:
                    return other, size
        return job, size

    def instead(self, job: Job, size: Size) -> tuple[Size, ...]:
        """The other sizes that fit the job, whose `size_for` is `size`, the cheapest first.

        Want of room makes no job fit for a preemptible size: there is none for one that got
        another.
        """
        spot = job.preemptible or size.preemptible
        others = self._fitting(job)
        return tuple([one for one in others if one is not size and (spot or not one.preemptible)])

    def _fitting(self, job: Job) -> tuple[Size, ...]:
        needs = (job.cores, job.ram_mb, job.scratch_mb, job.features, job.gres, job.instance_type)
        found = self._known.get(needs)
        if found is None:
            asked = self._sizes
            if job.instance_type is not None:
                named = job.instance_type
                asked = [size for size in self._sizes if named in (size.name, size.group)]
                asked = asked or [size for size in self._sizes if size.instance_type == named]
            found = tuple(size for size in asked if _fits(job, size, self._scaling))
            self._known[needs] = found
        return found


def _fits(job: Job, size: Size, scaling: float) -> bool:
    """Whether the size has what the job needs; unknown memory or scratch space (0) is enough."""
    return (
        size.cores >= job.cores
        and (not size.ram_mb or usable_ram(size, scaling) >= job.ram_mb)
        and (not size.scratch_mb or size.scratch_mb >= job.scratch_mb)
        and (not job.features or features.has_features(_features_of(size), job.features))
        and (not job.gres or features.has_gres(size.gres, job.gres))
    )


def usable_ram(size: Size, scaling: float) -> int:
    """The MB that jobs may have: what the file gives, else `scaling` of the machine's own."""
    return size.ram_mb if size.ram_is_given else int(size.ram_mb * scaling)


def _features_of(size: Size) -> tuple[str, ...]:
    """The size's features, with those that its names are."""
    names = (f"{features.SIZE_FEATURE}{name}" for name in size.names)
    return (*size.features, *names)


MOST_ROOMS = 200
"""The most nodes with room left that are looked at for one job: the newest ones."""


@dataclass(frozen=True, slots=True)
class Least:
    """The least that the scheduler believes any node to have that a new node may become."""

    cores: int | None = None
    ram_mb: int | None = None


def least_of(nodes: Iterable[SchedulerNode]) -> Least:
    """The least that any of these nodes has, as far as that is known."""
    known = [(node.cores, node.ram_mb) for node in nodes]
    return Least(
        min((cores for cores, _ in known if cores), default=None),
        min((ram_mb for _, ram_mb in known if ram_mb), default=None),
    )


@dataclass(frozen=True, slots=True)
class Filling:
    """A node of a size that its scheduler still fills with jobs, as far as the jobs leave room."""

    size: Size
    host: str
    cores: int
    ram_mb: int


@dataclass(slots=True)
class _Room:
    """What the jobs of this plan leave of one node; `host` is its hostname where that is known."""

    size: Size
    host: str | None
    cores: int
    ram_mb: int
    gres: dict[str, int]

    def fits(self, job: Job, sizes: Collection[str]) -> bool:
        return (
            self.cores >= job.cores
            and self.ram_mb >= job.ram_mb
            and self.size.name in sizes
            and self.host not in job.not_on
            and all(self.gres.get(name, 0) >= count for name, count in job.gres)
        )

    def take(self, job: Job) -> None:
        self.cores -= job.cores
        self.ram_mb -= job.ram_mb
        for name, count in job.gres:
            self.gres[name] = self.gres.get(name, 0) - count


class Packing:
    """The nodes that serve the queue.

    `hosts` are those that no job has yet, by the name of their size: their hostnames, where known,
    in the order to take them. `believed` has what the scheduler believes of a node by its hostname,
    `least` what it believes of those still to come. `filling` have jobs, and room for more; of what
    is counted (`Job.gres`) it is not known what is left of them.
    """

    def __init__(
        self,
        hosts: Mapping[str, Sequence[str | None]],
        scaling: float,
        believed: Mapping[str, SchedulerNode],
        least: Least,
        filling: Iterable[Filling] = (),
    ) -> None:
        self._spare = {name: deque(of_size) for name, of_size in hosts.items()}
        self._scaling = scaling
        self._believed = believed
        self._least = least
        self._rooms = [_Room(one.size, one.host, one.cores, one.ram_mb, {}) for one in filling]
        self._first: dict[object, int] = {}
        """By what a job asks for: the first room that may still have that."""

    def join(self, job: Job, sizes: Collection[str], count: int) -> list[str | None]:
        """The nodes on which up to `count` shares of the job go beside other jobs, one on each."""
        asked = (job.cores, job.ram_mb, job.gres, job.not_on, frozenset(sizes))
        first = max(self._first.get(asked, 0), len(self._rooms) - MOST_ROOMS)
        joined: list[str | None] = []
        at = first
        while len(joined) < count and at < len(self._rooms):
            room = self._rooms[at]
            if room.fits(job, sizes):
                room.take(job)
                joined.append(room.host)
            if at == first and not room.fits(job, sizes):
                # A node only fills: what has no room for this now never will.
                first += 1
            at += 1
        self._first[asked] = first
        return joined

    def take(self, job: Job, size: Size, count: int) -> list[str | None]:
        """Give the job up to `count` nodes of the size that no job has yet; those that it got."""
        hosts = self._spare.get(size.name)
        taken: list[str | None] = []
        while hosts and len(taken) < count:
            host = next((one for one in hosts if one is None or one not in job.not_on), "")
            if host == "":
                break
            hosts.remove(host)
            self.open(job, size, host)
            taken.append(host)
        return taken

    def take_host(self, host: str) -> str | None:
        """Give that very node to a job; the name of its size, None where a job has it already."""
        for name, hosts in self._spare.items():
            if host in hosts:
                hosts.remove(host)
                return name
        return None

    def open(self, job: Job, size: Size, host: str | None = None) -> None:
        """Put the job on a node of the size that no other has."""
        if not job.shares:
            return
        node = None if host is None else self._believed.get(host)
        believed = self._least if node is None else Least(node.cores, node.ram_mb)
        ram_mb = usable_ram(size, self._scaling)
        room = _Room(
            size,
            host,
            min(size.cores, believed.cores or size.cores),
            min(ram_mb, believed.ram_mb or ram_mb),
            dict(size.gres),
        )
        room.take(job)
        if room.cores > 0:
            self._rooms.append(room)
