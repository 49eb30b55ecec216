"""The servers of the OpenStack test server: nova's part of the API, with its states and its limits.

What it does follows nova's documents: "Compute API" (bodies, microversions, paging, faults) and
"Handling Down Cells" (what a list leaves out while a cell is down).
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

MINIMUM, MAXIMUM = (2, 1), (2, 96)
FLAVOR_EMBEDDED, NETWORKS_NEEDED, DOWN_CELLS_TOLD = (2, 47), (2, 37), (2, 69)
PAGING = {"limit", "marker", "sort_key", "sort_dir"}
"""With any of these in a query, nova leaves out the servers of a cell that is down."""
LONGEST_USER_DATA, LONGEST_VALUE, MOST_ITEMS = 65535, 255, 128
NO_VALID_HOST = "No valid host was found. There are not enough hosts available."
FAULTS = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    429: "overLimit",
    503: "serviceUnavailable",
}


@dataclass
class Refused(Exception):
    """An error answer; `body` is JSON as the service words it."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


def refused(status: int, message: str, retry_after: str | None = None) -> Refused:
    """Nova's form of an error."""
    fault: dict[str, Any] = {"code": status, "message": message}
    headers = {}
    if retry_after is not None:
        fault["retryAfter"] = headers["Retry-After"] = retry_after
    return Refused(status, {FAULTS.get(status, "computeFault"): fault}, headers)


@dataclass
class Server:
    """One server. `gone_at` is when its deletion ends; `parts` are the names of its ports."""

    id: str
    project: str
    name: str
    flavor: Mapping[str, Any]
    image: str
    metadata: dict[str, str]
    created: str
    ready_at: float
    asked: Mapping[str, Any]
    status: str = ""
    """A state that another hand put it in; empty: BUILD, then ACTIVE, by the clock."""
    fault: str | None = None
    gone_at: float | None = None
    cell: str = "cell1"

    @property
    def shown(self) -> str:
        if self.status:
            return self.status
        return (
            "BUILD" if time.monotonic() < self.ready_at else ("ERROR" if self.fault else "ACTIVE")
        )

    @property
    def user_data(self) -> str:
        return base64.b64decode(self.asked.get("user_data", "")).decode()


def _flavor(number: int, name: str, cores: int, ram: int, disk: int, ephemeral: int = 0) -> Any:
    return {
        "id": f"00000000-0000-4000-8000-{number:012}",
        "name": name,
        "vcpus": cores,
        "ram": ram,
        "disk": disk,
        "OS-FLV-EXT-DATA:ephemeral": ephemeral,
        "swap": "",
        "rxtx_factor": 1.0,
        "os-flavor-access:is_public": True,
        "OS-FLV-DISABLED:disabled": False,
    }


class Nova:
    """The servers and flavors of one cloud.

    `boot_s` and `delete_s` are how long a boot and a deletion take. `max_limit` is the most items
    of one page, whatever was asked for. Servers of a cell in `down` can't be read. `no_host` makes
    each new server end in ERROR. `cores` is the quota. `ended` is called with each server that is
    gone.
    """

    def __init__(self, ended: Callable[[Server], None]) -> None:
        self._lock = threading.RLock()
        self._ended = ended
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self.servers: dict[str, Server] = {}
            self.boot_s = self.delete_s = 0.0
            self.max_limit = 1000
            self.maximum = MAXIMUM
            self.down: set[str] = set()
            self.no_host = False
            self.cores = 10_000
            self.flavors = [
                _flavor(1, "m1.small", 1, 2048, 20),
                _flavor(2, "m1.large", 4, 8192, 80, 100),
                _flavor(3, "g1.huge", 64, 524288, 0),
            ]

    # The API, one method each; `version` is the microversion.

    def create(self, body: Mapping[str, Any], project: str, version: tuple[int, int]) -> Any:
        asked = body.get("server")
        if not isinstance(asked, dict) or not asked.get("name") or "flavorRef" not in asked:
            raise refused(400, "Invalid input for field/attribute server.")
        if version >= NETWORKS_NEEDED and "networks" not in asked:
            raise refused(
                400, "Invalid input for field/attribute server. 'networks' is a required property"
            )
        if len(asked.get("user_data", "")) > LONGEST_USER_DATA:
            raise refused(400, "Invalid input for field/attribute user_data. is too long")
        flavor = next((f for f in self.flavors if f["id"] == asked["flavorRef"]), None)
        if flavor is None:
            raise refused(400, f"Flavor {asked['flavorRef']} could not be found.")
        volumes = asked.get("block_device_mapping_v2", [])
        if not volumes and not flavor["disk"]:
            raise refused(403, "Only volume-backed servers are allowed for flavors with zero disk.")
        if not volumes and not asked.get("imageRef"):
            raise refused(400, "Block Device Mapping is Invalid: no boot device")
        metadata = _checked(asked.get("metadata", {}))
        with self._lock:
            used = sum(s.flavor["vcpus"] for s in self.servers.values() if s.project == project)
            if used + flavor["vcpus"] > self.cores:
                raise refused(
                    403,
                    f"Quota exceeded for cores: Requested {flavor['vcpus']}, but already used "
                    f"{used} of {self.cores} cores",
                )
            server = Server(
                id=str(uuid.uuid4()),
                project=project,
                name=asked["name"],
                flavor=flavor,
                image=asked.get("imageRef", ""),
                metadata=metadata,
                created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                ready_at=time.monotonic() + self.boot_s,
                asked=asked,
                fault=NO_VALID_HOST if self.no_host else None,
            )
            self.servers[server.id] = server
        answer = {"id": server.id, "links": [], "OS-DCF:diskConfig": "MANUAL"}
        return server, {"server": {**answer, "adminPass": "sEcrEt-admin-pass"}}

    def list(
        self, query: Mapping[str, str], project: str, version: tuple[int, int], url: str
    ) -> Any:
        """One page, newest first."""
        with self._lock:
            mine = [s for s in reversed(self.servers.values()) if s.project == project]
            tells = version >= DOWN_CELLS_TOLD and not PAGING & query.keys()
            # On a page that is full nova has no room for those it can't read.
            unread = [s for s in mine if s.cell in self.down] if tells else []
            mine = [s for s in mine if s.cell not in self.down] + unread
            if marker := query.get("marker"):
                place = next((n for n, s in enumerate(mine) if s.id == marker), None)
                if place is None:
                    raise refused(400, f"marker [{marker}] not found")
                mine = mine[place + 1 :]
            limit = min(int(query.get("limit", self.max_limit)), self.max_limit)
            page = mine[:limit]
            answer: dict[str, Any] = {"servers": [self._view(s, version) for s in page]}
            if len(page) == limit:
                href = f"{url}?limit={limit}&marker={page[-1].id}"
                answer["servers_links"] = [{"rel": "next", "href": href}]
            return answer

    def show(self, server_id: str, project: str, version: tuple[int, int]) -> Any:
        with self._lock:
            return {"server": self._view(self.find(server_id, project), version)}

    def delete(self, server_id: str, project: str) -> None:
        with self._lock:
            server = self.find(server_id, project)
            if server.gone_at is None:
                server.gone_at = time.monotonic() + self.delete_s

    def set_metadata(self, server_id: str, project: str, body: Mapping[str, Any]) -> Any:
        with self._lock:
            server = self.find(server_id, project)
            merged = {**server.metadata, **_checked(body.get("metadata", {}))}
            server.metadata = _checked(merged)
            return {"metadata": server.metadata}

    def list_flavors(self, query: Mapping[str, str]) -> Any:
        ids = [flavor["id"] for flavor in self.flavors]
        begin = ids.index(query["marker"]) + 1 if "marker" in query else 0
        limit = min(int(query.get("limit", self.max_limit)), self.max_limit)
        return {"flavors": self.flavors[begin : begin + limit]}

    # What other hands do.

    def put(self, server_id: str, status: str) -> None:
        self.servers[server_id].status = status

    def find(self, server_id: str, project: str) -> Server:
        with self._lock:
            server = self.servers.get(server_id)
            if server is None or server.project != project:
                raise refused(404, f"Instance {server_id} could not be found.")
            return server

    def settle(self) -> None:
        """End the deletions whose time has come."""
        with self._lock:
            now = time.monotonic()
            for server in list(self.servers.values()):
                if server.gone_at is not None and server.gone_at <= now:
                    del self.servers[server.id]
                    self._ended(server)

    def _view(self, server: Server, version: tuple[int, int]) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": server.id,
            "status": "UNKNOWN",
            "tenant_id": server.project,
            "created": server.created,
            "links": [],
        }
        if server.cell in self.down:
            return told
        flavor: dict[str, Any] = {"id": server.flavor["id"], "links": []}
        if version >= FLAVOR_EMBEDDED:
            flavor = {
                "original_name": server.flavor["name"],
                "vcpus": server.flavor["vcpus"],
                "ram": server.flavor["ram"],
                "disk": server.flavor["disk"],
                "ephemeral": server.flavor["OS-FLV-EXT-DATA:ephemeral"],
                "swap": 0,
                "extra_specs": {},
            }
        told |= {
            "status": server.shown,
            "name": server.name,
            "metadata": dict(server.metadata),
            "flavor": flavor,
            "image": {"id": server.image, "links": []} if server.image else "",
            "addresses": {
                "private": [
                    {"addr": "10.0.0.5", "version": 4, "OS-EXT-IPS:type": "fixed"},
                ]
            },
            "updated": server.created,
            "user_id": "user",
            "hostId": "",
            "key_name": server.asked.get("key_name"),
            "config_drive": "True" if server.asked.get("config_drive") else "",
            "security_groups": server.asked.get("security_groups", [{"name": "default"}]),
            "OS-EXT-AZ:availability_zone": server.asked.get("availability_zone", "nova"),
            "OS-EXT-STS:task_state": "deleting" if server.gone_at is not None else None,
            "os-extended-volumes:volumes_attached": [],
        }
        if server.fault and told["status"] == "ERROR":
            told["fault"] = {"code": 500, "message": server.fault, "created": server.created}
        return told


def _checked(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict):
        raise refused(400, "Invalid input for field/attribute metadata.")
    if len(metadata) > MOST_ITEMS:
        raise refused(403, f"Maximum number of metadata items exceeds {MOST_ITEMS}")
    if any(not isinstance(v, str) or len(v) > LONGEST_VALUE for v in metadata.values()):
        raise refused(400, "Invalid input for field/attribute metadata. is too long")
    return dict(metadata)
