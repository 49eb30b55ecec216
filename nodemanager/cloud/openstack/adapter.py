"""The adapter for OpenStack, over apache-libcloud's connections."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

from libcloud.compute.base import NodeDriver
from libcloud.compute.drivers.openstack import OpenStack_2_NodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.checks import Check, CheckStatus, CloudChecks, Found, Offer, Wanted
from nodemanager.cloud.declared import CloudConfig
from nodemanager.cloud.libcloud_base import TIMEOUT, LibcloudCloud, load_driver_class
from nodemanager.cloud.openstack import options
from nodemanager.cloud.openstack.errors import Refusal, is_no_room
from nodemanager.cloud.openstack.leftovers import OpenStackLeftovers
from nodemanager.cloud.openstack.node import DELETING, STATES, UNDECIDED, Server
from nodemanager.cloud.openstack.options import UUID, Access, Template
from nodemanager.cloud.openstack.token import Keystone
from nodemanager.cloud.openstack.wire import (
    MICROVERSION,
    Connected,
    Wire,
    server_path,
)
from nodemanager.cloud.provider import GoesOn, Provider
from nodemanager.cloud.reading import NodeReader, chosen, epoch
from nodemanager.cloud.refusal import without_secrets
from nodemanager.cloud.tags import on_hold, tags_for, tags_from
from nodemanager.core.model.world import Outcome, Size, Tags
from nodemanager.errors import BadRequest, ForeignAnswer
from nodemanager.lib.near import did_you_mean

LONGEST_USER_DATA = 65_535
"""Characters of base64 (nova's limit)."""


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The ids of what the file and the order name. `networks` may also be nova's own `auto` or
    `none`."""

    image: str
    flavor: str
    networks: str | tuple[str, ...]
    server_group: str | None = None


def server_body(order: CreateOrder, template: Template, found: ServerParts) -> dict[str, Any]:
    """The create call for exactly one server, with its tags as metadata.

    libcloud's create_node can't send `networks: auto`. It also asks for the new server at once, so
    a failed question would look like a failed create.

    Raises BadRequest for what nova would refuse or can't give.
    """
    coded = base64.b64encode(order.user_data.encode("utf-8")).decode("ascii")
    if len(coded) > LONGEST_USER_DATA:
        raise BadRequest(
            f"the user data has {len(coded)} characters in base64, nova takes {LONGEST_USER_DATA}"
        )
    if order.size.preemptible:
        raise BadRequest(f"[Size {order.size.name}] preemptible: OpenStack has no such nodes")
    networks = found.networks
    server: dict[str, Any] = {
        "name": order.name,
        "flavorRef": found.flavor,
        # Ours come last and so override others.
        "metadata": {**template.metadata, **tags_for(order.tags)},
        "user_data": coded,
        "networks": networks if isinstance(networks, str) else [{"uuid": one} for one in networks],
    }
    server |= _disk(template, found.image)
    if template.security_groups:
        server["security_groups"] = [{"name": name} for name in template.security_groups]
    if template.key_name is not None:
        server["key_name"] = template.key_name
    zone = order.place or template.availability_zone
    if zone is not None:
        server["availability_zone"] = zone
    if template.config_drive:
        server["config_drive"] = True
    hints = dict(template.hints)
    if found.server_group is not None:
        hints["group"] = found.server_group
    # Nova's schema has them beside the server, not in it.
    return {"server": server} | ({"os:scheduler_hints": hints} if hints else {})


def _disk(template: Template, image: str) -> dict[str, Any]:
    """What the node boots from: the image on its host's disk, or a new volume made from it."""
    if template.boot_volume_gb is None:
        return {"imageRef": image}
    volume: dict[str, Any] = {
        "boot_index": 0,
        "source_type": "image",
        "uuid": image,
        "destination_type": "volume",
        "volume_size": template.boot_volume_gb,
        # Nova deletes it with the server.
        "delete_on_termination": True,
    }
    if template.boot_volume_type is not None:
        volume["volume_type"] = template.boot_volume_type
    return {"block_device_mapping_v2": [volume]}


@dataclass
class OpenStackChecks(CloudChecks):
    """What OpenStack can be asked before the first node boots: its flavors and zones.

    It tells nobody's rights without trying them. What only these checks read is in
    etc/iam/openstack-check.json.
    """

    wire: Callable[[], Wire]
    template: Template

    READS = "to have it asked, put the rules of etc/iam/openstack-check.json into the credential"

    @property
    def own_place(self) -> str | None:
        return self.template.availability_zone

    @cached_property
    def _flavors(self) -> Mapping[str, Mapping[str, Any]]:
        listed = self.wire().listing("compute", "/flavors/detail", "flavors")
        return {str(one["name"]): one for one in listed}

    def offer(self, kind: str, place: str | None) -> Offer | Found:
        flavor = self._flavors.get(kind)
        if flavor is None:
            near = did_you_mean(kind, list(self._flavors))
            text = f"the cloud has no flavor {kind}{near}"
            return Found(text, CheckStatus.FAILED, "openstack flavor list")
        if flavor.get("OS-FLV-DISABLED:disabled"):
            return Found(f"{kind} is disabled", CheckStatus.FAILED, "take another flavor")
        disk_gb = int(flavor["disk"])
        if not disk_gb and self.template.boot_volume_gb is None:
            to_do = "set [Cloud Create] boot_volume_gb"
            return Found(f"{kind} has no disk to boot from", CheckStatus.FAILED, to_do)
        disk_gb += int(flavor.get("OS-FLV-EXT-DATA:ephemeral") or 0)
        return Offer(int(flavor["vcpus"]), int(flavor["ram"]), disk_gb * 1000)

    def place(self, place: str) -> Found:
        zones = self.wire().get("compute", "/os-availability-zone")["availabilityZoneInfo"]
        up = sorted(one["zoneName"] for one in zones if one["zoneState"]["available"])
        if place in up:
            return Found(f"{place} is available")
        text = f"{place} is not among {', '.join(up)}{did_you_mean(place, up)}"
        return Found(text, CheckStatus.FAILED, "give one of those")


READER = NodeReader(
    STATES,
    state=attrgetter("state"),
    tags=lambda raw: tags_from(raw.metadata),
    held=lambda raw: on_hold(raw.metadata),
    created_at=lambda raw: epoch(raw.created),
    size=attrgetter("size"),
    addresses=attrgetter("addresses"),
    image=attrgetter("image"),
    places=attrgetter("places"),
    why=attrgetter("fault"),
)
"""For Servers (nodemanager.cloud.openstack.node)."""


@dataclass
class OpenStack(Provider):
    """OpenStack: libcloud sends requests, this class checks answers (L2)."""

    name = "openstack"
    ids_unique = True
    may_authorise = True
    sizes_from_file = True

    access: Access
    keystone: Keystone
    wanted: Mapping[str, str]
    template: Template
    driver_type: type[OpenStack_2_NodeDriver]
    _seen: set[str] = field(default_factory=set, init=False)
    _flavors: Mapping[str, str] = field(default_factory=dict, init=False)
    _image_seen: bool = field(default=False, init=False)

    def new_driver(self) -> NodeDriver:
        return self.driver_type(
            "unset",
            "unset",
            ex_force_auth_url=str(self.access.auth_url),
            ex_force_auth_version="3.x_password",
            ex_force_microversion=MICROVERSION,
            ex_tenant_name="unset",
            timeout=self.access.timeout,
        )

    def wire(self, driver: NodeDriver) -> Wire:
        return Wire(driver, self.keystone, self._seen)

    def account(self, driver: NodeDriver) -> str:
        access = self.access
        region = access.region or "*"
        return f"project={self.keystone.account()} region={region} endpoint={access.auth_url}"

    def listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        """Nova has no filter by metadata, so one list of the project's servers answers both."""
        servers = self.wire(driver).servers()
        answers: list[tuple[object, bool]] = [(servers, False)]
        if self.wanted and isinstance(servers, list):
            # The first answer tells what can't be read.
            wanted = self.wanted.items()
            matches = chosen(servers, lambda one: wanted <= one.metadata.items(), unread=False)
            answers.append((matches, True))
        return answers

    def by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        return self.wire(driver).servers()

    def by_id(self, driver: NodeDriver, node_id: str) -> Server | None:
        return self.wire(driver).server(node_id)

    def sizes(self, driver: NodeDriver) -> tuple[Size, ...]:
        """The flavors by their names, which are unique and which operators know; no prices."""
        flavors = [*self.wire(driver).listing("compute", "/flavors/detail", "flavors")]
        try:
            self._flavors = {str(one["name"]): str(one["id"]) for one in flavors}
            return tuple(_size(one) for one in flavors)
        except (KeyError, TypeError, ValueError) as error:
            raise ForeignAnswer(f"a flavor can't be read ({error!r})") from error

    def _flavor(self, driver: NodeDriver, size: Size) -> str:
        """The id of the size's flavor, by the flavors as last listed, else as listed now."""
        if size.instance_type not in self._flavors:
            self.sizes(driver)
        found = self._flavors.get(size.instance_type)
        if found is None:
            raise BadRequest(
                f"[Size {size.name}] instance_type = {size.instance_type}: the cloud has no "
                f"flavor of that name{did_you_mean(size.instance_type, list(self._flavors))}; "
                "`openstack flavor list` shows them"
            )
        return found

    def check_image(self, driver: NodeDriver) -> None:
        if not self._image_seen:
            self._image(self.wire(driver))
            self._image_seen = True

    def _image(self, wire: Wire) -> str:
        """The id of the image. A name is looked up each time, so that a newer image gets used."""
        image = self.template.image
        if UUID.fullmatch(image):
            if self._image_seen or not wire.has("image"):
                return image
            try:
                found = [wire.get("image", f"/images/{image}")]
            except Refusal as refusal:
                if refusal.status == 403:
                    # A role may lack this right and still allow booting nodes.
                    return image
                if refusal.status == 404:
                    raise BadRequest(self._no_image(str(refusal))) from refusal
                raise
        else:
            found = wire.page("image", "/images", "images", {"name": image})
        states = [str(one.get("status")) for one in found]
        if states != ["active"]:
            shown = f"its state is {states[0]}" if len(states) == 1 else f"{len(states)} have it"
            raise BadRequest(self._no_image(shown if states else "there is none of that name"))
        return str(found[0]["id"])

    def image(self, driver: NodeDriver) -> str | None:
        return self._image(self.wire(driver))

    def _no_image(self, why: str) -> str:
        return f"[Cloud Create] image = {self.template.image}: no node can boot from it: {why}"

    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        wire = self.wire(driver)
        template = self.template
        found = ServerParts(
            flavor=self._flavor(driver, order.size),
            image=self._image(wire),
            networks=wire.networks(template.networks),
            server_group=wire.server_group(template.server_group),
        )
        body = server_body(order, template, found)
        answer = wire.post("compute", "/servers", body).get("server")
        made = Server.of(answer)
        if made is None or made.id is None:
            raise ForeignAnswer("the answer to a create names no server")
        # The answer has little but the id, and a password. The server itself shows what was made.
        known = Server(made.id, {"id": made.id, "name": order.name})
        try:
            server = wire.server(made.id) or known
        except Exception:
            # It is made, so a failed question must not make the create look failed. The next
            # listing shows the rest.
            server = known
        return GoesOn(server, made.id)

    def finish(self, driver: NodeDriver, pending: str) -> str | Refusal | None:
        """By the server's id, and why nova had no host for it once that is told.

        Such a server never ran. It is deleted, and the refusal is told once it is gone: it has the
        node's tags. What else may be wrong with a server the listings show.
        """
        node_id, _, fault = pending.partition(" ")
        wire = self.wire(driver)
        server = wire.server(node_id)
        if server is None:
            return Refusal("", fault, 500) if fault else None
        if not fault and server.state in UNDECIDED:
            return pending
        if not fault and (server.state != "ERROR" or not is_no_room(server.fault)):
            return None
        if server.state != DELETING:
            wire.delete("compute", server_path(node_id))
        return f"{node_id} {fault or without_secrets(server.fault)}"

    def adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        given = tags_for(tags)
        path = f"{server_path(node_id)}/metadata"
        answer = self.wire(driver).post("compute", path, {"metadata": given})
        kept = answer.get("metadata")
        if not isinstance(kept, dict) or not given.items() <= kept.items():
            raise ForeignAnswer(f"the answer to tagging {node_id} does not show our tags")

    def destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        """Nova never says that a server is gone: it does not know it any more (D3)."""
        try:
            self.wire(driver).delete("compute", server_path(node_id))
        except Refusal as refusal:
            if refusal.is_not_found:
                return Outcome.UNKNOWN
            raise
        return Outcome.ACCEPTED

    def preflight(self, driver: NodeDriver, wanted: Wanted) -> Sequence[Check]:
        return OpenStackChecks(wanted, partial(self.wire, driver), self.template).all()


def build_cloud(config: CloudConfig, *, timeout: float = TIMEOUT) -> LibcloudCloud:
    """A CloudDriver for OpenStack.

    `timeout` is in seconds and applies to each HTTP request. Raises ConfigError with every problem
    of the three sections.
    """
    driver_type = load_driver_class(config.driver_class, OpenStack_2_NodeDriver)
    access, wanted, template = options.read(config, timeout)
    keystone = Keystone(access)
    provider = OpenStack(
        access, keystone, wanted, template, _connected(driver_type, access, keystone)
    )
    leftovers = OpenStackLeftovers(config.pool, provider.wire, provider.by_id)
    return LibcloudCloud(config, provider, READER, leftovers, timeout=access.timeout)


def _connected(
    driver_type: type[OpenStack_2_NodeDriver], access: Access, keystone: Keystone
) -> type[OpenStack_2_NodeDriver]:
    """The driver class with our tokens and raw answers in its connections."""

    def connection(own: type, service: str) -> type:
        given = {"keystone": keystone, "service": service, "trust": access.trust}
        return type(own.__name__, (Connected, own), given)

    connections = {
        "connectionCls": connection(driver_type.connectionCls, "compute"),
        "image_connectionCls": connection(driver_type.image_connectionCls, "image"),
        "network_connectionCls": connection(driver_type.network_connectionCls, "network"),
        "volumev3_connectionCls": connection(driver_type.volumev3_connectionCls, "volume"),
    }
    # libcloud has no types: the checker sees only a class of type Any.
    return type(driver_type.__name__, (driver_type,), connections)


def _size(flavor: Mapping[str, Any]) -> Size:
    name = str(flavor["name"])
    # A thousand MB per GB never promises more than the disks have.
    disk_gb = int(flavor.get("disk") or 0) + int(flavor.get("OS-FLV-EXT-DATA:ephemeral") or 0)
    return Size(
        name=name,
        instance_type=name,
        cores=max(1, int(flavor["vcpus"])),
        ram_mb=int(flavor["ram"]),
        scratch_mb=disk_gb * 1000,
    )
