"""An API that accepts and never answers: the cloud's, then the records' (SAFETY.md C7, D8, L1)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest
import requests

from tests.live.cluster import MANAGEMENT_TOKEN
from tests.live.far import FarCluster
from tests.live.harness import Daemon, Line
from tests.waiting import busy, until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

NODES = 2
WINDOW_S = 4.0
LONG_S = 3600.0
"""The window until the cloud hangs: however slow this machine is, it does not pass before."""
STALE_S = 3.0
CALL_S = 1.0
ENDS_S = 10 * CALL_S
"""A busy machine has its time-outs late, but not never."""
PAST_S = WINDOW_S + 3.0
"""By then a record would have been cleaned, had there been polls to judge it on."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarCluster]:
    made = FarCluster(
        tmp_path_factory.mktemp("hangs"),
        {
            "Daemon": {
                "min_nodes": NODES,
                "max_nodes": NODES,
                "poll_time": 0.4,
                "max_poll_time": 1,
                "poll_stale_after": STALE_S,
                "node_stale_after": LONG_S,
            },
            "Registry": {"slots": NODES + 1},
            "Cleaning": {"settle": 1},
        },
        cloud_s=CALL_S,
        records_s=CALL_S,
    )
    with closing(made):
        made.farm.everyone("busy")
        made.start()
        yield made


def polls(cluster: FarCluster, daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = cluster.status(daemon)["polls"]
    return found


def fails_alone(cluster: FarCluster, daemon: Daemon, hung: str, served: str) -> bool:
    """Whether the polls of one API have failed for long, while those of the other go on."""
    now = polls(cluster, daemon)
    return bool(
        now[hung]["age_s"] > STALE_S > now[served]["age_s"]
        and now[hung]["failures_in_a_row"] >= 3
        and now[served]["failures_in_a_row"] == 0
    )


def quiet_s(cluster: FarCluster, record: str) -> float:
    last = datetime.fromisoformat(cluster.registry.row(record)["last_ping_at"])
    return time.time() - last.timestamp()


def was_listed_quiet(cluster: FarCluster, daemon: Daemon, record: str) -> bool:
    """Whether records and nodes were listed since its last ping, in this order (C6)."""
    now = polls(cluster, daemon)
    return (
        quiet_s(cluster, record) > STALE_S and now["cloud"]["age_s"] < 1 > now["records"]["age_s"]
    )


def health(daemon: Daemon) -> int:
    answer = requests.get(
        f"{daemon.url_of('management')}/_health/ping",
        headers={"Authorization": f"Bearer {MANAGEMENT_TOKEN}"},
        timeout=10,
    )
    return answer.status_code


def nothing_was_done(daemon: Daemon, after: Line | None) -> None:
    deeds = ("record.clean", "record.cleaned", "node.shutdown_started", "node.setup_started")
    assert [line for deed in deeds for line in daemon.lines(deed, after=after)] == []


def test_while_the_cloud_hangs_records_are_polled_and_the_dead_node_s_record_is_kept(
    cluster: FarCluster, daemon: Daemon
):
    daemon.wait_for("cycle.done", paired=NODES, busy=NODES)
    lost = daemon.lines("node.paired")[0]
    # No boot: whether a create came through could not be told before it expires.
    cluster.change({"Daemon": {"min_nodes": 1}})
    daemon.reload()
    cluster.moto.vanish(lost["node"])
    daemon.wait_for("record.keep", record=lost["record"], reason="within_window")
    until(
        "it to be listed unchanged before the newest list of nodes",
        lambda: was_listed_quiet(cluster, daemon, lost["record"]),
        told=daemon.told,
    )
    with cluster.cloud.hanging():
        before = daemon.wait_for("list.failed", source="cloud", after=daemon.last())
        until(
            "the list of nodes to be stale",
            lambda: polls(cluster, daemon)["cloud"]["age_s"] > STALE_S,
            told=daemon.told,
        )
        cluster.change({"Daemon": {"node_stale_after": WINDOW_S}})
        daemon.reload()
        kept = daemon.wait_for("record.keep", record=lost["record"], reason="poll_stale")
        assert kept["source"] == "cloud"
        failed = daemon.wait_for("list.failed", source="cloud", after=before)
        until(
            "its record to be stale",
            lambda: quiet_s(cluster, lost["record"]) > PAST_S,
            told=daemon.told,
        )
        until(
            "three failed polls of the cloud, and none of the records",
            lambda: fails_alone(cluster, daemon, "cloud", "records"),
            told=daemon.told,
        )
        until(
            "a fresh cycle",
            lambda: cluster.status(daemon)["cycle_age_s"] < STALE_S,
            told=daemon.told,
        )

        assert float(failed["took_s"]) < ENDS_S * busy()
        assert cluster.status(daemon)["list_nodes_errors"] >= 3
        assert cluster.status(daemon)["plan"]["reasons"]["poll_stale"] == 1
        assert health(daemon) == 200
        nothing_was_done(daemon, before)
        assert cluster.registry.row(lost["record"])["slot_number"] == int(lost["slot"])

    freed = daemon.wait_for("record.cleaned", after=before, record=lost["record"])
    assert freed["reason"] == "stale_slot"


def test_while_the_record_api_hangs_the_cloud_is_polled_and_silence_costs_no_node(
    cluster: FarCluster, daemon: Daemon
):
    """Its nodes can't ping meanwhile, for longer than the window."""
    daemon.wait_for("cycle.done", after=daemon.lines("record.cleaned")[0], paired=1, busy=1)
    nodes, began = set(cluster.moto.instances()), time.monotonic()
    with cluster.records.hanging():
        before = daemon.wait_for("list.failed", source="records", after=daemon.last())
        failed = daemon.wait_for("list.failed", source="records", after=before)
        until("the window to pass", lambda: time.monotonic() - began > PAST_S, told=daemon.told)
        until(
            "three failed polls of the records, and none of the cloud",
            lambda: fails_alone(cluster, daemon, "records", "cloud"),
            told=daemon.told,
        )

        assert float(failed["took_s"]) < ENDS_S * busy()
        assert health(daemon) == 200
        nothing_was_done(daemon, before)

    until(
        "fresh records",
        lambda: polls(cluster, daemon)["records"]["failures_in_a_row"] == 0,
        told=daemon.told,
    )
    until("a busy node", lambda: cluster.status(daemon)["nodes_busy"] == 1, told=daemon.told)
    nothing_was_done(daemon, before)
    assert set(cluster.moto.instances()) == nodes
    assert daemon.terminate() == 0
