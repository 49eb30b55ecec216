"""The lines of slurm.conf that a pool needs, made from its sizes and the names of its slots.

The options are those of slurm.conf(5) of Slurm 20.11 and later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nodemanager.core.model.features import SIZE_FEATURE, Gres
from nodemanager.core.model.world import Size
from nodemanager.core.plan.errands import PRICE_STEPS
from nodemanager.schedulers.api import OURS

SUSPEND_TIME_S, SUSPEND_TIMEOUT_S = 300, 180
KEPT_SUSPEND_TIME_S = 7 * 24 * 3600
_NUMBER = re.compile(r"%\(slot_number\)(0\d+)?d")


def hosts(pattern: str, slots: int) -> str:
    """The names of slots 1 to `slots` as Slurm writes them: `compute[1-64]`.

    `pattern` has `%(slot_number)d` once, maybe with a width. Slurm's ranges end a name, so names
    that go on behind the number are listed each.
    """
    number = _NUMBER.search(pattern)
    if slots == 1 or number is None or number.end() < len(pattern):
        return ",".join(pattern % {"slot_number": slot} for slot in range(1, slots + 1))
    width = int(number[1] or 0)
    return f"{pattern[: number.start()]}[{1:0{width}d}-{slots:0{width}d}]"


def weights(sizes: Sequence[Size]) -> dict[str, int]:
    """The weight of each size by its name, as the daemon sets it: Slurm takes the lowest first."""
    most = max((round(size.price * PRICE_STEPS) for size in sizes if size.price), default=0)
    return {
        size.name: max(1, round(size.price * PRICE_STEPS)) if size.price else most + 1
        for size in sizes
    }


def of_any_size(names: str, sizes: Sequence[Size], scaling: float) -> Iterator[str]:
    """The lines of nodes that may be of any of `sizes`, as the registry's slots are.

    Slurm has one size for a node's name, and refuses work to a machine that has less. So the nodes
    get what all sizes have; `scaling` is how much of a size's memory jobs may have.
    """
    if len(sizes) > 1:
        yield "# A slot may get a machine of any size, so this is what all sizes have. Slurm"
        yield "# refuses a job that asks for more."
    fields = {
        "CPUs": min(size.cores for size in sizes),
        "RealMemory": min(memory_of(size, scaling) for size in sizes),
        "TmpDisk": min(size.scratch_mb for size in sizes),
        "Feature": ",".join(dict.fromkeys(one for size in sizes for one in features_of(size))),
        "Gres": gres(_common([size.gres for size in sizes])),
        "Weight": min(weights(sizes).values()),
        "State": "DOWN",
        "Reason": f'"{OURS}no machine"',
    }
    yield _line(names, fields)


def of_each_size(name: str, names: str, sizes: Sequence[Size], scaling: float) -> str:
    """The line of the CLOUD nodes `names`, which are of the size called `name`."""
    (size,) = (one for one in sizes if one.name == name)
    fields = {
        "CPUs": size.cores,
        "RealMemory": memory_of(size, scaling),
        "TmpDisk": size.scratch_mb,
        "Feature": ",".join(features_of(size)),
        "Gres": gres(size.gres),
        "Weight": weights(sizes)[name],
        "State": "CLOUD",
    }
    return _line(names, fields)


def names_of_size(name: str, count: int) -> str:
    """The names of the nodes of one size: `m5-large-[1-16]`."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return hosts(f"{stem}-%(slot_number)d", count)


def power_saving(
    programs: str, resume_timeout: float, *, stays: float, keeps_idle: bool
) -> Iterator[str]:
    """What Slurm's own power saving needs to choose the nodes to boot and to end.

    Slurm knows nothing of the idle nodes that the daemon is told to keep: each for its first
    `stays` seconds, and some for longer where it `keeps_idle`.
    """
    yield "# Without it slurmctld does not list nodes that are powered down; add it to your own."
    yield "PrivateData=cloud"
    yield "# Where you have SlurmctldParameters of your own, add these to them."
    yield "SlurmctldParameters=cloud_reg_addrs,idle_on_node_suspend"
    yield f"ResumeProgram={programs}/slurm-resume"
    yield f"SuspendProgram={programs}/slurm-suspend"
    yield "# [Daemon] boot_fail_after: when it is over, Slurm requeues the node's job."
    yield f"ResumeTimeout={int(resume_timeout)}"
    yield "# A machine must have ended within SuspendTimeout."
    yield f"SuspendTimeout={SUSPEND_TIMEOUT_S}"
    if keeps_idle:
        yield "# The daemon ends idle nodes. Slurm would end those that min_nodes, spare_nodes or"
        yield "# shutdown_windows keep, so it does that only after a week."
        yield f"SuspendTime={KEPT_SUSPEND_TIME_S}"
    else:
        yield "# How long a node may be idle; the daemon may end an idle one before, drained first."
        yield f"SuspendTime={max(SUSPEND_TIME_S, int(stays))}"
    yield "# The daemon has limits of its own."
    yield "ResumeRate=0"
    yield "SuspendRate=0"


def partition(name: str, names: str) -> str:
    return f"PartitionName={name} Nodes={names} MaxTime=INFINITE State=UP"


def gres_types(sizes: Sequence[Size]) -> str | None:
    """The GresTypes that the sizes need; None for none."""
    kinds = dict.fromkeys(name.partition(":")[0] for size in sizes for name, _ in size.gres)
    return f"GresTypes={','.join(kinds)}" if kinds else None


def gres(resources: Gres) -> str:
    """`gpu:tesla:4,license:2`. A name's count includes those of its types (`gres_of`)."""
    left = dict(resources)
    for name, count in resources:
        kind, _, type = name.partition(":")
        if type and kind in left:
            left[kind] -= count
    return ",".join(f"{name}:{count}" for name, count in left.items() if count > 0)


def features_of(size: Size) -> tuple[str, ...]:
    """The features that the daemon gives its nodes: its names, and its own."""
    names = (f"{SIZE_FEATURE}{name}" for name in size.names)
    return tuple(dict.fromkeys((*names, *size.features)))


def memory_of(size: Size, scaling: float) -> int:
    """The MB that jobs may have: what the file gives, else `scaling` of the machine's own."""
    return size.ram_mb if size.ram_is_given else int(size.ram_mb * scaling)


def _common(all_of_them: Sequence[Gres]) -> Gres:
    first, *others = (dict(one) for one in all_of_them)
    return tuple(
        (name, min(count, *(one[name] for one in others)) if others else count)
        for name, count in first.items()
        if all(name in one for one in others)
    )


def _line(names: str, fields: dict[str, object]) -> str:
    return " ".join(
        [f"NodeName={names}", *(f"{key}={said}" for key, said in fields.items() if said)]
    )
