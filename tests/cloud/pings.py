"""A small real HTTP server that takes pings."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

DEADLINE = 20.0
SCRIPT = Path(__file__).parents[2] / "etc/node/nodemanager-ping"


def ping(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the shipped script with the shell that `sh` is on a node."""
    return subprocess.run(
        ["/bin/sh", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
        check=False,
    )


@dataclass(frozen=True)
class Ping:
    """One request: where it came from, what it asked, what was in its query and its form."""

    address: str
    method: str
    path: str
    query: dict[str, str]
    form: dict[str, str]


class PingServer:
    """Answers `status` and `body` to every ping; holds its answers back while `gate` is clear."""

    def __init__(self) -> None:
        self.status = 200
        self.body = "{}"
        self.gate = threading.Event()
        self.gate.set()
        self.pings: list[Ping] = []
        self.pages: dict[str, str] = {}
        self.failing: set[str] = set()
        """The pages that are answered with 500 now."""
        seen = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                parts = urlsplit(self.path)
                ping = Ping(
                    self.client_address[0],
                    self.command,
                    parts.path,
                    flat(parts.query),
                    flat(body),
                )
                seen.pings.append(ping)
                seen.gate.wait(DEADLINE)
                self.answer(seen.status, seen.body)

            def do_GET(self) -> None:
                page = seen.pages.get(self.path)
                if self.path in seen.failing:
                    self.answer(500, "")
                elif self.path.startswith("/computeMetadata/"):
                    knows = self.headers.get("Metadata-Flavor") == "Google" and page is not None
                    self.answer(200 if knows else 404, page or "")
                elif self.path.startswith("/metadata/"):
                    knows = self.headers.get("Metadata") == "true" and page is not None
                    self.answer(200 if knows else 404, page or "")
                elif self.headers.get("X-aws-ec2-metadata-token") != "a-token==":
                    self.answer(401, "")
                elif page is None:
                    self.answer(404, "")
                else:
                    self.answer(200, page)

            def do_PUT(self) -> None:
                amazon = any(page.startswith("/latest/") for page in seen.pages)
                known = self.path == "/latest/api/token" and amazon
                self.answer(200 if known else 404, "a-token==" if known else "")

            def answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"

    def url(self, record: str = "zzzzz-7ekkf-000000000000001") -> str:
        return f"{self.base}/arvados/v1/nodes/{record}/ping?ping_secret=s3cr3t-{record[-3:]}"

    def of(self, instance_id: str) -> list[Ping]:
        return [ping for ping in self.pings if ping.form.get("instance_id") == instance_id]


def flat(text: str) -> dict[str, str]:
    fields = parse_qs(text, keep_blank_values=True, strict_parsing=bool(text))
    assert all(len(values) == 1 for values in fields.values())
    return {key: values[0] for key, values in fields.items()}


@contextmanager
def ping_server() -> Iterator[PingServer]:
    server = PingServer()
    thread = threading.Thread(
        target=server.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.gate.set()
        server.server.shutdown()
        server.server.server_close()
        thread.join()


class Node:
    """A node with a drain hook that notes what it was run with, and says `says`."""

    def __init__(self, home: Path, server: PingServer, *options: str | Path) -> None:
        self.home, self.pings, self.options = home, server, options
        self.hook, self.ran, self.state = home / "drain", home / "ran", home / "state"
        (home / "ping-url").write_text(server.url())
        self.says("drained")

    def says(self, word: str, code: int = 0) -> None:
        self.hook.write_text(f"#!/bin/sh\necho $1 >>{self.ran}\necho {word}\nexit {code}\n")
        self.hook.chmod(0o755)

    def told(self, order: str | None) -> None:
        answer = {"drain": order is not None, "drain_order": order, "uuid": "u"}
        self.pings.body = json.dumps(answer)

    def ping(self, worker: str = "idle") -> subprocess.CompletedProcess[str]:
        self.pings.pings.clear()
        return ping(
            *(*self.options, "--url-file", self.home / "ping-url", "--worker-state", worker),
            *("--drain-hook", self.hook, "--state-directory", self.state),
        )

    @property
    def said(self) -> list[tuple[str | None, str | None, str | None]]:
        """Of each ping: worker_state, drain_hook, drain_order."""
        forms = [one.form for one in self.pings.pings]
        return [
            (form.get("worker_state"), form.get("drain_hook"), form.get("drain_order"))
            for form in forms
        ]

    @property
    def hook_runs(self) -> list[str]:
        return self.ran.read_text().split() if self.ran.exists() else []
