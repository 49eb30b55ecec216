"""A frozen node that its cloud denies is freed, thaws and pings: told, and given back (U8).

The cloud breaks assumption A1 here, and has the node again while its denials are not believed yet;
everything is real but for the minute that must lie between a clean and a late ping, which is put
back in the registry's own row.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.live.cluster import MANAGEMENT_TOKEN, TOKEN, LocalCluster
from tests.live.harness import Registry
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(
        tmp_path / "cluster",
        {
            "Daemon": {"min_nodes": 1, "max_nodes": 4, "node_stale_after": 4},
            "Registry": {"slots": 4},
            "Cloud Create": {"work_for": 3600},
            "Cleaning": {"visible_after": 10},
        },
    )
    yield made
    made.close()


def test_a_node_that_thaws_after_its_clean_gets_its_record_back(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    daemon = cluster.start()
    registry = Registry(daemon.url_of("registry"), TOKEN)
    paired = daemon.wait_for("node.paired")
    node_id, uuid = paired["node"], paired["record"]
    daemon.wait_for("node.keep", reason="busy", node=node_id)
    entry = cluster.running()[node_id]
    process = entry.process()
    assert process is not None
    hidden = tmp_path / "hidden"

    os.killpg(process.pid, signal.SIGSTOP)
    try:
        shutil.move(entry.path, hidden)
        ping_url = (hidden / "user-data").read_text(encoding="utf-8").strip()
        cleaned = daemon.wait_for("record.cleaned", record=uuid)
        assert registry.row(uuid)["slot_number"] is None
        with sqlite3.connect(cluster.state / "registry.db", timeout=10) as connection:
            connection.execute("UPDATE freed SET freed_at = freed_at - 61000000000")
        late = requests.post(ping_url, data={"instance_id": node_id}, timeout=10)
        assert (late.status_code, uuid in late.text) == (401, False)
        told = daemon.wait_for("record.false_clean", after=cleaned, record=uuid)
        # The ping alone gives nothing back: the cloud must show that very node.
        assert daemon.lines("record.restored") == []
        shutil.move(hidden, entry.path)
        restored = daemon.wait_for("record.restored", after=cleaned, record=uuid)
    finally:
        os.killpg(process.pid, signal.SIGCONT if entry.path.exists() else signal.SIGKILL)

    assert (told["reason"], told["slot"]) == ("late_ping", paired["slot"])
    assert (told["node"], told["cause"]) == (node_id, "stale_slot")
    opened = daemon.wait_for("breaker.opened", after=cleaned)
    assert opened["cause"] == "false_clean"
    assert (restored["slot"], restored["host"]) == (paired["slot"], paired["host"])
    daemon.wait_for("breaker.closed", after=opened, cause="false_clean")
    daemon.wait_for("node.paired", after=restored, node=node_id, record=uuid)
    until("the node's pings to be taken", lambda: pinged(registry, uuid, after=restored["ts"]))
    assert process.alive
    metrics = requests.get(
        f"{daemon.url_of('management')}/metrics",
        headers={"Authorization": f"Bearer {MANAGEMENT_TOKEN}"},
        timeout=10,
    ).text
    assert "nodemanager_false_cleans_total 1.0" in metrics
    assert "nodemanager_restores_total 1.0" in metrics


def pinged(registry: Registry, uuid: str, *, after: str) -> bool:
    last = registry.row(uuid)["last_ping_at"]
    return last is not None and last[: len(after) - 1] > after[:-1]
