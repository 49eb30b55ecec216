"""Floods and slow clients, on loopback, under systemd's default of 1,024 descriptors (X1, X2)."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.live.cluster import MANAGEMENT_TOKEN, TOKEN
from tests.live.harness import Daemon, Registry, end_all, write_config
from tests.waiting import until

pytestmark = pytest.mark.live

FILES = 1024
FLOOD = 1100
STRANGER = "127.0.0.2"
"""The address that floods and slow connections come from; honest nodes ping from 127.0.0.1."""
PATIENCE_S = 5.0
"""What a node waits for its answer, in these tests."""


class Served:
    """A daemon with its registry and its management server in one process, and one record."""

    def __init__(self, home: Path) -> None:
        state = home / "state"
        state.mkdir(mode=0o700)
        config = write_config(
            home / "flood.cfg",
            {
                "Daemon": {"pool": "flood", "max_nodes": 0, "poll_time": 0.5},
                "Cloud": {"provider": "dummy"},
                "Manage": {"port": 0, "ManagementToken": MANAGEMENT_TOKEN},
                "Registry": {"listen": "127.0.0.1:0", "token": TOKEN, "slots": 4},
            },
        )
        self.daemon = Daemon(config, state, log=home / "flood.log", files=FILES)
        self.registry = self.daemon.url_of("registry")
        self.management = self.daemon.url_of("management")
        row = Registry(self.registry, TOKEN).create()
        self.ping_url = f"{self.registry}/arvados/v1/nodes/{row['uuid']}/ping"
        self.secret = row["info"]["ping_secret"]

    def ping(self) -> float:
        """How long a node's ping took, in seconds. Raises for one that was not answered."""
        begun = time.monotonic()
        with requests.Session() as session:
            session.trust_env = False
            told = {"ping_secret": self.secret}
            session.post(self.ping_url, data=told, timeout=PATIENCE_S).raise_for_status()
        return time.monotonic() - begun

    def status(self) -> dict[str, Any]:
        answer = requests.get(f"{self.management}/status.json", timeout=PATIENCE_S)
        return dict(answer.json()) if answer.ok else {}

    def cpu_s(self) -> float:
        """The processor time that the process has taken so far."""
        fields = (
            Path(f"/proc/{self.daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    made = Served(tmp_path_factory.mktemp("flood"))
    yield made
    end_all([made.daemon])
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Honest:
    """A node that pings all the time, while the block runs."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.took: list[float] = []
        self.lost: list[str] = []

    def __enter__(self) -> Honest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            try:
                self.took.append(self._served.ping())
            except requests.RequestException as error:
                self.lost.append(type(error).__name__)


def address_of(url: str) -> tuple[str, int]:
    return "127.0.0.1", int(url.rpartition(":")[2])


def connect(url: str) -> socket.socket:
    return socket.create_connection(address_of(url), timeout=5, source_address=(STRANGER, 0))


@pytest.mark.parametrize("door", ["registry", "management"])
def test_a_flood_of_idle_connections_stops_no_ping_and_leaves_no_trace(
    served: Served, door: str
) -> None:
    """X1: 1,100 connections within 2 s that say nothing, then closed."""
    url = getattr(served, door)
    until("its first cycle", served.status)
    log_before = served.daemon.log.stat().st_size
    opened: list[socket.socket] = []
    with Honest(served) as node:
        begun = time.monotonic()
        for number in range(FLOOD):
            with contextlib.suppress(OSError):
                opened.append(connect(url))
            time.sleep(max(0.0, begun + 2 * number / FLOOD - time.monotonic()))
        descriptors = len(os.listdir(f"/proc/{served.daemon.process.pid}/fd"))
        assert node._over.wait(3) is False
        for one in opened:
            one.close()
        after = len(node.took)
        until("pings after the flood", lambda: len(node.took) > after + 10, 20)
    assert descriptors < FILES * 3 / 4
    assert node.lost == []
    assert max(node.took) < PATIENCE_S
    assert served.status()["pool"] == "flood"
    before = served.cpu_s()
    time.sleep(2)
    assert served.cpu_s() - before < 0.6
    assert served.daemon.log.stat().st_size - log_before < 100_000
    assert served.daemon.running


@pytest.mark.parametrize("part", ["header", "body"])
@pytest.mark.parametrize("count", [5, 20])
def test_slow_clients_stop_no_ping(served: Served, count: int, part: str) -> None:
    """X2: each drips one byte now and then, of its header or of its body; so many at each door."""
    head = "POST /arvados/v1/nodes/zzzzz-7ekkf-000000000000000/ping HTTP/1.1\r\nHost: x\r\n"
    sent = f"{head}X-a: " if part == "header" else f"{head}Content-Length: 9000\r\n\r\na"
    slow = [connect(url) for url in (served.registry, served.management) for _ in range(count)]
    for one in slow:
        one.sendall(sent.encode())
    with Honest(served) as node:
        for _ in range(6):
            node._over.wait(0.5)
            for one in slow:
                with contextlib.suppress(OSError):
                    one.sendall(b"a")
        answer = requests.get(f"{served.management}/metrics", timeout=PATIENCE_S)
    for one in slow:
        one.close()
    assert answer.ok
    assert node.lost == []
    assert len(node.took) > 5
    assert max(node.took) < PATIENCE_S


def test_a_request_that_does_not_end_is_ended(served: Served) -> None:
    """X2: the deadline is for the whole request, however often a byte of it comes."""
    with connect(served.registry) as slow:
        slow.sendall(b"POST /arvados/v1/nodes HTTP/1.1\r\nHost: x\r\nX-a: ")
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError):
            slow.settimeout(0.5)
            while time.monotonic() - begun < 30:
                slow.sendall(b"a")
                with contextlib.suppress(TimeoutError):
                    if not slow.recv(1):
                        break
        assert time.monotonic() - begun < 20
