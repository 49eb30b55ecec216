"""What moto gets wrong about volumes, network interfaces and addresses, mended for the tests.

As EC2 does it: the interface made with an instance bears its tags and ends with it, unless told
otherwise; what outlives an instance is detached from it; an interface in use is not deleted, an
address in use not released; an address on an attached interface is its instance's; the Describe
calls give pages; an instance that is not there can't be tagged. moto does none of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
PAGED = {"DescribeVolumes": "volumeSet", "DescribeNetworkInterfaces": "networkInterfaceSet"}


def refused(regions: list[Any], params: Mapping[str, str]) -> tuple[str, str] | None:
    """EC2's code and text for what moto would do and EC2 does not."""
    if params.get("Action") == "CreateTags" and params["ResourceId.1"].startswith("i-"):
        wanted = params["ResourceId.1"]
        if not any(one.id == wanted for region in regions for one in _instances(region)):
            text = f"The instance ID '{wanted}' does not exist"
            return "InvalidInstanceID.NotFound", text
    for region in regions:
        if params.get("Action") == "DeleteNetworkInterface":
            eni = region.enis.get(params["NetworkInterfaceId"])
            if eni is not None and eni.attachment_id:
                text = f"Network interface '{eni.id}' is currently in use."
                return "InvalidParameterValue", text
        if params.get("Action") == "ReleaseAddress":
            for address in region.addresses:
                if address.allocation_id == params["AllocationId"] and address.association_id:
                    return "InvalidIPAddress.InUse", f"{address.public_ip} is in use."
    return None


def done(regions: list[Any], params: Mapping[str, str], body: bytes) -> None:
    """After an action: what EC2 would have done beside what moto did."""
    action = params.get("Action")
    if action == "DeleteNetworkInterface":
        for region in regions:
            for address in region.addresses:
                if address.eni is not None and address.eni.id not in region.enis:
                    _let_go(address)
    if action == "AssociateAddress":
        for region in regions:
            for address in region.addresses:
                if address.eni is not None:
                    address.instance = address.eni.instance
    if action not in ("RunInstances", "TerminateInstances"):
        return
    named = set(re.findall(rb"<instanceId>(i-[0-9a-f]+)<", body))
    for region in regions:
        for instance in _instances(region):
            if instance.id.encode() not in named:
                continue
            if action == "RunInstances":
                _launched(instance, params)
            else:
                _terminated(region, instance)


def _instances(region: Any) -> Iterator[Any]:
    for reservation in list(region.reservations.values()):
        yield from reservation.instances


def _launched(instance: Any, params: Mapping[str, str]) -> None:
    tags = _tags_for("network-interface", params)
    kept = {
        params.get(name.replace("DeleteOnTermination", "DeviceIndex"))
        for name, value in params.items()
        if re.fullmatch(r"NetworkInterface\.\d+\.DeleteOnTermination", name) and value == "false"
    }
    for index, eni in instance.nics.items():
        eni.add_tags(tags)
        eni.delete_on_termination = str(index) not in kept


def _terminated(region: Any, instance: Any) -> None:
    for eni in instance.nics.values():
        if eni.id not in region.enis:
            # moto would delete it for a second time when the instance is ended again.
            eni.delete_on_termination = False
        eni.instance = eni.attachment_id = eni.attach_time = None
        eni.status = "available"
    for address in region.addresses:
        if address.eni is not None and address.eni.id not in region.enis:
            _let_go(address)
        elif address.instance is instance:
            address.instance = None


def _let_go(address: Any) -> None:
    address.eni = address.instance = address.association_id = None


def _tags_for(resource: str, params: Mapping[str, str]) -> dict[str, str]:
    tags = {}
    for name, value in params.items():
        found = re.fullmatch(r"(TagSpecification\.\d+)\.Tag\.(\d+)\.Key", name)
        if found and params.get(f"{found[1]}.ResourceType") == resource:
            tags[value] = params[f"{found[1]}.Tag.{found[2]}.Value"]
    return tags


def page(params: Mapping[str, str], body: bytes, limit: int | None) -> bytes:
    """One page of an answer that moto gives whole; the token is how many went before."""
    name = PAGED.get(params.get("Action", ""))
    if name is None or "MaxResults" not in params:
        return body
    ElementTree.register_namespace("", NAMESPACE)
    root = ElementTree.fromstring(body)
    items = root.find(f"{{{NAMESPACE}}}{name}")
    assert items is not None
    start = int(params.get("NextToken") or 0)
    end = start + min(int(params["MaxResults"]), limit or 1000)
    everything = list(items)
    for item in everything[:start] + everything[end:]:
        items.remove(item)
    if end < len(everything):
        ElementTree.SubElement(root, f"{{{NAMESPACE}}}nextToken").text = str(end)
    return ElementTree.tostring(root)
