"""What every adapter of the port to a scheduler promises (nodemanager/schedulers/api.py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import WorkerState
from nodemanager.errors import SchedulerError, SchedulerRefused
from nodemanager.schedulers.api import OURS, Scheduler, SchedulerVerb
from tests.schedulers.conftest import ANSWERS
from tests.schedulers.contract import SHORT_S, World
from tests.waiting import until

T = TypeVar("T")

CALLS: dict[str, Callable[[Scheduler], object]] = {
    "nodes": lambda scheduler: scheduler.nodes(),
    "queue": lambda scheduler: scheduler.queue(),
    "drain": lambda scheduler: scheduler.drain("c1", "surplus"),
    "resume": lambda scheduler: scheduler.resume("c1"),
    "mark_down": lambda scheduler: scheduler.mark_down("c1", "gone"),
    "describe": lambda scheduler: scheduler.describe("c1", 5, ("instancetype=small",)),
    "comment": lambda scheduler: scheduler.comment("1", "too large"),
    "cancel": lambda scheduler: scheduler.cancel("1"),
}


in_each_form = pytest.mark.parametrize(
    "world", [*ANSWERS, pytest.param(None, id="command", marks=pytest.mark.slow)], indirect=True
)
"""What is read of Slurm is read as JSON and as text."""


def node_orders(scheduler: Scheduler) -> list[Callable[[str], None]]:
    return [
        lambda node: scheduler.drain(node, "surplus"),
        scheduler.resume,
        lambda node: scheduler.mark_down(node, "gone"),
        lambda node: scheduler.describe(node, 5, ()),
    ]


def errors_of_all_calls(scheduler: Scheduler) -> dict[str, object]:
    """What each call comes to; they are made at once."""

    def made(call: Callable[[Scheduler], object]) -> object:
        try:
            return call(scheduler)
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(CALLS)) as pool:
        return dict(zip(CALLS, pool.map(made, CALLS.values()), strict=True))


def node_of(world: World, name: str) -> SchedulerNode:
    listed = world.scheduler().nodes()
    assert listed.complete
    (node,) = (one for one in listed.items if one.name == name)
    return node


def answered(call: Callable[[], T]) -> T | None:
    """What the call comes to; None where a busy scheduler did not answer in time."""
    try:
        return call()
    except SchedulerError as error:
        if error.definite:
            raise
        return None


def becomes(world: World, name: str, state: WorkerState) -> SchedulerNode:
    """The node, once it is in that state; a scheduler that is busy is asked again."""

    def found() -> SchedulerNode | None:
        node = answered(lambda: node_of(world, name))
        return node if node is not None and node.state is state else None

    node = until(f"{name} to be {state}", found)
    assert node is not None
    return node


@in_each_form
def test_each_node_is_listed_once_with_its_state(world: World) -> None:
    first, second = world.nodes
    world.work_on(first)
    listed = world.scheduler().nodes()
    assert listed.complete
    assert listed.problems == ()
    names = [node.name for node in listed.items]
    assert len(names) == len(set(names))
    assert set(world.nodes) <= set(names)
    states = {node.name: (node.state, node.draining) for node in listed.items}
    assert states[first] == (WorkerState.BUSY, False)
    assert states[second] == (WorkerState.IDLE, False)


@in_each_form
def test_a_node_shows_its_features_weight_and_cores(world: World) -> None:
    node = node_of(world, "c1")
    assert (node.features, node.weight, node.cores) == (("rack1", "instancetype=small"), 5, 4)


@in_each_form
def test_the_queue_has_the_waiting_jobs_by_priority_and_no_running_one(world: World) -> None:
    scheduler = world.scheduler()
    assert scheduler.queue() == ()
    running = [world.work_on(node) for node in world.nodes]
    low = world.wait_for_nodes(cores=2, ram_mb=100, priority=10)
    high = world.wait_for_nodes(cores=3, ram_mb=200, priority=30)
    middle = world.wait_for_nodes(cores=1, ram_mb=300, priority=20)
    jobs = scheduler.queue()
    assert [job.id for job in jobs] == [high, middle, low]
    assert [(job.cores, job.ram_mb, job.count) for job in jobs] == [
        (3, 200, 1),
        (1, 300, 1),
        (2, 100, 1),
    ]
    assert not {job.id for job in jobs} & set(running)


@in_each_form
def test_a_drained_node_is_given_no_work_until_it_is_resumed(world: World) -> None:
    first, second = world.nodes
    world.work_on(first)
    scheduler = world.scheduler()
    scheduler.drain(second, "idle beyond demand")
    node = node_of(world, second)
    assert node.drained
    assert (node.state, node.reason) == (WorkerState.IDLE, f"{OURS}idle beyond demand")
    job = world.wait_for_nodes(cores=1, ram_mb=10, priority=50)
    assert not world.starts(job)
    assert node_of(world, second).drained
    assert [job.id for job in scheduler.queue()] == [job]

    scheduler.resume(second)
    assert not node_of(world, second).draining
    assert until("the job to start", lambda: world.starts(job))
    assert scheduler.queue() == ()


def test_work_that_began_before_the_drain_goes_on_and_shows(world: World) -> None:
    first, _ = world.nodes
    job = world.work_on(first)
    world.scheduler().drain(first, "idle beyond demand")
    node = node_of(world, first)
    assert (node.state, node.draining, node.drained) == (WorkerState.BUSY, True, False)
    world.end(job)
    assert becomes(world, first, WorkerState.IDLE).drained


def test_every_order_may_be_repeated(world: World) -> None:
    scheduler, (node, _) = world.scheduler(), world.nodes
    scheduler.resume(node)
    for order in (scheduler.drain, scheduler.mark_down):
        if order == scheduler.mark_down:
            world.vanish(node)
        order(node, "once")
        order(node, "twice")
        assert node_of(world, node).reason == f"{OURS}twice"
    scheduler.resume(node)
    scheduler.resume(node)


@pytest.mark.parametrize("drained_before", [False, True])
def test_a_node_that_is_marked_down_is_down_and_no_longer_draining(
    world: World, drained_before: bool
) -> None:
    scheduler, (node, _) = world.scheduler(), world.nodes
    if drained_before:
        scheduler.drain(node, "idle beyond demand")
    world.vanish(node)
    scheduler.mark_down(node, "destroyed")
    told = node_of(world, node)
    assert (told.state, told.draining) == (WorkerState.DOWN, False)
    assert told.reason == f"{OURS}destroyed"
    scheduler.resume(node)
    assert node_of(world, node).state is not WorkerState.DOWN


def test_what_ran_on_a_node_that_is_marked_down_does_not_keep_it_busy(world: World) -> None:
    scheduler, (node, _) = world.scheduler(), world.nodes
    world.work_on(node)
    world.vanish(node)

    def marked() -> bool:
        scheduler.mark_down(node, "gone from the cloud")
        return True

    # Every order may be repeated.
    until("the node to be marked down", lambda: answered(marked))
    becomes(world, node, WorkerState.DOWN)


def test_features_and_weight_follow_the_size_and_other_features_stay(world: World) -> None:
    scheduler, (name, _) = world.scheduler(), world.nodes
    assert SchedulerVerb.DESCRIBE in scheduler.can
    try:
        scheduler.describe(name, 35, ("instancetype=m5.large",))
        node = node_of(world, name)
        assert (node.weight, node.features) == (35, ("rack1", "instancetype=m5.large"))
        scheduler.describe(name, 35, ("instancetype=m5.large", "ssd"), ("rack1", "rack2"))
        assert node_of(world, name).features == ("instancetype=m5.large", "ssd")
    finally:
        scheduler.describe(name, 5, ("rack1", "instancetype=small"), ("ssd",))
    assert node_of(world, name).features == ("rack1", "instancetype=small")


def test_a_cancelled_job_leaves_the_queue(world: World) -> None:
    scheduler = world.scheduler()
    for node in world.nodes:
        world.work_on(node)
    stays, goes = (world.wait_for_nodes(cores=1, ram_mb=10, priority=n) for n in (20, 10))
    scheduler.comment(goes, 'no size fits: "8 cores"\nof 4')
    scheduler.cancel(goes)
    assert [job.id for job in scheduler.queue()] == [stays]


def test_an_unknown_node_is_a_definite_refusal(world: World) -> None:
    for order in node_orders(world.scheduler()):
        with pytest.raises(SchedulerRefused) as caught:
            order("nosuch")
        assert caught.value.definite


MANY = ("c[1-2]", "c1,c2", "ALL", "default", "", "-n", "c1 Reason=x", "c1\n", "c1/../c2")


def test_an_order_for_anything_but_one_node_reaches_none(world: World) -> None:
    scheduler = world.scheduler()
    before = scheduler.nodes().items
    for name in MANY:
        for order in node_orders(scheduler):
            with pytest.raises(SchedulerRefused, match="not the name of one node"):
                order(name)
    assert scheduler.nodes().items == before


def test_a_reason_is_one_printable_line_of_limited_length(world: World) -> None:
    scheduler, (node, _) = world.scheduler(), world.nodes
    scheduler.drain(node, "two\nlines State=RESUME \x1f\x1e $(id) " + "x" * 1000)
    told = node_of(world, node)
    assert told.drained
    assert told.reason.startswith(f"{OURS}two lines State=RESUME $(id) xxx")
    assert len(told.reason) < 250


@in_each_form
def test_a_scheduler_that_is_stopped_is_an_error_and_never_an_empty_answer(world: World) -> None:
    """L1. With slurmctld down, Slurm 22.05's `sinfo --json` exits with 0 and an empty list."""
    world.stop()
    for call, error in errors_of_all_calls(world.scheduler()).items():
        assert type(error) is SchedulerError, call
        assert not error.definite


def test_a_scheduler_that_hangs_is_given_up_in_time(world: World) -> None:
    scheduler = world.scheduler(timeout=SHORT_S)
    with world.frozen():
        began = time.monotonic()
        errors = errors_of_all_calls(scheduler)
        took_s = time.monotonic() - began
    for call, error in errors.items():
        assert type(error) is SchedulerError, call
        assert "took over 1 s" in str(error)
        assert not error.definite
    assert took_s < 2.5


def test_calls_from_several_threads_do_not_disturb_each_other(world: World) -> None:
    scheduler = world.scheduler()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: (scheduler.nodes(), scheduler.queue()), range(8)))
    assert all(answer == answers[0] for answer in answers)
