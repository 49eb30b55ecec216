"""What Azure can be asked before the first node boots: permissions by name, sizes and zones.

Azure tells a caller's permissions on a resource group, so nothing is tried: no check changes
anything. What is only asked here, or only on the subscription, is in etc/iam/azure-read.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any

from nodemanager.cloud.azure.errors import Refusal
from nodemanager.cloud.azure.options import Access, Template
from nodemanager.cloud.azure.wire import COMPUTE, MACHINES, Wire
from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted, held_against
from nodemanager.core.model.world import Size
from nodemanager.errors import Unauthorized
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
ROLE = "give the manager the role of etc/iam/azure.json on the resource group"
READS = "to have it asked, give the manager etc/iam/azure-read.json on the subscription"


@dataclass
class AzureChecks:
    """Azure's own checks, in order. `wire` gives a connection; nothing is sent before a check."""

    _wire: Callable[[], Wire]
    _access: Access
    _template: Template
    _wanted: Wanted

    def all(self) -> list[Check]:
        found = [
            Check(f"permissions on {self._access.group}", self._permissions, ROLE),
            Check("power states", self._states),
        ]
        types = self._wanted.types
        found += [Check(f"offer of {name}", partial(self._offer, name)) for name in types]
        places = self._wanted.places
        found += [Check(f"place {zone}", partial(self._place, zone)) for zone in places]
        return found

    def _permissions(self) -> Found:
        """By what Azure says of the caller's roles; deny assignments and locks are not in it."""
        path = f"{self._wire().group}/providers/Microsoft.Authorization/permissions"
        roles = self._optional(lambda: self._wire().listed(path, AUTHORIZATION))
        if isinstance(roles, Found):
            return roles
        needed = NEEDED + (FOR_ADDRESSES if self._template.assign_public_ip else ())
        if missing := [one for one in needed if not _allowed(roles, one)]:
            return Found(f"missing: {', '.join(missing)}", CheckStatus.FAILED, ROLE)
        if not _allowed(roles, FOR_ADOPTION):
            text = f"all but {FOR_ADOPTION}: no node can be adopted"
            return Found(text, CheckStatus.WARNING, ROLE)
        return Found("all that are needed")

    def _states(self) -> Found:
        """Whether one request tells the power states of all machines."""
        wire = self._wire()
        path = f"{wire.subscription}/providers/{MACHINES}"
        told = self._optional(
            lambda: wire.call("GET", path, COMPUTE, params={"statusOnly": "true"})
        )
        if isinstance(told, Found):
            return Found(
                "asked for one by one, with a request for each machine in each poll",
                CheckStatus.WARNING,
                "give the manager etc/iam/azure-read.json on the subscription",
            )
        return Found("in one request")

    def _offer(self, name: str) -> Found:
        """Whether Azure lets this subscription have the size there, and what it says of it."""
        offers = self._offers
        if isinstance(offers, Found):
            return offers
        region, sizes = self._access.region, self._wanted.types[name]
        sku = offers.get(name)
        if sku is None:
            text = f"{region} has no {name}{did_you_mean(name, list(offers))}"
            return Found(text, CheckStatus.FAILED, "choose another size or region")
        if why := self._restricted(sku, None if sizes[0].places else self._template.zone):
            return Found(
                f"{name} is restricted for this subscription: {why}",
                CheckStatus.FAILED,
                "choose another size, region or zone, or ask Azure's support",
            )
        told = _capabilities(sku)
        if any(map(self._is_spot, sizes)) and told.get("LowPriorityCapable") != "True":
            return Found(
                f"{name} can't be a Spot machine", CheckStatus.FAILED, "take preemptible out"
            )
        cores, ram = int(told.get("vCPUs", "0")), int(float(told.get("MemoryGB", "0")) * 1024)
        return held_against(sizes, f"{cores} cores, {ram} MB of memory", cores, ram)

    @cached_property
    def _offers(self) -> dict[str, Mapping[str, Any]] | Found:
        """What Azure says of each size in the region, by its name."""
        wire = self._wire()
        where = {"$filter": f"location eq '{self._access.region}'"}
        path = f"{wire.subscription}/providers/Microsoft.Compute/skus"
        found = self._optional(lambda: wire.listed(path, SKUS, **where))
        if isinstance(found, Found):
            return found
        return {str(one.get("name")): one for one in found if _is_machine(one)}

    def _place(self, zone: str) -> Found:
        """Whether the zone has the sizes that are booted there."""
        offers = self._offers
        if isinstance(offers, Found):
            return offers
        sizes = (size for size in self._wanted.sizes if zone in size.places)
        lacking = []
        for name in sorted({size.instance_type for size in sizes}):
            sku = offers.get(name, {})
            if not _has_zone(sku, zone):
                lacking.append(f"{name} is not offered")
            elif why := self._restricted(sku, zone):
                lacking.append(f"{name} is restricted: {why}")
        if lacking:
            text = f"in zone {zone} {', '.join(lacking)}"
            return Found(text, CheckStatus.FAILED, "take the zone out of the places of that size")
        return Found(f"zone {zone} of {self._access.region} has its sizes")

    @staticmethod
    def _restricted(sku: Mapping[str, Any], zone: str | None) -> str:
        """Why the region, or that zone of it, is closed to the size; empty if it is not."""
        for one in sku.get("restrictions") or []:
            zones = (one.get("restrictionInfo") or {}).get("zones") or []
            if one.get("type") != "Zone" or zone in zones:
                return str(one.get("reasonCode") or one.get("type"))
        return ""

    def _is_spot(self, size: Size) -> bool:
        return bool(size.preemptible or self._template.preemptible)

    @staticmethod
    def _optional(ask: Callable[[], Any]) -> Any:
        """The answer, or what a refusal means for a call that only this pre-flight makes."""
        try:
            return ask()
        except Refusal as refusal:
            if refusal.meaning is Unauthorized:
                return Found("no right to ask", CheckStatus.NOT_ASKED, READS)
            if refusal.status == 404:
                return Found(str(refusal)[:300], CheckStatus.FAILED, "give one that exists")
            raise


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


def _is_machine(sku: object) -> bool:
    return isinstance(sku, dict) and sku.get("resourceType") == "virtualMachines"


def _capabilities(sku: Mapping[str, Any]) -> dict[str, str]:
    def pairs() -> Iterator[tuple[str, str]]:
        for one in sku.get("capabilities") or []:
            yield str(one.get("name")), str(one.get("value"))

    return dict(pairs())
