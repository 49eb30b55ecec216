"""The forerunner's GCE example, filled in, from the first boot to a clean slot.

The daemon and the nodes are processes; Google's API is the tests' own server, reached over HTTP.
One project from the first boot to the last: the tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.clouds import HERE, CloudCluster, at_work, forerunner
from tests.live.cluster import SHORT, Sections
from tests.live.gce_process import Google, metadata_of
from tests.live.harness import Daemon, Registry
from tests.live.story import STORY, Story, paired

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

GceCluster = CloudCluster[Google]


def filled_in(home: Path, google: Google) -> Sections:
    """What the operator puts into the example: a key, where Google is, and an image it has."""
    key = home / "key.pem"
    key.write_text(google.key(), encoding="ascii")
    key.chmod(0o600)
    return {
        "Cloud Credentials": {"key": key, "endpoint": google.url, "token_endpoint": google.url},
        "Cloud Create": {"image": "debian-12"},
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GceCluster]:
    home = tmp_path_factory.mktemp("gce")
    google = Google(home)
    layers = forerunner("gce"), SHORT, HERE, filled_in(home, google), STORY
    with at_work(CloudCluster(home, google, *layers, module="tests.live.soon")) as made:
        yield made


class TestStory(Story):
    """The one of every cloud."""


def test_an_instance_bears_what_the_example_says(cluster: GceCluster, registry: Registry) -> None:
    instances, rows = cluster.cloud.instances(), registry.rows()
    assert len(instances) == 2
    for one in instances.values():
        row = rows[one["labels"]["nodemanager-record"]]
        assert one["name"].startswith(f"{row['hostname']}-")
        assert one["tags"]["items"] == ["compute", "zzzzz"]
        assert metadata_of(one)["arv-ping-url"].endswith(row["info"]["ping_secret"])
        assert [disk["type"] for disk in one["disks"]] == ["PERSISTENT", "SCRATCH"]


def test_a_preempted_node_is_ended_with_its_disks_and_its_slot_is_free(
    cluster: GceCluster, daemon: Daemon, registry: Registry
) -> None:
    """It stays in the project as a stopped instance, which costs its disks."""
    taken = paired(daemon)[1]
    cluster.cloud.preempt(taken["node"])

    started = daemon.wait_for("node.shutdown_started", node=taken["node"])
    gone = daemon.wait_for("node.gone", after=started, node=taken["node"])
    freed = daemon.wait_for("record.cleaned", after=gone, record=taken["record"])

    assert (gone["outcome"], freed["reason"]) == ("gone", "after_shutdown")
    assert registry.row(taken["record"])["slot_number"] is None
    assert taken["node"] not in cluster.cloud.instances()
    assert len(cluster.cloud.disks()) == len(cluster.cloud.instances())


def test_a_zone_without_room_rests_the_size_and_leaves_nothing(
    cluster: GceCluster, daemon: Daemon, registry: Registry
) -> None:
    """Google says so only once the create's operation has gone on for long (D6)."""
    before = daemon.last()
    cluster.cloud.next_insert_fails("ZONE_RESOURCE_POOL_EXHAUSTED")
    cluster.want(4)
    claimed = daemon.wait_for("record.claimed", after=before)
    # A listing shows the instance meanwhile.
    daemon.wait_for("node.paired", after=claimed, record=claimed["record"])
    cluster.cloud.end_operations()

    failed = daemon.wait_for("node.setup_failed", after=before)
    daemon.wait_for("record.cleaned", after=failed, record=failed["record"])

    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in str(failed)
    assert failed["definite"] == "true"
    assert registry.row(failed["record"])["slot_number"] is None


def test_no_request_contradicted_googles_own_description(
    cluster: GceCluster, daemon: Daemon
) -> None:
    assert cluster.cloud.wrong() == []
    log = daemon.log.read_text(encoding="utf-8")
    assert "PRIVATE KEY" not in log
    assert "ya29." not in log
    assert daemon.terminate() == 0
