"""The whole job on OpenStack: a real daemon, our server, and nodes that ping as real processes.

One project from the first boot to the last. The tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.cloud.faults import lost
from tests.cloud.openstack.server import CREDENTIAL_SECRET, refusal
from tests.live.cluster import TOKEN, Sections
from tests.live.harness import Daemon, Line, Registry, claim_of
from tests.live.openstack import OpenStackCluster
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

WINDOW_S = 6.0
SLOTS = 8


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenStackCluster]:
    options: Sections = {
        "Daemon": {"node_stale_after": WINDOW_S},
        # In minutes: nodes stay for an hour, until a test opens the window.
        "Cloud": {"shutdown_windows": "60, 999999"},
        "Registry": {"slots": SLOTS},
    }
    with closing(OpenStackCluster(tmp_path_factory.mktemp("openstack"), options)) as made:
        made.server.nova.boot_s = made.server.nova.delete_s = 0.5
        made.farm.start()
        made.start()
        yield made


@pytest.fixture
def daemon(cluster: OpenStackCluster) -> Daemon:
    return cluster.daemons[0]


@pytest.fixture
def registry(daemon: Daemon) -> Registry:
    return Registry(daemon.url_of("registry"), TOKEN)


def paired(daemon: Daemon) -> list[Line]:
    return daemon.lines("node.paired")


def test_it_boots_to_demand_and_pairs_by_metadata(
    cluster: OpenStackCluster, daemon: Daemon, registry: Registry
) -> None:
    daemon.wait_for("cycle.done", nodes=0, boots=0)
    cluster.want(2)

    daemon.wait_for("cycle.done", nodes=2, paired=2, idle=2)

    rows = registry.rows()
    assert len(cluster.server.called("compute POST /servers")) == 2
    assert {line["node"] for line in paired(daemon)} == cluster.alive()
    for line in paired(daemon):
        row, server = rows[line["record"]], cluster.server.nova.servers[line["node"]]
        claim = claim_of(row)
        assert claim is not None
        assert server.metadata["nodemanager-record"] == row["uuid"]
        assert server.metadata["nodemanager-incarnation"] == claim["incarnation"]
        assert server.metadata["project"] == "live"
        assert server.name == row["hostname"]


def test_a_server_deleted_behind_our_back_while_busy_keeps_its_slot_within_the_window(
    cluster: OpenStackCluster, daemon: Daemon, registry: Registry
) -> None:
    before, lost_one = daemon.last(), paired(daemon)[0]
    cluster.want_none(daemon)
    for line in paired(daemon):
        cluster.farm.node_does(line["node"], "busy")
    daemon.wait_for("cycle.done", after=before, busy=2)
    cluster.server.nova.delete(lost_one["node"], cluster.server.project_id)
    cluster.want(1)

    kept = daemon.wait_for("record.keep", record=lost_one["record"], reason="within_window")

    assert float(kept["idle_s"]) <= float(kept["window_s"]) == WINDOW_S
    assert str(registry.row(lost_one["record"])["slot_number"]) == kept["slot"]


def test_a_replacement_boots_and_the_record_is_cleaned_past_the_window(
    cluster: OpenStackCluster, daemon: Daemon, registry: Registry
) -> None:
    record = paired(daemon)[0]["record"]
    created = daemon.wait_for("node.created", count=3)
    daemon.wait_for("node.paired", node=created["node"])
    ordered = daemon.wait_for("record.clean", record=record)
    freed = daemon.wait_for("record.cleaned", record=record)
    daemon.wait_for("cycle.done", after=freed, paired=2, free=SLOTS - 2)

    assert created["record"] != record
    assert (ordered["reason"], freed["guarantee"]) == ("stale_slot", "cas")
    assert float(ordered["idle_s"]) > float(ordered["window_s"]) == WINDOW_S
    assert registry.row(record)["slot_number"] is None
    assert [line["record"] for line in daemon.lines("record.cleaned")] == [record]
    assert not daemon.lines("node.shutdown_started")


def test_a_create_whose_answer_was_lost_is_found_by_its_record_and_not_repeated(
    cluster: OpenStackCluster, daemon: Daemon
) -> None:
    """Nova's create has no client token, so the manager looks for what it made (U5, U9)."""
    before, known = daemon.last(), cluster.alive()
    sent = len(cluster.server.called("compute POST /servers"))
    cluster.server.fault("compute POST /servers", after=lost)
    cluster.want(2)

    failed = daemon.wait_for("node.setup_failed", after=before)
    found = daemon.wait_for("node.paired", after=failed, record=failed["record"])

    assert (failed["action"], failed["definite"]) == ("create", "false")
    assert cluster.alive() - known == {found["node"]}
    assert len(cluster.server.called("compute POST /servers")) == sent + 1


def test_a_token_that_is_refused_and_an_api_that_is_down_cost_nothing(
    cluster: OpenStackCluster, daemon: Daemon
) -> None:
    before = daemon.last()
    cluster.server.revoke_tokens()
    cluster.server.fault("compute GET /servers/detail", times=2, before=refusal(503))
    daemon.wait_for("list.failed", after=before, source="cloud")
    daemon.wait_for("list.ok", after=daemon.last(), source="cloud")
    assert not daemon.lines("node.shutdown_started")
    assert len(daemon.lines("record.cleaned")) == 1


def test_when_demand_is_gone_idle_nodes_are_shut_down_with_the_ports_that_nova_forgets(
    cluster: OpenStackCluster, daemon: Daemon, registry: Registry
) -> None:
    nodes = cluster.alive()
    cluster.server.things.leaked = True
    cluster.want_none(daemon)
    for node in nodes:
        cluster.farm.node_does(node, "idle")
    cluster.change({"Cloud": {"shutdown_windows": "0, 999999"}})
    before = daemon.reload()
    for node in nodes:
        gone = daemon.wait_for("node.gone", after=before, node=node)
        freed = daemon.wait_for("record.cleaned", after=gone, record=gone["record"])
        assert (gone["outcome"], freed["reason"]) == ("gone", "after_shutdown")

    assert cluster.alive() == set()
    until("no port", lambda: not cluster.server.things.all["port"], told=daemon.told)
    for row in registry.rows().values():
        assert (row["slot_number"], row["ip_address"], claim_of(row)) == (None, None, None)
    assert daemon.terminate() == 0
    assert CREDENTIAL_SECRET not in daemon.log.read_text(encoding="utf-8")
