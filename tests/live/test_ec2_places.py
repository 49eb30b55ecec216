"""Two subnets, of which one has no room: the node boots in the other at once (D6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.clouds import CloudCluster
from tests.live.ec2 import Ec2Cluster, on_ec2
from tests.live.harness import Daemon
from tests.live.moto_process import Moto
from tests.waiting import until

pytestmark = [pytest.mark.proof, pytest.mark.live]

RESTS_S = 45


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Ec2Cluster]:
    moto = Moto(tmp_path)
    places = {
        "Cloud": {"places": ", ".join(moto.subnets()[:2])},
        "Daemon": {"max_poll_time": RESTS_S, "max_total_price": 1},
    }
    with closing(CloudCluster(tmp_path, moto, on_ec2(moto.url), places)) as made:
        yield made


def subnets_of_nodes(cluster: Ec2Cluster) -> list[str]:
    return sorted(str(one["SubnetId"]) for one in cluster.cloud.instances().values())


def boots(cluster: Ec2Cluster, daemon: Daemon, nodes: int) -> list[str]:
    """The subnets of the nodes once there are that many."""
    cluster.want(nodes)
    until("the nodes", lambda: len(cluster.cloud.instances()) == nodes, told=daemon.told)
    daemon.wait_for("node.created", count=nodes)
    return subnets_of_nodes(cluster)


def test_a_node_boots_in_the_next_subnet_at_once_and_the_full_one_rests_over_a_restart(
    cluster: Ec2Cluster,
) -> None:
    moto = cluster.cloud
    first, second = moto.subnets()[:2]
    cluster.farm.start()
    moto.fill(first)
    daemon = cluster.start()

    assert boots(cluster, daemon, 1) == [second]
    asked = [call["SubnetId"] for call in moto.calls("RunInstances")]
    assert asked == [first, second]
    assert len({call["ClientToken"] for call in moto.calls("RunInstances")}) == 2
    assert daemon.wait_for("node.setup_started")["place"] == first
    assert daemon.wait_for("node.created")["place"] == second
    rests = daemon.wait_for("place.rests")
    assert (rests["size"], rests["place"], rests["reason"]) == ("m5.large", first, "place_rests")
    assert len(daemon.lines("record.claimed")) == 1, daemon.told()
    # Status is of the newest decision, and the rest may be newer.
    (shown,) = until("the rest", lambda: cluster.status(daemon)["places_resting"])
    assert (shown["size"], shown["place"]) == ("m5.large", first)
    assert 0 < shown["for_s"] <= RESTS_S

    daemon.kill()
    daemon = cluster.start()
    daemon.wait_for("cycle.done")
    (shown,) = until("the rest", lambda: cluster.status(daemon)["places_resting"])
    assert shown["place"] == first
    moto.empty(first)
    resumed = daemon.wait_for("place.resumed", within=RESTS_S + 30)
    assert (resumed["size"], resumed["place"]) == ("m5.large", first)
    cluster.want(2)
    until("the second", lambda: len(moto.instances()) == 2, told=daemon.told)
    assert subnets_of_nodes(cluster) == sorted([first, second])
    assert not daemon.lines("place.rests")
