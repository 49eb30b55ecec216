"""What takes minutes on a real Slurm: lost nodes and controllers, a hundred jobs.

`make proof NAME=slurm` runs it.
"""

from __future__ import annotations

import os
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
)
from tests.schedulers.slurm_cluster import LARGE, SlurmCluster
from tests.waiting import until

__all__ = ["slurm"]

JOBS = int(os.environ.get("SLURM_JOBS", "100"))
pytestmark = [
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.server("slurm", "munge", "curl"),
    pytest.mark.timeout(900),
]


@pytest.mark.slurmd_timeout(15)
def test_a_node_killed_while_its_job_runs_is_cleaned_past_the_window_and_the_job_runs_again(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    # Slurm must give the job up before the record is free, so that it runs on the other node: it
    # notices a dead node up to a few pings after SlurmdTimeout.
    window = 45
    with started(tmp_path / "live", slurm, {"Daemon": {"node_stale_after": window}}) as (
        cluster,
        daemon,
    ):
        job = slurm.submit("-x", LARGE, "-n", "4", "--requeue", seconds=600)
        is_now(slurm, job, "RUNNING", daemon)
        host = told_of(slurm, job, "NodeList")
        (node,) = cluster.running()
        cluster.kill_node(node)
        is_now(slurm, job, "PENDING", daemon)
        # Slurm lets it wait for two minutes; an operator need not.
        slurm.client("scontrol", "update", f"JobId={job}", "StartTime=now")
        is_now(slurm, job, "RUNNING", daemon)
        assert told_of(slurm, job, "Restarts") == "1"
        assert daemon.wait_for("record.cleaned", host=host)
        # Its last ping may be older than the kill.
        (ordered,) = daemon.lines("record.clean", host=host)
        assert float(ordered["idle_s"]) >= float(ordered["window_s"]) == window
        until("not drained", lambda: "DRAIN" not in slurm.node_words(host), LATEST_S)
        # The node of that name is usable: the next machine comes up under it.
        other = submit(slurm, seconds=600)
        is_now(slurm, other, "RUNNING", daemon)
        hosts = {told_of(slurm, one, "NodeList") for one in (job, other)}
        assert hosts == set(slurm.nodes)
        assert not daemon.lines("record.false_clean")


def test_a_controller_that_is_lost_and_restarted_loses_no_job_and_no_node(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    with started(tmp_path / "live", slurm) as (cluster, daemon):
        job = submit(slurm, seconds=600)
        is_now(slurm, job, "RUNNING", daemon)
        nodes = cluster.pids()
        slurm.stop_controller()
        began = time.monotonic()
        until("a long loss", lambda: time.monotonic() > began + 2 * FRESH_S, LATEST_S)
        assert len(daemon.lines("list.failed", source="scheduler")) > 2
        slurm.start_controller()
        daemon.wait_for("list.ok", source="scheduler", after=daemon.lines("list.failed")[-1])
        assert slurm.job_state(job) == "RUNNING"
        assert cluster.pids() == nodes
        second = submit(slurm, seconds=2)
        is_now(slurm, second, "COMPLETED", daemon)
        assert slurm.job_state(job) == "RUNNING"
        assert set(nodes.items()) <= set(cluster.pids().items())
        slurm.client("scancel", job)
        no_node_left(cluster, daemon)
        assert not daemon.lines("breaker.opened")


def test_the_most_urgent_job_runs_first(tmp_path: Path, slurm: SlurmCluster) -> None:
    with started(tmp_path / "live", slurm, {"Daemon": {"max_nodes": 1}}) as (_, daemon):
        jobs = [
            slurm.submit("-x", LARGE, "-n", "4", f"--priority={priority}", seconds=2)
            for priority in (10, 30, 20)
        ]
        for job in jobs:
            is_now(slurm, job, "COMPLETED", daemon)
        began = [told_of(slurm, job, "StartTime") for job in jobs]
        assert sorted(jobs, key=lambda job: began[jobs.index(job)]) == [jobs[1], jobs[2], jobs[0]]
        assert len(daemon.lines("node.created")) == 1


def test_a_hundred_short_jobs_all_run_once_and_no_busy_node_is_destroyed(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    with started(tmp_path / "live", slurm) as (cluster, daemon):
        jobs = []
        began = time.monotonic()
        for number in range(JOBS):
            jobs.append(submit(slurm, seconds=1 + number % 3))
            if number % 10 == 9:
                # In waves, so that nodes fall idle and are wanted again.
                done = jobs[-1]
                until("the wave", lambda done=done: over(slurm, done), 300, told=daemon.told)
                time.sleep(3 * (number % 4))
        until("all", lambda: all(over(slurm, job) for job in jobs), 300, told=daemon.told)
        states = {job: slurm.job_state(job) for job in jobs}
        assert set(states.values()) == {"COMPLETED"}, states
        assert {told_of(slurm, job, "Restarts") for job in jobs} == {"0"}
        print(f"{JOBS} jobs in {time.monotonic() - began:.0f} s")
        no_node_left(cluster, daemon)
        reasons = {line["reason"] for line in daemon.lines("node.shutdown_started")}
        assert reasons == {"idle_beyond_demand"}


def over(slurm: SlurmCluster, job: str) -> bool:
    return slurm.job_state(job) not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
