"""The date of a machine that runs manager and store jumps two hours ahead, and back again (T1).

As by default: the registry is the daemon's own, on SQLite, and its nodes are processes of the local
cloud. A preloaded library (`date.c`) moves the daemon's date, and no other clock.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.cluster import DirectedCluster
from tests.live.harness import Daemon
from tests.waiting import until

NODES = 4
HOURS_S = 7200.0
STALE_S = 6.0
"""`node_stale_after` of a live cluster."""

pytestmark = [
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.server("gcc"),
]


class Date:
    """What date a process sees that is started with this environment."""

    def __init__(self, home: Path) -> None:
        library, self._file = home / "date.so", home / "date"
        source = Path(__file__).with_name("date.c")
        build = ["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)]
        subprocess.run(build, check=True)
        self._file.write_bytes(struct.pack("l", 0))
        self.environment = {"LD_PRELOAD": str(library), "DATE_AHEAD": str(self._file)}

    def ahead(self, seconds: float) -> None:
        """Let the date be so many seconds ahead from now on."""
        with open(self._file, "r+b", buffering=0) as file:
            file.write(struct.pack("l", round(seconds)))


@pytest.fixture
def date(tmp_path: Path) -> Date:
    return Date(tmp_path)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DirectedCluster]:
    """A pool of four whose nodes go when they are idle and an hour old."""
    made = DirectedCluster(
        tmp_path / "cluster",
        {
            "Daemon": {"min_nodes": NODES, "max_nodes": 2 * NODES, "max_node_age": "1h"},
            "Registry": {"slots": 2 * NODES},
        },
    )
    # The registry is the daemon's.
    made.change(made.registry_layer)
    with closing(made):
        yield made


def test_the_witness_is_not_moved(date: Date):
    date.ahead(HOURS_S)
    shown = "import time; print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))"
    told = subprocess.run(
        [sys.executable, "-c", shown], env=date.environment, capture_output=True, check=True
    )
    wall, boottime = map(float, told.stdout.split())
    assert HOURS_S - 600.0 < wall - time.time() <= HOURS_S
    assert time.clock_gettime(time.CLOCK_BOOTTIME) - 600.0 < boottime
    assert boottime <= time.clock_gettime(time.CLOCK_BOOTTIME)


def heard(cluster: DirectedCluster, daemon: Daemon) -> None:
    """Every node is paired, and pinged by the date of now."""
    daemon.wait_for("cycle.done", after=daemon.last(), paired=NODES, booting=0)
    before = stamps(cluster)
    until(
        "a new ping of every node",
        lambda: sum(stamp not in before for stamp in stamps(cluster)) >= NODES,
        told=daemon.told,
    )


def stamps(cluster: DirectedCluster) -> set[str]:
    rows = cluster.registry.rows().values()
    return {str(row["last_ping_at"]) for row in rows if row["last_ping_at"]}


def test_a_jump_of_the_date_ends_no_node_and_frees_no_slot_early(
    cluster: DirectedCluster, date: Date
):
    daemon = cluster.start(told=date.environment)
    heard(cluster, daemon)
    for node_id in sorted(cluster.running())[: NODES // 2]:
        cluster.node_does(node_id, "busy")
    heard(cluster, daemon)

    for ahead in (HOURS_S, 0.0):
        lives = cluster.tags()
        lost = sorted(lives)[0]
        cluster.kill_node(lost)
        date.ahead(ahead)
        jumped_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        before = daemon.last()
        # All that follows from the jump has come by then: the clock agrees again, and ages count.
        daemon.wait_for("clock.doubted", after=before, source="records")
        daemon.wait_for("clock.doubted", after=before, source="machine")
        daemon.wait_for("record.cleaned", after=before, record=lives[lost])
        assert time.clock_gettime(time.CLOCK_BOOTTIME) - jumped_at > STALE_S

        heard(cluster, daemon)
        freed = [line["record"] for line in daemon.lines("record.cleaned", after=before)]
        assert freed == [lives[lost]]
        assert daemon.lines("node.shutdown_started", after=before) == []
        assert lives.keys() - {lost} <= cluster.running().keys()
        assert daemon.lines("breaker.opened") == []
