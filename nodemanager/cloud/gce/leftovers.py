"""What a node on Google Compute Engine leaves behind at its end: disks that are not auto-deleted.

Google itself detaches everything from a deleted instance. So this module never detaches anything.

A disk is ours when it has our pool's label and an incarnation, as the create call set them (U5).
Its id here is its path in the project: `zones/ZONE/disks/NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.gce.errors import IN_USE, Refusal
from nodemanager.cloud.gce.instance import Instance
from nodemanager.cloud.gce.labels import label_value, tags_in
from nodemanager.cloud.gce.wire import Wire
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG, on_hold
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome, Tags
from nodemanager.errors import IncompleteListing, LeftAlone

UNUSED = frozenset({"READY", "FAILED"})
_DISK = re.compile(r"(?:.*/)?((?:zones|regions)/[a-z0-9-]+/disks/[a-z0-9-]+)")
_INSTANCE = re.compile(r"(?:.*/)?(zones/[a-z0-9-]+/instances/[a-z0-9-]+)")


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of an answer. `users` are the paths of the instances that it is attached to."""

    id: str
    status: str
    labels: Mapping[str, str]
    users: tuple[str, ...]

    @classmethod
    def of(cls, item: object) -> Disk:
        found: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
        path = _DISK.fullmatch(str(found.get("selfLink")))
        if path is None:
            raise IncompleteListing("disks: an item without a selfLink")
        labels = found.get("labels", {})
        return cls(
            path[1],
            str(found.get("status")),
            # Without readable labels nothing shows that it is ours.
            labels if isinstance(labels, Mapping) else {},
            tuple(str(user) for user in found.get("users", [])),
        )

    @property
    def tags(self) -> Tags:
        return tags_in(self.labels)

    def is_ours(self, pool: str) -> bool:
        return self.tags.pool == pool and bool(self.tags.incarnation)


@dataclass(frozen=True, slots=True)
class GceLeftovers:
    """See nodemanager.cloud.provider.Leftovers; `wire` gives the API on a driver's connection,
    `find_node` an instance by its id, in any zone."""

    pool: str
    wire: Callable[[NodeDriver], Wire]
    find_node: Callable[[NodeDriver, str], Instance | None]

    def pins(self, driver: NodeDriver, node_id: str) -> tuple[Leftover, ...]:
        """The disks of ours that the instance uses and that stay when it ends."""
        node = self.find_node(driver, node_id)
        if node is None:
            return ()
        wire, found = self.wire(driver), []
        for attached in node.item.get("disks", []):
            path = _DISK.fullmatch(str(attached.get("source")))
            if path is None or attached.get("autoDelete") is True:
                continue
            disk = _asked(wire, path[1])
            if disk is not None and disk.is_ours(self.pool) and not on_hold(disk.labels):
                found.append(Leftover(LeftoverKind.VOLUME, disk.id, node_id))
        return tuple(found)

    def find(self, driver: NodeDriver) -> tuple[Leftover, ...]:
        """Unused disks of ours whose incarnation no listed instance has.

        Lists the instances after the disks, so that every disk's instance is listed, too. The
        exception is a very new instance (A1), which the caller must allow for.
        """
        wire = self.wire(driver)
        disks = [Disk.of(item) for item in wire.aggregated("disk", "disks", self._ours)]
        free = [
            disk
            for disk in disks
            if disk.is_ours(self.pool)
            and not disk.users
            and disk.status in UNUSED
            and not on_hold(disk.labels)
        ]
        if not free:
            return ()
        live = {_incarnation_of(node) for node in wire.instances(self._ours)}
        return tuple(
            Leftover(LeftoverKind.VOLUME, disk.id, "")
            for disk in free
            if disk.tags.incarnation not in live
        )

    def release(self, driver: NodeDriver, leftover: Leftover) -> Outcome:
        """Checks the disk and its node before it sends the delete."""
        if leftover.kind is not LeftoverKind.VOLUME or not _DISK.fullmatch(leftover.id):
            # No disk has such an id.
            return Outcome.GONE
        wire = self.wire(driver)
        disk = _asked(wire, leftover.id)
        if disk is None:
            return Outcome.GONE
        what = f"disk {leftover.id}"
        if on_hold(disk.labels):
            raise LeftAlone(f"{what} is held by an operator")
        if leftover.tagged and not disk.is_ours(self.pool):
            raise LeftAlone(f"{what} does not bear the labels of pool {self.pool} any more")
        if disk.status == "DELETING":
            return Outcome.ACCEPTED
        nodes = self._nodes(driver, leftover, disk)
        for user in disk.users:
            if (other := _user(wire, user)) is not None and other.id not in {n.id for n in nodes}:
                raise LeftAlone(f"{what} is used by {other.own_name} ({other.id})")
        states = {_state_of(node) for node in nodes}
        if states == {"STOPPING"}:
            return Outcome.ACCEPTED
        if states:
            raise LeftAlone(f"{what} belongs to a node that is {', '.join(sorted(states))}")
        if disk.users:
            return Outcome.ACCEPTED
        try:
            wire.call("operation", leftover.id, method="DELETE")
        except Refusal as refusal:
            if refusal.is_not_found:
                return Outcome.GONE
            if refusal.code in IN_USE:
                return Outcome.ACCEPTED
            raise
        # Google has begun to delete it; the next question tells whether it is gone.
        return Outcome.ACCEPTED

    @property
    def _ours(self) -> str:
        return f'labels.{POOL_TAG}="{label_value(self.pool)}"'

    def _nodes(self, driver: NodeDriver, leftover: Leftover, disk: Disk) -> list[Instance]:
        """The instances that owned the disk, by id where it is known, else by incarnation.

        Raises LeftAlone where both are unknown.
        """
        if leftover.node_id:
            found = self.find_node(driver, leftover.node_id)
            return [] if found is None else [found]
        incarnation = disk.tags.incarnation
        if not incarnation:
            raise LeftAlone(f"the node of disk {disk.id} is unknown")
        wanted = f'labels.{INCARNATION_TAG}="{label_value(incarnation)}"'
        return self.wire(driver).instances(wanted)


def _asked(wire: Wire, path: str) -> Disk | None:
    """The disk at that path; None only for Google's own "not found"."""
    try:
        return Disk.of(wire.call("disk", path))
    except Refusal as refusal:
        if refusal.is_not_found:
            return None
        raise


def _user(wire: Wire, link: str) -> Instance | None:
    path = _INSTANCE.fullmatch(link)
    if path is None:
        raise LeftAlone(f"a disk is used by {link[:120]}")
    try:
        return Instance.of(wire.call("instance", path[1]))
    except Refusal as refusal:
        if refusal.is_not_found:
            return None
        raise


def _state_of(node: Instance) -> str:
    """Its raw state; an unreadable one is not that of a node that ends (P3)."""
    try:
        return node.state
    except ValueError:
        return "unreadable"


def _incarnation_of(node: Instance) -> str:
    """Its incarnation. Raises IncompleteListing where that can't be read: any disk might then
    belong to this instance."""
    try:
        return tags_in(node.labels).incarnation or ""
    except ValueError as error:
        raise IncompleteListing(f"find leftovers: node {node.id or '?'}: {error}") from error
