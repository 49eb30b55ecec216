"""What a node on Google Compute Engine leaves behind at its end: disks that are not auto-deleted.

Google itself detaches everything from a deleted instance. So this module never detaches anything.

A disk is ours when it has our pool's label and an incarnation, as the create call set them (U5).
Its id here is its path in the project: `zones/ZONE/disks/NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.gce.errors import IN_USE
from nodemanager.cloud.gce.instance import Instance, disk_path, tags_in
from nodemanager.cloud.gce.wire import Wire
from nodemanager.cloud.leftovers import CloudResource, PoolLeftovers
from nodemanager.cloud.refusal import unless_missing
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG, label_value, tags_for
from nodemanager.core.model.world import Leftover, LeftoverKind
from nodemanager.errors import IncompleteListing, LeftAlone

UNUSED = frozenset({"READY", "FAILED"})
"""The states of a disk in which nothing uses it, and Google neither makes nor deletes it."""
_INSTANCE = re.compile(r"(?:.*/)?(zones/[a-z0-9-]+/instances/[a-z0-9-]+)")


class GceLeftovers(PoolLeftovers[Wire, Instance]):
    """`node` gives an instance in any zone."""

    STOPPING = "STOPPING"
    MARKS = "labels"
    IN_USE = IN_USE

    def pinned(self, driver: NodeDriver, node_id: str) -> Iterator[CloudResource]:
        node, wire = self.node(driver, node_id), self.wire(driver)
        for attached in node.item.get("disks", []) if node else []:
            path = disk_path(attached.get("source"))
            if path is not None and attached.get("autoDelete") is not True:
                disk = _asked(wire, path)
                if disk is not None:
                    yield disk

    def things(self, wire: Wire) -> Iterator[CloudResource]:
        return map(_disk, wire.aggregated("disk", "disks", _labelled(POOL_TAG, self.pool)))

    def nodes(self, wire: Wire, incarnation: str | None = None) -> list[Instance]:
        if incarnation is not None:
            return wire.instances(_labelled(INCARNATION_TAG, incarnation))
        return wire.instances(_labelled(POOL_TAG, self.pool))

    def incarnation(self, node: Instance) -> str | None:
        return tags_in(node.labels).incarnation

    def asked(self, wire: Wire, leftover: Leftover) -> CloudResource | None:
        if leftover.kind is not LeftoverKind.VOLUME or disk_path(leftover.id) is None:
            # No disk has such an id.
            return None
        return _asked(wire, leftover.id)

    def others(
        self,
        wire: Wire,
        leftover: Leftover,
        thing: CloudResource,
        owners: Callable[[], list[Instance]],
    ) -> Iterator[str]:
        for user in thing.holders:
            other = _user(wire, user)
            if other is not None and other.id not in {node.id for node in owners()}:
                yield f"{other.own_name} ({other.id})"

    def is_used(self, leftover: Leftover, thing: CloudResource) -> bool:
        # Google itself refuses to delete one that it still makes.
        return bool(thing.holders)

    def delete(self, wire: Wire, thing: CloudResource) -> None:
        wire.call("operation", thing.id, method="DELETE")


def _labelled(name: str, value: str) -> str:
    """Google's filter for what bears that label of ours."""
    return f'labels.{name}="{label_value(value)}"'


def _disk(item: object) -> CloudResource:
    """The disk of an item. Its holders are the paths of the instances that it is attached to.

    Raises IncompleteListing for an item without a path.
    """
    found: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
    path = disk_path(found.get("selfLink"))
    if path is None:
        raise IncompleteListing("disks: an item without a selfLink")
    labels, status = found.get("labels", {}), str(found.get("status"))
    labels = labels if isinstance(labels, Mapping) else {}
    users = frozenset(str(user) for user in found.get("users", []))
    return CloudResource(
        LeftoverKind.VOLUME,
        path,
        {**labels, **tags_for(tags_in(labels))},
        users,
        used=bool(users) or status not in UNUSED,
        ending=status == "DELETING",
    )


def _asked(wire: Wire, path: str) -> CloudResource | None:
    """The disk at that path; None only for Google's own "not found"."""
    return unless_missing(lambda: _disk(wire.call("disk", path)))


def _user(wire: Wire, link: str) -> Instance | None:
    path = _INSTANCE.fullmatch(link)
    if path is None:
        raise LeftAlone(f"a disk is used by {link[:120]}")
    return unless_missing(lambda: Instance.of(wire.call("instance", path[1])))
