"""A stateful server of compute v1 over HTTP for tests, with faults on order.

It also tells which permissions one has, as Google's Resource Manager and IAM APIs do. Every request
and every answer is checked against Google's own discovery documents; what contradicts them is in
`wrong`, and refused. `python -m tests.cloud.gce.server PORT` serves one in the foreground.
"""

from __future__ import annotations

import base64
import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.cloud.faults import Reply, plain
from tests.cloud.faults import changed as changed
from tests.cloud.gce import discovery as gce_discovery
from tests.cloud.gce.auth import Tokens
from tests.cloud.gce.filter import NoFilter, compiled
from tests.cloud.gce.project import (
    IMAGES,
    MACHINES,
    NAME,
    NUMBER,
    REGIONS,
    ZONES,
    Project,
    Refused,
    Resource,
    not_found,
)
from tests.cloud.json_http import CloudServer, in_foreground, json_http

LONGEST_WAIT_S = 120.0
NARROW = "Request had insufficient authentication scopes."


@dataclass(frozen=True)
class Call:
    """One request as it came over the wire, by its method, such as instances.insert."""

    action: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str] = field(repr=False)


def refusal(
    reason: str, status: int, message: str = "scripted", retry_after: str | None = None
) -> Callable[[], Reply]:
    """An error answer as Google words it."""
    said = {"message": message, "domain": "global", "reason": reason}
    body = {"error": {"code": status, "message": message, "errors": [said]}}
    return plain(status, json.dumps(body), retry_after)


class GceServer(CloudServer):
    """A project on a port of loopback, in threads of this process.

    `calls` is every request so far. `page_limit` is the most items on one page, whatever
    maxResults asks for, as Google may do. `denied` are the permissions that the caller lacks.
    """

    def __init__(self, port: int = 0) -> None:
        super().__init__(json_http(self.answer, port))
        self.tokens = Tokens()
        self.reset()

    def reset(self) -> None:
        """An empty project, no faults, nothing recorded."""
        with self._lock:
            self.project = Project(self.url)
            self.denied: set[str] = set()
            self.start_afresh()
            self.page_limit: int | None = None
            self.tokens.reset()

    @contextmanager
    def held(self) -> Iterator[None]:
        """No request is answered meanwhile, and what is due is done."""
        with self._lock:
            self.project.settle()
            yield

    def answer(
        self, verb: str, target: str, headers: Mapping[str, str], sent: bytes
    ) -> Reply | None:
        """The answer to a request; None to cut the connection."""
        url = urlsplit(target)
        path, query = unquote(url.path), dict(parse_qsl(url.query, keep_blank_values=True))
        if (told := self.tokens.answer(verb, path, headers, sent)) is not None:
            said = told[1] if isinstance(told[1], str) else json.dumps(told[1])
            return self.faulty("token", lambda: Reply(told[0], said.encode()))
        found = gce_discovery.find(verb, path)
        if found is None:
            return self._mistake(f"{verb} {path}: no such method")
        method, places = found
        body = json.loads(sent) if sent else None
        with self._lock:
            self.calls.append(Call(method.name, places, query, body, headers))
        if not self.tokens.knows(headers.get("authorization", "")):
            return refusal("authError", 401, "Invalid Credentials")()
        if not method.scopes & self.tokens.scopes_of(headers["authorization"]):
            return refusal("insufficientPermissions", 403, NARROW)()
        if wrong := gce_discovery.wrong_in_request(method, places, query, body):
            return self._mistake(*wrong)
        return self.faulty(method.name, lambda: self._checked(method, places, query, body))

    def _mistake(self, *wrong: str) -> Reply:
        with self._lock:
            self.wrong += wrong
        return refusal("invalid", 400, "; ".join(wrong))()

    def _checked(
        self,
        method: gce_discovery.Method,
        places: Mapping[str, str],
        query: Mapping[str, str],
        body: Any,
    ) -> Reply:
        try:
            if places.get("project", NAME) not in IMAGES:
                raise not_found(f"projects/{places.get('project')}")
            if method.name == "zoneOperations.wait":
                self._wait(places["zone"], places["operation"])
            with self._lock:
                self.project.settle()
                told = self._work(method.name, places, query, body)
                encoded = json.dumps(told).encode()
        except Refused as no:
            return refusal(no.reason, no.status, no.message)()
        except NoFilter as no:
            return refusal("invalid", 400, f"Invalid value for field 'filter': {no}")()
        if wrong := gce_discovery.wrong_in_answer(method, json.loads(encoded)):
            with self._lock:
                self.wrong += [f"our own answer: {line}" for line in wrong]
            return plain(500, "; ".join(wrong))()
        return Reply(200, encoded)

    def _wait(self, zone: str, name: str) -> None:
        """Until the operation is done, as zoneOperations.wait does."""
        until = time.monotonic() + LONGEST_WAIT_S
        while time.monotonic() < until:
            with self._lock:
                self.project.settle()
                operation = self.project.operations.get((zone, name))
                if operation is None or operation["status"] == "DONE":
                    return
            time.sleep(0.02)

    def _work(
        self, method: str, places: Mapping[str, str], query: Mapping[str, str], body: Any
    ) -> Resource:
        project, zone = self.project, places.get("zone", "")
        match method:
            case "projects.get":
                return {"kind": "compute#project", "name": NAME, "id": NUMBER}
            case _ if method.endswith("testIamPermissions"):
                had = [name for name in body["permissions"] if name not in self.denied]
                # As with Google, no field at all for none of them.
                return {"permissions": had} if had else {}
            case "zones.get":
                if zone not in ZONES:
                    raise not_found(f"zones/{zone}")
                return {"kind": "compute#zone", "name": zone, "status": "UP"}
            case "images.get" | "images.getFromFamily":
                return self._image(places)
            case "machineTypes.get":
                found = [one for one in self._machines(zone) if one["name"] in places.values()]
                if not found:
                    raise not_found(f"zones/{zone}/machineTypes/{places['machineType']}")
                return found[0]
            case "machineTypes.list":
                return self._list(self._machines(zone), query, "MachineType", "MachineTypeList")
            case "instances.list":
                here = [one for (at, _), one in sorted(project.instances.items()) if at == zone]
                return self._list(here, query, "Instance", "InstanceList")
            case "instances.aggregatedList":
                return self._aggregated(project.instances, "instances", query, "Instance")
            case "disks.aggregatedList":
                return self._aggregated(project.disks, "disks", query, "Disk")
            case "instances.get":
                return project.instance(zone, places["instance"])
            case "disks.get":
                return project.disk(zone, places["disk"])
            case "zoneOperations.get" | "zoneOperations.wait":
                key = zone, places["operation"]
                if key not in project.operations:
                    raise not_found(f"zones/{zone}/operations/{key[1]}")
                return project.operations[key]
        name = places.get("instance") or places.get("disk") or ""
        changes: dict[str, Callable[[], Resource]] = {
            "instances.insert": lambda: project.insert(zone, body),
            "instances.delete": lambda: project.delete(zone, name),
            "instances.stop": lambda: project.stop(zone, name),
            "instances.setLabels": lambda: project.set_labels(zone, name, body),
            "instances.attachDisk": lambda: project.attach(zone, name, body),
            "disks.insert": lambda: project.insert_disk(zone, body),
            "disks.delete": lambda: project.delete_disk(zone, name),
        }
        if method not in changes:
            raise Refused(501, "notImplemented", f"{method} is not served here")
        return project.once(
            query.get("requestId"), [method, *places.items(), body], changes[method]
        )

    def _image(self, places: Mapping[str, str]) -> Resource:
        family, name = places.get("family"), places.get("image")
        return self.project.image(places["project"], name=name, family=family)

    def _machines(self, zone: str) -> list[Resource]:
        return [
            {
                "kind": "compute#machineType",
                "id": str(number),
                "name": name,
                "guestCpus": cores,
                "memoryMb": ram,
                "architecture": "X86_64",
                "isSharedCpu": name.endswith("micro"),
                "zone": zone,
                "selfLink": self.project.link(f"zones/{zone}/machineTypes/{name}"),
            }
            for number, (name, (cores, ram)) in enumerate(MACHINES.items(), 1)
        ]

    def _list(
        self, items: list[Resource], query: Mapping[str, str], schema: str, kind: str
    ) -> Resource:
        page, token = self._page(items, query, schema)
        answer: Resource = {"kind": f"compute#{kind[0].lower()}{kind[1:]}", "items": page}
        return {**answer, "nextPageToken": token} if token else answer

    def _aggregated(
        self, things: dict[tuple[str, str], Resource], name: str, query: Mapping[str, str], of: str
    ) -> Resource:
        reachable = [
            one for (zone, _), one in sorted(things.items()) if zone not in self.project.unreachable
        ]
        page, token = self._page(reachable, query, of)
        scopes: dict[str, Resource] = {}
        for scope in (*(f"regions/{one}" for one in REGIONS), *(f"zones/{one}" for one in ZONES)):
            here = [one for one in page if one["zone"].endswith(f"/{scope}")]
            code, said = "NO_RESULTS_ON_PAGE", f"There are no results for scope '{scope}' here."
            if scope.removeprefix("zones/") in self.project.unreachable:
                code, said = "UNREACHABLE", f"A given scope cannot be reached: {scope}"
            data = [{"key": "scope", "value": scope}]
            warning = {"warning": {"code": code, "message": said, "data": data}}
            scopes[scope] = {name: here} if here else warning
        answer: Resource = {"kind": f"compute#{of.lower()}AggregatedList", "items": scopes}
        if self.project.unreachable:
            answer["unreachables"] = [f"zones/{zone}" for zone in sorted(self.project.unreachable)]
        return {**answer, "nextPageToken": token} if token else answer

    def _page(
        self, items: list[Resource], query: Mapping[str, str], schema: str
    ) -> tuple[list[Resource], str | None]:
        if "filter" in query:
            matches = compiled(query["filter"], schema)
            items = [one for one in items if matches(one)]
        limit = int(query.get("maxResults", "500"))
        limit = min(limit, self.page_limit or limit)
        try:
            begin = int(base64.b64decode(query.get("pageToken", ""), validate=True) or b"0")
        except ValueError:
            raise Refused(400, "invalid", "Invalid value for field 'pageToken'") from None
        end = begin + limit
        token = base64.b64encode(b"%d" % end).decode() if end < len(items) else None
        return items[begin:end], token


@functools.cache
def shared() -> GceServer:
    """One server for all tests of this process."""
    return GceServer().start()


if __name__ == "__main__":
    in_foreground(GceServer)
