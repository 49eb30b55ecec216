"""A real Slurm that powers its CLOUD nodes up and down, each with a record of ours.

The nodes are processes of the local cloud; each starts a slurmd of its record's name.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.cluster import Sections
from tests.live.elastic import PromptCluster, told_of
from tests.live.harness import PING_SCRIPT, TREE, Daemon
from tests.records.slurm_store import CloudSlurm, cloud_slurm
from tests.waiting import until

pytestmark = [
    pytest.mark.live,
    pytest.mark.slurm,
    pytest.mark.server("slurm", "munge"),
    pytest.mark.timeout(400),
]

LATEST_S = 60.0
PROGRAM = """\
#!/bin/sh
cd {tree} && STATE_DIRECTORY={state} exec {python} -m nodemanager slurm-{which} -c {config} "$1"
"""
NODE = """\
#!/bin/sh
# A machine that starts the slurmd its user data name, and never pings.
for word; do
    [ "$before" = --state-directory ] && home=$word
    [ "$before" = --url-file ] && told=$word
    before=$word
done
[ -e "$home/slurmd" ] && exit
: >"$home/slurmd"
name=$(cat "$told")
rm -rf {folder}/spool-"$name"
/usr/sbin/slurmd -D -b -N "$name" -f {conf} >"$home/slurmd.out" 2>&1 </dev/null &
"""


class Cluster(PromptCluster):
    patience_s = LATEST_S


@pytest.fixture
def slurm(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CloudSlurm]:
    folder = tmp_path / "slurm"
    folder.mkdir()
    programs = {}
    for which in ("resume", "suspend"):
        programs[which] = tmp_path / which
        text = PROGRAM.format(
            tree=TREE,
            state=tmp_path / "live/state",
            python=sys.executable,
            which=which,
            config=tmp_path / "live/live.cfg",
        )
        programs[which].write_text(text, encoding="utf-8")
        programs[which].chmod(0o755)
    given = {which: str(path) for which, path in programs.items()}
    asked = getattr(request, "param", {"suspend_time": 4})
    with cloud_slurm(folder, **given, resume_timeout=40, **asked) as slurm:
        yield slurm


@pytest.fixture
def cluster(tmp_path: Path, slurm: CloudSlurm) -> Iterator[Cluster]:
    assert PING_SCRIPT.is_file()
    script = tmp_path / "node"
    script.write_text(
        NODE.format(folder=slurm.cluster.folder, conf=slurm.cluster.conf), encoding="utf-8"
    )
    options: Sections = {
        "Daemon": {
            "dispatcher": "slurm",
            "max_nodes": 3,
            "poll_stale_after": 8,
            "node_stale_after": 10,
        },
        "Records": {"provider": "slurm"},
        "Registry": {"listen": None, "token": None},
        "Slurm": {"conf": slurm.cluster.conf, "timeout": 2},
        "Cloud Create": {"ping_script": script},
        "Size small": {"cores": 1, "ram": 500, "price": 0.01},
        "Size large": {"instance_type": "medium", "cores": 2, "ram": 900, "price": 0.04},
    }
    with closing(Cluster(tmp_path / "live", options)) as cluster:
        yield cluster


def is_now(slurm: CloudSlurm, job: str, state: str, daemon: Daemon) -> None:
    runs = slurm.cluster.job_state
    until(f"{job} {state}", lambda: runs(job) == state, LATEST_S, told=daemon.told)


def test_a_job_boots_its_node_which_is_lost_cleaned_and_used_again(
    slurm: CloudSlurm, cluster: Cluster
):
    daemon = cluster.start()
    daemon.wait_for("list.ok", source="scheduler")
    job = slurm.cluster.submit("-w", "small-2", seconds=600)
    created = daemon.wait_for("node.created", host="small-2")
    is_now(slurm, job, "RUNNING", daemon)
    daemon.wait_for("node.paired", host="small-2")
    assert len(cluster.running()) == 1

    cluster.kill_node(created["node"])
    slurm.cluster._kill_jobs("SLURMD_NODENAME=small-2")
    cleaned = daemon.wait_for("record.cleaned", after=created, host="small-2")
    # Slurm takes a node for alive for SlurmdTimeout: the cloud denied it that long (P6), or not.
    assert cleaned["reason"] in ("stale_slot", "pinger_denied")
    assert cleaned["guarantee"] == "cas"
    until("power off", lambda: slurm.is_off("small-2"), told=daemon.told)

    slurm.cluster.client("scancel", job)
    again = slurm.cluster.submit("-w", "small-2", seconds=600)
    daemon.wait_for("node.created", after=cleaned, host="small-2")
    is_now(slurm, again, "RUNNING", daemon)


def test_slurm_powers_a_node_up_for_a_job_and_down_when_it_is_idle(
    slurm: CloudSlurm, cluster: Cluster
):
    # By then Slurm has suspended the node.
    cluster.change({"Daemon": {"consecutive_idle_count": 20}})
    daemon = cluster.start()
    daemon.wait_for("list.ok", source="scheduler")
    job = slurm.cluster.submit("-C", "instancetype=large", seconds=2)
    daemon.wait_for("scheduler.power", action="resume", host="large-1")
    daemon.wait_for("node.created", host="large-1", size="large")
    is_now(slurm, job, "COMPLETED", daemon)
    daemon.wait_for("scheduler.power", action="suspend", host="large-1")
    # A poll may see what Slurm does before its program has told of it.
    begun = daemon.wait_for("node.shutdown_started", host="large-1")
    assert begun["reason"] == "suspended"
    daemon.wait_for("record.cleaned", after=begun, reason="after_shutdown", host="large-1")
    until("power off", lambda: slurm.is_off("large-1"), told=daemon.told)
    assert not cluster.running()
    assert len(daemon.lines("node.created")) == 1


@pytest.mark.parametrize("slurm", [{"suspend_time": 600}], indirect=True)
def test_a_node_that_is_taken_out_of_its_partition_goes_when_its_job_has_ended(
    slurm: CloudSlurm, cluster: Cluster
):
    cluster.change({"Daemon": {"boot_fail_after": 20}})
    daemon = cluster.start()
    daemon.wait_for("list.ok", source="scheduler")
    job = slurm.cluster.submit("-w", "small-2", seconds=45)
    is_now(slurm, job, "RUNNING", daemon)
    daemon.wait_for("node.paired", host="small-2")
    slurm.cluster.client("scontrol", "update", "PartitionName=elastic", "Nodes=small-1,large-1")
    is_now(slurm, job, "COMPLETED", daemon)
    gone = daemon.wait_for("node.gone", host="small-2")
    assert gone["reason"] not in ("unpaired", "boot_failed", "down")
    daemon.wait_for("record.cleaned", reason="after_shutdown", host="small-2")
    assert restarts(slurm, job) == "0"


def knows(slurm: CloudSlurm, name: str) -> bool:
    """Whether that node's slurmd has registered since slurmctld was started."""
    return slurm.start_of(name) != "None"


def restarts(slurm: CloudSlurm, job: str) -> str:
    return told_of(slurm.cluster, job, "Restarts")


def is_heard(cluster: Cluster, name: str) -> bool:
    """Whether that node's record has a sign of life."""
    with closing(sqlite3.connect(cluster.state / "registry.db")) as database:
        asked = database.execute("SELECT first_ping_at FROM nodes WHERE hostname = ?", (name,))
        return any(first is not None for (first,) in asked)


def began(slurm: CloudSlurm, job: str) -> bool:
    """Whether it runs, or was queued again: then its turn is now, not only in two minutes."""
    if slurm.cluster.job_reason(job) != "BeginTime":
        return slurm.cluster.job_state(job) == "RUNNING"
    slurm.cluster.client("scontrol", "update", f"JobId={job}", "StartTime=now")
    return True


def given_up(slurm: CloudSlurm) -> set[str]:
    """The nodes whose machine Slurm gave up, as it had not heard of it within ResumeTimeout."""
    log = (slurm.cluster.folder / "slurmctld.log").read_text(encoding="utf-8")
    return set(re.findall(r"node (\S+) not resumed by ResumeTimeout", log))


@pytest.mark.parametrize("slurm", [{"suspend_time": 600}], indirect=True)
def test_a_slurmctld_that_is_killed_and_restarted_costs_no_job_and_no_machine(
    slurm: CloudSlurm, cluster: Cluster
):
    """But for a machine that slurmctld forgot: it waits for that, and gives it up by itself."""
    # Longer than slurmctld takes to save that it powers the node up, and for which job.
    cluster.change({"Daemon": {"consecutive_idle_count": 200}, "Cloud Create": {"boot_delay": 8}})
    daemon = cluster.start()
    daemon.wait_for("list.ok", source="scheduler")
    jobs = {}
    for name in ("small-1", "small-2", "large-1"):
        jobs[name] = slurm.cluster.submit("-w", name, seconds=100)
        until("power up", lambda name=name: "POWERING_UP" in slurm.words(name), told=daemon.told)
        slurm.cluster.until_saved(name, jobs.values())
        until("a sign", lambda name=name: is_heard(cluster, name), LATEST_S, told=daemon.told)
        controller = slurm.cluster.controller
        assert controller is not None
        controller.kill()
        controller.wait(20)
        slurm.cluster.start_controller()
    for job in jobs.values():
        until(f"{job} to have begun, or again", lambda job=job: began(slurm, job), LATEST_S)
        is_now(slurm, job, "RUNNING", daemon)
    ended = daemon.lines("node.shutdown_started")
    assert {one["host"] for one in ended} <= given_up(slurm)
    assert {one["reason"] for one in ended} <= {"suspended"}
    machines, created = set(cluster.running()), len(daemon.lines("node.created"))
    assert len(machines) == len(jobs) == created - len(ended)
    before = {job: restarts(slurm, job) for job in jobs.values()}
    for _ in range(10):
        slurm.cluster.stop_controller()
        slurm.cluster.start_controller()
        until("slurmds", lambda: all(knows(slurm, name) for name in jobs), told=daemon.told)
    for job in jobs.values():
        is_now(slurm, job, "COMPLETED", daemon)
    assert set(cluster.running()) == machines
    assert len(daemon.lines("node.created")) == created
    assert daemon.lines("node.shutdown_started") == ended
    assert {job: restarts(slurm, job) for job in jobs.values()} == before


@pytest.mark.parametrize("slurm", [{"suspend_time": 600, "small": 11}], indirect=True)
def test_while_all_nodes_are_reserved_for_maintenance_none_is_booted(
    slurm: CloudSlurm, cluster: Cluster
):
    until_later = ("starttime=now", "duration=60", "user=root", "flags=maint", "nodes=ALL")
    slurm.cluster.client("scontrol", "create", "reservation=repair", *until_later)
    # slurmctld marks them when it next looks at its reservations; a job could come until then.
    names = [*(f"small-{number}" for number in range(1, 12)), "large-1"]
    until("the repair", lambda: all("RESERVED" in slurm.words(name) for name in names))
    cluster.change({"Daemon": {"min_nodes": 2, "max_nodes": 12}})
    daemon = cluster.start()
    daemon.wait_for("node.boot_refused", reason="no_free_slot")
    # One a minute while nothing is done, with hundreds of plans in between.
    daemon.wait_for("cycle.done", count=2, within=2 * LATEST_S)
    assert not daemon.lines("node.created")
    assert not daemon.lines("scheduler.told", action="power_up")
    slurm.cluster.client("scontrol", "delete", "ReservationName=repair")
    daemon.wait_for("node.paired")
    until("two nodes", lambda: len(cluster.running()) == 2, LATEST_S, told=daemon.told)
    assert len(daemon.lines("scheduler.told", action="power_up")) == 2
