"""A real Slurm whose queue has what the daemon can't serve, beside much that it can.

Every job gets its nodes, or its reason, within two polls.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.elastic import LATEST_S, is_now, started, told_of
from tests.live.harness import Daemon
from tests.schedulers.slurm_cluster import (
    SlurmCluster,
    free_ports_in_a_row,
    on_this_machine,
    slurm_cluster,
)
from tests.waiting import until

pytestmark = [
    pytest.mark.live,
    pytest.mark.server("slurm", "munge", "curl"),
    pytest.mark.timeout(400),
]

CORES, SLOTS = 16, 5
ODD = "tape+lib"
"""A generic resource whose name Slurm takes, and we don't."""
NODES = (
    f"NodeName=c[1-{SLOTS}] CPUs={CORES} RealMemory=4000 State=DOWN",
    f"NodeName=far CPUs=2 RealMemory=2000 Gres=gpu:2,{ODD}:1 State=DOWN",
    "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
)
POLLS = {"poll_time": 2, "max_poll_time": 2, "poll_stale_after": 20}
WIDE = {"instance_type": "large", "cores": CORES, "ram": 4000, "price": 0.1}


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[SlurmCluster]:
    """Nodes of 16 cores, none of which is up, and one that is no slot of ours."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    conf = on_this_machine(NODES, free_ports_in_a_row(SLOTS + 1))
    options = f"ReturnToService=2\nGresTypes=license,gpu,{ODD}\n"
    with slurm_cluster(folder, (), nodes_conf=options + conf) as cluster:
        yield cluster


def test_each_job_gets_its_nodes_or_its_reason_within_two_polls(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    unread = slurm.submit(f"--gres={ODD}:1")
    pinned = slurm.submit("-w", "far")
    gpu = slurm.submit("--gpus=1")
    plain = slurm.submit("--exclusive")
    tasks = slurm.submit("--array=1-40", "-n1")
    changes = {
        # Long enough for all that one poll brings; each poll is told.
        "Daemon": {"max_nodes": SLOTS, "node_stale_after": 60, **POLLS},
        "Logging": {"level": "DEBUG"},
        "Registry": {"slots": SLOTS, "hostname": "c%(slot_number)d"},
        "Size wide": WIDE,
    }
    with started(tmp_path / "live", slurm, changes) as (_, daemon):
        for job, reason, words in (
            (unread, "job_unreadable", "can't be read"),
            (pinned, "job_tied", "no boot is sure to bring far"),
            (gpu, "no_fitting_size", "gres=gpu:1"),
        ):
            line = daemon.wait_for("job.unsatisfiable", job=job, reason=reason)
            assert polls_before(line, daemon) <= 2
            until("its owner to be told", lambda job=job: told_of(slurm, job, "AdminComment"))
            assert words in slurm.client("scontrol", "show", "job", "-o", job)
        is_now(slurm, plain, "RUNNING", daemon)
        until("no task to wait", lambda: not waiting(slurm, tasks), LATEST_S, told=daemon.told)
        created = daemon.lines("node.created")
        # Two nodes of sixteen tasks each, one of eight, and one for the job that shares none.
        assert len(created) == 4
        assert all(polls_before(line, daemon) <= 2 for line in daemon.lines("record.claimed"))
        for job in (unread, pinned, gpu):
            assert slurm.job_state(job) == "PENDING"


def polls_before(line: dict[str, str], daemon: Daemon) -> int:
    polls = daemon.lines("list.ok", source="demand")
    return sum(one["ts"] <= line["ts"] for one in polls)


def waiting(slurm: SlurmCluster, array: str) -> list[str]:
    """The tasks that have no node; now and then a new slurmd loses the script of one that had."""
    return slurm.client("squeue", "-h", "-r", "-t", "PD", "-j", array, "-o", "%i").split()
