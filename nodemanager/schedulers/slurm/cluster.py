"""How a Slurm cluster lets jobs share nodes: by its configuration, its partitions and its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodemanager.schedulers.slurm.rows import SinfoNode

# Names of nodes as Slurm shortens them: `c[1-3,7],d2`.

MAX_NAMES = 10_000
"""More names than any pool has slots."""
_PART = re.compile(r"(?:[^,\[\]\s]|\[[^\[\]\s]*\])+")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def names_of(text: str) -> tuple[str, ...]:
    """The names that `text` stands for; raises ValueError for what is no such list."""
    names: list[str] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        at = len(text) if found is None else found.end() + 1
        if found is None or text[at - 1 : at] not in ("", ","):
            raise ValueError(f"{text[:60]!r} is no list of nodes")
        for name in _expanded(found[0]):
            names.append(name)
            if len(names) > MAX_NAMES:
                raise ValueError(f"{text[:60]!r} has over {MAX_NAMES} nodes")
    return tuple(dict.fromkeys(names))


def _expanded(part: str) -> Iterator[str]:
    bracket = _BRACKET.search(part)
    if bracket is None:
        yield part
        return
    for number in _numbers(bracket[1]):
        for rest in _expanded(part[bracket.end() :]):
            yield f"{part[: bracket.start()]}{number}{rest}"


def _numbers(text: str) -> Iterator[str]:
    """The numbers of `1-3,007`, each as wide as the first of its range is written."""
    for one in text.split(","):
        found = _RANGE.fullmatch(one)
        if found is None:
            raise ValueError(f"{text[:60]!r} is no list of numbers")
        first, last = found[1], found[2] or found[1]
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"


_OPTION = re.compile(r"^(\w+)\s*=\s*(.*)$", re.MULTILINE)
_OF_A_PARTITION = re.compile(r"(\w+)=(\S*)")
_UNLIMITED = "UNLIMITED"
_SHARED = ("NO", "YES", "FORCE")


@dataclass(frozen=True, slots=True)
class Cluster:
    """What decides how many jobs fit on a node.

    `partitions` are those whose nodes take several jobs at once, None where that is not known:
    then none does. `threads` are the CPUs of one core, which goes to one job as a whole where
    `by_core`. With `memory_counts`, a job that asks for no memory gets all of its node's.
    `most_cores` is what the largest node has, None where that is not known. `names` are those of
    its partitions' nodes, None where nodes of other names may come.
    """

    partitions: frozenset[str] | None = None
    by_core: bool = False
    memory_counts: bool = True
    threads: int = 1
    most_cores: int | None = None
    names: frozenset[str] | None = None

    def shares(self, partitions: Iterable[str]) -> bool:
        """Whether a job of these partitions may have others beside it on a node."""
        return self.partitions is not None and self.partitions.issuperset(partitions)


def cluster_of(config: str, partitions: str, nodes: Iterable[SinfoNode]) -> Cluster:
    """What `scontrol show config`, `scontrol show partition -o` and sinfo say of it.

    Whatever is not understood is taken to mean that no node is shared: then more nodes are asked
    for than Slurm needs, never fewer.
    """
    rows = list(nodes)
    shown = frozenset(row.name for row in rows)
    options = dict(_OPTION.findall(config))
    by = frozenset(options.get("SelectTypeParameters", "").strip().upper().split(","))
    shared: frozenset[str] | None = None
    if options.get("SelectType", "").strip().startswith("select/cons_") and "CR_SOCKET" not in by:
        shared = frozenset(_shared_of(partitions))
        if any(one.startswith("CR_SOCKET") or one == "CR_LLN" for one in by):
            shared = None
    return Cluster(
        partitions=shared,
        by_core=not any(one.startswith("CR_CPU") for one in by) or "CR_ONE_TASK_PER_CORE" in by,
        memory_counts=any("MEMORY" in one for one in by),
        threads=max((row.threads or 1 for row in rows), default=1),
        most_cores=max((row.cores or 0 for row in rows), default=None),
        names=_all_names(partitions, shown, options.get("MaxNodeCount", "").strip()),
    )


def _all_names(partitions: str, shown: frozenset[str], most: str) -> frozenset[str] | None:
    """The names of all nodes; None where there may be more.

    sinfo hides nodes that are powered down unless PrivateData has `cloud`; the partitions have them
    all the same. Where Slurm may have more nodes than it names, they register under any name.
    """
    lines = (dict(_OF_A_PARTITION.findall(line)) for line in partitions.splitlines())
    try:
        names = shown.union(*(names_of(one.get("Nodes", "")) for one in lines)) - {"(null)"}
    except ValueError:
        return None
    return None if most.isdigit() and int(most) > len(names) else names


def _shared_of(partitions: str) -> Iterable[str]:
    for line in partitions.splitlines():
        fields = dict(_OF_A_PARTITION.findall(line))
        if (
            fields.get("OverSubscribe", "").startswith(_SHARED)
            and fields.get("ExclusiveUser", "NO") == "NO"
            and fields.get("ExclusiveTopo", "NO") == "NO"
            and fields.get("LLN", "NO") == "NO"
            and fields.get("MaxCPUsPerNode", _UNLIMITED) == _UNLIMITED
            and fields.get("MaxCPUsPerSocket", _UNLIMITED) == _UNLIMITED
            and fields.get("SelectTypeParameters", "NONE") in ("NONE", "CR_CORE")
        ):
            yield fields.get("PartitionName", "")
