"""The management server: status, health and metrics over HTTP, and the operators' commands.

    GET /status.json    counts for anybody; with the token also what names nodes and accounts
    GET /_health/ping   with the token: 200 {"health": "OK"}, or 503 when cycles stopped
    GET /metrics        Prometheus' text format
    GET /api/explain/ID with the token: see explain.py
    POST /api/...       with the token: see commands.py and backlog.py

A token is given as `Authorization: Bearer TOKEN`. A wrong one is 403 everywhere, also where none
is needed: whoever sends one means to be known.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterable
from typing import Any

import falcon
from prometheus_client import make_wsgi_app

from nodemanager.core.reasons import Event
from nodemanager.httpserver import HttpServer, WsgiApp
from nodemanager.log import get, hide
from nodemanager.web.backlog import Backlog, add_backlog
from nodemanager.web.commands import Commands, add_commands
from nodemanager.web.explain import Explanations, add_explain
from nodemanager.web.metrics import Metrics
from nodemanager.web.status import Board

_log = get(__name__)

THREADS = 2
_HEADERS = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
]


class ManagementServer:
    """Serve `board` and `metrics` on `listen` (address, port) from `start` to `stop`.

    `healthy_for` is how many seconds the last cycle may be old before the health answer turns to
    503. With no `token` (None or empty) health is 404 and status shows counts only.
    """

    def __init__(
        self,
        board: Board,
        metrics: Metrics,
        *,
        listen: tuple[str, int],
        token: str | None,
        healthy_for: float,
        commands: Commands | None = None,
        backlog: Backlog | None = None,
        explanations: Explanations | None = None,
    ) -> None:
        hide(token)
        self._http = HttpServer(
            application(
                board,
                metrics,
                token=token,
                healthy_for=healthy_for,
                commands=commands,
                backlog=backlog,
                explanations=explanations,
            ),
            *listen,
            option="[Manage] port",
            threads=THREADS,
            name="nodemanager",
        )

    def start(self) -> None:
        """Bind and serve. Raises StartError that names the address and the option."""
        self._http.start()
        _log.event(Event.SERVER_STARTED, name="management", url=self.url)

    def stop(self) -> None:
        self._http.stop()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the port is the real one when 0 was asked for."""
        return self._http.address, self._http.port

    @property
    def url(self) -> str:
        return self._http.url


def application(
    board: Board,
    metrics: Metrics,
    *,
    token: str | None,
    healthy_for: float,
    commands: Commands | None = None,
    backlog: Backlog | None = None,
    explanations: Explanations | None = None,
) -> WsgiApp:
    """The WSGI application of the management server."""
    door = _Door(token)
    app = falcon.App(media_type=falcon.MEDIA_JSON)
    app.set_error_serializer(_serialize)
    app.add_error_handler(Exception, _failed)
    app.add_route("/status.json", _StatusPage(board, door))
    app.add_route("/_health/ping", _HealthPage(board, door, healthy_for))
    if commands is not None:
        add_commands(app, commands, door)
    if backlog is not None:
        add_backlog(app, backlog, door)
    if explanations is not None:
        add_explain(app, explanations, door)
    return _only_get(app, make_wsgi_app(metrics.registry))


class _Door:
    """Who may see more."""

    def __init__(self, token: str | None) -> None:
        self._expected = f"Bearer {token}".encode() if token else None

    @property
    def exists(self) -> bool:
        return self._expected is not None

    def opens(self, request: falcon.Request) -> bool:
        """Whether the request has the token; one with another is refused here (403)."""
        given = request.get_header("Authorization")
        if given is None or self._expected is None:
            return False
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._expected):
            raise falcon.HTTPForbidden(
                title="wrong token", description="it is [Manage] ManagementToken"
            )
        return True

    def lets_in(self, request: falcon.Request) -> None:
        """Raise for whoever has no token, or where there is none to have."""
        if not self.exists:
            raise falcon.HTTPNotFound(title="disabled", description="there is no token")
        if not self.opens(request):
            raise falcon.HTTPUnauthorized(
                title="authorization required",
                description="send the header `Authorization: Bearer TOKEN`",
                challenges=["Bearer"],
            )


class _StatusPage:
    def __init__(self, board: Board, door: _Door) -> None:
        self._board = board
        self._door = door

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        with_names = self._door.opens(request)
        status = self._board.read()
        if status is None:
            raise falcon.HTTPServiceUnavailable(
                title="starting", description="the first cycle has not ended yet", retry_after=1
            )
        response.media = status.to_json(with_names=with_names, now=self._board.now())


class _HealthPage:
    def __init__(self, board: Board, door: _Door, healthy_for: float) -> None:
        self._board = board
        self._door = door
        self._healthy_for = healthy_for

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        self._door.lets_in(request)
        age_s = self._board.age()
        if age_s <= self._healthy_for:
            response.media = {"health": "OK"}
            return
        response.status = falcon.HTTP_503
        response.media = {
            "health": "ERROR",
            "error": f"no cycle ended for {age_s:.0f} s; the limit is {self._healthy_for:.0f} s",
        }


def _serialize(request: falcon.Request, response: falcon.Response, error: falcon.HTTPError) -> None:
    response.content_type = falcon.MEDIA_JSON
    response.data = json.dumps(error.to_dict()).encode()


def _failed(
    request: falcon.Request, response: falcon.Response, error: Exception, params: dict[str, Any]
) -> None:
    # The path only: a query may hold what was meant for a header.
    _log.failure(Event.SERVER_FAILED, error, name="management", url=request.path)
    raise falcon.HTTPInternalServerError(title="internal error", description="see the log")


def _only_get(app: WsgiApp, metrics_app: WsgiApp) -> WsgiApp:
    """Both applications behind one rule on methods, with the same headers on every answer."""

    def face(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            return start_response(status, [*headers, *_HEADERS], *exc_info)

        if environ["REQUEST_METHOD"] != "GET" and not environ["PATH_INFO"].startswith("/api/"):
            body = json.dumps({"title": "405 Method Not Allowed"}).encode()
            start(
                falcon.HTTP_405,
                [
                    ("Allow", "GET"),
                    ("Content-Type", falcon.MEDIA_JSON),
                    ("Content-Length", str(len(body))),
                ],
            )
            return [body]
        if environ["PATH_INFO"] == "/metrics":
            return metrics_app(environ, start)
        return app(environ, start)

    return face
