"""Which size fits a job, and which is the cheapest that does (U11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nodemanager.core.model.features import (
    SIZE_FEATURE,
    has_features,
    has_gres,
)
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Job, Size


def size_for(job: Job, sizes: Sequence[Size], settings: Settings) -> Size | None:
    """The cheapest size with at least what the job needs; None where there is none.

    `sizes` are the cheapest first. A job that is not preemptible gets a preemptible size only where
    no other fits. A job's `instance_type` names a size, or else an instance type.
    """
    fallback = None
    for size in _fitting(job, sizes, settings):
        if job.preemptible or not size.preemptible:
            return size
        fallback = fallback or size
    return fallback


def shaped(job: Job, sizes: Sequence[Size], settings: Settings) -> tuple[Job, Size | None]:
    """The job shared out over the fewest nodes for which a size fits, and that size (`size_for`).

    Where none does, it is as its scheduler would have it first.
    """
    size = size_for(job, sizes, settings)
    if size is None:
        for one in job.shapes:
            other = replace(
                job, count=one.count, cores=one.cores, ram_mb=one.ram_mb, gres=one.gres, shapes=()
            )
            size = size_for(other, sizes, settings)
            if size is not None:
                return other, size
    return job, size


def usable_ram(size: Size, scaling: float) -> int:
    """The MB that jobs may have: what the file gives, else `scaling` of the machine's own."""
    return size.ram_mb if size.ram_is_given else int(size.ram_mb * scaling)


def sizes_instead(
    job: Job, size: Size, sizes: Sequence[Size], settings: Settings
) -> tuple[Size, ...]:
    """The other sizes that fit the job, whose `size_for` is `size`, the cheapest first.

    Want of room makes no job fit for a preemptible size: there is none for one that got another.
    """
    spot = job.preemptible or size.preemptible
    others = _fitting(job, sizes, settings)
    return tuple(one for one in others if one is not size and (spot or not one.preemptible))


def _fitting(job: Job, sizes: Sequence[Size], settings: Settings) -> Iterator[Size]:
    asked: Sequence[Size] = sizes
    if job.instance_type is not None:
        asked = [size for size in sizes if job.instance_type in (size.name, size.group)]
        asked = asked or [size for size in sizes if size.instance_type == job.instance_type]
    return (size for size in asked if _fits(job, size, settings))


def _fits(job: Job, size: Size, settings: Settings) -> bool:
    """Whether the size has what the job needs; unknown memory or scratch space (0) is enough."""
    ram_mb = usable_ram(size, settings.node_mem_scaling)
    return (
        size.cores >= job.cores
        and (not size.ram_mb or ram_mb >= job.ram_mb)
        and (not size.scratch_mb or size.scratch_mb >= job.scratch_mb)
        and (not job.features or has_features(_features_of(size), job.features))
        and (not job.gres or has_gres(size.gres, job.gres))
    )


def _features_of(size: Size) -> tuple[str, ...]:
    """The size's features, with those that its names are."""
    names = (f"{SIZE_FEATURE}{name}" for name in size.names)
    return (*size.features, *names)
