"""The Slurm adapter on recorded and on broken answers, and on stand-ins for Slurm's programs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.app.check import check
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Job, Shape, WorkerState
from nodemanager.errors import SchedulerError, SchedulerRefused
from nodemanager.lib import program
from nodemanager.schedulers.slurm import cluster, jobs, json_output, rows, text
from nodemanager.schedulers.slurm.adapter import AnswerFormat, SlurmScheduler
from nodemanager.schedulers.slurm.cluster import Cluster, names_of
from tests.cases import cases

RECORDED = Path(__file__).with_name("recorded")
ALL: frozenset[str] = frozenset()


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def changed(name: str, key: str, change: Callable[[dict[str, Any]], Any]) -> str:
    """The recorded JSON, with `change` done to each item of `key`."""
    answer = json.loads(recorded(name))
    for item in answer[key]:
        change(item)
    return json.dumps(answer)


def test_recorded_nodes_are_told_alike_as_json_and_as_text() -> None:
    listed = rows.listing(text.nodes(recorded("sinfo.txt")))
    as_json = rows.listing(json_output.nodes(recorded("sinfo.json")))
    assert listed.complete
    assert as_json.complete
    # In the words alone they differ: c2 is `mixed` in one, `allocated` in the other.
    assert [replace(node, said="") for node in as_json.items] == [
        replace(node, said="") for node in listed.items
    ]
    assert [(node.name, node.state, node.draining, node.reason) for node in listed.items] == [
        ("c1", "busy", False, ""),
        ("c2", "busy", True, "a new disk, soon"),
        ("c3", "idle", True, "nodemanager: idle"),
        ("c4", "down", False, "gone"),
        ("cloud1", "down", False, ""),
    ]


def test_recorded_jobs_are_told_alike_as_json_and_as_text() -> None:
    known = Cluster(most_cores=8)
    told = jobs.queue(text.jobs(recorded("squeue.txt")), known)
    assert jobs.queue(json_output.jobs(recorded("squeue.json"), ALL), known) == told
    assert told == (
        Job("3", cores=2, ram_mb=3000, instance_type="small", features=(("rack1",),)),
        Job("4", cores=4, ram_mb=2048, scratch_mb=500, count=2),
        *(Job(f"5_{task}", ram_mb=10, array="5") for task in (1, 2, 3, 7)),
    )


def test_a_state_may_be_a_list_with_its_flags() -> None:
    def as_list(item: dict[str, Any]) -> None:
        item["state"] = [item["state"].upper(), *item.pop("state_flags")]

    later = json_output.nodes(changed("sinfo.json", "nodes", as_list))
    assert later == json_output.nodes(recorded("sinfo.json"))


@pytest.mark.parametrize("name", ["sinfo-controller-down.json", "squeue-controller-down.json"])
def test_an_empty_list_beside_an_error_is_a_failed_poll(name: str) -> None:
    """L1: Slurm 22.05 exits with 0 there."""
    with pytest.raises(SchedulerError, match="Unspecified error"):
        json_output.nodes(recorded(name))
    with pytest.raises(SchedulerError, match="Unspecified error"):
        json_output.jobs(recorded(name), ALL)


@pytest.mark.parametrize("name", ["sinfo.json", "squeue.json"])
def test_json_that_was_cut_off_is_a_failed_poll(name: str) -> None:
    for share in (0, 0.3, 0.99):
        whole = recorded(name).rstrip()
        with pytest.raises(SchedulerError, match="is no JSON"):
            json_output.nodes(whole[: int(len(whole) * share)])


@pytest.mark.parametrize(
    ("key", "value"),
    [("state", None), ("weight", "5"), ("weight", True), ("cpus", ...), ("features", 5)],
)
def test_of_a_node_that_cant_be_read_only_its_name_is_known_and_no_other_suffers(
    key: str, value: object
) -> None:
    def spoil(item: dict[str, Any]) -> None:
        if item["name"] == "c3":
            if value is ...:
                del item[key]
            else:
                item[key] = value

    listed = rows.listing(json_output.nodes(changed("sinfo.json", "nodes", spoil)))
    before = rows.listing(json_output.nodes(recorded("sinfo.json")))
    assert listed.complete
    nodes = {node.name: node for node in listed.items}
    assert nodes.pop("c3") == SchedulerNode("c3", WorkerState.UNKNOWN)
    assert nodes == {node.name: node for node in before.items if node.name != "c3"}
    (told,) = listed.problems
    assert told.startswith("node c3: ")


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_node_without_a_name_is_never_left_out(name: object) -> None:
    """L1: it may be any node, so that the list would lack one."""

    def spoil(item: dict[str, Any]) -> None:
        if item["name"] == "c3":
            item["name"] = name

    with pytest.raises(json_output.OtherForm):
        json_output.nodes(changed("sinfo.json", "nodes", spoil))


def test_nodes_that_all_have_another_form_are_asked_for_as_text() -> None:
    with pytest.raises(json_output.OtherForm, match="no node that can be read"):
        json_output.nodes(changed("sinfo.json", "nodes", lambda item: item.pop("cpus")))


def test_as_text_a_node_with_a_separator_in_its_reason_concerns_no_other() -> None:
    told = recorded("sinfo.txt").replace("a new disk, soon", "a\x1fnew disk")
    listed = rows.listing(text.nodes(told))
    assert listed.complete
    assert len(listed.items) == 5
    (problem,) = listed.problems
    assert problem.startswith("node c2: ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, {"odd": 1}) for key in ("priority", "cpus", "state_reason", "features")),
        ("tres_per_node", "gres:gpu:a:b:c"),
        ("features", "(rack1"),
        ("array_task_string", "1-x"),
        ("required_nodes", "c[1"),
        ("excluded_nodes", "c[1-99999999]"),
    ],
)
def test_a_job_that_cant_be_read_is_told_by_its_id_and_spoils_no_other(
    key: str, value: object
) -> None:
    def spoil(item: dict[str, Any]) -> None:
        if item["job_id"] == 4:
            item[key] = value

    read = json_output.jobs(changed("squeue.json", "jobs", spoil), ALL)
    before = jobs.queue(json_output.jobs(recorded("squeue.json"), ALL), Cluster())
    told = {job.id: job for job in jobs.queue(read, Cluster())}
    unread = told.pop("4")
    assert unread.unserved is not None
    assert unread.unserved.reason is Reason.JOB_UNREADABLE
    assert 0 < len(unread.unserved.detail) <= jobs.SHOWN
    assert told == {job.id: job for job in before if job.id != "4"}


@pytest.mark.parametrize("key", ["job_state", "job_id"])
def test_a_job_that_cant_be_told_from_others_is_never_left_out(key: str) -> None:
    def spoil(item: dict[str, Any]) -> None:
        if item["job_id"] == 4:
            item[key] = {"odd": 1}

    with pytest.raises(json_output.OtherForm):
        json_output.jobs(changed("squeue.json", "jobs", spoil), ALL)


def test_jobs_that_all_have_another_form_are_asked_for_as_text() -> None:
    with pytest.raises(json_output.OtherForm, match="no job that can be read"):
        json_output.jobs(changed("squeue.json", "jobs", lambda item: item.pop("priority")), ALL)


def test_as_text_too_a_job_that_cant_be_read_spoils_no_other() -> None:
    told = recorded("squeue.txt").replace("\x1f500M", "\x1f500Q")
    told = told.replace("\x1fPriority\x1f", "\x1fPri\x1fo")
    found = {job.id: job for job in jobs.queue(text.jobs(told), Cluster())}
    assert {id for id, job in found.items() if job.unserved is not None} == {"4", "5"}
    assert found["3"].cores == 2


@cases(
    "spoil",
    {
        "cut-off": lambda whole: whole[:-20],
        "a-field-too-few": lambda whole: whole.replace("c3\x1f", "c3", 1),
        "no-name": lambda whole: whole.replace("c3\x1f", "c 3\x1f", 1),
        "title": lambda whole: "CLUSTER: elsewhere\n" + whole + "CLUSTER: other",
    },
)
def test_text_that_is_not_as_asked_for_is_never_read_in_part(spoil: Callable[[str], str]) -> None:
    with pytest.raises(ValueError):
        text.nodes(spoil(recorded("sinfo.txt")))


@given(st.text(max_size=300))
def test_no_text_does_more_than_fail_the_poll(anything: str) -> None:
    for read in (text.nodes, text.jobs):
        with contextlib.suppress(ValueError):
            assert read(anything) == [] or "\x1e" in anything


def test_of_a_node_that_is_told_in_two_ways_only_its_name_is_known() -> None:
    one, two, *_ = text.nodes(recorded("sinfo.txt").replace("c1\x1fallocated", "c1\x1fidle", 1))
    assert one.name == two.name == "c1"
    listed = rows.listing([one, two])
    assert listed.complete
    assert listed.items == (SchedulerNode("c1", WorkerState.UNKNOWN),)
    assert listed.problems == ("node c1: it is told in two ways",)


@pytest.mark.parametrize(
    ("reason", "priority", "waits"),
    [
        *((reason, 5, True) for reason in ("None", "Resources", "Priority", "BadConstraints")),
        ("ReqNodeNotAvail, UnavailableNodes:c[1-2]", 5, True),
        ("ReqNodeNotAvail,_UnavailableNodes:c1", 5, True),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher ...", 5, True),
        ("ReqNodeNotAvail, Reserved for maintenance", 5, False),
        ("ReqNodeNotAvail,_Reserved_for_maintenance", 5, False),
        ("Resources", 0, False),
        *((reason, 5, False) for reason in ("Dependency", "BeginTime", "JobHeldUser", "Licenses")),
        *((reason, 5, False) for reason in ("QOSMaxCpuPerUserLimit", "JobArrayTaskLimit", "")),
        ("PartitionDown", 5, False),
        ("Constraints", 5, True),
    ],
)
def test_which_reasons_are_demand(reason: str, priority: int, waits: bool) -> None:
    row = rows.JobRow("1", 1, reason, priority)
    assert row.waits_for_nodes is waits
    assert len(jobs.queue([row], Cluster())) == waits


@pytest.mark.parametrize("reason", ["PartitionNodeLimit", "PartitionConfig"])
def test_a_job_that_its_partition_never_lets_run_is_told_and_boots_nothing_u12(
    reason: str,
) -> None:
    (job,) = jobs.queue([rows.JobRow("1", 1, reason, 5, nodes=9)], Cluster())
    assert (job.id, job.count) == ("1", 9)
    assert job.unserved is not None
    assert job.unserved.reason is Reason.PARTITION_LIMIT
    assert reason in job.unserved.detail
    assert jobs.queue([rows.JobRow("1", 1, reason, 0)], Cluster()) == ()


@pytest.mark.parametrize(
    ("told", "tasks"),
    [
        ("3", [3]),
        ("1-5", [1, 2, 3, 4, 5]),
        ("1-10:4,20", [1, 5, 9, 20]),
        ("0-99%3", [0, 1, 2]),
        ("1-3,...", [1, 2, 3]),
        ("1-3,5-...", [1, 2, 3]),
    ],
)
def test_the_tasks_of_an_array(told: str, tasks: list[int]) -> None:
    assert jobs.tasks_of(told) == tasks


def test_an_endless_array_is_read_in_limited_time() -> None:
    assert len(jobs.tasks_of("0-4000000")) == jobs.MAX_TASKS
    assert len(jobs.tasks_of(",".join(["0-4000000"] * 1000))) == jobs.MAX_TASKS


@pytest.mark.parametrize("told", ["", "a", "1-", "1,,2", "5%x"])
def test_what_is_no_list_of_tasks_fails_the_poll(told: str) -> None:
    with pytest.raises(ValueError):
        jobs.tasks_of(told)


@pytest.mark.parametrize(
    ("told", "megabytes"),
    [
        ("0", 0),
        ("10M", 10),
        ("1G", 1024),
        ("1.5G", 1536),
        ("1500K", 2),
        ("2T", 2 * 1024**2),
        ("7", 7),
    ],
)
def test_memory_in_every_unit(told: str, megabytes: int) -> None:
    assert text.megabytes(told) == megabytes


# What jobs ask for: recorded in both ways on the cluster of recorded/README.rst.


def asked() -> dict[str, Job]:
    """The recorded jobs by what they were submitted with, which both ways tell alike."""
    known = cluster.cluster_of(
        recorded("asks-config.txt"),
        recorded("asks-partitions.txt"),
        text.nodes(recorded("asks-sinfo.txt")),
    )
    as_text = text.excluding(text.jobs(recorded("asks-squeue.txt")), recorded("asks-excluded.txt"))
    told = jobs.queue(as_text, known)
    assert jobs.queue(json_output.jobs(recorded("asks-squeue.json"), ALL), known) == told
    lines = recorded("asks.txt").splitlines()
    return {lines[int(job.array or job.id) - 1]: job for job in reversed(told)}


@pytest.mark.parametrize(
    ("options", "job"),
    [
        ("-N2-4", Job("", count=2, ram_mb=10)),
        ("-n6", Job("", cores=6, ram_mb=60)),
        ("--gpus=2", Job("", ram_mb=10, gres=(("gpu", 2),))),
        ("--gpus=tesla:1", Job("", ram_mb=10, gres=(("gpu", 1), ("gpu:tesla", 1)))),
        ("--gpus-per-task=1 -n2", Job("", cores=2, ram_mb=20, gres=(("gpu", 2),))),
        ("--gpus-per-socket=1 --sockets-per-node=1", Job("", ram_mb=10, gres=(("gpu", 1),))),
        ("--gpus-per-node=2", Job("", ram_mb=10, gres=(("gpu", 2),))),
        ("--gres=nv-link:2", Job("", ram_mb=10, gres=(("nv-link", 2),))),
        ("--gres=lustre:2T", Job("", ram_mb=10, gres=(("lustre", 2 << 40),))),
        ("--mem-per-gpu=500 --gpus=1", Job("", ram_mb=500, gres=(("gpu", 1),))),
        ("--cpus-per-gpu=2 --gpus=2", Job("", cores=4, ram_mb=40, gres=(("gpu", 2),))),
        ("-w c[1-2]", Job("", count=2, ram_mb=10, on=("c1", "c2"))),
        ("-x c1", Job("", ram_mb=10, not_on=("c1",))),
        ("--exclusive", Job("", ram_mb=10, shares=False)),
        ("-p excl", Job("", ram_mb=10, shares=False)),
        ("-p main,excl", Job("", ram_mb=10, shares=False)),
        ("--exclusive=user", Job("", ram_mb=10, shares=False)),
        ("--mem=0", Job("", shares=False)),
        ("--ntasks-per-node=2 -n6", Job("", cores=2, ram_mb=20, count=3)),
        ("-c 3 -n 4", Job("", cores=12, ram_mb=120)),
        ("-C rack1|rack2", Job("", ram_mb=10, features=(("rack1",), ("rack2",)))),
        ("--tmp=500", Job("", ram_mb=10, scratch_mb=500)),
        ("-n20", Job("", cores=20, ram_mb=200, shapes=(Shape(2, 10, 100),))),
    ],
)
def test_what_a_job_asks_for_is_read_whole(options: str, job: Job) -> None:
    told = asked()[options]
    never = ("--mem=0", "--exclusive", "--exclusive=user")
    shares = options not in never and "excl" not in options
    assert told == replace(job, id=told.id, shares=shares)


@pytest.mark.parametrize(
    ("options", "reason", "detail"),
    [
        ("--contiguous -N2", Reason.JOB_TIED, "contiguous"),
        ("-C rack1*1&rack2*1 -N2", Reason.JOB_TIED, "several kinds"),
        ("-p lim -N2", Reason.PARTITION_LIMIT, "PartitionNodeLimit"),
    ],
)
def test_what_no_boot_can_serve_is_told(options: str, reason: Reason, detail: str) -> None:
    unserved = asked()[options].unserved
    assert unserved is not None
    assert unserved.reason is reason
    assert detail in unserved.detail


def test_a_job_in_a_reservation_is_told_d16() -> None:
    (job,) = jobs.queue([rows.JobRow("1", 1, "Resources", 5, reservation="mine")], Cluster())
    assert job.unserved is not None
    assert job.unserved.reason is Reason.JOB_TIED
    assert "reservation mine" in job.unserved.detail


def of_23_11(item: dict[str, Any]) -> None:
    """The form of data_parser v0.0.40: numbers with marks, lists of words, gres/ and tasks set."""
    for key, value in item.items():
        if key in ("job_state", "shared"):
            item[key] = [] if value is None else [value]
        elif key.startswith(("tres_per", "cpus_per_tres", "memory_per_tres")):
            item[key] = value.replace("gres:", "gres/")
        elif key != "job_id" and (value is None or type(value) is int):
            item[key] = {"set": value is not None, "infinite": False, "number": value or 0}


@pytest.mark.parametrize("name", ["squeue.json", "asks-squeue.json"])
def test_all_that_is_asked_for_means_the_same_in_later_versions(name: str) -> None:
    before = json_output.jobs(recorded(name), ALL)
    later = json_output.jobs(changed(name, "jobs", of_23_11), ALL)
    assert str(later).replace("gres/", "gres:") == str(before)
    known = Cluster(partitions=frozenset({"main", "lim"}), most_cores=16)
    assert jobs.queue(later, known) == jobs.queue(before, known)


def test_many_tasks_are_spread_as_whole_tasks() -> None:
    row = rows.JobRow("1", 1, "Resources", 5, nodes=4, cpus=12, cpus_per_task=3, least_nodes=1)
    (job,) = jobs.queue([row], Cluster())
    assert [(one.count, one.cores) for one in (job, *job.shapes)] == [(1, 12), (2, 6), (4, 3)]


def test_a_core_goes_to_one_job_with_all_its_threads() -> None:
    by_core = Cluster(by_core=True, threads=2)
    (one,) = jobs.queue([rows.JobRow("1", 1, "Resources", 5, cpus=3)], by_core)
    assert one.cores == 4
    (other,) = jobs.queue([rows.JobRow("1", 1, "Resources", 5, cpus=3, per_core=1)], by_core)
    assert other.cores == 6
    by_cpu = replace(by_core, by_core=False)
    (third,) = jobs.queue([rows.JobRow("1", 1, "Resources", 5, cpus=3)], by_cpu)
    assert third.cores == 3


@pytest.mark.parametrize(
    ("config", "partition", "shares"),
    [
        ("SelectType = select/cons_tres\nSelectTypeParameters = CR_CORE_MEMORY", "", True),
        ("SelectType = select/cons_res\nSelectTypeParameters = CR_CPU", "", True),
        ("SelectType = select/linear\nSelectTypeParameters = CR_MEMORY", "", False),
        ("SelectType = select/cons_tres\nSelectTypeParameters = CR_SOCKET_MEMORY", "", False),
        ("", "", False),
        ("SelectType = select/cons_tres", "OverSubscribe=EXCLUSIVE", False),
        ("SelectType = select/cons_tres", "ExclusiveUser=YES", False),
        ("SelectType = select/cons_tres", "LLN=YES", False),
        ("SelectType = select/cons_tres", "MaxCPUsPerNode=4", False),
        ("SelectType = select/cons_tres", "SelectTypeParameters=CR_SOCKET", False),
    ],
)
def test_whether_jobs_share_nodes_is_read_from_slurms_own_configuration(
    config: str, partition: str, shares: bool
) -> None:
    line = f"PartitionName=main OverSubscribe=NO MaxCPUsPerNode=UNLIMITED LLN=NO {partition}"
    known = cluster.cluster_of(config, line, ())
    assert known.shares(("main",)) is shares
    assert not known.shares(("main", "other"))
    assert not known.shares(("other",))


@cases(
    ("partitions", "most", "names"),
    {
        "hidden-ones-too": ("Nodes=c[1-2]", "", {"c1", "c2", "shown"}),
        "as-many-as-there-can-be": ("Nodes=c[1-2]", "3", {"c1", "c2", "shown"}),
        "none-in-one": ("Nodes=c1\nNodes=(null)", "", {"c1", "shown"}),
        "others-may-register": ("Nodes=c[1-2]", "4", None),
        "not-read": ("Nodes=c[1-", "", None),
    },
)
def test_the_names_that_slurms_nodes_can_have(
    partitions: str, most: str, names: set[str] | None
) -> None:
    """sinfo hides nodes that are powered down; dynamic nodes bring their own names."""
    shown = rows.SinfoNode("shown", frozenset({"idle"}), "", (), 1, 1)
    known = cluster.cluster_of(f"MaxNodeCount = {most}", partitions, [shown])
    assert known.names == names


NAMED = """case "$*" in
*config) echo "MaxNodeCount = 5";;
*) echo "PartitionName=main Nodes=c[1-4],cloud1";;
esac"""


def test_the_listing_has_all_names_until_a_node_of_another_one_comes(
    slurm_says: Callable[[str, str], Path],
) -> None:
    slurm_says("sinfo", f"cat {RECORDED}/sinfo.json")
    calls = slurm_says("scontrol", NAMED)
    scheduler = SlurmScheduler(10.0)
    assert scheduler.nodes().names == {"c1", "c2", "c3", "c4", "cloud1"}
    assert scheduler.nodes().names is not None
    assert len(calls.read_text().splitlines()) == 2
    more = recorded("sinfo.json").replace('"c4"', '"c9"')
    slurm_says("sinfo", f"cat <<'END'\n{more}\nEND")
    assert scheduler.nodes().names is None
    assert scheduler.nodes().names == {"c1", "c2", "c3", "c4", "c9", "cloud1"}


def test_check_config_says_which_names_slurm_lacks(
    slurm_says: Callable[[str, str], Path], tmp_path: Path
) -> None:
    slurm_says("sinfo", f"cat {RECORDED}/sinfo.json")
    slurm_says("scontrol", NAMED)
    file = tmp_path / "pool.cfg"
    told = "[Daemon]\ndispatcher = slurm\n[Cloud]\nprovider = local\n[Registry]\nslots = 4\n"
    file.write_text(f"{told}hostname = c%(slot_number)d\n")
    assert not [one for one in check(file)[1] if "slots" in one]
    file.write_text(f"{told}hostname = c%(slot_number)02d\n")
    (warning,) = (one for one in check(file)[1] if "slots" in one)
    assert "[Registry] hostname" in warning
    assert "calls c01 c1" in warning


@pytest.mark.parametrize(
    ("told", "names"),
    [
        ("", ()),
        ("c1", ("c1",)),
        ("c[1-3,07],d2", ("c1", "c2", "c3", "c07", "d2")),
        ("c[08-10]", ("c08", "c09", "c10")),
        ("r[1-2]n[1-2]-x", ("r1n1-x", "r1n2-x", "r2n1-x", "r2n2-x")),
        ("c1,c1", ("c1",)),
    ],
)
def test_the_names_that_slurm_shortens(told: str, names: tuple[str, ...]) -> None:
    assert names_of(told) == names


@pytest.mark.parametrize("told", ["c[1", "c]1", "c[]", "c[a]", ",", "c[1-99999]", "c 1"])
def test_what_is_no_list_of_names(told: str) -> None:
    with pytest.raises(ValueError):
        names_of(told)


# Programs that stand in for Slurm's.


@pytest.fixture
def slurm_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Makes a program of that name from a shell script; returns the file of its calls."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(name: str, script: str) -> Path:
        calls = tmp_path / f"{name}.calls"
        calls.touch()
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{calls}\n{script}\n')
        program.chmod(0o755)
        return calls

    return make


OLD = f"""case "$*" in
*--json*) echo "$0: unrecognized option '--json'" >&2; exit 1;;
*) cat {RECORDED}/sinfo.txt;;
esac"""


def test_a_slurm_without_json_is_asked_for_text_from_then_on(
    slurm_says: Callable[[str, str], Path],
) -> None:
    calls = slurm_says("sinfo", OLD)
    slurm_says("scontrol", "")
    scheduler = SlurmScheduler(10.0)
    assert len(scheduler.nodes().items) == 5
    assert scheduler.nodes() == scheduler.nodes()
    asked = calls.read_text().strip().split("\n")
    assert ["--json" in line for line in asked] == [True, False, False, False]


LONE = (
    "NodeName=lone Arch=x86_64 CoresPerSocket=1  CPUAlloc=1 CPUEfctv=4 CPUTot=4 CPULoad=20.39 "
    "AvailableFeatures=rack1,instancetype=large ActiveFeatures=(null) Gres=license:site:4 "
    "NodeAddr=127.0.0.1 NodeHostName=vm OS=Linux 6.18 #1 SMP @0  RealMemory=4000 AllocMem=10 "
    "FreeMem=16581 Sockets=4 Boards=1 State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=1000 Weight=160 "
    "Owner=N/A MCS_label=N/A  BootTime=None AllocTRES=cpu=1 "
    "Reason=a disk, State=IDLE Weight=1 [root@2026-11-26T12:06:04]"
)
"""As scontrol of 22.05 prints a node that no partition names."""


def test_as_text_a_node_in_no_partition_is_told_too(slurm_says: Callable[[str, str], Path]) -> None:
    """It may still run its job, and is not to be taken for one that Slurm does not know."""
    slurm_says("sinfo", OLD)
    known = "NodeName=c1 State=DOWN\n"
    slurm_says("scontrol", f"cat <<'END'\n{known}{LONE}\nEND")
    listed = SlurmScheduler(10.0, answers=AnswerFormat.TEXT).nodes()
    (lone,) = (node for node in listed.items if node.name == "lone")
    assert len(listed.items) == 6
    assert (lone.state, lone.draining, lone.reason) == ("busy", True, "a disk, State=IDLE Weight=1")
    assert (lone.features, lone.weight) == (("rack1", "instancetype=large"), 160)
    assert (lone.cores, lone.ram_mb, lone.free_cores, lone.free_ram_mb) == (4, 4000, 3, 3990)


def test_what_scontrol_tells_of_a_node_otherwise_is_not_known() -> None:
    (row,) = text.with_scontrol([], LONE.replace("CPUTot=4", "CPUTot=?"))
    assert row.problem is not None
    assert "?" in row.problem
    with pytest.raises(ValueError, match="is no node"):
        text.with_scontrol([], "slurm_load_node error")


@cases(
    ("as_json", "as_text", "started_at"),
    {
        "told": (1795709449, "1795709449", 1795709449),
        "a-number": ({"set": True, "infinite": False, "number": 1795709449}, "", 1795709449),
        "not-known": (0, "None", None),
        "no-number": (None, "2026-11-26T12:06:04", None),
    },
)
def test_when_a_nodes_slurmd_was_started(
    as_json: object, as_text: str, started_at: int | None
) -> None:
    def start(item: dict[str, Any]) -> None:
        item["slurmd_start_time"] = as_json

    (first, *_) = rows.listing(json_output.nodes(changed("sinfo.json", "nodes", start))).items
    assert first.started_at == started_at
    if as_text:
        known = f"NodeName=c1 State=IDLE BootTime=5 SlurmdStartTime={as_text} LastBusyTime=7\n"
        lone = LONE.replace("BootTime=None", f"SlurmdStartTime={as_text}")
        told = text.with_scontrol(text.nodes(recorded("sinfo.txt")), known + lone)
        found = {node.name: node.started_at for node in rows.listing(told).items}
        assert found == {**dict.fromkeys(found), "c1": started_at, "lone": started_at}


def test_json_in_a_form_that_is_not_known_makes_it_ask_for_text(
    slurm_says: Callable[[str, str], Path],
) -> None:
    grouped = """case "$*" in *--json*) echo '{"sinfo": [], "errors": []}';; *) cat %s;; esac"""
    slurm_says("sinfo", grouped % (RECORDED / "sinfo.txt"))
    slurm_says("scontrol", "")
    assert len(SlurmScheduler(10.0).nodes().items) == 5
    with pytest.raises(SchedulerError, match="no list 'nodes'"):
        SlurmScheduler(10.0, answers=AnswerFormat.JSON).nodes()


def test_a_queue_that_is_too_long_as_json_is_asked_for_as_text_from_then_on(
    slurm_says: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some thousand jobs are 16 MiB of JSON: no poll of a busy site would come to an end."""
    monkeypatch.setattr(program, "MAX_OUTPUT", 100_000)
    outputs = {"*--json*": "yes", "*--format*": "cat %s/asks-excluded.txt"}
    outputs["*"] = "cat %s/asks-squeue.txt"
    cases = " ".join(f"{on}) {prints};;" for on, prints in outputs.items())
    calls = slurm_says("squeue", f'case "$*" in {cases} esac'.replace("%s", str(RECORDED)))
    slurm_says("sinfo", OLD)
    slurm_says("scontrol", "")
    scheduler = SlurmScheduler(20.0)
    assert scheduler.queue() == scheduler.queue() != ()
    asked = calls.read_text().strip().split("\n")
    assert ["--json" in line for line in asked] == [True, False, False, False, False]
    with pytest.raises(SchedulerError, match="over 100000 bytes"):
        SlurmScheduler(20.0, answers=AnswerFormat.JSON).queue()


def test_a_controller_that_is_down_does_not_end_the_asking_for_json(
    slurm_says: Callable[[str, str], Path],
) -> None:
    calls = slurm_says("sinfo", f"cat {RECORDED}/sinfo-controller-down.json")
    scheduler = SlurmScheduler(10.0)
    for _ in range(2):
        with pytest.raises(SchedulerError):
            scheduler.nodes()
    assert calls.read_text().split() == ["--json", "--json"]


@pytest.mark.parametrize(
    ("said", "definite"),
    [
        ("slurm_update error: Invalid node name specified", True),
        ("slurm_update error: Access/permission denied", True),
        ("slurm_update error: Active features not subset of available features", True),
        ("slurm_update error: Unable to contact slurm controller (connect failure)", False),
        ("slurm_update error: Socket timed out on send/recv operation", False),
        ("slurm_update error: Slurm backup controller in standby mode", False),
        ("slurm_update error: something new", False),
        ("", False),
    ],
)
def test_only_slurms_own_no_is_a_definite_refusal(
    slurm_says: Callable[[str, str], Path], said: str, definite: bool
) -> None:
    slurm_says("scontrol", f"echo '{said}' >&2; exit 1")
    with pytest.raises(SchedulerError, match=said[20:40] or "exited 1") as caught:
        SlurmScheduler(10.0).drain("c1", "surplus")
    assert caught.value.definite is definite
    assert isinstance(caught.value, SchedulerRefused) is definite


def test_no_shell_sees_what_is_told(slurm_says: Callable[[str, str], Path]) -> None:
    calls = slurm_says("scontrol", "")
    SlurmScheduler(10.0).drain("c1", "$(touch /tmp/x); `id` 'a' \"b\"")
    told = "update NodeName=c1 State=DRAIN Reason=nodemanager: $(touch /tmp/x); `id` 'a' \"b\""
    assert calls.read_text() == f"{told}\n"


def test_programs_that_are_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SchedulerError, match=r"'sinfo': No such file"):
        SlurmScheduler(10.0).nodes()


def test_the_programs_get_slurms_configuration_and_none_of_our_secrets(
    slurm_says: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "NOTIFY_SOCKET", "PGPASSWORD", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "secret")
    slurm_says("scontrol", f"env >{tmp_path}/environment")
    SlurmScheduler(10.0, conf="/etc/slurm/other.conf").drain("c1", "idle")
    told = (tmp_path / "environment").read_text()
    assert "SLURM_CONF=/etc/slurm/other.conf" in told
    assert "LC_ALL=C" in told.splitlines()
    assert "secret" not in told


def test_a_state_that_nobody_knows_is_unknown_and_not_idle() -> None:
    told = recorded("sinfo.txt").replace("idle+drain", "idle+hyperspace")
    nodes = {node.name: node for node in rows.listing(text.nodes(told)).items}
    assert nodes["c3"].state is WorkerState.UNKNOWN
