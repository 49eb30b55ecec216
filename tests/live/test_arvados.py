"""Records behind the Arvados client: a registry process over HTTP, and fences instead of CAS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.live.cluster import DirectedCluster, over_arvados
from tests.live.harness import Daemon, claim_of

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES = 2
WINDOW_S = 6.0
FENCE_S = 1.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectedCluster]:
    made = DirectedCluster(
        tmp_path_factory.mktemp("arvados"),
        {
            "Daemon": {
                "min_nodes": NODES,
                "max_nodes": NODES,
                "node_stale_after": WINDOW_S,
            },
            "Registry": {"slots": NODES},
        },
    )
    made.everyone("busy")
    with closing(made):
        made.serve_registry()
        made.change(over_arvados(made.registry.url, NODES, FENCE_S))
        made.start()
        yield made


def test_it_boots_and_pairs_over_the_arvados_api(cluster: DirectedCluster, daemon: Daemon):
    started = daemon.wait_for("daemon.started")
    daemon.wait_for("cycle.done", paired=NODES, busy=NODES)

    assert started["store"] == "arvados"
    pairs = {line["node"]: line["record"] for line in daemon.lines("node.paired")}
    assert pairs == cluster.tags()
    rows = cluster.registry.rows()
    assert {rows[record]["slot_number"] for record in pairs.values()} == {1, 2}


def test_a_dead_node_s_record_is_cleaned_behind_a_fence_and_its_slot_used_again(
    cluster: DirectedCluster, daemon: Daemon
):
    lost, kept = daemon.lines("node.paired")[:NODES]
    secret = cluster.registry.row(lost["record"])["info"]["ping_secret"]
    cluster.kill_node(lost["node"])

    within = daemon.wait_for("record.keep", record=lost["record"], reason="within_window")
    ordered = daemon.wait_for("record.clean", record=lost["record"])
    freed = daemon.wait_for("record.cleaned", record=lost["record"])
    again = daemon.wait_for("node.paired", after=freed, slot=lost["slot"])

    assert float(within["idle_s"]) <= WINDOW_S < float(ordered["idle_s"])
    assert (ordered["reason"], freed["guarantee"]) == ("stale_slot", "fenced")
    assert again["node"] not in (lost["node"], kept["node"])
    row = cluster.registry.row(again["record"])
    assert row["info"]["ping_secret"] != secret
    assert cluster.tags() == {
        kept["node"]: kept["record"],
        again["node"]: again["record"],
    }
    assert not daemon.lines("record.cleaned", record=kept["record"])


def test_a_node_shut_down_for_idleness_frees_its_record_behind_a_fence(
    cluster: DirectedCluster, daemon: Daemon
):
    before = daemon.last()
    cluster.change({"Daemon": {"min_nodes": 0, "max_nodes": 0}})
    daemon.reload()
    cluster.everyone("idle")

    for record in cluster.tags().values():
        freed = daemon.wait_for("record.cleaned", after=before, record=record)
        assert (freed["reason"], freed["guarantee"]) == ("after_shutdown", "fenced")

    assert cluster.tags() == {}
    assert not any(claim_of(row) for row in cluster.registry.rows().values())
    assert daemon.terminate() == 0
