"""The servers of the OpenStack test server: nova's part of the API, with its states and its limits.

What it does follows nova's documents, "Compute API" (bodies, microversions, paging, faults) and
"Handling Down Cells" (what a list leaves out while a cell is down), and a real nova
(test_likeness.py).
"""

from __future__ import annotations

import base64
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")

MINIMUM, MAXIMUM = (2, 1), (2, 96)
FLAVOR_EMBEDDED, NETWORKS_NEEDED, DOWN_CELLS_TOLD = (2, 47), (2, 37), (2, 69)
PAGING = {"limit", "marker", "sort_key", "sort_dir"}
"""With any of these in a query, nova leaves out the servers of a cell that is down."""
LONGEST_USER_DATA, LONGEST_VALUE, MOST_ITEMS = 65535, 255, 128
METADATA_NAME = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}")
TAKES_METADATA = {"ACTIVE", "PAUSED", "SUSPENDED", "SHUTOFF"}
"""The states in which nova changes a server's metadata."""
ORDERED = {
    *("name", "flavorRef", "imageRef", "networks", "metadata", "user_data", "security_groups"),
    *("key_name", "availability_zone", "config_drive", "block_device_mapping_v2"),
    *("min_count", "max_count"),
}
"""What a create may have here; nova knows more, and refuses what it does not know."""
HINTS = "os:scheduler_hints"
KEYS, ZONES, GROUPS = {"operators"}, {"nova", "az-2"}, {"default", "compute"}
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


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _wrong(field: str, why: str) -> Refused:
    return refused(400, f"Invalid input for field/attribute {field}. {why}")


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
    each new server end in ERROR, as do new servers of the zones in `full`. `cores` is the quota.
    `ended` is called with each server that is gone. A marker in `begins_anew` is taken for none,
    once. `knows` says whether there is an image, a network or a server group of that id.
    """

    def __init__(self, ended: Callable[[Server], None], knows: Callable[[str, str], bool]) -> None:
        self._lock = threading.RLock()
        self._ended = ended
        self._knows = knows
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self.servers: dict[str, Server] = {}
            self.boot_s = self.delete_s = 0.0
            self.max_limit = 1000
            self.maximum = MAXIMUM
            self.down: set[str] = set()
            self.no_host = False
            self.full = set[str]()
            self.begins_anew = set[str]()
            self.cores = 10_000
            self.flavors = [
                _flavor(1, "m1.small", 1, 2048, 20),
                _flavor(2, "m1.large", 4, 8192, 80, 100),
                _flavor(3, "g1.huge", 64, 524288, 0),
            ]

    # The API, one method each; `version` is the microversion.

    def create(self, body: Mapping[str, Any], project: str, version: tuple[int, int]) -> Any:
        for name in body.keys() - {"server", HINTS}:
            raise _wrong("", f"Additional properties are not allowed ('{name}')")
        asked = body.get("server")
        if not isinstance(asked, dict):
            raise refused(400, "'server' is a required property")
        for name in ("name", "flavorRef", *(["networks"] if version >= NETWORKS_NEEDED else [])):
            if not asked.get(name):
                raise _wrong("server", f"'{name}' is a required property")
        for name in asked.keys() - ORDERED:
            raise _wrong("server", f"Additional properties are not allowed ('{name}')")
        if len(asked.get("user_data", "")) > LONGEST_USER_DATA:
            raise _wrong("user_data", "is too long")
        flavor = next((f for f in self.flavors if f["id"] == asked["flavorRef"]), None)
        if flavor is None:
            raise refused(400, f"Flavor {asked['flavorRef']} could not be found.")
        self._check_names(asked)
        group = body.get(HINTS, {}).get("group")
        if group is not None and not _is_uuid(group):
            raise _wrong("group", f"'{group}' is not a 'uuid'")
        if group is not None and not self._knows("server group", group):
            raise refused(400, f"Instance group {group} could not be found.")
        volumes = asked.get("block_device_mapping_v2", [])
        if not volumes and not flavor["disk"]:
            raise refused(403, "Only volume-backed servers are allowed for flavors with zero disk.")
        if not volumes and not asked.get("imageRef"):
            raise refused(400, "Missing imageRef attribute")
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
                fault=(
                    NO_VALID_HOST
                    if self.no_host or asked.get("availability_zone") in self.full
                    else None
                ),
            )
            self.servers[server.id] = server
        answer = {"id": server.id, "links": [], "OS-DCF:diskConfig": "MANUAL"}
        return server, {"server": {**answer, "adminPass": "sEcrEt-admin-pass"}}

    def _check_names(self, asked: Mapping[str, Any]) -> None:
        """Raises Refused for what the order names and nobody knows."""
        if (image := asked.get("imageRef")) and not self._knows("image", image):
            raise refused(400, "Can not find requested image")
        if asked.get("key_name", "operators") not in KEYS:
            raise refused(400, "Invalid key_name provided.")
        if asked.get("availability_zone", "nova") not in ZONES:
            raise refused(400, "The requested availability zone is not available")
        for group in asked.get("security_groups", []):
            if group["name"] not in GROUPS:
                name = group["name"]
                raise refused(400, f"Unable to find security_group with name or id '{name}'")
        networks = asked.get("networks", "auto")
        for network in () if isinstance(networks, str) else networks:
            if not self._knows("network", network["uuid"]):
                raise refused(400, f"Network {network['uuid']} could not be found.")

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
            if (marker := query.get("marker")) in self.begins_anew:
                self.begins_anew.discard(marker)
                query = {name: value for name, value in query.items() if name != "marker"}
            page = self._paged(mine, [s.id for s in mine], query)
            answer: dict[str, Any] = {"servers": [self._view(s, version) for s in page]}
            if page and len(page) == self._limit(query):
                href = f"{url}?limit={len(page)}&marker={page[-1].id}"
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
            if server.shown not in TAKES_METADATA:
                state = {"BUILD": "building"}.get(server.shown, server.shown.lower())
                doing = f"Cannot 'update metadata' instance {server_id}"
                raise refused(409, f"{doing} while it is in vm_state {state}")
            merged = {**server.metadata, **_checked(body.get("metadata", {}))}
            server.metadata = _checked(merged)
            return {"metadata": server.metadata}

    def list_flavors(self, query: Mapping[str, str]) -> Any:
        ids = [flavor["id"] for flavor in self.flavors]
        return {"flavors": self._paged(self.flavors, ids, query)}

    def _paged(self, items: Sequence[T], ids: Sequence[str], query: Mapping[str, str]) -> list[T]:
        begin = 0
        if marker := query.get("marker"):
            if marker not in ids:
                raise refused(400, f"marker [{marker}] not found")
            begin = ids.index(marker) + 1
        return [*items[begin : begin + self._limit(query)]]

    def _limit(self, query: Mapping[str, str]) -> int:
        given = query.get("limit", str(self.max_limit))
        if not given.isdigit():
            raise refused(400, f"Invalid input for query parameters limit. Value: {given}.")
        return min(int(given), self.max_limit)

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
            "OS-EXT-STS:task_state": _task(server),
            "os-extended-volumes:volumes_attached": [],
        }
        if server.fault and told["status"] == "ERROR":
            told["fault"] = {"code": 500, "message": server.fault, "created": server.created}
        return told


def _task(server: Server) -> str | None:
    if server.gone_at is not None:
        return "deleting"
    return "scheduling" if server.shown == "BUILD" else None


def _checked(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict):
        raise _wrong("metadata", "is no mapping")
    if len(metadata) > MOST_ITEMS:
        raise refused(403, f"Maximum number of metadata items exceeds {MOST_ITEMS}")
    for name in metadata:
        if METADATA_NAME.fullmatch(name) is None:
            raise _wrong("metadata", f"'{name}' does not match any of the regexes")
    if any(not isinstance(v, str) or len(v) > LONGEST_VALUE for v in metadata.values()):
        raise _wrong("metadata", "is too long")
    return dict(metadata)
