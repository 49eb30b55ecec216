"""What outlives the daemon: its ends by SIGTERM and kill -9, a shadow beside it, the registry's.

One local cluster from its first boot to its drain. Its registry is a process of its own on the
daemon's database, so that it can be asked while no daemon runs; its nodes do what the tests say.
The tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.live.cluster import DirectedCluster
from tests.live.harness import Daemon, claim_of
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES = 3
SLOTS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectedCluster]:
    made = DirectedCluster(
        tmp_path_factory.mktemp("restart"),
        {
            "Daemon": {"min_nodes": NODES, "max_nodes": NODES},
            "Registry": {"slots": SLOTS},
        },
    )
    with closing(made):
        made.serve_registry()
        yield made


@pytest.fixture
def daemon(cluster: DirectedCluster) -> Daemon:
    """The daemon that runs now, every node paired and heard; the last one may have ended."""
    running = [one for one in cluster.daemons if one.running and "run-" in one.log.name]
    current = running[0] if running else cluster.start()
    all_heard(cluster, current)
    return current


def all_heard(cluster: DirectedCluster, daemon: Daemon) -> None:
    daemon.wait_for("cycle.done", paired=NODES, booting=0)
    until("every node's first ping", lambda: len(pinged(cluster)) == NODES, told=daemon.told)


def pinged(cluster: DirectedCluster) -> list[str]:
    return [uuid for uuid, row in cluster.registry.rows().items() if row["last_ping_at"]]


def half_done(cluster: DirectedCluster) -> tuple[set[str], set[str]]:
    """Claimed records without a node, and records of nodes without a claim."""
    claimed, nodes = set(cluster.claimed()), set(cluster.tags().values())
    return claimed - nodes, nodes - claimed


def test_sigterm_amid_the_first_boots_leaves_nothing_half_done(cluster: DirectedCluster):
    daemon = cluster.start()
    daemon.wait_for("record.claimed")

    assert daemon.terminate() == 0

    claims = {line["record"] for line in daemon.lines("record.claimed")}
    # A claim that was answered after the SIGTERM is withdrawn, and the next run releases it.
    ended = daemon.lines("node.setup_failed") + daemon.lines("node.setup_withdrawn")
    failed = {line["record"] for line in ended if "record" in line}
    created = {line["record"]: line["node"] for line in daemon.lines("node.created")}
    assert set(cluster.claimed()) == claims
    assert half_done(cluster) == (failed, set())
    assert {node: record for record, node in created.items()} == cluster.tags()


def test_the_next_run_keeps_those_nodes_and_boots_only_what_lacks(cluster: DirectedCluster):
    before, first = cluster.pids(), len(cluster.tags())
    daemon = cluster.start()
    all_heard(cluster, daemon)

    assert before.items() <= cluster.pids().items()
    assert len(daemon.lines("node.created")) == NODES - first
    assert half_done(cluster) == (set(), set())
    assert len(cluster.registry.rows()) == NODES


@pytest.mark.parametrize("end", [Daemon.terminate, Daemon.kill], ids=["sigterm", "kill-9"])
def test_a_run_over_the_same_state_goes_on_with_the_same_nodes(
    cluster: DirectedCluster, daemon: Daemon, end: Any
):
    nodes, tags, slots = cluster.pids(), cluster.tags(), slots_of(cluster)
    end(daemon)

    again = cluster.start()
    all_heard(cluster, again)

    pairs = {line["node"]: line["record"] for line in again.lines("node.paired")}
    assert pairs == tags
    assert cluster.pids() == nodes
    assert slots_of(cluster) == slots
    for deed in ("node.setup_started", "node.shutdown_started", "record.clean"):
        assert not again.lines(deed)


def slots_of(cluster: DirectedCluster) -> dict[str, int]:
    return {uuid: row["slot_number"] for uuid, row in cluster.registry.rows().items()}


def test_a_registry_that_is_down_for_longer_than_the_window_costs_no_node(
    cluster: DirectedCluster, daemon: Daemon
):
    cluster.everyone("busy")
    states = cluster.registry.states
    until("all busy", lambda: list(states().values()) == ["busy"] * NODES, told=daemon.told)
    nodes, before = cluster.pids(), daemon.last()
    assert cluster.registry_process is not None
    assert cluster.registry_process.terminate() == 0

    # Said only once the record has been quiet for longer than node_stale_after.
    daemon.wait_for("node.keep", after=before, count=NODES, reason="silent_within_window")
    silent = daemon.last()
    cluster.serve_registry()
    daemon.wait_for("cycle.done", after=silent, busy=NODES)

    assert cluster.pids() == nodes
    for deed in ("node.shutdown_started", "record.clean", "node.setup_started"):
        assert not daemon.lines(deed, after=before)
    cluster.everyone("idle")


def test_a_dry_run_beside_the_daemon_decides_and_writes_nothing(
    cluster: DirectedCluster, daemon: Daemon
):
    cluster.change({"Daemon": {"node_stale_after": 600}})
    daemon.reload()
    quiet = cluster.registry.create(
        slot_number=SLOTS,
        hostname="compute6",
        properties={"nodemanager_pool": "live"},
        info={"ec2_instance_id": "local-long-gone"},
    )
    shadow_file = cluster.configure(
        {
            "Daemon": {
                "node_stale_after": 3,
                "poll_stale_after": 2,
                "min_nodes": NODES + 1,
                "max_nodes": NODES + 1,
            },
            "Manage": {"port": -1},
            "Logging": {"level": "DEBUG"},
        },
        "shadow.cfg",
    )
    rows, nodes, before = what_no_ping_changes(cluster), cluster.pids(), daemon.last()

    shadow = cluster.start("--dry-run", config=shadow_file)
    boot = shadow.wait_for("node.setup_started", reason="below_min_nodes")
    clean = shadow.wait_for("record.clean", record=quiet["uuid"])
    shadow.wait_for("cycle.done", after=clean, count=3)
    kept = daemon.wait_for("record.keep", record=quiet["uuid"], reason="within_window")
    assert shadow.terminate() == 0

    assert (boot["mode"], clean["mode"], clean["reason"]) == ("dry-run", "dry-run", "stale_slot")
    assert (clean["window_s"], kept["window_s"]) == ("3", "600")
    for deed in ("lease.acquired", "record.claimed", "record.cleaned", "node.created"):
        assert not shadow.lines(deed)
    for deed in ("record.claimed", "record.cleaned", "node.created"):
        assert not daemon.lines(deed, after=before)
    assert cluster.registry.row(quiet["uuid"]) == quiet
    assert what_no_ping_changes(cluster) == rows
    assert cluster.pids() == nodes
    cluster.registry.delete(quiet["uuid"])


def what_no_ping_changes(cluster: DirectedCluster) -> dict[str, dict[str, Any]]:
    kept = ("slot_number", "hostname", "ip_address", "first_ping_at", "created_at")
    return {
        uuid: {key: row[key] for key in kept}
        | {"claim": claim_of(row), "secret": row["info"].get("ping_secret")}
        for uuid, row in cluster.registry.rows().items()
    }


def test_sighup_with_no_nodes_wanted_drains_the_pool_and_waits_for_the_busy_one(
    cluster: DirectedCluster, daemon: Daemon
):
    busy, *idle = sorted(cluster.tags().items())
    before = daemon.last()
    cluster.node_does(busy[0], "busy")
    before = daemon.wait_for("node.keep", node=busy[0], reason="busy", after=before)
    cluster.change({"Daemon": {"min_nodes": 0, "max_nodes": 0}})

    daemon.reload()
    for node, record in idle:
        released(daemon, node, record)
    daemon.wait_for("cycle.done", after=before, nodes=1, busy=1)
    assert set(cluster.tags()) == {busy[0]}
    assert not daemon.lines("node.shutdown_started", node=busy[0])
    assert cluster.registry.row(busy[1])["slot_number"] is not None
    cluster.node_does(busy[0], "idle")
    released(daemon, *busy)

    assert cluster.tags() == {}
    rows = cluster.registry.rows()
    assert set(rows) == {record for _, record in (busy, *idle)}
    for row in rows.values():
        assert (row["slot_number"], row["hostname"], row["last_ping_at"]) == (None, None, None)
        assert claim_of(row) is None
    assert daemon.terminate() == 0


def released(daemon: Daemon, node: str, record: str) -> None:
    """Shut down for idleness, and its record freed for that, however long the window is."""
    started = daemon.wait_for("node.shutdown_started", node=node)
    gone = daemon.wait_for("node.gone", after=started, node=node)
    freed = daemon.wait_for("record.cleaned", after=gone, record=record)
    assert (started["reason"], freed["reason"]) == ("idle_beyond_demand", "after_shutdown")
    assert int(started["idle_polls"]) >= int(started["needed_polls"])
