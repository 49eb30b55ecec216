"""The forerunner's Azure example, filled in, from the first boot to a clean slot.

The daemon and the nodes are processes; Azure's API is the tests' own server, reached over HTTP. One
subscription from the first boot to the last: the tests build on each other, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cloud.azure.auth import CLIENT, SECRET, SUBSCRIPTION, TENANT
from tests.cloud.azure.world import GROUP
from tests.live.azure_process import Subscription
from tests.live.cluster import SHORT, TOKEN, Cluster, Sections
from tests.live.farm import NodeFarm
from tests.live.harness import TREE, Daemon, Line, Registry, claim_of
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

EXAMPLE = TREE / "tests/config/files/azure.cfg"
WINDOW_S = 6.0
SLOTS = 8


def example() -> Sections:
    """Its sections as they are written, comments behind values and all."""
    parser = RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(EXAMPLE, encoding="utf-8")
    return {name: dict(parser[name]) for name in parser.sections()}


def filled_in(home: Path, azure: Subscription, wishlist: Path) -> Sections:
    """What the operator puts into it: who they are, and where things are here."""
    secret = home / "secret"
    secret.write_text(SECRET, encoding="ascii")
    secret.chmod(0o600)
    key = home / "id_rsa.pub"
    key.write_text("ssh-rsa AAAA someone\n", encoding="ascii")
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
        "Cloud Credentials": {
            "tenant_id": TENANT,
            "subscription_id": SUBSCRIPTION,
            "key": CLIENT,
            "secret": None,
            "secret_file": secret,
            "endpoint": azure.url,
            "login_endpoint": azure.url,
        },
        "Cloud List": {"ex_resource_group": GROUP},
        "Cloud Create": {"ping_host": None, "ssh_key": key, "preemptible": "yes"},
    }


class AzureCluster(Cluster):
    """A pool in a subscription of its own; `close` ends its server and its nodes, too."""

    module = "tests.live.impatient"

    def __init__(self, home: Path) -> None:
        self._closing = ExitStack()
        self.azure = Subscription(home)
        self._closing.callback(self.azure.close)
        self.farm = NodeFarm(self.azure, home / "farm")
        self._closing.callback(self.farm.close)
        self._wishlist = home / "wishlist"
        command = home / "print-wishlist"
        command.write_text(f"#!/bin/sh\nexec cat {self._wishlist}\n", encoding="utf-8")
        command.chmod(0o700)
        self.want(0)
        super().__init__(home, example(), SHORT, filled_in(home, self.azure, command))

    def want(self, nodes: int) -> None:
        """That many jobs wait, each for a node of its own."""
        new = self._wishlist.with_suffix(".new")
        jobs = ({"id": f"job-{number}", "cores": 4} for number in range(nodes))
        new.write_text("".join(f"{json.dumps(job)}\n" for job in jobs), encoding="ascii")
        new.replace(self._wishlist)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._closing.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureCluster]:
    made = AzureCluster(tmp_path_factory.mktemp("azure"))
    try:
        made.farm.start()
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def daemon(cluster: AzureCluster) -> Daemon:
    return cluster.daemons[0]


@pytest.fixture
def registry(daemon: Daemon) -> Registry:
    return Registry(daemon.url_of("registry"), TOKEN)


def pair(daemon: Daemon, number: int) -> Line:
    return daemon.lines("node.paired")[number]


def test_it_boots_to_demand_and_pairs_by_tags(
    cluster: AzureCluster, daemon: Daemon, registry: Registry
) -> None:
    daemon.wait_for("cycle.done", nodes=0, boots=0)
    cluster.want(2)
    daemon.wait_for("cycle.done", nodes=2, paired=2, idle=2)

    machines, rows = cluster.azure.machines(), registry.rows()
    pairs = {line["node"]: line["record"] for line in daemon.lines("node.paired")}
    assert set(pairs) == set(machines)
    for node, one in machines.items():
        row = rows[pairs[node]]
        claim = claim_of(row)
        assert claim is not None
        tags = one["tags"]
        assert tags["nodemanager-pool"] == "live"
        assert tags["nodemanager-record"] == row["uuid"]
        assert tags["nodemanager-incarnation"] == claim["incarnation"]
        assert tags["nodemanager-name"] == row["hostname"]
        assert tags["arvados-class"] == "dynamic-compute"
        assert one["name"].startswith(f"{row['hostname']}-")
        script = cluster.azure.user_data(node).decode()
        assert row["info"]["ping_secret"] in script
        assert "arv-node-data" in script
        assert row["info"]["ping_secret"] not in json.dumps(one)
        assert row["info"]["ec2_instance_id"] == node
    assert cluster.azure.called("virtualMachines.put") == 2


def test_a_machine_deleted_while_busy_leaves_its_record_within_the_window(
    cluster: AzureCluster, daemon: Daemon, registry: Registry
) -> None:
    before, lost = daemon.last(), pair(daemon, 0)
    cluster.want(0)
    for line in daemon.lines("node.paired"):
        cluster.farm.node_does(line["node"], "busy")
    daemon.wait_for("cycle.done", after=before, busy=2)
    cluster.azure.kill(lost["node"])
    cluster.want(1)

    kept = daemon.wait_for("record.keep", record=lost["record"], reason="within_window")

    assert float(kept["idle_s"]) <= float(kept["window_s"]) == WINDOW_S
    assert str(registry.row(lost["record"])["slot_number"]) == kept["slot"]


def test_a_replacement_boots_beside_the_kept_record(cluster: AzureCluster, daemon: Daemon) -> None:
    created = daemon.wait_for("node.created", count=3)
    again = daemon.wait_for("node.paired", node=created["node"])
    assert again["slot"] != pair(daemon, 0)["slot"]


def test_the_record_of_the_deleted_machine_is_cleaned_past_the_window(
    cluster: AzureCluster, daemon: Daemon, registry: Registry
) -> None:
    record = pair(daemon, 0)["record"]
    ordered = daemon.wait_for("record.clean", record=record)
    freed = daemon.wait_for("record.cleaned", record=record)
    daemon.wait_for("cycle.done", after=freed, paired=2, free=SLOTS - 2)
    assert (ordered["reason"], freed["guarantee"]) == ("stale_slot", "cas")
    assert float(ordered["idle_s"]) > float(ordered["window_s"]) == WINDOW_S
    assert registry.row(record)["slot_number"] is None
    assert not daemon.lines("node.shutdown_started")


def test_a_spot_machine_that_is_taken_away_is_one_that_is_gone(
    cluster: AzureCluster, daemon: Daemon, registry: Registry
) -> None:
    """Azure deletes it with its disk and its interface, as its create ordered."""
    taken = pair(daemon, 1)
    cluster.azure.evict(taken["node"])
    freed = daemon.wait_for("record.cleaned", record=taken["record"])
    assert freed["reason"] == "stale_slot"
    assert registry.row(taken["record"])["slot_number"] is None
    assert taken["node"] not in cluster.azure.machines()


def test_a_deallocated_node_is_ended_and_what_azure_leaves_behind_is_released(
    cluster: AzureCluster, daemon: Daemon, registry: Registry
) -> None:
    """Deallocated, it would cost its disks, and it does no work."""
    stopped = pair(daemon, 2)
    cluster.azure.forget_to_delete(stopped["node"])
    cluster.azure.deallocate(stopped["node"])

    started = daemon.wait_for("node.shutdown_started", node=stopped["node"])
    gone = daemon.wait_for("node.gone", after=started, node=stopped["node"])
    freed = daemon.wait_for("record.cleaned", after=gone, record=stopped["record"])

    assert (gone["outcome"], freed["reason"]) == ("gone", "after_shutdown")
    assert registry.row(stopped["record"])["slot_number"] is None
    assert stopped["node"] not in cluster.azure.machines()
    daemon.wait_for("leftover.released", after=gone, count=2)
    until(
        "each machine has a disk and an interface, and nothing else is there",
        lambda: len(cluster.azure.things()) == 2 * len(cluster.azure.machines()),
    )


def test_a_region_without_room_rests_the_size_and_leaves_nothing(
    cluster: AzureCluster, daemon: Daemon
) -> None:
    """Azure says so only once the create's operation has begun, and keeps what is left of it. Its
    record is free at once where no listing showed it meanwhile, else once the claim expires."""
    before = daemon.last()
    cluster.azure.next_create_fails("AllocationFailed")
    cluster.want(4)

    failed = daemon.wait_for("node.setup_failed", after=before)
    daemon.wait_for("record.clean", record=failed["record"], reason="create_refused")

    assert "AllocationFailed" in str(failed)
    assert failed["definite"] == "true"
    found = cluster.azure.machines().values()
    assert failed["record"] not in {one["tags"]["nodemanager-record"] for one in found}
    assert len(cluster.azure.things()) == 2 * len(found)


def test_no_request_contradicted_azures_own_description(
    cluster: AzureCluster, daemon: Daemon
) -> None:
    assert cluster.azure.wrong() == []
    log = daemon.log.read_text(encoding="utf-8")
    assert SECRET not in log
    assert "eyJ0." not in log
    assert daemon.terminate() == 0
    until("no process", lambda: not daemon.running)
