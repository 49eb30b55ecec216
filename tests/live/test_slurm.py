"""A real Slurm whose nodes come and go: a waiting job boots one, runs on it, it drains and goes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.live.elastic import (
    FRESH_S,
    LATEST_S,
    is_now,
    no_node_left,
    slurm,
    started,
    submit,
    told_of,
    told_of_node,
)
from tests.schedulers.slurm_cluster import LARGE, SlurmCluster
from tests.waiting import until

__all__ = ["slurm"]

pytestmark = [
    pytest.mark.live,
    pytest.mark.server("slurm", "munge", "curl"),
    pytest.mark.timeout(400),
]

AS_LARGE = ("rack1,instancetype=large", "160")
"""The features and the weight of a node of that size."""


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
            # The largest size is the one that fits; slurm.conf has the node for a small one.
            until("its size to be told", lambda: told_of_node(slurm, "c1") == AS_LARGE, LATEST_S)
            drained = daemon.wait_for("node.drain", after=last, action="drain", host="c1")
            assert slurm.job_state(job) == "COMPLETED"
            begun = daemon.wait_for("node.shutdown_started", after=drained)
            assert begun["reason"] == "idle_beyond_demand"
            daemon.wait_for("node.gone", after=begun)
            last = daemon.wait_for("record.cleaned", after=begun)
            # A dying slurmd may register once more, and Slurm believes it for SlurmdTimeout.
            until("it to be down", lambda: "DOWN" in slurm.node_words("c1"), LATEST_S)
            assert "DRAIN" not in slurm.node_words("c1")
        # A poll that comes right before the destroy holds it up until the next plan (D2).
        skipped = daemon.lines("node.shutdown_skipped")
        assert {one.get("detail") for one in skipped} <= {"news that no plan has weighed yet"}
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


def test_a_job_cancelled_while_its_node_boots_leaves_no_node(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    with started(tmp_path / "live", slurm) as (cluster, daemon):
        job = submit(slurm, seconds=600)
        created = daemon.wait_for("node.created")
        slurm.client("scancel", job)
        daemon.wait_for("record.cleaned", after=created)
        no_node_left(cluster, daemon)
        assert len(daemon.lines("node.created")) == 1
        assert "DRAIN" not in slurm.node_words("c1")


def test_a_job_that_no_size_can_run_is_told_why_and_cancelled_where_asked_for(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    slurm.client("scontrol", "update", f"NodeName={LARGE}", "State=DOWN", "Reason=none")
    cancels = {"Slurm": {"cancel_unsatisfiable": "yes"}}
    with started(tmp_path / "live", slurm, cancels) as (cluster, daemon):
        huge = slurm.submit("-n", "8", "-N", "1", seconds=600)
        daemon.wait_for("scheduler.told", action="comment", job=huge)
        comment = told_of(slurm, huge, "AdminComment")
        assert comment.startswith("nodemanager: no size of pool nodes has what it asks for")
        assert "cores=8" in comment
        is_now(slurm, huge, "CANCELLED", daemon)
        assert len(daemon.lines("scheduler.told", action="comment")) == 1
        assert not daemon.lines("node.created")
        assert not cluster.running()
