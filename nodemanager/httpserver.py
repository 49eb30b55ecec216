"""An HTTP server for a WSGI application: cheroot, on daemon threads, quiet, and stopped in time.

The registry and the management server both stand on this. What it adds to cheroot 11:

- a bind error is raised where `start` was called and names the option to change;
- TLS handshakes happen on the worker threads (cheroot's happen on the accepting one, where a
  silent client holds up all others);
- a connection costs a worker only once it has sent something (browsers open some to spare, and
  cheroot has a worker wait for each);
- nothing it logs holds a query string, since ping secrets travel there;
- `stop` returns within `STOP_S` whatever a handler does.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterable
from traceback import format_exc
from typing import Any

from cheroot.makefile import StreamReader, StreamWriter
from cheroot.server import HTTPConnection
from cheroot.ssl import Adapter
from cheroot.wsgi import Server

from nodemanager.errors import StartError

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

STOP_S = 2.0
_DRAIN_S = 1
_IDLE_S = 10
_MAX_HEADER = 64 * 1024
_MAX_BODY = 16 * 1024 * 1024
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, never bound
_QUERY = re.compile(r"\?[^\s'\"]*")

_log = logging.getLogger(__name__)


class HttpServer:
    """Serve `app` on `address`:`port` with `threads` workers, from `start` to `stop`.

    `port` 0 takes a free one; `option` is the configuration option to name when the port is
    taken. With `tls_cert` and `tls_key` (PEM files) it speaks https only. `name` is the Server
    header and part of the thread's name.
    """

    def __init__(
        self,
        app: WsgiApp,
        address: str,
        port: int,
        *,
        option: str,
        threads: int,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        name: str = "nodemanager",
    ) -> None:
        self.address = address
        self._option = option
        self._name = name
        self._tls = tls_cert is not None
        self._thread: threading.Thread | None = None
        self._server = _Server(
            (address, port),
            _with_scrubbed_errors(app),
            numthreads=threads,
            max=threads,
            server_name=name,
            request_queue_size=128,
            timeout=_IDLE_S,
            shutdown_timeout=_DRAIN_S,
        )
        if tls_cert is not None:
            self._server.ssl_adapter = _tls_adapter(tls_cert, tls_key)

    def start(self) -> None:
        """Bind and begin to serve. Raises StartError when the address can't be had."""
        bound = threading.Event()
        failed: list[OSError] = []

        def run() -> None:
            # Bound here, on a daemon thread, since cheroot's workers inherit its daemon flag:
            # a handler that hangs must not keep the process from ending.
            try:
                self._server.prepare()
            except OSError as error:
                failed.append(self._server.bind_error or error)
                return
            finally:
                bound.set()
            self._server.serve()

        # cheroot takes file descriptor 3 for its socket whenever this is set, also when it was
        # meant for a parent process or another server of this one.
        os.environ.pop("LISTEN_PID", None)
        self._thread = threading.Thread(target=run, name=f"http-{self._name}", daemon=True)
        self._thread.start()
        bound.wait()
        if failed:
            self._thread.join()
            self._thread = None
            raise StartError(self._why(failed[0])) from failed[0]

    def stop(self) -> None:
        """Stop listening, let the requests under way end, within `STOP_S` seconds; idempotent."""
        if self._thread is None:
            return
        stopper = threading.Thread(
            target=self._server.stop, name=f"http-{self._name}-stop", daemon=True
        )
        stopper.start()
        stopper.join(STOP_S)
        self._thread = None

    @property
    def alive(self) -> bool:
        """Whether it still serves."""
        return self._thread is not None and self._thread.is_alive() and bool(self._server.ready)

    @property
    def port(self) -> int:
        """The port it listens on, also when it was asked for 0."""
        return int(self._server.bind_addr[1])

    @property
    def url(self) -> str:
        """Scheme, host and port as a client on this machine reaches it, no trailing slash."""
        host = _WILDCARDS.get(self.address, self.address)
        if ":" in host:
            host = f"[{host}]"
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    def _why(self, error: OSError) -> str:
        wanted = f"can't listen on {self.address} port {self.port}"
        if error.errno == errno.EADDRINUSE:
            return (
                f"{wanted}: another program has it; stop that one (`ss -ltnp` names it) "
                f"or set {self._option}"
            )
        if error.errno == errno.EACCES:
            return f"{wanted}: ports below 1024 are root's; set {self._option} to a higher one"
        return f"{wanted}: {error.strerror or error}; see {self._option} and its address"


class _Connection(HTTPConnection):
    def communicate(self) -> bool:
        if isinstance(self.socket, ssl.SSLSocket) and self.socket.version() is None:
            try:
                self.socket.do_handshake()
            except OSError as error:
                _log.debug("no TLS with %s: %s", self.remote_addr, error)
                return False
        return bool(super().communicate())  # type: ignore[no-untyped-call]


class _Server(Server):
    ConnectionClass = _Connection
    max_request_header_size = _MAX_HEADER
    max_request_body_size = _MAX_BODY
    keep_alive_conn_limit = 100
    expiration_interval = 0.2
    bind_error: OSError | None = None
    _connections: Any

    def bind(self, *family: Any) -> Any:
        # prepare() wraps this error in one that has lost its errno.
        try:
            return super().bind(*family)
        except OSError as error:
            self.bind_error = error
            raise

    def process_conn(self, conn: HTTPConnection) -> None:
        if conn.last_used is None:
            # New: wait for its first byte with the idle ones, not on a worker.
            self._connections.put(conn)
        else:
            super().process_conn(conn)

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        # INFO and below tell of clients that went away: noise, on a port anyone may touch.
        # The traceback is text here, not exc_info: its last line may quote the request.
        text = f"{msg}\n{format_exc()}" if traceback else msg
        _log.log(
            level if level > logging.INFO else logging.DEBUG, "%s", _without_queries(text.strip())
        )


class _Tls(Adapter):
    def __init__(self, cert: str, key: str) -> None:
        super().__init__(cert, key)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(cert, key)

    def wrap(self, sock: Any) -> tuple[ssl.SSLSocket, dict[str, str]]:
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, self.get_environ()

    def get_environ(self) -> dict[str, str]:
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def bind(self, sock: Any) -> Any:
        return sock

    def makefile(self, sock: Any, mode: str = "r", bufsize: int = -1) -> Any:
        return (StreamReader if "r" in mode else StreamWriter)(sock, mode, bufsize)


def _tls_adapter(cert: str, key: str | None) -> _Tls:
    if key is None:
        raise StartError(f"tls_cert is {cert}, but tls_key is not set: give both or neither")
    for option, path in (("tls_cert", cert), ("tls_key", key)):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise StartError(f"{option} {path}: {error.strerror}") from error
    try:
        return _Tls(cert, key)
    except (ssl.SSLError, OSError) as error:
        raise StartError(
            f"tls_cert {cert} and tls_key {key} are no PEM certificate and its key: {error}"
        ) from error


class _Errors:
    """What WSGI calls `wsgi.errors`: one log line for each write, without its query strings."""

    def write(self, text: str) -> int:
        if text.strip():
            _log.error("%s", _without_queries(text.strip()))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        pass


def _without_queries(text: str) -> str:
    return _QUERY.sub("?...", text)


def _with_scrubbed_errors(app: WsgiApp) -> WsgiApp:
    errors = _Errors()

    def scrubbed(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.errors"] = errors
        return app(environ, start_response)

    return scrubbed
