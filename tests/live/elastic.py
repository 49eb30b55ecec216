"""A real Slurm over the local cloud: each node's machine is a process, and has a slurmd of its own.

`Machines` starts it as the node's image would, under the hostname of its record.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.live.cluster import TOKEN, LocalCluster, Sections
from tests.live.harness import Daemon, Registry
from tests.schedulers.slurm_cluster import LARGE, SlurmCluster, slurm_cluster
from tests.waiting import until

LATEST_S = 90.0
FRESH_S = 15.0


class PromptCluster(LocalCluster):
    module = "tests.live.prompt"
    patience_s = LATEST_S


class Machines:
    """Starts a slurmd for each node of the cloud, and ends it with the node."""

    def __init__(self, cluster: LocalCluster, slurm: SlurmCluster) -> None:
        self.cluster, self.slurm = cluster, slurm
        self._slurmd_of: dict[str, str] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(20)

    def _run(self) -> None:
        while not self._over.wait(0.2):
            running = self.cluster.tags()
            for node in set(self._slurmd_of) - running.keys():
                self.slurm.kill_node(self._slurmd_of.pop(node))
            rows = self._rows() if running.keys() - self._slurmd_of.keys() else {}
            for node, record in running.items():
                row = rows.get(record, {})
                host = row.get("hostname") if row.get("first_ping_at") else None
                if node not in self._slurmd_of and host is not None:
                    self.slurm.start_node(host)
                    self._slurmd_of[node] = host

    def _rows(self) -> dict[str, dict[str, Any]]:
        """The records by uuid, as the newest daemon's registry has them; none while it is down."""
        started = self.cluster.daemons[-1].lines("server.started", name="registry")
        try:
            return Registry(started[-1]["url"], TOKEN).rows() if started else {}
        except requests.ConnectionError:
            return {}


@contextmanager
def started(
    home: Path, slurm: SlurmCluster, changes: Sections | None = None
) -> Iterator[tuple[LocalCluster, Daemon]]:
    """A daemon that dispatches for that Slurm, with these changes to its file."""
    options: Sections = {
        "Daemon": {
            "dispatcher": "slurm",
            "max_nodes": 2,
            "poll_stale_after": FRESH_S,
            "node_stale_after": 60,
        },
        "Slurm": {"conf": slurm.conf, "timeout": 5},
        "Registry": {"slots": 2, "hostname": "c%(slot_number)d"},
    }
    with closing(PromptCluster(home, options, changes or {})) as cluster:
        daemon = cluster.start()
        machines = Machines(cluster, slurm)
        machines.start()
        try:
            yield cluster, daemon
        finally:
            machines.end()


@pytest.fixture
def slurm(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """No node is up: none has a slurmd, and the controller knows it."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    asked = request.node.get_closest_marker("slurmd_timeout")
    with slurm_cluster(folder, silence_s=asked.args[0] if asked else 300) as cluster:
        for node in cluster.nodes:
            cluster.kill_node(node)
            cluster.client("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=none")
        yield cluster


def submit(slurm: SlurmCluster, seconds: int) -> str:
    return slurm.submit("-x", LARGE, "-n", "4", seconds=seconds)


def is_now(slurm: SlurmCluster, job: str, state: str, daemon: Daemon) -> None:
    until(f"{job} {state}", lambda: slurm.job_state(job) == state, LATEST_S, told=daemon.told)


def told_of(slurm: SlurmCluster, job: str, field: str) -> str:
    """A field of a job, as scontrol shows it; "" where it has none."""
    found = re.search(
        rf" {field}=(.*?)(?: \w+=|$)", slurm.client("scontrol", "show", "job", "-o", job)
    )
    return "" if found is None else found[1].strip()


def told_of_node(slurm: SlurmCluster, node: str) -> tuple[str, str]:
    """The node's features and weight."""
    shown = slurm.client("scontrol", "show", "node", "-o", node)
    found = [re.search(rf" {name}=(\S+)", shown) for name in ("ActiveFeatures", "Weight")]
    features, weight = (one[1] if one is not None else "" for one in found)
    return features, weight


def no_node_left(cluster: LocalCluster, daemon: Daemon) -> None:
    until("no node", lambda: not cluster.running(), LATEST_S, told=daemon.told)
