"""A pool that is parked with a busy node, killed with -9, started again and unparked (O7)."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.cluster import DirectedCluster
from tests.live.harness import free_port
from tests.live.test_operator import BY, Operator

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES = 3


def test_a_parked_pool_empties_over_kill_9_until_it_is_unparked(tmp_path: Path) -> None:
    cluster = DirectedCluster(
        tmp_path,
        {
            "Daemon": {"min_nodes": NODES, "max_nodes": NODES},
            "Manage": {"port": free_port()},
            "Registry": {"slots": 8},
        },
    )
    cluster.everyone("busy")
    with closing(cluster):
        cluster.serve_registry()
        daemon, operator = cluster.start(), Operator(cluster)
        daemon.wait_for("cycle.done", busy=NODES)
        busy, *others = sorted(cluster.running())
        assert "`nodemanager unpark`" in operator.does("park", "--reason", "until Monday")
        for one in others:
            cluster.node_does(one, "idle")
        for one in others:
            gone = daemon.wait_for("node.gone", node=one, reason="parked")
            daemon.wait_for("record.cleaned", record=gone["record"], reason="after_shutdown")
        daemon.wait_for("cycle.done", parked=BY, nodes=1, busy=1, boots=0)
        daemon.wait_for("node.keep", node=busy, reason="parking")
        daemon.kill()

        after = cluster.start()
        after.wait_for("cycle.done", parked=BY, nodes=1, busy=1, boots=0)
        assert "PARKED for" in operator.does("status").splitlines()[0]
        told = json.loads(operator.does("orders", "--json"))["orders"][0]
        assert (told["order"], told["by"], told["why"]) == ("park", BY, "until Monday")
        explained = operator.does("explain", busy)
        assert "parking" in explained
        assert "until Monday" in explained
        cluster.node_does(busy, "idle")
        gone = after.wait_for("node.gone", node=busy, reason="parked")
        after.wait_for("record.cleaned", record=gone["record"], reason="after_shutdown")
        after.wait_for("cycle.done", parked=BY, nodes=0, boots=0)
        refused = json.loads(operator.does("status", "--json"))["boots_refused"]
        assert {one["reason"] for one in refused} == {"pool_parked"}
        assert after.lines("node.created") == []

        assert "boots nodes again" in operator.does("unpark")
        after.wait_for("cycle.done", busy=NODES)
        assert after.lines("invariant.broken") == []
        assert after.terminate() == 0
