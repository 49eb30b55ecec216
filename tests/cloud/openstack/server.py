"""A stateful OpenStack over HTTP for tests, with faults on order.

It has keystone, nova, neutron, cinder and glance. OpenStack's own SDK works against it as our
adapter does (test_sdk.py), which keeps both honest.
`python -m tests.cloud.openstack.server PORT` serves one in the foreground.
"""

from __future__ import annotations

import functools
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.cloud.faults import Reply
from tests.cloud.json_http import CloudServer, Tls, in_foreground, json_http
from tests.cloud.openstack import schema as openstack_schema
from tests.cloud.openstack.account import Account
from tests.cloud.openstack.nova import MINIMUM, Nova, Refused, refused
from tests.cloud.openstack.things import ADDRESS, PORT, VOLUME, Things, page

REGION = "RegionOne"
USER, PASSWORD, DOMAIN = "manager", "s3cret-password", "Default"
PROJECT, PROJECT_ID = "compute", 32 * "a"
CREDENTIAL, CREDENTIAL_SECRET = 32 * "c", "s3cret-credential"
DENIED = "The request you have made requires authentication."


@dataclass(frozen=True)
class Call:
    """One request as it came over the wire, by its action: `compute GET /servers/{id}`."""

    action: str
    path: str
    query: Mapping[str, str]
    body: Any = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


def answering(error: Refused) -> Callable[[], Reply]:
    return lambda: _reply(error.status, error.body, error.headers)


def refusal(status: int, message: str = "scripted", retry_after: str | None = None) -> Any:
    """An error answer as nova words it."""
    return answering(refused(status, message, retry_after))


def plain(status: int, body: str, kind: str = "text/html") -> Callable[[], Reply]:
    """Any answer at all."""
    return lambda: Reply(status, body.encode(), {"Content-Type": kind})


def changed(change: Callable[[Any], Any]) -> Callable[[Reply], Reply]:
    """The answer with its JSON changed."""
    return lambda reply: _reply(reply.status, change(reply.json))


def _reply(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
    if body is None:
        return Reply(status, b"", dict(headers or {}))
    if isinstance(body, str):
        return Reply(status, body.encode(), {"Content-Type": "text/html", **(headers or {})})
    coded = json.dumps(body).encode()
    return Reply(status, coded, {"Content-Type": "application/json", **(headers or {})})


@dataclass
class Token:
    project: str
    expires: float
    limited: bool
    """By the access rules of the application credential, where that has any."""


class OpenStackServer(CloudServer):
    """One cloud on a port of loopback, in threads of this process.

    `calls` is every request so far. `token_s` is how long a token is said to live and lives;
    `lies_s` is how much longer it is said to live than it does. `catalog` may be changed.
    """

    def __init__(self, port: int = 0, tls: Tls | None = None) -> None:
        super().__init__(json_http(self.answer, port, tls), tls=tls)
        self.things = Things()
        self.account = Account()
        self.nova = Nova(self.things.ended, self._knows)
        self._tokens: dict[str, Token] = {}
        self.auth_url = f"{self.url}/identity/v3"
        self.reset()

    def reset(self) -> None:
        """A project without servers, no faults, nothing recorded. Tokens stay valid."""
        self.nova.reset()
        self.things.reset()
        self.account.reset()
        self.start_afresh()
        self.token_s, self.lies_s = 3600.0, 0.0
        self.project_id = PROJECT_ID
        self.catalog: dict[str, str] = {
            "compute": f"{self.url}/compute/v2.1",
            "network": f"{self.url}/networking",
            "image": f"{self.url}/image",
            "block-storage": f"{self.url}/volume/v3/{PROJECT_ID}",
            "identity": f"{self.url}/identity",
        }
        self.regions = [REGION]

    def _knows(self, kind: str, thing_id: str) -> bool:
        """Whether there is an image, a network or a server group of that id."""
        if kind == "server group":
            return any(one["id"] == thing_id for one in self.account.server_groups)
        return self.things.knows(kind, thing_id)

    def revoke_tokens(self) -> None:
        """Every token is refused from now on, as after a change of the password."""
        with self._lock:
            self._tokens.clear()

    # One request.

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes
    ) -> Reply | None:
        url = urlsplit(target)
        route, found = _routed(method, url.path)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        body = json.loads(content) if content else None
        with self._lock:
            self.calls.append(Call(route.action if route else "", url.path, query, body, headers))

        def work() -> Reply:
            try:
                if route is None:
                    raise page(404, "The resource could not be found.")
                self.nova.settle()
                project = self._project(route, url.path, headers)
                asked = Asked(self, query, body, headers, found, project)
                status, told, more = _result(route.work(asked))
                with self._lock:
                    self.wrong += openstack_schema.wrong_in(body) + openstack_schema.wrong_in(told)
                return _reply(status, told, more)
            except Refused as error:
                return _reply(error.status, error.body, error.headers)

        return self.faulty(route.action, work) if route else work()

    def _project(self, route: Route, path: str, headers: Mapping[str, str]) -> str:
        if route.open:
            return ""
        with self._lock:
            token = self._tokens.get(headers.get("x-auth-token", ""))
        if token is None or token.expires <= time.monotonic():
            if route.action.startswith("image "):
                raise page(401, "This server could not verify that you are authorized")
            body = {"error": {"code": 401, "message": DENIED, "title": "Unauthorized"}}
            raise Refused(401, body, {"WWW-Authenticate": f"Keystone uri='{self.url}'"})
        service, method, _ = route.action.split(" ", 2)
        if token.limited:
            self.account.allow({"volume": "block-storage"}.get(service, service), method, path)
        return token.project

    def issue(self, asked: Asked) -> Any:
        """A token for the password or the application credential."""
        auth = asked.body["auth"]
        identity = auth["identity"]
        (how,) = identity["methods"]
        if how == "application_credential":
            given = identity[how]
            if given.get("id") != CREDENTIAL:
                message = f"Could not find Application Credential: {given.get('id')}."
                error = {"code": 404, "message": message, "title": "Not Found"}
                raise Refused(404, {"error": error})
            fits = given.get("secret") == CREDENTIAL_SECRET
            if "scope" in auth:
                raise self._denied()
        else:
            user = identity["password"]["user"]
            fits = (
                user.get("name") == USER
                and user["password"] == PASSWORD
                and user["domain"].get("name") == DOMAIN
            )
            project = auth.get("scope", {}).get("project", {})
            named = project.get("name") == PROJECT and project["domain"].get("name") == DOMAIN
            fits = fits and (named or project.get("id") == self.project_id)
        if not fits:
            raise self._denied()
        token_id = secrets.token_urlsafe(40)
        now = datetime.now(UTC)
        with self._lock:
            ends_at = time.monotonic() + self.token_s
            limited = how == "application_credential"
            self._tokens[token_id] = Token(self.project_id, ends_at, limited)
        endpoints = [
            {
                "type": kind,
                "name": kind,
                "id": kind,
                "endpoints": [
                    {
                        "id": f"{kind}-{interface}-{region}",
                        "interface": interface,
                        "region": region,
                        "region_id": region,
                        "url": url,
                    }
                    for region in self.regions
                    for interface in ("public", "internal")
                ],
            }
            for kind, url in self.catalog.items()
        ]
        expires = now + timedelta(seconds=self.token_s + self.lies_s)
        token = {
            "methods": [how],
            "issued_at": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "expires_at": expires.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "user": {"id": "user", "name": USER, "domain": {"id": "default", "name": DOMAIN}},
            "project": {
                "id": self.project_id,
                "name": PROJECT,
                "domain": {"id": "default", "name": DOMAIN},
            },
            "roles": [{"id": name, "name": name} for name in self.account.roles],
            "catalog": endpoints,
        }
        if how == "application_credential":
            token[how] = self.account.credential(CREDENTIAL)
        return 201, {"token": token}, {"X-Subject-Token": token_id}

    def _denied(self) -> Refused:
        return Refused(401, {"error": {"code": 401, "message": DENIED, "title": "Unauthorized"}})


@dataclass(frozen=True)
class Asked:
    """A request that found its route; `parts` are the variables of its path."""

    cloud: OpenStackServer
    query: Mapping[str, str]
    body: Any
    headers: Mapping[str, str]
    parts: tuple[str, ...]
    project: str

    @property
    def version(self) -> tuple[int, int]:
        """The microversion of nova's API that was asked for."""
        named = self.headers.get("openstack-api-version", "").partition("compute ")[2]
        named = named or self.headers.get("x-openstack-nova-api-version", "") or "2.1"
        if named == "latest":
            return self.cloud.nova.maximum
        major, _, minor = named.partition(".")
        if not (major.isdigit() and minor.isdigit()):
            raise refused(400, f"API Version String {named} is of invalid format.")
        version = int(major), int(minor)
        if not MINIMUM <= version <= self.cloud.nova.maximum:
            raise refused(
                406,
                f"Version {named} is not supported by the API. Minimum is 2.1 and maximum is "
                f"{self.cloud.nova.maximum[0]}.{self.cloud.nova.maximum[1]}.",
            )
        return version


@dataclass(frozen=True)
class Route:
    action: str
    pattern: re.Pattern[str]
    work: Callable[[Asked], Any]
    open: bool = False


def _result(value: Any) -> tuple[int, Any, dict[str, str]]:
    return value if isinstance(value, tuple) else (200, value, {})


def _routed(method: str, path: str) -> tuple[Route | None, tuple[str, ...]]:
    for route in ROUTES:
        if route.action.split(" ")[1] == method and (found := route.pattern.fullmatch(path)):
            return route, tuple(unquote(part) for part in found.groups())
    return None, ()


def _route(
    service: str, method: str, path: str, work: Callable[[Asked], Any], **more: Any
) -> Route:
    roots = {
        "identity": "/identity/v3",
        "compute": "/compute/v2.1",
        "network": "/networking/v2.0",
        "image": "/image/v2",
        "volume": "/volume/v3(?:/a+)?",
    }
    pattern = re.sub(r"\{\w+\}", "([^/]+)", path)
    return Route(f"{service} {method} {path}", re.compile(roots[service] + pattern), work, **more)


def _create(asked: Asked) -> Any:
    made, answer = asked.cloud.nova.create(asked.body, asked.project, asked.version)
    asked.cloud.things.booted(made)
    return 202, answer, {}


def _list(asked: Asked) -> Any:
    url = f"{asked.cloud.url}/compute/v2.1/servers/detail"
    return asked.cloud.nova.list(asked.query, asked.project, asked.version, url)


def _show(asked: Asked) -> Any:
    answer = asked.cloud.nova.show(asked.parts[0], asked.project, asked.version)
    answer["server"]["os-extended-volumes:volumes_attached"] = [
        {"id": volume["id"], "delete_on_termination": False}
        for volume in asked.cloud.things.all[VOLUME].values()
        if any(one["server_id"] == asked.parts[0] for one in volume["attachments"])
    ]
    return answer


def _delete(asked: Asked) -> Any:
    asked.cloud.nova.delete(asked.parts[0], asked.project)
    return 204, None, {}


def _nova_version(asked: Asked) -> Any:
    major, minor = asked.cloud.nova.maximum
    version = {
        "id": "v2.1",
        "status": "CURRENT",
        "version": f"{major}.{minor}",
        "min_version": "2.1",
        "links": [{"rel": "self", "href": f"{asked.cloud.url}/compute/v2.1/"}],
    }
    return {"version": version}


def _version(service: str, version: str) -> Callable[[Asked], Any]:
    def told(asked: Asked) -> Any:
        path = version if service == "networking" else version.partition(".")[0]
        href = f"{asked.cloud.url}/{service}/{path}/"
        links = [{"rel": "self", "href": href}]
        entry = {"id": version, "status": "CURRENT", "links": links}
        if service == "identity":
            return {"version": {**entry, "media-types": []}}
        return {"versions": [entry]}

    return told


def _thing_routes(service: str, kind: str, root: str) -> list[Route]:
    def delete(asked: Asked) -> Any:
        asked.cloud.things.delete(kind, asked.parts[0])
        return 202 if kind == VOLUME else 204, None, {}

    listing = f"{root}/detail" if kind == VOLUME else root
    return [
        _route(service, "GET", listing, lambda a: a.cloud.things.list(kind, a.query)),
        _route(service, "GET", f"{root}/{{id}}", lambda a: a.cloud.things.show(kind, a.parts[0])),
        _route(service, "DELETE", f"{root}/{{id}}", delete),
    ]


ROUTES = [
    _route("identity", "POST", "/auth/tokens", lambda a: a.cloud.issue(a), open=True),
    _route("identity", "GET", "/?", _version("identity", "v3.14"), open=True),
    Route("network GET /", re.compile("/networking/?"), _version("networking", "v2.0"), open=True),
    Route("image GET /", re.compile("/image/?"), _version("image", "v2.16"), open=True),
    _route("compute", "GET", "/?", _nova_version, open=True),
    _route("compute", "POST", "/servers", _create),
    _route("compute", "GET", "/servers/detail", _list),
    _route("compute", "GET", "/servers/{id}", _show),
    _route("compute", "DELETE", "/servers/{id}", _delete),
    _route(
        "compute",
        "POST",
        "/servers/{id}/metadata",
        lambda a: a.cloud.nova.set_metadata(a.parts[0], a.project, a.body),
    ),
    _route("compute", "GET", "/flavors/detail", lambda a: a.cloud.nova.list_flavors(a.query)),
    _route("image", "GET", "/images", lambda a: a.cloud.things.list_images(a.query)),
    _route("image", "GET", "/images/{id}", lambda a: a.cloud.things.image(a.parts[0])),
    _route("compute", "GET", "/os-availability-zone", lambda a: a.cloud.account.list_zones()),
    _route(
        "compute",
        "GET",
        "/os-server-groups",
        lambda a: a.cloud.account.list_server_groups(a.query),
    ),
    _route("network", "GET", "/networks", lambda a: a.cloud.account.list_networks(a.query)),
    *_thing_routes("network", PORT, "/ports"),
    *_thing_routes("network", ADDRESS, "/floatingips"),
    *_thing_routes("volume", VOLUME, "/volumes"),
]


@functools.cache
def shared() -> OpenStackServer:
    """One server for all tests of this process."""
    return OpenStackServer().start()


if __name__ == "__main__":
    in_foreground(OpenStackServer, "auth_url")
