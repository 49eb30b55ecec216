"""A stateful server of Azure Resource Manager over HTTP for tests, with faults on order.

Every body sent and every answer is checked against Azure's own description of its API
(tests/cloud/azure/schema.py); what contradicts it is in `wrong`, and refused.
`python -m tests.cloud.azure.server PORT` serves one in the foreground.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from tests.cloud.azure import schema as azure_schema
from tests.cloud.azure.auth import SUBSCRIPTION, TENANT, Tokens
from tests.cloud.azure.world import (
    DISKS,
    GALLERY_IMAGE,
    GROUP,
    IPS,
    NICS,
    OTHER_GROUP,
    OWN_IMAGE,
    REGION,
    ROOT,
    SIZES,
    VMS,
    Operation,
    Refused,
    Resource,
    World,
    not_found,
)
from tests.cloud.faults import Reply, plain
from tests.cloud.faults import changed as changed
from tests.cloud.json_http import CloudServer, in_foreground, json_http

KINDS = {kind.rpartition("/")[2].lower(): kind for kind in (VMS, DISKS, NICS, IPS)}
POWER = {
    "deallocate": ("PowerState/deallocating", "PowerState/deallocated"),
    "poweroff": ("PowerState/stopping", "PowerState/stopped"),
    "start": ("PowerState/starting", "PowerState/running"),
}
SUB = r"/subscriptions/(?P<sub>[^/]+)"
GROUPED = rf"{SUB}/resourcegroups/(?P<group>[^/]+)"
KIND = (
    r"providers/microsoft\.(?:compute|network)"
    r"/(?P<kind>virtualmachines|disks|networkinterfaces|publicipaddresses)"
)
COMPUTE = rf"{SUB}/providers/microsoft\.compute"
ROUTES: tuple[tuple[str, str, str, str], ...] = (
    ("GET", SUB, "subscriptions.get", ""),
    ("GET", rf"{SUB}/{KIND}", "{kind}.listAll", "{type}/read"),
    ("GET", rf"{GROUPED}/{KIND}", "{kind}.list", "{type}/read"),
    ("GET", rf"{GROUPED}/{KIND}/(?P<name>[^/]+)", "{kind}.get", "{type}/read"),
    ("PUT", rf"{GROUPED}/{KIND}/(?P<name>[^/]+)", "{kind}.put", "{type}/write"),
    ("DELETE", rf"{GROUPED}/{KIND}/(?P<name>[^/]+)", "{kind}.delete", "{type}/delete"),
    (
        "POST",
        rf"{GROUPED}/{KIND}/(?P<name>[^/]+)/(?P<deed>deallocate|poweroff|start)",
        "{kind}.{deed}",
        "{type}/{deed}/action",
    ),
    (
        "PATCH",
        rf"(?P<of>{GROUPED}/{KIND}/[^/]+)/providers/microsoft\.resources/tags/default",
        "tags.update",
        "Microsoft.Resources/tags/write",
    ),
    ("GET", rf"{COMPUTE}/skus", "skus.list", "Microsoft.Compute/skus/read"),
    (
        "GET",
        rf"{COMPUTE}/locations/(?P<region>[^/]+)/publishers/(?P<publisher>[^/]+)/artifacttypes"
        r"/vmimage/offers/(?P<offer>[^/]+)/skus/(?P<sku>[^/]+)/versions(/(?P<version>[^/]+))?",
        "images.market",
        "Microsoft.Compute/locations/publishers/artifacttypes/offers/skus/versions/read",
    ),
    (
        "GET",
        rf"{GROUPED}/providers/microsoft\.compute/galleries/[^/]+/images/[^/]+/versions",
        "galleries.versions",
        "Microsoft.Compute/galleries/images/versions/read",
    ),
    (
        "GET",
        rf"{GROUPED}/providers/microsoft\.compute/images/[^/]+",
        "images.get",
        "Microsoft.Compute/images/read",
    ),
    (
        "GET",
        rf"{GROUPED}/providers/microsoft\.authorization/permissions",
        "permissions.list",
        "Microsoft.Authorization/permissions/read",
    ),
    ("GET", rf"{COMPUTE}/locations/[^/]+/operations/(?P<id>[^/]+)", "operations.get", ""),
)
"""Verb, path, the method's name here, and the permission that Azure asks for."""
LINKED = {
    "networkInterfaceConfigurations": (f"{NICS}/write", f"{NICS}/join/action"),
    "publicIPAddressConfiguration": (f"{IPS}/write", f"{IPS}/join/action"),
    "networkSecurityGroup": ("Microsoft.Network/networkSecurityGroups/join/action",),
    "subnet": ("Microsoft.Network/virtualNetworks/subnets/join/action",),
    "osDisk": (f"{DISKS}/write",),
}
"""What the creator of a machine needs for each thing that its body orders or names."""


@dataclass(frozen=True)
class Call:
    """One request as it came over the wire; headers by their lower-case names.

    `action` is its method, such as virtualMachines.put, `places` what its path names, and
    `permissions` what Azure asks of the caller.
    """

    action: str
    path: str
    places: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    permissions: frozenset[str]
    headers: Mapping[str, str] = field(repr=False)


def refusal(
    code: str, status: int, message: str = "scripted", retry_after: str | None = None
) -> Callable[[], Reply]:
    """An error answer as Azure words it."""
    return plain(status, json.dumps({"error": {"code": code, "message": message}}), retry_after)


class AzureServer(CloudServer):
    """A subscription on a port of loopback, in threads of this process.

    `calls` is every request so far. `page_limit` is the most items on one page. `allowed` are the
    actions of the caller's role on the group, and `allowed_everywhere` on the subscription, `*` for
    any.
    """

    def __init__(self, port: int = 0) -> None:
        super().__init__(json_http(self.answer, port))
        self.tokens = Tokens()
        self.reset()

    def reset(self) -> None:
        """An empty subscription, no faults, nothing recorded."""
        with self._lock:
            self.world = World()
            self.start_afresh()
            self.page_limit = 50
            self.allowed: set[str] = {"*"}
            self.allowed_everywhere: set[str] = {"*"}
            self.tokens.reset()

    def forget(self, node_id: str) -> None:
        """The machine is gone at once, with all that goes with it."""
        with self._lock:
            self.world.end(self.world.machine(node_id)["id"])

    @contextmanager
    def held(self) -> Iterator[None]:
        """No request is answered meanwhile, and what is due is done."""
        with self._lock:
            self.world.settle()
            yield

    def answer(
        self, verb: str, target: str, headers: Mapping[str, str], sent: bytes
    ) -> Reply | None:
        """The answer to a request; None to cut the connection."""
        url = urlsplit(target)
        path, query = unquote(url.path), dict(parse_qsl(url.query, keep_blank_values=True))
        if (told := self.tokens.answer(verb, path, query, headers, sent)) is not None:
            self.tokens.requests += 1
            status, said = told
            # Arc's agent says where the key is.
            realm = {"WWW-Authenticate": said["error_description"]} if status == 401 else {}
            return self.faulty("token", lambda: Reply(status, json.dumps(said).encode(), realm))
        found = _route(verb, path)
        if found is None:
            return self._mistake(f"{verb} {path}: no such method")
        method, permission, places = found
        body = json.loads(sent) if sent else None
        call = Call(method, path, places, query, body, _needed(permission, body), headers)
        with self._lock:
            self.calls.append(call)
        if not self.tokens.knows(headers.get("authorization", "")):
            return refusal("InvalidAuthenticationToken", 401, "The access token is invalid.")()
        if not re.fullmatch(r"20\d\d-\d\d-\d\d", query.get("api-version", "")):
            return self._mistake(f"{verb} {path}: no api-version")
        if verb == "PUT":
            kind = KINDS[places["kind"].lower()].rpartition("/")[2]
            if wrong := azure_schema.wrong_in(kind, body, sent=True):
                return self._mistake(*wrong)
        host = f"http://{headers['host']}"
        return self.faulty(method, lambda: self._linked(self._checked(call), host))

    def _linked(self, reply: Reply, host: str) -> Reply:
        """Its links lead to the name by which Azure was asked."""
        mine, asked = self.url.encode(), host.encode()
        headers = {name: text.replace(self.url, host) for name, text in reply.headers.items()}
        return Reply(reply.status, reply.body.replace(mine, asked), headers)

    def _mistake(self, *wrong: str) -> Reply:
        with self._lock:
            self.wrong += wrong
        return refusal("InvalidRequestContent", 400, "; ".join(wrong))()

    def _checked(self, call: Call) -> Reply:
        try:
            self._check_place(call.places)
            self._check_rights(call)
            with self._lock:
                self.world.settle()
                return self._work(call)
        except Refused as no:
            return refusal(no.code, no.status, no.message)()

    @staticmethod
    def _check_place(places: Mapping[str, str]) -> None:
        if places["sub"].lower() != SUBSCRIPTION:
            raise Refused(404, "SubscriptionNotFound", f"'{places['sub']}' could not be found.")
        known = (GROUP.lower(), OTHER_GROUP.lower())
        if places.get("group", known[0]).lower() not in known:
            text = f"Resource group '{places['group']}' could not be found."
            raise Refused(404, "ResourceGroupNotFound", text)

    def _check_rights(self, call: Call) -> None:
        grouped = "group" in call.places
        allowed = self.allowed_everywhere | (self.allowed if grouped else set())
        for one in call.permissions:
            if not any(fnmatch(one.lower(), pattern.lower()) for pattern in allowed):
                text = f"The client does not have authorization to perform action '{one}' over"
                raise Refused(403, "AuthorizationFailed", f"{text} scope '{call.path}'.")

    def _work(self, call: Call) -> Reply:
        method, places, path, query = call.action, call.places, call.path, call.query
        kind = KINDS.get(places.get("kind", "").lower(), "")
        if method.endswith((".list", ".listAll")) and kind:
            return self._list(self._listed(kind, places, query), path, query, kind)
        if kind and method.endswith(".get"):
            return self._told(self._shown(self.world.get(path), query), kind)
        if kind and method != "tags.update":
            return self._changed(call, kind)
        match method:
            case "subscriptions.get":
                name = {"displayName": "tests", "state": "Enabled"}
                about = {"id": ROOT, "subscriptionId": SUBSCRIPTION, "tenantId": TENANT}
                return self._told({**about, **name})
            case "tags.update":
                if call.body.get("operation") != "Merge":
                    raise Refused(400, "InvalidRequestContent", "only Merge is served here")
                one = self.world.merge_tags(places["of"], call.body["properties"]["tags"])
                return self._told({"id": path, "properties": {"tags": one["tags"]}})
            case "operations.get":
                return self._operation(places["id"])
            case "permissions.list":
                return self._told({"value": [{"actions": sorted(self.allowed), "notActions": []}]})
            case "images.get":
                if path.lower() != OWN_IMAGE.lower():
                    raise not_found(path)
                return self._told({"id": path, "location": REGION})
            case "galleries.versions":
                if not path.lower().startswith(GALLERY_IMAGE.lower()):
                    raise not_found(path)
                return self._list(self._gallery(), path, query, "x/versions")
            case "images.market":
                return self._market(places)
            case "skus.list":
                return self._list(self._skus(), path, query, "x/skus")
        raise Refused(501, "NotImplemented", f"{method} is not served here")

    def _listed(
        self, kind: str, places: Mapping[str, str], query: Mapping[str, str]
    ) -> list[Resource]:
        under = f"{ROOT}/resourceGroups/{places['group']}" if "group" in places else ROOT
        found = self.world.of(kind, under)
        if query.get("statusOnly") == "true":
            keep = ("id", "name", "type", "location")
            return [
                {
                    **{name: one[name] for name in keep},
                    "properties": {
                        "instanceView": one["properties"].get("instanceView", {"statuses": []})
                    },
                }
                for one in found
            ]
        return [self._shown(one, {}) for one in found]

    @staticmethod
    def _shown(one: Resource, query: Mapping[str, str]) -> Resource:
        """A machine's instance view is only told on request."""
        if query.get("$expand") == "instanceView" or "instanceView" not in one["properties"]:
            return one
        about = {name: value for name, value in one["properties"].items() if name != "instanceView"}
        return {**one, "properties": about}

    def _changed(self, call: Call, kind: str) -> Reply:
        world, path, body = self.world, call.path, call.body
        name = call.action.partition(".")[2]
        if name == "put" and kind == VMS:
            only_new = call.headers.get("if-none-match") == "*"
            made, operation, new = world.put_machine(path, body, only_new=only_new)
            return self._told(self._shown(made, {}), kind, 201 if new else 200, operation)
        if name == "put":
            adds = {DISKS: world.add_disk, NICS: world.add_interface, IPS: world.add_address}
            made = adds[kind](path, body.get("tags") or {})
            return self._told(made, kind, 200)
        if name == "delete":
            if path.lower() not in world.things:
                return Reply(204, b"")
            if kind == VMS:
                return self._told(None, kind, 202, world.delete_machine(path))
            return self._told(None, kind, 202, world.delete_thing(kind, path))
        during, after = POWER[name.lower()]
        return self._told(None, kind, 202, world.power(path.rpartition("/")[0], during, after))

    def _told(
        self,
        told: Resource | None,
        kind: str = "",
        status: int = 200,
        operation: Operation | None = None,
    ) -> Reply:
        headers = {}
        if operation is not None:
            place = f"{ROOT}/providers/Microsoft.Compute/locations/{REGION}/operations"
            link = f"{self.url}{place}/{operation.id}?api-version=2024-11-01"
            headers = {"Azure-AsyncOperation": link, "Location": link}
        if told is not None and kind:
            self._check(kind, told)
        return Reply(status, b"" if told is None else json.dumps(told).encode(), headers)

    def _check(self, kind: str, told: Resource) -> None:
        name = kind.rpartition("/")[2]
        if wrong := azure_schema.wrong_in(name, told, sent=False):
            self.wrong += [f"our own answer: {line}" for line in wrong]
            raise Refused(500, "InternalServerError", "; ".join(wrong))

    def _operation(self, id: str) -> Reply:
        operation = self.world.operations.get(id)
        if operation is None:
            raise Refused(404, "NotFound", f"The entity {id} was not found.")
        told: Resource = {
            "name": id,
            "startTime": operation.started,
            "status": operation.status,
        }
        if operation.status == "Failed" and operation.failure is not None:
            code, message = operation.failure
            told["error"] = {"code": code, "message": message}
        return self._told(told)

    def _list(self, items: list[Resource], path: str, query: Mapping[str, str], kind: str) -> Reply:
        begin = int(query.get("$skiptoken", "0"))
        end = begin + self.page_limit
        page = copy.deepcopy(items[begin:end])
        for one in page:
            self._check(kind, one)
        told: Resource = {"value": page}
        if end < len(items):
            kept = {**query, "$skiptoken": str(end)}
            # Azure's links have other letters in upper case than the request had.
            asked = "&".join(f"{name}={quote(value)}" for name, value in kept.items())
            told["nextLink"] = (
                f"{self.url}{path.replace('/subscriptions', '/Subscriptions')}?{asked}"
            )
        return self._told(told)

    def _gallery(self) -> list[Resource]:
        return [
            {
                "id": f"{GALLERY_IMAGE}/versions/{name}",
                "name": name,
                "location": REGION,
                "properties": {
                    "provisioningState": "Succeeded",
                    "publishingProfile": {
                        "excludeFromLatest": hidden,
                        # Azure writes a region's name for people here.
                        "targetRegions": [{"name": "East US", "excludeFromLatest": False}],
                    },
                },
            }
            for name, hidden in self.world.gallery.items()
        ]

    def _market(self, places: Mapping[str, str]) -> Reply:
        found = self.world.versions(places["publisher"], places["offer"], places["sku"])
        if not found or places["version"] not in (None, *found):
            raise Refused(404, "NotFound", "Artifact: VMImage was not found.")
        told: Any = [{"name": one, "location": REGION} for one in found]
        if places["version"] is not None:
            told = {"name": places["version"], "location": REGION, "properties": {}}
        return Reply(200, json.dumps(told).encode())

    def _skus(self) -> list[Resource]:
        return [
            {
                "resourceType": "virtualMachines",
                "name": name,
                "locations": [REGION],
                "capabilities": [
                    {"name": "vCPUs", "value": str(cores)},
                    {"name": "MemoryGB", "value": str(ram)},
                    {"name": "MaxResourceVolumeMB", "value": str(disk * 1024)},
                    {"name": "LowPriorityCapable", "value": str(not name.startswith("Standard_A"))},
                ],
                "restrictions": [
                    {
                        "type": "Location",
                        "values": [REGION],
                        "reasonCode": "NotAvailableForSubscription",
                    }
                ]
                if name in self.world.restricted
                else [],
            }
            for name, (cores, ram, disk) in SIZES.items()
        ]


def _route(verb: str, path: str) -> tuple[str, str, dict[str, str]] | None:
    """The method's name, its permission, and what the path names."""
    for wanted, pattern, method, permission in ROUTES:
        found = re.fullmatch(pattern, path, re.IGNORECASE)
        if wanted == verb and found is not None:
            places = found.groupdict()
            kind = KINDS.get((places.get("kind") or "").lower(), "")
            names = {"kind": kind.rpartition("/")[2], "type": kind, "deed": places.get("deed")}
            return method.format(**names), permission.format(**names), places
    return None


def _needed(permission: str, body: Any) -> frozenset[str]:
    """The permission, and those of what a body orders beside."""
    needed = {permission} if permission else set()
    if permission == f"{VMS}/write":
        text = json.dumps(body)
        needed |= {one for key, more in LINKED.items() if f'"{key}"' in text for one in more}
    return frozenset(needed)


@functools.cache
def shared() -> AzureServer:
    """One server for all tests of this process."""
    return AzureServer().start()


if __name__ == "__main__":
    in_foreground(AzureServer)
