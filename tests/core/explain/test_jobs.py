"""What each waiting job gets, by the rules that the demand itself goes by."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.jobs import JobState, WaitingJob, asks, jobs
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Job, WorkerState
from nodemanager.core.observe.snapshot import Limits
from tests.core.build import World
from tests.core.explain.test_why import pool

ONE = Job("one", cores=1)


def told(made: World, *queue: Job) -> dict[str, WaitingJob]:
    made.flags["demand"] = queue
    made.settle()
    return {one.job: one for one in jobs(DecisionView(made.decided, made.last, made.settings))}


def test_an_idle_node_serves_the_first_job_and_another_is_booted_for_the_next() -> None:
    made = pool(WorkerState.IDLE)
    found = told(made, ONE, replace(ONE, id="two"))
    assert list(found) == ["one", "two"], "in the order of the queue"
    one, two = found.values()
    (host,) = one.nodes
    assert host is not None
    assert (one.state, one.size, one.coming, one.reason) == (JobState.SERVED, "small", 0, None)
    assert (two.state, two.size, two.coming, two.nodes) == (JobState.BOOTING, "small", 1, ())


def test_a_job_whose_rest_is_refused_says_what_refuses_it_and_what_it_has() -> None:
    made = pool(WorkerState.IDLE, WorkerState.BUSY, max_nodes=3)
    found = told(made, replace(ONE, count=3))["one"]
    assert found.state is JobState.WAITING
    assert (found.reason, found.measures) == (Reason.AT_MAX_NODES, {"nodes": 2, "limit": 3})
    assert (len(found.nodes), found.coming) == (1, 1), "one is there, and one may be booted"


def test_a_refusal_that_ends_by_itself_says_when() -> None:
    made = pool()
    made.flags["limits"] = Limits(resting={"small": made.now + 600.0, "large": made.now + 900.0})
    found = told(made, ONE)["one"]
    assert (found.state, found.reason) == (JobState.WAITING, Reason.SIZE_RESTS)
    assert found.in_s is not None
    assert 0 < found.in_s <= 600.0


def test_the_parts_of_one_job_have_one_id_and_each_its_own_row() -> None:
    """A wishlist may ask for one large and two small nodes of one job in two lines."""
    made = pool(max_nodes=4)
    made.flags["demand"] = (
        Job("7", cores=999),
        replace(ONE, id="7"),
        replace(ONE, id="7", count=9),
    )
    made.settle()
    found = jobs(DecisionView(made.decided, made.last, made.settings))
    assert [(one.state, one.reason) for one in found] == [
        (JobState.IMPOSSIBLE, Reason.NO_FITTING_SIZE),
        (JobState.BOOTING, None),
        (JobState.IMPOSSIBLE, Reason.JOB_OVER_MAX_NODES),
    ]


def test_a_job_that_no_boot_can_serve_says_why() -> None:
    made = pool(max_nodes=4)
    found = told(made, Job("huge", cores=999), replace(ONE, id="many", count=9), ONE)
    assert (found["huge"].state, found["huge"].reason) == (
        JobState.IMPOSSIBLE,
        Reason.NO_FITTING_SIZE,
    )
    many = found["many"]
    assert (many.state, many.reason) == (JobState.IMPOSSIBLE, Reason.JOB_OVER_MAX_NODES)
    assert (many.size, many.measures) == ("small", {"count": 9, "limit": 4})
    assert found["one"].state is JobState.BOOTING


def test_grants_go_to_the_first_jobs_of_the_queue() -> None:
    made = pool(max_nodes=2)
    found = told(made, *(replace(ONE, id=name) for name in "abc"))
    states = [one.state for one in found.values()]
    assert states == [JobState.BOOTING, JobState.BOOTING, JobState.WAITING]
    assert found["c"].reason is Reason.AT_MAX_NODES


def test_a_node_that_boots_is_named_and_not_yet_up() -> None:
    made = pool()
    made.add_record("r1", pinged=None)
    made.add_node("r1", size="small", age=10.0)
    found = told(made, ONE)["one"]
    assert (found.state, found.coming) == (JobState.BOOTING, 0)
    assert len(found.nodes) == 1


def test_without_a_queue_there_is_no_job() -> None:
    assert told(pool(WorkerState.BUSY)) == {}


def test_what_a_job_asks_for_is_told_in_words() -> None:
    assert asks(ONE) == "1 core"
    whole = Job(
        "j",
        cores=4,
        ram_mb=8000,
        scratch_mb=100,
        gres=(("gpu", 2),),
        features=(("ssd", "rack1"), ("hdd",)),
        instance_type="large",
        preemptible=True,
    )
    assert asks(whole) == (
        "4 cores, 8000 MB, scratch 100 MB, gpu:2, ssd&rack1|hdd, size large, may be preempted"
    )
