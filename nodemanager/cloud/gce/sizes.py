"""Google's predefined machine types, read without a request: a start must not depend on one.

Cores and memory follow from a type's name. Another type, such as a custom one, is used where its
[Size] gives cores, ram and price. Google's compute API tells no prices, so all are unknown (S4).
The numbers are those of Google's machineTypes.list on 2026-08-20, as the project
Cyclenerd/google-cloud-pricing-cost-calculator keeps them (build/gcp.yml).
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

_A3 = (208, 1872)

OWN = {
    "a2-highgpu-1g": (12, 85),
    "a2-highgpu-2g": (24, 170),
    "a2-highgpu-4g": (48, 340),
    "a2-highgpu-8g": (96, 680),
    "a2-megagpu-16g": (96, 1360),
    "a2-ultragpu-1g": (12, 170),
    "a2-ultragpu-2g": (24, 340),
    "a2-ultragpu-4g": (48, 680),
    "a2-ultragpu-8g": (96, 1360),
    "a3-highgpu-1g": (26, 234),
    "a3-highgpu-2g": (52, 468),
    "a3-highgpu-4g": (104, 936),
    "a3-highgpu-8g": _A3,
    "a3-megagpu-8g": _A3,
    "c3d-highcpu-4": (4, 8),
    "c3d-highcpu-8": (8, 16),
    "c3d-highcpu-16": (16, 32),
    "c3d-highcpu-30": (30, 59),
    "c3d-highcpu-60": (60, 118),
    "c3d-highcpu-90": (90, 177),
    "c3d-highcpu-180": (180, 354),
    "c3d-highcpu-360": (360, 708),
    "m1-megamem-96": (96, 1433),
    "m1-ultramem-40": (40, 961),
    "m1-ultramem-80": (80, 1922),
    "m1-ultramem-160": (160, 3844),
    "m2-hypermem-416": (416, 8832),
    "m2-megamem-416": (416, 5888),
    "m2-ultramem-208": (208, 5888),
    "m2-ultramem-416": (416, 11776),
    "n2-highmem-128": (128, 864),
    "z3-highmem-8-highlssd": (8, 64),
    "z3-highmem-14-standardlssd": (14, 112),
    "z3-highmem-16-highlssd": (16, 128),
    "z3-highmem-22-highlssd": (22, 176),
    "z3-highmem-22-standardlssd": (22, 176),
    "z3-highmem-32-highlssd": (32, 256),
    "z3-highmem-44-highlssd": (44, 352),
    "z3-highmem-44-standardlssd": (44, 352),
    "z3-highmem-88-highlssd": (88, 704),
    "z3-highmem-88-standardlssd": (88, 704),
    "z3-highmem-176-standardlssd": (176, 1408),
}
"""Cores and GB of the types that follow no rule."""

_N1 = (2, 4, 8, 16, 32, 64, 96)
_N2 = (2, 4, 8, 16, 32, 48, 64, 80, 96)
_C2D = (2, 4, 8, 16, 32, 56, 112)
_C3 = (4, 8, 22, 44, 88, 176)
_C4 = (2, 4, 8, 16, 24, 32, 48, 96, 144, 192, 288)
_C4_LSSD = (4, 8, 16, 24, 32, 48, 96, 144, 192, 288)
_C4A = (1, 2, 4, 8, 16, 32, 48, 64, 72)
_C4A_LSSD = (4, 8, 16, 32, 48, 64, 72)
_C4D = (2, 4, 8, 16, 32, 48, 64, 96, 192, 384)
_C4D_LSSD = (8, 16, 32, 48, 64, 96, 192, 384)
_C4N = (2, 4, 8, 16, 24, 48, 96, 192)
_N4 = (2, 4, 8, 16, 32, 48, 64, 80)
_N4A = (1, 2, 4, 8, 16, 32, 48, 64)
_N4D = (*_N4, 96)

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
    "c3-standard-{}-lssd": (4, _C3),
    "c3d-highmem-{}-lssd": (8, (8, 16, 30, 60, 90, 180, 360)),
    "c3d-standard-{}-lssd": (4, (8, 16, 30, 60, 90, 180, 360)),
    "c4-highcpu": (2, _C4),
    "c4-highmem": (7.75, _C4),
    "c4-highmem-{}-lssd": (7.75, _C4_LSSD),
    "c4-standard": (3.75, _C4),
    "c4-standard-{}-lssd": (3.75, _C4_LSSD),
    "c4a-highcpu": (2, _C4A),
    "c4a-highmem": (8, _C4A),
    "c4a-highmem-{}-lssd": (8, _C4A_LSSD),
    "c4a-standard": (4, _C4A),
    "c4a-standard-{}-lssd": (4, _C4A_LSSD),
    "c4d-highcpu": (1.875, _C4D),
    "c4d-highmem": (7.875, _C4D),
    "c4d-highmem-{}-lssd": (7.875, _C4D_LSSD),
    "c4d-standard": (3.875, _C4D),
    "c4d-standard-{}-lssd": (3.875, _C4D_LSSD),
    "c4n-highcpu": (2, _C4N),
    "c4n-highmem": (7.75, _C4N),
    "c4n-standard": (3.75, _C4N),
    "g2-standard": (4, (4, 8, 12, 16, 24, 32, 48, 96)),
    "g4-standard": (3.75, (6, 12, 24, 48, 96, 192, 384)),
    "h3-standard": (4, (88,)),
    "m3-megamem": (15.25, (64, 128)),
    "m3-ultramem": (30.5, (32, 64, 128)),
    "m4-hypermem": (15.5, (16, 32, 64)),
    "m4-megamem": (372 / 28, (28, 56, 112, 224)),
    "m4-ultramem": (1488 / 56, (56, 112, 224)),
    "m4n-hypermem": (15.5, (16, 32, 64)),
    "m4n-megamem": (372 / 28, (28, 56, 112)),
    "m4n-ultramem": (1488 / 56, (56, 112)),
    "n4a-highcpu": (2, _N4A),
    "n4a-highmem": (8, _N4A),
    "n4a-standard": (4, _N4A),
    "n4d-highcpu": (2, _N4D),
    "n4d-highmem": (8, _N4D),
    "n4d-standard": (4, _N4D),
    "t2a-standard": (4, (1, 2, 4, 8, 16, 32, 48)),
    "t2d-standard": (4, (1, 2, 4, 8, 16, 32, 48, 60)),
}
"""GB of memory for each core, and the numbers of cores, by family. The sum is rounded down to whole
GB, but for n1."""


def machine_types() -> tuple[Size, ...]:
    return tuple(_all())


def _all() -> Iterator[Size]:
    for name, (cores, ram_mb) in SHARED.items():
        yield Size(name, name, cores, ram_mb)
    for name, (cores, ram_gb) in OWN.items():
        yield Size(name, name, cores, ram_gb * 1024)
    for family, (gigabytes, counts) in FAMILIES.items():
        for cores in counts:
            name = family.format(cores) if "{}" in family else f"{family}-{cores}"
            total = gigabytes * cores
            ram_mb = int(total * 1024) if family.startswith("n1-") else int(total) * 1024
            yield Size(name, name, cores, ram_mb)
