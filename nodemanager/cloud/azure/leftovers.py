"""What a node on Azure leaves behind at its end: interfaces, disks and public addresses (D4).

The create orders that Azure deletes them with the machine. They stay where it does not, such as
after a create or a delete that failed half-way, or where another hand attached them. Azure itself
detaches everything from a deleted machine. So this module never detaches anything.

A thing is ours when it has our pool's tag and an incarnation, as the create call set them (U5). Its
id here is Azure's resource id, in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.azure.errors import IN_USE, Refusal
from nodemanager.cloud.azure.node import DELETING, VirtualMachine, tags_in, texts_in
from nodemanager.cloud.azure.wire import DISKS, NETWORK, Wire
from nodemanager.cloud.tags import on_hold
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome, Tags
from nodemanager.errors import IncompleteListing, LeftAlone


@dataclass(frozen=True, slots=True)
class ResourceType:
    """Where one kind of thing is in Azure's API."""

    kind: LeftoverKind
    provider: str
    version: str


SORTS = (
    ResourceType(LeftoverKind.INTERFACE, "Microsoft.Network/networkInterfaces", NETWORK),
    ResourceType(LeftoverKind.VOLUME, "Microsoft.Compute/disks", DISKS),
    ResourceType(LeftoverKind.ADDRESS, "Microsoft.Network/publicIPAddresses", NETWORK),
)
BY_KIND = {sort.kind: sort for sort in SORTS}
_INTERFACE = BY_KIND[LeftoverKind.INTERFACE]
_MACHINE = re.compile(r"/subscriptions/.+/virtualmachines/[^/]+")


@dataclass(frozen=True, slots=True)
class AzureResource:
    """An interface, disk or address from an answer.

    `holder` is the resource id of the machine that uses it, in lower case, for an address that of
    its interface; `used` is True when anything uses it.
    """

    sort: ResourceType
    id: str
    item: Mapping[str, Any]
    names: Mapping[str, str]
    holder: str
    used: bool
    ending: bool

    @classmethod
    def of(cls, sort: ResourceType, item: object) -> AzureResource:
        found = item if isinstance(item, Mapping) else {}
        if not isinstance(found.get("id"), str):
            raise IncompleteListing(f"{sort.provider}: an item without an id")
        about = found.get("properties")
        about = about if isinstance(about, Mapping) else {}
        holder, used = _use(sort, found, about)
        try:
            names = texts_in(found.get("tags"))
        except ValueError:
            # Without readable tags nothing shows that it is ours.
            names = {}
        ending = about.get("provisioningState") == DELETING
        return cls(sort, found["id"].lower(), found, names, holder, used, ending)

    @property
    def tags(self) -> Tags:
        return tags_in(self.names)

    @property
    def held(self) -> bool:
        return on_hold({name.lower(): value for name, value in self.names.items()})

    def is_ours(self, pool: str) -> bool:
        return self.tags.pool == pool and bool(self.tags.incarnation)


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


@dataclass(frozen=True, slots=True)
class AzureLeftovers:
    """See nodemanager.cloud.provider.Leftovers; `wire` gives the API on a driver's connection,
    `find_node` a machine by its id."""

    pool: str
    wire: Callable[[NodeDriver], Wire]
    find_node: Callable[[NodeDriver, str], VirtualMachine | None]

    def pins(self, driver: NodeDriver, node_id: str) -> tuple[Leftover, ...]:
        """The things of ours that the machine uses and that Azure does not delete with it."""
        node = self.find_node(driver, node_id)
        if node is None:
            return ()
        return tuple(
            Leftover(thing.sort.kind, thing.id, node_id)
            for thing in self._staying(self.wire(driver), node)
            if thing.is_ours(self.pool) and not thing.held
        )

    def _staying(self, wire: Wire, node: VirtualMachine) -> Iterator[AzureResource]:
        for path, deleted in node.disks():
            if not deleted and (disk := _asked(wire, BY_KIND[LeftoverKind.VOLUME], path)):
                yield disk
        for path, deleted in node.interfaces():
            interface = _asked(wire, _INTERFACE, path)
            if interface is None:
                continue
            if not deleted:
                yield interface
            for address, deleted_with_it in _addresses(interface):
                gone = deleted and deleted_with_it
                if not gone and (thing := _asked(wire, BY_KIND[LeftoverKind.ADDRESS], address)):
                    yield thing

    def find(self, driver: NodeDriver) -> tuple[Leftover, ...]:
        """Unused things of ours whose incarnation no listed machine has.

        Lists the machines after the things, so that every thing's machine is listed, too. The
        exception is a very new machine (A1), which the caller must allow for.
        """
        wire = self.wire(driver)
        free = [
            thing
            for sort in SORTS
            for item in wire.listed(f"{wire.group}/providers/{sort.provider}", sort.version)
            if (thing := AzureResource.of(sort, item)).is_ours(self.pool)
            and not thing.used
            and not thing.ending
            and not thing.held
        ]
        live = {_incarnation_of(node) for node in wire.machines()} if free else set()
        return tuple(
            Leftover(thing.sort.kind, thing.id, "")
            for thing in free
            if thing.tags.incarnation not in live
        )

    def release(self, driver: NodeDriver, leftover: Leftover) -> Outcome:
        """Checks the thing and its machine before it sends the delete."""
        wire, sort = self.wire(driver), BY_KIND[leftover.kind]
        if f"/providers/{sort.provider}/".lower() not in leftover.id:
            # No such thing has such an id.
            return Outcome.GONE
        thing = _asked(wire, sort, leftover.id)
        if thing is None:
            return Outcome.GONE
        what = f"{leftover.kind} {leftover.id}"
        if thing.held:
            raise LeftAlone(f"{what} is held by an operator")
        if leftover.tagged and not thing.is_ours(self.pool):
            raise LeftAlone(f"{what} does not bear the tags of pool {self.pool} any more")
        if thing.ending:
            return Outcome.ACCEPTED
        nodes = self._nodes(driver, leftover, thing)
        holder = _machine_of(wire, thing)
        if holder and holder not in {node.path for node in nodes} and _lives(wire, holder):
            raise LeftAlone(f"{what} is used by {holder}")
        states = {_state_of(node) for node in nodes}
        if living := sorted(states - {DELETING}):
            raise LeftAlone(f"{what} belongs to a node that is {', '.join(living)}")
        return Outcome.ACCEPTED if states or thing.used else _deleted(wire, thing)

    def _nodes(
        self, driver: NodeDriver, leftover: Leftover, thing: AzureResource
    ) -> list[VirtualMachine]:
        """The machines that owned the thing, by id where it is known, else by incarnation.

        Raises LeftAlone where both are unknown.
        """
        if leftover.node_id:
            found = self.find_node(driver, leftover.node_id)
            return [] if found is None else [found]
        incarnation = thing.tags.incarnation
        if not incarnation:
            raise LeftAlone(f"the node of {leftover.kind} {thing.id} is unknown")
        every = self.wire(driver).machines()
        return [node for node in every if _incarnation_of(node) == incarnation]


def _asked(wire: Wire, sort: ResourceType, path: str) -> AzureResource | None:
    """The thing at that path; None only for Azure's own "no such resource"."""
    try:
        return AzureResource.of(sort, wire.get(path, sort.version))
    except Refusal as refusal:
        if refusal.is_not_found:
            return None
        raise


def _deleted(wire: Wire, thing: AzureResource) -> Outcome:
    """What became of the request to delete a thing; the next question tells whether it is gone."""
    try:
        wire.call("DELETE", thing.id, thing.sort.version)
    except Refusal as refusal:
        if refusal.is_not_found:
            return Outcome.GONE
        if refusal.code not in IN_USE:
            raise
    return Outcome.ACCEPTED


def _addresses(interface: AzureResource) -> Iterator[tuple[str, bool]]:
    """Each public address of an interface, and whether Azure deletes it with the interface."""
    about = interface.item.get("properties") or {}
    for one in about.get("ipConfigurations") or []:
        address = (one.get("properties") or {}).get("publicIPAddress") or {}
        if address.get("id"):
            option = (address.get("properties") or {}).get("deleteOption")
            yield str(address["id"]), option == "Delete"


def _machine_of(wire: Wire, thing: AzureResource) -> str:
    """The resource id of the machine that uses the thing; empty where none does."""
    if thing.sort.kind is not LeftoverKind.ADDRESS or not thing.holder:
        return thing.holder
    if f"/providers/{_INTERFACE.provider}/".lower() not in thing.holder:
        raise LeftAlone(f"{thing.id} is used by {thing.holder}")
    interface = _asked(wire, _INTERFACE, thing.holder)
    return "" if interface is None else interface.holder


def _lives(wire: Wire, holder: str) -> bool:
    """Whether the machine of that resource id exists, in any group that we may read."""
    if not _MACHINE.fullmatch(holder):
        return True
    if not holder.startswith(f"{wire.group}/".lower()):
        return True
    return wire.machine(holder.rpartition("/")[2]) is not None


def _state_of(node: VirtualMachine) -> str:
    """Its raw state; an unreadable one is not that of a node that ends (P3)."""
    try:
        return node.state
    except ValueError:
        return "unreadable"


def _incarnation_of(node: VirtualMachine) -> str:
    """Its incarnation. Raises IncompleteListing where that can't be read: any thing might then
    belong to this machine."""
    try:
        return tags_in(node.tags).incarnation or ""
    except ValueError as error:
        raise IncompleteListing(f"find leftovers: node {node.id or '?'}: {error}") from error
