"""The whole job against a real EC2 API: moto's server, the daemon, and nodes as real processes.

One account from the first boot to the last. The tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.live.cluster import TOKEN, Sections
from tests.live.ec2 import Ec2Cluster
from tests.live.harness import Daemon, Line, Registry, claim_of
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

WINDOW_S = 6.0
SLOTS = 8
CALL_S = 4.0
"""How long one call to the API may take."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ec2Cluster]:
    options: Sections = {
        "Daemon": {"node_stale_after": WINDOW_S},
        # In minutes: nodes stay for an hour, until a test opens the window.
        "Cloud": {"shutdown_windows": "60, 999999"},
        "Cloud Credentials": {"timeout": CALL_S},
        "Registry": {"slots": SLOTS},
    }
    with closing(Ec2Cluster(tmp_path_factory.mktemp("ec2"), options)) as made:
        made.farm.start()
        made.start()
        yield made


@pytest.fixture
def daemon(cluster: Ec2Cluster) -> Daemon:
    return cluster.daemons[0]


@pytest.fixture
def registry(daemon: Daemon) -> Registry:
    return Registry(daemon.url_of("registry"), TOKEN)


def paired(daemon: Daemon) -> dict[str, Line]:
    return {line["node"]: line for line in daemon.lines("node.paired")}


def test_it_boots_to_demand_and_pairs_by_tags(
    cluster: Ec2Cluster, daemon: Daemon, registry: Registry
):
    daemon.wait_for("cycle.done", nodes=0, boots=0)
    assert cluster.moto.instances() == {}
    cluster.want(2)

    daemon.wait_for("cycle.done", nodes=2, paired=2, idle=2)
    for number in (1, 2):
        # Idle and wanted by nobody but the queue: the demand of two is met.
        daemon.wait_for("node.keep", reason="window_closed", count=number)

    assert len(cluster.moto.calls("RunInstances")) == 2
    rows, tags, pairs = registry.rows(), cluster.moto.tags(), paired(daemon)
    assert set(pairs) == set(tags)
    for node, tagged in tags.items():
        row = rows[pairs[node]["record"]]
        claim = claim_of(row)
        assert claim is not None
        assert tagged["nodemanager-pool"] == "live"
        assert tagged["nodemanager-record"] == row["uuid"]
        assert tagged["nodemanager-incarnation"] == claim["incarnation"]
        assert tagged["Name"] == row["hostname"]
        assert tagged["project"] == "live"
        assert row["info"]["ec2_instance_id"] == node
        assert row["ip_address"].startswith("127.0.7.")


def test_an_instance_terminated_while_busy_leaves_its_record_within_the_window(
    cluster: Ec2Cluster, daemon: Daemon, registry: Registry
):
    before, record = daemon.last(), lost(daemon)["record"]
    cluster.want_none(daemon)
    for node in paired(daemon):
        cluster.farm.node_does(node, "busy")
    daemon.wait_for("cycle.done", after=before, busy=2)
    cluster.moto.terminate(lost(daemon)["node"])
    cluster.want(1)

    kept = daemon.wait_for("record.keep", record=record, reason="within_window")

    assert float(kept["idle_s"]) <= float(kept["window_s"]) == WINDOW_S
    row = registry.row(record)
    assert row["info"]["worker_state"] == "busy"
    assert str(row["slot_number"]) == kept["slot"]


def lost(daemon: Daemon) -> Line:
    """The pair whose instance is terminated while it is busy."""
    return daemon.lines("node.paired")[0]


def kept_busy(daemon: Daemon) -> str:
    """The node beside it, which goes on."""
    return daemon.lines("node.paired")[1]["node"]


def test_a_replacement_boots_beside_the_kept_record(cluster: Ec2Cluster, daemon: Daemon):
    created = daemon.wait_for("node.created", count=3)
    again = daemon.wait_for("node.paired", node=created["node"])

    assert created["record"] not in {line["record"] for line in daemon.lines("node.created")[:2]}
    assert again["slot"] != lost(daemon)["slot"]
    assert set(cluster.moto.instances()) == {created["node"], kept_busy(daemon)}


def test_the_record_of_the_terminated_instance_is_cleaned_past_the_window(
    cluster: Ec2Cluster, daemon: Daemon, registry: Registry
):
    record = lost(daemon)["record"]
    ordered = daemon.wait_for("record.clean", record=record)
    freed = daemon.wait_for("record.cleaned", record=record)
    daemon.wait_for("cycle.done", after=freed, paired=2, free=SLOTS - 2)

    assert (ordered["reason"], freed["guarantee"]) == ("stale_slot", "cas")
    assert float(ordered["idle_s"]) > float(ordered["window_s"]) == WINDOW_S
    assert registry.row(record)["slot_number"] is None
    assert [line["record"] for line in daemon.lines("record.cleaned")] == [record]
    assert not daemon.lines("node.shutdown_started")
    assert len(daemon.lines("node.created")) == 3


def test_a_create_whose_answer_was_lost_is_repeated_and_makes_one_node(
    cluster: Ec2Cluster, daemon: Daemon, registry: Registry
):
    """U9: with the same client token, so that EC2 answers with the instance it made."""
    moto, before = cluster.moto, daemon.last()
    known, sent = set(moto.instances()), len(moto.calls("RunInstances"))
    moto.lose_next("RunInstances")
    cluster.want(2)

    failed = daemon.wait_for("node.setup_failed", after=before)
    created = daemon.wait_for("node.created", after=failed)
    found = daemon.wait_for("node.paired", after=before)
    daemon.wait_for("node.keep", after=found, node=found["node"], reason="window_closed")

    assert (failed["action"], failed["definite"]) == ("create", "false")
    assert created["record"] == found["record"] == failed["record"]
    assert set(moto.instances()) - known == {created["node"]} == {found["node"]}
    tokens = [call["ClientToken"] for call in moto.calls("RunInstances")]
    assert len(tokens) == sent + 2
    assert tokens[-1] == tokens[-2]
    assert len(set(tokens)) == len(tokens) - 1
    claim = claim_of(registry.row(found["record"]))
    assert claim is not None
    assert claim["incarnation"] == tokens[-1]
    # The record that the first clean freed was used for it (U1).
    assert found["record"] == daemon.lines("record.cleaned")[0]["record"]


def test_when_demand_is_gone_idle_nodes_are_shut_down_once_their_window_opens(
    cluster: Ec2Cluster, daemon: Daemon, registry: Registry
):
    nodes, busy = set(cluster.moto.instances()), kept_busy(daemon)
    cluster.want_none(daemon)
    assert not daemon.lines("node.shutdown_started")
    cluster.change({"Cloud": {"shutdown_windows": "0, 999999"}})

    before = daemon.reload()
    for node in nodes - {busy}:
        released(daemon, node, before)
    assert set(cluster.moto.instances()) == {busy}
    cluster.farm.node_does(busy, "idle")
    released(daemon, busy, before)

    assert cluster.moto.instances() == {}
    for row in registry.rows().values():
        assert (row["slot_number"], row["ip_address"], claim_of(row)) == (None, None, None)


def released(daemon: Daemon, node: str, after: Line) -> None:
    started = daemon.wait_for("node.shutdown_started", after=after, node=node)
    gone = daemon.wait_for("node.gone", after=started, node=node)
    freed = daemon.wait_for("record.cleaned", after=gone, record=gone["record"])
    assert (started["reason"], gone["outcome"]) == ("idle_beyond_demand", "gone")
    assert freed["reason"] == "after_shutdown"


def test_sigterm_amid_boots_leaves_nothing_half_done(cluster: Ec2Cluster, daemon: Daemon):
    before = daemon.last()
    cluster.want(4)
    daemon.wait_for("record.claimed", after=before)

    assert daemon.terminate() == 0

    server = cluster.start(command="registry")
    registry = Registry(server.url_of("registry"), TOKEN)
    claimed = {uuid for uuid, row in registry.rows().items() if claim_of(row)}
    tagged = {tags["nodemanager-record"] for tags in cluster.moto.tags().values()}
    # Claimed, and not sent on: the next run finds their release begun (U10). One that was withdrawn
    # before its claim names no record.
    withdrawn = daemon.lines("node.setup_withdrawn", after=before, reason="stopping")
    failed = daemon.lines("node.setup_failed", after=before)
    assert claimed - tagged <= {line.get("record") for line in (*failed, *withdrawn)}
    assert tagged <= claimed
    assert claimed == {line["record"] for line in daemon.lines("record.claimed", after=before)}


def test_the_next_run_pairs_what_the_last_one_left(cluster: Ec2Cluster):
    left: dict[str, Any] = cluster.moto.tags()
    cluster.want(0)
    server = cluster.daemons[-1]
    assert server.terminate() == 0

    daemon = cluster.start()
    for number in range(1, len(left) + 1):
        daemon.wait_for("node.paired", count=number)

    assert {line["node"]: line["record"] for line in daemon.lines("node.paired")} == {
        node: tags["nodemanager-record"] for node, tags in left.items()
    }
    assert not daemon.lines("identity.changed")


def test_sigterm_while_the_cloud_hangs_ends_it_soon_after_the_call_s_time_out(
    cluster: Ec2Cluster,
):
    daemon = cluster.daemons[-1]
    until("a listing", lambda: "cloud" in cluster.status(daemon)["polls"], told=daemon.told)
    with cluster.moto.frozen():
        until(
            "a listing that takes long",
            lambda: cluster.status(daemon)["polls"]["cloud"]["age_s"] > CALL_S / 2,
            told=daemon.told,
        )

        assert daemon.terminate() == 0
