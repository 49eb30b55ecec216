"""What the tests of the GCE adapter share."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import pytest

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.cloud.gce.adapter import build_cloud
from nodemanager.cloud.gce.instance import labels_for
from nodemanager.cloud.gce.wire import PAGE_SIZE
from nodemanager.core.model.world import CloudNode, Size
from tests.cloud.cloud_config import cloud_config
from tests.cloud.gce import auth as gce_auth
from tests.cloud.gce.server import GceServer
from tests.cloud.orders import POOL, order_for

ZONE = "us-central1-a"
IMAGE = "debian-12"
SMALL = Size("n1-standard-1", "n1-standard-1", 1, 3840)


def cloud(
    server: GceServer | str, *, timeout: float = 60.0, page_size: int = PAGE_SIZE, **settings: Any
) -> CloudDriver:
    """An adapter for that server; `settings` replace parts of its configuration."""
    url = server if isinstance(server, str) else server.url
    given: dict[str, Any] = {
        "pool": POOL,
        "credentials": {"key": gce_auth.key_file()},
        "create": {},
        **settings,
    }
    given["credentials"] = {"endpoint": url, "token_endpoint": url, **given["credentials"]}
    given["create"] = {"zone": ZONE, "image": IMAGE, **given["create"]}
    return build_cloud(cloud_config(**given), timeout=timeout, page_size=page_size)


def role_at(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata server of the instance that we run on is there."""
    # google-auth reads the variable when it is imported.
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", host)


def order(name: str = "compute1", *, size: Size = SMALL, **rest: Any) -> CreateOrder:
    """An order for a node with a record and an incarnation of its own."""
    return order_for(name, size, **rest)


def by_hand(server: GceServer, zone: str = ZONE, name: str = "", **fields: Any) -> str:
    """An instance that somebody else started; its id."""
    body = {
        "name": name or f"hand-{secrets.token_hex(4)}",
        "machineType": f"zones/{zone}/machineTypes/e2-micro",
        "labels": {"owner": "alice"},
        "disks": [],
        "networkInterfaces": [{"network": "global/networks/default"}],
        **fields,
    }
    return str(server.project.insert(zone, body)["targetId"])


def add_disk(server: GceServer, node: CloudNode, labels: Mapping[str, str] | None = None) -> str:
    """A disk that is attached by hand, so that it outlives the node (Google's default then)."""
    name = f"data-{secrets.token_hex(4)}"
    project = server.project
    ours = labels_for(node.tags) if labels is None else labels
    project.insert_disk(ZONE, {"name": name, "labels": dict(ours)})
    project.attach(ZONE, node.id, {"source": project.link(f"zones/{ZONE}/disks/{name}")})
    project.settle()
    return f"zones/{ZONE}/disks/{name}"


def instance(server: GceServer, node_id: str) -> dict[str, Any]:
    """The instance as the server has it."""
    return next(one for one in server.project.instances.values() if one["id"] == node_id)


def newer_image(server: GceServer) -> None:
    """Another image in the family that the file names."""
    server.project.images["debian-cloud"]["debian-12-bookworm-v20261001"] = IMAGE
