"""The frame of the clouds' HTTP servers: on loopback, in threads of this process."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.cloud.faults import FaultsOnOrder, Reply

Answer = Callable[[str, str, Mapping[str, str], bytes], Reply | None]
"""The answer to verb, target, headers (by their lower-case names) and body; None to cut the
connection."""
Tls = tuple[str, str]
"""The files of a certificate and of its key."""


class CloudServer(FaultsOnOrder):
    """One cloud on a port of loopback, from `start` to `stop`; `serving` is a socketserver.

    `wrong` is what requests and answers had that the vendor's own description of its API does not
    allow.
    """

    def __init__(self, serving: Any, *, tls: Tls | None = None) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self._serving = serving
        self.port: int = serving.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=serving.serve_forever, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._serving.shutdown()
        self._thread.join(timeout=10)
        self._serving.server_close()

    close = stop

    def reset(self) -> None:
        """The cloud as new; a cloud has more to forget than what was asked."""
        self.start_afresh()

    def start_afresh(self) -> None:
        """No faults, nothing recorded, nothing wrong."""
        super().start_afresh()
        self.wrong = []


class Scripted(CloudServer):
    """Gives every request what `reply` makes of its verb and target, from the start on; `asked` are
    the targets and headers so far."""

    def __init__(self, reply: Callable[[str, str], Reply | None]) -> None:
        super().__init__(json_http(self._answer))
        self.reply = reply
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.start()

    def _answer(
        self, verb: str, target: str, headers: Mapping[str, str], _sent: bytes
    ) -> Reply | None:
        self.asked.append((target, headers))
        return self.reply(verb, target)


def in_foreground(kind: Callable[[int], CloudServer], url: str = "url") -> None:
    """Serve one at the port of the command line until the process ends; print its `url`."""
    server = kind(int(sys.argv[1]) if len(sys.argv) > 1 else 0).start()
    print(getattr(server, url), flush=True)
    threading.Event().wait()


def json_http(answer: Answer, port: int = 0, tls: Tls | None = None) -> ThreadingHTTPServer:
    """Gives `answer` to each request; an answer that names no type of its own is JSON."""
    serving = _Http(("127.0.0.1", port), _handler(answer))
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        serving.socket = context.wrap_socket(serving.socket, server_side=True)
    return serving


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Small writes would wait for each other's acknowledgement.
        disable_nagle_algorithm = True
        wbufsize = -1

        def do(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            sent = self.rfile.read(size)
            if len(sent) < size:
                # The request was cut off on its way: nothing was asked.
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = answer(self.command, self.path, headers, sent)
            if reply is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(reply.status)
            kind = {"Content-Type": "application/json; charset=UTF-8"}
            for name, value in {**kind, **reply.headers}.items():
                self.send_header(name, value)
            if reply.status != 204:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = do_HEAD = do

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
