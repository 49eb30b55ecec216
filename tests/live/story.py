"""The story that is told on each cloud: demand, a node lost while it is busy, a clean slot.

A cloud's file has a module's fixture `cluster`, and its own tests after these.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tests.live.clouds import CloudCluster
from tests.live.cluster import Sections
from tests.live.harness import Daemon, Line, Registry, claim_of
from tests.live.preflight import check
from tests.waiting import until

AnyCluster = CloudCluster[Any]

SLOTS = 8
STORY: Sections = {
    "Daemon": {"node_stale_after": 6},
    "Registry": {"slots": SLOTS},
    # In minutes: nodes stay for an hour, until a test opens the window.
    "Cloud": {"shutdown_windows": "60, 999999"},
}


def paired(daemon: Daemon) -> list[Line]:
    """The pairs so far; the first two are those of the story."""
    return daemon.lines("node.paired")


class Story:
    """One pool from its first boot; the tests build on each other, in this order."""

    def test_it_boots_to_demand_and_pairs_by_tags(
        self, cluster: AnyCluster, daemon: Daemon, registry: Registry
    ) -> None:
        daemon.wait_for("cycle.done", nodes=0, boots=0)
        assert cluster.cloud.nodes() == {}
        cluster.want(2)

        daemon.wait_for("cycle.done", nodes=2, paired=2, idle=2)
        # Idle and wanted by nobody but the queue: the demand of two is met.
        daemon.wait_for("node.keep", reason="window_closed", count=2)

        assert cluster.cloud.creates() == 2
        rows, nodes = registry.rows(), cluster.cloud.nodes()
        pairs = {line["node"]: line["record"] for line in paired(daemon)}
        assert set(pairs) == set(nodes)
        for node, seen in nodes.items():
            row = rows[pairs[node]]
            claim = claim_of(row)
            assert claim is not None
            assert seen.hostname == row["hostname"]
            assert seen.tags["nodemanager-pool"] == "live"
            assert seen.tags["nodemanager-record"] == row["uuid"]
            assert seen.tags["nodemanager-incarnation"] == claim["incarnation"]
            # It pinged by the URL in its user data.
            assert row["info"]["ec2_instance_id"] == node
            assert row["ip_address"].startswith("127.0.7.")

    def test_a_node_that_ends_behind_its_back_while_busy_leaves_its_record_within_the_window(
        self, cluster: AnyCluster, daemon: Daemon, registry: Registry
    ) -> None:
        before, lost = daemon.last(), paired(daemon)[0]
        cluster.want_none(daemon)
        for line in paired(daemon):
            cluster.farm.node_does(line["node"], "busy")
        daemon.wait_for("cycle.done", after=before, busy=2)
        cluster.cloud.vanish(lost["node"])
        cluster.want(1)

        kept = daemon.wait_for("record.keep", record=lost["record"], reason="within_window")

        assert float(kept["idle_s"]) <= float(kept["window_s"]) == window_s(cluster)
        row = registry.row(lost["record"])
        assert row["info"]["worker_state"] == "busy"
        assert str(row["slot_number"]) == kept["slot"]

    def test_a_replacement_boots_beside_the_kept_record(
        self, cluster: AnyCluster, daemon: Daemon
    ) -> None:
        lost, busy = paired(daemon)[:2]
        created = daemon.wait_for("node.created", count=3)
        again = daemon.wait_for("node.paired", node=created["node"])

        assert created["record"] not in (lost["record"], busy["record"])
        assert again["slot"] != lost["slot"]
        until(
            "no node but the other and the new one",
            lambda: set(cluster.cloud.nodes()) == {busy["node"], created["node"]},
            cluster.patience_s,
            told=daemon.told,
        )

    def test_the_record_of_the_lost_node_is_cleaned_past_the_window(
        self, cluster: AnyCluster, daemon: Daemon, registry: Registry
    ) -> None:
        record = paired(daemon)[0]["record"]
        ordered = daemon.wait_for("record.clean", record=record)
        freed = daemon.wait_for("record.cleaned", record=record)
        daemon.wait_for("cycle.done", after=freed, paired=2, free=SLOTS - 2)

        assert (ordered["reason"], freed["guarantee"]) == ("stale_slot", "cas")
        # The log rounds: a record that is due by less than that shows the window itself.
        assert float(ordered["idle_s"]) >= float(ordered["window_s"]) == window_s(cluster)
        assert registry.row(record)["slot_number"] is None
        # A set-up that was withdrawn on a slow machine has released its claim.
        stale = daemon.lines("record.cleaned", reason="stale_slot")
        assert [line["record"] for line in stale] == [record]
        assert not daemon.lines("node.shutdown_started")
        assert len(daemon.lines("node.created")) == 3

    def test_a_pre_flight_boots_a_node_beside_the_daemon_hears_it_and_ends_it(
        self, cluster: AnyCluster, daemon: Daemon
    ) -> None:
        nodes = set(cluster.cloud.nodes())
        state, as_it = cluster.home / "pre-flight", cluster.environment
        code, answers = check(cluster.config, state, "--boot", module=cluster.module, **as_it)
        assert code == 0, answers
        assert {answers[name]["mark"] for name in ("ping", "pair", "end")} == {"ok"}
        after = cluster.cloud.nodes()
        # On a busy machine silent nodes serve no job, and the daemon boots one more of its own.
        assert set(after) >= nodes
        assert {one.tags["nodemanager-pool"] for one in after.values()} == {"live"}


def window_s(cluster: AnyCluster) -> float:
    return float(str(cluster.options("Daemon")["node_stale_after"]))


def open_the_window(cluster: AnyCluster, daemon: Daemon) -> Line:
    """No job waits, and idle nodes may go from now on; the line that says so."""
    cluster.want_none(daemon)
    assert not daemon.lines("node.shutdown_started")
    cluster.change({"Cloud": {"shutdown_windows": "0, 999999"}})
    return daemon.reload()


def shut_down(daemon: Daemon, node: str, after: Line) -> None:
    """Wait until it went because it was idle, and its record is free."""
    started = daemon.wait_for("node.shutdown_started", after=after, node=node)
    gone = daemon.wait_for("node.gone", after=started, node=node)
    freed = daemon.wait_for("record.cleaned", after=gone, record=gone["record"])
    assert (started["reason"], gone["outcome"]) == ("idle_beyond_demand", "gone")
    assert freed["reason"] == "after_shutdown"


def no_node_is_left(cluster: AnyCluster, registry: Registry) -> None:
    """None in the cloud, and no record holds anything."""
    assert cluster.cloud.nodes() == {}
    for row in registry.rows().values():
        assert (row["slot_number"], row["ip_address"], claim_of(row)) == (None, None, None)


def a_lost_create_is_found(cluster: AnyCluster, daemon: Daemon) -> None:
    """Where a create has no token: the manager looks for what it made and asks for no second."""
    before, known = daemon.last(), set(cluster.cloud.nodes())
    sent = cluster.cloud.creates()
    cluster.cloud.lose_next_create()
    cluster.want(2)

    failed = daemon.wait_for("node.setup_failed", after=before)
    found = daemon.wait_for("node.paired", after=failed, record=failed["record"])

    assert (failed["action"], failed["definite"]) == ("create", "false")
    assert set(cluster.cloud.nodes()) - known == {found["node"]}
    assert cluster.cloud.creates() == sent + 1


def creates_come_again(cluster: AnyCluster, silence: AbstractContextManager[None]) -> None:
    """Where a create has no token: for a while none takes effect, and nobody hears of it.

    A node is created with the second poll after that: what may have come of the last silent create
    is asked for with each poll, and must be denied twice.
    """
    # A denial is asked for again sooner than the next poll, as it is by default; each poll is told.
    polls = {"poll_time": 4, "max_poll_time": 4, "poll_stale_after": 40, "node_stale_after": 120}
    cluster.change({"Daemon": {"max_nodes": SLOTS, **polls}, "Logging": {"level": "DEBUG"}})
    daemon = cluster.start()
    daemon.wait_for("cycle.done", nodes=0, boots=0)
    with silence:
        cluster.want(2)
        daemon.wait_for("node.boot_refused", reason="create_unclear")
        tried = daemon.wait_for("node.setup_failed", action="create", count=3)
        assert tried["definite"] == "false"
        assert cluster.cloud.nodes() == {}
        before = daemon.last()
    created = daemon.wait_for("node.created", after=before)
    polled = daemon.lines("list.ok", after=before, source="cloud")
    # One more may have been on its way.
    assert sum(poll.number < created.number for poll in polled) <= 2 + 1
    daemon.wait_for("cycle.done", after=created, paired=2)
    assert len(cluster.cloud.nodes()) == 2
    assert daemon.terminate() == 0
