"""Slurm's nodes and waiting jobs, however they were told, in the words of core."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodemanager.core.model.features import SIZE_FEATURE, Alternatives, Gres, alternatives_of
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.worker_words import (
    DRAIN,
    NOT_RESPONDING,
    RESERVED,
    worker_state,
)
from nodemanager.core.model.world import Job, Listed

WAITS_FOR_NODES = frozenset(
    {"None", "Resources", "Nodes", "Priority", "ReqNodeNotAvail", "NodeDown", "BadConstraints"}
)
"""The reasons of jobs that another node may help. Whatever else a job waits for - its begin time,
another job, a limit, a licence, an operator's hold - no node brings it. As text, `Resources` is
`Nodes required for job are DOWN, ...` where some of them are."""
MAINTENANCE = "Reserved for maintenance"
"""What squeue adds to ReqNodeNotAvail where the job would run into a reservation."""
MAX_TASKS = 5000
"""So many tasks of one array are told at most: far more nodes than one pool has."""
_REASON = re.compile(r"[A-Za-z]+")
_ASKED_SIZE = re.compile(re.escape(SIZE_FEATURE) + r"([^&|,()\[\]*]+)")
_TASKS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as sinfo tells it; `words` are its state's (`worker_words`)."""

    name: str
    words: frozenset[str]
    reason: str
    features: tuple[str, ...]
    weight: int | None
    cores: int | None

    def node(self) -> SchedulerNode:
        return SchedulerNode(
            name=self.name,
            state=worker_state(self.words),
            draining=DRAIN in self.words,
            reserved=not self.words.isdisjoint(RESERVED),
            reason=self.reason,
            said="+".join(sorted(self.words)),
            features=self.features,
            weight=self.weight,
            cores=self.cores,
            responds=NOT_RESPONDING not in self.words,
        )


@dataclass(frozen=True, slots=True)
class JobRow:
    """A pending job as squeue tells it. Memory and disk are in MB. `reason` begins with a word.

    Slurm may spread `cpus` over more than `nodes` nodes, with `least_cpus` on each. `tasks` are
    those of an array that still wait, as `1-5,9%2`; None for a job that is no array. Of the two
    amounts of memory one is 0, and both are where the job asks for none.
    """

    id: str
    number: int
    reason: str
    priority: int
    nodes: int
    cpus: int
    least_cpus: int
    ram_mb_per_cpu: int
    ram_mb_per_node: int
    disk_mb: int
    features: str
    tasks: str | None = None
    gres: Gres = ()

    @property
    def waits_for_nodes(self) -> bool:
        """Whether a node could help. Priority 0 is that of a held job."""
        word = _REASON.match(self.reason)
        if word is None or word[0] not in WAITS_FOR_NODES or self.priority <= 0:
            return False
        return MAINTENANCE not in self.reason.replace("_", " ")


def listing(rows: Iterable[NodeRow], problems: tuple[str, ...] = ()) -> Listed[SchedulerNode]:
    """The nodes of `rows`, where a node of several partitions comes several times."""
    found: dict[str, SchedulerNode] = {}
    twofold = []
    for row in rows:
        node = row.node()
        if found.setdefault(node.name, node) != node:
            twofold.append(f"node {node.name} is told in two ways")
    problems = (*problems, *dict.fromkeys(twofold))
    return Listed(tuple(found.values()), complete=not problems, problems=problems)


def queue(rows: Iterable[JobRow], most_cores: int | None) -> tuple[Job, ...]:
    """The jobs that wait for nodes, by falling priority, and the first submitted first."""
    waiting = [row for row in rows if row.waits_for_nodes]
    waiting.sort(key=lambda row: (-row.priority, row.number))
    return tuple(job for row in waiting for job in jobs_of(row, most_cores))


def jobs_of(row: JobRow, most_cores: int | None) -> Iterator[Job]:
    """The job, or each task of the array that may run now.

    A job that gives no number of nodes is spread over as many as its CPUs need where the largest
    node has `most_cores` (None: not known, and one node is to hold them all).
    """
    nodes = max(1, row.nodes)
    if most_cores:
        nodes = max(nodes, math.ceil(row.cpus / most_cores))
    cores = max(1, row.least_cpus, math.ceil(row.cpus / nodes))
    instance_type, features = asked_of(row.features)
    ids = [row.id] if row.tasks is None else [f"{row.id}_{task}" for task in tasks_of(row.tasks)]
    for id in ids:
        yield Job(
            id=id,
            cores=cores,
            ram_mb=row.ram_mb_per_node or row.ram_mb_per_cpu * cores,
            scratch_mb=row.disk_mb,
            count=nodes,
            instance_type=instance_type,
            features=features,
            gres=row.gres,
            array=None if row.tasks is None else row.id,
        )


def asked_of(constraint: str) -> tuple[str | None, Alternatives]:
    """The size that a job names, if it names one, and the features that it needs besides.

    What is said of several nodes (`[a*2&b*4]`), or can't be read, chooses no size.
    """
    named = _ASKED_SIZE.search(constraint)
    try:
        sets = alternatives_of(constraint) if constraint else ()
    except ValueError:
        return (None if named is None else named[1]), ()
    if len(sets) != 1:
        return None, sets
    others = tuple(one for one in sets[0] if not one.startswith(SIZE_FEATURE))
    return (None if named is None else named[1]), ((others,) if others else ())


def tasks_of(text: str) -> list[int]:
    """The tasks of `1-5,9-20:2%3` that may run at once, at most MAX_TASKS.

    Raises ValueError for anything else. A list that Slurm cut short (`...`) is read as far as it
    goes.
    """
    parts, _, at_once = text.partition("%")
    most = min(MAX_TASKS, int(at_once)) if at_once else MAX_TASKS
    tasks: list[int] = []
    for part in parts.split(","):
        if "..." in part:
            break
        found = _TASKS.fullmatch(part)
        if found is None:
            raise ValueError(f"{text!r} is no list of array tasks")
        first, last, step = (int(number) if number else None for number in found.groups())
        assert first is not None
        tasks += range(first, (first if last is None else last) + 1, step or 1)[:MAX_TASKS]
        if len(tasks) >= most:
            break
    return tasks[:most]
