"""Azure for the contract suite: see tests/cloud/site.py."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nodemanager.cloud.api import CreateOrder
from nodemanager.core.model.world import CloudNode, CloudState, Leftover, LeftoverKind
from tests.cloud.azure import helpers
from tests.cloud.azure import server as azure_server
from tests.cloud.azure.server import changed, refusal
from tests.cloud.azure.world import DISKS, HOME
from tests.cloud.site import Answer, CloudSite, Tags

KINDS = ("disks", "networkInterfaces", "publicIPAddresses")
MACHINES = "virtualMachines.list"
VALUELESS = {"after": changed(lambda told: told.pop("value"))}
STATES = {
    CloudState.PENDING: ("Creating", None),
    CloudState.RUNNING: ("Succeeded", "PowerState/running"),
    CloudState.STOPPING: ("Deleting", "PowerState/running"),
    CloudState.STOPPED: ("Succeeded", "PowerState/deallocated"),
    CloudState.UNKNOWN: ("Succeeded", "PowerState/unknown"),
}
"""A machine that was deleted is not known any more, so none is terminated."""


def first(change: Callable[[Any], object]) -> Any:
    """A list whose first item is changed."""
    return changed(lambda told: change(told["value"][0]))


def added(item: object) -> Any:
    """A list that begins with another item, in place of its first."""
    return changed(lambda told: told["value"].__setitem__(0, item))


class AzureSite(CloudSite):
    show, create = "virtualMachines.get", "virtualMachines.put"
    destroy = "virtualMachines.delete"
    deletes = tuple(f"{kind}.delete" for kind in KINDS)
    listings = (*(f"{kind}.list" for kind in KINDS), MACHINES)
    operation, image = "operations.get", "images.market"
    failed = staticmethod(refusal("InternalServerError", 500))
    throttled = staticmethod(refusal("TooManyRequests", 429, retry_after="7"))
    forbidden = staticmethod(refusal("AuthorizationFailed", 403))
    gone = staticmethod(refusal("ResourceNotFound", 404))
    in_use = (refusal("OperationNotAllowed", 409), refusal("AnotherOperationInProgress", 409))
    unlisted = (
        *((f"{kind}.list", VALUELESS) for kind in KINDS),
        (MACHINES, VALUELESS),
        ("disks.list", {"after": changed(lambda told: told["value"][0].pop("id"))}),
        (MACHINES, {"before": refusal("ResourceGroupNotFound", 404)}),
    )
    no_owner = (MACHINES, {"after": changed(lambda told: told["value"][0].update(tags=["x"]))})
    odd_fields = (
        (first(lambda one: one.update(tags=["x"])), "tags"),
        (first(lambda one: one["properties"].pop("timeCreated")), "launch time"),
        (first(lambda one: one["properties"].pop("hardwareProfile")), "size"),
        (first(lambda one: one["properties"].pop("provisioningState")), "state"),
    )
    nameless = (
        first(lambda one: one["properties"].pop("vmId")),
        first(lambda one: one.pop("properties")),
        added(None),
        added("x"),
    )
    unknown_id = "6695eb01-0000-4000-8000-97f2502e193f"
    places = ("1", "2")

    def __init__(self) -> None:
        server = azure_server.shared()
        server.reset()
        server.page_limit = 2
        super().__init__(server, partial(helpers.cloud, server))
        self.world = server.world

    def order(self) -> CreateOrder:
        return helpers.order()

    def said(self, text: str) -> Answer:
        return refusal("InvalidParameter", 400, text)

    def states(self) -> Mapping[CloudState, Callable[[str], object]]:
        return {
            state: lambda node_id, how=how: self.world.put(node_id, *how)
            for state, how in STATES.items()
        }

    def add_volume(self, node: CloudNode, tags: Tags) -> str:
        path = f"{HOME}/providers/{DISKS}/{secrets.token_hex(4)}".lower()
        disk = {"lun": 7, "managedDisk": {"id": path}, "createOption": "Attach"}
        with self.server.held():
            machine = self.world.machine(node.id)
            self.world.add_disk(path, tags, machine["id"])
            disks = machine["properties"]["storageProfile"]["dataDisks"]
            disks.append({**disk, "deleteOption": "Detach"})
        return path

    def pin(self, node: CloudNode, tags: Tags) -> list[Leftover]:
        made = helpers.attach(self.server, node, tags)
        found = [Leftover(kind, path, node.id) for kind, path in made]
        return sorted(found, key=lambda one: one.kind is not LeftoverKind.VOLUME)

    def set_tags(self, volume: str, tags: Tags) -> None:
        self.world.get(volume)["tags"] = dict(tags)

    def detach(self, volume: str, node_id: str) -> None:
        with self.server.held():
            disk = self.world.get(volume)
            disk.pop("managedBy", None)
            disk["properties"]["diskState"] = "Unattached"
            about = self.world.machine(node_id)["properties"]["storageProfile"]
            about["dataDisks"] = [
                one for one in about["dataDisks"] if one["managedDisk"]["id"] != volume
            ]

    def attach(self, volume: str, node_id: str) -> None:
        with self.server.held():
            disk = self.world.get(volume)
            disk["managedBy"] = self.world.machine(node_id)["id"]
            disk["properties"]["diskState"] = "Attached"

    def by_hand(self) -> str:
        return helpers.by_hand(self.server)

    def fill(self, place: str) -> None:
        self.world.create_fails.append(("ZonalAllocationFailed", "no room"))

    def slow(self) -> None:
        self.world.takes = 1000.0

    def due(self) -> None:
        for one in self.world.operations.values():
            one.due = 0.0

    def forget_requests(self) -> None:
        """Azure keeps none: a create is the same if its name is."""
