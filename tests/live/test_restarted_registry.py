"""A registry restarted under load: no acknowledged ping is lost, and the daemon goes on."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.live.cluster import DirectedCluster, over_arvados
from tests.live.harness import claim_of
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES = 2
MANY = 48
THREADS = 4
RESTARTS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)
ENDED_S = 30.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DirectedCluster]:
    """Two nodes of the daemon's, and many of another pool that ping the same registry."""
    made = DirectedCluster(
        tmp_path / "cluster",
        {
            "Daemon": {"min_nodes": NODES, "max_nodes": NODES},
            "Registry": {"slots": NODES + MANY},
        },
    )
    made.everyone("busy")
    with closing(made):
        made.serve_registry()
        made.change(over_arvados(made.registry.url, NODES + MANY, 5))
        yield made


@dataclass
class Crowd:
    """Nodes of another pool, which ping one after the other, as fast as they are answered."""

    url: str
    rows: list[dict[str, Any]]
    acknowledged: dict[str, str] = field(default_factory=dict)
    """The newest stamp that each was told, by record."""
    answered: int = 0
    unheard: int = 0
    strange: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._over = threading.Event()
        parts = [self.rows[number::THREADS] for number in range(THREADS)]
        self._threads = [threading.Thread(target=self._run, args=(part,)) for part in parts]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, rows: list[dict[str, Any]]) -> None:
        line = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        number = 0
        while not self._over.is_set():
            row = rows[number % len(rows)]
            number += 1
            form = {"ping_secret": row["info"]["ping_secret"], "local_ipv4": address(row)}
            try:
                line.request(
                    "POST",
                    f"/arvados/v1/nodes/{row['uuid']}/ping",
                    urlencode(form),
                    {"content-type": "application/x-www-form-urlencoded"},
                )
                answer = line.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                self.unheard += 1
                line.close()
                # Nobody is there: not a busy loop until somebody is.
                self._over.wait(0.02)
                continue
            if answer.status == 200:
                self.answered += 1
                self.acknowledged[row["uuid"]] = str(json.loads(body)["last_ping_at"])
            else:
                self.strange.add(answer.status)
        line.close()


def address(row: dict[str, Any]) -> str:
    return f"10.9.0.{row['slot_number']}"


def test_a_registry_restarted_under_load_loses_no_acknowledged_ping_and_no_node(
    cluster: DirectedCluster,
):
    daemon = cluster.start()
    daemon.wait_for("cycle.done", paired=NODES, busy=NODES)
    nodes, ours = cluster.pids(), cluster.claimed()
    others = [
        cluster.registry.create(
            slot_number=NODES + number, properties={"nodemanager_pool": "another"}
        )
        for number in range(1, MANY + 1)
    ]
    crowd, before = Crowd(cluster.registry.url, others), daemon.last()
    crowd.start()
    try:
        for how in RESTARTS:
            told = crowd.answered
            until("load", lambda told=told: crowd.answered > told + 2 * MANY)
            known = dict(crowd.acknowledged)
            registry = cluster.registry_process
            assert registry is not None
            registry.signal(how)
            registry.process.wait(ENDED_S)
            unheard = crowd.unheard
            until("a ping nobody heard", lambda unheard=unheard: crowd.unheard > unheard)
            failed = daemon.wait_for("list.failed", source="records", after=before)
            known |= crowd.acknowledged

            cluster.serve_registry()
            rows = cluster.registry.rows()

            assert {uuid for uuid, stamp in known.items() if lost(rows[uuid], stamp)} == set()
            before = daemon.wait_for("list.ok", source="records", after=failed)
    finally:
        crowd.close()

    def is_well() -> bool:
        status = cluster.status(daemon)
        polled = status["polls"]["records"]["failures_in_a_row"] == 0
        return bool(polled and status["nodes_busy"] == NODES)

    until("a picture of fresh polls and pings", is_well, told=daemon.told)
    rows = cluster.registry.rows()
    assert {uuid for uuid, at in crowd.acknowledged.items() if lost(rows[uuid], at)} == set()
    assert len(crowd.acknowledged) == MANY
    assert crowd.strange <= {503}
    assert cluster.pids() == nodes
    for uuid, row in ours.items():
        assert claim_of(rows[uuid]) == claim_of(row)
        assert rows[uuid]["slot_number"] == row["slot_number"]
    for deed in ("record.clean", "node.shutdown_started", "node.setup_started", "breaker.opened"):
        assert not daemon.lines(deed, after=failed)
    assert daemon.terminate() == 0


def lost(row: dict[str, Any], acknowledged: str) -> bool:
    kept = row["last_ping_at"]
    return kept is None or datetime.fromisoformat(kept) < datetime.fromisoformat(acknowledged)
