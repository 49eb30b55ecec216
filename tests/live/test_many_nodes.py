"""Many creates and destroys at once on EC2's API (U13); `python -m benchmarks.creates` has 200."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.ec2 import Ec2Cluster
from tests.live.many import (
    RUN,
    TERMINATE,
    at_once,
    grow,
    many_cluster,
    pinging,
    shrink,
    unseen,
)
from tests.waiting import busy, until

pytestmark = [pytest.mark.live]

NODES, MANY = 12, 24
MAX_CREATES = 16
TAKES_S = 1.0
WITHIN_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Ec2Cluster]:
    with closing(many_cluster(tmp_path, NODES, poll_s=1.0)) as made:
        yield made


def test_many_nodes_are_created_at_once_and_end_at_once_u13(cluster: Ec2Cluster) -> None:
    """Three creates and two destroys at a time took eight seconds and twelve. Pings go on."""
    for action in (RUN, TERMINATE):
        cluster.cloud.slow(action, TAKES_S)
    daemon = cluster.start()
    with pinging(cluster, daemon, 0.5) as pings:
        # More than three and two workers could do at their best, on a slow machine, too.
        assert at_once(grow(cluster, daemon, NODES, WITHIN_S)) > 3.0
        assert at_once(shrink(cluster, daemon, NODES, WITHIN_S)) > 2.0
    assert unseen(cluster) == []
    assert pings.refused == []
    assert 0.0 < pings.longest_s < TAKES_S * busy()


def test_a_cloud_that_takes_few_calls_gets_its_nodes_from_one_claim_each_u13(
    cluster: Ec2Cluster,
) -> None:
    moto = cluster.cloud
    daemon = cluster.start()
    daemon.wait_for("cycle.done")
    moto.allow(3.0)
    grow(cluster, daemon, NODES, WITHIN_S)
    assert daemon.lines("cloud.throttled")
    assert len(daemon.lines("record.claimed")) == NODES
    assert daemon.lines("record.clean") == []
    assert len(moto.spans(RUN)) == NODES


def test_what_waits_for_a_worker_when_a_quota_is_met_is_not_tried_in_vain_u13(
    tmp_path: Path,
) -> None:
    """Only those are that were under way by then, max_creates at the most."""
    with closing(many_cluster(tmp_path, MANY, poll_s=1.0)) as cluster:
        meets_its_quota(cluster, 6)


def meets_its_quota(cluster: Ec2Cluster, quota: int) -> None:
    moto = cluster.cloud
    moto.slow(RUN, TAKES_S)
    moto.quota(quota)
    daemon = cluster.start()
    cluster.want(MANY)
    daemon.wait_for("node.created", count=quota)
    daemon.wait_for("node.boot_refused", reason="at_quota")

    def are_over() -> bool:
        ends = ("node.created", "node.setup_failed", "node.setup_withdrawn")
        over = sum(len(daemon.lines(end)) for end in ends)
        return over == len(daemon.lines("node.setup_started"))

    until("the end of each set-up", are_over, WITHIN_S, told=daemon.told)
    assert quota < len(moto.calls(RUN)) <= quota + MAX_CREATES
    assert quota + MAX_CREATES < MANY
