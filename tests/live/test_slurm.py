"""A real Slurm whose nodes come and go: a waiting job boots one, runs on it, it drains and goes.

The nodes are processes of the local cloud. `Machines` gives each a slurmd, as its image would.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.live.cluster import TOKEN, LocalCluster, Sections
from tests.live.harness import Daemon, Registry
from tests.schedulers.slurm_cluster import LARGE, SlurmCluster, slurm_cluster
from tests.waiting import until

pytestmark = [
    pytest.mark.live,
    pytest.mark.server("slurm", "munge", "curl"),
    pytest.mark.timeout(400),
]

LATEST_S = 90.0
FRESH_S = 15.0


class PromptCluster(LocalCluster):
    module = "tests.live.prompt"
    patience_s = LATEST_S


class Machines:
    """Starts a slurmd for each node of the cloud, and ends it with the node."""

    def __init__(self, cluster: LocalCluster, slurm: SlurmCluster) -> None:
        self.cluster, self.slurm = cluster, slurm
        self.registry: Registry | None = None
        self._slurmd_of: dict[str, str] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def serve(self, daemon: Daemon) -> None:
        self.registry = Registry(daemon.url_of("registry"), TOKEN)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(20)

    def _run(self) -> None:
        while not self._over.wait(0.2):
            assert self.registry is not None
            running = self.cluster.tags()
            for node in set(self._slurmd_of) - running.keys():
                self.slurm.kill_node(self._slurmd_of.pop(node))
            rows = self.registry.rows() if running.keys() - self._slurmd_of.keys() else {}
            for node, record in running.items():
                row = rows.get(record, {})
                host = row.get("hostname") if row.get("first_ping_at") else None
                if node not in self._slurmd_of and host is not None:
                    self.slurm.start_node(host)
                    self._slurmd_of[node] = host


@contextmanager
def started(home: Path, slurm: SlurmCluster) -> Iterator[tuple[LocalCluster, Daemon]]:
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
    with closing(PromptCluster(home, options)) as cluster:
        daemon = cluster.start()
        machines = Machines(cluster, slurm)
        machines.serve(daemon)
        try:
            yield cluster, daemon
        finally:
            machines.end()


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[SlurmCluster]:
    """No node is up: none has a slurmd, and the controller knows it."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    with slurm_cluster(folder) as cluster:
        for node in cluster.nodes:
            cluster.kill_node(node)
            cluster.client("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=none")
        yield cluster


def submit(slurm: SlurmCluster, seconds: int) -> str:
    return slurm.submit("-x", LARGE, "-n", "4", seconds=seconds)


def is_now(slurm: SlurmCluster, job: str, state: str, daemon: Daemon) -> None:
    until(f"{job} {state}", lambda: slurm.job_state(job) == state, LATEST_S, told=daemon.told)


def test_a_waiting_job_boots_a_node_runs_on_it_and_the_node_drains_and_goes(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    with started(tmp_path / "live", slurm) as (cluster, daemon):
        daemon.wait_for("list.ok", source="scheduler")
        last = None
        for _ in range(2):
            job = submit(slurm, seconds=4)
            daemon.wait_for("node.created", after=last)
            is_now(slurm, job, "RUNNING", daemon)
            assert len(cluster.running()) == 1
            drained = daemon.wait_for("node.drain", after=last, action="drain", host="c1")
            assert slurm.job_state(job) == "COMPLETED"
            begun = daemon.wait_for("node.shutdown_started", after=drained)
            assert begun["reason"] == "idle_beyond_demand"
            daemon.wait_for("node.gone", after=begun)
            last = daemon.wait_for("record.cleaned", after=begun)
            assert "DOWN" in slurm.node_words("c1")
            assert "DRAIN" not in slurm.node_words("c1")
        assert not daemon.lines("node.shutdown_skipped")
        assert len(daemon.lines("node.created")) == 2


def test_work_is_never_hit_and_a_lost_controller_keeps_everything(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    with started(tmp_path / "live", slurm) as (cluster, daemon):
        long = submit(slurm, seconds=600)
        is_now(slurm, long, "RUNNING", daemon)
        second = submit(slurm, seconds=600)
        is_now(slurm, second, "RUNNING", daemon)
        nodes = cluster.pids()
        with slurm.controller_frozen():
            began = time.monotonic()
            until("an old word", lambda: time.monotonic() > began + 2 * FRESH_S, LATEST_S)
            assert len(daemon.lines("list.failed", source="scheduler")) > 2
            assert cluster.pids() == nodes
        # One job ends; its node alone is drained, and goes.
        slurm.client("scancel", second)
        daemon.wait_for("node.gone")
        assert slurm.job_state(long) == "RUNNING"
        assert len(cluster.running()) == 1
        assert len(daemon.lines("node.drain", action="drain")) == 1
        assert not daemon.lines("breaker.opened")


def test_a_drain_of_a_killed_daemon_is_taken_back_where_its_node_is_wanted(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    with started(tmp_path / "live", slurm) as (cluster, daemon):
        job = submit(slurm, seconds=2)
        daemon.wait_for("node.created")
        daemon.wait_for("node.paired")
        is_now(slurm, job, "COMPLETED", daemon)
        daemon.kill()
        if not cluster.running():
            pytest.skip("its node was gone before the kill")
        reason = "Reason=nodemanager: to be shut down"
        slurm.client("scontrol", "update", "NodeName=c1", "State=DRAIN", reason)
        again = submit(slurm, seconds=600)
        daemon = cluster.start()
        daemon.wait_for("node.drain", action="resume", host="c1")
        is_now(slurm, again, "RUNNING", daemon)
