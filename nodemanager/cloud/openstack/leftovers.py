"""What an OpenStack server leaves behind at its end: ports, volumes, floating addresses (D4).

Nova itself deletes the ports that it made for a server, gives other ports back to their owner, and
detaches volumes. So this module never detaches anything.

A thing is ours if it bears our pool and an incarnation: a volume in its metadata, a port or an
address in neutron's tags, as `nodemanager-pool=POOL`. The ports that nova makes bear nothing. They
are ours if they are still bound to a server of ours that no longer exists: nova takes its mark off
those that it did not make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.leftovers import CloudResource, PoolLeftovers
from nodemanager.cloud.openstack.errors import Refusal
from nodemanager.cloud.openstack.node import STATES, Server
from nodemanager.cloud.openstack.wire import Wire
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import CloudState, Leftover, LeftoverKind, Outcome
from nodemanager.errors import ForeignAnswer, IncompleteListing, LeftAlone, MalformedId

UNUSED = frozenset({"available", "error", "error_deleting", "deleting"})
"""The states of a volume in which nothing uses it."""
BY_POLICY = "disallowed by policy"
"""Neutron's word for a right that a role lacks."""


@dataclass(frozen=True, slots=True)
class ResourceType:
    """Where one kind of thing is in OpenStack's APIs; `one` is its name in answers."""

    kind: LeftoverKind
    service: str
    root: str
    one: str
    listing: str


SORTS = (
    ResourceType(LeftoverKind.INTERFACE, "network", "/ports", "port", "/ports"),
    ResourceType(LeftoverKind.VOLUME, "volume", "/volumes", "volume", "/volumes/detail"),
    ResourceType(LeftoverKind.ADDRESS, "network", "/floatingips", "floatingip", "/floatingips"),
)
BY_KIND = {sort.kind: sort for sort in SORTS}


class OpenStackLeftovers(PoolLeftovers[Wire, Server]):
    STOPPING = CloudState.STOPPING
    ENDED = CloudState.TERMINATED

    def pinned(self, driver: NodeDriver, node_id: str) -> Iterator[CloudResource]:
        """Nova deletes its ports with the server. One that it has deleted will be found gone at its
        release, and one that it forgot is then deleted."""
        wire = self.wire(driver)
        server = wire.server(node_id)
        if server is None or server.metadata.get(POOL_TAG) != self.pool:
            return
        ports = [
            port
            for port in _things(wire, BY_KIND[LeftoverKind.INTERFACE], device_id=node_id)
            if node_id in port.holders
        ]
        yield from ports
        for volume_id in server.volumes:
            if volume := _asked(wire, BY_KIND[LeftoverKind.VOLUME], volume_id):
                yield volume
        for port in ports:
            addresses = _things(wire, BY_KIND[LeftoverKind.ADDRESS], port_id=port.id)
            yield from (address for address in addresses if port.id in address.holders)

    def things(self, wire: Wire) -> Iterator[CloudResource]:
        """Without what nova made, which can't be told here."""
        for sort in SORTS:
            yield from _things(wire, sort)

    def nodes(self, wire: Wire, incarnation: str | None = None) -> list[Server]:
        """Raises IncompleteListing where one is unreadable: any thing might belong to that one."""
        listed = wire.servers()
        if any(server is None for server in listed):
            raise IncompleteListing("an item of the servers is none")
        if incarnation is None:
            return listed
        return [one for one in listed if self.read_incarnation(one) == incarnation]

    def owners(self, driver: NodeDriver, leftover: Leftover, thing: CloudResource) -> list[Server]:
        try:
            return super().owners(driver, leftover, thing)
        except MalformedId as error:
            raise LeftAlone(f"{thing.what}: {error}") from error

    def incarnation(self, node: Server) -> str | None:
        return node.metadata.get(INCARNATION_TAG)

    def state(self, node: Server) -> str:
        return STATES.get(node.state, CloudState.UNKNOWN)

    def asked(self, wire: Wire, leftover: Leftover) -> CloudResource | None:
        return _asked(wire, BY_KIND[leftover.kind], leftover.id)

    def others(
        self,
        wire: Wire,
        leftover: Leftover,
        thing: CloudResource,
        owners: Callable[[], list[Server]],
    ) -> Iterable[str]:
        """Raises LeftAlone for a port that nova did not make."""
        if not leftover.tagged and thing.holders != {leftover.node_id}:
            why = "is not bound to its server any more: nova did not make it"
            raise LeftAlone(f"{thing.what} {why}")
        # The holder of an address is a port, which goes before it.
        is_address = thing.kind is LeftoverKind.ADDRESS
        return frozenset() if is_address else thing.holders - {leftover.node_id}

    def is_used(self, leftover: Leftover, thing: CloudResource) -> bool:
        # What nova made is deleted while it is bound to its server: afterwards nothing shows that
        # it is ours.
        return thing.used and leftover.tagged

    def delete(self, wire: Wire, thing: CloudResource) -> None:
        sort = BY_KIND[thing.kind]
        wire.delete(sort.service, f"{sort.root}/{quote(thing.id, safe='')}")

    def refused(self, thing: CloudResource, error: Exception) -> Outcome | None:
        """Raises LeftAlone for a port that is nova's to delete."""
        if not isinstance(error, Refusal):
            return None
        if error.status == 404:
            return Outcome.GONE
        if thing.made_with_node and BY_POLICY in error.message:
            why = "neutron lets only administrators delete a port that nova made"
            raise LeftAlone(f"{thing.what}: {why}: {error}") from error
        return Outcome.ACCEPTED if error.status in (400, 409) else None


def _thing(sort: ResourceType, raw: Any) -> CloudResource:
    """The thing of an item. Its holders are the ids of servers, for an address that of a port.

    Raises IncompleteListing for an item without an id.
    """
    if not isinstance(raw, dict) or not isinstance(raw.get("id"), str):
        raise IncompleteListing(f"GET {sort.listing}: an item without an id")
    status = str(raw.get("status", ""))
    made_by_nova = False
    if sort.kind is LeftoverKind.VOLUME:
        found = raw.get("attachments")
        holders = [str(one.get("server_id")) for one in found] if found else []
        used = bool(holders) or status not in UNUSED
    else:
        holder = raw.get("device_id" if sort.kind is LeftoverKind.INTERFACE else "port_id")
        holders = [str(holder)] if holder else []
        used = bool(holders)
        owner = str(raw.get("device_owner") or "")
        bare = not raw.get("name") and not raw.get("tags") and not raw.get("description")
        made_by_nova = bare and owner.startswith("compute:")
    return CloudResource(
        sort.kind,
        raw["id"],
        _tags(raw),
        frozenset(holders),
        used=used,
        ending=status == "deleting",
        made_with_node=made_by_nova,
    )


def _tags(raw: Mapping[str, Any]) -> dict[str, str]:
    """A volume's metadata, or neutron's tags, each read as NAME=VALUE; none where unreadable."""
    metadata, tags = raw.get("metadata"), raw.get("tags")
    if isinstance(metadata, dict):
        return {str(name): str(value) for name, value in metadata.items()}
    return {name: value for name, _, value in (str(tag).partition("=") for tag in tags or [])}


def _things(wire: Wire, sort: ResourceType, **params: str) -> Iterator[CloudResource]:
    """Each once: neutron begins its list of addresses anew when the marker is gone meanwhile."""
    if not wire.has(sort.service):
        return
    seen = set[str]()
    for raw in wire.listing(sort.service, sort.listing, f"{sort.one}s", **params):
        thing = _thing(sort, raw)
        if thing.id not in seen:
            seen.add(thing.id)
            yield thing


def _asked(wire: Wire, sort: ResourceType, thing_id: str) -> CloudResource | None:
    """The thing of that id; None only for the service's own "not found"."""
    if not wire.has(sort.service):
        raise ForeignAnswer(f"the catalog has no {sort.service} any more")
    try:
        found = wire.get(sort.service, f"{sort.root}/{quote(thing_id, safe='')}").get(sort.one)
    except Refusal as refusal:
        if refusal.status == 404:
            return None
        raise
    thing = _thing(sort, found)
    if thing.id != thing_id:
        raise ForeignAnswer(f"asked for {thing_id}, answered with {thing.id}")
    return thing
