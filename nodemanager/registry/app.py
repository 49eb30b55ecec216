"""The registry's HTTP application: the `nodes` resource in the format of Arvados server 2.0.

There is only one token, the administrator's. A request's path may be logged, but never its query,
which contains secrets.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import falcon
import falcon.asgi
import orjson
from falcon.asgi import Request, Response

from nodemanager import errors
from nodemanager.core.model.reasons import Reason
from nodemanager.errors import StoreError
from nodemanager.httpserver.connections import limits_of
from nodemanager.httpserver.refusals import Refusals
from nodemanager.httpserver.server import AsgiApp, HttpServer
from nodemanager.lib.workers import Workers
from nodemanager.records import wire
from nodemanager.records.pings import Ping, Pinged, WrongInstance, WrongSecret, said_of_notice
from nodemanager.records.query import ListQuery, selected
from nodemanager.records.resource import NodesResource, Outcomes
from nodemanager.records.sql import SqlRecordStore
from nodemanager.registry import discovery, door
from nodemanager.registry.door import PingDoor, most_of

# The batching of pings: those that arrive together are committed together.

MOST = 256
GATHERS_S = 0.002
"""Seconds that a commit waits for as many pings as the last one answered, since those clients may
send their next pings now."""

ANSWER_S = 15.0
"""A ping that waited so long behind others gets a 503; so do those before it, from the database's
own time limit."""

PingOutcome = Pinged | Exception | None


class PingWriter:
    """Commits waiting pings together in one thread; `workers` handle those that must be alone.

    For use by one event loop.
    """

    def __init__(self, nodes: NodesResource, workers: Workers) -> None:
        self._nodes = nodes
        self._workers = workers
        self._thread = Workers("pings", 1)
        self._waiting: deque[tuple[Ping, asyncio.Future[PingOutcome]]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._enough: asyncio.Future[None] | None = None
        self._count = 0
        self.answered = 0
        """How many pings were taken so far."""

    async def ping(self, ping: Ping) -> Pinged:
        """The result of a ping, once it is on the disk. Raises what NodesResource.ping does."""
        future: asyncio.Future[PingOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((ping, future))
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())
        elif len(self._waiting) >= self._count:
            self._go_on()
        try:
            async with asyncio.timeout(ANSWER_S):
                outcome = await future
        except TimeoutError:
            # It may be written later: its sender pings again before anybody misses it.
            raise StoreError("the registry's database takes too long") from None
        if outcome is None:
            outcome = await self._workers.run(self._nodes.ping, ping)
        if isinstance(outcome, WrongSecret):
            await self._workers.run(self._nodes.remember_late, ping)
        if isinstance(outcome, Exception):
            try:
                raise outcome
            finally:
                # The error and this frame refer to each other, a cycle that only the garbage
                # collector would free.
                del outcome, future
        self.answered += 1
        return outcome

    async def _write(self) -> None:
        """Write batches until no ping waits; pings that arrive meanwhile form the next batch."""
        answered = 1
        try:
            while self._waiting:
                await self._gather(answered)
                batch = self._batch()
                pings = [ping for ping, _ in batch]
                outcomes: Outcomes
                try:
                    outcomes = await self._thread.run(self._nodes.ping_all, pings)
                except Exception as error:
                    outcomes = [error] * len(batch)
                # The next batch may have the clients answered now and those that wait already.
                answered = len(batch) + len(self._waiting)
                for (_, future), outcome in zip(batch, outcomes, strict=True):
                    if not future.done():
                        future.set_result(outcome)
        finally:
            self._writing = None

    async def _gather(self, count: int) -> None:
        """Wait for `count` pings, for GATHERS_S at most."""
        if len(self._waiting) >= count:
            return
        loop = asyncio.get_running_loop()
        self._enough, self._count = loop.create_future(), count
        late = loop.call_later(GATHERS_S, self._go_on)
        try:
            await self._enough
        finally:
            late.cancel()
            self._enough = None

    def _go_on(self) -> None:
        if self._enough is not None and not self._enough.done():
            self._enough.set_result(None)

    def _batch(self) -> list[tuple[Ping, asyncio.Future[PingOutcome]]]:
        """The next batch, with one ping per record: a second one depends on the first's write."""
        taken: dict[str, tuple[Ping, asyncio.Future[PingOutcome]]] = {}
        later = []
        while self._waiting and len(taken) < MOST:
            one = self._waiting.popleft()
            if one[0].uuid in taken:
                later.append(one)
            else:
                taken[one[0].uuid] = one
        self._waiting.extendleft(reversed(later))
        return list(taken.values())


log = logging.getLogger("nodemanager.registry")

_OPTIONS = frozenset({"select", "assign_slot", "ensure_unique_name", "alt", "prettyPrint"})
_RETRY_AFTER_S = "5"
_NO_DATABASE = "the registry's database does not do it now; the registry's log says why"

NAME = "registry"
THREADS = 3
"""The number of threads for requests other than pings."""


def build_app(
    store: SqlRecordStore,
    token: str,
    refusals: Refusals | None = None,
    *,
    public_url: str | None = None,
) -> PingDoor:
    """The ASGI application over `store`; `token` allows everything.

    `refusals` counts wrong tokens and secrets. `public_url` is where clients are told to send
    their requests; None where it is the address that each used. Raises StartError for a token that
    is empty or can't be sent in a header.
    """
    refusals = refusals or Refusals(NAME)
    nodes = _Nodes(store.resource, Workers(NAME, THREADS))
    gate = _Token(token, refusals)
    middleware: list[Any] = [_MethodOverride(), gate]
    app = falcon.asgi.App(middleware=middleware)
    app.set_error_serializer(_http_error)
    app.add_error_handler(Exception, partial(_unexpected, refusals))
    app.add_error_handler(errors.StoreError, partial(_store_error, refusals))
    about = _Discovery(store, nodes.workers, public_url)
    app.add_route("/discovery/v1/apis/arvados/v1/rest", about)
    app.add_route("/arvados/v1/nodes", _All(nodes))
    app.add_route("/arvados/v1/nodes/{uuid}", _One(nodes))
    pings = _Ping(nodes, refusals)
    app.add_route("/arvados/v1/nodes/{uuid}/ping", pings)
    return PingDoor(app, pings.answer, pings.answered, gate.renew)


class _MethodOverride:
    """Applies X-HTTP-Method-Override: a list query too long for a URL comes as a POST."""

    async def process_request(self, req: Request, resp: Response) -> None:
        said = req.get_header("X-HTTP-Method-Override") or ""
        if req.method == "POST" and said.upper() in ("GET", "PUT", "PATCH", "DELETE"):
            req.method = said.upper()


class _Token:
    """Refuses requests without the token, except discovery and pings, which have a secret."""

    def __init__(self, token: str, refusals: Refusals) -> None:
        self._refusals = refusals
        self.renew(token)

    def renew(self, token: str) -> None:
        """Let in who has this token from now on. Raises StartError for one that can't be sent."""
        if not token or not token.isascii() or any(not 32 < ord(letter) < 127 for letter in token):
            raise errors.StartError("[Registry] token must be printable ASCII without spaces")
        self._token = token.encode()

    async def process_resource(
        self, req: Request, resp: Response, resource: object, _: dict[str, str]
    ) -> None:
        if isinstance(resource, _Ping | _Discovery):
            return
        scheme, _space, given = (req.auth or "").partition(" ")
        known = scheme.lower() in ("oauth2", "bearer")
        if not known or not hmac.compare_digest(given.strip().encode(), self._token):
            reason = Reason.WRONG_TOKEN if req.auth else Reason.NO_TOKEN
            self._refusals.note(reason, req.remote_addr)
            raise falcon.HTTPUnauthorized(description="Not logged in: the token is not valid")


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The records, and the workers that wait for their database instead of the event loop."""

    blocking: NodesResource
    workers: Workers

    async def write(
        self, req: Request, resp: Response, work: Callable[..., dict[str, Any]], *uuids: str
    ) -> None:
        """Answer a create or update; `work` takes the uuids and the attributes."""
        asked = await door.read(req)
        given = door.attributes(asked, _OPTIONS)
        shown = selected(door.json_param(asked, "select"))
        slot = door.flag(asked, "assign_slot")
        node = await self.workers.run(work, *map(_readable, uuids), given, assign_slot=slot)
        _answer(resp, {name: node[name] for name in shown})


class _Discovery:
    def __init__(self, store: SqlRecordStore, workers: Workers, public_url: str | None) -> None:
        self._store = store
        self._workers = workers
        self._public_url = public_url

    async def on_get(self, req: Request, resp: Response) -> None:
        store_id = await self._workers.run(self._store.store_id)
        # Behind a TLS proxy the request says http, and the token would then go in clear.
        root = self._public_url or f"{req.scheme}://{req.netloc}"
        _answer(resp, discovery.document(f"{root}/", store_id))


@dataclass(frozen=True, slots=True)
class _All:
    nodes: _Nodes

    async def on_get(self, req: Request, resp: Response) -> None:
        asked = await door.read(req)
        query = ListQuery(
            filters=door.json_param(asked, "filters"),
            order=door.order_param(asked),
            limit=asked.get("limit"),
            offset=asked.get("offset"),
            select=door.json_param(asked, "select"),
            count=asked.get("count"),
        )
        _send(resp, await self.nodes.workers.run(lambda: _json(self.nodes.blocking.list(query))))

    async def on_post(self, req: Request, resp: Response) -> None:
        await self.nodes.write(req, resp, self.nodes.blocking.create)


@dataclass(frozen=True, slots=True)
class _One:
    nodes: _Nodes

    async def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        shown = selected(door.json_param(await door.read(req), "select"))
        node = await self.nodes.workers.run(self.nodes.blocking.get, _readable(uuid))
        _answer(resp, {name: node[name] for name in shown})

    async def on_put(self, req: Request, resp: Response, uuid: str) -> None:
        await self.nodes.write(req, resp, self.nodes.blocking.update, uuid)

    on_patch = on_put

    async def on_delete(self, req: Request, resp: Response, uuid: str) -> None:
        gone = await self.nodes.workers.run(self.nodes.blocking.delete, _readable(uuid))
        _answer(resp, gone)


class _Ping:
    def __init__(self, nodes: _Nodes, refusals: Refusals) -> None:
        self._writer = PingWriter(nodes.blocking, nodes.workers)
        self._refusals = refusals

    async def on_post(self, req: Request, resp: Response, uuid: str) -> None:
        if door.FAILED in req.scope:
            raise req.scope.pop(door.FAILED)
        params = await door.read(req, door.MAX_PING)
        _send(resp, await self.answer(Ping(_readable(uuid), params, req.remote_addr)))

    def answered(self) -> int:
        return self._writer.answered

    async def answer(self, ping: Ping) -> bytes:
        """The body of the answer to a ping. Raises what NodesResource.ping does."""
        try:
            done = await self._writer.ping(ping)
        except WrongSecret:
            self._refusals.note(Reason.WRONG_SECRET, ping.caller, ping.uuid)
            raise
        except WrongInstance:
            self._refusals.note(Reason.WRONG_INSTANCE, ping.caller, ping.uuid)
            raise
        for loser in done.taken_from:
            address = done.node["ip_address"]
            log.info("%s now has the address %s, which %s had", ping.uuid, address, loser)
        self._tell_odd_notice(ping)
        return _json(done.node)

    def _tell_odd_notice(self, ping: Ping) -> None:
        """Log a notice that can't be read; its ping counts."""
        problem = said_of_notice(ping.params).problem
        if problem is not None and (count := self._refusals.to_tell(problem)):
            values = (ping.uuid, problem, count)
            log.warning("a ping of %s: %s; one of %d since the last such line", *values)


def _readable(uuid: str) -> str:
    if not wire.UUID.fullmatch(uuid):
        raise errors.NoSuchRecord("no record of that uuid")
    return uuid


def _json(body: Any) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # A client may have written a number beyond 64 bits or half a surrogate pair.
        return json.dumps(body).encode()


def _send(resp: Response, body: bytes) -> None:
    resp.data = body
    resp.content_type = door.JSON


def _answer(resp: Response, body: Any) -> None:
    _send(resp, _json(body))


def _fail(resp: Response, status: int, message: str) -> str:
    """Answer with the API's error body; gives its error token, for the log."""
    token = f"{int(time.time())}+{secrets.token_hex(4)}"
    resp.status = falcon.code_to_http_status(status)
    _answer(resp, {"errors": [message], "error_token": token})
    return token


def _http_error(req: Request, resp: Response, error: falcon.HTTPError) -> None:
    _fail(resp, error.status_code, error.description or error.title or "refused")


async def _store_error(
    refusals: Refusals, req: Request, resp: Response, error: errors.StoreError, _: dict[str, Any]
) -> None:
    status = _status(error)
    if status != 503:
        _fail(resp, status, str(error))
        return
    # What a database says may quote a row or name its host, and anybody may ping.
    token = _fail(resp, status, _NO_DATABASE)
    resp.set_header("Retry-After", _RETRY_AFTER_S)
    count = refusals.to_tell(f"store {type(error).__name__}")
    if count:
        values = (req.method, req.path, token, count, error)
        log.warning("%s %s failed (%s), one of %d requests since the last such line: %s", *values)


def _status(error: errors.RemoteError) -> int:
    match error:
        case errors.NoSuchRecord():
            return 404
        case WrongSecret():
            return 401
        case errors.StoreRefused() | errors.Conflict() | errors.NoFreeSlot():
            return 422
        case _:
            return 503


async def _unexpected(
    refusals: Refusals, req: Request, resp: Response, error: Exception, _: dict[str, Any]
) -> None:
    token = _fail(resp, 500, "internal error")
    refusals.failed(error, req.path, f"its client was told {token}")


def registry_server(
    app: AsgiApp,
    host: str = "127.0.0.1",
    port: int = 0,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    refusals: Refusals | None = None,
) -> HttpServer:
    """A server for `build_app`'s application, not yet started; port 0 takes a free one.

    With `tls_cert` and `tls_key` (PEM files) it speaks only TLS. `refusals` counts its refused
    requests, together with the application's. Raises StartError.
    """
    if tls_cert is None and tls_key is not None:
        raise errors.StartError(
            f"tls_key is {tls_key}, but tls_cert is not set: give both or neither"
        )
    return HttpServer(
        app,
        host,
        port,
        option="[Registry] listen",
        tls_cert=tls_cert,
        tls_key=tls_key,
        name=NAME,
        limits=replace(limits_of(1 / 3), body_at=most_of),
        refusals=refusals,
    )
