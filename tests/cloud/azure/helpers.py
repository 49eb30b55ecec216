"""What the tests of the Azure adapter share."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.cloud.azure.adapter import build_cloud
from nodemanager.core.model.world import CloudNode, LeftoverKind, Size
from tests.cloud.azure.auth import CLIENT, SECRET, SUBSCRIPTION, TENANT
from tests.cloud.azure.server import AzureServer
from tests.cloud.azure.world import DISKS, GROUP, HOME, IPS, NICS, REGION, VMS, Resource
from tests.cloud.cloud_config import cloud_config
from tests.cloud.orders import POOL, order_for

IMAGE = "Canonical:ubuntu-24_04-lts:server:latest"
SMALL = Size("Standard_D2s_v5", "Standard_D2s_v5", 2, 8192)


def public_key() -> str:
    """The path of a public key."""
    return str(Path(__file__).with_name("id_ed25519.pub"))


def cloud(server: AzureServer | str, *, timeout: float = 60.0, **settings: Any) -> CloudDriver:
    """An adapter for that server; `settings` replace parts of its configuration."""
    url = server if isinstance(server, str) else server.url
    given: dict[str, Any] = {
        "pool": POOL,
        "credentials": {},
        "listing": {},
        "create": {},
        **settings,
    }
    given["credentials"] = {
        "subscription_id": SUBSCRIPTION,
        "tenant_id": TENANT,
        "key": CLIENT,
        "secret": SECRET,
        "region": REGION,
        "endpoint": url,
        "login_endpoint": url,
        **given["credentials"],
    }
    # None takes an option away.
    given["credentials"] = {k: v for k, v in given["credentials"].items() if v is not None}
    given["listing"] = {"resource_group": GROUP, **given["listing"]}
    given["create"] = {
        "image": IMAGE,
        "network": "Net",
        "ssh_key": public_key(),
        **given["create"],
    }
    return build_cloud(cloud_config(**given), timeout=timeout)


def order(name: str = "compute1", *, size: Size = SMALL, **rest: Any) -> CreateOrder:
    """An order for a node with a record and an incarnation of its own."""
    return order_for(name, size, **rest)


def by_hand(
    server: AzureServer,
    home: str = HOME,
    name: str = "",
    tags: Mapping[str, str] | None = None,
    **about: Any,
) -> str:
    """A machine that somebody else started; its vmId."""
    own = name or f"hand-{secrets.token_hex(4)}"
    nic = f"{home}/providers/{NICS}/{own}-nic"
    with server.held():
        server.world.add_interface(nic, {})
        body = {
            "location": REGION,
            "tags": {"owner": "alice"} if tags is None else dict(tags),
            "properties": {
                "hardwareProfile": {"vmSize": "Standard_A1_v2"},
                "storageProfile": {
                    "imageReference": dict(
                        zip(("publisher", "offer", "sku", "version"), IMAGE.split(":"), strict=True)
                    ),
                    "osDisk": {"createOption": "FromImage"},
                    "dataDisks": [],
                },
                "osProfile": {"adminUsername": "alice", "adminPassword": "x"},
                "networkProfile": {"networkInterfaces": [{"id": nic}]},
                **about,
            },
        }
        path = f"{home}/providers/{VMS}/{own}"
        made, _, _ = server.world.put_machine(path, body, only_new=True)
        server.world.settle()
    return str(made["properties"]["vmId"])


def machine(server: AzureServer, node_id: str) -> Resource:
    """The machine as the server has it."""
    return server.world.machine(node_id)


def custom_data(server: AzureServer, node_id: str) -> str:
    """What cloud-init finds on it."""
    return base64.b64decode(server.world.secrets[node_id]).decode()


def attach(
    server: AzureServer, node: CloudNode, tags: Mapping[str, str] | None = None
) -> set[tuple[LeftoverKind, str]]:
    """A disk, an interface and an address that another hand attaches, so that Azure does not delete
    them with the node; they have the node's tags, or those."""
    with server.held():
        world, one = server.world, machine(server, node.id)
        ours = dict(one["tags"] if tags is None else tags)
        own = secrets.token_hex(4)
        disk, nic, ip = (f"{HOME}/providers/{kind}/{own}".lower() for kind in (DISKS, NICS, IPS))
        world.add_disk(disk, ours, one["id"])
        about = one["properties"]
        about["storageProfile"]["dataDisks"].append(
            {
                "lun": 7,
                "managedDisk": {"id": disk},
                "deleteOption": "Detach",
                "createOption": "Attach",
            }
        )
        setting = f"{nic}/ipConfigurations/ip"
        world.add_address(ip, ours, setting)
        made = world.add_interface(nic, ours, one["id"])
        made["properties"]["ipConfigurations"][0]["id"] = setting
        made["properties"]["ipConfigurations"][0]["properties"]["publicIPAddress"] = {
            "id": ip,
            "properties": {"deleteOption": "Detach"},
        }
        about["networkProfile"]["networkInterfaces"].append(
            {"id": nic, "properties": {"primary": False, "deleteOption": "Detach"}}
        )
    return {
        (LeftoverKind.VOLUME, disk),
        (LeftoverKind.INTERFACE, nic),
        (LeftoverKind.ADDRESS, ip),
    }


def newer_image(server: AzureServer) -> None:
    """Another version of the image whose latest one the file names."""
    server.world.market.add(f"{IMAGE.rpartition(':')[0]}:24.04.202610010")
