"""OpenStack for the contract suite: see tests/cloud/site.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nodemanager.cloud.api import CreateOrder
from nodemanager.core.model.world import CloudNode, CloudState, Leftover, LeftoverKind
from tests.cloud.openstack import helpers
from tests.cloud.openstack import server as openstack_server
from tests.cloud.openstack.server import changed, plain, refusal
from tests.cloud.openstack.things import ADDRESS, PORT, VOLUME
from tests.cloud.site import Answer, CloudSite, Tags, volume_of

SERVERS, VOLUMES = "compute GET /servers/detail", "volume GET /volumes/detail"
PORTS, ADDRESSES = "network GET /ports", "network GET /floatingips"
EMPTY = {"after": changed(lambda body: {})}
STATES = {
    CloudState.PENDING: "BUILD",
    CloudState.RUNNING: "ACTIVE",
    CloudState.STOPPING: "SOFT_DELETED",
    CloudState.STOPPED: "SHUTOFF",
    CloudState.UNKNOWN: "UNKNOWN",
}
"""A server that was deleted is not known any more, so none is terminated."""


def no_tags(body: Any) -> Any:
    return {"servers": [{**one, "metadata": ["x"]} for one in body["servers"]]}


def first(**fields: object) -> Any:
    """A list whose first server has those fields."""

    def change(body: Any) -> Any:
        servers = body["servers"]
        return {"servers": [{**one, **fields} for one in servers[:1]] + servers[1:]}

    return changed(change)


class OpenStackSite(CloudSite):
    show, create = "compute GET /servers/{id}", "compute POST /servers"
    destroy = "compute DELETE /servers/{id}"
    deletes = (
        "volume DELETE /volumes/{id}",
        "network DELETE /ports/{id}",
        "network DELETE /floatingips/{id}",
    )
    listings = (VOLUMES, PORTS, ADDRESSES, SERVERS)
    image = "image GET /images/{id}"
    failed = staticmethod(refusal(500, "Unexpected API Error."))
    throttled = staticmethod(refusal(429, "slow", "7"))
    forbidden = staticmethod(refusal(403, "Policy doesn't allow it to be performed."))
    gone = staticmethod(refusal(404, "Volume could not be found."))
    in_use = (refusal(400, "Invalid volume"), refusal(409, "conflict"))
    unlisted = (
        *((one, EMPTY) for one in listings),
        (PORTS, {"after": changed(lambda body: {"ports": [{}]})}),
        (PORTS, {"before": plain(404, "<h1>nginx</h1>")}),
    )
    no_owner = (SERVERS, {"after": changed(no_tags)})
    odd_fields = (
        (first(metadata="odd"), "tags"),
        (first(created="yesterday"), "launch time"),
        (first(flavor=None), "size"),
        (first(addresses=None), "addresses"),
    )
    nameless = (first(id=None),)
    unknown_id = "6695eb01-0000-4000-8000-97f2502e193f"
    places = ("nova", "az-2")
    plain = staticmethod(plain)

    def __init__(self) -> None:
        server = openstack_server.shared()
        server.reset()
        server.nova.max_limit = server.things.max_limit = 2
        super().__init__(server, partial(helpers.cloud, server))
        self.nova, self.things = server.nova, server.things

    def order(self) -> CreateOrder:
        return helpers.order()

    def said(self, text: str) -> Answer:
        return refusal(400, text)

    def states(self) -> Mapping[CloudState, Callable[[str], object]]:
        return {
            state: lambda node_id, word=word: self.nova.put(node_id, word)
            for state, word in STATES.items()
        }

    def add_volume(self, node: CloudNode, tags: Tags) -> str:
        made = self.things.add(VOLUME, metadata=dict(tags))
        self.things.attach(made, node.id)
        return made

    def pin(self, node: CloudNode, tags: Tags) -> list[Leftover]:
        worded = helpers.neutron_tags(dict(tags))
        port = self.things.add(PORT, tags=worded)
        self.things.attach(port, node.id)
        address = self.things.add(ADDRESS, tags=worded, port_id=port)
        return [
            volume_of(self.add_volume(node, tags), node),
            Leftover(LeftoverKind.INTERFACE, port, node.id),
            Leftover(LeftoverKind.ADDRESS, address, node.id),
        ]

    def set_tags(self, volume: str, tags: Tags) -> None:
        self.things.all[VOLUME][volume]["metadata"] = dict(tags)

    def detach(self, volume: str, node_id: str) -> None:
        self.things.all[VOLUME][volume].update(attachments=[], status="available")

    def attach(self, volume: str, node_id: str) -> None:
        self.things.attach(volume, node_id)

    def by_hand(self) -> str:
        return helpers.by_hand(self.server)

    def fill(self, place: str) -> None:
        self.nova.full.add(place)

    def slow(self) -> None:
        self.nova.delete_s = 1000.0

    def due(self) -> None:
        for one in self.nova.servers.values():
            one.gone_at = one.gone_at and 0.0
