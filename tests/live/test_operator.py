"""An operator at a terminal: the commands against a real daemon, with a kill -9 in between (O1-O4).

The tests build on each other, in this order.
"""

from __future__ import annotations

import getpass
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest
import requests

from tests.live.cluster import MANAGEMENT_TOKEN, DirectedCluster
from tests.live.harness import Daemon, free_port
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES = 3


BY = f"ann as {getpass.getuser()}"
"""Ann says that she is ann; the kernel says which user she is (X6)."""


class Operator:
    """`nodemanager COMMAND`, as typed."""

    def __init__(self, cluster: DirectedCluster) -> None:
        self.cluster = cluster

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.types(*words, USER="ann", LOGNAME="ann")

    def does(self, *words: str) -> str:
        """What it prints; it succeeds."""
        done = self.types(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def may_not(self, *words: str) -> str:
        """Why not."""
        done = self.types(*words)
        assert (done.returncode, done.stdout) == (1, ""), done
        return done.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectedCluster]:
    made = DirectedCluster(
        tmp_path_factory.mktemp("operator"),
        {
            "Daemon": {"min_nodes": NODES, "max_nodes": NODES, "node_stale_after": 600},
            "Manage": {"port": free_port()},
            "Registry": {"slots": 8},
        },
    )
    made.everyone("busy")
    with closing(made):
        made.serve_registry()
        yield made


@pytest.fixture
def daemon(cluster: DirectedCluster) -> Daemon:
    """The daemon that runs now; the last one may have ended."""
    running = [one for one in cluster.daemons if one.running and "run-" in one.log.name]
    current = running[0] if running else cluster.start()
    current.wait_for("cycle.done", nodes=NODES)
    return current


@pytest.fixture
def operator(cluster: DirectedCluster, daemon: Daemon) -> Operator:
    return Operator(cluster)


@pytest.fixture(scope="module")
def nodes(cluster: DirectedCluster) -> list[str]:
    """The first nodes: one to hold, one to drain, one to kill."""
    daemon = cluster.start()
    daemon.wait_for("cycle.done", busy=NODES)
    return sorted(cluster.running())


def test_a_held_node_is_not_killed_and_the_refusal_names_the_rule(
    nodes: list[str], operator: Operator, daemon: Daemon
):
    held = nodes[0]
    assert "is on hold" in operator.does("hold", held, "--reason", "I am logged in")
    again = operator.does("hold", held)
    assert f"already, by {BY} since" in again
    assert again.endswith(": I am logged in\n")
    assert "C9" in operator.may_not("kill", held, "--yes", "--reason", "it hangs")
    daemon.wait_for("operator.kill", by=BY, id=held, result="refused", rule="C9")


def test_a_busy_node_drains_and_a_paused_pool_kills_nothing(
    nodes: list[str], operator: Operator, daemon: Daemon
):
    assert "as soon as it is idle" in operator.does("drain", nodes[1], "--reason", "new image")
    assert "the pool is paused" in operator.does("pause", "--reason", "upgrade")
    daemon.wait_for("cycle.done", paused=BY, draining=1)
    assert "paused (O4)" in operator.may_not("kill", nodes[2], "--yes", "--reason", "it hangs")
    assert set(operator.cluster.running()) >= set(nodes)
    health = requests.get(
        f"{daemon.url_of('management')}/_health/ping",
        headers={"Authorization": f"Bearer {MANAGEMENT_TOKEN}"},
        timeout=10,
    )
    assert health.json() == {"health": "OK"}


def test_all_of_it_stands_after_kill_9(
    nodes: list[str], cluster: DirectedCluster, daemon: Daemon, operator: Operator
):
    daemon.kill()
    cluster.node_does(nodes[1], "idle")
    after = cluster.start()
    after.wait_for("cycle.done", paused=BY, nodes=NODES)
    orders = json.loads(operator.does("orders", "--json"))["orders"]
    assert {one["order"]: (one["id"], one["by"], one["why"]) for one in orders} == {
        "pause": (None, BY, "upgrade"),
        "hold": (nodes[0], BY, "I am logged in"),
        "drain": (nodes[1], BY, "new image"),
    }
    after.wait_for("node.keep", node=nodes[1], reason="paused")
    assert nodes[1] in cluster.running()


def test_resumed_the_drained_node_goes_and_a_busy_one_is_killed(
    nodes: list[str], cluster: DirectedCluster, daemon: Daemon, operator: Operator
):
    assert "goes on" in operator.does("resume")
    gone = daemon.wait_for("node.gone", node=nodes[1], reason="drained")
    daemon.wait_for("record.cleaned", record=gone["record"], reason="after_shutdown")
    answer = json.loads(operator.does("kill", nodes[2], "--yes", "--reason", "it hangs", "--json"))
    assert (answer["result"], answer["node"]) == ("done", nodes[2])
    gone = daemon.wait_for("node.gone", node=nodes[2], reason="killed")
    daemon.wait_for("record.cleaned", record=gone["record"], reason="after_shutdown")
    assert nodes[0] in cluster.running()
    assert not {nodes[1], nodes[2]} & cluster.running().keys()


def test_a_dead_node_s_record_is_freed_by_hand_once_its_rules_are_broken_by_name(
    nodes: list[str], cluster: DirectedCluster, daemon: Daemon, operator: Operator
):
    dead = nodes[0]
    record = cluster.tags()[dead]
    operator.does("release", dead)
    assert "C4" in operator.may_not("clean", record)
    cluster.kill_node(dead)
    daemon.wait_for("record.keep", record=record, reason="within_window")
    why = operator.may_not("clean", record)
    assert "within_window (C3)" in why
    assert "--force C3" in why
    assert "busy (C2)" in operator.may_not("clean", record, "--force", "C3", "--reason", "burned")
    broken = ("--force", "C2", "--force", "C3", "--force", "C5", "--reason", "its rack burned")

    def freed() -> bool:
        done = operator.types("clean", dead, *broken)
        return done.returncode == 0 and "is clean" in done.stdout

    until("the clean by hand", freed, told=daemon.told)
    cleaned = daemon.wait_for("record.cleaned", record=record, reason="clean_by_hand")
    daemon.wait_for("operator.clean", id=dead, by=BY, forced="C2,C3,C5", result="done")
    assert cleaned["guarantee"] == "cas"
    assert daemon.lines("invariant.broken") == []
    assert daemon.terminate() == 0
