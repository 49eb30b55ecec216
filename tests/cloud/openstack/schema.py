"""OpenStack's own description of its resources, as its SDK has it: what contradicts it is told.

The SDK names each field that a service takes or tells. The states are those of the services'
API references ("Server concepts", "Volume status", "Image status", "Show port details").
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from nodemanager.cloud.refusal import words

ITEMS = {
    "server": ("compute.v2.server", "Server"),
    "flavor": ("compute.v2.flavor", "Flavor"),
    "server_group": ("compute.v2.server_group", "ServerGroup"),
    "volume": ("block_storage.v3.volume", "Volume"),
    "image": ("image.v2.image", "Image"),
    "network": ("network.v2.network", "Network"),
    "port": ("network.v2.port", "Port"),
    "floatingip": ("network.v2.floating_ip", "FloatingIP"),
    "security_group": ("network.v2.security_group", "SecurityGroup"),
}
"""By the name under which an answer has one; a list's name has an s more."""

STATES: Mapping[str, frozenset[str]] = {
    "server": words(
        """
        ACTIVE BUILD DELETED ERROR HARD_REBOOT MIGRATING PASSWORD PAUSED REBOOT REBUILD RESCUE
        RESIZE REVERT_RESIZE SHELVED SHELVED_OFFLOADED SHUTOFF SOFT_DELETED SUSPENDED UNKNOWN
        VERIFY_RESIZE
        """
    ),
    "volume": words(
        """
        creating available reserved attaching detaching in-use maintenance deleting
        awaiting-transfer error error_deleting backing-up restoring-backup error_backing-up
        error_restoring error_extending downloading uploading retyping extending
        """
    ),
    "image": words(
        """
        queued saving active killed deleted pending_delete deactivated uploading importing
        """
    ),
    "network": words("ACTIVE DOWN BUILD ERROR"),
    "port": words("ACTIVE DOWN BUILD ERROR N/A"),
    "floatingip": words("ACTIVE DOWN ERROR"),
}

BESIDE_IT = {
    "server": words("availability_zone user_data"),
    "network": words("tenant_id"),
}
"""Fields that a create sends under another name than an answer has, and the old name of a project,
which neutron tells beside the new one."""


def wrong_in(body: object) -> list[str]:
    """What contradicts the description in a body that was sent, or in an answer."""
    found: list[str] = []
    for name, value in body.items() if isinstance(body, dict) else ():
        if name in ITEMS:
            found += _wrong(name, value)
        elif name.removesuffix("s") in ITEMS:
            for one in value:
                found += _wrong(name.removesuffix("s"), one)
    return found


def _described(kind: str) -> Any:
    """The SDK takes long to import: not where tests are only collected."""
    module, name = ITEMS[kind]
    return getattr(importlib.import_module(f"openstack.{module}"), name)


def _wrong(kind: str, item: Mapping[str, object]) -> Iterator[str]:
    known = {*_described(kind)._body_mapping(), *BESIDE_IT.get(kind, ())}
    for key in sorted(item.keys() - known):
        yield f"{kind}.{key}: OpenStack knows no such field"
    state = item.get("status")
    if kind in STATES and state is not None and state not in STATES[kind]:
        yield f"{kind}.status: {state!r} is no state of it"
