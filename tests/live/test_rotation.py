"""A pool under load gets a new image: one node after the other, and no job is lost (D15).

The nodes work for two thirds of the time. `make proof NAME=rotation` replaces ten of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nodemanager.cloud.local.node import BUSY
from nodemanager.cloud.local.state import StateDir
from nodemanager.commands.client import Client
from nodemanager.config import reach
from nodemanager.core.operate.verbs import Verb
from tests.live.cluster import LocalCluster
from tests.live.harness import Daemon
from tests.waiting import until

NODES = int(os.environ.get("ROTATION_NODES", "3"))
pytestmark = [
    pytest.mark.proof,
    pytest.mark.live,
    pytest.mark.server("curl"),
    pytest.mark.timeout(120 + 20 * NODES),
]

WITHIN_S = 30.0 + 10.0 * NODES


class Watch:
    """What is true of the cloud's nodes, from their own directories."""

    def __init__(self, root: Path) -> None:
        self.cloud = StateDir(root)
        self.images: dict[str, str | None] = {}
        self.hit: set[str] = set()
        """Nodes whose process ended while they worked."""
        self.least = NODES
        """The fewest that lived at once since the pool was whole."""

    def living(self) -> dict[str, str | None]:
        """The images of the nodes that live, by id."""
        found: dict[str, str | None] = {}
        for entry in self.cloud.all():
            process = entry.process()
            alive = process is not None and process.alive
            image = self.images.setdefault(entry.id, entry.meta().get("image"))
            if alive:
                found[entry.id] = image
            if process is not None and not alive and (entry.path / BUSY).exists():
                self.hit.add(entry.id)
        self.least = min(self.least, len(found))
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(
        tmp_path,
        {
            "Daemon": {
                "min_nodes": NODES,
                "max_nodes": NODES,
                "node_stale_after": 60,
                "consecutive_idle_count": 1,
            },
            "Registry": {"slots": NODES + 1},
            "Cloud Create": {"work_for": 2, "image": "worker"},
        },
    )
    with closing(made):
        yield made


def rotation_of(cluster: LocalCluster, daemon: Daemon) -> dict[str, Any]:
    return dict(cluster.status(daemon).get("rotation", {}))


def test_a_pool_under_load_gets_another_image_and_no_job_is_lost_d15(
    cluster: LocalCluster,
) -> None:
    root = cluster.state / "local-cloud"
    cluster.name_image("worker", "image-1")
    daemon = cluster.start()
    watch = Watch(root)
    for count in range(1, NODES + 1):
        daemon.wait_for("node.paired", count=count)
    first = watch.living()
    assert set(first.values()) == {"image-1"}
    operator = Client(reach(cluster.config), daemon.url_of("management"))
    assert operator.order(Verb.ROTATE_PAUSE, reason="not yet")["done"]

    cluster.name_image("worker", "image-2")
    waits = "rotation_paused"
    until(
        "the rotation to wait",
        lambda: [one["waits"] for one in rotation_of(cluster, daemon).get("sizes", [])] == [waits],
        told=daemon.told,
    )
    assert watch.living() == first
    assert operator.order(Verb.ROTATE_RESUME)["done"]

    begun = time.monotonic()

    def replaced() -> bool:
        living = watch.living()
        return len(living) == NODES and set(living.values()) == {"image-2"}

    until("every node to be replaced", replaced, WITHIN_S, told=daemon.told)
    took_s = time.monotonic() - begun
    print(f"{NODES} nodes were replaced in {took_s:.1f} s")
    until("nothing to be left", lambda: not rotation_of(cluster, daemon)["sizes"], told=daemon.told)

    started = daemon.lines("node.shutdown_started")
    assert {line["node"] for line in started} == set(first)
    assert {line["reason"] for line in started} == {"other_image"}
    assert not watch.hit
    assert watch.least >= NODES - 1
    assert not daemon.lines("invariant.broken")
