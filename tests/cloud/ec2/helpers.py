"""What the tests of the EC2 adapter share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import requests

from nodemanager.cloud.api import CloudDriver, CreateOrder
from nodemanager.cloud.ec2.adapter import build_cloud
from nodemanager.cloud.ec2.wire import PAGE_SIZE
from nodemanager.cloud.tags import INCARNATION_TAG, POOL_TAG, RECORD_TAG
from nodemanager.core.model.world import CloudNode, Size
from tests.cloud.cloud_config import cloud_config
from tests.cloud.ec2.moto_server import MotoServer
from tests.cloud.orders import POOL, order_for

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB3G5lb1l5yk2z8P2a1KrjI1m0fO4wqBSO2bcwS0b0v1 me\n"
SMALL = Size("m5.large", "m5.large", 2, 8192)


def cloud(
    server: MotoServer | str, *, timeout: float = 60.0, page_size: int = PAGE_SIZE, **settings: Any
) -> CloudDriver:
    """An adapter for that server; `settings` replace parts of its configuration."""
    url = server if isinstance(server, str) else server.url
    given: dict[str, Any] = {
        "pool": POOL,
        "credentials": {"key": "AKIDEXAMPLE", "secret": "wJalrXUtnFEMI"},
        "create": {"image_id": "ami-12345678"},
        **settings,
    }
    given["credentials"] = {"endpoint": url, **given["credentials"]}
    return build_cloud(cloud_config(**given), timeout=timeout, page_size=page_size)


def order(name: str = "compute-1", *, size: Size = SMALL, **rest: Any) -> CreateOrder:
    """An order for a node with a record and an incarnation of its own."""
    return order_for(name, size, **rest)


def by_hand(server: MotoServer, action: str, **params: str) -> dict[str, str]:
    """A call by another hand than the adapter's; the answer's texts by their names, the last of
    each. Params as EC2 names them, `__` for a dot."""
    sent = {name.replace("__", "."): value for name, value in params.items()}
    answer = requests.post(
        server.url,
        data={"Action": action, "Version": "2016-11-15", "AWSAccessKeyId": "hand", **sent},
        timeout=60,
    )
    answer.raise_for_status()
    root = ElementTree.fromstring(answer.content)
    return {item.tag.rpartition("}")[2]: item.text or "" for item in root.iter()}


def node_by_hand(server: MotoServer) -> str:
    """An instance that somebody else started; its id."""
    node = {"ImageId": "ami-1", "MinCount": "1", "MaxCount": "1", "InstanceType": "t2.micro"}
    owner = tagged("instance", {"owner": "alice"})
    return by_hand(server, "RunInstances", **node, **owner)["instanceId"]


def tags_of(node: CloudNode) -> dict[str, str]:
    """Our three tags, as a node's own things bear them."""
    tags = node.tags
    assert tags.pool is not None
    assert tags.record is not None
    assert tags.incarnation is not None
    return {POOL_TAG: tags.pool, RECORD_TAG: tags.record, INCARNATION_TAG: tags.incarnation}


def tagged(resource: str, tags: Mapping[str, str]) -> dict[str, str]:
    """The tags as parameters of a call that makes such a resource."""
    if not tags:
        return {}
    params = {"TagSpecification__1__ResourceType": resource}
    for number, (name, value) in enumerate(tags.items(), 1):
        params[f"TagSpecification__1__Tag__{number}__Key"] = name
        params[f"TagSpecification__1__Tag__{number}__Value"] = value
    return params


def add_volume(
    server: MotoServer, node: CloudNode, tags: Mapping[str, str], device: str = "/dev/xvdz"
) -> str:
    """A volume that is attached by hand, so that it outlives the node (EC2's default then)."""
    made = by_hand(
        server,
        "CreateVolume",
        Size="8",
        AvailabilityZone="us-east-1a",
        **tagged("volume", tags),
    )["volumeId"]
    by_hand(server, "AttachVolume", VolumeId=made, InstanceId=node.id, Device=device)
    return made


def add_interface(
    server: MotoServer, node: CloudNode, tags: Mapping[str, str], index: int = 1
) -> str:
    """A second network interface, attached by hand, so that it outlives the node."""
    subnet = by_hand(server, "DescribeSubnets")["subnetId"]
    made = by_hand(
        server, "CreateNetworkInterface", SubnetId=subnet, **tagged("network-interface", tags)
    )["networkInterfaceId"]
    by_hand(
        server,
        "AttachNetworkInterface",
        NetworkInterfaceId=made,
        InstanceId=node.id,
        DeviceIndex=str(index),
    )
    return made


def add_address(
    server: MotoServer, tags: Mapping[str, str], *, interface: str = "", node: str = ""
) -> str:
    """An Elastic IP on that interface or node, or on none."""
    made = by_hand(server, "AllocateAddress", Domain="vpc", **tagged("elastic-ip", tags))
    place = {"NetworkInterfaceId": interface} if interface else {"InstanceId": node}
    if interface or node:
        by_hand(server, "AssociateAddress", AllocationId=made["allocationId"], **place)
    return made["allocationId"]
