"""A manager stopped past the not-after of its order, and woken: it decides anew (SAFETY.md C11)."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests

from tests.live import brief
from tests.live.far import FarCluster
from tests.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.server("curl")]

WINDOW_S = 6.0
CLOUD_S = 20.0
"""Longer than the stop: the answer that waited for it is no time-out."""
WHOLE_SECONDS_S = 1.0
"""This API tells the time of a ping in whole seconds."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FarCluster]:
    """One node that is busy; its daemon's orders stand for seconds."""
    made = FarCluster(
        tmp_path / "cluster",
        {
            "Daemon": {
                "min_nodes": 1,
                "max_nodes": 1,
                "poll_time": 0.4,
                "max_poll_time": 1,
                "poll_stale_after": 60,
                "node_stale_after": WINDOW_S,
            },
            "Registry": {"slots": 2},
            "Cleaning": {"settle": 1},
        },
        cloud_s=CLOUD_S,
        module=brief.__name__,
    )
    made.farm.everyone("busy")
    with closing(made):
        yield made


def test_an_order_past_its_not_after_is_dropped_and_what_came_meanwhile_counts(cluster: FarCluster):
    daemon = cluster.start()
    daemon.wait_for("cycle.done", paired=1, busy=1)
    (pair,) = daemon.lines("node.paired")
    cluster.change({"Daemon": {"min_nodes": 0}})
    daemon.reload()
    cluster.moto.vanish(pair["node"])

    def last_look(request: bytes) -> bool:
        """The cleaner's own question for the nodes of that record."""
        return pair["record"].encode() in request

    with cluster.cloud.holding(last_look) as held:
        ordered = daemon.wait_for("record.clean", record=pair["record"])
        until("its last look", held.arrived.is_set, told=daemon.told)
        daemon.signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
    until("not-after to pass", lambda: time.monotonic() - stopped_at > brief.ORDER_TTL_S + 1)
    ping(cluster, pair["record"])
    pinged_at = datetime.now(UTC)
    assert cluster.registry.row(pair["record"])["slot_number"] == int(pair["slot"])
    daemon.signal(signal.SIGCONT)

    skipped = daemon.wait_for("record.clean_skipped", after=ordered, record=pair["record"])
    freed = daemon.wait_for("record.cleaned", after=ordered, record=pair["record"])
    again = daemon.lines("record.clean", after=ordered, record=pair["record"])[-1]

    assert (skipped["reason"], skipped["plan"]) == ("order_expired", ordered["plan"])
    assert float(skipped["late_s"]) > 0
    assert freed["plan"] == again["plan"] != ordered["plan"]
    # The order that freed counts from the ping. A busy machine decides late, so no keep is awaited.
    since_ping_s = (datetime.fromisoformat(again["ts"]) - pinged_at).total_seconds()
    assert WINDOW_S < float(again["idle_s"]) <= since_ping_s + WHOLE_SECONDS_S
    assert len(daemon.lines("record.cleaned", record=pair["record"])) == 1
    assert daemon.terminate() == 0


def ping(cluster: FarCluster, record: str) -> None:
    """A last one of its node, past the proxy."""
    secret = cluster.registry.row(record)["info"]["ping_secret"]
    url = f"{cluster.registry.url}/arvados/v1/nodes/{record}/ping"
    assert requests.post(url, data={"ping_secret": secret}, timeout=10).status_code == 200
