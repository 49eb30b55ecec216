"""An HTTP server on loopback, in threads of this process, for clouds whose API speaks JSON."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.cloud.faults import Reply

Answer = Callable[[str, str, Mapping[str, str], bytes], Reply | None]
"""The answer to verb, target, headers (by their lower-case names) and body; None to cut the
connection."""


class JsonHttp:
    """Serves `answer` on a port of loopback, from `start` to `stop`."""

    def __init__(self, answer: Answer, port: int = 0) -> None:
        self._server = _Http(("127.0.0.1", port), _handler(answer))
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()


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
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = answer(self.command, self.path, headers, sent)
            if reply is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = do

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
