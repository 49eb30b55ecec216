"""Nodes kept idle beyond demand: `[Size X] spare_nodes`, and what goes first when room is short."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import Job, Size, Tags, WorkerState
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.plan.spares import Spares
from tests.cases import cases
from tests.core.build import LARGE, POOL, SMALL, Flight, World, incarnation_of, world
from tests.core.nodes import pinging

JOB, BIG_JOB = Job("j"), Job("big", cores=9)


def spared(small: int = 0, large: int = 0, **settings: Any) -> World:
    """An empty pool that keeps so many spare nodes of each size; nobody asks for nodes."""
    sizes = (replace(SMALL, spare_nodes=small), replace(LARGE, spare_nodes=large))
    made = world(**{"max_nodes": 9, "sizes": sizes, **settings})
    made.flags["demand"] = ()
    return made


def idle(made: World, *names: str, size: Size = SMALL) -> World:
    for name in names:
        made.add_record(name)
        tags = Tags(POOL, name, incarnation_of(name), size.name)
        made.add_node(name, size=size.instance_type, tags=tags)
    return made


def spares(made: World, size: str = "small") -> Spares:
    return made.wants.spares[size]


def reasons(made: World) -> Counter[Reason]:
    return Counter(view.verdict.reason for view in made.last.views)


def test_spare_nodes_are_booted_without_demand_d14() -> None:
    made = spared(small=2, large=1)
    made.round()
    assert made.booted == ["small", "small", "large"]
    assert {boot.reason for boot in made.last.boots} == {Reason.BELOW_SPARE_NODES}
    assert spares(made) == Spares(wanted=2, there=0, kept=2)


def test_idle_nodes_that_are_spare_are_kept_and_say_so() -> None:
    made = idle(spared(small=2), "r1", "r2", "r3")
    pinging(made, WorkerState.IDLE, 4)
    assert made.destroyed == ["i-r1"]
    assert reasons(made) == {Reason.SPARE: 2, Reason.IDLE_BEYOND_DEMAND: 1}
    assert made.of_node("i-r3").measures == {"size": "small", "spares": 3, "spare_nodes": 2}


def test_a_job_takes_a_spare_at_once_and_the_pool_refills_d14() -> None:
    """A waiting job is served by the idle node; once it runs, that node is no spare."""
    made = idle(spared(small=1), "r1")
    made.flags["demand"] = (JOB,)
    pinging(made, WorkerState.IDLE, 3)
    assert made.booted == ["small"]
    assert made.of_node("i-r1").reason is Reason.NEEDED
    made.flags["demand"] = ()
    pinging(made, WorkerState.BUSY)
    assert (made.booted, made.destroyed) == (["small"], [])


def test_what_the_queue_lacks_is_booted_before_spare_nodes() -> None:
    made = spared(small=2, max_nodes=3)
    made.flags["demand"] = (BIG_JOB,)
    made.round()
    assert made.booted == ["large", "small", "small"]


@cases(
    ("spare", "min_nodes", "booted"),
    {
        "spare-nodes-count-for-min-nodes": (2, 1, ["large", "large"]),
        "min-nodes-fills-up-with-the-cheapest": (1, 3, ["large", "small", "small"]),
    },
)
def test_spare_nodes_and_min_nodes_meet(spare: int, min_nodes: int, booted: list[str]) -> None:
    made = spared(large=spare, min_nodes=min_nodes)
    made.round()
    assert made.booted == booted


@cases(
    ("settings", "reason", "booted"),
    {
        "max-nodes": ({"max_nodes": 1}, Reason.AT_MAX_NODES, 1),
        "price": ({"max_total_price": 0.25}, Reason.AT_MAX_PRICE, 2),
    },
)
def test_no_more_spare_nodes_are_booted_than_may_be_d14(
    settings: dict[str, Any], reason: Reason, booted: int
) -> None:
    made = spared(small=3, **settings)
    made.round()
    assert made.booted == ["small"] * booted
    assert made.wants.refused == {("small", reason): 3 - booted}


@cases(
    ("settings", "flags", "given_up"),
    {
        "max-nodes": ({"max_nodes": 3}, {}, 1),
        "quota": ({}, {"limits": Limits(quota=3, quota_at=9e9)}, 1),
        "slots": ({}, {"slots": 3}, 1),
        "money": ({"max_total_price": 1.1}, {}, 2),
    },
)
def test_spare_nodes_go_first_where_something_runs_short_d14(
    settings: dict[str, Any], flags: dict[str, Any], given_up: int
) -> None:
    """A job wants a large node; as many small spares go as it needs, and none is booted."""
    made = idle(spared(small=3, **settings), "r1", "r2", "r3")
    made.flags |= {"demand": (BIG_JOB,), **flags}
    pinging(made, WorkerState.IDLE, 4)
    assert len(made.destroyed) == given_up
    assert made.booted == []
    assert spares(made).given_up == given_up


@cases(
    ("jobs", "state", "min_nodes"),
    {
        "no-job-waits-in-vain": ((), WorkerState.IDLE, 0),
        "busy": ((BIG_JOB,), WorkerState.BUSY, 0),
        "min-nodes-needs-them": ((BIG_JOB,), WorkerState.IDLE, 3),
    },
)
def test_no_spare_goes_for_room_that_nobody_wants_or_that_is_busy_or_needed_d14(
    jobs: tuple[Job, ...], state: WorkerState, min_nodes: int
) -> None:
    made = idle(spared(small=3, max_nodes=3, min_nodes=min_nodes), "r1", "r2", "r3")
    made.flags["demand"] = jobs
    pinging(made, state, 4)
    assert made.destroyed == []


def test_a_node_that_goes_already_is_room_enough() -> None:
    made = idle(spared(small=2, max_nodes=3), "r1", "r2", "r3")
    made.flags["demand"] = (BIG_JOB,)
    pinging(made, WorkerState.IDLE, 4)
    assert made.destroyed == ["i-r1"]
    made.flags["node_flights"] = {"i-r1": Flight("shutdown:idle", made.now)}
    pinging(made, WorkerState.IDLE)
    assert made.destroyed == []
    assert spares(made) == Spares(wanted=2, there=2, kept=2)


def test_the_dearest_spare_goes_first() -> None:
    made = idle(spared(small=1, large=1, max_nodes=3), "r1")
    idle(made, "r2", size=LARGE)
    idle(made, "r3")
    made.ping("r3", WorkerState.BUSY)
    huge = Size("huge", "t.huge", cores=99, ram_mb=1, price=9.0)
    made.with_settings(sizes=(*made.settings.sizes, huge))
    made.flags["demand"] = (Job("huge", cores=50),)
    for _ in range(4):
        made.advance(30.0)
        for name, state in (("r1", "idle"), ("r2", "idle"), ("r3", "busy")):
            made.ping(name, WorkerState(state))
        made.poll()
        made.plan()
    assert made.destroyed == ["i-r2"]


def test_where_max_nodes_was_lowered_spare_nodes_go_before_wanted_ones() -> None:
    made = idle(spared(large=1), "r1")
    idle(made, "r2", size=LARGE)
    made.flags["demand"] = (JOB,)
    pinging(made, WorkerState.IDLE, 3)
    assert made.destroyed == []
    made.reload(max_nodes=1)
    pinging(made, WorkerState.IDLE, 2)
    assert made.destroyed == ["i-r2"]


def test_no_spare_set_up_is_withdrawn_as_needless() -> None:
    made = spared(small=2)
    for name in ("r1", "r2", "r3"):
        made.add_record(name, pinged=False)
    made.round()
    assert made.wants.needless == {"small": 1}
    made.flags["demand"] = (BIG_JOB,)
    made.with_settings(max_nodes=3)
    made.round()
    assert made.wants.needless == {"small": 1}
