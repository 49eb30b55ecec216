"""An HTTP server for an ASGI application: uvicorn's protocol on an event loop in a thread.

The registry and the management server both use it. It adds to uvicorn:

- It limits connections, requests and answers (connections.py) from the accept on, so that the
  limits apply to TLS handshakes, too. Without free file descriptors it pauses accepting.
- `start` itself raises a bind error, which names the option to change.
- It logs no query string, since those hold ping secrets.
- An application never takes a request for complete whose client went away half-way.
- `stop` returns within `STOP_S` whatever a handler does, and `alive` tells a hanging loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from nodemanager.errors import StartError
from nodemanager.httpserver import connections
from nodemanager.httpserver.refusals import Refusals
from nodemanager.lib import control

Scope = dict[str, Any]

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

STOP_S = 2.0
_DRAIN_S = 1.0
_TICK_S = 0.25
_STUCK_S = 30.0
"""Seconds without an iteration after which the event loop counts as hanging."""
_HANDSHAKE_S = 5.0
_BACKLOG = 1024
_AT_ONCE = 64
_NO_FILES_S = 0.5
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, never bound
_REFUSALS = frozenset({400, 401, 403, 404, 405, 411, 413, 415, 421, 422, 500})
"""What a client without credentials may get for any request, however often it asks."""

_log = logging.getLogger(__name__)


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where that extra is installed; the standard one answers the same, fewer a second."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop()
    return new_event_loop()


class ClientGone(BaseException):
    """The client went away before its request was complete. No application may catch this."""


class HttpServer:
    """Serves `app` on `address`:`port`, from `start` to `stop`.

    `port` 0 takes a free one; `option` is the configuration option to name when the port is
    in use. With `tls_cert` and `tls_key` (PEM files) it speaks https only. `name` is the Server
    header and part of the thread's name. Without `limits` its connections may take a third of the
    process's file descriptors. It also listens on the Unix socket `control_socket`, and with no
    `port` only there. Requests from that socket have their sender's name as `user` in their
    scope's `state`.
    """

    def __init__(
        self,
        app: AsgiApp,
        address: str,
        port: int | None,
        *,
        option: str,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        name: str = "nodemanager",
        limits: connections.ServerLimits | None = None,
        control_socket: Path | None = None,
        takes_over: bool = True,
        refusals: Refusals | None = None,
    ) -> None:
        self.address = address
        self._port = port
        self._control = control_socket
        self._takes_over = takes_over
        self._option = option
        self.name = name
        self._app = app
        self._tls = None if tls_cert is None else _tls_context(tls_cert, tls_key)
        self.refusals = refusals or Refusals(name)
        self._gate = connections.Gate(limits or connections.limits_of(1 / 3), self.refusals)
        self._config = _uvicorn_config(self._serve_one)
        self._state = ServerState()
        self._state.default_headers = [(b"server", self.name.encode())]
        self._listening: list[socket.socket] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._accepted: set[asyncio.Task[None]] = set()
        self._turned_at = 0.0

    def start(self) -> None:
        """Bind and begin to serve. Raises StartError when it can't listen."""
        self._listening = []
        if self._port is not None:
            try:
                self._listening.append(_listen(self.address, self._port))
            except OSError as error:
                raise StartError(self._why(error)) from error
            self._port = self._listening[0].getsockname()[1]
        if self._control is not None:
            try:
                listening = control.listen(self._control, takes_over=self._takes_over)
            except StartError:
                for bound in self._listening:
                    bound.close()
                raise
            if listening is None:
                _log.warning("another program listens on %s: this one does not", self._control)
            else:
                self._listening.append(listening)
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name=f"http-{self.name}", daemon=True
        )
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        """Stop listening and let running requests end, within `STOP_S` seconds; idempotent."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._stopping is not None and thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(STOP_S)

    @property
    def alive(self) -> bool:
        running = self._thread is not None and self._thread.is_alive()
        return running and time.monotonic() - self._turned_at < _STUCK_S

    def ask(self, answer: Callable[[], None]) -> None:
        """Have the event loop call `answer`, which it does at once unless it hangs."""
        # A loop that has ended never answers.
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(answer)

    @property
    def port(self) -> int:
        """The port that it listens on, even when `port` was 0; 0 where it has none."""
        return self._port or 0

    @property
    def url(self) -> str:
        """The URL for clients on this machine, without a trailing slash; `unix:PATH` where it has
        no port."""
        if self._port is None:
            return f"unix:{self._control}"
        host = _WILDCARDS.get(self.address, self.address)
        if ":" in host:
            host = f"[{host}]"
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    # The loop's thread.

    def _run(self, ready: threading.Event) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self._serve(ready))
        finally:
            ready.set()
            for listening in self._listening:
                listening.close()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._turn()
        for listening in self._listening:
            self._loop.add_reader(listening, self._accept, listening)
        ready.set()
        while not self._stopping.is_set():
            self._turn()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_S)
        for listening in self._listening:
            self._loop.remove_reader(listening)
            listening.close()
        for protocol in list(self._state.connections):
            protocol.shutdown()
        deadline = time.monotonic() + _DRAIN_S
        while self._state.tasks and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        self._gate.end_all()

    def _turn(self) -> None:
        self._turned_at = time.monotonic()
        self._gate.sweep()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._no_accept(listening, error)
                return
            user = control.user_of(accepted) if accepted.family == socket.AF_UNIX else None
            connection = self._gate.admit(connections.peer_of(address[0]) if user is None else user)
            if connection is None:
                accepted.close()
                continue
            accepted.setblocking(False)
            if user is None:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = asyncio.ensure_future(self._connect(accepted, connection, user))
            connection.end = task.cancel
            self._accepted.add(task)
            task.add_done_callback(partial(self._connected, accepted, connection))

    def _no_accept(self, listening: socket.socket, error: OSError) -> None:
        """Pause accepting: without free file descriptors the socket would stay readable."""
        assert self._loop is not None
        _log.warning("http-%s accepts no connection for a moment: %s", self.name, error.strerror)
        self._gate.make_room()
        self._loop.remove_reader(listening)
        self._loop.call_later(_NO_FILES_S, self._accept_again, listening)

    def _accept_again(self, listening: socket.socket) -> None:
        if self._loop is not None and listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)

    async def _connect(
        self, accepted: socket.socket, connection: connections.Connection, user: str | None
    ) -> None:
        loop = asyncio.get_running_loop()

        def protocol() -> connections.GuardedProtocol:
            return connections.GuardedProtocol(
                self._config, self._state, loop, self._gate, connection, user
            )

        await loop.connect_accepted_socket(
            protocol,
            accepted,
            ssl=None if user is not None else self._tls,
            ssl_handshake_timeout=_HANDSHAKE_S if self._tls and user is None else None,
        )

    def _connected(
        self, accepted: socket.socket, connection: connections.Connection, task: asyncio.Task[None]
    ) -> None:
        self._accepted.discard(task)
        # A cancelled task may not have begun, so it closed nothing.
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            _log.debug("no TLS with %s: %s", connection.peer, error)
            accepted.close()
            self._gate.forget(connection)

    async def _serve_one(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an exception that the application lets through is logged, as a 500."""
        whole = started = False

        async def receiving() -> Mapping[str, Any]:
            nonlocal whole
            message = await receive()
            if message["type"] == "http.disconnect" and not whole:
                raise ClientGone
            whole = whole or not message.get("more_body", False)
            return message

        async def sending(message: dict[str, Any]) -> None:
            nonlocal started
            if not started and message.get("status", 0) in _REFUSALS:
                await self._hold_back(scope)
            started = True
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        except ClientGone:
            return
        except Exception as error:
            # An application's exception must only cost one client a 500 and never end the server.
            self.refusals.failed(error, scope["path"])
            if started:
                raise
            await self._hold_back(scope)
            await _send_500(send)

    async def _hold_back(self, scope: Scope) -> None:
        """Wait as long as a refusal of this peer must (pace.py); nobody waits on the socket."""
        connection: connections.Connection | None = scope["state"].get(connections.CONNECTION)
        wait = 0.0 if connection is None else self._gate.refuses(connection)
        if connection is not None and wait:
            await asyncio.sleep(wait)
            self._gate.answers(connection)

    def _why(self, error: OSError) -> str:
        wanted = f"can't listen on {self.address} port {self._port}"
        if error.errno == errno.EADDRINUSE:
            return (
                f"{wanted}: another program has it; stop that one (`ss -ltnp` names it) "
                f"or set {self._option}"
            )
        if error.errno == errno.EACCES:
            return f"{wanted}: ports below 1024 need root; set {self._option} to a higher one"
        return f"{wanted}: {error.strerror or error}; see {self._option} and its address"


def _listen(address: str, port: int) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _uvicorn_config(app: AsgiApp) -> Config:
    config = Config(
        app,
        interface="asgi3",
        http=connections.GuardedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        # uvicorn's log quotes requests, and a client that sends no HTTP could fill it.
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=30,
    )
    config.load()
    return config


def _tls_context(cert: str, key: str | None) -> ssl.SSLContext:
    if key is None:
        raise StartError(f"tls_cert is {cert}, but tls_key is not set: give both or neither")
    for option, path in (("tls_cert", cert), ("tls_key", key)):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise StartError(f"{option} {path}: {error.strerror}") from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except (ssl.SSLError, OSError) as error:
        raise StartError(
            f"tls_cert {cert} and tls_key {key} are not a PEM certificate and its key: {error}"
        ) from error
    return context


async def _send_500(send: Send) -> None:
    body = b'{"title": "internal error", "errors": ["internal error"]}'
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
