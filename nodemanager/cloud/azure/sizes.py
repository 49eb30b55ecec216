"""Azure's sizes of virtual machines, read without a request: a start must not depend on one.

Cores, memory and temporary disk follow from a size's name. Another size is used where its [Size]
gives cores, ram and price. Azure's compute API tells no prices, so all are unknown (S4). The
numbers are from Microsoft's "Sizes for virtual machines in Azure", the tables of each series, as of
February 2026; `check-cloud` compares those in use with what Azure says itself
(nodemanager.cloud.azure.checks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodemanager.core.model.world import Size

_HB3, _HB4 = (448, 480), (768, 480)

OWN: Mapping[str, tuple[int, float, int]] = {
    "Standard_A1_v2": (1, 2, 10),
    "Standard_A2_v2": (2, 4, 20),
    "Standard_A4_v2": (4, 8, 40),
    "Standard_A8_v2": (8, 16, 80),
    "Standard_B1s": (1, 1, 4),
    "Standard_B1ms": (1, 2, 4),
    "Standard_B2s": (2, 4, 8),
    "Standard_B2ms": (2, 8, 16),
    "Standard_B4ms": (4, 16, 32),
    "Standard_B8ms": (8, 32, 64),
    "Standard_D1": (1, 3.5, 50),
    "Standard_D2": (2, 7, 100),
    "Standard_D3": (4, 14, 200),
    "Standard_D4": (8, 28, 400),
    "Standard_D11": (2, 14, 100),
    "Standard_D12": (4, 28, 200),
    "Standard_D13": (8, 56, 400),
    "Standard_D14": (16, 112, 800),
    "Standard_D1_v2": (1, 3.5, 50),
    "Standard_D2_v2": (2, 7, 100),
    "Standard_D3_v2": (4, 14, 200),
    "Standard_D4_v2": (8, 28, 400),
    "Standard_D5_v2": (16, 56, 800),
    "Standard_D11_v2": (2, 14, 100),
    "Standard_D12_v2": (4, 28, 200),
    "Standard_D13_v2": (8, 56, 400),
    "Standard_D14_v2": (16, 112, 800),
    "Standard_E192ids_v6": (192, 1832, 10560),
    "Standard_HB120rs_v3": (120, *_HB3),
    "Standard_HB120-96rs_v3": (96, *_HB3),
    "Standard_HB120-64rs_v3": (64, *_HB3),
    "Standard_HB120-32rs_v3": (32, *_HB3),
    "Standard_HB120-16rs_v3": (16, *_HB3),
    "Standard_HB176rs_v4": (176, *_HB4),
    "Standard_HB176-144rs_v4": (144, *_HB4),
    "Standard_HB176-96rs_v4": (96, *_HB4),
    "Standard_HB176-48rs_v4": (48, *_HB4),
    "Standard_HB176-24rs_v4": (24, *_HB4),
    "Standard_HX176rs": (176, 1408, 480),
    "Standard_HX176-144rs": (144, 1408, 480),
    "Standard_HX176-96rs": (96, 1408, 480),
    "Standard_HX176-48rs": (48, 1408, 480),
    "Standard_HX176-24rs": (24, 1408, 480),
    "Standard_NC4as_T4_v3": (4, 28, 176),
    "Standard_NC8as_T4_v3": (8, 56, 352),
    "Standard_NC16as_T4_v3": (16, 110, 352),
    "Standard_NC64as_T4_v3": (64, 440, 2816),
    "Standard_NC24ads_A100_v4": (24, 220, 64),
    "Standard_NC48ads_A100_v4": (48, 440, 128),
    "Standard_NC96ads_A100_v4": (96, 880, 256),
    "Standard_NC40ads_H100_v5": (40, 320, 3576),
    "Standard_NC80adis_H100_v5": (80, 640, 7152),
    "Standard_ND96isr_H100_v5": (96, 1900, 1024),
    "Standard_ND96isr_H200_v5": (96, 1850, 1024),
    "Standard_NV6ads_A10_v5": (6, 55, 180),
    "Standard_NV12ads_A10_v5": (12, 110, 360),
    "Standard_NV18ads_A10_v5": (18, 220, 720),
    "Standard_NV36ads_A10_v5": (36, 440, 1440),
    "Standard_NV36adms_A10_v5": (36, 880, 2880),
    "Standard_NV72ads_A10_v5": (72, 880, 2880),
}
"""Cores, GiB of memory and GiB of temporary disk of sizes that follow no rule."""

_V3 = (2, 4, 8, 16, 32, 48, 64)
_V5 = (*_V3, 96)
_V6 = (*_V5, 128)
_E = (2, 4, 8, 16, 20, 32, 48)

FAMILIES: tuple[tuple[str, float, float, tuple[int, ...]], ...] = (
    ("Standard_D{}_v3", 4, 25, _V3),
    ("Standard_D{}s_v3", 4, 8, _V3),
    ("Standard_D{}_v4", 4, 0, _V3),
    ("Standard_D{}s_v4", 4, 0, _V3),
    ("Standard_D{}d_v4", 4, 37.5, _V3),
    ("Standard_D{}ds_v4", 4, 37.5, _V3),
    ("Standard_D{}_v5", 4, 0, _V5),
    ("Standard_D{}s_v5", 4, 0, _V5),
    ("Standard_D{}d_v5", 4, 37.5, _V5),
    ("Standard_D{}ds_v5", 4, 37.5, _V5),
    ("Standard_D{}as_v5", 4, 0, _V5),
    ("Standard_D{}ads_v5", 4, 37.5, _V5),
    ("Standard_D{}ps_v5", 4, 0, _V3),
    ("Standard_D{}s_v6", 4, 0, _V5),
    ("Standard_D{}ds_v6", 4, 55, _V6),
    ("Standard_D{}as_v6", 4, 0, _V5),
    ("Standard_D{}ads_v6", 4, 55, _V5),
    ("Standard_D{}ds_v7", 4, 55, (*_V6, 192, 248, 372)),
    ("Standard_D{}ads_v7", 4, 55, (*_V6, 160)),
    ("Standard_E{}_v3", 8, 25, _E),
    ("Standard_E{}s_v3", 8, 16, _E),
    ("Standard_E{}s_v4", 8, 0, _E),
    ("Standard_E{}ds_v4", 8, 37.5, _E),
    ("Standard_E{}s_v5", 8, 0, _E),
    ("Standard_E{}ds_v5", 8, 37.5, _E),
    ("Standard_E{}as_v5", 8, 0, _E),
    ("Standard_E{}ads_v5", 8, 37.5, _E),
    ("Standard_E{}s_v6", 8, 0, _E),
    ("Standard_E{}ds_v6", 8, 55, (*_E, 64, 96, 128)),
    ("Standard_F{}as_v6", 4, 0, _V3),
    ("Standard_F{}s_v2", 2, 8, (*_V3, 72)),
)
"""A family's names, GiB of memory and GiB of temporary disk for each core, and its cores. Of the
two largest of D..ds_v7 the disk is a little larger."""


def sizes() -> tuple[Size, ...]:
    return tuple(_all())


def _all() -> Iterator[Size]:
    for name, (cores, ram, disk) in OWN.items():
        yield _size(name, cores, ram, disk)
    for pattern, ram_each, disk_each, counts in FAMILIES:
        for cores in counts:
            yield _size(pattern.format(cores), cores, ram_each * cores, disk_each * cores)


def _size(name: str, cores: int, ram_gib: float, disk_gib: float) -> Size:
    # A thousand MB per GiB never promises more than the disk has.
    return Size(name, name, cores, int(ram_gib * 1024), int(disk_gib) * 1000)
