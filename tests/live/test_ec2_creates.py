"""Creates on EC2's API: answered 500, made and never listed, and cut short by a lost lease.

Each goes through the whole daemon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.ec2 import Ec2Cluster, ec2_cluster
from tests.live.moto_process import Moto
from tests.waiting import until

pytestmark = [pytest.mark.live]

TRIES = 3
BACK_WITHIN_S = 30.0
NODES = 3
# A node's time to boot counts from its claim, and the repeat that makes it comes 30 s after that.
LONG = {"Daemon": {"boot_fail_after": 120}}
MANY = 8
AT_ONCE = 3
"""So many set-ups are under way at once."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Ec2Cluster]:
    with closing(ec2_cluster(tmp_path, LONG)) as made:
        yield made


def test_three_nodes_come_within_30_s_of_the_end_of_all_errors_u9(cluster: Ec2Cluster) -> None:
    moto = cluster.cloud
    moto.fail("RunInstances")
    cluster.want(NODES)
    daemon = cluster.start()
    daemon.wait_for("node.setup_failed", count=NODES)
    daemon.wait_for("node.boot_refused", reason="create_unclear")
    until("repeated creates", lambda: tries(moto) == NODES * [TRIES], told=daemon.told)
    assert moto.instances() == {}

    moto.heal("RunInstances")
    until("the nodes", lambda: len(moto.instances()) == NODES, BACK_WITHIN_S, told=daemon.told)
    daemon.wait_for("node.created", count=NODES)

    tokens = {call["ClientToken"] for call in moto.calls("RunInstances")}
    assert len(tokens) == NODES, daemon.told()
    assert not daemon.lines("record.cleaned")


def tries(moto: Moto) -> list[int]:
    """How often each create was sent, or TRIES where it was more often."""
    sent = Counter(call["ClientToken"] for call in moto.calls("RunInstances"))
    return [min(count, TRIES) for count in sent.values()]


def test_a_created_node_that_no_listing_shows_is_ended_d13(tmp_path: Path) -> None:
    """It never pings, and the cloud tells of it to who asks for it by id alone."""
    with closing(ec2_cluster(tmp_path, {"Daemon": {"boot_fail_after": 5}})) as cluster:
        moto = cluster.cloud
        moto.list_nothing()
        cluster.want(1)
        daemon = cluster.start()
        created = daemon.wait_for("node.created")
        cluster.want_none(daemon)
        gone = daemon.wait_for("node.gone", node=created["node"])
        assert gone["reason"] == "boot_failed", daemon.told()
        ended = [call["InstanceId.1"] for call in moto.calls("TerminateInstances")]
        assert created["node"] in ended
        # The cloud's clock may be off by a minute: until then the node may have a twin (C20, A3).
        daemon.wait_for("record.clean", record=created["record"], reason="after_shutdown")


def test_a_lease_lost_amid_eight_set_ups_sends_no_further_create_l6(cluster: Ec2Cluster) -> None:
    moto = cluster.cloud
    moto.slow("RunInstances")
    cluster.change({"Daemon": {"max_nodes": MANY}, "Cloud": {"max_creates": AT_ONCE}})
    cluster.want(MANY)
    daemon = cluster.start()
    until(
        "creates under way",
        lambda: len(moto.calls("RunInstances")) >= AT_ONCE,
        cluster.patience_s,
        told=daemon.told,
    )
    assert len(daemon.lines("node.setup_started")) == MANY, daemon.told()

    lock = cluster.state / "lock"
    other = lock.with_name("other")
    other.write_text("pid 1 since then\n", encoding="ascii")
    other.rename(lock)

    daemon.wait_for("lease.lost")
    assert daemon.ended() == 1
    assert len(moto.calls("RunInstances")) == AT_ONCE, daemon.told()
