"""A registry restarted under load: no acknowledged ping is lost, and the daemon goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.cluster import DirectedCluster, over_arvados
from tests.live.crowd import Crowd, lost, others
from tests.live.harness import claim_of
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES = 2
MANY = 48
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


def test_a_registry_restarted_under_load_loses_no_acknowledged_ping_and_no_node(
    cluster: DirectedCluster,
):
    daemon = cluster.start()
    daemon.wait_for("cycle.done", paired=NODES, busy=NODES)
    nodes, ours = cluster.pids(), cluster.claimed()
    crowd = Crowd(cluster.registry.url, others(cluster.registry, NODES, MANY))
    before = daemon.last()
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
