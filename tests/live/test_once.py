"""`nodemanager run --once`: one plan, its outcomes, and an exit code that says how it went."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import cases
from tests.live.cluster import Cluster, LocalCluster
from tests.live.harness import free_port

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]


def test_once_applies_one_plan_awaits_its_outcomes_and_exits_0(tmp_path: Path):
    cluster = LocalCluster(
        tmp_path, {"Daemon": {"min_nodes": 2, "max_nodes": 2}, "Registry": {"slots": 2}}
    )
    try:
        daemon = cluster.start("--once")

        assert daemon.ended() == 0

        created = {line["node"]: line["record"] for line in daemon.lines("node.created")}
        assert len(created) == 2
        assert created == cluster.tags()
        assert {line["plan"] for line in daemon.lines("node.setup_started")} == {
            daemon.lines("node.setup_started")[0]["plan"]
        }
        assert daemon.lines("cycle.done")
        assert daemon.lines("daemon.stopped", code=0)
    finally:
        cluster.close()


@cases(
    "broken",
    {
        "demand": {"Daemon": {"wishlist_command": "/bin/false"}},
        "cloud": {
            "Cloud": {"provider": "ec2"},
            "Cloud Create": {"image_id": "ami-12345678"},
            "Cloud Credentials": {"key": "AKIDEXAMPLE", "secret": "nothing", "timeout": 3},
            "Size m5.large": {"cores": 2, "ram": 8192, "price": 0.1},
        },
    },
)
def test_once_exits_1_when_a_listing_failed_and_boots_nothing(
    tmp_path: Path, broken: dict[str, dict[str, object]]
):
    if "Cloud Credentials" in broken:
        nobody = {"Cloud Credentials": {"endpoint": f"http://127.0.0.1:{free_port()}"}}
        wanted = {"Daemon": {"min_nodes": 1, "max_nodes": 1}}
        cluster = Cluster(tmp_path, broken, nobody, wanted)
    else:
        cluster = LocalCluster(tmp_path, broken, {"Daemon": {"min_nodes": 1}})
    try:
        daemon = cluster.start("--once")

        assert daemon.ended() == 1

        (stopped,) = daemon.lines("daemon.stopped")
        assert (stopped["code"], stopped["reason"]) == ("1", "a listing failed")
        assert daemon.lines("list.failed")
        assert not daemon.lines("node.setup_started")
    finally:
        cluster.close()
