"""The registry's HTTP face: the `nodes` resource as the Arvados server (2.0 era) spoke it.

One token, the administrator's. A request's path may be logged, its query never: it bears secrets.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import time
from typing import Any

import falcon

from nodemanager.errors import (
    Conflict,
    NoFreeSlot,
    NoSuchRecord,
    RemoteError,
    StartError,
    StoreError,
    StoreRefused,
)
from nodemanager.records import wire
from nodemanager.records.query import ListQuery, selected
from nodemanager.records.resource import NodesResource, WrongSecret
from nodemanager.records.sql import SqlRecordStore
from nodemanager.registry import discovery, params

log = logging.getLogger("nodemanager.registry")

_OPTIONS = frozenset({"select", "assign_slot", "ensure_unique_name", "alt", "prettyPrint"})
_RETRY_AFTER_S = "5"


def build_app(store: SqlRecordStore, token: str) -> falcon.App[falcon.Request, falcon.Response]:
    """The WSGI application over `store`; `token` is the one that may do everything.

    Raises StartError for a token that is empty or can't travel in a header.
    """
    if not token or not token.isascii() or any(not 32 < ord(letter) < 127 for letter in token):
        raise StartError("[Registry] token must be printable ASCII without spaces")
    nodes = store.resource
    middleware: list[Any] = [_MethodOverride(), _Token(token)]
    app = falcon.App(middleware=middleware)
    app.set_error_serializer(_http_error)
    app.add_error_handler(Exception, _unexpected)
    app.add_error_handler(StoreError, _store_error)
    app.add_route("/discovery/v1/apis/arvados/v1/rest", _Discovery(store))
    app.add_route("/arvados/v1/nodes", _Nodes(nodes))
    app.add_route("/arvados/v1/nodes/{uuid}", _Node(nodes))
    app.add_route("/arvados/v1/nodes/{uuid}/ping", _Ping(nodes))
    return app


class _MethodOverride:
    """A list too long for a URL comes as a POST that says it is a GET."""

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        said = req.get_header("X-HTTP-Method-Override") or ""
        if req.method == "POST" and said.upper() in ("GET", "PUT", "PATCH", "DELETE"):
            req.method = said.upper()


class _Token:
    """Lets nobody without the token near the records; pings bring their own secret."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def process_resource(
        self, req: falcon.Request, resp: falcon.Response, resource: object, _: dict[str, str]
    ) -> None:
        if isinstance(resource, _Ping | _Discovery):
            return
        scheme, _space, given = (req.auth or "").partition(" ")
        known = scheme.lower() in ("oauth2", "bearer")
        if not known or not hmac.compare_digest(given.strip().encode(), self._token):
            raise falcon.HTTPUnauthorized(description="Not logged in: the token is not valid")


class _Discovery:
    def __init__(self, store: SqlRecordStore) -> None:
        self._store = store

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        _answer(resp, discovery.document(f"{req.scheme}://{req.netloc}/", self._store.store_id()))


class _Nodes:
    def __init__(self, nodes: NodesResource) -> None:
        self._nodes = nodes

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        asked = params.read(req)
        query = ListQuery(
            filters=params.json_param(asked, "filters"),
            order=params.order_param(asked),
            limit=asked.get("limit"),
            offset=asked.get("offset"),
            select=params.json_param(asked, "select"),
            count=asked.get("count"),
        )
        _answer(resp, self._nodes.list(query))

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        asked = params.read(req)
        given = params.attributes(asked, _OPTIONS)
        shown = selected(params.json_param(asked, "select"))
        node = self._nodes.create(given, assign_slot=params.flag(asked, "assign_slot"))
        _answer(resp, {name: node[name] for name in shown})


class _Node:
    def __init__(self, nodes: NodesResource) -> None:
        self._nodes = nodes

    def on_get(self, req: falcon.Request, resp: falcon.Response, uuid: str) -> None:
        shown = selected(params.json_param(params.read(req), "select"))
        node = self._nodes.get(_readable(uuid))
        _answer(resp, {name: node[name] for name in shown})

    def on_put(self, req: falcon.Request, resp: falcon.Response, uuid: str) -> None:
        asked = params.read(req)
        given = params.attributes(asked, _OPTIONS)
        shown = selected(params.json_param(asked, "select"))
        slot = params.flag(asked, "assign_slot")
        node = self._nodes.update(_readable(uuid), given, assign_slot=slot)
        _answer(resp, {name: node[name] for name in shown})

    on_patch = on_put

    def on_delete(self, req: falcon.Request, resp: falcon.Response, uuid: str) -> None:
        _answer(resp, self._nodes.delete(_readable(uuid)))


class _Ping:
    def __init__(self, nodes: NodesResource) -> None:
        self._nodes = nodes

    def on_post(self, req: falcon.Request, resp: falcon.Response, uuid: str) -> None:
        done = self._nodes.ping(_readable(uuid), params.read(req), req.remote_addr)
        for loser in done.taken_from:
            address = done.node["ip_address"]
            log.info("%s now has the address %s, which %s had", uuid, address, loser)
        _answer(resp, done.node)


def _readable(uuid: str) -> str:
    if not wire.UUID.fullmatch(uuid):
        raise NoSuchRecord("no record of that uuid")
    return uuid


def _answer(resp: falcon.Response, body: Any) -> None:
    resp.data = json.dumps(body).encode()
    resp.content_type = "application/json; charset=utf-8"


def _fail(resp: falcon.Response, status: int, message: str) -> str:
    """The contract's error body; gives its token, for the log."""
    token = f"{int(time.time())}+{secrets.token_hex(4)}"
    resp.status = falcon.code_to_http_status(status)
    _answer(resp, {"errors": [message], "error_token": token})
    return token


def _http_error(req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError) -> None:
    _fail(resp, error.status_code, error.description or error.title or "refused")


def _store_error(
    req: falcon.Request, resp: falcon.Response, error: StoreError, _: dict[str, Any]
) -> None:
    status = _status(error)
    token = _fail(resp, status, str(error))
    if status == 503:
        resp.set_header("Retry-After", _RETRY_AFTER_S)
        log.warning("%s %s failed (%s): %s", req.method, req.path, token, error)


def _status(error: RemoteError) -> int:
    match error:
        case NoSuchRecord():
            return 404
        case WrongSecret():
            return 401
        case StoreRefused() | Conflict() | NoFreeSlot():
            return 422
        case _:
            return 503


def _unexpected(
    req: falcon.Request, resp: falcon.Response, error: Exception, _: dict[str, Any]
) -> None:
    token = _fail(resp, 500, "internal error")
    log.error("%s %s failed (%s)", req.method, req.path, token, exc_info=error)
