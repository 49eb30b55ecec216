"""The management server: status, health and metrics over HTTP, and the operators' commands.

    GET /status.json    counts for anybody; with the token also names of nodes and accounts
    GET /_health/ping   with the token, as Arvados Node Manager had it: 200 {"health": "OK"}
    GET /healthz        the same without a token: 503 when cycles stopped
    GET /_health/active whether this manager acts for its pool, and no other (503: it stands by)
    GET /readyz         whether decisions rest on fresh answers of every source
    GET /metrics        Prometheus' text format
    GET /api/explain/ID with the token: see explain.py
    GET /api/nodes      with the token, and the other lists: see lists.py
    GET /api/verify     with the token: see explain.py
    GET /api/why        with the token, and /api/jobs/ID: see lists.py
    POST /api/...       with the token: see commands.py and backlog.py
    /                   the dashboard, behind a sign-in: see dashboard/site.py

A token is sent as `Authorization: Bearer TOKEN`; for what changes nothing the read-only token will
do. A wrong token gives 403 everywhere, even where none is needed, so that its sender notices.

The answers on health tell no names. A health check that fails calls for a restart; one of readiness
calls for patience, or for a look at the sources.
"""

from __future__ import annotations

import html
import ipaddress
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import falcon
import falcon.asgi
import falcon.media
from falcon.asgi import Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.safety.lease import LeaseRole
from nodemanager.httpserver.connections import limits_of
from nodemanager.httpserver.refusals import Refusals
from nodemanager.httpserver.server import HttpServer
from nodemanager.lib import foreign
from nodemanager.lib.log import get, hide
from nodemanager.lib.logline import Json
from nodemanager.lib.workers import Workers
from nodemanager.web.backlog import add_backlog
from nodemanager.web.commands import Commands, Reload, add_commands, add_power, add_reload
from nodemanager.web.dashboard.acts import add_acts
from nodemanager.web.dashboard.history import ChartHistory
from nodemanager.web.dashboard.site import Site, add_dashboard
from nodemanager.web.dashboard.source import Source
from nodemanager.web.door import Door
from nodemanager.web.explain import add_explain, add_verify
from nodemanager.web.lists import add_lists
from nodemanager.web.metrics import Metrics
from nodemanager.web.status import Board, Status

OK: Json = {"health": "OK"}


@dataclass(frozen=True, slots=True)
class Health:
    """What the answers rest on; `healthy_for` is the longest time in seconds between two cycles."""

    board: Board
    door: Door
    healthy_for: float

    def problem(self) -> str | None:
        """Why the process needs a restart; None while it works."""
        age_s = self.board.age()
        if age_s <= self.healthy_for:
            return None
        return f"no cycle ended for {age_s:.0f} s; the limit is {self.healthy_for:.0f} s"

    def lacking(self) -> list[str]:
        """What keeps decisions from being made, in words; empty where nothing does."""
        status = self.board.read()
        if status is None:
            return ["the first cycle has not ended yet"]
        problem = self.problem()
        return [*([problem] if problem is not None else []), *_sources(status, self.board.now())]


def add_health(app: Any, health: Health) -> None:
    app.add_route("/_health/ping", _Check(health, _alive, needs_token=True))
    app.add_route("/_health/active", _Check(health, _active))
    app.add_route("/healthz", _Check(health, _alive))
    app.add_route("/readyz", _Check(health, _ready))


@dataclass(frozen=True, slots=True)
class _Check:
    """A path that is answered with what `answer` gives: whether all is well, and the answer."""

    health: Health
    answer: Callable[[Health], tuple[bool, Json]]
    needs_token: bool = False

    async def on_get(self, request: Request, response: Response) -> None:
        door = self.health.door
        if self.needs_token:
            door.lets_in(request)
        else:
            door.opens(request)
        is_well, response.media = self.answer(self.health)
        response.status = falcon.HTTP_200 if is_well else falcon.HTTP_503


def _alive(health: Health) -> tuple[bool, Json]:
    problem = health.problem()
    return problem is None, OK if problem is None else {"health": "ERROR", "error": problem}


def _active(health: Health) -> tuple[bool, Json]:
    role = health.board.lease().role
    is_active = role is LeaseRole.ACTIVE
    return is_active, {"active": is_active, "role": role.value}


def _ready(health: Health) -> tuple[bool, Json]:
    lacking = health.lacking()
    return not lacking, {"ready": not lacking, "lacking": lacking}


def _sources(status: Status, now: float) -> list[str]:
    """What the sources lack: no complete answer yet, or a stale one."""
    limit_s = status.poll_stale_after
    found = []
    for source, poll in sorted(status.polls.items()):
        if poll.started_at is None:
            found.append(f"{source}: no complete answer yet")
        elif limit_s is not None and now - poll.started_at > limit_s:
            age_s = now - poll.started_at
            found.append(f"{source}: the last complete answer is {age_s:.0f} s old")
    missing = {"cloud", "records"} - status.polls.keys()
    return [*found, *(f"{source}: no complete answer yet" for source in sorted(missing))]


_log = get(__name__)

NAME = "nodemanager"
THREADS = 4
_SHARE = 1 / 8
"""The share of the process's file descriptors for this server's connections."""
_API = "/api/"
"""What is below it needs a token."""
_TAKE_POSTS = (_API, "/act/", "/sign-in", "/sign-out", "/windows")
_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)


class ManagementServer(HttpServer):
    """Serves `board` and `metrics` on `listen` (address, port) from `start` to `stop`.

    It also listens on the Unix socket `control_socket`, and without a port only there; clients of
    the socket need no token. See HttpServer.

    `healthy_for` is the age in seconds of the last cycle above which the health answer is 503.
    Without a `token` (None or empty) health is 404, and the status shows only counts. `charts`
    are the dashboard's; without them there is none. `public_url` is where browsers find it behind a
    proxy.
    """

    def __init__(
        self,
        board: Board,
        metrics: Metrics,
        *,
        listen: tuple[str, int | None],
        token: str | None,
        healthy_for: float,
        control_socket: Path | None = None,
        takes_over: bool = True,
        commands: Commands | None = None,
        read_token: str | None = None,
        public_url: str | None = None,
        charts: ChartHistory | None = None,
        reload: Reload | None = None,
    ) -> None:
        refusals = Refusals("management")
        metrics.count_refusals(refusals)
        self._door = door = Door(None, refusals)
        self.renew(token, read_token)
        workers = Workers("management", THREADS)
        middleware: list[Any] = [_Manners(door, refusals, listen[0], public_url)]
        app = falcon.asgi.App(media_type=falcon.MEDIA_JSON, middleware=middleware)
        _take_json(app)
        app.set_error_serializer(_serialize)
        app.add_error_handler(Exception, partial(_failed, refusals))
        app.add_route("/status.json", _StatusPage(board, door))
        add_health(app, Health(board, door, healthy_for))
        app.add_route("/metrics", _MetricsPage(board, metrics, workers))
        if commands is not None:
            add_commands(app, commands, workers)
            add_power(app, commands)
            add_backlog(app, commands, workers)
        if reload is not None:
            add_reload(app, reload, workers)
        for add in (add_explain, add_lists, add_verify):
            add(app, board, workers)
        limits = limits_of(_SHARE)
        self.site: Site | None = None
        if charts is not None:
            self.site = Site(Source(board, charts, healthy_for), door, public_url)
            add_dashboard(app, self.site)
            if commands is not None:
                add_acts(app, self.site, commands)
        self.app = app
        """The ASGI application, for tests without a socket."""
        super().__init__(
            app,
            *listen,
            option="[Manage] port",
            name=NAME,
            limits=limits,
            control_socket=control_socket,
            takes_over=takes_over,
            refusals=refusals,
        )

    def renew(self, token: str | None, read_token: str | None) -> None:
        """Take these tokens from now on; who signed in with another one is signed out."""
        hide(token)
        hide(read_token)
        self._door.renew(token, read_token)

    def start(self) -> None:
        """Bind and serve. Raises StartError, which names the address and the option."""
        super().start()
        _log.event(Event.SERVER_STARTED, name="management", url=self.url)

    def stop(self) -> None:
        """Stop listening and let running requests end; idempotent."""
        if self.site is not None:
            self.site.sweeps.stop()
        super().stop()


def _take_json(app: Any) -> None:
    """Refuse a client's JSON that can't be kept, and answer in ASCII whatever others wrote."""
    handler = falcon.media.JSONHandler(
        dumps=partial(json.dumps, ensure_ascii=True), loads=foreign.strict_loads
    )
    app.req_options.media_handlers[falcon.MEDIA_JSON] = handler
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = handler


class _Manners:
    """Middleware: checks each request's method, host and token, and sets the answer's headers."""

    def __init__(
        self, door: Door, refusals: Refusals, address: str, public_url: str | None
    ) -> None:
        self._door = door
        self._refusals = refusals
        self._names = {"localhost", socket.gethostname().lower(), address.lower()}
        public = urlsplit(public_url or "").hostname
        if public:
            self._names.add(public)

    async def process_request(self, request: Request, response: Response) -> None:
        response.set_headers(_HEADERS)
        self._check_host(request)
        if request.method == "HEAD":
            # The server omits the body.
            request.method = "GET"
        if request.method != "GET" and not request.path.startswith(_TAKE_POSTS):
            raise falcon.HTTPMethodNotAllowed(["GET", "HEAD"])

    async def process_resource(
        self, request: Request, response: Response, resource: object, params: dict[str, Any]
    ) -> None:
        if (request.uri_template or "").startswith(_API):
            self._door.lets_in(request)

    def _check_host(self, request: Request) -> None:
        """Refuse foreign host names, against DNS rebinding.

        An attacker can give our address a name of his own. His page in a browser could then read
        everything that needs no token.
        """
        given = request.get_header("Host")
        if given is None or self._is_ours(given) or self._door.knows(request):
            return
        self._refusals.note(Reason.WRONG_HOST, request.remote_addr)
        raise falcon.HTTPError(
            "421 Misdirected Request",
            title="wrong host",
            description="use this server's address or host name, or send the token",
        )

    def _is_ours(self, host: str) -> bool:
        name = host.strip().lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class _MetricsPage:
    def __init__(self, board: Board, metrics: Metrics, workers: Workers) -> None:
        self._board = board
        self._metrics = metrics
        self._workers = workers

    async def on_get(self, request: Request, response: Response) -> None:
        try:
            encode, response.content_type = choose_encoder(request.get_header("Accept") or "")
        except (ValueError, TypeError) as error:
            # Of its version, for instance.
            raise falcon.HTTPBadRequest(title="bad request", description="Accept is odd") from error
        response.data = await self._workers.run(self._page, encode)

    def _page(self, encode: Callable[[CollectorRegistry], bytes]) -> bytes:
        status = self._board.read()
        if status is not None:
            self._metrics.show(status)
        return encode(self._metrics.registry)


class _StatusPage:
    def __init__(self, board: Board, door: Door) -> None:
        self._board = board
        self._door = door

    async def on_get(self, request: Request, response: Response) -> None:
        with_names = self._door.opens(request)
        # Not in a worker: the status must be shown even while commands wait for the daemon.
        status = self._board.read()
        if status is None:
            raise falcon.HTTPServiceUnavailable(
                title="starting", description="the first cycle has not ended yet", retry_after=1
            )
        response.media = status.to_json(with_names=with_names, now=self._board.now())


def _serialize(request: Request, response: Response, error: falcon.HTTPError) -> None:
    if request.client_prefers((falcon.MEDIA_JSON, falcon.MEDIA_HTML)) == falcon.MEDIA_HTML:
        # A person in a browser, who mistyped a path or kept a page for too long.
        title, why = (html.escape(said or "") for said in (error.title, error.description))
        response.content_type = "text/html; charset=utf-8"
        response.text = (
            f'<!doctype html><html lang="en"><title>{title}</title><h1>{title}</h1><p>{why}</p>'
            '<p><a href="/">To the overview</a></p></html>\n'
        )
        return
    response.content_type = falcon.MEDIA_JSON
    response.data = json.dumps(error.to_dict()).encode()


async def _failed(
    refusals: Refusals,
    request: Request,
    response: Response,
    error: Exception,
    params: dict[str, Any],
) -> None:
    refusals.failed(error, request.path)
    raise falcon.HTTPInternalServerError(title="internal error", description="see the log")
