"""No busy node is destroyed as idle, and idle ones go, under a scheduler and on EC2's API (D12).

Four nodes that ping once in ten polls. In each round as many jobs wait; the scheduler gives them
out at once, so that demand falls to nothing while every node's newest word is that it is idle.
`make proof NAME=dispatch` plays ten rounds.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.cluster import Sections
from tests.live.ec2 import Ec2Cluster, ec2_cluster
from tests.live.harness import Daemon
from tests.waiting import until

ROUNDS = int(os.environ.get("DISPATCH_ROUNDS", "1"))
pytestmark = [
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.timeout(300 + 120 * ROUNDS),
]

NODES = 4
POLL_S = 0.3
PING_S = 10 * POLL_S
WORKS_S = 2.5 * PING_S
LATEST_S = 90.0
"""Boots, pings and polls on a machine that does much else."""


@pytest.fixture(
    params=[
        pytest.param(True, id="with-drain-hooks"),
        pytest.param(False, id="without-drain-hooks", marks=pytest.mark.proof),
    ]
)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ec2Cluster]:
    options: Sections = {
        "Daemon": {
            "max_nodes": NODES,
            "poll_time": POLL_S,
            "poll_stale_after": 10,
            "node_stale_after": 120,
        },
    }
    made = ec2_cluster(tmp_path, options, ping_every=PING_S, drain_hooks=request.param)
    with closing(made):
        made.farm.start()
        yield made


def all_wait_for_work(cluster: Ec2Cluster, daemon: Daemon) -> frozenset[str]:
    """All nodes are there, say that they are idle, and none of them drains."""

    def ready() -> bool:
        status = cluster.status(daemon)
        return status.get("nodes_idle") == NODES and not cluster.farm.draining()

    until("idle nodes", ready, LATEST_S, told=daemon.told)
    return frozenset(cluster.cloud.instances())


def test_busy_nodes_live_and_idle_ones_go(cluster: Ec2Cluster) -> None:
    daemon = cluster.start()
    chance = random.Random(12)
    working: frozenset[str] | None = None
    cluster.want(NODES)
    for _ in range(ROUNDS):
        ready = all_wait_for_work(cluster, daemon)
        assert working in (None, ready), "a node was lost after a round"
        # Each has said often enough that it is idle; the scheduler's round is due at any moment.
        time.sleep((2 + chance.random()) * PING_S)
        working = ready
        cluster.farm.everyone("busy")
        cluster.want(0)
        ends = time.monotonic() + WORKS_S
        until("the jobs' end", lambda ends=ends: time.monotonic() > ends, LATEST_S)
        assert frozenset(cluster.cloud.instances()) == working, daemon.told()
        assert cluster.cloud.calls("TerminateInstances") == []
        cluster.want(NODES)
        until("demand", lambda: cluster.status(daemon).get("nodes_wish") == NODES, LATEST_S)
        cluster.farm.everyone("idle")
    assert all_wait_for_work(cluster, daemon) == working, "a node was lost after the last round"

    cluster.want(0)
    until("no node", lambda: not cluster.cloud.instances(), LATEST_S, told=daemon.told)
    reasons = {line["reason"] for line in daemon.lines("node.shutdown_started")}
    assert reasons == {"idle_beyond_demand"}
