"""The whole job on a real OpenStack: a real daemon, and nodes that ping as real processes.

As tests/live/test_openstack.py has it on our own server. The tests build on each other, in this
order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.live.cluster import TOKEN, Sections
from tests.live.harness import Daemon, Line, Registry, claim_of
from tests.openstack.cluster import CREATE, RealCluster
from tests.openstack.hand import Hand
from tests.waiting import until

pytestmark = [
    pytest.mark.openstack,
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.timeout(400),
]

WINDOW_S = 40.0
SLOTS = 8
LONG_S = 150.0
"""Nova's own part of a boot or an end takes some seconds, and more on a machine with much to do."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cloud: Hand) -> Iterator[RealCluster]:
    options: Sections = {
        "Daemon": {"node_stale_after": WINDOW_S, "boot_fail_after": 120, "poll_stale_after": 30},
        # In minutes: nodes stay for an hour, until a test opens the window.
        "Cloud": {"shutdown_windows": "60, 999999"},
        "Registry": {"slots": SLOTS},
    }
    home = tmp_path_factory.mktemp("real-openstack")
    with closing(RealCluster(home, cloud, options)) as made:
        made.farm.start()
        made.start()
        yield made


@pytest.fixture
def daemon(cluster: RealCluster) -> Daemon:
    return cluster.daemons[0]


@pytest.fixture
def registry(daemon: Daemon) -> Registry:
    return Registry(daemon.url_of("registry"), TOKEN)


def paired(daemon: Daemon) -> list[Line]:
    return daemon.lines("node.paired")


def test_it_boots_to_demand_and_pairs_by_metadata(
    cluster: RealCluster, daemon: Daemon, registry: Registry
) -> None:
    daemon.wait_for("cycle.done", nodes=0, boots=0)
    cluster.want(2)

    daemon.wait_for("cycle.done", nodes=2, paired=2, idle=2, within=LONG_S)

    rows = registry.rows()
    assert cluster.creates() == 2
    assert {line["node"] for line in paired(daemon)} == cluster.alive()
    for line in paired(daemon):
        row = rows[line["record"]]
        server = cluster.cloud.member.compute.get_server(line["node"])
        claim = claim_of(row)
        assert claim is not None
        assert server.metadata["nodemanager-record"] == row["uuid"]
        assert server.metadata["nodemanager-incarnation"] == claim["incarnation"]
        assert server.metadata["project"] == "live"
        assert server.name == row["hostname"]


def test_a_cell_that_is_down_frees_nothing(
    cluster: RealCluster, daemon: Daemon, registry: Registry
) -> None:
    """For longer than the window, and no node pings: a list that were believed would free both."""
    before = daemon.last()
    with cluster.cloud.cell_down():
        daemon.wait_for("list.failed", after=before, source="cloud", within=LONG_S)
        over = time.monotonic() + WINDOW_S + 5
        until("more than the window", lambda: time.monotonic() > over, LONG_S)
    daemon.wait_for("list.ok", after=daemon.last(), source="cloud", within=LONG_S)

    assert not daemon.lines("record.cleaned")
    assert not daemon.lines("node.shutdown_started")
    slots = [row["slot_number"] for row in registry.rows().values() if row["slot_number"]]
    assert len(slots) == 2


def test_a_server_deleted_behind_our_back_while_busy_keeps_its_slot_within_the_window(
    cluster: RealCluster, daemon: Daemon, registry: Registry
) -> None:
    before, lost_one = daemon.last(), paired(daemon)[0]
    cluster.want_none(daemon)
    for line in paired(daemon):
        cluster.farm.node_does(line["node"], "busy")
    daemon.wait_for("cycle.done", after=before, busy=2, within=LONG_S)
    cluster.cloud.member.compute.delete_server(lost_one["node"])
    cluster.want(1)

    kept = daemon.wait_for(
        "record.keep", record=lost_one["record"], reason="within_window", within=LONG_S
    )

    assert float(kept["idle_s"]) <= float(kept["window_s"]) == WINDOW_S
    assert str(registry.row(lost_one["record"])["slot_number"]) == kept["slot"]


def test_a_replacement_boots_and_the_record_is_cleaned_past_the_window(
    cluster: RealCluster, daemon: Daemon, registry: Registry
) -> None:
    record = paired(daemon)[0]["record"]
    created = daemon.wait_for("node.created", count=3, within=LONG_S)
    daemon.wait_for("node.paired", node=created["node"], within=LONG_S)
    ordered = daemon.wait_for("record.clean", record=record, within=LONG_S)
    freed = daemon.wait_for("record.cleaned", record=record, within=LONG_S)
    daemon.wait_for("cycle.done", after=freed, paired=2, free=SLOTS - 2, within=LONG_S)

    assert created["record"] != record
    assert (ordered["reason"], freed["guarantee"]) == ("stale_slot", "cas")
    assert float(ordered["idle_s"]) > float(ordered["window_s"]) == WINDOW_S
    assert registry.row(record)["slot_number"] is None
    assert [line["record"] for line in daemon.lines("record.cleaned")] == [record]
    assert not daemon.lines("node.shutdown_started")


def test_a_create_whose_answer_was_lost_is_found_by_its_record_and_not_repeated(
    cluster: RealCluster, daemon: Daemon
) -> None:
    """Nova's create has no client token, so the manager looks for what it made (U5, U9)."""
    before, known, sent = daemon.last(), cluster.alive(), cluster.creates()
    cluster.proxy.lose_next(CREATE)
    cluster.want(2)

    failed = daemon.wait_for("node.setup_failed", after=before, within=LONG_S)
    found = daemon.wait_for("node.paired", after=failed, record=failed["record"], within=LONG_S)

    assert (failed["action"], failed["definite"]) == ("create", "false")
    assert cluster.alive() - known == {found["node"]}
    assert cluster.creates() == sent + 1


def test_a_token_that_is_revoked_and_an_api_that_hangs_cost_nothing(
    cluster: RealCluster, daemon: Daemon
) -> None:
    before = daemon.last()
    with cluster.cloud.user_disabled():
        daemon.wait_for("list.failed", after=before, source="cloud", within=LONG_S)
    daemon.wait_for("list.ok", after=daemon.last(), source="cloud", within=LONG_S)
    before = daemon.last()
    with cluster.proxy.hanging():
        daemon.wait_for("list.failed", after=before, source="cloud", within=LONG_S)
    daemon.wait_for("list.ok", after=daemon.last(), source="cloud", within=LONG_S)
    assert not daemon.lines("node.shutdown_started")
    assert len(daemon.lines("record.cleaned")) == 1


def test_when_demand_is_gone_idle_nodes_are_shut_down_with_their_ports(
    cluster: RealCluster, daemon: Daemon, registry: Registry
) -> None:
    nodes = cluster.alive()
    ports = [port for node in nodes for port in cluster.cloud.ports_of(node)]
    assert len(ports) == len(nodes) == 3
    cluster.want_none(daemon)
    for node in nodes:
        cluster.farm.node_does(node, "idle")
    cluster.change({"Cloud": {"shutdown_windows": "0, 999999"}})
    before = daemon.reload()
    for node in nodes:
        gone = daemon.wait_for("node.gone", after=before, node=node, within=LONG_S)
        freed = daemon.wait_for("record.cleaned", after=gone, record=gone["record"], within=LONG_S)
        assert (gone["outcome"], freed["reason"]) == ("gone", "after_shutdown")

    assert cluster.alive() == set()
    assert not [port for node in nodes for port in cluster.cloud.ports_of(node)]
    for row in registry.rows().values():
        assert (row["slot_number"], row["ip_address"], claim_of(row)) == (None, None, None)
    assert daemon.terminate() == 0
    assert cluster.cloud.cloud.credential_secret not in daemon.log.read_text(encoding="utf-8")
