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

from nodemanager.core.model.world import Job, WorkerState
from nodemanager.errors import SchedulerError, SchedulerRefused
from nodemanager.schedulers.slurm import rows, text, told_json
from nodemanager.schedulers.slurm.adapter import Answers, SlurmScheduler

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
    as_json = rows.listing(told_json.nodes(recorded("sinfo.json")))
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
    jobs = rows.queue(text.jobs(recorded("squeue.txt")), most_cores=8)
    assert rows.queue(told_json.jobs(recorded("squeue.json"), ALL), most_cores=8) == jobs
    assert jobs == (
        Job("3", cores=2, ram_mb=3000, instance_type="small", features=(("rack1",),)),
        Job("4", cores=4, ram_mb=2048, scratch_mb=500, count=2),
        *(Job(f"5_{task}", ram_mb=10, array="5") for task in (1, 2, 3, 7)),
    )


def numbers_as_objects(item: dict[str, Any]) -> None:
    """The form of Slurm 23.02 and later: numbers with marks, states as lists."""
    for key, value in item.items():
        if (value is None or isinstance(value, int)) and key != "job_id":
            number = {"set": value is not None, "infinite": False, "number": value or 0}
            item[key] = number
        elif key == "job_state":
            item[key] = [value]


def test_the_numbers_and_states_of_later_versions_mean_the_same() -> None:
    later = told_json.jobs(changed("squeue.json", "jobs", numbers_as_objects), ALL)
    assert later == told_json.jobs(recorded("squeue.json"), ALL)


def test_a_state_may_be_a_list_with_its_flags() -> None:
    def as_list(item: dict[str, Any]) -> None:
        item["state"] = [item["state"].upper(), *item.pop("state_flags")]

    later = told_json.nodes(changed("sinfo.json", "nodes", as_list))
    assert later == told_json.nodes(recorded("sinfo.json"))


@pytest.mark.parametrize("name", ["sinfo-controller-down.json", "squeue-controller-down.json"])
def test_an_empty_list_beside_an_error_is_a_failed_poll(name: str) -> None:
    """L1: Slurm 22.05 exits with 0 there."""
    with pytest.raises(SchedulerError, match="Unspecified error"):
        told_json.nodes(recorded(name))
    with pytest.raises(SchedulerError, match="Unspecified error"):
        told_json.jobs(recorded(name), ALL)


@pytest.mark.parametrize("name", ["sinfo.json", "squeue.json"])
def test_json_that_was_cut_off_is_a_failed_poll(name: str) -> None:
    for share in (0, 0.3, 0.99):
        whole = recorded(name).rstrip()
        with pytest.raises(SchedulerError, match="is no JSON"):
            told_json.nodes(whole[: int(len(whole) * share)])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", ""),
        ("name", None),
        ("state", None),
        ("weight", "5"),
        ("weight", True),
        ("cpus", ...),
    ],
)
def test_a_node_in_a_form_that_is_not_known_is_never_left_out(key: str, value: object) -> None:
    def spoil(item: dict[str, Any]) -> None:
        if item["name"] == "c3":
            if value is ...:
                del item[key]
            else:
                item[key] = value

    with pytest.raises(told_json.OtherForm):
        told_json.nodes(changed("sinfo.json", "nodes", spoil))


@pytest.mark.parametrize("key", ["priority", "cpus", "state_reason", "job_state", "job_id"])
def test_a_job_in_a_form_that_is_not_known_is_never_left_out(key: str) -> None:
    def spoil(item: dict[str, Any]) -> None:
        if item["job_id"] == 4:
            item[key] = {"odd": 1}

    with pytest.raises(told_json.OtherForm):
        told_json.jobs(changed("squeue.json", "jobs", spoil), ALL)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda whole: whole[:-20], id="cut-off"),
        pytest.param(lambda whole: whole.replace("c3\x1f", "c3", 1), id="a-field-too-few"),
        pytest.param(lambda whole: whole.replace("c3\x1f", "c3\x1f\x1f", 1), id="a-field-more"),
        pytest.param(lambda whole: whole.replace("\x1f80\x1f", "\x1fheavy\x1f"), id="no-number"),
        pytest.param(lambda whole: "CLUSTER: elsewhere\n" + whole + "CLUSTER: other", id="title"),
    ],
)
def test_text_that_is_not_as_asked_for_is_never_read_in_part(spoil: Callable[[str], str]) -> None:
    with pytest.raises(ValueError):
        text.nodes(spoil(recorded("sinfo.txt")))


@given(st.text(max_size=300))
def test_no_text_does_more_than_fail_the_poll(anything: str) -> None:
    for read in (text.nodes, text.jobs):
        with contextlib.suppress(ValueError):
            assert read(anything) == [] or "\x1e" in anything


def test_a_node_that_is_told_in_two_ways_makes_the_listing_incomplete() -> None:
    one, two, *_ = text.nodes(recorded("sinfo.txt").replace("c1\x1fallocated", "c1\x1fidle", 1))
    assert one.name == two.name == "c1"
    listed = rows.listing([one, two])
    assert not listed.complete
    assert listed.problems == ("node c1 is told in two ways",)


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
        *(
            (reason, 5, False)
            for reason in ("PartitionNodeLimit", "PartitionConfig", "PartitionDown")
        ),
    ],
)
def test_which_reasons_are_demand(reason: str, priority: int, waits: bool) -> None:
    row = rows.JobRow("1", 1, reason, priority, 1, 1, 1, 0, 0, 0, "")
    assert row.waits_for_nodes is waits
    assert len(rows.queue([row], None)) == waits


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
    assert rows.tasks_of(told) == tasks


def test_an_endless_array_is_read_in_limited_time() -> None:
    assert len(rows.tasks_of("0-4000000")) == rows.MAX_TASKS
    assert len(rows.tasks_of(",".join(["0-4000000"] * 1000))) == rows.MAX_TASKS


@pytest.mark.parametrize("told", ["", "a", "1-", "1,,2", "5%x"])
def test_what_is_no_list_of_tasks_fails_the_poll(told: str) -> None:
    with pytest.raises(ValueError):
        rows.tasks_of(told)


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
    scheduler = SlurmScheduler(10.0)
    assert len(scheduler.nodes().items) == 5
    assert scheduler.nodes() == scheduler.nodes()
    asked = calls.read_text().strip().split("\n")
    assert ["--json" in line for line in asked] == [True, False, False, False]


def test_json_in_a_form_that_is_not_known_makes_it_ask_for_text(
    slurm_says: Callable[[str, str], Path],
) -> None:
    grouped = """case "$*" in *--json*) echo '{"sinfo": [], "errors": []}';; *) cat %s;; esac"""
    slurm_says("sinfo", grouped % (RECORDED / "sinfo.txt"))
    assert len(SlurmScheduler(10.0).nodes().items) == 5
    with pytest.raises(SchedulerError, match="no list 'nodes'"):
        SlurmScheduler(10.0, answers=Answers.JSON).nodes()


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
    SlurmScheduler(10.0, conf="/etc/slurm/other.conf").resume("c1")
    told = (tmp_path / "environment").read_text()
    assert "SLURM_CONF=/etc/slurm/other.conf" in told
    assert "LC_ALL=C" in told.splitlines()
    assert "secret" not in told


def test_a_state_that_nobody_knows_is_unknown_and_not_idle() -> None:
    told = recorded("sinfo.txt").replace("idle+drain", "idle+hyperspace")
    nodes = {node.name: node for node in rows.listing(text.nodes(told)).items}
    assert nodes["c3"].state is WorkerState.UNKNOWN
