"""The forerunner's GCE example, filled in, from the first boot to a clean slot.

The daemon and the nodes are processes; Google's API is the tests' own server, reached over HTTP.
One project from the first boot to the last: the tests build on each other, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.cluster import SHORT, TOKEN, Cluster, Sections
from tests.live.farm import NodeFarm
from tests.live.gce_process import Google, metadata_of
from tests.live.harness import TREE, Daemon, Line, Registry, claim_of
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

EXAMPLE = TREE / "tests/config/files/gce.cfg"
WINDOW_S = 6.0
SLOTS = 8


def example() -> Sections:
    """Its sections as they are written, comments behind values and all."""
    parser = RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(EXAMPLE, encoding="utf-8")
    return {name: dict(parser[name]) for name in parser.sections()}


def filled_in(home: Path, google: Google, wishlist: Path) -> Sections:
    """What the operator puts into it: a key, an image that exists, and where things are here."""
    key = home / "key.pem"
    key.write_text(google.key(), encoding="ascii")
    key.chmod(0o600)
    return {
        "Daemon": {
            "certs_file": None,
            "max_nodes": 4,
            "node_stale_after": WINDOW_S,
            "wishlist_command": wishlist,
        },
        "Logging": {"file": None},
        "Arvados": {"host": None},
        "Records": {"provider": "registry"},
        "Registry": {"slots": SLOTS},
        "Cleaning": {"visible_after": 0.5},
        # In minutes: nodes stay for an hour.
        "Cloud": {"shutdown_windows": "60, 999999"},
        "Cloud Credentials": {"key": key, "endpoint": google.url, "token_endpoint": google.url},
        "Cloud Create": {"ping_host": None, "image": "debian-12"},
    }


class GceCluster(Cluster):
    """A pool in a project of its own; `close` ends its server and its nodes, too."""

    module = "tests.live.impatient"

    def __init__(self, home: Path) -> None:
        self._closing = ExitStack()
        self.google = Google(home)
        self._closing.callback(self.google.close)
        self.farm = NodeFarm(self.google, home / "farm")
        self._closing.callback(self.farm.close)
        self._wishlist = home / "wishlist"
        command = home / "print-wishlist"
        command.write_text(f"#!/bin/sh\nexec cat {self._wishlist}\n", encoding="utf-8")
        command.chmod(0o700)
        self.want(0)
        super().__init__(home, example(), SHORT, filled_in(home, self.google, command))

    def want(self, nodes: int) -> None:
        """That many jobs wait, each for a node of its own."""
        new = self._wishlist.with_suffix(".new")
        jobs = ({"id": f"job-{number}", "cores": 2} for number in range(nodes))
        new.write_text("".join(f"{json.dumps(job)}\n" for job in jobs), encoding="ascii")
        new.replace(self._wishlist)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._closing.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GceCluster]:
    made = GceCluster(tmp_path_factory.mktemp("gce"))
    try:
        made.farm.start()
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def daemon(cluster: GceCluster) -> Daemon:
    return cluster.daemons[0]


@pytest.fixture
def registry(daemon: Daemon) -> Registry:
    return Registry(daemon.url_of("registry"), TOKEN)


def first_pair(daemon: Daemon) -> Line:
    return daemon.lines("node.paired")[0]


def test_it_boots_to_demand_and_pairs_by_labels(
    cluster: GceCluster, daemon: Daemon, registry: Registry
) -> None:
    daemon.wait_for("cycle.done", nodes=0, boots=0)
    cluster.want(2)
    daemon.wait_for("cycle.done", nodes=2, paired=2, idle=2)

    instances, rows = cluster.google.instances(), registry.rows()
    pairs = {line["node"]: line["record"] for line in daemon.lines("node.paired")}
    assert set(pairs) == set(instances)
    for node, one in instances.items():
        row = rows[pairs[node]]
        claim = claim_of(row)
        assert claim is not None
        labels = one["labels"]
        assert labels["nodemanager-pool"] == "live"
        assert labels["nodemanager-record"] == row["uuid"]
        assert labels["nodemanager-incarnation"] == claim["incarnation"]
        assert labels["nodemanager-name"] == row["hostname"]
        assert one["name"].startswith(f"{row['hostname']}-")
        assert one["tags"]["items"] == ["compute", "zzzzz"]
        assert metadata_of(one)["arv-ping-url"].endswith(row["info"]["ping_secret"])
        assert [disk["type"] for disk in one["disks"]] == ["PERSISTENT", "SCRATCH"]
        assert row["info"]["ec2_instance_id"] == node
    assert cluster.google.called("instances.insert") == 2


def test_an_instance_deleted_while_busy_leaves_its_record_within_the_window(
    cluster: GceCluster, daemon: Daemon, registry: Registry
) -> None:
    before, lost = daemon.last(), first_pair(daemon)
    cluster.want(0)
    for line in daemon.lines("node.paired"):
        cluster.farm.node_does(line["node"], "busy")
    daemon.wait_for("cycle.done", after=before, busy=2)
    cluster.google.delete(lost["node"])
    cluster.want(1)

    kept = daemon.wait_for("record.keep", record=lost["record"], reason="within_window")

    assert float(kept["idle_s"]) <= float(kept["window_s"]) == WINDOW_S
    assert str(registry.row(lost["record"])["slot_number"]) == kept["slot"]


def test_a_replacement_boots_beside_the_kept_record(cluster: GceCluster, daemon: Daemon) -> None:
    created = daemon.wait_for("node.created", count=3)
    again = daemon.wait_for("node.paired", node=created["node"])
    assert again["slot"] != first_pair(daemon)["slot"]


def test_the_record_of_the_deleted_instance_is_cleaned_past_the_window(
    cluster: GceCluster, daemon: Daemon, registry: Registry
) -> None:
    record = first_pair(daemon)["record"]
    ordered = daemon.wait_for("record.clean", record=record)
    freed = daemon.wait_for("record.cleaned", record=record)
    daemon.wait_for("cycle.done", after=freed, paired=2, free=SLOTS - 2)
    assert (ordered["reason"], freed["guarantee"]) == ("stale_slot", "cas")
    assert float(ordered["idle_s"]) > float(ordered["window_s"]) == WINDOW_S
    assert registry.row(record)["slot_number"] is None
    assert not daemon.lines("node.shutdown_started")


def test_a_preempted_node_is_ended_with_its_disks_and_its_slot_is_free(
    cluster: GceCluster, daemon: Daemon, registry: Registry
) -> None:
    """It stays in the project as a stopped instance, which costs its disks."""
    taken = daemon.lines("node.paired")[1]
    cluster.google.preempt(taken["node"])

    started = daemon.wait_for("node.shutdown_started", node=taken["node"])
    gone = daemon.wait_for("node.gone", after=started, node=taken["node"])
    freed = daemon.wait_for("record.cleaned", after=gone, record=taken["record"])

    assert (gone["outcome"], freed["reason"]) == ("gone", "after_shutdown")
    assert registry.row(taken["record"])["slot_number"] is None
    assert taken["node"] not in cluster.google.instances()
    assert len(cluster.google.disks()) == len(cluster.google.instances())


def test_a_zone_without_room_rests_the_size_and_leaves_nothing(
    cluster: GceCluster, daemon: Daemon, registry: Registry
) -> None:
    """Google says so only once the create's operation has begun."""
    before = daemon.last()
    cluster.google.next_insert_fails("ZONE_RESOURCE_POOL_EXHAUSTED")
    cluster.want(4)

    failed = daemon.wait_for("node.setup_failed", after=before)
    daemon.wait_for("record.cleaned", after=failed, record=failed["record"])

    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in str(failed)
    assert failed["definite"] == "true"
    assert registry.row(failed["record"])["slot_number"] is None


def test_no_request_contradicted_googles_own_description(
    cluster: GceCluster, daemon: Daemon
) -> None:
    assert cluster.google.wrong() == []
    log = daemon.log.read_text(encoding="utf-8")
    assert "PRIVATE KEY" not in log
    assert "ya29." not in log
    assert daemon.terminate() == 0
    until("no process", lambda: not daemon.running)
