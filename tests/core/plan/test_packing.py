"""Small jobs share nodes as their scheduler would put them (U12): no node more, and none less."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import mock
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.world import Job, Shape, Size, Unserved, WorkerState
from nodemanager.core.plan.packing import Least, Packing, _Room, least_of
from tests.cases import cases
from tests.core.build import LARGE, SMALL, World, world

GPU = replace(LARGE, name="gpu", instance_type="t.gpu", price=2.0, gres=(("gpu", 4),))


def task(id: object = "t", **asked: Any) -> Job:
    """A job of one core that shares its node."""
    return Job(str(id), shares=True, **asked)


def tasks(count: int, **asked: Any) -> tuple[Job, ...]:
    return tuple(task(number, **asked) for number in range(count))


def wanting(*jobs: Job, **settings: Any) -> World:
    made = world(**{"max_nodes": 99, "sizes": (LARGE,), **settings})
    made.flags["demand"] = jobs
    made.round()
    return made


def told(made: World) -> dict[str, Reason]:
    return {one.id: one.reason for one in made.wants.unsatisfiable}


@cases(
    ("jobs", "nodes"),
    {
        "forty-tasks-beside-a-plain-job": ((*tasks(40), Job("plain")), 4),
        "that-do-not-share": (tuple(Job(str(n)) for n in range(40)), 40),
        "just-full": (tasks(16), 1),
        "one-too-many": (tasks(17), 2),
        "memory": (tasks(4, ram_mb=30_000), 2),
        "more-than-half": (tasks(6, cores=9), 6),
        "first-fit": ((task(1, cores=9), task(2, cores=7), task(3)), 2),
        "of-several-nodes": ((task(1, cores=4, count=3), *tasks(36)), 3),
        "each-share-on-another-node": ((*tasks(3), task("m", count=2)), 2),
        "none-beside-a-whole-node": ((task(1, cores=16), Job("2"), *tasks(15)), 3),
    },
)
def test_jobs_that_share_are_packed_in_the_order_of_the_queue(
    jobs: tuple[Job, ...], nodes: int
) -> None:
    assert len(wanting(*jobs).booted) == nodes


def test_what_is_counted_is_shared_too() -> None:
    asked = {"gres": (("gpu", 2),), "cores": 2}
    assert wanting(*tasks(5, **asked), sizes=(GPU,)).booted == ["gpu"] * 3


def test_a_small_job_goes_beside_a_large_one_and_boots_no_node_of_its_own() -> None:
    made = wanting(task("large", cores=9), task("small"), sizes=(SMALL, LARGE))
    assert made.booted == ["large"]


@cases(
    ("beside", "booted"),
    {
        "another-size-is-named": ({"instance_type": "t.small"}, ["large", "small"]),
        "another-feature": ({"features": (("ssd",),)}, ["large", "small"]),
        "enough-disk": ({"scratch_mb": 10}, ["large"]),
    },
)
def test_it_goes_only_where_its_size_would_serve_it(
    beside: dict[str, Any], booted: list[str]
) -> None:
    sizes = (replace(SMALL, features=("ssd",)), LARGE)
    assert wanting(task("large", cores=9), task("t", **beside), sizes=sizes).booted == booted


def test_a_job_that_is_not_preemptible_does_not_go_beside_one_that_is() -> None:
    spot = replace(LARGE, name="spot", instance_type="t.spot", price=0.01, preemptible=True)
    jobs = (task("p", preemptible=True), task("t"))
    assert wanting(*jobs, sizes=(spot, LARGE)).booted == ["spot", "large"]
    assert wanting(*reversed(jobs), sizes=(spot, LARGE)).booted == ["large"]


def test_unknown_memory_is_given_to_one_job() -> None:
    bare = replace(SMALL, ram_mb=0)
    assert wanting(*tasks(2, ram_mb=10), sizes=(bare,)).booted == ["small"] * 2
    assert wanting(*tasks(2), sizes=(bare,)).booted == ["small"]


def test_booting_and_idle_nodes_have_room_as_new_ones_would() -> None:
    """Else each plan would boot again what the plan before booted."""
    made = wanting(*tasks(40))
    assert len(made.booted) == 3
    for number in range(1, 4):
        made.add_record(f"r{number}", quiet=1.0, slot=number, pinged=False)
    made.round()
    assert made.booted == []
    for number in range(1, 4):
        made.add_node(f"r{number}", size="t.large")
        made.ping(f"r{number}", WorkerState.IDLE)
    plan = made.round()
    assert made.booted == []
    assert plan.wants is not None
    assert (plan.wants.wishlist, plan.wants.unwanted) == (3, frozenset())


def scheduled(*nodes: SchedulerNode, jobs: tuple[Job, ...], **settings: Any) -> World:
    made = world(
        **{"scheduled": True, "demand_polled": True, "max_nodes": 99, "sizes": (LARGE,)} | settings
    )
    made.poll()
    made.poll_scheduler(*nodes, jobs=jobs)
    made.plan()
    return made


def test_a_node_has_no_more_than_the_scheduler_believes() -> None:
    """The nodes of slurm.conf may have what the smallest size has."""
    down = WorkerState.DOWN
    few = SchedulerNode("compute1", down, cores=4, ram_mb=60_000)
    assert len(scheduled(few, jobs=tasks(8)).booted) == 2
    little = SchedulerNode("compute1", down, cores=16, ram_mb=1000)
    assert len(scheduled(little, jobs=tasks(6, ram_mb=500)).booted) == 3


def test_least_is_of_each_resource_by_itself() -> None:
    down = WorkerState.DOWN
    nodes = [SchedulerNode("a", down, cores=4), SchedulerNode("b", down, cores=8, ram_mb=9)]
    assert least_of(nodes) == Least(4, 9)
    assert least_of([]) == Least()


def filling(busy_s: float, node: SchedulerNode, *jobs: Job, **settings: Any) -> World:
    """compute1 turned busy so many seconds before the poll that found those jobs waiting."""
    made = world(
        **{"scheduled": True, "demand_polled": True, "max_nodes": 9, "sizes": (LARGE,)} | settings
    )
    made.add_record("r1", quiet=1.0, hostname="compute1")
    made.add_node("r1", size="t.large")
    made.ping("r1")
    made.poll()
    asked_at = made.now + busy_s
    made.poll_scheduler(node, jobs=jobs)
    made.ping("r1")
    made.poll()
    made.now = asked_at
    made.poll_scheduler(node, jobs=jobs)
    made.plan()
    return made


BUSY_ONE = SchedulerNode("compute1", WorkerState.BUSY, free_cores=9, free_ram_mb=1000)


@cases(
    ("changes", "jobs", "booted"),
    {
        "they-fit": ({}, tasks(9), 0),
        "one-too-many": ({}, tasks(10), 1),
        "too-much-memory": ({}, tasks(2, ram_mb=600), 1),
        "one-that-does-not-share": ({}, (Job("alone"),), 1),
        "not-on-that-node": ({}, (task("t", not_on=("compute1",)),), 1),
        "nobody-tells": ({"free_cores": None}, tasks(1), 1),
        "full": ({"free_cores": 0}, tasks(1), 1),
        "drained": ({"draining": True, "reason": "disk"}, tasks(1), 1),
        "reserved": ({"reserved": True}, tasks(1), 1),
        "never-more": ({"free_cores": 99, "free_ram_mb": 999_999}, tasks(17), 1),
    },
)
def test_a_node_that_turned_busy_lately_still_fills(
    changes: dict[str, Any], jobs: tuple[Job, ...], booted: int
) -> None:
    """Slurm gives out an array in several passes; a node booted in between would be for nobody."""
    assert len(filling(10.0, replace(BUSY_ONE, **changes), *jobs).booted) == booted


@pytest.mark.parametrize(("busy_s", "booted"), [(60.0, 0), (60.2, 1)])
def test_what_waits_beside_room_for_a_minute_gets_a_node_of_its_own(
    busy_s: float, booted: int
) -> None:
    """It waits for something else than that room, whatever its scheduler does not tell."""
    assert len(filling(busy_s, BUSY_ONE, task("t")).booted) == booted


@pytest.mark.parametrize(("planned", "booted"), [(True, 1), (False, 2)])
def test_a_node_that_is_kept_for_a_job_of_several_nodes_serves_it(
    planned: bool, booted: int
) -> None:
    """It is not known to be idle, but is no lack."""
    kept = SchedulerNode("compute1", WorkerState.UNKNOWN, planned=planned)
    made = filling(10.0, kept, Job("j", count=2))
    assert len(made.booted) == booted
    assert made.destroyed == []


def test_room_for_what_is_counted_is_not_believed() -> None:
    asked = task("t", gres=(("gpu", 1),))
    assert len(filling(10.0, BUSY_ONE, asked, sizes=(GPU,)).booted) == 1


# Jobs that name nodes, or leave some out.


def test_a_job_on_a_node_that_is_there_boots_none_and_is_not_told() -> None:
    busy = SchedulerNode("compute1", WorkerState.BUSY)
    made = scheduled(busy, jobs=(Job("j", on=("compute1",)),))
    assert (made.booted, told(made)) == ([], {})


@pytest.mark.parametrize(
    "nodes", [(), (SchedulerNode("c7", WorkerState.DOWN),)], ids=["unknown", "down"]
)
def test_a_job_on_a_node_that_is_not_there_is_told_and_boots_none(
    nodes: tuple[SchedulerNode, ...],
) -> None:
    made = scheduled(*nodes, jobs=(Job("j", on=("c7",)), Job("other")))
    assert made.booted == ["large"]
    assert told(made) == {"j": Reason.JOB_TIED}


def test_a_job_that_names_some_of_its_nodes_gets_the_others() -> None:
    busy = SchedulerNode("compute1", WorkerState.BUSY)
    made = scheduled(busy, jobs=(Job("j", count=3, on=("compute1",)),))
    assert made.booted == ["large"] * 2


def idle_nodes(*jobs: Job) -> World:
    """compute1 and compute2 are idle, and those jobs wait."""
    made = world(scheduled=True, demand_polled=True, max_nodes=9, sizes=(LARGE,))
    for number in (1, 2):
        made.add_record(f"r{number}", quiet=1.0, hostname=f"compute{number}")
        made.add_node(f"r{number}", size="t.large")
        made.ping(f"r{number}", WorkerState.IDLE)
    made.poll()
    idle = (SchedulerNode(f"compute{number}", WorkerState.IDLE) for number in (1, 2))
    made.poll_scheduler(*idle, jobs=jobs)
    made.plan()
    return made


@cases(
    ("jobs", "booted"),
    {
        "one-is-left-out": ((Job("j", not_on=("compute1",)),), 0),
        "both-are-left-out": ((Job("j", not_on=("compute1", "compute2")),), 1),
        "two-without-one": ((Job("j", not_on=("compute1",), count=2),), 1),
        "another-job-has-it": ((Job("a"), Job("j", not_on=("compute2",))), 1),
        "not-beside-it": ((task("a"), task("j", not_on=("compute1",))), 0),
        "never-beside-it": ((task("a"), Job("b"), task("j", not_on=("compute1",))), 1),
        "each-its-own": ((Job("j", on=("compute2",)), Job("a")), 0),
        "none-twice": ((Job("j", on=("compute2",)), Job("a", count=2)), 1),
    },
)
def test_a_node_that_a_job_leaves_out_does_not_serve_it(jobs: tuple[Job, ...], booted: int) -> None:
    made = idle_nodes(*jobs)
    assert len(made.booted) == booted
    assert told(made) == {}


# Ways to share out a job.


@pytest.mark.parametrize(
    ("cores", "booted"), [(16, ["large"]), (32, ["large"] * 2), (64, [])], ids=str
)
def test_a_job_is_shared_out_over_the_fewest_nodes_that_a_size_fits(
    cores: int, booted: list[str]
) -> None:
    job = Job("j", cores=cores, shapes=(Shape(2, cores // 2), Shape(3, -(-cores // 3))))
    made = wanting(job)
    assert made.booted == booted
    assert told(made) == ({} if booted else {"j": Reason.NO_FITTING_SIZE})


def test_the_fewest_nodes_of_a_range_count_for_max_nodes() -> None:
    assert wanting(Job("j", count=2), max_nodes=3).booted == ["large"] * 2
    made = wanting(Job("j", cores=64, shapes=(Shape(4, 16),)), max_nodes=3)
    assert told(made) == {"j": Reason.JOB_OVER_MAX_NODES}


@pytest.mark.parametrize("reason", [Reason.JOB_UNREADABLE, Reason.JOB_TIED, Reason.PARTITION_LIMIT])
def test_what_the_scheduler_itself_says_keeps_a_job_from_booting(reason: Reason) -> None:
    made = wanting(Job("j", unserved=Unserved(reason, "why")), Job("other"))
    assert made.booted == ["large"]
    assert told(made) == {"j": reason}


def test_more_nodes_than_the_pool_has_is_told_before_the_partitions_limit() -> None:
    limit = Unserved(Reason.PARTITION_LIMIT, "Slurm says PartitionConfig")
    assert told(wanting(Job("j", count=9, unserved=limit), max_nodes=3)) == {
        "j": Reason.JOB_OVER_MAX_NODES
    }


# Whatever the queue.

SIZES = (SMALL, LARGE, GPU)
ASKED = st.builds(
    task,
    id=st.integers(0, 10**9),
    cores=st.integers(1, 16),
    ram_mb=st.sampled_from([0, 100, 3000, 20_000, 60_000]),
    count=st.integers(1, 3),
    gres=st.sampled_from([(), (("gpu", 1),), (("gpu", 3),)]),
)


@given(st.lists(ASKED, max_size=60), st.lists(st.sampled_from(SIZES), max_size=4))
def test_every_job_has_room_on_the_nodes_that_it_was_put_on(
    queue: list[Job], spare: list[Size]
) -> None:
    """Each share on another node, and no node given out twice: else a job would starve."""
    names = {size.name for size in SIZES}
    there = Counter(one.name for one in spare)
    packing = Packing({name: [None] * there[name] for name in there}, 1.0, {}, Least())
    on_rooms: defaultdict[int, list[Job]] = defaultdict(list)
    kept, take = [], _Room.take

    def noted(room: _Room, job: Job) -> None:
        kept.append(room)
        on_rooms[id(room)].append(job)
        take(room, job)

    with mock.patch.object(_Room, "take", noted):
        for job in queue:
            left = job.count - len(packing.join(job, names, job.count))
            for size in SIZES:
                left -= len(packing.take(job, size, left)) if fits(job, size) else 0
            for _ in range(left):
                packing.open(job, GPU)
    sizes = {id(room): room.size for room in kept}
    for room, jobs in on_rooms.items():
        assert len(jobs) == len({id(job) for job in jobs}), "two shares of a job on one node"
        together = replace(
            jobs[0],
            cores=sum(job.cores for job in jobs),
            ram_mb=sum(job.ram_mb for job in jobs),
            gres=(("gpu", sum(dict(job.gres).get("gpu", 0) for job in jobs)),),
        )
        assert fits(together, sizes[room])
    assert sum(len(jobs) for jobs in on_rooms.values()) == sum(job.count for job in queue)


def fits(job: Job, size: Size) -> bool:
    gpus = dict(size.gres).get("gpu", 0)
    return (
        size.cores >= job.cores
        and size.ram_mb >= job.ram_mb
        and gpus >= dict(job.gres).get("gpu", 0)
    )
