"""Pings a second that a registry process answers, beside a bare application on the same server."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from nodemanager.lib.clock import SystemClock
from nodemanager.records.schema import nodes
from nodemanager.records.sql import SqlRecordStore

RECORDS = 10_000
CONNECTIONS = (4, 16, 64)
SECONDS = 4.0
IDLE, DRIPPING = 200, 20
STRANGER = "127.0.0.2"
BARE = "bare falcon.asgi"
CONFIG = """
[Daemon]
pool = bench
state_dir = {home}/state
[Cloud]
provider = dummy
[Logging]
file = {home}/log
[Registry]
database = {database}
listen = 127.0.0.1:0
token = bench
slots = {slots}
"""
_BARE = """
import sys, threading
import falcon.asgi
from nodemanager.httpserver.server import HttpServer

class Ping:
    async def on_post(self, req, resp, uuid):
        await req.stream.read(100_000)
        resp.data, resp.content_type = b"x" * 900, "application/json"

app = falcon.asgi.App()
app.add_route("/arvados/v1/nodes/{uuid}/ping", Ping())
server = HttpServer(app, "127.0.0.1", 0, option="")
server.start()
print(server.url, flush=True)
threading.Event().wait()
"""


FLOODING = 80
WORST_GOAL = 2.0
"""How much longer the 99th percentile may be beside clients that flood, in one run."""
WORST = f"{FLOODING} with the worst body"
_FLOOD = """
import socket, sys, threading
port, count = int(sys.argv[1]), int(sys.argv[2])
head = "POST /arvados/v1/nodes/zzzzz-7ekkf-000000000000000/ping HTTP/1.1\\r\\nHost: x\\r\\n"
head += "Content-Type: application/x-www-form-urlencoded\\r\\nContent-Length: %d\\r\\n\\r\\n"
bodies = [b"ping_secret=" + b"%41" * times for times in (349000, 2700)]
floods = [(head % len(body)).encode() + body for body in bodies]

def flood(whole):
    opened = None
    while True:
        try:
            opened = opened or socket.create_connection(("127.0.0.1", port), 30, ("127.0.0.3", 0))
            opened.sendall(whole)
            if not opened.recv(65536):
                raise OSError
        except OSError:
            if opened is not None:
                opened.close()
            opened = None

for number in range(count):
    threading.Thread(target=flood, args=(floods[number % 2],), daemon=True).start()
print("floods", flush=True)
threading.Event().wait()
"""


@dataclass(frozen=True)
class Rate:
    """What `connections` clients got, each of which sends a ping once the last was answered."""

    server: str
    connections: int
    beside: str
    cpu_us: float
    """What the server's process computed for one: the machine may have other work."""
    pings_s: float
    p50_ms: float
    p99_ms: float
    refused: int


def measure(server: str, database: str | None) -> Iterator[Rate]:
    """Rates of a registry over `database`, an empty one; of the bare application without one."""
    with tempfile.TemporaryDirectory() as home:
        if database is None:
            requests = [_request(f"zzzzz-7ekkf-{0:015d}", "x", 1)]
            command = [sys.executable, "-c", _BARE]
        else:
            requests = _prefill(database, RECORDS)
            config = Path(home) / "bench.cfg"
            config.write_text(
                CONFIG.format(home=home, database=database, slots=2 * RECORDS), encoding="utf-8"
            )
            config.chmod(0o600)
            command = [sys.executable, "-m", "nodemanager", "registry", "--config", str(config)]
        with _serving(command, Path(home) / "log") as (pid, address):

            def rate(connections: int, beside: str = "") -> Rate:
                before = cpu_s(pid)
                count, *rest = _load(address, connections, requests, SECONDS)
                cpu_us = (cpu_s(pid) - before) / count * 1e6
                return Rate(server, connections, beside, cpu_us, *rest)

            _load(address, 16, requests, 1.0)
            for connections in CONNECTIONS:
                yield rate(connections)
            with _strangers(address):
                yield rate(16, f"{IDLE} idle, {DRIPPING} dripping")
            if database is not None:
                with _flooded(address):
                    yield rate(16, WORST)


def _prefill(database: str, count: int) -> list[bytes]:
    """Put `count` records with a slot and an address into it; the ping of each."""
    store = SqlRecordStore(
        database,
        slots=2 * count,
        hostname="compute%(slot_number)d",
        domain="bench.example",
        public_url="http://127.0.0.1:1",
        clock=SystemClock(),
    )
    now, rows, requests = time.time_ns(), [], []
    for slot in range(1, count + 1):
        uuid, secret = f"zzzzz-7ekkf-{slot:015d}", secrets.token_urlsafe(24)
        instance = f"i-{slot:017x}"
        claim = {"pool": "bench", "manager": "m", "token": 1, "at": 1.0, "node_name": "n"}
        rows.append(
            {
                "uuid": uuid,
                "version": 1,
                "created_at": now,
                "modified_at": now,
                "slot_number": slot,
                "hostname": f"compute{slot}",
                "domain": "bench.example",
                "ip_address": f"10.{slot >> 16}.{slot >> 8 & 255}.{slot & 255}",
                "first_ping_at": now,
                "last_ping_at": now,
                "job_uuid": None,
                "incarnation": f"{slot:032x}",
                "properties": {
                    "nodemanager_pool": "bench",
                    "nodemanager_claim": claim | {"incarnation": f"{slot:032x}"},
                    "total_cpu_cores": 8,
                },
                "info": {
                    "ping_secret": secret,
                    "ec2_instance_id": instance,
                    "worker_state": "busy",
                },
            }
        )
        requests.append(_request(uuid, secret, slot))
    with store.db.writing() as connection:
        connection.execute(sa.insert(nodes), rows)
    store.close()
    random.Random(1).shuffle(requests)
    return requests


def _request(uuid: str, secret: str, slot: int) -> bytes:
    told = (
        f"ping_secret={secret}&instance_id=i-{slot:017x}&worker_state=busy"
        f"&local_ipv4=10.0.0.1&total_cpu_cores=8"
    )
    return (
        f"POST /arvados/v1/nodes/{uuid}/ping HTTP/1.1\r\nHost: bench\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n"
        f"Content-Length: {len(told)}\r\n\r\n{told}"
    ).encode()


@contextlib.contextmanager
def _serving(command: Sequence[str], log: Path) -> Iterator[tuple[int, tuple[str, int]]]:
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        deadline, url = time.monotonic() + 60, ""
        if "-c" in command:
            url = process.stdout.readline().strip()
        while not url:
            assert time.monotonic() < deadline, "the registry does not start"
            time.sleep(0.1)
            text = log.read_text(encoding="utf-8") if log.exists() else ""
            url = text.partition("url=")[2].split()[0] if "url=" in text else ""
        yield process.pid, ("127.0.0.1", int(url.rpartition(":")[2]))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _strangers(address: tuple[str, int]) -> Iterator[None]:
    """Connections that say nothing, and others that drip a header; ended ones come again."""
    over = threading.Event()

    def keep() -> None:
        opened: list[tuple[socket.socket, bool]] = []
        while not over.wait(0.3):
            while len(opened) < IDLE + DRIPPING:
                one = socket.create_connection(address, source_address=(STRANGER, 0))
                drips = sum(d for _, d in opened) < DRIPPING
                if drips:
                    one.sendall(b"POST / HTTP/1.1\r\nX: ")
                one.setblocking(False)
                opened.append((one, drips))
            opened = [(one, drips) for one, drips in opened if _lives(one, drips)]
        for one, _ in opened:
            one.close()

    thread = threading.Thread(target=keep)
    thread.start()
    time.sleep(1)
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def _flooded(address: tuple[str, int]) -> Iterator[None]:
    """A process without credentials that sends the worst bodies over many connections."""
    command = [sys.executable, "-c", _FLOOD, str(address[1]), str(FLOODING)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        # The first refusals are answered at once.
        time.sleep(2)
        yield
    finally:
        process.kill()
        process.wait(30)


def _lives(one: socket.socket, drips: bool) -> bool:
    with contextlib.suppress(BlockingIOError):
        try:
            if drips:
                one.sendall(b"a")
            if one.recv(1) == b"":
                raise ConnectionError
        except ConnectionError:
            one.close()
            return False
    return True


@dataclass
class _Client:
    sent_at: float
    got: bytes = b""


def _load(
    address: tuple[str, int], connections: int, requests: Sequence[bytes], seconds: float
) -> tuple[int, float, float, float, int]:
    """How many, how many a second, median and 99th percentile in ms, how many got no 200."""
    selector, took, refused, turn = selectors.DefaultSelector(), list[float](), 0, 0
    for _ in range(connections):
        opened = socket.create_connection(address)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(opened, selectors.EVENT_READ, _Client(time.perf_counter()))
        opened.sendall(requests[turn % len(requests)])
        turn += 1
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for key, _ in selector.select(1):
            client, opened = key.data, key.fileobj
            assert isinstance(opened, socket.socket)
            came = opened.recv(65536)
            assert came, "a client that works was ended"
            client.got += came
            head, _, body = client.got.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if not length or len(body) < int(length):
                continue
            now = time.perf_counter()
            took.append(now - client.sent_at)
            refused += client.got[9:12] != b"200"
            client.sent_at, client.got = now, b""
            opened.sendall(requests[turn % len(requests)])
            turn += 1
    elapsed = time.perf_counter() - begun
    for key in list(selector.get_map().values()):
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    took.sort()
    at = [took[int(len(took) * part)] * 1e3 for part in (0.5, 0.99)]
    return len(took), len(took) / elapsed, at[0], at[1], refused
