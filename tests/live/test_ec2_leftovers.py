"""What EC2 nodes leave behind, against moto's server: released in order, and only what is ours.

One account; the tests build on each other, in this order (D4, D5).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from botocore.exceptions import ClientError

from tests.live.cluster import MANAGEMENT_TOKEN
from tests.live.ec2 import Ec2Cluster, ec2_cluster
from tests.live.harness import Daemon, Line
from tests.live.moto_process import Moto
from tests.live.soon import DIES
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ec2Cluster]:
    home = tmp_path_factory.mktemp("leftovers")
    with closing(ec2_cluster(home, module="tests.live.soon")) as made:
        made.farm.start()
        yield made


@dataclass(frozen=True)
class Left:
    """A node, the interface and the volume of its own that outlive it, and an operator's volume."""

    node: str
    interface: str
    volume: str
    theirs: str


def booted(cluster: Ec2Cluster, daemon: Daemon) -> Left:
    """A node of ours with things that it pins."""
    before = daemon.last()
    cluster.want(1)
    node = daemon.wait_for("node.paired", after=before)["node"]
    # One without a ping would leave a claim that a manager without a journal still waits for (U2).
    until("its ping", lambda: cluster.status(daemon).get("nodes_idle") == 1, told=daemon.told)
    ec2, tags = cluster.cloud.ec2, cluster.cloud.tags()[node]
    ours = {key: value for key, value in tags.items() if key.startswith("nodemanager-")}
    interface = made_interface(ec2, ours)
    ec2.attach_network_interface(NetworkInterfaceId=interface, InstanceId=node, DeviceIndex=1)
    volume = made_volume(ec2, ours)
    # An operator counts its cost with the pool's tag: that alone does not make it ours.
    theirs = made_volume(ec2, {"nodemanager-pool": ours["nodemanager-pool"]})
    for device, one in (("/dev/xvdy", volume), ("/dev/xvdz", theirs)):
        ec2.attach_volume(VolumeId=one, InstanceId=node, Device=device)
    return Left(node, interface, volume, theirs)


def made_interface(ec2: Any, tags: dict[str, str]) -> str:
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    specification = specified("network-interface", tags)
    made = ec2.create_network_interface(SubnetId=subnet, TagSpecifications=specification)
    return str(made["NetworkInterface"]["NetworkInterfaceId"])


def made_volume(ec2: Any, tags: dict[str, str]) -> str:
    specification = specified("volume", tags)
    made = ec2.create_volume(AvailabilityZone="us-east-1a", Size=8, TagSpecifications=specification)
    return str(made["VolumeId"])


def specified(resource: str, tags: dict[str, str]) -> list[dict[str, object]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": resource, "Tags": pairs}]


def is_there(moto: Moto, left: str) -> bool:
    """Whether the account still has that volume or interface."""
    try:
        if left.startswith("vol-"):
            moto.ec2.describe_volumes(VolumeIds=[left])
        else:
            moto.ec2.describe_network_interfaces(NetworkInterfaceIds=[left])
    except ClientError as error:
        if not error.response["Error"]["Code"].endswith(".NotFound"):
            raise
        return False
    return True


def deleted(moto: Moto) -> list[str]:
    """The interfaces and volumes that anybody asked to delete."""
    interfaces = [call["NetworkInterfaceId"] for call in moto.calls("DeleteNetworkInterface")]
    return interfaces + [call["VolumeId"] for call in moto.calls("DeleteVolume")]


def released_in_order(daemon: Daemon, left: Left, after: Line | None) -> None:
    interface = daemon.wait_for("leftover.released", after=after, leftover=left.interface)
    volume = daemon.wait_for("leftover.release", after=interface, leftover=left.volume)
    assert volume["reason"] == "left_behind"
    daemon.wait_for("leftover.released", after=volume, leftover=left.volume)


def test_what_a_node_leaves_is_released_in_order_and_an_operator_s_volume_is_not(
    cluster: Ec2Cluster,
) -> None:
    moto, daemon = cluster.cloud, cluster.start()
    left = booted(cluster, daemon)
    before = daemon.last()
    cluster.want(0)

    gone = daemon.wait_for("node.gone", after=before, node=left.node)
    entered = daemon.lines("leftover.entered", node=left.node)
    assert [line["leftover"] for line in entered] == [left.interface, left.volume]
    assert all(line.number < gone.number for line in entered)
    released_in_order(daemon, left, gone)

    assert deleted(moto) == [left.interface, left.volume]
    assert [is_there(moto, one) for one in (left.interface, left.volume)] == [False, False]
    assert is_there(moto, left.theirs)
    assert not daemon.lines(leftover=left.theirs)
    daemon.wait_for("record.cleaned", record=gone["record"], reason="after_shutdown")
    until(
        "an empty ledger",
        lambda: cluster.status(daemon).get("leftovers", {}).get("releasing") == 0,
        told=daemon.told,
    )
    assert metric(daemon, 'nodemanager_leftovers_released_total{kind="volume"}') == 1


def metric(daemon: Daemon, name: str) -> float:
    page = requests.get(
        f"{daemon.url_of('management')}/metrics",
        headers={"Authorization": f"Bearer {MANAGEMENT_TOKEN}"},
        timeout=10,
    ).text
    return next(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name))


def test_what_no_ledger_names_is_found_by_its_tags(cluster: Ec2Cluster) -> None:
    """A node that ended behind everybody's back, and a manager that has lost its journal."""
    moto, first = cluster.cloud, cluster.daemons[-1]
    left = booted(cluster, first)
    first.kill()
    cluster.want(0)
    moto.vanish(left.node)
    for file in cluster.state.glob("journal.db*"):
        file.unlink()

    second = cluster.start()
    second.wait_for("leftover.found", leftover=left.volume)
    released_in_order(second, left, None)
    assert not second.lines(leftover=left.theirs)
    assert is_there(moto, left.theirs)
    assert second.terminate() == 0


def test_killed_between_destroy_and_release_the_next_run_releases(
    cluster: Ec2Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9; what is in the journal is enough."""
    moto, before = cluster.cloud, deleted(cluster.cloud)
    monkeypatch.setenv(DIES, "yes")
    first = cluster.start()
    monkeypatch.delenv(DIES)
    left = booted(cluster, first)
    cluster.want(0)
    assert first.ended() == -signal.SIGKILL
    assert first.lines("node.gone", node=left.node)
    assert deleted(moto) == before
    assert is_there(moto, left.volume)

    second = cluster.start()
    released_in_order(second, left, None)
    assert sorted(deleted(moto)) == sorted([*before, left.interface, left.volume])
    assert is_there(moto, left.theirs)
