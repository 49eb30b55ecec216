"""What an EC2 node leaves behind at its end: volumes, network interfaces, Elastic IPs (D4).

EC2 itself detaches everything from a terminated instance. So this module never detaches anything
and needs no permission for it: it leaves a resource alone as long as anything uses it.

A resource is ours when it has our pool's tag and an incarnation, as the create call set them
(U5). The pool's tag alone is not enough: an operator may put it on a volume of their own to count
its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.ec2.errors import Refusal
from nodemanager.cloud.ec2.instance import Instance, tags_in
from nodemanager.cloud.ec2.order import filter_params, literal
from nodemanager.cloud.ec2.wire import Wire
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG, on_hold
from nodemanager.cloud.words import words
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.errors import ForeignAnswer, IncompleteListing, LeftAlone

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
class Sort:
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
    Sort(
        LeftoverKind.INTERFACE,
        describe="DescribeNetworkInterfaces",
        items="networkInterfaceSet",
        id_name="NetworkInterfaceId",
        of_node="attachment.instance-id",
        missing="InvalidNetworkInterfaceID.NotFound",
        release="DeleteNetworkInterface",
    ),
    Sort(
        LeftoverKind.VOLUME,
        describe="DescribeVolumes",
        items="volumeSet",
        id_name="VolumeId",
        of_node="attachment.instance-id",
        missing="InvalidVolume.NotFound",
        release="DeleteVolume",
    ),
    Sort(
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


@dataclass(frozen=True, slots=True)
class Thing:
    """A volume, interface or address from an EC2 answer.

    `holders` are the instances that use it; `used` is True when anything uses it. `stays` is
    False only where EC2 says that it is deleted with the instance.
    """

    sort: Sort
    id: str
    status: str
    tags: Mapping[str, str]
    holders: frozenset[str]
    used: bool
    stays: bool

    @classmethod
    def of(cls, sort: Sort, item: Element, namespace: str) -> Thing:
        def texts(*path: str) -> list[str]:
            found = item.iterfind("/".join(f"{{{namespace}}}{step}" for step in path))
            return [text for element in found if (text := (element.text or "").strip())]

        id_field = sort.id_name[0].lower() + sort.id_name[1:]
        found = texts(id_field)
        if len(found) != 1:
            raise IncompleteListing(f"{sort.describe}: an item without a {id_field}")
        try:
            tags = tags_in(item, namespace)
        except ValueError:
            # Without readable tags nothing shows that it is ours.
            tags = {}
        status = "".join(texts("status"))
        if sort.kind is LeftoverKind.ADDRESS:
            holders = texts("instanceId")
            uses = holders + texts("networkInterfaceId") + texts("associationId")
            flags: list[str] = []
        else:
            place = (
                ("attachmentSet", "item") if sort.kind is LeftoverKind.VOLUME else ("attachment",)
            )
            holders = texts(*place, "instanceId")
            uses = [state for state in texts(*place, "status") if state != "detached"]
            uses += [] if status in UNUSED else [status]
            flags = texts(*place, "deleteOnTermination")
        return cls(
            sort=sort,
            id=found[0],
            status=status,
            tags=tags,
            holders=frozenset(holders),
            used=bool(uses),
            stays=not flags or any(flag != "true" for flag in flags),
        )

    def is_ours(self, pool: str) -> bool:
        return self.tags.get(POOL_TAG) == pool and bool(self.tags.get(INCARNATION_TAG))


@dataclass(frozen=True, slots=True)
class Ec2Leftovers:
    """See nodemanager.cloud.provider.Leftovers; `wire` gives EC2's API on a driver's connection."""

    pool: str
    wire: Callable[[NodeDriver], Wire]

    def pins(self, driver: NodeDriver, node_id: str) -> tuple[Leftover, ...]:
        """The resources of ours that the instance uses and that stay when it ends.

        The deleteOnTermination flag may change later. A resource that is deleted with the node
        after all will be found gone at its release.
        """
        wire, found = self.wire(driver), []
        for sort in SORTS:
            wanted = {sort.of_node: node_id, f"tag:{POOL_TAG}": literal(self.pool)}
            for thing in _things(wire, sort, filter_params(wanted)):
                pinned = node_id in thing.holders and thing.stays and not on_hold(thing.tags)
                if pinned and thing.is_ours(self.pool):
                    found.append(Leftover(sort.kind, thing.id, node_id))
        return tuple(found)

    def find(self, driver: NodeDriver) -> tuple[Leftover, ...]:
        """Unused resources of ours whose instance is terminated or not listed.

        Lists the instances after the resources, so that every resource's instance is listed, too.
        The exception is a very new instance (A1), which the caller must allow for.
        """
        wire, ours = self.wire(driver), filter_params({f"tag:{POOL_TAG}": literal(self.pool)})
        free = [
            thing
            for sort in SORTS
            for thing in _things(wire, sort, ours)
            if thing.is_ours(self.pool)
            and not thing.used
            and thing.status not in ENDING
            and not on_hold(thing.tags)
        ]
        if not free:
            return ()
        live: set[str] = set()
        ended: dict[str, str] = {}
        for instance in wire.instances(ours):
            incarnation = _incarnation_of(instance)
            if _state_of(instance) == "terminated":
                ended[incarnation] = instance.id
            else:
                live.add(incarnation)
        return tuple(
            Leftover(thing.sort.kind, thing.id, ended.get(thing.tags[INCARNATION_TAG], ""))
            for thing in free
            if thing.tags[INCARNATION_TAG] not in live
        )

    def release(self, driver: NodeDriver, leftover: Leftover) -> Outcome:
        """Checks the resource and its node before it sends the delete."""
        wire, sort = self.wire(driver), BY_KIND[leftover.kind]
        thing = _asked(wire, sort, leftover.id)
        if thing is None or thing.status == "deleted":
            return Outcome.GONE
        what = f"{leftover.kind} {leftover.id}"
        if on_hold(thing.tags):
            raise LeftAlone(f"{what} is held by an operator")
        if leftover.tagged and not thing.is_ours(self.pool):
            raise LeftAlone(f"{what} does not bear the tags of pool {self.pool} any more")
        if others := thing.holders - {leftover.node_id}:
            raise LeftAlone(f"{what} is used by {', '.join(sorted(others))}")
        if thing.status in ENDING:
            return Outcome.ACCEPTED
        states = {_state_of(node) for node in _nodes(wire, leftover.node_id, thing)}
        states -= {"terminated"}
        if states == {"shutting-down"}:
            return Outcome.ACCEPTED
        if states:
            raise LeftAlone(f"{what} belongs to a node that is {', '.join(sorted(states))}")
        if thing.used:
            return Outcome.ACCEPTED
        try:
            wire.call(sort.release, {sort.id_name: leftover.id})
        except Refusal as refusal:
            if refusal.code == sort.missing:
                return Outcome.GONE
            if refusal.code in IN_USE:
                return Outcome.ACCEPTED
            raise
        # EC2 has accepted the delete; the next query tells whether it is gone.
        return Outcome.ACCEPTED


def _things(wire: Wire, sort: Sort, params: Mapping[str, str]) -> Iterable[Thing]:
    for item in wire.listing(sort.describe, sort.items, params, paged=sort.paged):
        yield Thing.of(sort, item, wire.namespace)


def _asked(wire: Wire, sort: Sort, thing_id: str) -> Thing | None:
    """The resource of that id; None only for EC2's own "not found"."""
    asked = {f"{sort.id_name}.1": thing_id}
    try:
        items = list(wire.listing(sort.describe, sort.items, asked, paged=False))
    except Refusal as refusal:
        if refusal.code == sort.missing:
            return None
        raise
    found = [Thing.of(sort, item, wire.namespace) for item in items]
    if [thing.id for thing in found] != [thing_id]:
        raise ForeignAnswer(f"asked for {thing_id}, answered with {len(found)} other things")
    return found[0]


def _nodes(wire: Wire, node_id: str, thing: Thing) -> list[Instance]:
    """The instances that owned the resource, by id where it is known, else by incarnation.

    Neither query filters by pool or state. Raises LeftAlone where both are unknown.
    """
    if node_id:
        found = wire.instance(node_id)
        return [] if found is None else [found]
    incarnation = thing.tags.get(INCARNATION_TAG)
    if not incarnation:
        raise LeftAlone(f"the node of {thing.sort.kind} {thing.id} is unknown")
    return wire.instances(filter_params({f"tag:{INCARNATION_TAG}": literal(incarnation)}))


def _state_of(instance: Instance) -> str:
    """Its raw state; an unreadable one does not count as terminated (P3)."""
    try:
        return instance.state
    except ValueError:
        return "unreadable"


def _incarnation_of(instance: Instance) -> str:
    """Its incarnation tag. Raises IncompleteListing where that can't be read: any resource
    might then belong to this instance."""
    try:
        return instance.tags.get(INCARNATION_TAG, "")
    except ValueError as error:
        raise IncompleteListing(f"find leftovers: node {instance.id or '?'}: {error}") from error
