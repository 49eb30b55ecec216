"""What an OpenStack server leaves behind at its end: ports, volumes, floating addresses (D4).

Nova itself deletes the ports that it made for a server, gives other ports back to their owner, and
detaches volumes. So this module never detaches anything.

A thing is ours if it bears our pool and an incarnation: a volume in its metadata, a port or an
address in neutron's tags, as `nodemanager-pool=POOL`. The ports that nova makes bear nothing. They
are ours if they are still bound to a server of ours that no longer exists: nova takes its mark off
those that it did not make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.leftovers import Calls, CloudResource, orphans, owners, release
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


@dataclass(frozen=True, slots=True)
class OpenStackLeftovers:
    """See nodemanager.cloud.provider.Leftovers; `wire` gives a driver's connections."""

    pool: str
    wire: Callable[[NodeDriver], Wire]

    def pins(self, driver: NodeDriver, node_id: str) -> tuple[Leftover, ...]:
        """The things of ours that the server uses, and the ports that nova made for it.

        Nova deletes its ports with the server. One that it has deleted will be found gone at its
        release, and one that it forgot is then deleted.
        """
        wire = self.wire(driver)
        server = wire.server(node_id)
        if server is None or server.metadata.get(POOL_TAG) != self.pool:
            return ()
        ports = [
            port
            for port in _things(wire, BY_KIND[LeftoverKind.INTERFACE], device_id=node_id)
            if node_id in port.holders
        ]
        found = [*ports]
        for volume_id in server.volumes:
            volume = _asked(wire, BY_KIND[LeftoverKind.VOLUME], volume_id)
            found += [] if volume is None else [volume]
        for port in ports:
            addresses = _things(wire, BY_KIND[LeftoverKind.ADDRESS], port_id=port.id)
            found += [address for address in addresses if port.id in address.holders]
        return tuple(
            Leftover(thing.kind, thing.id, node_id, tagged=thing.is_ours(self.pool))
            for thing in found
            if (thing.is_ours(self.pool) or thing.made_with_node) and not thing.held
        )

    def find(self, driver: NodeDriver) -> tuple[Leftover, ...]:
        """Unused things of ours whose server is not listed; what nova made can't be told here.

        Lists the servers after the things, so that every thing's server is listed, too. The
        exception is a very new server (A1), which the caller must allow for.
        """
        wire = self.wire(driver)
        free = [
            thing for sort in SORTS for thing in _things(wire, sort) if thing.is_free(self.pool)
        ]
        return orphans(free, _incarnations(wire.servers()) if free else ())

    def release(self, driver: NodeDriver, leftover: Leftover) -> Outcome:
        """Checks the thing and its server before it sends the delete."""
        wire, sort = self.wire(driver), BY_KIND[leftover.kind]
        thing = _asked(wire, sort, leftover.id)
        if thing is None:
            return Outcome.GONE

        def delete() -> Outcome:
            wire.delete(sort.service, f"{sort.root}/{quote(leftover.id, safe='')}")
            # The next question tells whether it is gone.
            return Outcome.ACCEPTED

        calls = Calls(
            others=partial(_others, leftover, thing),
            states=partial(_node_states, wire, leftover, thing),
            stopping=CloudState.STOPPING,
            delete=delete,
            refused=partial(_refused, thing),
        )
        # What nova made is deleted while it is bound to its server: afterwards nothing shows that
        # it is ours.
        return release(
            leftover, replace(thing, used=thing.used and leftover.tagged), self.pool, calls
        )


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


def _others(leftover: Leftover, thing: CloudResource) -> frozenset[str]:
    """The other servers that use it. Raises LeftAlone for a port that nova did not make."""
    if not leftover.tagged and thing.holders != {leftover.node_id}:
        raise LeftAlone(f"{thing.what} is not bound to its server any more: nova did not make it")
    # The holder of an address is a port, which goes before it.
    is_address = thing.kind is LeftoverKind.ADDRESS
    return frozenset() if is_address else thing.holders - {leftover.node_id}


def _node_states(wire: Wire, leftover: Leftover, thing: CloudResource) -> set[CloudState]:
    """The states of the servers that owned the thing; empty where there is none any more."""

    def of_incarnation(incarnation: str) -> list[Server]:
        listed = _readable(wire.servers())
        return [one for one in listed if one.metadata.get(INCARNATION_TAG) == incarnation]

    try:
        found = owners(leftover, thing, wire.server, of_incarnation)
    except MalformedId as error:
        raise LeftAlone(f"{thing.what}: {error}") from error
    return {STATES.get(one.state, CloudState.UNKNOWN) for one in found} - {CloudState.TERMINATED}


def _refused(thing: CloudResource, error: Exception) -> Outcome | None:
    """See Calls.refused. Raises LeftAlone for a port that is nova's to delete."""
    if not isinstance(error, Refusal):
        return None
    if error.status == 404:
        return Outcome.GONE
    if thing.made_with_node and BY_POLICY in error.message:
        why = "neutron lets only administrators delete a port that nova made"
        raise LeftAlone(f"{thing.what}: {why}: {error}") from error
    return Outcome.ACCEPTED if error.status in (400, 409) else None


def _incarnations(servers: list[Any]) -> set[str]:
    listed = _readable(servers)
    return {one.metadata.get(INCARNATION_TAG, "") for one in listed if one.state != "DELETED"}


def _readable(servers: list[Any]) -> list[Server]:
    """Raises IncompleteListing where one is unreadable: any thing might belong to that one."""
    if any(server is None for server in servers):
        raise IncompleteListing("an item of the servers is none")
    return servers
