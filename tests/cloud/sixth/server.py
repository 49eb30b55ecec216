"""A stateful server of DigitalOcean's API v2 over HTTP for tests, with faults on order."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from tests.cloud.faults import FaultsOnOrder, Reply
from tests.cloud.json_http import JsonHttp

Resource = dict[str, Any]

TOKEN, READ_ONLY = "dop_v1_full", "dop_v1_read"
ACCOUNT = "b6fr89dbf6d9156cace5f3c78dc9851d957381ef"
REGION, OTHER_REGION = "fra1", "nyc3"
IMAGES = {"debian-12-x64": 129211873, "ubuntu-24-04-x64": 155133621}
IMAGE = "debian-12-x64"
KEYS = frozenset({"512189", "3b:16:bf:e4:8b:00:8b:b8:59:8c:a9:d3:f0:19:45:fa"})
MOST_PER_PAGE = 200
_ID = re.compile(r"/(droplets|images|tags)/[^/]+")
TAG = re.compile(r"[A-Za-z0-9:_-]{1,255}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}")


def _size(slug: str, cores: int, ram: int, disk: int, price: float, *regions: str) -> Resource:
    return {
        "slug": slug,
        "memory": ram,
        "vcpus": cores,
        "disk": disk,
        "transfer": 1.0,
        "price_monthly": round(price * 672, 2),
        "price_hourly": price,
        "regions": list(regions),
        "available": True,
    }


SIZES = {
    one["slug"]: one
    for one in (
        _size("s-1vcpu-1gb", 1, 1024, 25, 0.00893, REGION, OTHER_REGION),
        _size("s-2vcpu-4gb", 2, 4096, 80, 0.03571, REGION, OTHER_REGION),
        _size("c-8", 8, 16384, 100, 0.25, OTHER_REGION),
    )
}


@dataclass(frozen=True)
class Call:
    """One request as it came over the wire."""

    action: str
    """What a fault goes by, such as `GET /v2/droplets/ID`."""
    path: str
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str] = field(repr=False)


class Refused(Exception):
    """An error answer in DigitalOcean's words."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        body = {
            "id": code,
            "message": message,
            "request_id": "4d9d8375-3c56-4925-a3e7-eb137fed17e9",
        }
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        self.reply = Reply(status, json.dumps(body).encode(), told)


def refusal(status: int, code: str, message: str, **headers: str) -> Callable[[], Reply]:
    """The same for a fault on order."""
    return lambda: Refused(status, code, message, **headers).reply


def not_found() -> Refused:
    return Refused(404, "not_found", "The resource you were accessing could not be found.")


def wrong(message: str) -> Refused:
    return Refused(422, "unprocessable_entity", message)


class DigitalOceanServer(FaultsOnOrder):
    """An account on a port of loopback, in threads of this process.

    `boot_s`: seconds that a new droplet takes. `ends_nothing`: destroys are accepted and not done.
    `left`: requests of this hour that are left. `at_page` is called after each page of a list.
    """

    def __init__(self, port: int = 0) -> None:
        super().__init__()
        self._http = JsonHttp(self.answer, port)
        self.port, self.url = self._http.port, self._http.url
        self.reset()

    def start(self) -> DigitalOceanServer:
        self._http.start()
        return self

    def reset(self) -> None:
        """An empty account, no faults, nothing recorded."""
        with self._lock:
            self.start_afresh()
            self.droplets: dict[str, Resource] = {}
            self.user_data: dict[str, str] = {}
            self._due: dict[int, float] = {}
            self.tags: dict[str, str] = {}
            self.numbers = itertools.count(3_164_444)
            self.boot_s = 0.0
            self.ends_nothing = False
            self.left: int | None = None
            self.limit = 1000
            self.at_page: Callable[[], object] = lambda: None

    def answer(
        self, verb: str, target: str, headers: Mapping[str, str], sent: bytes
    ) -> Reply | None:
        """The answer to a request; None to cut the connection."""
        url = urlsplit(target)
        path, query = unquote(url.path), dict(parse_qsl(url.query))
        action = verb + " " + _ID.sub(r"/\1/ID", path)
        body = json.loads(sent) if sent else None
        with self._lock:
            self.calls.append(Call(action, path, query, body, headers))
        fault = self.fault_for(action)
        if fault is not None and fault.before is not None:
            return fault.before()
        try:
            reply = self._checked(verb, path, query, body, headers)
        except Refused as no:
            reply = no.reply
        if fault is not None and fault.after is not None:
            return fault.after(reply)
        return reply

    def put(self, node_id: str, status: str) -> None:
        """The droplet gets that status."""
        with self._lock:
            self._settle()
            self.droplets[node_id]["status"] = status

    def forget(self, node_id: str) -> None:
        """The droplet, where there is one, is no more."""
        with self._lock:
            self.droplets.pop(node_id, None)

    def make(self, **body: Any) -> str:
        """A droplet that somebody else made; its id."""
        given = {
            "name": "by-hand",
            "region": REGION,
            "size": "s-1vcpu-1gb",
            "tags": ["owner:alice"],
        }
        with self._lock:
            return str(
                self._create({**given, "region": REGION, "image": IMAGE, **body})["droplet"]["id"]
            )

    def _checked(
        self, verb: str, path: str, query: Mapping[str, str], body: Any, headers: Mapping[str, str]
    ) -> Reply:
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if token not in (TOKEN, READ_ONLY):
            raise Refused(401, "unauthorized", "Unable to authenticate you")
        if token == READ_ONLY and verb != "GET":
            raise Refused(403, "forbidden", "You are not authorized to perform this operation")
        with self._lock:
            if self.left == 0:
                limits = {"ratelimit_limit": "5000", "ratelimit_remaining": "0"}
                reset = str(int(time.time()) + 90)
                raise Refused(
                    429,
                    "too_many_requests",
                    "API Rate limit exceeded.",
                    **limits,
                    ratelimit_reset=reset,
                )
            self.left = None if self.left is None else self.left - 1
            self._settle()
            status, told = self._work(verb, path, query, body)
            reply = Reply(status, b"" if told is None else json.dumps(told).encode())
            if verb == "GET" and "meta" in (told or {}):
                self.at_page()
        return reply

    def _work(
        self, verb: str, path: str, query: Mapping[str, str], body: Any
    ) -> tuple[int, Resource | None]:
        match [verb, *path.strip("/").split("/")]:
            case ["GET", "v2", "account"]:
                team = {"uuid": ACCOUNT, "name": "My Team"}
                me = {"droplet_limit": self.limit, "uuid": ACCOUNT, "status": "active"}
                return 200, {"account": {**me, "email": "sammy@example.com", "team": team}}
            case ["GET", "v2", "droplets"]:
                return 200, self._page("droplets", self._chosen(query), query)
            case ["GET", "v2", "sizes"]:
                return 200, self._page("sizes", list(SIZES.values()), query)
            case ["GET", "v2", "images", image]:
                return 200, {"image": _image(image)}
            case ["GET", "v2", "droplets", node_id]:
                return 200, {"droplet": self._droplet(node_id)}
            case ["POST", "v2", "droplets"]:
                return 202, self._create(body)
            case ["DELETE", "v2", "droplets", node_id]:
                if self._droplet(node_id)["locked"]:
                    raise wrong("Droplet already has a pending event.")
                if not self.ends_nothing:
                    del self.droplets[node_id]
                return 204, None
            case ["POST", "v2", "tags"]:
                if not TAG.fullmatch(body["name"]):
                    raise wrong("Tag name has invalid characters")
                if body["name"].lower() in self.tags:
                    raise wrong("Tag already exists")
                return 201, {"tag": {"name": self._tag(body["name"]), "resources": {"count": 0}}}
            case ["POST", "v2", "tags", name, "resources"]:
                if self.tags.get(name.lower()) != name:
                    raise not_found()
                droplets = [self._droplet(one["resource_id"]) for one in body["resources"]]
                for one in droplets:
                    one["tags"] = sorted({*one["tags"], name})
                return 204, None
        raise not_found()

    def _chosen(self, query: Mapping[str, str]) -> list[Resource]:
        """By tag; in the order of their numbers."""
        tag = query.get("tag_name")
        own = self.tags.get((tag or "").lower())
        return [one for one in self.droplets.values() if tag is None or own in one["tags"]]

    def _page(self, name: str, items: list[Resource], query: Mapping[str, str]) -> Resource:
        size, page = int(query.get("per_page", "20")), int(query.get("page", "1"))
        if not 1 <= size <= MOST_PER_PAGE:
            raise wrong("per_page must be between 1 and 200")
        last = max(1, -(-len(items) // size))
        pages: dict[str, str] = {}
        near = {"first": 1, "prev": page - 1} if page > 1 else {}
        far = {"next": page + 1, "last": last} if page < last else {}
        for word, number in {**near, **far}.items():
            asked = urlencode({**query, "page": number, "per_page": size})
            pages[word] = f"{self.url}/v2/{name}?{asked}"
        return {
            name: items[(page - 1) * size : page * size],
            "links": {"pages": pages} if pages else {},
            "meta": {"total": len(items)},
        }

    def _droplet(self, node_id: str) -> Resource:
        if str(node_id) not in self.droplets:
            raise not_found()
        return self.droplets[str(node_id)]

    def _create(self, body: Resource) -> Resource:
        size = SIZES.get(body["size"])
        if not NAME.fullmatch(body["name"]):
            raise wrong("Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -)")
        if body["region"] not in (REGION, OTHER_REGION):
            raise wrong("You specified an invalid region for Droplet creation.")
        if size is None:
            raise wrong("You specified an invalid size for Droplet creation.")
        if body["region"] not in size["regions"]:
            raise wrong("Size is not available in this region.")
        if str(body["image"]) not in {*IMAGES, *map(str, IMAGES.values())}:
            raise wrong("You specified an invalid image for Droplet creation.")
        if not set(map(str, body.get("ssh_keys") or ())) <= KEYS:
            raise wrong("1234 are invalid key identifiers for Droplet creation.")
        if len((body.get("user_data") or "").encode()) > 65_536:
            raise wrong("User data exceeds the maximum length of 65536 bytes")
        if not all(TAG.fullmatch(tag) for tag in body.get("tags") or ()):
            raise wrong("Tag name has invalid characters")
        if len(self.droplets) >= self.limit:
            raise wrong("creating this/these droplet(s) will exceed your droplet limit")
        number = next(self.numbers)
        made = {
            "id": number,
            "name": body["name"],
            "memory": size["memory"],
            "vcpus": size["vcpus"],
            "disk": size["disk"],
            "locked": False,
            "status": "new",
            "kernel": None,
            "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "features": [],
            "backup_ids": [],
            "next_backup_window": None,
            "snapshot_ids": [],
            "image": _image(str(body["image"])),
            "volume_ids": [],
            "size": size,
            "size_slug": size["slug"],
            "networks": {"v4": [], "v6": []},
            "region": {"name": "a region", "slug": body["region"], "available": True},
            "tags": sorted({self._tag(tag) for tag in body.get("tags") or ()}),
            "vpc_uuid": body.get("vpc_uuid") or "760e09ef-dc84-11e8-981e-3cfdfeaae000",
        }
        self.droplets[str(number)] = made
        self.user_data[str(number)] = body.get("user_data") or ""
        self._due[number] = time.monotonic() + self.boot_s
        actions = [{"id": 7515, "rel": "create", "href": f"{self.url}/v2/actions/7515"}]
        return {"droplet": copy.deepcopy(made), "links": {"actions": actions}}

    def _tag(self, name: str) -> str:
        """The tag as it was first written; it is made where it is not there."""
        return self.tags.setdefault(name.lower(), name)

    def _settle(self) -> None:
        for one in self.droplets.values():
            if time.monotonic() >= self._due.get(one["id"], float("inf")):
                del self._due[one["id"]]
                one["status"] = "active"
                low = one["id"] % 250
                one["networks"]["v4"] = [
                    {"ip_address": f"203.0.113.{low}", "type": "public"},
                    {"ip_address": f"10.124.0.{low}", "type": "private"},
                ]


def _image(wanted: str) -> Resource:
    for slug, number in IMAGES.items():
        if wanted in (slug, str(number)):
            return {
                "id": number,
                "name": slug,
                "distribution": "Debian",
                "slug": slug,
                "public": True,
                "regions": [REGION, OTHER_REGION],
                "created_at": "2024-09-03T02:05:57Z",
                "min_disk_size": 15,
                "type": "base",
                "size_gigabytes": 2.36,
                "description": slug,
                "tags": [],
                "status": "available",
            }
    raise not_found()


@functools.cache
def shared() -> DigitalOceanServer:
    """One server for all tests of this process."""
    return DigitalOceanServer().start()
