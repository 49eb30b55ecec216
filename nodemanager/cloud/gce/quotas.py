"""Google's quotas of a region and a project, against the nodes that a pool may have.

Each family of machine types has a quota of its own for its cores; the oldest ones share CPUS. Spot
nodes count against PREEMPTIBLE_CPUS where the region has that quota, else as any other node
(Google's "Create and use preemptible VMs").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nodemanager.cloud.checks import CheckStatus, Found, Wanted
from nodemanager.cloud.gce.options import Template
from nodemanager.cloud.gce.order import LOCAL_SSD_MB
from nodemanager.cloud.gce.wire import Wire
from nodemanager.cloud.room import Limit, room
from nodemanager.core.model.world import Size

SHARE_CPUS = frozenset({"e2", "f1", "g1", "n1"})
"""The families whose cores count as CPUS."""
SPOT = "PREEMPTIBLE_CPUS"
EVERYWHERE = "CPUS_ALL_REGIONS"
SSD_DISKS = frozenset({"pd-balanced", "pd-ssd"})
MORE = "ask Google for more (console, IAM & Admin, Quotas), or lower max_nodes"


def cpus_of(instance_type: str) -> str:
    """The quota that the cores of a machine type count against."""
    family = instance_type.partition("-")[0]
    # `custom-4-8192` is of N1, too.
    return "CPUS" if family in {*SHARE_CPUS, "custom"} else f"{family.upper()}_CPUS"


class Quotas:
    """The quotas that a pool's nodes use; each is asked for when it is looked at."""

    def __init__(
        self, wire: Callable[[], Wire], zone: str, template: Template, wanted: Wanted
    ) -> None:
        self._wire = wire
        self._region = zone.rpartition("-")[0]
        self._template = template
        self._wanted = wanted
        self._found: dict[str, dict[str, Limit]] = {}

    def metrics(self) -> list[str]:
        """Google's names of them."""
        sizes, template = self._wanted.sizes, self._template
        found = ["INSTANCES", *sorted({cpus_of(one.instance_type) for one in sizes}), EVERYWHERE]
        if any(map(self._is_spot, sizes)):
            found.append(SPOT)
        if template.assign_public_ip:
            found.append("IN_USE_ADDRESSES")
        found.append(_disks(template.boot_disk_type))
        if any(one.scratch_mb for one in sizes):
            found.append(self._scratch)
        return list(dict.fromkeys(found))

    def ask(self, metric: str, cores: Mapping[str, int], image: Mapping[str, Any]) -> Found:
        """Whether it has room; `cores` are those of machine types, as far as they are known."""
        everywhere = metric == EVERYWHERE
        limits = self._limits("project", "") if everywhere else self._of_region()
        limit = limits.get(metric)
        if limit is None:
            return Found(
                "the compute API does not tell this quota",
                CheckStatus.NOT_ASKED,
                "look in the console",
            )

        def need(size: Size) -> float:
            number = cores.get(size.instance_type, size.cores)
            match metric:
                case "INSTANCES" | "IN_USE_ADDRESSES":
                    return 1
                case "CPUS_ALL_REGIONS":
                    return number
                case "PREEMPTIBLE_CPUS":
                    return number if self._has_spot_quota(size) else 0
                case _ if metric.endswith("_GB"):
                    return self._gigabytes(metric, size, image)
            counts = cpus_of(size.instance_type) == metric and not self._has_spot_quota(size)
            return number if counts else 0

        return room(limit, self._wanted, need, MORE)

    def _gigabytes(self, metric: str, size: Size, image: Mapping[str, Any]) -> float:
        template, needed = self._template, 0.0
        if metric == _disks(template.boot_disk_type):
            needed += template.boot_disk_gb or int(image.get("diskSizeGb") or 0)
        if size.scratch_mb and metric == self._scratch:
            if template.scratch_disk_type == "local-ssd":
                needed += -(-size.scratch_mb // LOCAL_SSD_MB) * LOCAL_SSD_MB / 1000
            else:
                needed += -(-size.scratch_mb // 1000)
        return needed

    @property
    def _scratch(self) -> str:
        kind = self._template.scratch_disk_type
        return "LOCAL_SSD_TOTAL_GB" if kind == "local-ssd" else _disks(kind)

    def _is_spot(self, size: Size) -> bool:
        return self._template.preemptible or size.preemptible

    def _has_spot_quota(self, size: Size) -> bool:
        """Whether the size's cores count against the quota for spot nodes."""
        limit = self._of_region().get(SPOT)
        return self._is_spot(size) and limit is not None and bool(limit.most)

    def _of_region(self) -> dict[str, Limit]:
        return self._limits("region", f"regions/{self._region}")

    def _limits(self, kind: str, path: str) -> dict[str, Limit]:
        if path not in self._found:
            told = self._wire().call(kind, path)
            self._found[path] = {
                str(one["metric"]): Limit(float(one["limit"]), float(one["usage"]))
                for one in told.get("quotas", [])
            }
        return self._found[path]


def _disks(kind: str | None) -> str:
    return "SSD_TOTAL_GB" if kind in SSD_DISKS else "DISKS_TOTAL_GB"
