"""A daemon under many hostile orders, rows and requests: it lives, and its nodes ping."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import random
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from nodemanager.lib import control
from tests.hostile import HALF, VALUES
from tests.live.cluster import MANAGEMENT_TOKEN, TOKEN
from tests.live.harness import Daemon, Registry, end_all, write_config
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.slow]

KINDS = 8
EACH = int(os.environ.get("HOSTILE", "800")) // KINDS
"""`make proof NAME=hostile` plays ten thousand."""
LARGEST_LOG = 10 * 1024 * 1024
SAYS = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
NODES = "/arvados/v1/nodes"
BYTES = [b"caf\xe9", b"\xff\xfe\x00", b"{", b'{"a":' * 500 + b"1" + b"}" * 500, b"NaN", b"9" * 400]


def as_json(value: Any) -> str:
    """The value as JSON, whether that allows it or not."""
    return json.dumps(value, default=lambda one: one.decode("latin-1"))


class Pool:
    """A daemon with every port that takes something from outside."""

    def __init__(self, home: Path) -> None:
        self.state = home / "state"
        self.state.mkdir(mode=0o700)
        self.queue, self.nodes = home / "queue", home / "nodes"
        self.queue.write_text("", encoding="utf-8")
        self.nodes.write_text('{"nodes": []}', encoding="utf-8")
        says = f'{sys.executable} -c "{SAYS}"'
        config = write_config(
            home / "hostile.cfg",
            {
                "Daemon": {
                    "pool": "hostile",
                    "max_nodes": 0,
                    "poll_time": 0.5,
                    "dispatcher": "command",
                },
                "Scheduler": {
                    "queue_command": f"{says} {self.queue}",
                    "nodes_command": f"{says} {self.nodes}",
                    **{f"{verb}_command": "true" for verb in ("drain", "resume", "down")},
                },
                "Cloud": {"provider": "dummy"},
                "Manage": {"port": 0, "ManagementToken": MANAGEMENT_TOKEN},
                "Registry": {"listen": "127.0.0.1:0", "token": TOKEN, "slots": 4000},
            },
        )
        self.daemon = Daemon(config, self.state, log=home / "hostile.log")
        self.registry = self.daemon.url_of("registry")
        self.management = self.daemon.url_of("management")
        self.row = Registry(self.registry, TOKEN).create()
        self.rows: list[str] = []

    def ping(self) -> int:
        url = f"{self.registry}{NODES}/{self.row['uuid']}/ping"
        told = {"ping_secret": self.row["info"]["ping_secret"]}
        return requests.post(url, data=told, timeout=10).status_code

    def cycles(self) -> int:
        return int(requests.get(f"{self.management}/status.json", timeout=10).json()["cycles"])

    # What is said to it, each with a number and a random generator.

    def order(self, number: int, draw: random.Random) -> None:
        """An operator's order over the socket."""
        verb = draw.choice(["hold", "release", "drain", "cordon", "kill", "clean", "run"])
        value = draw.choice(list(VALUES.values()))
        key = draw.choice(["by", "reason", "force", "unlisted", "x"])
        told = {"by": "ann", "reason": "why not", key: value}
        text = as_json(
            {k: v.decode("latin-1") if isinstance(v, bytes) else v for k, v in told.items()}
        )
        id = quote(str(draw.choice([*VALUES, HALF, number])), errors="surrogatepass")
        self._locally(f"/api/{verb}/{id}", text)

    def power(self, number: int, draw: random.Random) -> None:
        """What slurmctld's programs hand over."""
        path = f"/api/power/{draw.choice(['resume', 'suspend'])}"
        self._locally(path, f'{{"nodes": {as_json(draw.choice(list(VALUES.values())))}}}')

    def _locally(self, path: str, body: str) -> None:
        connection = http.client.HTTPConnection("localhost", timeout=30)
        connection.sock = control.connect(self.state / control.NAME, 30)
        with contextlib.closing(connection):
            connection.request("POST", path, body.encode(), {"Content-Type": "application/json"})
            assert connection.getresponse().status < 600

    def api_row(self, number: int, draw: random.Random) -> None:
        """A record that a client of the registry writes."""
        field = draw.choice(["hostname", "ip_address", "slot_number", "first_ping_at", "info"])
        value = draw.choice(list(VALUES.values()))
        if draw.random() < 0.5:
            field, value = "properties", {"note": value, "nodemanager_pool": value}
        if isinstance(value, dict):
            value = {
                k: v.decode("latin-1") if isinstance(v, bytes) else v for k, v in value.items()
            }
        body = f'{{"node": {{"{field}": {as_json(value)}}}}}'
        self._send("registry", "POST", NODES, body.encode(), "application/json", TOKEN)

    def ping_request(self, number: int, draw: random.Random) -> None:
        """A ping of somebody without a secret."""
        value = draw.choice([*map(as_json, VALUES.values()), "%41" * 90_000, "&a=b" * 5000])
        body = draw.choice([f"ping_secret={value[:300_000]}", f'{{"ping_secret": {value}}}'])
        kind = draw.choice(["application/json", "application/x-www-form-urlencoded", "\xff"])
        self._send(
            "registry", "POST", f"{NODES}/{self.row['uuid']}/ping", body.encode(), kind, None
        )

    def page(self, number: int, draw: random.Random) -> None:
        """A page of the dashboard, or a number, for somebody who is not signed in."""
        path = draw.choice(["/sign-in?next=", "/nodes/", "/live?of=", "/status.json?", "/metrics?"])
        value = draw.choice(["//[", "//%5B", "%ED%A0%80", "%00", "a" * 9000, "//a%E2%84%80b"])
        self._send("management", "GET", path + value, b"", "text/plain", None, draw)

    def junk(self, number: int, draw: random.Random) -> None:
        """What is hardly HTTP, at either port."""
        url = draw.choice([self.registry, self.management])
        sent = draw.choice(
            [
                b"GET /\r\nHost: x\r\n\r\n",
                b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"a=b;" * 9000 + b"\r\n\r\n",
                b"\x16\x03\x01\x02\x00" + draw.randbytes(100),
                b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n",
            ]
        )
        with contextlib.suppress(OSError), self._connected(url, number) as client:
            client.sendall(sent)

    def stored_row(self, number: int, draw: random.Random) -> None:
        """What somebody with the file writes into a column of a record."""
        column = draw.choice(["info", "properties", "hostname", "ip_address", "drain", "domain"])
        value = draw.choice([*BYTES, 2**62, -1, 1.5e300, None if column != "info" else b""])
        kind = draw.choice(["CAST(? AS TEXT)", "?"])
        put = f"UPDATE nodes SET {column} = {kind} WHERE uuid = ?"
        with (
            contextlib.suppress(sqlite3.Error),
            sqlite3.connect(self.state / "registry.db", timeout=30) as connection,
        ):
            connection.execute(put, (value, draw.choice(self.rows)))

    def scheduled(self, number: int, draw: random.Random) -> None:
        """A job, and a node, of the scheduler's programs."""
        value = as_json(draw.choice(list(VALUES.values())))
        job = f'{{"id": "{number}", "{draw.choice(["cores", "features", "x"])}": {value}}}\n'
        node = f'{{"nodes": [{{"node": {value}, "state": "idle"}}]}}'
        self.queue.write_bytes(draw.choice([job.encode(), *BYTES]))
        self.nodes.write_bytes(draw.choice([node.encode(), *BYTES]))

    @contextlib.contextmanager
    def _connected(self, url: str, number: int) -> Iterator[socket.socket]:
        """From one of many addresses: each peer has a pace of its own."""
        port, source = int(url.rpartition(":")[2]), f"127.0.1.{1 + number % 200}"
        with socket.create_connection(("127.0.0.1", port), 30, (source, 0)) as client:
            yield client

    def _send(
        self,
        server: str,
        method: str,
        path: str,
        body: bytes,
        kind: str,
        token: str | None,
        draw: random.Random | None = None,
    ) -> None:
        """Send a request, and do not wait for an answer longer than it takes to be read."""
        number = next(_NUMBERS)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {token}\r\n" if token else ""
        if draw is not None:
            head += f"Origin: {draw.choice(['http://[', 'null'])}\r\n"
        with contextlib.suppress(OSError), self._connected(getattr(self, server), number) as client:
            client.sendall(head.encode("latin-1") + b"\r\n" + body)
            client.settimeout(0.05)
            client.recv(65536)


_NUMBERS = itertools.count()


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    made = Pool(tmp_path)
    yield made
    end_all([made.daemon])


def test_no_hostile_word_ends_anything(pool: Pool) -> None:
    until("its first cycle", lambda: pool.daemon.lines("cycle.done"))
    pool.rows = [Registry(pool.registry, TOKEN).create()["uuid"] for _ in range(20)]
    kinds: list[Callable[[int, random.Random], None]] = [
        *(pool.order, pool.power, pool.api_row, pool.ping_request),
        *(pool.page, pool.junk, pool.stored_row, pool.scheduled),
    ]
    assert len(kinds) == KINDS
    failed: list[BaseException] = []

    def say(kind: Callable[[int, random.Random], None]) -> None:
        draw = random.Random(kind.__name__)
        try:
            for number in range(EACH):
                kind(number, draw)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=say, args=(kind,)) for kind in kinds]
    for thread in threads:
        thread.start()
    answered = set()
    while any(thread.is_alive() for thread in threads):
        answered.add(pool.ping())
        assert pool.daemon.running, pool.daemon.told()
    for thread in threads:
        thread.join()
    assert not failed
    assert answered == {200}
    pool.queue.write_text("", encoding="utf-8")
    pool.nodes.write_text('{"nodes": []}', encoding="utf-8")
    last = pool.daemon.last()
    pool.daemon.wait_for("list.ok", after=last, source="scheduler")
    assert pool.ping() == 200
    said = pool.daemon.log.stat().st_size
    assert said < LARGEST_LOG, f"its log has {said} bytes"
    assert not pool.daemon.lines("actor.died")
    assert pool.daemon.terminate() == 0
