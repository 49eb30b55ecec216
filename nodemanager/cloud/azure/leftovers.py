"""What a node on Azure leaves behind at its end: interfaces, disks and public addresses (D4).

The create orders that Azure deletes them with the machine. They stay where it does not, such as
after a create or a delete that failed half-way, or where another hand attached them. Azure itself
detaches everything from a deleted machine. So this module never detaches anything.

A thing is ours when it has our pool's tag and an incarnation, as the create call set them (U5). Its
id here is Azure's resource id, in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.azure.errors import IN_USE
from nodemanager.cloud.azure.node import DELETING, VirtualMachine, tags_in, texts_in
from nodemanager.cloud.azure.wire import DISKS, NETWORK, Wire
from nodemanager.cloud.leftovers import CloudResource, PoolLeftovers
from nodemanager.cloud.refusal import unless_missing
from nodemanager.core.model.world import Leftover, LeftoverKind
from nodemanager.errors import IncompleteListing, LeftAlone


@dataclass(frozen=True, slots=True)
class ResourceType:
    """Where one kind of thing is in Azure's API."""

    kind: LeftoverKind
    provider: str
    version: str

    def has(self, path: str) -> bool:
        """Whether that resource id, in lower case, is one of this kind."""
        return f"/providers/{self.provider}/".lower() in path


SORTS = (
    ResourceType(LeftoverKind.INTERFACE, "Microsoft.Network/networkInterfaces", NETWORK),
    ResourceType(LeftoverKind.VOLUME, "Microsoft.Compute/disks", DISKS),
    ResourceType(LeftoverKind.ADDRESS, "Microsoft.Network/publicIPAddresses", NETWORK),
)
BY_KIND = {sort.kind: sort for sort in SORTS}
_INTERFACE, _DISK, _ADDRESS = SORTS
_MACHINE = re.compile(r"/subscriptions/.+/virtualmachines/[^/]+")


def _thing(sort: ResourceType, item: object) -> CloudResource:
    """The thing of an item. Its holder is the resource id of the machine that uses it, in lower
    case, for an address that of its interface.

    Raises IncompleteListing for an item without an id.
    """
    found = item if isinstance(item, Mapping) else {}
    if not isinstance(found.get("id"), str):
        raise IncompleteListing(f"{sort.provider}: an item without an id")
    about = found.get("properties")
    about = about if isinstance(about, Mapping) else {}
    holder, used = _use(sort, found, about)
    try:
        # Azure's tag names have no case, and may change it.
        tags = {name.lower(): value for name, value in texts_in(found.get("tags")).items()}
    except ValueError:
        # Without readable tags nothing shows that it is ours.
        tags = {}
    return CloudResource(
        sort.kind,
        found["id"].lower(),
        tags,
        frozenset({holder} - {""}),
        used=used,
        ending=about.get("provisioningState") == DELETING,
    )


def _use(sort: ResourceType, item: Mapping[str, Any], about: Mapping[str, Any]) -> tuple[str, bool]:
    """What uses a thing, and whether anything does."""
    if sort.kind is LeftoverKind.INTERFACE:
        holder = _id_in(about.get("virtualMachine"))
        return holder, bool(holder or about.get("privateEndpoint"))
    if sort.kind is LeftoverKind.VOLUME:
        holder = str(item.get("managedBy") or "").lower()
        return holder, bool(holder) or about.get("diskState") != "Unattached"
    holder = _id_in(about.get("ipConfiguration")).partition("/ipconfigurations/")[0]
    return holder, bool(holder or about.get("natGateway"))


def _id_in(found: object) -> str:
    return str(found.get("id") or "").lower() if isinstance(found, Mapping) else ""


class AzureLeftovers(PoolLeftovers[Wire, VirtualMachine]):
    STOPPING = DELETING
    IN_USE = IN_USE

    def pinned(self, driver: NodeDriver, node_id: str) -> Iterator[CloudResource]:
        node, wire = self.node(driver, node_id), self.wire(driver)
        if node is None:
            return
        for path, deleted in node.disks():
            if not deleted and (disk := _asked(wire, _DISK, path)):
                yield disk
        for path, deleted in node.interfaces():
            interface = _item(wire, _INTERFACE, path)
            if interface is None:
                continue
            if not deleted:
                yield _thing(_INTERFACE, interface)
            for address, deleted_with_it in _addresses(interface):
                gone = deleted and deleted_with_it
                if not gone and (thing := _asked(wire, _ADDRESS, address)):
                    yield thing

    def things(self, wire: Wire) -> Iterator[CloudResource]:
        for sort in SORTS:
            for item in wire.listed(f"{wire.group}/providers/{sort.provider}", sort.version):
                yield _thing(sort, item)

    def nodes(self, wire: Wire, incarnation: str | None = None) -> list[VirtualMachine]:
        every = wire.machines()
        if incarnation is None:
            return every
        return [one for one in every if self.read_incarnation(one) == incarnation]

    def incarnation(self, node: VirtualMachine) -> str | None:
        return tags_in(node.tags).incarnation

    def asked(self, wire: Wire, leftover: Leftover) -> CloudResource | None:
        sort = BY_KIND[leftover.kind]
        # No such thing has another id.
        return _asked(wire, sort, leftover.id) if sort.has(leftover.id) else None

    def others(
        self,
        wire: Wire,
        leftover: Leftover,
        thing: CloudResource,
        owners: Callable[[], list[VirtualMachine]],
    ) -> Iterable[str]:
        own = {node.path for node in owners()}
        return {one for one in _machines_of(wire, thing) - own if _lives(wire, one)}

    def delete(self, wire: Wire, thing: CloudResource) -> None:
        wire.call("DELETE", thing.id, BY_KIND[thing.kind].version)


def _item(wire: Wire, sort: ResourceType, path: str) -> Mapping[str, Any] | None:
    """What is at that path; None only for Azure's own "no such resource"."""
    return unless_missing(lambda: wire.get(path, sort.version))


def _asked(wire: Wire, sort: ResourceType, path: str) -> CloudResource | None:
    item = _item(wire, sort, path)
    return None if item is None else _thing(sort, item)


def _addresses(interface: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Each public address of an interface, and whether Azure deletes it with the interface."""
    about = interface.get("properties") or {}
    for one in about.get("ipConfigurations") or []:
        address = (one.get("properties") or {}).get("publicIPAddress") or {}
        if address.get("id"):
            option = (address.get("properties") or {}).get("deleteOption")
            yield str(address["id"]), option == "Delete"


def _machines_of(wire: Wire, thing: CloudResource) -> frozenset[str]:
    """The resource ids of the machines that use the thing."""
    if thing.kind is not LeftoverKind.ADDRESS:
        return thing.holders
    for holder in thing.holders:
        if not _INTERFACE.has(holder):
            raise LeftAlone(f"{thing.id} is used by {holder}")
        interface = _asked(wire, _INTERFACE, holder)
        return frozenset() if interface is None else interface.holders
    return frozenset()


def _lives(wire: Wire, holder: str) -> bool:
    """Whether the machine of that resource id exists, in any group that we may read."""
    if not _MACHINE.fullmatch(holder):
        return True
    if not holder.startswith(f"{wire.group}/".lower()):
        return True
    return wire.machine(holder.rpartition("/")[2]) is not None
