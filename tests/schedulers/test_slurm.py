"""The Slurm adapter on a real Slurm: what the contract does not ask of every scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.errors import SchedulerError, SchedulerRefused
from nodemanager.schedulers.slurm.adapter import AnswerFormat, SlurmScheduler
from tests.schedulers.slurm_cluster import CORES, LARGE, SlurmCluster
from tests.waiting import until

pytestmark = pytest.mark.server("slurm", "munge")

Asked = Callable[..., SlurmScheduler]


@pytest.fixture
def scheduler(slurm: SlurmCluster) -> Asked:
    def make(answers: AnswerFormat = AnswerFormat.AUTO, **more: object) -> SlurmScheduler:
        return SlurmScheduler(15.0, conf=str(slurm.conf), answers=answers, **more)

    return make


@pytest.fixture
def full(slurm: SlurmCluster) -> SlurmCluster:
    """Both nodes are busy, so that what is submitted waits."""
    jobs = [slurm.submit("-w", node, "-n", str(CORES)) for node in slurm.nodes]
    for job in jobs:
        until(f"job {job} to run", lambda job=job: slurm.job_state(job) == "RUNNING")
    return slurm


def submit(cluster: SlurmCluster, *options: str) -> str:
    """The id of a job that never goes to the powered-down node."""
    return cluster.submit("-x", LARGE, *options)


def both_ways(scheduler: Asked) -> tuple[Job, ...]:
    """The queue, which JSON and text tell alike."""
    as_json, as_text = scheduler(AnswerFormat.JSON), scheduler(AnswerFormat.TEXT)
    without_words = [
        [replace(node, said="") for node in asked.nodes().items] for asked in (as_json, as_text)
    ]
    assert without_words[0] == without_words[1]
    jobs = as_json.queue()
    assert as_text.queue() == jobs
    return jobs


def reasons_are_known(cluster: SlurmCluster, *jobs: str) -> None:
    """Wait until Slurm's scheduler has looked at these jobs."""
    for job in jobs:
        until(f"a reason of {job}", lambda job=job: cluster.job_reason(job) != "None")


NEEDS = {
    "-c 2 --mem-per-cpu=100": (2, 200, 0, 1),
    "-c 2 --mem=100": (2, 100, 0, 1),
    "-N2 -n8 --mem-per-cpu=300": (4, 1200, 0, 2),
    "-N2 -n8 --mem=2G": (4, 2048, 0, 2),
    "-N2 --mem=1500 --tmp=500M": (1, 1500, 500, 2),
    "-N1-2 -n6 --ntasks-per-node=3": (3, 30, 0, 2),
    "-N2-4 -n8": (4, 40, 0, 2),
    "-N2 --exclusive --mem=10": (1, 10, 0, 2),
    "-c 3 --mem=1234567K": (3, 1206, 0, 1),
    "-n8 --mem-per-cpu=100": (4, 400, 0, 2),
}
"""By a job's options: cores, MB of memory and of disk of each node, and how many nodes."""


def test_what_a_job_needs_of_each_node(full: SlurmCluster, scheduler: Asked) -> None:
    ids = {submit(full, *options.split()): options for options in NEEDS}
    reasons_are_known(full, *ids)
    found = {}
    for job in both_ways(scheduler):
        options = ids[job.id]
        # More processors than one node has are asked of two.
        shape = job.shapes[-1] if options.startswith("-n8") else job
        found[options] = (shape.cores, shape.ram_mb, job.scratch_mb, shape.count)
        assert job.not_on == (LARGE,)
        assert job.shares is ("--exclusive" not in options)
        assert job.unserved is None
    assert found == NEEDS


def test_a_job_names_its_size_by_the_feature_instancetype(
    full: SlurmCluster, scheduler: Asked
) -> None:
    ids = [
        submit(full, "-C", constraint)
        for constraint in ("instancetype=small", "rack1&instancetype=small", "[rack1|big]")
    ]
    reasons_are_known(full, *ids)
    assert [(job.id, job.instance_type) for job in both_ways(scheduler)] == [
        (ids[0], "small"),
        (ids[1], "small"),
        (ids[2], None),
    ]


def test_a_job_asks_for_features_and_resources_of_its_nodes(
    full: SlurmCluster, scheduler: Asked
) -> None:
    ids = [
        submit(full, "-C", "rack1&(instancetype=small|instancetype=large)"),
        submit(full, "-C", "[rack1*2]", "-N2"),
        submit(full, "--gres=license:site:2"),
        submit(full, "--gres=license"),
    ]
    reasons_are_known(full, *ids)
    asked = {job.id: (job.instance_type, job.features, job.gres) for job in both_ways(scheduler)}
    either = (("instancetype=small", "rack1"), ("instancetype=large", "rack1"))
    assert asked == {
        ids[0]: (None, either, ()),
        ids[1]: (None, (("rack1",),), ()),
        ids[2]: (None, (), (("license", 2), ("license:site", 2))),
        ids[3]: (None, (), (("license", 1),)),
    }


def test_each_task_of_an_array_is_a_job_of_its_own(full: SlurmCluster, scheduler: Asked) -> None:
    whole = submit(full, "-a", "1-3,7,10-20:5")
    slow = submit(full, "-a", "1-50%2", "--mem=20")
    many = submit(full, "-a", ",".join(str(n) for n in range(1, 200, 3)))
    reasons_are_known(full, f"{whole}_1", f"{slow}_1", f"{many}_1")
    jobs = both_ways(scheduler)
    assert [job.id for job in jobs] == [
        *(f"{whole}_{task}" for task in (1, 2, 3, 7, 10, 15, 20)),
        *(f"{slow}_{task}" for task in (1, 2)),
        *(f"{many}_{task}" for task in range(1, 200, 3)),
    ]
    assert {job.count for job in jobs} == {1}


def test_what_no_node_can_help_is_no_demand(full: SlurmCluster, scheduler: Asked) -> None:
    waits = submit(full)
    others = [
        submit(full, "--hold"),
        submit(full, "-d", f"afterok:{waits}"),
        submit(full, "--begin=now+1hour"),
        submit(full, "-a", "1-2", "--hold"),
    ]
    reasons_are_known(full, *others[:3], waits)
    assert [job.id for job in both_ways(scheduler)] == [waits]


def test_what_no_boot_can_serve_is_told_by_its_id_and_why(
    full: SlurmCluster, scheduler: Asked
) -> None:
    many = submit(full, "-N", "30")
    apart = submit(full, "-N2", "--contiguous")
    pinned = submit(full, "-w", "c1")
    reasons_are_known(full, many, apart, pinned)
    jobs = {job.id: job for job in both_ways(scheduler)}
    reasons = {id: job.unserved and job.unserved.reason for id, job in jobs.items()}
    assert reasons == {many: Reason.PARTITION_LIMIT, apart: Reason.JOB_TIED, pinned: None}
    assert jobs[pinned].on == ("c1",)


def test_the_rest_of_an_array_that_has_its_tasks_running_waits_for_them(
    slurm: SlurmCluster, scheduler: Asked
) -> None:
    id = submit(slurm, "-a", "1-4%1", "-n", str(CORES))
    until("the first task", lambda: "RUNNING" in slurm.client("squeue", "-h", "-r", "-o", "%T"))
    until(
        "the others' reason",
        lambda: "JobArrayTaskLimit" in slurm.client("squeue", "-h", "-j", id, "-o", "%r"),
    )
    assert both_ways(scheduler) == ()


def test_the_very_first_question_knows_how_large_a_node_is(
    full: SlurmCluster, scheduler: Asked
) -> None:
    id = submit(full, "-n8")
    reasons_are_known(full, id)
    for answers in (AnswerFormat.JSON, AnswerFormat.TEXT):
        (job,) = scheduler(answers).queue()
        assert [(one.count, one.cores) for one in (job, *job.shapes)] == [(1, 8), (2, 4)]


def test_only_jobs_of_the_named_partitions_are_demand(full: SlurmCluster, scheduler: Asked) -> None:
    main, other = submit(full, "-p", "main"), submit(full, "-p", "other")
    either = submit(full, "-p", "main,other")
    reasons_are_known(full, main, other)
    for answers in (AnswerFormat.JSON, AnswerFormat.TEXT):
        only = scheduler(answers, partitions=("other",))
        assert {job.id for job in only.queue()} == {other, either}
    assert {job.id for job in both_ways(scheduler)} == {main, other, either}


def test_a_job_whose_nodes_are_drained_is_demand(full: SlurmCluster, scheduler: Asked) -> None:
    for node in full.nodes:
        full.client("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=disk")
    id = submit(full)
    reasons_are_known(full, id)
    assert [job.id for job in both_ways(scheduler)] == [id]


def test_free_text_of_users_breaks_nothing(full: SlurmCluster, scheduler: Asked) -> None:
    awkward = 'a|b\tc, "d"\n\x1f1'
    id = submit(full, "-J", awkward, f"--comment={awkward}")
    full.client("scontrol", "update", "NodeName=c1", "State=DRAIN", f"Reason={awkward}")
    reasons_are_known(full, id)
    as_json = scheduler(AnswerFormat.JSON).nodes()
    assert as_json.complete
    assert {node.name for node in as_json.items} == {"c1", "c2", LARGE}
    assert [job.id for job in scheduler(AnswerFormat.JSON).queue()] == [id]
    assert [job.id for job in scheduler(AnswerFormat.TEXT).queue()] == [id]
    # A separator of ours in a reason, which only an operator of Slurm can set, spoils its own row.
    as_text = scheduler(AnswerFormat.TEXT).nodes()
    assert as_text.complete
    assert [problem.partition(":")[0] for problem in as_text.problems] == ["node c1"]


def test_what_slurm_reads_from_our_environment_changes_no_answer(
    full: SlurmCluster, scheduler: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = submit(full, "-a", "1-9")
    reasons_are_known(full, f"{id}_1")
    before = both_ways(scheduler)
    for name, value in {
        "SLURM_CLUSTERS": "elsewhere",
        "SQUEUE_STATES": "RUNNING",
        "SQUEUE_FORMAT": "%j",
        "SQUEUE_ARRAY": "1",
        "SINFO_FORMAT": "%P",
        "SINFO_PARTITION": "other",
        "SLURM_BITSTR_LEN": "4",
        "LC_ALL": "de_DE.UTF-8",
    }.items():
        monkeypatch.setenv(name, value)
    assert both_ways(scheduler) == before
    assert len(before) == 9


@pytest.mark.parametrize("flags", ["maint,ignore_jobs", "ignore_jobs"])
def test_a_reserved_node_is_told_and_is_not_idle(
    slurm: SlurmCluster, scheduler: Asked, flags: str
) -> None:
    """PEERS: a maintenance reservation made a kill and relaunch loop."""
    slurm.client(
        "scontrol",
        *("create", "reservation", "ReservationName=upkeep", "StartTime=now", "Duration=60"),
        *(f"Flags={flags}", "Users=root", "Nodes=c1"),
    )
    try:
        until("the reservation", lambda: slurm.node_words("c1") != {"IDLE"})
        both_ways(scheduler)
        nodes = {node.name: node for node in scheduler().nodes().items}
        assert nodes["c1"].reserved
        assert nodes["c1"].state is not WorkerState.IDLE
        assert not nodes["c2"].reserved
    finally:
        slurm.client("scontrol", "delete", "ReservationName=upkeep")


@pytest.mark.parametrize(
    ("state", "means", "draining"),
    [("FAIL", "down", False), ("DRAIN", "idle", True), ("DOWN", "down", False)],
)
def test_a_state_that_an_operator_sets(
    slurm: SlurmCluster, scheduler: Asked, state: str, means: str, draining: bool
) -> None:
    if state == "DOWN":
        slurm.kill_node("c1")
    slurm.client("scontrol", "update", "NodeName=c1", f"State={state}", "Reason=disk")
    both_ways(scheduler)
    (node,) = (one for one in scheduler().nodes().items if one.name == "c1")
    assert (node.state, node.draining, node.reason) == (means, draining, "disk")
    assert not node.reserved
    slurm.client("scontrol", "update", "NodeName=c1", "State=RESUME")


@pytest.mark.parametrize("answers", [AnswerFormat.JSON, AnswerFormat.TEXT])
def test_an_idle_node_is_planned_for_a_job_that_waits_for_another_node_too(
    slurm: SlurmCluster, scheduler: Asked, answers: AnswerFormat
) -> None:
    busy = slurm.submit("-w", "c2", "-n", str(CORES), "--time=10")
    until("c2 to work", lambda: slurm.job_state(busy) == "RUNNING")
    submit(slurm, "-N2", "--time=10")

    def planned() -> list[str]:
        return [node.name for node in scheduler(answers).nodes().items if node.planned]

    assert until("a plan", planned) == ["c1"]
    (node,) = (node for node in scheduler(answers).nodes().items if node.name == "c1")
    assert node.state is not WorkerState.BUSY


def test_a_node_that_no_partition_names_is_told_as_json_and_as_text(
    slurm: SlurmCluster, scheduler: Asked
) -> None:
    """sinfo leaves it out as text; it may still run its job."""
    partitions = {"main": f"c2,{LARGE}", "other": "c2"}
    for name, nodes in partitions.items():
        slurm.client("scontrol", "update", f"PartitionName={name}", f"Nodes={nodes}")
    try:
        as_json, as_text = (
            {node.name: replace(node, said="") for node in scheduler(answers).nodes().items}
            for answers in (AnswerFormat.JSON, AnswerFormat.TEXT)
        )
        assert as_text == as_json
        assert "c1" in as_text
    finally:
        for name, nodes in partitions.items():
            slurm.client("scontrol", "update", f"PartitionName={name}", f"Nodes=c1,{nodes}")


def test_a_powered_down_cloud_node_is_down(slurm: SlurmCluster, scheduler: Asked) -> None:
    both_ways(scheduler)
    (node,) = (one for one in scheduler().nodes().items if one.name == LARGE)
    assert node.state is WorkerState.DOWN


def test_a_node_that_was_gone_takes_its_job_again_once_another_has_its_name(
    slurm: SlurmCluster, scheduler: Asked
) -> None:
    """PEERS: `down*` and `drain` for good, and jobs that were never tried again."""
    job = slurm.submit("-w", "c1")
    until("the job to run", lambda: slurm.job_state(job) == "RUNNING")
    # One that is still being launched would fail by itself.
    until("its process", lambda: slurm.runs_on("c1"), told=slurm.log)
    asked = scheduler()
    asked.drain("c1", "idle beyond demand")
    slurm.kill_node("c1")
    asked.mark_down("c1", "destroyed")
    until("the job to wait again", lambda: slurm.job_state(job) == "PENDING")

    slurm.start_node("c1")
    until("c1 to be idle", lambda: slurm.node_words("c1") == {"IDLE"}, told=slurm.log)
    assert not next(one for one in asked.nodes().items if one.name == "c1").draining
    # Slurm lets a requeued job wait for two minutes; we do not.
    slurm.client("scontrol", "update", f"JobId={job}", "StartTime=now")
    until("the job to run again", lambda: slurm.job_state(job) == "RUNNING", told=slurm.log)


def test_why_a_job_cant_run_is_told_in_its_admin_comment(
    full: SlurmCluster, scheduler: Asked
) -> None:
    job, array = submit(full), submit(full, "-a", "1-5")
    scheduler().comment(job, 'no size has "8 cores", of 4')
    scheduler().comment(f"{array}_3", "too large")
    told = full.client("scontrol", "show", "job", job)
    assert 'AdminComment=no size has "8 cores", of 4' in told
    # The array was not split for it.
    lines = full.client("squeue", "-h", "-j", array, "-o", "%i").split()
    assert lines == [f"{array}_[1-5]"]


def test_only_waiting_jobs_are_cancelled(full: SlurmCluster, scheduler: Asked) -> None:
    (first, *others) = full.client("squeue", "-h", "-t", "R", "-o", "%i").split()
    full.client("scancel", first)
    array, job, stays = submit(full, "-a", "1-3", "-n", "4"), submit(full), submit(full)
    until("a task to run", lambda: full.job_state(f"{array}_1") == "RUNNING")
    for one in (*others, job, f"{array}_3"):
        scheduler().cancel(one)
    running = set(full.client("squeue", "-h", "-t", "R", "-o", "%i").split())
    assert running == {*others, f"{array}_1"}
    assert [one.id for one in both_ways(scheduler)] == [stays]


@pytest.mark.parametrize("id", ["", "x", "1 2", "-u root", "1_[1-5]", "1,2"])
def test_an_id_that_is_not_one_jobs_is_refused(scheduler: Asked, id: str) -> None:
    for order in (scheduler().cancel, lambda job: scheduler().comment(job, "why")):
        with pytest.raises(SchedulerRefused, match="no id of a job"):
            order(id)


def test_a_restarted_controller_is_asked_again(slurm: SlurmCluster, scheduler: Asked) -> None:
    asked = scheduler()
    before = asked.nodes()
    slurm.stop_controller()
    with pytest.raises(SchedulerError):
        asked.nodes()
    slurm.start_controller()
    until("the nodes again", lambda: asked.nodes() == before, told=slurm.log)
