"""The body of Azure's create call for a virtual machine, composed by hand.

libcloud's create_node makes the interface and the address in calls of their own, which leave them
behind when a later one fails, sets no tags on them, and can't order Spot machines.
"""

from __future__ import annotations

import base64
import re
import shlex
from typing import Any

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.azure.node import azure_tags
from nodemanager.cloud.azure.options import LONGEST_TAG, SYSTEM, Template
from nodemanager.cloud.declared import passed_on
from nodemanager.errors import BadRequest

LONGEST_CUSTOM_DATA = 65_535
"""Bytes, before they are coded in base64 (Azure's limit)."""
LONGEST_NAME = 64
"""Of a Linux machine."""
NETWORK_VERSION = "2022-11-01"
"""The version of Microsoft.Network that the machine's interface is made by."""
OF_INCARNATION = 8
"""How many characters of the incarnation a machine's name has."""

WITH_PING_URL = """#!/bin/sh
umask 077
mkdir -p /etc/nodemanager /var/tmp/arv-node-data/meta-data
printf '%s\\n' {url} >/etc/nodemanager/ping-url
cp /etc/nodemanager/ping-url /var/tmp/arv-node-data/arv-ping-url
curl -s -f --noproxy '*' -H Metadata:true -o /var/tmp/arv-node-data/meta-data/instance-id \\
    'http://169.254.169.254/metadata/instance/compute/vmId?api-version=2021-02-01&format=text'
printf '%s\\n' {size} >/var/tmp/arv-node-data/meta-data/instance-type
"""
"""For user data that is a bare ping URL: puts it where nodemanager-ping and the ping script of
Arvados Node Manager's images look for it. Azure shows custom data to cloud-init alone."""


def machine_name(name: str, incarnation: str, zone: str | None = None) -> str:
    """The machine's name: the node's, as Azure takes names, the incarnation's beginning, the zone.

    A name is unique in its resource group, whatever pool the node is in, and a create with the same
    name makes no second machine. What a refused create left in another zone has another name.
    """
    end = re.sub(r"[^a-z0-9]", "", incarnation.lower())[:OF_INCARNATION] + (zone or "")
    begin = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "n"
    room = LONGEST_NAME - len(end) - 1
    return f"{begin[:room].rstrip('-')}-{end}" if end else begin[:LONGEST_NAME].rstrip("-")


def machine_body(order: CreateOrder, template: Template, name: str, region: str) -> dict[str, Any]:
    """The machine to create, with its disks, interface and address, and the tags of each. Azure
    gives a machine's tags to its disks.

    Raises BadRequest for what Azure would refuse.
    """
    ours = azure_tags(order.tags, order.name)
    for tag, value in ours.items():
        if len(value) > LONGEST_TAG:
            raise BadRequest(f"the tag {tag} is longer than Azure's {LONGEST_TAG} characters")
    # Ours come last and so override others.
    tags = {**template.tags, **ours}
    about: dict[str, Any] = {
        "hardwareProfile": {"vmSize": order.size.instance_type},
        "storageProfile": {
            "imageReference": dict(template.image),
            "osDisk": _os_disk(template, name),
            "dataDisks": _scratch(order, template),
        },
        "osProfile": _system(order, template, name),
        "networkProfile": {
            "networkApiVersion": NETWORK_VERSION,
            "networkInterfaceConfigurations": [_interface(template, name, tags)],
        },
    }
    if template.preemptible or order.size.preemptible:
        about |= {
            "priority": "Spot",
            # Deallocated, it costs its disks and its quota.
            "evictionPolicy": template.eviction_policy,
            # -1: what a machine of the size costs otherwise.
            "billingProfile": {"maxPrice": template.spot_max_price or -1},
        }
    body: dict[str, Any] = {"location": region, "tags": tags, "properties": about}
    zone = order.place or template.zone
    if zone is not None:
        body["zones"] = [zone]
    if template.image_plan:
        body["plan"] = dict(template.image_plan)
    if template.identity:
        body["identity"] = _identity(template.identity)
    for path, text in passed_on(template).items():
        *within, name = path.split(".")
        there = body
        for key in within:
            there = there.setdefault(key, {})
        there[name] = {"true": True, "false": False}.get(text, text)
    return body


def _identity(identities: tuple[str, ...]) -> dict[str, Any]:
    """Whom the node is for Azure: itself, identities that operators made, or both."""
    made: dict[str, Any] = {one: {} for one in identities if one != SYSTEM}
    kinds = (["SystemAssigned"] if SYSTEM in identities else []) + ["UserAssigned"] * bool(made)
    return {"type": ", ".join(kinds), **({"userAssignedIdentities": made} if made else {})}


def _os_disk(template: Template, name: str) -> dict[str, Any]:
    disk: dict[str, Any] = {
        "name": f"{name}-os",
        "createOption": "FromImage",
        "caching": "ReadWrite",
        "deleteOption": "Delete",
        "managedDisk": {"storageAccountType": template.boot_disk_type},
    }
    if template.boot_disk_gb is not None:
        disk["diskSizeGB"] = template.boot_disk_gb
    if template.ephemeral_os_disk is not None:
        # It is no disk of the account's, and Azure caches it for reading alone.
        del disk["managedDisk"]
        local = {"option": "Local", "placement": template.ephemeral_os_disk}
        disk |= {"caching": "ReadOnly", "diffDiskSettings": local}
    return disk


def _scratch(order: CreateOrder, template: Template) -> list[dict[str, Any]]:
    """A disk for the size's scratch space, where the file names a type for it; otherwise the
    temporary disk that many sizes have must do. It has one GB for each thousand MB."""
    if template.scratch_disk_type is None or order.size.scratch_mb <= 0:
        return []
    return [
        {
            "lun": 0,
            "createOption": "Empty",
            "deleteOption": "Delete",
            "diskSizeGB": -(-order.size.scratch_mb // 1000),
            "managedDisk": {"storageAccountType": template.scratch_disk_type},
        }
    ]


def _system(order: CreateOrder, template: Template, name: str) -> dict[str, Any]:
    text = order.user_data
    if text.startswith("http") and len(text.split()) == 1:
        size = shlex.quote(order.size.instance_type)
        text = WITH_PING_URL.format(url=shlex.quote(text.strip()), size=size)
    data = text.encode("utf-8")
    if len(data) > LONGEST_CUSTOM_DATA:
        raise BadRequest(f"the user data is longer than Azure's {LONGEST_CUSTOM_DATA} bytes")
    user = template.user_name
    key = {"path": f"/home/{user}/.ssh/authorized_keys", "keyData": template.ssh_key}
    return {
        "computerName": name,
        "adminUsername": user,
        "customData": base64.b64encode(data).decode("ascii"),
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "ssh": {"publicKeys": [key]},
        },
    }


def _interface(template: Template, name: str, tags: dict[str, str]) -> dict[str, Any]:
    """The interface that Azure makes with the machine, and deletes with it."""
    address: dict[str, Any] = {"primary": True, "subnet": {"id": template.subnet}}
    if template.assign_public_ip:
        address["publicIPAddressConfiguration"] = {
            "name": f"{name}-ip",
            "tags": tags,
            "sku": {"name": "Standard"},
            "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
        }
    about: dict[str, Any] = {
        "primary": True,
        "deleteOption": "Delete",
        "enableAcceleratedNetworking": template.accelerated_networking,
        "ipConfigurations": [{"name": "primary", "properties": address}],
    }
    if template.network_security_group is not None:
        about["networkSecurityGroup"] = {"id": template.network_security_group}
    return {"name": f"{name}-nic", "tags": tags, "properties": about}
