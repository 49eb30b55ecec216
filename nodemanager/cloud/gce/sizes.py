"""Google's predefined machine types, read without a request: a start must not depend on one.

Cores and memory follow from a type's name. Another type, such as a custom one, is used where its
[Size] gives cores, ram and price. Google's compute API tells no prices, so all are unknown (S4).
The numbers are from Google's "Machine families resource and comparison guide".
"""

from __future__ import annotations

from collections.abc import Iterator

from nodemanager.core.model.world import Size

SHARED = {
    "e2-micro": (2, 1024),
    "e2-small": (2, 2048),
    "e2-medium": (2, 4096),
    "f1-micro": (1, 614),
    "g1-small": (1, 1740),
}
"""Cores and MB of the types that share a core."""

_N1 = (2, 4, 8, 16, 32, 64, 96)
_N2 = (2, 4, 8, 16, 32, 48, 64, 80, 96)
_C2D = (2, 4, 8, 16, 32, 56, 112)
_C3 = (4, 8, 22, 44, 88, 176)
_N4 = (2, 4, 8, 16, 32, 48, 64, 80)

FAMILIES: dict[str, tuple[float, tuple[int, ...]]] = {
    "c2-standard": (4, (4, 8, 16, 30, 60)),
    "c2d-highcpu": (2, _C2D),
    "c2d-highmem": (8, _C2D),
    "c2d-standard": (4, _C2D),
    "c3-highcpu": (2, _C3),
    "c3-highmem": (8, _C3),
    "c3-standard": (4, _C3),
    "c3d-highmem": (8, (4, 8, 16, 30, 60, 90, 180, 360)),
    "c3d-standard": (4, (4, 8, 16, 30, 60, 90, 180, 360)),
    "e2-highcpu": (1, (2, 4, 8, 16, 32)),
    "e2-highmem": (8, (2, 4, 8, 16)),
    "e2-standard": (4, (2, 4, 8, 16, 32)),
    "n1-highcpu": (0.9, _N1),
    "n1-highmem": (6.5, _N1),
    "n1-standard": (3.75, (1, *_N1)),
    "n2-highcpu": (1, _N2),
    "n2-highmem": (8, _N2),
    "n2-standard": (4, (*_N2, 128)),
    "n2d-highcpu": (1, (*_N2, 128, 224)),
    "n2d-highmem": (8, _N2),
    "n2d-standard": (4, (*_N2, 128, 224)),
    "n4-highcpu": (2, _N4),
    "n4-highmem": (8, _N4),
    "n4-standard": (4, _N4),
    "t2a-standard": (4, (1, 2, 4, 8, 16, 32, 48)),
    "t2d-standard": (4, (1, 2, 4, 8, 16, 32, 48, 60)),
}
"""GB of memory for each core, and the numbers of cores, by family."""


def machine_types() -> tuple[Size, ...]:
    return tuple(_all())


def _all() -> Iterator[Size]:
    for name, (cores, ram_mb) in SHARED.items():
        yield Size(name, name, cores, ram_mb)
    for family, (gigabytes, counts) in FAMILIES.items():
        for cores in counts:
            name = f"{family}-{cores}"
            yield Size(name, name, cores, int(gigabytes * 1024 * cores))
