"""What the tests of the OpenStack adapter share."""

from __future__ import annotations

from typing import Any

import requests

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.cloud.openstack.adapter import build_cloud
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG
from nodemanager.core.model.world import CloudNode, LeftoverKind, Size
from tests.cloud.cloud_config import cloud_config
from tests.cloud.openstack.server import (
    CREDENTIAL,
    CREDENTIAL_SECRET,
    PASSWORD,
    PROJECT,
    USER,
    OpenStackServer,
)
from tests.cloud.openstack.things import ADDRESS, IMAGE, PORT, VOLUME
from tests.cloud.orders import POOL, order_for

SMALL = Size("m1.small", "m1.small", 1, 2048)
BY_CREDENTIAL = {
    "application_credential_id": CREDENTIAL,
    "application_credential_secret": CREDENTIAL_SECRET,
}
IMAGE_NAME = "node-image"
NEWER_IMAGE = "22222222-2222-4222-8222-222222222223"
BY_PASSWORD = {"username": USER, "password": PASSWORD, "project": PROJECT}


def cloud(server: OpenStackServer | str, *, timeout: float = 30.0, **settings: Any) -> CloudDriver:
    """An adapter for that server; `settings` replace parts of its configuration."""
    url = server if isinstance(server, str) else server.auth_url
    given: dict[str, Any] = {
        "pool": POOL,
        "credentials": BY_CREDENTIAL,
        "create": {"image": IMAGE},
        **settings,
    }
    given["credentials"] = {"auth_url": url, **given["credentials"]}
    return build_cloud(cloud_config(**given), timeout=timeout)


def order(name: str = "compute-1", *, size: Size = SMALL, **rest: Any) -> CreateOrder:
    """An order for a node with a record and an incarnation of its own."""
    return order_for(name, size, **rest)


def token_of(server: OpenStackServer) -> str:
    """A token for another hand than the adapter's."""
    credential = {"id": CREDENTIAL, "secret": CREDENTIAL_SECRET}
    how = {"methods": ["application_credential"], "application_credential": credential}
    answer = requests.post(
        f"{server.auth_url}/auth/tokens", json={"auth": {"identity": how}}, timeout=30
    )
    answer.raise_for_status()
    return answer.headers["X-Subject-Token"]


def by_hand(server: OpenStackServer, **fields: Any) -> str:
    """A server by another hand than the adapter's, without a tag of ours; its id."""
    asked = {
        "name": "by-hand",
        "imageRef": IMAGE,
        "flavorRef": server.nova.flavors[0]["id"],
        "metadata": {"owner": "alice"},
        **fields,
    }
    answer = requests.post(
        f"{server.url}/compute/v2.1/servers",
        json={"server": asked},
        headers={"X-Auth-Token": token_of(server)},
        timeout=30,
    )
    answer.raise_for_status()
    return str(answer.json()["server"]["id"])


def our_tags(node: CloudNode) -> dict[str, str]:
    """What a node's own things bear."""
    assert node.tags.pool is not None
    assert node.tags.incarnation is not None
    return {POOL_TAG: node.tags.pool, INCARNATION_TAG: node.tags.incarnation}


def neutron_tags(tags: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in tags.items()]


def ports_of(server: OpenStackServer, node_id: str) -> list[str]:
    """The ports of a server; nova made the first."""
    ports = server.things.all[PORT].values()
    return [port["id"] for port in ports if port["device_id"] == node_id]


def pin(server: OpenStackServer, node: CloudNode) -> set[tuple[LeftoverKind, str]]:
    """What outlives a node: a second port, a volume and an address, beside nova's own port."""
    tags, things = our_tags(node), server.things
    port = things.add(PORT, tags=neutron_tags(tags))
    things.attach(port, node.id)
    volume = things.add(VOLUME, metadata=tags)
    things.attach(volume, node.id)
    address = things.add(ADDRESS, tags=neutron_tags(tags), port_id=port)
    return {
        *((LeftoverKind.INTERFACE, one) for one in ports_of(server, node.id)),
        (LeftoverKind.VOLUME, volume),
        (LeftoverKind.ADDRESS, address),
    }


def newer_image(server: OpenStackServer) -> None:
    """Another image in the place of the one that the file names."""
    images = server.things.images
    images[IMAGE]["name"] += "-old"
    images[NEWER_IMAGE] = {"id": NEWER_IMAGE, "name": IMAGE_NAME, "status": "active"}
