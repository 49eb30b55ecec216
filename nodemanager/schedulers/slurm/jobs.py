"""What Slurm's pending jobs ask of nodes, in the words of core.

Every field that says where a job may run is read here, or the job is told as one that no boot
serves: a node booted for it would stay idle, and the job would wait for ever.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nodemanager.core.model.features import SIZE_FEATURE, Alternatives, Gres, constraint_of, gres_of
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Job, Shape, Unserved
from nodemanager.schedulers.slurm.cluster import Cluster, names_of
from nodemanager.schedulers.slurm.rows import JobRow, UnreadRow

MAX_TASKS = 5000
"""So many tasks of one array are told at most: far more nodes than one pool has."""
MAX_SHAPES = 64
"""So many ways to share out a job are tried at most."""
SHOWN = 160
_ASKED_SIZE = re.compile(re.escape(SIZE_FEATURE) + r"([^&|,()\[\]*]+)")
_TASKS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_GPU = "gpu"


def queue(rows: Iterable[JobRow | UnreadRow], cluster: Cluster) -> tuple[Job, ...]:
    """The jobs that wait for nodes, by falling priority, and the first submitted first.

    Those that can't be read, and those that their partition never lets run, are `unserved`.
    """
    waiting: list[JobRow] = []
    unread: list[UnreadRow] = []
    for row in rows:
        if isinstance(row, UnreadRow):
            unread.append(row)
        elif row.waits_for_nodes or row.is_limited:
            waiting.append(row)
    waiting.sort(key=lambda row: (-row.priority, row.number))
    jobs = [job for row in waiting for job in jobs_of(row, cluster)]
    unread.sort(key=lambda row: row.number)
    return (*jobs, *(_unread(str(row.number), row.problem) for row in unread))


def jobs_of(row: JobRow, cluster: Cluster) -> tuple[Job, ...]:
    """The job, or each task of the array that may run now."""
    try:
        job = _job(row, cluster)
        tasks = None if row.tasks is None else tasks_of(row.tasks)
    except ValueError as error:
        return (_unread(row.id, str(error)),)
    if tasks is None:
        return (job,)
    return tuple(replace(job, id=f"{row.id}_{task}", array=row.id) for task in tasks)


def _unread(id: str, problem: str) -> Job:
    return Job(id, unserved=Unserved(Reason.JOB_UNREADABLE, problem[:SHOWN]))


def _job(row: JobRow, cluster: Cluster) -> Job:
    """The job of a row; raises ValueError for what can't be read of it."""
    first, *others = _shapes(row, cluster)
    instance_type, features = asked_of(row.features)
    by_memory = cluster.memory_counts and not first.ram_mb
    return Job(
        id=row.id,
        cores=first.cores,
        ram_mb=first.ram_mb,
        scratch_mb=row.disk_mb,
        count=first.count,
        instance_type=instance_type,
        features=features,
        gres=first.gres,
        shapes=tuple(others),
        on=names_of(row.required),
        not_on=names_of(row.excluded),
        shares=not row.is_alone and not by_memory and cluster.shares(row.partitions),
        unserved=_unserved(row, first.count),
    )


def _unserved(row: JobRow, nodes: int) -> Unserved | None:
    """Why no boot serves the job; None where one may."""
    if row.is_limited:
        says = f"Slurm says {row.cause}: its partition has other limits, or too few nodes"
        return Unserved(Reason.PARTITION_LIMIT, says)
    why = None
    if row.reservation:
        why = f"it runs in the reservation {row.reservation[:60]}, and new nodes are in none"
    elif row.is_contiguous and nodes > 1:
        why = "it asks for contiguous nodes, and which names new nodes get is not known"
    elif row.features and constraint_of(row.features).counted:
        why = f"it asks for nodes of several kinds at once ({row.features[:60]})"
    return None if why is None else Unserved(Reason.JOB_TIED, why)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The resources that a job asks for, each by what it is counted by."""

    per_node: Gres
    per_job: Gres
    per_task: Gres
    per_socket: Gres
    cpus_per_gpu: int
    ram_mb_per_gpu: int


def _shapes(row: JobRow, cluster: Cluster) -> Iterator[Shape]:
    """The ways to share out the job, over the fewest nodes first.

    More nodes are another way only where each of them then needs less. A job that gives no number
    of nodes may be spread over as many as Slurm itself estimates, or as its CPUs need where the
    largest node has `most_cores`.
    """
    asked = _Asked(
        gres_of(row.tres_per_node),
        gres_of(row.tres_per_job),
        gres_of(row.tres_per_task),
        gres_of(row.tres_per_socket),
        dict(gres_of(row.cpus_per_tres)).get(_GPU, 0),
        dict(gres_of(row.mem_per_tres)).get(_GPU, 0),
    )
    per_task = max(1, row.cpus_per_task)
    least = max(1, row.least_nodes or row.nodes)
    tasks = max(least, math.ceil(row.cpus / per_task))
    if row.tasks_per_node:
        least = max(least, math.ceil(tasks / row.tasks_per_node))
    most = max(least, row.nodes, row.most_nodes)
    if cluster.most_cores and row.least_nodes <= 1 and row.most_nodes <= row.nodes:
        most = max(most, math.ceil(row.cpus / cluster.most_cores))
    before: Shape | None = None
    for nodes in range(least, min(most, least + MAX_SHAPES - 1) + 1):
        shape = _shape(row, nodes, math.ceil(tasks / nodes), asked, cluster)
        if before is None or replace(shape, count=before.count) != before:
            yield shape
            before = shape


def _shape(row: JobRow, nodes: int, tasks: int, asked: _Asked, cluster: Cluster) -> Shape:
    """What each of `nodes` needs where the one with the most has that many `tasks`."""
    gres: dict[str, int] = {}
    sockets = max(1, row.sockets)
    for counted, times in (
        (asked.per_node, 1.0),
        (asked.per_job, 1 / nodes),
        (asked.per_task, tasks),
        (asked.per_socket, sockets),
    ):
        for name, count in counted:
            gres[name] = gres.get(name, 0) + math.ceil(count * times)
    gpus = gres.get(_GPU, 0)
    cores = max(1, row.least_cpus, tasks * max(1, row.cpus_per_task), gpus * asked.cpus_per_gpu)
    if cluster.threads > 1 and (cluster.by_core or row.per_core):
        # A core goes to one job, which may use fewer of its threads than there are.
        used = min(cluster.threads, row.per_core or cluster.threads)
        cores = math.ceil(cores / used) * cluster.threads
    ram_mb = row.ram_mb_per_node or row.ram_mb_per_cpu * cores
    ram_mb = max(ram_mb, gpus * asked.ram_mb_per_gpu)
    return Shape(nodes, cores, ram_mb, tuple(sorted(gres.items())))


def asked_of(constraint: str) -> tuple[str | None, Alternatives]:
    """The size that a job names, if it names one, and the features that it needs besides.

    Raises ValueError for what is no constraint.
    """
    sets = constraint_of(constraint).sets if constraint else ()
    if len(sets) != 1:
        return None, sets
    named = _ASKED_SIZE.search(constraint)
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
            raise ValueError(f"{text[:60]!r} is no list of array tasks")
        first, last, step = (int(number) if number else None for number in found.groups())
        assert first is not None
        tasks += range(first, (first if last is None else last) + 1, step or 1)[:MAX_TASKS]
        if len(tasks) >= most:
            break
    return tasks[:most]
