"""The body of nova's create call.

libcloud's create_node can't send `networks: auto`. It also asks for the new server at once, so a
failed question would look like a failed create.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.openstack.options import Template
from nodemanager.cloud.tags import tags_for
from nodemanager.errors import BadRequest

LONGEST_USER_DATA = 65_535
"""Characters of base64 (nova's limit)."""


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The ids of what the file and the order name. `networks` may also be nova's own `auto` or
    `none`."""

    image: str
    flavor: str
    networks: str | tuple[str, ...]
    server_group: str | None = None


def server_body(order: CreateOrder, template: Template, found: ServerParts) -> dict[str, Any]:
    """The create call for exactly one server, with its tags as metadata.

    Raises BadRequest for what nova would refuse or can't give.
    """
    coded = base64.b64encode(order.user_data.encode("utf-8")).decode("ascii")
    if len(coded) > LONGEST_USER_DATA:
        raise BadRequest(
            f"the user data has {len(coded)} characters in base64, nova takes {LONGEST_USER_DATA}"
        )
    if order.size.preemptible:
        raise BadRequest(f"[Size {order.size.name}] preemptible: OpenStack has no such nodes")
    networks = found.networks
    server: dict[str, Any] = {
        "name": order.name,
        "flavorRef": found.flavor,
        # Ours come last and so override others.
        "metadata": {**template.metadata, **tags_for(order.tags)},
        "user_data": coded,
        "networks": networks if isinstance(networks, str) else [{"uuid": one} for one in networks],
    }
    server |= _disk(template, found.image)
    if template.security_groups:
        server["security_groups"] = [{"name": name} for name in template.security_groups]
    if template.key_name is not None:
        server["key_name"] = template.key_name
    zone = order.place or template.availability_zone
    if zone is not None:
        server["availability_zone"] = zone
    if template.config_drive:
        server["config_drive"] = True
    hints = dict(template.hints)
    if found.server_group is not None:
        hints["group"] = found.server_group
    # Nova's schema has them beside the server, not in it.
    return {"server": server} | ({"os:scheduler_hints": hints} if hints else {})


def _disk(template: Template, image: str) -> dict[str, Any]:
    """What the node boots from: the image on its host's disk, or a new volume made from it."""
    if template.boot_volume_gb is None:
        return {"imageRef": image}
    volume: dict[str, Any] = {
        "boot_index": 0,
        "source_type": "image",
        "uuid": image,
        "destination_type": "volume",
        "volume_size": template.boot_volume_gb,
        # Nova deletes it with the server.
        "delete_on_termination": True,
    }
    if template.boot_volume_type is not None:
        volume["volume_type"] = template.boot_volume_type
    return {"block_device_mapping_v2": [volume]}
