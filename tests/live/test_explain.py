"""A real daemon explains a slot that its dead node still holds, and keeps the moment it names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
import requests

from tests.live.cluster import LocalCluster
from tests.live.harness import Daemon, free_port
from tests.live.leaks import answer, command
from tests.waiting import until

pytestmark = [pytest.mark.proof, pytest.mark.live, pytest.mark.server("curl")]

WINDOW_S = 15.0
POLLS_S = 10.0
"""As late as a poll and a clean may be on a machine that is busy."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(
        tmp_path / "cluster",
        {
            "Daemon": {"min_nodes": 1, "max_nodes": 1, "node_stale_after": WINDOW_S},
            "Manage": {"port": free_port()},
            "Cloud Create": {"work_for": 60},
        },
    )
    with closing(made):
        yield made


def test_the_moment_that_is_named_is_when_the_slot_comes_free(cluster: LocalCluster) -> None:
    daemon: Daemon = cluster.start()
    pair = daemon.wait_for("node.paired")
    daemon.wait_for("node.keep", reason="busy", node=pair["node"])

    alive = answer(cluster.config, "explain", pair["host"])
    assert alive["verdict"]["reason"] == "paired"
    assert alive["earliest"]["why"] == [f"not while its node {pair['node']} is listed"]
    node = answer(cluster.config, "explain", pair["node"])
    assert (node["subject"], node["verdict"]["reason"]) == ("node", "busy")
    url = f"{daemon.url_of('management')}/api/explain/{pair['record']}"
    assert requests.get(url, timeout=10).status_code == 401

    cluster.kill_node(pair["node"])
    daemon.wait_for("record.keep", reason="within_window", record=pair["record"])
    told = until(
        "a moment to be named",
        lambda: named(answer(cluster.config, "explain", pair["slot"])),
        told=daemon.told,
    )
    freed = daemon.wait_for("record.clean", record=pair["record"], within=WINDOW_S + 30)

    at = datetime.fromisoformat(freed["ts"]).timestamp()
    assert 0.0 <= at - told <= POLLS_S

    daemon.terminate()
    before = datetime.fromtimestamp(at - 2.0).astimezone().isoformat()
    journal = str(cluster.state / "journal.db")
    text = command(cluster.config, "explain", pair["record"], "--journal", journal, "--at", before)
    assert "is left alone: within_window" in text
    assert "blocking: C3 within_window" in text


def named(shown: dict[str, dict[str, str | None]]) -> float:
    at = shown["earliest"]["at"]
    return 0.0 if at is None else datetime.fromisoformat(at).timestamp()
