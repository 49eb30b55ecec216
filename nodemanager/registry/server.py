"""The server under the HTTP face: cheroot, a few threads, TLS where a certificate is given."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

from cheroot.ssl.builtin import BuiltinSSLAdapter
from cheroot.wsgi import Server

from nodemanager.errors import StartError

log = logging.getLogger("nodemanager.registry")

_HEADER_BYTES = 64 * 1024


class RegistryServer:
    """Serves the WSGI application `app` on `listen`, `host:port`; port 0 takes a free one.

    With `tls_cert` and `tls_key` (files in PEM) it speaks TLS, and only that. `threads` answer
    requests; `timeout` in seconds bounds how long a silent client holds one. Raises StartError.
    """

    def __init__(
        self,
        app: Callable[..., Any],
        listen: str,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        *,
        threads: int = 6,
        timeout: int = 10,
    ) -> None:
        self._listen = listen
        self._tls = tls_cert is not None
        self._server = _HttpServer(
            _split(listen),
            app,
            numthreads=threads,
            max=threads,
            server_name="nodemanager",
            request_queue_size=512,
            timeout=timeout,
            shutdown_timeout=5,
        )
        self._server.max_request_header_size = _HEADER_BYTES
        # How long its loop sleeps at most, hence how long stop() waits for it.
        self._server.expiration_interval = 0.1
        if tls_cert is not None or tls_key is not None:
            self._server.ssl_adapter = _tls(tls_cert, tls_key)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen, and serve in a thread of its own. Raises StartError when it can't listen."""
        listening: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._serve, args=(listening,), name="registry-http", daemon=True
        )
        self._thread.start()
        try:
            listening.result()
        except OSError as error:
            self._thread = None
            raise StartError(
                f"the registry can't listen on {self._listen} ({error}); is another one running?"
                " See [Registry] listen"
            ) from error

    def _serve(self, listening: Future[None]) -> None:
        # The workers are started here: daemons like this thread, so that a process that ends
        # without stop() does end.
        try:
            self._server.prepare()
        except BaseException as error:
            listening.set_exception(error)
            return
        listening.set_result(None)
        self._server.serve()

    @property
    def alive(self) -> bool:
        """Whether it still serves."""
        return self._thread is not None and self._thread.is_alive() and bool(self._server.ready)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on, once started."""
        host, port = self._server.bind_addr[:2]
        return str(host), int(port)

    @property
    def url(self) -> str:
        """Where it is reached from this machine, once started."""
        host, port = self.address
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared only
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self._tls else 'http'}://{shown}:{port}"

    def stop(self) -> None:
        """Answer what was asked, then stop listening; idempotent."""
        self._server.stop()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None


class _HttpServer(Server):
    """Says what went wrong through logging; requests themselves are never logged.

    A connection gets a worker once it has something to read: otherwise as many silent clients as
    there are workers would keep every node out.
    """

    def process_conn(self, conn: Any) -> None:
        if getattr(conn, "has_spoken", False):
            super().process_conn(conn)
        else:
            conn.has_spoken = True
            self.put_conn(conn)

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        log.log(logging.WARNING if traceback else logging.DEBUG, "%s", msg, exc_info=traceback)


class _LazyTls(BuiltinSSLAdapter):
    """Shakes hands in the worker that reads the request, not in the one thread that accepts.

    Otherwise a client that connects and says nothing would keep every node out.
    """

    def wrap(self, sock: Any) -> tuple[Any, dict[str, str]]:
        wrapped = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}


def _tls(cert: str | None, key: str | None) -> _LazyTls:
    if cert is None or key is None:
        raise StartError("[Registry] tls_cert and tls_key are given together or not at all")
    try:
        adapter = _LazyTls(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise StartError(
            f"[Registry] tls_cert = {cert}, tls_key = {key}: can't be used ({error})"
        ) from error
    adapter.context.minimum_version = ssl.TLSVersion.TLSv1_2
    return adapter


def _split(listen: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{listen}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None or parts.path:
        raise StartError(f"[Registry] listen = {listen}: use host:port")
    return host, port
