"""What a GCE project has beside instances: permissions, quotas, networks, types of disks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.cloud.gce.project import REGIONS, ZONES, Resource, not_found

DISK_TYPES = ("local-ssd", "pd-balanced", "pd-ssd", "pd-standard")
AUTOMATIC, CUSTOM = "default", "own"
"""Networks: one with a subnet in each region, and one whose only subnet has its name."""


@dataclass
class Account:
    """`denied` are the permissions that the caller lacks; `quotas` are limit and usage by name."""

    link: Callable[[str], str]
    denied: set[str] = field(default_factory=set)
    region_quotas: dict[str, tuple[float, float]] = field(
        default_factory=lambda: {
            "CPUS": (24, 0),
            "N2_CPUS": (8, 0),
            "INSTANCES": (6000, 0),
            "IN_USE_ADDRESSES": (8, 0),
            "DISKS_TOTAL_GB": (4096, 0),
            "SSD_TOTAL_GB": (500, 0),
            "LOCAL_SSD_TOTAL_GB": (6000, 0),
            "PREEMPTIBLE_CPUS": (0, 0),
        }
    )
    project_quotas: dict[str, tuple[float, float]] = field(
        default_factory=lambda: {"CPUS_ALL_REGIONS": (32, 0)}
    )

    def granted(self, asked: Sequence[str]) -> Resource:
        """The ones that the caller has; as with Google, no field at all for none of them."""
        had = [name for name in asked if name not in self.denied]
        return {"permissions": had} if had else {}

    def told(self, method: str, places: Mapping[str, str]) -> Resource:
        """The region, network, subnet or type of disk that is asked for."""
        what = places[{"diskTypes.get": "diskType"}.get(method, method.partition("s.")[0])]
        match method:
            case "regions.get" if what in REGIONS:
                quotas = _quotas(self.region_quotas)
                return {"kind": "compute#region", "name": what, "status": "UP", "quotas": quotas}
            case "networks.get" if what in (AUTOMATIC, CUSTOM):
                regions = REGIONS if what == AUTOMATIC else REGIONS[:1]
                return {
                    "kind": "compute#network",
                    "name": what,
                    "autoCreateSubnetworks": what == AUTOMATIC,
                    "subnetworks": [self.link(f"regions/{r}/subnetworks/{what}") for r in regions],
                }
            case "subnetworks.get" if what in (AUTOMATIC, CUSTOM) and places["region"] in REGIONS:
                return {
                    "kind": "compute#subnetwork",
                    "name": what,
                    "network": self.link(f"global/networks/{what}"),
                    "region": self.link(f"regions/{places['region']}"),
                    "ipCidrRange": "10.128.0.0/20" if what == AUTOMATIC else "10.9.0.0/29",
                }
            case "diskTypes.get" if what in DISK_TYPES and places["zone"] in ZONES:
                return {"kind": "compute#diskType", "name": what}
        raise not_found("/".join(places.values()))

    def of_project(self) -> list[Resource]:
        return _quotas(self.project_quotas)


def _quotas(by_name: Mapping[str, tuple[float, float]]) -> list[Resource]:
    return [
        {"metric": name, "limit": limit, "usage": usage} for name, (limit, usage) in by_name.items()
    ]
