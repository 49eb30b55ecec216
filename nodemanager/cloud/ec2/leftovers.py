"""What an EC2 node leaves behind at its end: volumes, network interfaces, Elastic IPs (D4).

EC2 itself detaches everything from a terminated instance. So this module never detaches anything
and needs no permission for it: it leaves a resource alone as long as anything uses it.

A resource is ours when it has our pool's tag and an incarnation, as the create call set them
(U5). The pool's tag alone is not enough: an operator may put it on a volume of their own to count
its cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from xml.etree.ElementTree import Element

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.ec2.errors import Refusal
from nodemanager.cloud.ec2.order import filter_params, literal
from nodemanager.cloud.ec2.wire import Instance, Wire, tags_in
from nodemanager.cloud.leftovers import CloudResource, PoolLeftovers
from nodemanager.cloud.refusal import words
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.errors import ForeignAnswer, IncompleteListing

IN_USE = words(
    """
    DependencyViolation IncorrectState InvalidIPAddress.InUse InvalidNetworkInterface.InUse
    VolumeInUse
    """
)
"""Errors for a resource that came into use after we checked it. For an interface EC2 sends
InvalidParameterValue, which has too many other meanings: that counts as a failed attempt."""

UNUSED = frozenset({"available", "error", "deleting", "deleted"})
"""The states of a volume or an interface in which nothing uses it."""
ENDING = frozenset({"deleting", "deleted"})


@dataclass(frozen=True, slots=True)
class ResourceType:
    """EC2's names for one kind of resource. `paged`: its Describe call takes MaxResults.

    `id_name` is a parameter; answers begin the same name with a small letter.
    """

    kind: LeftoverKind
    describe: str
    items: str
    id_name: str
    of_node: str
    missing: str
    release: str
    paged: bool = True


SORTS = (
    ResourceType(
        LeftoverKind.INTERFACE,
        describe="DescribeNetworkInterfaces",
        items="networkInterfaceSet",
        id_name="NetworkInterfaceId",
        of_node="attachment.instance-id",
        missing="InvalidNetworkInterfaceID.NotFound",
        release="DeleteNetworkInterface",
    ),
    ResourceType(
        LeftoverKind.VOLUME,
        describe="DescribeVolumes",
        items="volumeSet",
        id_name="VolumeId",
        of_node="attachment.instance-id",
        missing="InvalidVolume.NotFound",
        release="DeleteVolume",
    ),
    ResourceType(
        LeftoverKind.ADDRESS,
        describe="DescribeAddresses",
        items="addressesSet",
        id_name="AllocationId",
        of_node="instance-id",
        missing="InvalidAllocationID.NotFound",
        release="ReleaseAddress",
        paged=False,
    ),
)
BY_KIND = {sort.kind: sort for sort in SORTS}


class Ec2Leftovers(PoolLeftovers[Wire, Instance]):
    STOPPING = "shutting-down"
    ENDED = "terminated"

    def pinned(self, driver: NodeDriver, node_id: str) -> Iterator[CloudResource]:
        """The deleteOnTermination flag may change later. A resource that is deleted with the node
        after all will be found gone at its release."""
        wire = self.wire(driver)
        for sort in SORTS:
            wanted = {sort.of_node: node_id, f"tag:{POOL_TAG}": literal(self.pool)}
            for thing in _things(wire, sort, filter_params(wanted)):
                if node_id in thing.holders and thing.stays:
                    yield thing

    def things(self, wire: Wire) -> Iterator[CloudResource]:
        for sort in SORTS:
            yield from _things(wire, sort, _tagged(POOL_TAG, self.pool))

    def nodes(self, wire: Wire, incarnation: str | None = None) -> list[Instance]:
        if incarnation is not None:
            return wire.instances(_tagged(INCARNATION_TAG, incarnation))
        return wire.instances(_tagged(POOL_TAG, self.pool))

    def incarnation(self, node: Instance) -> str | None:
        return node.tags.get(INCARNATION_TAG)

    def asked(self, wire: Wire, leftover: Leftover) -> CloudResource | None:
        return _asked(wire, BY_KIND[leftover.kind], leftover.id)

    def delete(self, wire: Wire, thing: CloudResource) -> None:
        sort = BY_KIND[thing.kind]
        wire.call(sort.release, {sort.id_name: thing.id})

    def refused(self, thing: CloudResource, error: Exception) -> Outcome | None:
        if not isinstance(error, Refusal):
            return None
        if error.code == BY_KIND[thing.kind].missing:
            return Outcome.GONE
        return Outcome.ACCEPTED if error.code in IN_USE else None


def _tagged(name: str, value: str) -> dict[str, str]:
    return filter_params({f"tag:{name}": literal(value)})


def _thing(sort: ResourceType, item: Element, namespace: str) -> CloudResource:
    """The resource of an item; raises IncompleteListing for one without an id."""
    id_field = sort.id_name[0].lower() + sort.id_name[1:]
    found = _texts(item, namespace, id_field)
    if len(found) != 1:
        raise IncompleteListing(f"{sort.describe}: an item without a {id_field}")
    try:
        tags = tags_in(item, namespace)
    except ValueError:
        tags = {}
    status = "".join(_texts(item, namespace, "status"))
    if sort.kind is LeftoverKind.ADDRESS:
        holders = _texts(item, namespace, "instanceId")
        uses = [
            *holders,
            *_texts(item, namespace, "networkInterfaceId"),
            *_texts(item, namespace, "associationId"),
        ]
        flags: list[str] = []
    else:
        place = ("attachmentSet", "item") if sort.kind is LeftoverKind.VOLUME else ("attachment",)
        texts = partial(_texts, item, namespace, *place)
        holders = texts("instanceId")
        uses = [state for state in texts("status") if state != "detached"]
        uses += [] if status in UNUSED else [status]
        flags = texts("deleteOnTermination")
    return CloudResource(
        sort.kind,
        found[0],
        tags,
        frozenset(holders),
        used=bool(uses),
        ending=status in ENDING,
        stays=not flags or any(flag != "true" for flag in flags),
    )


def _texts(item: Element, namespace: str, *path: str) -> list[str]:
    """The texts under that path, without the empty ones."""
    found = item.iterfind("/".join(f"{{{namespace}}}{step}" for step in path))
    return [text for element in found if (text := (element.text or "").strip())]


def _things(wire: Wire, sort: ResourceType, params: Mapping[str, str]) -> Iterator[CloudResource]:
    for item in wire.listing(sort.describe, sort.items, params, paged=sort.paged):
        yield _thing(sort, item, wire.namespace)


def _asked(wire: Wire, sort: ResourceType, thing_id: str) -> CloudResource | None:
    """The resource of that id; None only for EC2's own "not found" or "deleted"."""
    asked = {f"{sort.id_name}.1": thing_id}
    try:
        items = list(wire.listing(sort.describe, sort.items, asked, paged=False))
    except Refusal as refusal:
        if refusal.code == sort.missing:
            return None
        raise
    found = [_thing(sort, item, wire.namespace) for item in items]
    if [thing.id for thing in found] != [thing_id]:
        raise ForeignAnswer(f"asked for {thing_id}, answered with {len(found)} other things")
    return None if _texts(items[0], wire.namespace, "status") == ["deleted"] else found[0]
