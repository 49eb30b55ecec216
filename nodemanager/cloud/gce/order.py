"""The body of Google's instances.insert, composed by hand.

libcloud's create_node sets no labels on disks, waits for the operation, and takes no request id.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.declared import passed_on
from nodemanager.cloud.gce.instance import instance_name, labels_for
from nodemanager.cloud.gce.options import ServiceAccountOfNode, Template
from nodemanager.errors import BadRequest

LONGEST_METADATA = 262_144
"""Bytes of one value (Google's limit)."""
LOCAL_SSD_MB = 375_000
LOCAL_SSDS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 24)
"""How many local SSDs an instance can have; some machine types take fewer."""
STAY_PUT = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-", "h3-", "h4d-")
"""How types begin whose instances can't be moved while they run, as Google's "Live migration
process" says: their order must say that they end when their host is serviced."""
RESERVATIONS = {
    "any": {"consumeReservationType": "ANY_RESERVATION"},
    "none": {"consumeReservationType": "NO_RESERVATION"},
}
_TOKENS = uuid.UUID("0f5a2cf1-57ab-5f0b-9b3a-6f2a3f0c7d10")
"""The name space of request ids."""


def request_id(client_token: str) -> str:
    """Google's client token, which must be a UUID."""
    return str(uuid.uuid5(_TOKENS, client_token))


def insert_body(
    order: CreateOrder,
    template: Template,
    zone: str,
    image: str,
    scope_url: Callable[[str], str],
) -> dict[str, Any]:
    """The instance to create, with its labels, disks and network. Raises BadRequest for what Google
    would refuse."""
    if len(order.user_data.encode("utf-8")) > LONGEST_METADATA:
        raise BadRequest(f"the user data is longer than Google's {LONGEST_METADATA} bytes")
    labels = {**template.labels, **labels_for(order.tags, order.name)}
    body: dict[str, Any] = {
        "name": instance_name(order.name, order.tags.incarnation or ""),
        "machineType": f"zones/{zone}/machineTypes/{order.size.instance_type}",
        "labels": labels,
        "disks": [
            _boot_disk(template, zone, image, labels),
            *_scratch(order.size.scratch_mb, template, zone, labels),
        ],
        "networkInterfaces": [_interface(template, zone)],
        "metadata": {"items": _metadata(order.user_data, template)},
        "serviceAccounts": [_account(one, scope_url) for one in template.service_accounts],
    }
    _put(body, template, zone)
    if template.tags:
        body["tags"] = {"items": list(template.tags)}
    if template.preemptible or order.size.preemptible:
        # Once it is taken away it stays as a stopped node, so that its end is seen at once.
        body["scheduling"] = {
            "provisioningModel": "SPOT",
            "instanceTerminationAction": "STOP",
            "automaticRestart": False,
            "onHostMaintenance": "TERMINATE",
        }
    elif template.accelerators is not None or order.size.instance_type.startswith(STAY_PUT):
        body["scheduling"] = {"onHostMaintenance": "TERMINATE"}
    return body


def template_path(template: Template) -> str | None:
    """The instance template that Google begins with, if one is named."""
    name = template.instance_template.get("template")
    return name if name is None or "/" in name else f"global/instanceTemplates/{name}"


def _put(body: dict[str, Any], template: Template, zone: str) -> None:
    """Put into the body what the file's own options say of it."""
    if template.accelerators is not None:
        kind, count = template.accelerators
        path = f"zones/{zone}/acceleratorTypes/{kind}"
        body["guestAccelerators"] = [{"acceleratorType": path, "acceleratorCount": count}]
    for place, text in passed_on(template).items():
        within, _, name = place.rpartition(".")
        if place == "nicType":
            body["networkInterfaces"][0]["nicType"] = text
        elif place == "resourcePolicies":
            region = zone.rpartition("-")[0]
            body["resourcePolicies"] = [f"regions/{region}/resourcePolicies/{text}"]
        elif within == "reservationAffinity":
            body[within] = RESERVATIONS.get(text) or {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": [text],
            }
        elif within:
            value = {"true": True, "false": False}.get(text, text)
            body.setdefault(within, {})[name] = value
        elif place != "template":
            body[place] = text


def _boot_disk(template: Template, zone: str, image: str, labels: dict[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {"sourceImage": image, "labels": labels}
    if template.boot_disk_type is not None:
        made["diskType"] = f"zones/{zone}/diskTypes/{template.boot_disk_type}"
    if template.boot_disk_gb is not None:
        made["diskSizeGb"] = str(template.boot_disk_gb)
    return {"boot": True, "autoDelete": True, "initializeParams": made}


def _scratch(
    wanted_mb: int, template: Template, zone: str, labels: dict[str, str]
) -> list[dict[str, Any]]:
    """The disks for the scratch space: whole local SSDs, or one persistent disk.

    A persistent disk has one GB for each thousand MB, whether MB means 10^6 or 2^20 bytes.
    """
    if wanted_mb <= 0:
        return []
    disk_type = f"zones/{zone}/diskTypes/{template.scratch_disk_type}"
    if template.scratch_disk_type != "local-ssd":
        size = str(max(10, -(-wanted_mb // 1000)))
        made = {"diskType": disk_type, "diskSizeGb": size, "labels": labels}
        return [{"autoDelete": True, "deviceName": "scratch", "initializeParams": made}]
    needed = -(-wanted_mb // LOCAL_SSD_MB)
    count = next((many for many in LOCAL_SSDS if many >= needed), None)
    if count is None:
        most = LOCAL_SSDS[-1] * LOCAL_SSD_MB
        raise BadRequest(f"[Size] scratch = {wanted_mb}: local SSDs have {most} MB at the most")
    made = {"diskType": disk_type}
    disk = {"type": "SCRATCH", "interface": "NVME", "autoDelete": True, "initializeParams": made}
    return [dict(disk) for _ in range(count)]


def _interface(template: Template, zone: str) -> dict[str, Any]:
    network, subnet = template.network, template.subnet
    interface: dict[str, Any] = {}
    if subnet is not None:
        region = zone.rpartition("-")[0]
        whole = "/" in subnet
        interface["subnetwork"] = subnet if whole else f"regions/{region}/subnetworks/{subnet}"
    if subnet is None or network != "default":
        interface["network"] = network if "/" in network else f"global/networks/{network}"
    if template.assign_public_ip:
        interface["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    return interface


def _metadata(user_data: str, template: Template) -> list[dict[str, str]]:
    """The user data where the node finds it: a bare ping URL under Arvados Node Manager's key, a
    script for Google's guest agent, anything else for cloud-init."""
    if user_data.startswith("#!"):
        key = "startup-script"
    elif user_data.startswith("http") and len(user_data.split()) == 1:
        key = "arv-ping-url"
    else:
        key = "user-data"
    items = [{"key": key, "value": user_data}]
    if template.ssh_key is not None:
        items.append({"key": "ssh-keys", "value": f"root:{template.ssh_key}"})
    return items


def _account(one: ServiceAccountOfNode, scope_url: Callable[[str], str]) -> dict[str, Any]:
    return {"email": one.email, "scopes": [scope_url(scope) for scope in one.scopes]}
