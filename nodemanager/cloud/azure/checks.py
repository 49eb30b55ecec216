"""What Azure can be asked before the first node boots: permissions by name, sizes and zones.

Azure tells a caller's permissions on a resource group, so nothing is tried: no check changes
anything. What is only asked here, or only on the subscription, is in etc/iam/azure-read.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from nodemanager.cloud.azure.access import Access
from nodemanager.cloud.azure.options import Template
from nodemanager.cloud.azure.wire import Wire
from nodemanager.cloud.checks import CheckStatus, CloudChecks, Found, Offer
from nodemanager.lib.near import did_you_mean

AUTHORIZATION = "2022-04-01"
SKUS = "2021-07-01"
NEEDED = (
    "Microsoft.Compute/disks/delete",
    "Microsoft.Compute/disks/read",
    "Microsoft.Compute/disks/write",
    "Microsoft.Compute/virtualMachines/delete",
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.Network/networkInterfaces/delete",
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/networkInterfaces/read",
    "Microsoft.Network/networkInterfaces/write",
    "Microsoft.Network/publicIPAddresses/read",
)
"""What the manager needs on its resource group, whatever its file says."""
FOR_ADDRESSES = (
    "Microsoft.Network/publicIPAddresses/delete",
    "Microsoft.Network/publicIPAddresses/join/action",
    "Microsoft.Network/publicIPAddresses/write",
)
FOR_ADOPTION = "Microsoft.Resources/tags/write"


@dataclass
class AzureChecks(CloudChecks):
    """Azure's own checks, in order."""

    wire: Callable[[], Wire]
    access: Access
    template: Template

    ROLE = "give the manager the role of etc/iam/azure.json on the resource group"
    READS = "to have it asked, give the manager etc/iam/azure-read.json on the subscription"

    @property
    def own_place(self) -> str | None:
        return self.template.zone

    @property
    def all_spot(self) -> bool:
        return self.template.preemptible

    def rights(self) -> Mapping[str, Callable[[], Found]]:
        return {f"permissions on {self.access.group}": self._permissions}

    def _permissions(self) -> Found:
        """By what Azure says of the caller's roles; deny assignments and locks are not in it."""
        wire = self.wire()
        roles = wire.listed(
            f"{wire.group}/providers/Microsoft.Authorization/permissions", AUTHORIZATION
        )
        needed = NEEDED + (FOR_ADDRESSES if self.template.assign_public_ip else ())
        if missing := [one for one in needed if not _allowed(roles, one)]:
            return Found(f"missing: {', '.join(missing)}", CheckStatus.FAILED, self.ROLE)
        if not _allowed(roles, FOR_ADOPTION):
            text = f"all but {FOR_ADOPTION}: no node can be adopted"
            return Found(text, CheckStatus.WARNING, self.ROLE)
        return Found("all that are needed")

    @cached_property
    def _offers(self) -> dict[str, Mapping[str, Any]]:
        """What Azure says of each size in the region, by its name."""
        wire = self.wire()
        where = {"$filter": f"location eq '{self.access.region}'"}
        path = f"{wire.subscription}/providers/Microsoft.Compute/skus"
        listed = [one for one in wire.listed(path, SKUS, **where) if isinstance(one, dict)]
        machines = (one for one in listed if one.get("resourceType") == "virtualMachines")
        return {str(one.get("name")): one for one in machines}

    def offer(self, kind: str, place: str | None) -> Offer | Found:
        """Whether Azure lets this subscription have the size there, and what it says of it."""
        offers, where = self._offers, self.access.region + (f", zone {place}" if place else "")
        sku = offers.get(kind)
        if sku is None or (place is not None and not _has_zone(sku, place)):
            text = f"{where} has no {kind}{did_you_mean(kind, [*offers]) if sku is None else ''}"
            return Found(text, CheckStatus.FAILED, "choose another size, region or zone")
        if why := _restricted(sku, place):
            to_do = "choose another size, region or zone, or ask Azure's support"
            text = f"{kind} is restricted for this subscription: {why}"
            return Found(text, CheckStatus.FAILED, to_do)
        has = {str(one["name"]): str(one["value"]) for one in sku.get("capabilities") or []}
        cores, ram_mb = int(has.get("vCPUs", "0")), int(float(has.get("MemoryGB", "0")) * 1024)
        spot = has.get("LowPriorityCapable") == "True"
        return Offer(cores, ram_mb, spot=spot, where=f"in {where}")

    def place(self, place: str) -> Found:
        return Found(f"zone {place} of {self.access.region}")


def _allowed(roles: list[Any], action: str) -> bool:
    """Whether one of the caller's roles has the action and does not take it out again."""

    def named(patterns: object) -> bool:
        given = patterns if isinstance(patterns, list) else []
        return any(fnmatchcase(action.lower(), str(one).lower()) for one in given)

    return any(named(one.get("actions")) and not named(one.get("notActions")) for one in roles)


def _has_zone(sku: Mapping[str, Any], zone: str) -> bool:
    """Whether the size is offered in the zone; where Azure names no zones at all, it may be."""
    zones = [one.get("zones") or [] for one in sku.get("locationInfo") or []]
    return not zones or any(zone in map(str, of) for of in zones)


def _restricted(sku: Mapping[str, Any], zone: str | None) -> str:
    """Why the region, or that zone of it, is closed to the size; empty if it is not."""
    for one in sku.get("restrictions") or []:
        zones = (one.get("restrictionInfo") or {}).get("zones") or []
        if one.get("type") != "Zone" or zone in zones:
            return str(one.get("reasonCode") or one.get("type"))
    return ""
