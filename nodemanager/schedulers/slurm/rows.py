"""Slurm's nodes and pending jobs, however they were told, in one form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nodemanager.core.model import worker_words
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Listed, WorkerState

WAITS_FOR_NODES = frozenset(
    {
        *("None", "Resources", "Nodes", "Priority", "ReqNodeNotAvail", "NodeDown"),
        *("BadConstraints", "Constraints"),
    }
)
"""The reasons of jobs that another node may help. Whatever else a job waits for - its begin time,
another job, a limit, a licence, an operator's hold - no node brings it. As text, `Resources` is
`Nodes required for job are DOWN, ...` where some of them are."""
LIMITED = frozenset({"PartitionNodeLimit", "PartitionConfig"})
"""The reasons of jobs that their partition never lets run as they are: their owner is told."""
MAINTENANCE = "Reserved for maintenance"
"""What squeue adds to ReqNodeNotAvail where the job would run into a reservation."""
_REASON = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class SinfoNode:
    """A node as sinfo tells it; `words` are its state's (`worker_words`), none where unreadable.

    `used_cores` and `used_ram_mb` are what its jobs have of it. `started_at` is when its slurmd was
    started; None, or 0, where slurmctld does not know that.
    """

    name: str
    words: frozenset[str]
    reason: str
    features: tuple[str, ...]
    weight: int | None
    cores: int | None
    ram_mb: int | None = None
    threads: int | None = None
    used_cores: int | None = None
    used_ram_mb: int | None = None
    problem: str | None = None
    started_at: int | None = None

    def node(self) -> SchedulerNode:
        return SchedulerNode(
            name=self.name,
            state=worker_words.worker_state(self.words),
            draining=worker_words.DRAIN in self.words,
            reserved=not self.words.isdisjoint(worker_words.RESERVED),
            reason=self.reason,
            said="+".join(sorted(self.words)),
            features=self.features,
            weight=self.weight,
            cores=self.cores,
            responds=worker_words.NOT_RESPONDING not in self.words,
            ram_mb=self.ram_mb,
            free_cores=_left(self.cores, self.used_cores),
            free_ram_mb=_left(self.ram_mb, self.used_ram_mb),
            planned=worker_words.PLANNED in self.words
            and worker_words.worker_state(self.words - {worker_words.PLANNED}) is WorkerState.IDLE,
            started_at=self.started_at or None,
        )


@dataclass(frozen=True, slots=True)
class JobRow:
    """A pending job as squeue tells it. Memory and disk are in MB. `reason` begins with a word.

    `nodes` is Slurm's own estimate where the job gives no number; it may have from `least_nodes`
    to `most_nodes` of them, with `least_cpus` on each. `tasks` are those of an array that still
    wait, as `1-5,9%2`; None for a job that is no array. Of the two amounts of memory one is 0, and
    both are where the job asks for none. The texts are Slurm's, "" where the job asks for nothing.
    `cpus_per_task` and `per_core`, the CPUs used of one core, are 0 where the job leaves them open.
    `is_alone`: it shares its nodes with no other job.
    """

    id: str
    number: int
    reason: str
    priority: int
    nodes: int = 1
    cpus: int = 1
    least_cpus: int = 1
    ram_mb_per_cpu: int = 0
    ram_mb_per_node: int = 0
    disk_mb: int = 0
    features: str = ""
    tasks: str | None = None
    least_nodes: int = 0
    most_nodes: int = 0
    cpus_per_task: int = 0
    tasks_per_node: int = 0
    sockets: int = 0
    per_core: int = 0
    tres_per_node: str = ""
    tres_per_job: str = ""
    tres_per_socket: str = ""
    tres_per_task: str = ""
    cpus_per_tres: str = ""
    mem_per_tres: str = ""
    required: str = ""
    excluded: str = ""
    reservation: str = ""
    is_contiguous: bool = False
    is_alone: bool = False
    partitions: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """What the job waits for, in Slurm's one word."""
        word = _REASON.match(self.reason)
        return "" if word is None else word[0]

    @property
    def is_limited(self) -> bool:
        """Whether its partition never lets it run."""
        return self.cause in LIMITED and self.priority > 0

    @property
    def waits_for_nodes(self) -> bool:
        """Whether a node could help. A held job has priority 0."""
        if self.cause not in WAITS_FOR_NODES or self.priority <= 0:
            return False
        return MAINTENANCE not in self.reason.replace("_", " ")


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A pending job of which more than its number can't be read, and why."""

    number: int
    problem: str


def _left(whole: int | None, used: int | None) -> int | None:
    return None if whole is None or used is None else max(0, whole - used)


def listing(rows: Iterable[SinfoNode], problems: tuple[str, ...] = ()) -> Listed[SchedulerNode]:
    """The nodes of `rows`, where a node of several partitions comes several times.

    Of a node that is told in two ways, or that can't be read, nothing but its name is known.
    `problems` are those of rows that name no node.
    """
    found: dict[str, SchedulerNode] = {}
    doubted: dict[str, str] = {}
    for row in rows:
        node = row.node()
        if row.problem is not None:
            doubted[node.name] = row.problem
        elif found.get(node.name, node) != node:
            doubted.setdefault(node.name, "it is told in two ways")
        found[node.name] = node
    for name in doubted:
        found[name] = unknown_node(name)
    unread = tuple(f"node {name}: {problem}" for name, problem in doubted.items())
    return Listed(tuple(found.values()), complete=not problems, problems=(*problems, *unread))


def unknown_node(name: str) -> SchedulerNode:
    """A node that only its name is known of."""
    return SchedulerNode(name, WorkerState.UNKNOWN)
