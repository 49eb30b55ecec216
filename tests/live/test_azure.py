"""The forerunner's Azure example, filled in, from the first boot to a clean slot.

The daemon and the nodes are processes; Azure's API is the tests' own server, reached over HTTP. One
subscription from the first boot to the last: the tests build on each other, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.azure.auth import CLIENT, SECRET, SUBSCRIPTION, TENANT
from tests.cloud.azure.world import GROUP
from tests.live.azure_process import Subscription
from tests.live.clouds import HERE, CloudCluster, at_work, forerunner
from tests.live.cluster import SHORT, Sections
from tests.live.harness import Daemon, Registry
from tests.live.story import STORY, Story, paired
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

AzureCluster = CloudCluster[Subscription]


def filled_in(home: Path, azure: Subscription) -> Sections:
    """What the operator puts into the example: who they are, and where Azure is."""
    secret = home / "secret"
    secret.write_text(SECRET, encoding="ascii")
    secret.chmod(0o600)
    key = home / "id_rsa.pub"
    key.write_text("ssh-rsa AAAA someone\n", encoding="ascii")
    return {
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
        "Cloud Create": {"ssh_key": key, "preemptible": "yes"},
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureCluster]:
    home = tmp_path_factory.mktemp("azure")
    azure = Subscription(home)
    layers = forerunner("azure"), SHORT, HERE, filled_in(home, azure), STORY
    with at_work(CloudCluster(home, azure, *layers, module="tests.live.soon")) as made:
        yield made


class TestStory(Story):
    """The one of every cloud."""


def test_a_machine_bears_what_the_example_says_and_its_secret_is_in_its_script_alone(
    cluster: AzureCluster, registry: Registry
) -> None:
    machines, rows = cluster.cloud.machines(), registry.rows()
    assert len(machines) >= 2
    for node, one in machines.items():
        row = rows[one["tags"]["nodemanager-record"]]
        assert one["tags"]["arvados-class"] == "dynamic-compute"
        assert one["name"].startswith(f"{row['hostname']}-")
        script = cluster.cloud.user_data(node).decode()
        assert row["info"]["ping_secret"] in script
        assert "arv-node-data" in script
        assert row["info"]["ping_secret"] not in json.dumps(one)


def nothing_is_left_over(cluster: AzureCluster) -> None:
    until(
        "each machine has a disk and an interface, and nothing else is there",
        lambda: len(cluster.cloud.things()) == 2 * len(cluster.cloud.machines()),
    )


def test_a_spot_machine_that_is_taken_away_is_one_that_is_gone(
    cluster: AzureCluster, daemon: Daemon, registry: Registry
) -> None:
    """Azure deletes it with its disk and its interface, as its create ordered."""
    taken = paired(daemon)[1]
    cluster.cloud.evict(taken["node"])
    freed = daemon.wait_for("record.cleaned", record=taken["record"])
    assert freed["reason"] == "stale_slot"
    assert registry.row(taken["record"])["slot_number"] is None
    assert taken["node"] not in cluster.cloud.machines()


def test_a_deallocated_node_is_ended_and_what_azure_leaves_behind_is_released(
    cluster: AzureCluster, daemon: Daemon, registry: Registry
) -> None:
    """Deallocated, it would cost its disks, and it does no work."""
    stopped = paired(daemon)[2]
    cluster.cloud.forget_to_delete(stopped["node"])
    cluster.cloud.deallocate(stopped["node"])

    started = daemon.wait_for("node.shutdown_started", node=stopped["node"])
    gone = daemon.wait_for("node.gone", after=started, node=stopped["node"])
    freed = daemon.wait_for("record.cleaned", after=gone, record=stopped["record"])

    assert (gone["outcome"], freed["reason"]) == ("gone", "after_shutdown")
    assert registry.row(stopped["record"])["slot_number"] is None
    assert stopped["node"] not in cluster.cloud.machines()
    daemon.wait_for("leftover.released", after=gone, count=2)
    nothing_is_left_over(cluster)


def test_a_region_without_room_rests_the_size_and_leaves_nothing(
    cluster: AzureCluster, daemon: Daemon
) -> None:
    """Azure says so only once the create's operation has gone on for long, and keeps what is left
    of it (D6)."""
    before = daemon.last()
    cluster.cloud.next_create_fails("AllocationFailed")
    cluster.want(4)
    claimed = daemon.wait_for("record.claimed", after=before)
    # A listing shows the machine meanwhile.
    daemon.wait_for("node.paired", after=claimed, record=claimed["record"])
    cluster.cloud.end_operations()

    failed = daemon.wait_for("node.setup_failed", after=before)
    daemon.wait_for("record.cleaned", after=failed, record=failed["record"])

    assert "AllocationFailed" in str(failed)
    assert failed["definite"] == "true"
    assert failed["record"] not in {
        seen.tags["nodemanager-record"] for seen in cluster.cloud.nodes().values()
    }
    nothing_is_left_over(cluster)


def test_no_request_contradicted_azures_own_description(
    cluster: AzureCluster, daemon: Daemon
) -> None:
    assert cluster.cloud.wrong() == []
    log = daemon.log.read_text(encoding="utf-8")
    assert SECRET not in log
    assert "eyJ0." not in log
    assert daemon.terminate() == 0
