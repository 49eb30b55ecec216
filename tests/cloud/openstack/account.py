"""Networks, security groups, keys, zones, limits and policy of the OpenStack test server.

What it answers follows the documents of nova's, neutron's and cinder's APIs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cloud.openstack.nova import Nova, Refused, refused
from tests.cloud.openstack.things import NETWORK, PORT, VOLUME, Things, neutron

GROUP = "33333333-3333-4333-8333-333333333333"
SERVER_GROUP = "77777777-7777-4777-8777-777777777777"
KEY, ZONE, VOLUME_TYPE = "operators", "nova", "ssd"
UNLIMITED = -1
UNAUTHENTICATED = "The request you have made requires authentication."


class Account:
    """`quotas` are limits by nova's, cinder's and neutron's names. `rules` are the access rules of
    the application credential, None where it has none. `roles` are the user's."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.networks = [network(NETWORK, "private")]
        self.groups = [{"id": GROUP, "name": "default", "security_group_rules": []}]
        self.server_groups = [server_group(SERVER_GROUP, "apart")]
        self.zones = {ZONE: True}
        self.quotas = {
            "instances": 10,
            "cores": 20,
            "ram": 51200,
            "volumes": 10,
            "gigabytes": 1000,
            "port": 500,
        }
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

    def network(self, network_id: str) -> Any:
        for one in self.networks:
            if one["id"] == network_id:
                return {"network": one}
        raise neutron(404, "NetworkNotFound", f"Network {network_id} could not be found.")

    def list_groups(self, query: Mapping[str, str]) -> Any:
        return {"security_groups": _paged(self.groups, query)}

    def list_server_groups(self, query: Mapping[str, str]) -> Any:
        """As nova, which knows no marker here."""
        first = int(query.get("offset", "0"))
        return {"server_groups": self.server_groups[first:][: int(query.get("limit", "1000"))]}

    def quota_details(self, things: Things) -> Any:
        used = {"limit": self.quotas["port"], "used": len(things.all[PORT]), "reserved": 0}
        return {"quota": {"port": used}}

    @staticmethod
    def key(name: str) -> Any:
        if name != KEY:
            raise refused(404, f"Keypair {name} not found for user user")
        told = {"name": name, "fingerprint": "aa:bb", "type": "ssh", "public_key": "ssh-rsa AAAA"}
        return {"keypair": {**told, "user_id": "user", "deleted": False, "id": 1}}

    def list_zones(self) -> Any:
        found = [
            {"zoneName": name, "zoneState": {"available": up}, "hosts": None}
            for name, up in self.zones.items()
        ]
        return {"availabilityZoneInfo": found}

    def compute_limits(self, nova: Nova) -> Any:
        flavors = [server.flavor for server in nova.servers.values()]
        absolute = {
            "maxTotalInstances": self.quotas["instances"],
            "totalInstancesUsed": len(flavors),
            "maxTotalCores": self.quotas["cores"],
            "totalCoresUsed": sum(one["vcpus"] for one in flavors),
            "maxTotalRAMSize": self.quotas["ram"],
            "totalRAMUsed": sum(one["ram"] for one in flavors),
            "maxTotalKeypairs": 100,
        }
        return {"limits": {"rate": [], "absolute": absolute}}

    def volume_limits(self, things: Things) -> Any:
        volumes = things.all[VOLUME].values()
        absolute = {
            "maxTotalVolumes": self.quotas["volumes"],
            "totalVolumesUsed": len(volumes),
            "maxTotalVolumeGigabytes": self.quotas["gigabytes"],
            "totalGigabytesUsed": sum(one["size"] for one in volumes),
        }
        return {"limits": {"rate": [], "absolute": absolute}}

    @staticmethod
    def list_types(query: Mapping[str, str]) -> Any:
        one = {"id": "44444444-4444-4444-8444-444444444444", "name": VOLUME_TYPE}
        return {"volume_types": _paged([{**one, "is_public": True, "extra_specs": {}}], query)}


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
