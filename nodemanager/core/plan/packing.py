"""How many waiting jobs share one node, as their scheduler would put them there.

It is first fit in the order of the queue: a job takes the first node with room that is there, comes
or is to be booted, whatever its size. No fewer nodes are asked for than the jobs need: what a node
is counted to have is never more than its size, and its scheduler, give it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Job, Size
from nodemanager.core.plan.fitting import usable_ram

MOST_ROOMS = 200
"""At most so many nodes that have room left are looked at for one job, the newest."""


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
    in the order to take them. `told` has what the scheduler believes of a node by its hostname,
    `least` what it believes of those still to come. `filling` have jobs, and room for more; of what
    is counted (`Job.gres`) it is not known what is left of them.
    """

    def __init__(
        self,
        hosts: Mapping[str, Sequence[str | None]],
        scaling: float,
        told: Mapping[str, SchedulerNode],
        least: Least,
        filling: Iterable[Filling] = (),
    ) -> None:
        self._spare = {name: deque(of_size) for name, of_size in hosts.items()}
        self._scaling = scaling
        self._told = told
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
        node = None if host is None else self._told.get(host)
        told = self._least if node is None else Least(node.cores, node.ram_mb)
        ram_mb = usable_ram(size, self._scaling)
        room = _Room(
            size,
            host,
            min(size.cores, told.cores or size.cores),
            min(ram_mb, told.ram_mb or ram_mb),
            dict(size.gres),
        )
        room.take(job)
        if room.cores > 0:
            self._rooms.append(room)
