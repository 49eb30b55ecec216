"""What sinfo, squeue and scontrol print as text, in forms that no value of a field can break."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nodemanager.core.model.worker_words import words_of
from nodemanager.schedulers.slurm.rows import JobRow, SinfoNode, UnreadRow

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
FIELD, ROW = "\x1f", "\x1e"
"""The ASCII separators, which stand in no reason, feature or comment."""
NODE_FIELDS = (
    *("NodeList", "StateComplete", "CPUs", "Weight", "Features", "Reason", "Memory", "Threads"),
    *("CPUsState", "AllocMem"),
)
_FIELDS = {
    "JobID": "id",
    "ArrayJobID": "array",
    "ArrayTaskID": "tasks",
    "State": "state",
    "Reason": "reason",
    "PriorityLong": "priority",
    "NumNodes": "nodes",
    "MaxNodes": "most_nodes",
    "NumCPUs": "cpus",
    "cpus-per-task": "cpus_per_task",
    "MinCpus": "least_cpus",
    "MinMemory": "ram",
    "MinTmpDisk": "disk",
    "tres-alloc": "whole",
    "Feature": "features",
    "tres-per-node": "tres_per_node",
    "tres-per-job": "tres_per_job",
    "tres-per-socket": "tres_per_socket",
    "tres-per-task": "tres_per_task",
    "cpus-per-tres": "cpus_per_tres",
    "mem-per-tres": "mem_per_tres",
    "ReqNodes": "required",
    "Reservation": "reservation",
    "contiguous": "contiguous",
    "OverSubscribe": "shared",
    "CoreSpec": "core_spec",
    "Sockets": "sockets",
    "Threads": "per_core",
    "ntpernode": "tasks_per_node",
    "Partition": "partitions",
}
JOB_FIELDS = tuple(_FIELDS)
EXCLUDED = f"%A{FIELD}%x{ROW}"
"""What squeue is asked for in a second answer: its long fields have no excluded nodes."""
_MB = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_SHARES = frozenset({"OK", "YES"})
"""What OverSubscribe says of a job that may have others beside it."""
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?")
_SHOWN = re.compile(r"(?:^| )([A-Za-z]+)=(\S*)")
_BY = re.compile(r" \[\S+@\S+\]")
"""What scontrol adds to a reason: who gave it, and when."""
_NOTHING = frozenset({"", "(null)", "N/A", "none", "*"})


def format_of(fields: tuple[str, ...]) -> str:
    """The argument of -O for these fields; a suffix of ours keeps Slurm from cutting values."""
    *first, last = fields
    return ",".join([*(f"{field}:{FIELD}" for field in first), f"{last}:{ROW}"])


def nodes(output: str) -> list[SinfoNode]:
    """The rows of sinfo. Raises ValueError for an answer that is not as asked for.

    In a row with more fields than that, something has a separator of ours: it can't be read.
    """
    return [_node(row) for row in _rows(output, len(NODE_FIELDS))]


def _node(row: list[str]) -> SinfoNode:
    name = row[0]
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:60]!r} is no name of a node")
    try:
        _, state, cores, weight, features, reason, ram, threads, used, used_ram = row
        return SinfoNode(
            name=name,
            words=words_of(state),
            reason="" if reason in _NOTHING else reason,
            features=() if features in _NOTHING else tuple(features.split(",")),
            weight=int(weight),
            cores=int(cores),
            ram_mb=int(ram),
            threads=int(threads),
            # Allocated, idle, other and all CPUs, as 7/9/0/16.
            used_cores=int(used.partition("/")[0]),
            used_ram_mb=int(used_ram),
        )
    except ValueError as error:
        return SinfoNode(name, frozenset(), "", (), None, None, problem=str(error)[:200])


def with_scontrol(rows: Sequence[SinfoNode], output: str) -> list[SinfoNode]:
    """The rows of sinfo, with what `scontrol --oneliner show node` adds.

    As text, sinfo tells of no node that is in no partition, nor when a slurmd was started. Raises
    ValueError for a line that is no node.
    """
    known = {row.name for row in rows}
    starts: dict[str, int | None] = {}
    found = []
    for line in output.splitlines():
        # What a reason says comes after all that is read by its key.
        fields, _, reason = line.partition(" Reason=")
        shown = dict(reversed(_SHOWN.findall(fields)))
        name = shown.get("NodeName", "")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{line[:60]!r} is no node")
        starts[name] = _start(shown)
        if name not in known:
            found.append(_other(name, shown, _BY.split(reason)[0]))
    return [*(replace(row, started_at=starts.get(row.name)) for row in rows), *found]


def _start(shown: Mapping[str, str]) -> int | None:
    """When the node's slurmd was started; None where slurmctld does not know, or not as a number.

    It is a number because the adapter asks with SLURM_TIME_FORMAT=%s.
    """
    start = shown.get("SlurmdStartTime", "")
    return int(start) if start.isdecimal() else None


def _other(name: str, shown: Mapping[str, str], reason: str) -> SinfoNode:
    try:
        features = shown["AvailableFeatures"]
        return SinfoNode(
            name=name,
            words=words_of(shown["State"]),
            reason=reason,
            features=() if features in _NOTHING else tuple(features.split(",")),
            weight=int(shown["Weight"]),
            cores=int(shown["CPUTot"]),
            ram_mb=int(shown["RealMemory"]),
            threads=int(shown["ThreadsPerCore"]),
            used_cores=int(shown["CPUAlloc"]),
            used_ram_mb=int(shown["AllocMem"]),
            started_at=_start(shown),
        )
    except (KeyError, ValueError) as error:
        return SinfoNode(name, frozenset(), "", (), None, None, problem=f"{error!r}"[:200])


def jobs(output: str) -> list[JobRow | UnreadRow]:
    """The pending jobs of squeue. Raises ValueError for an answer that is not as asked for."""
    rows = [_row(row) for row in _rows(output, len(_FIELDS))]
    return [row for row in rows if row is not None]


def excluding(rows: list[JobRow | UnreadRow], output: str) -> list[JobRow | UnreadRow]:
    """The rows with the nodes that each excludes, by the answer for EXCLUDED.

    A job that this later answer lacks waits no more.
    """
    excluded = {int(row[0]): "" if row[1] in _NOTHING else row[1] for row in _rows(output, 2)}
    return [
        row if isinstance(row, UnreadRow) else replace(row, excluded=excluded[row.number])
        for row in rows
        if row.number in excluded
    ]


def _rows(output: str, width: int) -> Iterator[list[str]]:
    *rows, end = output.split(ROW)
    if end.strip():
        raise ValueError(f"it ends with {end.strip()[:60]!r}")
    for row in rows:
        fields = row.removeprefix("\n").split(FIELD)
        if len(fields) < width:
            raise ValueError(f"{row.strip()[:60]!r} has {len(fields)} fields, not {width}")
        yield [field.strip() for field in fields]


def _row(row: list[str]) -> JobRow | UnreadRow | None:
    """The row of a pending job; None for another."""
    number = int(row[0])
    try:
        fields = dict(zip(_FIELDS.values(), row, strict=True))
        return _job(number, fields) if fields["state"] == "PENDING" else None
    except ValueError as error:
        return UnreadRow(number, str(error)[:200])


def _job(number: int, row: dict[str, str]) -> JobRow:
    fields = {name: "" if said in _NOTHING else said for name, said in row.items()}
    # A task that was started and requeued is told on its own, with its own number as `tasks`.
    tasks = fields["tasks"] or None
    ram_mb, whole = megabytes(fields["ram"]), _tres(fields["whole"])
    # MinMemory does not say whether it is per CPU or per node; the total of both does, unless there
    # are as many of each. Then it is taken to be per CPU, which is never too little.
    per_cpu = math.isclose(ram_mb * whole["cpu"], whole["mem"], rel_tol=0.02)
    per_cpu = ram_mb > 0 and (per_cpu or whole["cpu"] == whole["node"])
    return JobRow(
        id=row["id"] if tasks is None else fields["array"],
        number=number,
        reason=row["reason"],
        priority=int(fields["priority"]),
        nodes=int(fields["nodes"]),
        cpus=int(fields["cpus"]),
        least_cpus=int(fields["least_cpus"]),
        ram_mb_per_cpu=ram_mb if per_cpu else 0,
        ram_mb_per_node=0 if per_cpu else ram_mb,
        disk_mb=megabytes(fields["disk"]),
        features=fields["features"],
        tasks=tasks,
        least_nodes=whole["node"],
        most_nodes=int(fields["most_nodes"] or 0),
        cpus_per_task=int(fields["cpus_per_task"] or 0),
        tasks_per_node=int(fields["tasks_per_node"] or 0),
        sockets=int(fields["sockets"] or 0),
        per_core=int(fields["per_core"] or 0),
        tres_per_node=fields["tres_per_node"],
        tres_per_job=fields["tres_per_job"],
        tres_per_socket=fields["tres_per_socket"],
        tres_per_task=fields["tres_per_task"],
        cpus_per_tres=fields["cpus_per_tres"],
        mem_per_tres=fields["mem_per_tres"],
        required=fields["required"],
        reservation=fields["reservation"],
        is_contiguous=fields["contiguous"] not in ("", "0"),
        is_alone=fields["shared"] not in _SHARES or fields["core_spec"] not in ("", "0"),
        partitions=tuple(fields["partitions"].split(",")),
    )


def _tres(text: str) -> dict[str, int]:
    """CPUs, nodes and MB of `cpu=4,mem=200M,node=2,billing=4`; 0 for what is not told."""
    parts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    return {
        "cpu": int(parts.get("cpu", 0)),
        "node": int(parts.get("node", 0)),
        "mem": megabytes(parts.get("mem", "")),
    }


def megabytes(text: str) -> int:
    """The MB of `500`, `1.5G` or `200M`, rounded up. Raises ValueError for anything else."""
    if text in _NOTHING:
        return 0
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:60]!r} is no amount of memory")
    return math.ceil(float(found[1]) * _MB[found[2]])
