"""No busy node is destroyed as idle, and idle ones go, under a scheduler and on EC2's API (D12).

Six nodes that ping once in ten polls. In each round as many jobs wait; the scheduler gives them out
at once, so that demand falls to nothing while every node's newest word is that it is idle.
`make dispatch` plays ten rounds.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.farm import NodeFarm
from tests.live.harness import Daemon, until
from tests.live.moto_process import Moto
from tests.live.test_ec2 import Ec2Cluster

ROUNDS = int(os.environ.get("DISPATCH_ROUNDS", "2"))
pytestmark = [
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.timeout(120 + 60 * ROUNDS),
]

NODES = 6
POLL_S = 0.3
PING_S = 10 * POLL_S
WORKS_S = 2.5 * PING_S
LATEST_S = 90.0
"""Boots, pings and polls on a machine that does much else."""


class Stage:
    """The cluster, the nodes behind it, and a scheduler that knows what each truly does."""

    def __init__(self, home: Path, *, drain_hooks: bool) -> None:
        self.moto = Moto(home)
        self.cluster = Ec2Cluster(home / "cluster", self.moto)
        self.cluster.change(
            {
                "Daemon": {
                    "max_nodes": NODES,
                    "poll_time": POLL_S,
                    "poll_stale_after": 10,
                    "node_stale_after": 120,
                },
                "Cloud": {"shutdown_windows": "0, 999999"},
            }
        )
        self.farm = NodeFarm(self.moto, home / "farm", ping_every=PING_S, drain_hooks=drain_hooks)

    def start(self) -> Daemon:
        self.farm.start()
        return self.cluster.start()

    def close(self) -> None:
        self.farm.close()
        self.cluster.close()
        self.moto.close()

    def all_wait_for_work(self, daemon: Daemon) -> frozenset[str]:
        """Six nodes are there, say that they are idle, and none of them drains."""

        def ready() -> bool:
            status = self.cluster.status(daemon)
            return status.get("nodes_idle") == NODES and not self.farm.draining()

        until("six idle nodes", ready, LATEST_S, told=daemon.told)
        return frozenset(self.moto.instances())


@pytest.fixture(params=[False, True], ids=["without-drain-hooks", "with-drain-hooks"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, drain_hooks=request.param)
    try:
        yield made
    finally:
        made.close()


def test_busy_nodes_live_and_idle_ones_go(stage: Stage) -> None:
    daemon = stage.start()
    chance = random.Random(12)
    working: frozenset[str] | None = None
    stage.cluster.want(NODES)
    for _ in range(ROUNDS):
        ready = stage.all_wait_for_work(daemon)
        assert working in (None, ready), "a node was lost between two rounds"
        # Each has said often enough that it is idle; the scheduler's round is due at any moment.
        time.sleep((2 + chance.random()) * PING_S)
        working = ready
        stage.farm.everyone("busy")
        stage.cluster.want(0)
        ends = time.monotonic() + WORKS_S
        until("the jobs' end", lambda ends=ends: time.monotonic() > ends, LATEST_S)
        assert frozenset(stage.moto.instances()) == working, daemon.told()
        assert stage.moto.calls("TerminateInstances") == []
        stage.cluster.want(NODES)
        until("demand", lambda: stage.cluster.status(daemon).get("nodes_wish") == NODES, LATEST_S)
        stage.farm.everyone("idle")
    stage.all_wait_for_work(daemon)

    stage.cluster.want(0)
    until("no node", lambda: not stage.moto.instances(), LATEST_S, told=daemon.told)
    reasons = {line["reason"] for line in daemon.lines("node.shutdown_started")}
    assert reasons == {"idle_beyond_demand"}
