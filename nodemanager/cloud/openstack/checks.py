"""What OpenStack can be asked before the first node boots: image, flavors, networks, keys, quotas.

What only these checks read is in etc/iam/openstack-check.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted
from nodemanager.cloud.openstack.errors import Refusal
from nodemanager.cloud.openstack.options import AUTO, NONE, UUID, Template
from nodemanager.cloud.openstack.rights import CHECK_RULES, refused
from nodemanager.cloud.openstack.token import Token
from nodemanager.cloud.openstack.wire import Wire
from nodemanager.cloud.room import Limit, room
from nodemanager.core.model.world import Size
from nodemanager.errors import ForeignAnswer
from nodemanager.near import did_you_mean

QUOTAS: Mapping[str, tuple[str, str, str, str]] = {
    "instances": ("compute", "maxTotalInstances", "totalInstancesUsed", ""),
    "cores": ("compute", "maxTotalCores", "totalCoresUsed", ""),
    "ram": ("compute", "maxTotalRAMSize", "totalRAMUsed", "MB"),
    "volumes": ("volume", "maxTotalVolumes", "totalVolumesUsed", ""),
    "gigabytes": ("volume", "maxTotalVolumeGigabytes", "totalGigabytesUsed", "GB"),
}
"""Service, most, used and unit of each quota that has a name in a service's limits."""
MORE = "ask the cloud's operators for more, or lower max_nodes"
GIB = 1024**3


def checks(
    wire: Callable[[], Wire], token: Callable[[], Token], template: Template, wanted: Wanted
) -> Sequence[Check]:
    """OpenStack's own checks of what nodes are made of, in order."""
    return _Asker(wire, token, template, wanted).checks()


class _Asker:
    def __init__(
        self,
        wire: Callable[[], Wire],
        token: Callable[[], Token],
        template: Template,
        wanted: Wanted,
    ) -> None:
        self._wire = wire
        self._token = token
        self._template = template
        self._wanted = wanted
        self._image: Mapping[str, Any] = {}
        self._flavors: dict[str, Mapping[str, Any]] = {}

    def checks(self) -> list[Check]:
        template = self._template
        asks: dict[str, Callable[[], Found]] = {"image id": self._image_id}
        for kind in sorted({size.instance_type for size in self._wanted.sizes}):
            asks[f"flavor {kind}"] = partial(self._flavor, kind)
        if template.networks == AUTO:
            asks["network"] = self._only_network
        elif template.networks != NONE:
            asks |= {f"network {one}": partial(self._network, one) for one in template.networks}
        for name in template.security_groups:
            asks[f"security group {name}"] = partial(self._group, name)
        if template.server_group is not None:
            asks["server group"] = partial(self._server_group, template.server_group)
        if template.key_name is not None:
            asks["key pair"] = self._key
        if template.availability_zone is not None:
            asks["availability zone"] = partial(self._zone, template.availability_zone)
        asks |= {f"place {zone}": partial(self._zone, zone) for zone in self._wanted.places}
        if template.boot_volume_type is not None:
            asks["volume type"] = self._volume_type
        boots_from = () if template.boot_volume_gb is None else ("volumes", "gigabytes")
        for name in ("instances", "cores", "ram", *boots_from):
            asks[f"quota {name}"] = partial(self._quota, name)
        if template.networks != NONE:
            asks["quota ports"] = self._ports
        return [Check(name, partial(self._answered, ask)) for name, ask in asks.items()]

    @staticmethod
    def _answered(ask: Callable[[], Found]) -> Found:
        """The answer, or what a refusal means for a call that only this pre-flight makes."""
        try:
            return ask()
        except Refusal as refusal:
            if refusal.status in (401, 403):
                return Found(refused(refusal, "the question"), CheckStatus.NOT_ASKED, CHECK_RULES)
            if refusal.status == 404:
                return Found(str(refusal), CheckStatus.FAILED, "correct the file, or make it")
            raise

    # What nodes are made of.

    def _image_id(self) -> Found:
        wire, image = self._wire(), self._template.image
        if not wire.has("image"):
            return Found("the cloud has no image service in this region", CheckStatus.NOT_ASKED)
        if UUID.fullmatch(image):
            found = [wire.get("image", f"/images/{image}")]
        else:
            found = wire.page("image", "/images", "images", {"name": image})
        if len(found) != 1:
            ids = ", ".join(str(one.get("id")) for one in found)
            return Found(
                f"{image}: {len(found)} images have that name{f': {ids}' if ids else ''}",
                CheckStatus.FAILED,
                "give the image's id: openstack image list",
            )
        (self._image,) = found
        name, status = self._image.get("name"), self._image.get("status")
        text = f"{name}, id {self._image.get('id')}, {status}"
        if status != "active":
            return Found(
                text, CheckStatus.FAILED, "no node can boot from it: wait, or take another"
            )
        return Found(text)

    def _flavor(self, name: str) -> Found:
        """Whether it is there, and has what the file and the image ask for."""
        if not self._flavors:
            listed = self._wire().listing("compute", "/flavors/detail", "flavors")
            self._flavors = {str(one["name"]): one for one in listed}
        flavor = self._flavors.get(name)
        if flavor is None:
            near = did_you_mean(name, list(self._flavors))
            text = f"the cloud has no flavor of that name{near}"
            return Found(text, CheckStatus.FAILED, "openstack flavor list")
        template = self._template
        cores, ram_mb, disk_gb = int(flavor["vcpus"]), int(flavor["ram"]), int(flavor["disk"])
        text = f"{cores} cores, {ram_mb} MB, disk {disk_gb} GB"
        boot_gb = template.boot_volume_gb or disk_gb
        if flavor.get("OS-FLV-DISABLED:disabled"):
            return Found(f"{text}, disabled", CheckStatus.FAILED, "take another flavor")
        if not boot_gb:
            return Found(
                text, CheckStatus.FAILED, "set [Cloud Create] boot_volume_gb: it has no disk"
            )
        if int(self._image.get("min_ram") or 0) > ram_mb:
            needs = f"the image needs {self._image['min_ram']} MB"
            return Found(f"{text}, but {needs}", CheckStatus.FAILED, "take a larger flavor")
        least_gb = max(
            int(self._image.get("min_disk") or 0), int(self._image.get("size") or 0) / GIB
        )
        if least_gb > boot_gb:
            needs = f"the image needs a disk of {least_gb:.3g} GB"
            return Found(
                f"{text}, but {needs}",
                CheckStatus.FAILED,
                "take a larger flavor, or set boot_volume_gb",
            )
        ephemeral_gb = int(flavor.get("OS-FLV-EXT-DATA:ephemeral") or 0)
        for size in self._wanted.sizes:
            has = (cores, ram_mb, (disk_gb + ephemeral_gb) * 1000)
            if size.instance_type == name and _is_less(has, size):
                return Found(
                    f"{text}, but [Size {size.name}] says {size.cores} cores, {size.ram_mb} MB, "
                    f"scratch {size.scratch_mb} MB",
                    CheckStatus.WARNING,
                    "correct the section: jobs are sent there that do not fit",
                )
        return Found(text)

    def _zone(self, zone: str) -> Found:
        zones = self._wire().get("compute", "/os-availability-zone")["availabilityZoneInfo"]
        up = sorted(one["zoneName"] for one in zones if one["zoneState"]["available"])
        if zone in up:
            return Found(f"{zone} is available")
        text = f"{zone} is not among {', '.join(up)}{did_you_mean(zone, up)}"
        return Found(text, CheckStatus.FAILED, "give one of those")

    def _key(self) -> Found:
        name = self._template.key_name or ""
        found = self._wire().get("compute", f"/os-keypairs/{quote(name, safe='')}")["keypair"]
        return Found(f"{name}, {found.get('fingerprint')}")

    def _volume_type(self) -> Found:
        kind = self._template.boot_volume_type
        listed = self._wire().listing("volume", "/types", "volume_types")
        names = {text for one in listed for text in (str(one["name"]), str(one["id"]))}
        if kind in names:
            return Found(f"{kind} is there")
        return Found(
            f"{kind}: cinder has no such type", CheckStatus.FAILED, "openstack volume type list"
        )

    # The network.

    def _only_network(self) -> Found:
        """Nova takes the project's only network, its own or a shared one."""
        own = {"tenant_id": self._token().project, "shared": "false", "admin_state_up": "true"}
        wire = self._wire()
        found = [*wire.listing("network", "/networks", "networks", **own)]
        found += wire.listing("network", "/networks", "networks", shared="true")
        names = ", ".join(f"{one.get('name')} ({one['id']})" for one in found)
        if len(found) > 1:
            return Found(
                f"the project has several: {names}",
                CheckStatus.FAILED,
                "set [Cloud Create] networks",
            )
        if not found:
            return Found(
                "the project has none",
                CheckStatus.WARNING,
                "nova may make one, if the cloud allows it; or make one, with a router",
            )
        return _of_network(found[0])

    def _network(self, asked: str) -> Found:
        wire = self._wire()
        if UUID.fullmatch(asked):
            return _of_network(wire.get("network", f"/networks/{asked}")["network"])
        found = wire.networks_named(asked)
        if len(found) != 1:
            return _not_one(len(found), "networks", "openstack network list")
        return _of_network(found[0])

    def _server_group(self, asked: str) -> Found:
        found = self._wire().server_groups(asked)
        if len(found) != 1:
            return _not_one(len(found), "server groups", "openstack server group list")
        policy = found[0].get("policy") or ", ".join(found[0].get("policies", []))
        return Found(f"{found[0].get('name')}, id {found[0]['id']}, {policy}")

    def _group(self, name: str) -> Found:
        key = "id" if UUID.fullmatch(name) else "name"
        given = {key: name}
        found = [*self._wire().listing("network", "/security-groups", "security_groups", **given)]
        if len(found) == 1:
            return Found(f"{found[0].get('name')}, id {found[0]['id']}")
        return _not_one(len(found), "security groups", "openstack security group list")

    # Quotas.

    def _quota(self, name: str) -> Found:
        service, most, used, unit = QUOTAS[name]
        told = self._wire().get(service, "/limits")["limits"]["absolute"]
        return room(_limit(told[most], told[used], unit), self._wanted, self._need(name), MORE)

    def _need(self, name: str) -> Callable[[Size], float]:
        def of(size: Size) -> float:
            flavor = self._flavors.get(size.instance_type, {})
            match name:
                case "cores":
                    return float(flavor.get("vcpus", size.cores))
                case "ram":
                    return float(flavor.get("ram", size.ram_mb))
                case "gigabytes":
                    return float(self._template.boot_volume_gb or 0)
            return 1

        return of

    def _ports(self) -> Found:
        path = f"/quotas/{self._token().project}/details"
        try:
            told = self._wire().get("network", path)["quota"]["port"]
        except (ForeignAnswer, Refusal) as error:
            if isinstance(error, Refusal) and error.status != 404:
                raise
            return Found(
                "this neutron does not tell it", CheckStatus.NOT_ASKED, "openstack quota show"
            )
        networks = self._template.networks
        each = 1 if isinstance(networks, str) else len(networks)
        limit = _limit(told["limit"], told["used"] + told.get("reserved", 0))
        return room(limit, self._wanted, lambda size: each, MORE)


def _not_one(number: int, what: str, command: str) -> Found:
    """What is asked for by a name that none or several have."""
    text = f"the project has {number or 'no'} {what} of that name"
    return Found(text, CheckStatus.FAILED, f"give one's id: {command}")


def _of_network(network: Mapping[str, Any]) -> Found:
    text = f"{network.get('name')}, id {network.get('id')}, {network.get('status')}"
    if network.get("admin_state_up") is False or network.get("status") not in ("ACTIVE", None):
        return Found(text, CheckStatus.FAILED, "bring it up, or take another")
    if network.get("subnets") == []:
        return Found(
            f"{text}, without a subnet", CheckStatus.FAILED, "make one, or take another network"
        )
    return Found(text)


def _limit(most: int, used: int, unit: str = "") -> Limit:
    """OpenStack tells -1 for no limit."""
    return Limit(None if most < 0 else most, used, unit)


def _is_less(has: tuple[int, int, int], size: Size) -> bool:
    return size.cores > has[0] or size.ram_mb > has[1] or size.scratch_mb > has[2]
