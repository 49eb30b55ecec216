"""`nodemanager advise` and `cost` on the journal of a real daemon, while it runs."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.forked import run
from tests.live.cluster import LocalCluster
from tests.live.harness import Daemon, environment
from tests.waiting import until

pytestmark = [pytest.mark.proof, pytest.mark.live, pytest.mark.server("curl")]

NODES = 3
FROZEN_S = 7.0
PRICE = 0.36
POLL_S = 0.5


class Told:
    """A pool of which one node froze for a while and another was killed, and what was said."""

    def __init__(self, cluster: LocalCluster, daemon: Daemon) -> None:
        paired = [daemon.wait_for("node.paired", count=count + 1) for count in range(NODES)]
        # One that freezes before its first ping is a slow boot, and no silence.
        daemon.wait_for("cycle.done", paired=NODES, booting=0)
        frozen, killed = paired[0], paired[1]
        self.frozen_host = frozen["host"]
        pid = cluster.pids()[frozen["node"]]
        os.killpg(pid, signal.SIGSTOP)
        self.frozen_at = time.time()
        until("its silence", lambda: time.time() - self.frozen_at > FROZEN_S)
        os.killpg(pid, signal.SIGCONT)
        self.thawed_at = time.time()
        cluster.kill_node(killed["node"])
        self.killed_at = time.time()
        daemon.wait_for("record.cleaned", record=killed["record"])
        self.launched = {
            node_id: float(entry.meta()["created_at"])
            for node_id, entry in cluster.running().items()
        }
        self.killed_launched_at = float(
            next(one for one in cluster._cloud.all() if one.id == killed["node"]).meta()[
                "created_at"
            ]
        )
        journal = str(cluster.state / "journal.db")
        self.advice = nodemanager("advise", journal, "--json")
        self.cost = nodemanager("cost", journal, "--json")

    def option(self, name: str) -> dict[str, Any]:
        return next(one for one in self.advice["options"] if one["option"] == name)


def nodemanager(*words: str) -> dict[str, Any]:
    done = run(*words, env=environment())
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    cluster = LocalCluster(
        tmp_path_factory.mktemp("advise"),
        {
            "Daemon": {"min_nodes": NODES, "max_nodes": NODES + 1, "node_stale_after": 12},
            "Registry": {"slots": NODES + 1},
            "Size small": {"instance_type": "small", "price": PRICE},
        },
    )
    try:
        yield Told(cluster, cluster.start())
    finally:
        cluster.close()


def test_the_silence_that_ended_is_named_and_no_window_below_it_advised(told: Told) -> None:
    stale = told.option("node_stale_after")
    assert stale["ended"]["whose"] == told.frozen_host
    lasted_s = told.thawed_at - told.frozen_at
    assert lasted_s - 1.5 <= stale["ended"]["longest_s"] <= lasted_s + 4 * POLL_S + 1.0
    assert told.frozen_at < stale["ended"]["at"] < told.killed_at + 8
    least = 1.5 * stale["ended"]["longest_s"]
    best = next(
        (one["value"] for one in stale["tried"] if one["label"] == stale["advice"]),
        stale["recorded"]["value"],
    )
    assert best >= min(least, stale["recorded"]["value"])


def test_its_boots_are_counted(told: Told) -> None:
    boots = told.option("boot_fail_after")["ended"]
    assert boots["count"] >= NODES
    assert 0 < boots["longest_s"] < 30


def test_the_cost_is_what_the_processes_ran(told: Told) -> None:
    """Within two polls of each node: its launch, and the first listing that lacks it."""
    last = told.cost["until"]
    ran_s = sum(max(0.0, last - at) for at in told.launched.values())
    ran_s += told.killed_at - told.killed_launched_at
    slack_s = 2 * POLL_S * (NODES + 2) + 1.0
    assert told.cost["total"]["hours"] * 3600 == pytest.approx(ran_s, abs=slack_s)
    assert told.cost["total"]["money"] == pytest.approx(PRICE * told.cost["total"]["hours"])
    assert told.cost["total"]["unpriced_hours"] == 0
    assert set(told.cost["size"]) == {"small"}
    assert sum(one["money"] for one in told.cost["cause"].values()) == (
        pytest.approx(told.cost["total"]["money"])
    )
