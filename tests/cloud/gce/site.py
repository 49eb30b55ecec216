"""Google for the contract suite: see tests/cloud/site.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nodemanager.cloud.api import CreateOrder
from nodemanager.core.model.world import CloudNode, CloudState, Leftover
from tests.cloud.gce import helpers
from tests.cloud.gce import server as gce_server
from tests.cloud.gce.helpers import ZONE
from tests.cloud.gce.server import changed, refusal
from tests.cloud.site import Answer, CloudSite, Tags, volume_of

DISKS, INSTANCES = "disks.aggregatedList", "instances.aggregatedList"
UNREACHED = {"after": changed(lambda told: told.update(unreachables=["zones/x"]))}
STATES = {
    CloudState.PENDING: "STAGING",
    CloudState.RUNNING: "RUNNING",
    CloudState.STOPPING: "STOPPING",
    CloudState.STOPPED: "TERMINATED",
    CloudState.UNKNOWN: "REPAIRING",
}
"""An instance that was deleted is not listed any more, so none is terminated."""


def no_labels(told: Any) -> None:
    for scope in told["items"].values():
        for one in scope.get("instances", ()):
            one["labels"] = ["x"]


def first(**fields: object) -> Any:
    """The first instance of a list with those fields."""

    def change(told: Any) -> None:
        scope = next(one for one in told["items"].values() if one.get("instances"))
        scope["instances"][0].update(fields)

    return changed(change)


class GceSite(CloudSite):
    show, create, destroy = "instances.get", "instances.insert", "instances.delete"
    deletes = ("disks.delete",)
    listings = (DISKS, INSTANCES)
    operation, image = "zoneOperations.get", "images.get"
    failed = staticmethod(refusal("backendError", 503))
    throttled = staticmethod(refusal("rateLimitExceeded", 403, retry_after="7"))
    forbidden = staticmethod(refusal("forbidden", 403))
    gone = staticmethod(refusal("notFound", 404))
    in_use = (refusal("resourceInUseByAnotherResource", 400),)
    unlisted = (
        (DISKS, UNREACHED),
        (INSTANCES, UNREACHED),
        (DISKS, {"after": changed(lambda told: told.pop("items"))}),
    )
    no_owner = (INSTANCES, {"after": changed(no_labels)})
    odd_fields = (
        (first(creationTimestamp="x"), "launch time"),
        (first(status=None), "state"),
        (first(machineType=7), "size"),
        (first(labels=["x"]), "tags"),
        (first(networkInterfaces="x"), "addresses"),
    )
    nameless = tuple(first(id=odd) for odd in (None, "", "no-number", {}, []))
    unknown_id = "1234567890123456789"
    places = (ZONE, "us-central1-b")

    def __init__(self) -> None:
        server = gce_server.shared()
        server.reset()
        super().__init__(server, partial(helpers.cloud, server, page_size=2))
        self.project = server.project

    def order(self) -> CreateOrder:
        return helpers.order()

    def said(self, text: str) -> Answer:
        return refusal("invalid", 400, text)

    def states(self) -> Mapping[CloudState, Callable[[str], object]]:
        return {
            state: lambda node_id, word=word: self.project.put(node_id, word)
            for state, word in STATES.items()
        }

    def add_volume(self, node: CloudNode, tags: Tags) -> str:
        return helpers.add_disk(self.server, node, tags)

    def pin(self, node: CloudNode, tags: Tags) -> list[Leftover]:
        return [volume_of(self.add_volume(node, tags), node)]

    def set_tags(self, volume: str, tags: Tags) -> None:
        self._disk(volume).update(labels=dict(tags))

    def detach(self, volume: str, node_id: str) -> None:
        self._disk(volume).update(users=[])

    def attach(self, volume: str, node_id: str) -> None:
        self.project.attach(ZONE, node_id, {"source": self.project.link(volume)})
        self.project.settle()

    def by_hand(self) -> str:
        return helpers.by_hand(self.server)

    def fill(self, place: str) -> None:
        self.project.next_fails.append(("ZONE_RESOURCE_POOL_EXHAUSTED", "no room"))

    def end(self, node_id: str) -> None:
        super().end(node_id)
        self.project.settle()

    def slow(self) -> None:
        self.project.takes = 1000.0

    def due(self) -> None:
        for one in self.project.pending:
            one.due = 0.0

    def forget_requests(self) -> None:
        self.project._requests.clear()

    def _disk(self, path: str) -> dict[str, Any]:
        return self.project.disks[ZONE, path.rpartition("/")[2]]
