"""What sinfo and squeue print as text, in a form that no value of a field can break."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from nodemanager.core.model.features import gres_of
from nodemanager.core.model.worker_words import words_of
from nodemanager.schedulers.slurm.rows import JobRow, NodeRow

FIELD, ROW = "\x1f", "\x1e"
"""The ASCII separators, which stand in no reason, feature or comment."""
NODE_FIELDS = ("NodeList", "StateComplete", "CPUs", "Weight", "Features", "Reason")
JOB_FIELDS = (
    "JobID",
    "ArrayJobID",
    "ArrayTaskID",
    "State",
    "Reason",
    "PriorityLong",
    "NumNodes",
    "NumCPUs",
    "MinCpus",
    "MinMemory",
    "MinTmpDisk",
    "tres-alloc",
    "Feature",
    "tres-per-node",
)
_MB = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?")
_NOTHING = frozenset({"", "(null)", "N/A", "none"})


def format_of(fields: tuple[str, ...]) -> str:
    """The argument of -O for these fields; a suffix of ours keeps Slurm from cutting values."""
    *first, last = fields
    return ",".join([*(f"{field}:{FIELD}" for field in first), f"{last}:{ROW}"])


def nodes(output: str) -> list[NodeRow]:
    """The rows of sinfo. Raises ValueError for a row that can't be read."""
    return [
        NodeRow(
            name=name,
            words=words_of(state),
            reason="" if reason in _NOTHING else reason,
            features=() if features in _NOTHING else tuple(features.split(",")),
            weight=int(weight),
            cores=int(cores),
        )
        for name, state, cores, weight, features, reason in _rows(output, len(NODE_FIELDS))
    ]


def jobs(output: str) -> list[JobRow]:
    """The pending jobs of squeue. Raises ValueError for a row that can't be read."""
    return [_job(row) for row in _rows(output, len(JOB_FIELDS)) if row[3] == "PENDING"]


def _rows(output: str, width: int) -> Iterator[list[str]]:
    *rows, end = output.split(ROW)
    if end.strip():
        raise ValueError(f"it ends with {end.strip()[:60]!r}")
    for row in rows:
        fields = row.removeprefix("\n").split(FIELD)
        if len(fields) != width:
            raise ValueError(f"{row.strip()[:60]!r} has {len(fields)} fields, not {width}")
        yield [field.strip() for field in fields]


def _job(row: list[str]) -> JobRow:
    id, array, tasks, _, reason, priority, nodes, cpus, least, ram, disk, tres, features, gres = row
    number = int(id)
    # A task that was started and requeued is told on its own, with its own number as `tasks`.
    ram_mb, whole = megabytes(ram), _tres(tres)
    # MinMemory does not say whether it is per CPU or per node; the total of both does.
    per_cpu = ram_mb > 0 and whole["cpu"] != whole["node"]
    per_cpu = per_cpu and math.isclose(ram_mb * whole["cpu"], whole["mem"], rel_tol=0.02)
    return JobRow(
        id=id if tasks in _NOTHING else array,
        number=number,
        reason=reason,
        priority=int(priority),
        nodes=int(nodes),
        cpus=int(cpus),
        least_cpus=int(least),
        ram_mb_per_cpu=ram_mb if per_cpu else 0,
        ram_mb_per_node=0 if per_cpu else ram_mb,
        disk_mb=megabytes(disk),
        features="" if features in _NOTHING else features,
        tasks=None if tasks in _NOTHING else tasks,
        gres=() if gres in _NOTHING else gres_of(gres),
    )


def _tres(text: str) -> dict[str, int]:
    """CPUs, nodes and MB of `cpu=4,mem=200M,node=2,billing=4`; 0 for what is not told."""
    told = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    return {
        "cpu": int(told.get("cpu", 0)),
        "node": int(told.get("node", 0)),
        "mem": megabytes(told.get("mem", "")),
    }


def megabytes(text: str) -> int:
    """The MB of `500`, `1.5G` or `200M`, rounded up. Raises ValueError for anything else."""
    if text in _NOTHING:
        return 0
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:60]!r} is no amount of memory")
    return math.ceil(float(found[1]) * _MB[found[2]])
