"""Spot and on-demand sizes of one instance type against a real EC2 API (N2, N3, U11).

The tests build on each other, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import requests

from tests.live.cluster import TOKEN, Sections
from tests.live.ec2 import Ec2Cluster, ec2_cluster
from tests.live.harness import Daemon, Registry, claim_of, free_port
from tests.waiting import until

pytestmark = [pytest.mark.proof, pytest.mark.live, pytest.mark.server("curl")]

CYCLES = 25
"""So many decisions must go by without another boot or a shutdown."""
SCRATCH_MB = 100_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ec2Cluster]:
    options: Sections = {
        "Daemon": {
            "max_nodes": 8,
            "max_total_price": 5,
            # A restart under load is no silence.
            "node_stale_after": 120,
        },
        # Where the nodes find it again after a restart.
        "Registry": {"slots": 8, "listen": f"127.0.0.1:{free_port()}"},
        "Size m5.large": {"scratch": SCRATCH_MB},
        "Size m5.large.spot": {
            "instance_type": "m5.large",
            "cores": 2,
            "price": 0.03,
            "scratch": SCRATCH_MB,
            "preemptible": "yes",
        },
    }
    with closing(ec2_cluster(tmp_path_factory.mktemp("sizes"), options)) as made:
        made.farm.start()
        made.start()
        yield made


def cycles(daemon: Daemon) -> int:
    """How many decisions were taken so far."""
    answer = requests.get(f"{daemon.url_of('management')}/metrics", timeout=10)
    lines = answer.text.splitlines()
    found = [one for one in lines if one.startswith("nodemanager_cycle_seconds_count")]
    return int(float(found[0].split()[-1])) if found else 0


def let_cycles_pass(daemon: Daemon) -> None:
    until_then = cycles(daemon) + CYCLES
    until(f"{CYCLES} cycles", lambda: cycles(daemon) >= until_then, 120, told=daemon.told)


ORDINARY = {"id": "ordinary", "cores": 2}
PREEMPTIBLE = {"id": "preemptible", "cores": 2, "preemptible": True}


def sizes(cluster: Ec2Cluster) -> list[str]:
    return sorted(tags["nodemanager-size"] for tags in cluster.cloud.tags().values())


def test_one_job_beside_two_sizes_of_one_type_boots_one_node_and_no_thrash_follows(
    cluster: Ec2Cluster,
) -> None:
    """The cheaper size is the spot one, and the job is not for it."""
    daemon = cluster.daemons[0]
    cluster.want_jobs(ORDINARY)
    daemon.wait_for("cycle.done", nodes=1, paired=1, idle=1)
    let_cycles_pass(daemon)

    assert len(cluster.cloud.calls("RunInstances")) == 1
    assert not daemon.lines("node.shutdown_started")
    assert sizes(cluster) == ["m5.large"]
    (row,) = Registry(daemon.url_of("registry"), TOKEN).rows().values()
    claim = claim_of(row)
    assert claim is not None
    assert claim["size"] == "m5.large"
    assert row["properties"]["cloud_node"] == {"size": "m5.large", "price": 0.096}
    assert cluster.status(daemon)["price"] == 0.096


def test_its_scratch_volume_has_what_the_file_means_in_mb(cluster: Ec2Cluster) -> None:
    (instance,) = cluster.cloud.instances().values()
    attached = cluster.cloud.ec2.describe_volumes(
        Filters=[{"Name": "attachment.instance-id", "Values": [instance["InstanceId"]]}]
    )["Volumes"]
    made = {volume["Attachments"][0]["Device"]: volume["Size"] for volume in attached}
    assert made["/dev/xvdt"] == SCRATCH_MB // 1000


def test_over_a_restart_the_two_sizes_are_still_two(cluster: Ec2Cluster) -> None:
    assert cluster.daemons[0].terminate() == 0
    daemon = cluster.start()
    cluster.want_jobs(ORDINARY, PREEMPTIBLE)
    daemon.wait_for("cycle.done", nodes=2, paired=2, idle=2)
    let_cycles_pass(daemon)

    assert len(cluster.cloud.calls("RunInstances")) == 2
    assert not daemon.lines("node.shutdown_started")
    assert sizes(cluster) == ["m5.large", "m5.large.spot"]
    assert cluster.status(daemon)["price"] == pytest.approx(0.126)


def test_the_one_that_no_job_wants_any_more_goes_and_the_other_stays(cluster: Ec2Cluster) -> None:
    daemon = cluster.daemons[-1]
    cluster.want_jobs(PREEMPTIBLE)
    daemon.wait_for("node.gone")
    let_cycles_pass(daemon)

    assert len(cluster.cloud.calls("RunInstances")) == 2
    assert len(daemon.lines("node.gone")) == 1
    assert sizes(cluster) == ["m5.large.spot"]


def test_a_job_that_cant_be_had_boots_nothing_and_is_told_by_its_id(cluster: Ec2Cluster) -> None:
    daemon = cluster.daemons[-1]
    cluster.want_jobs(PREEMPTIBLE, {"id": "huge", "cores": 2, "count": 9})
    told = daemon.wait_for("job.unsatisfiable")
    let_cycles_pass(daemon)

    assert (told["job"], told["reason"]) == ("huge", "job_over_max_nodes")
    assert len(daemon.lines("job.unsatisfiable")) == 1
    assert len(cluster.cloud.calls("RunInstances")) == 2
    assert cluster.status(daemon)["jobs_unsatisfiable"]["jobs"] == [
        {"id": "huge", "reason": "job_over_max_nodes"}
    ]
