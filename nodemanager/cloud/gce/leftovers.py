"""What a node on Google Compute Engine leaves behind at its end: disks that are not auto-deleted.

Google itself detaches everything from a deleted instance. So this module never detaches anything.

A disk is ours when it has our pool's label and an incarnation, as the create call set them (U5).
Its id here is its path in the project: `zones/ZONE/disks/NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from libcloud.compute.base import NodeDriver

from nodemanager.cloud.gce.errors import IN_USE, Refusal
from nodemanager.cloud.gce.instance import Instance, disk_path
from nodemanager.cloud.gce.labels import tags_in
from nodemanager.cloud.gce.wire import Wire
from nodemanager.cloud.leftovers import (
    Calls,
    CloudResource,
    incarnation_of,
    orphans,
    owners,
    release,
    state_of,
)
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG, label_value, tags_for
from nodemanager.core.model.world import Leftover, LeftoverKind, Outcome
from nodemanager.errors import IncompleteListing, LeftAlone

UNUSED = frozenset({"READY", "FAILED"})
"""The states of a disk in which nothing uses it, and Google neither makes nor deletes it."""
_INSTANCE = re.compile(r"(?:.*/)?(zones/[a-z0-9-]+/instances/[a-z0-9-]+)")


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
            path = disk_path(attached.get("source"))
            if path is None or attached.get("autoDelete") is True:
                continue
            disk = _asked(wire, path)
            if disk is not None and disk.is_ours(self.pool) and not disk.held:
                found.append(Leftover(disk.kind, disk.id, node_id))
        return tuple(found)

    def find(self, driver: NodeDriver) -> tuple[Leftover, ...]:
        """Unused disks of ours whose incarnation no listed instance has.

        Lists the instances after the disks, so that every disk's instance is listed, too. The
        exception is a very new instance (A1), which the caller must allow for.
        """
        wire = self.wire(driver)
        disks = [_disk(item) for item in wire.aggregated("disk", "disks", self._ours)]
        free = [disk for disk in disks if disk.is_free(self.pool)]
        if not free:
            return ()
        live = {incarnation_of(node, _incarnation) for node in wire.instances(self._ours)}
        return orphans(free, live)

    def release(self, driver: NodeDriver, leftover: Leftover) -> Outcome:
        """Checks the disk and its node before it sends the delete."""
        if leftover.kind is not LeftoverKind.VOLUME or disk_path(leftover.id) is None:
            # No disk has such an id.
            return Outcome.GONE
        wire = self.wire(driver)
        disk = _asked(wire, leftover.id)
        if disk is None:
            return Outcome.GONE
        of_incarnation = partial(_of_incarnation, wire)
        find_node = partial(self.find_node, driver)
        nodes = cache(partial(owners, leftover, disk, find_node, of_incarnation))

        def others() -> Iterator[str]:
            for user in disk.holders:
                other = _user(wire, user)
                if other is not None and other.id not in {node.id for node in nodes()}:
                    yield f"{other.own_name} ({other.id})"

        def delete() -> Outcome:
            wire.call("operation", leftover.id, method="DELETE")
            # Google has begun to delete it; the next question tells whether it is gone.
            return Outcome.ACCEPTED

        calls = Calls(
            others=others,
            states=lambda: {state_of(node) for node in nodes()},
            stopping="STOPPING",
            delete=delete,
            refused=_refused,
            marks="labels",
        )
        # Google itself refuses to delete one that it still makes.
        return release(leftover, replace(disk, used=bool(disk.holders)), self.pool, calls)

    @property
    def _ours(self) -> str:
        return f'labels.{POOL_TAG}="{label_value(self.pool)}"'


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


def _of_incarnation(wire: Wire, incarnation: str) -> list[Instance]:
    return wire.instances(f'labels.{INCARNATION_TAG}="{label_value(incarnation)}"')


def _incarnation(node: Instance) -> str | None:
    return tags_in(node.labels).incarnation


def _refused(error: Exception) -> Outcome | None:
    if not isinstance(error, Refusal):
        return None
    if error.is_not_found:
        return Outcome.GONE
    return Outcome.ACCEPTED if error.code in IN_USE else None


def _asked(wire: Wire, path: str) -> CloudResource | None:
    """The disk at that path; None only for Google's own "not found"."""
    try:
        return _disk(wire.call("disk", path))
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
