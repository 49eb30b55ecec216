"""Networks, server groups, zones and policy of the OpenStack test server.

What it answers follows the documents of nova's and neutron's APIs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cloud.openstack.nova import Refused
from tests.cloud.openstack.things import NETWORK

SERVER_GROUP = "77777777-7777-4777-8777-777777777777"
ZONE = "nova"
UNAUTHENTICATED = "The request you have made requires authentication."


class Account:
    """`rules` are the access rules of the application credential, None where it has none. `roles`
    are the user's."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.networks = [network(NETWORK, "private")]
        self.server_groups = [server_group(SERVER_GROUP, "apart")]
        self.zones = {ZONE: True}
        self.rules: Sequence[Mapping[str, str]] | None = None
        self.roles = ("member", "reader")

    def credential(self, credential_id: str) -> dict[str, Any]:
        """What keystone tells of it in a token."""
        told: dict[str, Any] = {"id": credential_id, "name": "nodemanager", "restricted": True}
        return told if self.rules is None else {**told, "access_rules": list(self.rules)}

    def allow(self, service: str, method: str, path: str) -> None:
        """As keystone's middleware, which refuses a call without a rule as if without a token."""
        if self.rules is None:
            return
        for rule in self.rules:
            pattern = re.escape(rule["path"]).replace(r"\*", "[^/]+")
            fits = re.fullmatch(pattern, path) and method == rule["method"]
            if fits and rule["service"] == service:
                return
        body = {"error": {"code": 401, "title": "Unauthorized", "message": UNAUTHENTICATED}}
        raise Refused(401, body)

    # The API.

    def list_networks(self, query: Mapping[str, str]) -> Any:
        return {"networks": _paged(self.networks, query)}

    def list_server_groups(self, query: Mapping[str, str]) -> Any:
        """As nova, which knows no marker here."""
        first = int(query.get("offset", "0"))
        return {"server_groups": self.server_groups[first:][: int(query.get("limit", "1000"))]}

    def list_zones(self) -> Any:
        found = [
            {"zoneName": name, "zoneState": {"available": up}, "hosts": None}
            for name, up in self.zones.items()
        ]
        return {"availabilityZoneInfo": found}


def network(network_id: str, name: str, **fields: Any) -> dict[str, Any]:
    """A network of the project, as neutron shows it."""
    return {
        "id": network_id,
        "name": name,
        "status": "ACTIVE",
        "admin_state_up": True,
        "shared": False,
        "router:external": False,
        "subnets": ["55555555-5555-4555-8555-555555555555"],
        "tenant_id": 32 * "a",
        "project_id": 32 * "a",
        **fields,
    }


def server_group(group_id: str, name: str) -> dict[str, Any]:
    """A server group of the project, as nova shows it from 2.64 on."""
    return {
        "id": group_id,
        "name": name,
        "policy": "anti-affinity",
        "rules": {},
        "members": [],
        "project_id": 32 * "a",
        "user_id": "user",
    }


def _paged(items: Sequence[Mapping[str, Any]], query: Mapping[str, str]) -> list[Any]:
    """Those that the query's fields choose, after its marker."""
    found = [
        one
        for one in items
        if all(str(one[key]).lower() == query[key].lower() for key in query.keys() & one.keys())
    ]
    if "marker" in query:
        ids = [one["id"] for one in found]
        found = found[ids.index(query["marker"]) + 1 :]
    return found[: int(query.get("limit", "1000"))]
