"""Creates that EC2's API answers 500, as a whole: booting goes on as soon as it does again (U9)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.ec2 import Ec2Cluster, ec2_cluster
from tests.waiting import until

pytestmark = [pytest.mark.live]

FAILS_S = 20.0
BACK_WITHIN_S = 30.0
NODES = 3
# A node's time to boot counts from its claim, and the repeat that makes it comes 30 s after that.
LONG = {"Daemon": {"boot_fail_after": 120}}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Ec2Cluster]:
    with closing(ec2_cluster(tmp_path, LONG)) as made:
        yield made


def test_three_nodes_come_within_30_s_of_the_end_of_20_s_of_errors_u9(cluster: Ec2Cluster) -> None:
    moto = cluster.cloud
    moto.fail("RunInstances")
    cluster.want(NODES)
    daemon = cluster.start()
    daemon.wait_for("node.setup_failed", count=NODES)
    daemon.wait_for("node.boot_refused", reason="create_unclear")
    time.sleep(FAILS_S)
    assert moto.instances() == {}

    moto.heal("RunInstances")
    until("the nodes", lambda: len(moto.instances()) == NODES, BACK_WITHIN_S, told=daemon.told)
    daemon.wait_for("node.created", count=NODES)

    tokens = {call["ClientToken"] for call in moto.calls("RunInstances")}
    assert len(tokens) == NODES, daemon.told()
    assert not daemon.lines("record.cleaned")
