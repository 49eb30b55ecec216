"""What a scheduler is told besides drains: jobs without a size, sizes of nodes, gone nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.model.annotations import PAUSE, Mark
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import (
    OURS,
    SEAT,
    Dispatched,
    ErrandOutcome,
    SchedulerNode,
    SchedulerVerb,
)
from nodemanager.core.model.world import Job
from nodemanager.core.observe.snapshot import Flight, Limits
from nodemanager.core.plan.errands import (
    ERRANDS_LIMIT,
    REFUSED_AGAIN_S,
    CancelJob,
    DescribeNode,
    Errand,
    MarkGone,
    ReturnNode,
    SwitchOff,
    TellJob,
    errand_ended,
    errands_sent,
    is_still_off,
)
from tests.cases import cases
from tests.core.build import SMALL, World, world
from tests.core.nodes import BUSY, DOWN, IDLE, UNKNOWN

HOST = "compute1"
SIZE = replace(SMALL, price=0.1, features=("ssd",))
OTHER = replace(SMALL, name="other", instance_type="other", price=0.2, features=("rack2", "ssd"))
NAMES = tuple(dict.fromkeys(f"instancetype={name}" for name in (SIZE.name, SIZE.instance_type)))
AS_IT_SHOULD = SchedulerNode(HOST, BUSY, features=("rack1", "ssd", *NAMES), weight=100, cores=4)
HUGE = Job("9", cores=512)
DONE, FAILED, REFUSED = ErrandOutcome.DONE, ErrandOutcome.FAILED, ErrandOutcome.REFUSED


def scheduled(**settings: Any) -> World:
    """One busy node whose weight and features are those of its size."""
    values = {"max_nodes": 8, "sizes": (SIZE, OTHER), "scheduler_can": frozenset(SchedulerVerb)}
    made = world(scheduled=True, demand_polled=True, **values | settings)
    made.add_record("r1", quiet=100.0)
    made.add_node("r1", size=SIZE.instance_type)
    made.poll()
    return made


def told(made: World, *nodes: SchedulerNode, jobs: tuple[Job, ...] = (), **flags: Any) -> Any:
    """The errands of a plan after one more round of polls, in which all nodes ping."""
    made.advance(30.0)
    for one in made.records:
        if one.first_ping_at is not None:
            made.ping(one.uuid)
    made.poll()
    made.poll_scheduler(*(nodes or (AS_IT_SHOULD,)), jobs=jobs)
    return made.plan(**flags).errands


def ended(made: World, errand: Errand, outcome: ErrandOutcome) -> None:
    dispatched = made.flags.get("dispatched", Dispatched())
    made.flags["dispatched"] = errand_ended(dispatched, errand, outcome, made.now)


# Jobs that no size can run.


def test_a_job_is_told_why_once_for_each_cause_u12() -> None:
    made = scheduled()
    (tell,) = told(made, jobs=(Job("7"), HUGE))
    assert isinstance(tell, TellJob)
    assert (tell.job, tell.reason) == ("9", Reason.NO_FITTING_SIZE)
    assert tell.text.startswith(OURS)
    assert "cores=512" in tell.text
    ended(made, tell, DONE)
    assert told(made, jobs=(HUGE,)) == ()
    (again,) = told(made, jobs=(Job("9", count=99),))
    assert again.reason is Reason.JOB_OVER_MAX_NODES
    assert "99 nodes" in again.text


def test_an_array_is_told_once_for_all_its_tasks() -> None:
    made = scheduled()
    tasks = tuple(replace(HUGE, id=f"9_{number}", array="9") for number in range(50))
    assert [one.job for one in told(made, jobs=tasks)] == ["9"]


def test_no_more_is_told_at_once_than_a_poll_can_wait_for() -> None:
    made = scheduled()
    jobs = tuple(replace(HUGE, id=str(number)) for number in range(100))
    first = told(made, jobs=jobs)
    assert len(first) == ERRANDS_LIMIT
    made.flags["dispatched"] = errands_sent(Dispatched(), first, jobs, made.now)
    assert not {one.job for one in told(made, jobs=jobs)} & {one.job for one in first}


@cases(
    ("settings", "job", "cancels"),
    {
        "nobody-asked-for-it": ({}, HUGE, False),
        "no-size": ({"cancel_unsatisfiable": True}, HUGE, True),
        "too-many": ({"cancel_unsatisfiable": True}, Job("9", count=9), True),
        "too-dear-for-now": (
            {"cancel_unsatisfiable": True, "max_total_price": 0.3},
            Job("9", count=5),
            False,
        ),
        "it-cannot": (
            {"cancel_unsatisfiable": True, "scheduler_can": frozenset({SchedulerVerb.COMMENT})},
            HUGE,
            False,
        ),
    },
)
def test_a_job_is_cancelled_only_where_that_is_asked_for_and_waiting_mends_nothing(
    settings: dict[str, Any], job: Job, cancels: bool
) -> None:
    made = scheduled(**settings)
    (tell,) = told(made, jobs=(job,))
    ended(made, tell, DONE)
    assert told(made, jobs=(job,)) == ()
    made.advance(made.settings.settle)
    expected = (CancelJob("9", tell.reason),) if cancels else ()
    assert told(made, jobs=(job,)) == expected


@pytest.mark.parametrize("outcome", [None, FAILED, REFUSED])
def test_a_job_is_not_cancelled_before_its_owner_was_told(outcome: ErrandOutcome | None) -> None:
    made = scheduled(cancel_unsatisfiable=True)
    (tell,) = told(made, jobs=(HUGE,))
    if outcome is not None:
        ended(made, tell, outcome)
    for _ in range(20):
        assert not [one for one in told(made, jobs=(HUGE,)) if isinstance(one, CancelJob)]


@cases(
    ("node", "cancels"),
    {
        "large-enough": (SchedulerNode("static1", BUSY, cores=512), False),
        "of-unknown-size": (SchedulerNode("static1", IDLE, cores=None), False),
        "too-small": (SchedulerNode("static1", IDLE, cores=4), True),
        "down": (SchedulerNode("static1", DOWN, cores=512), True),
        "ours": (replace(AS_IT_SHOULD, cores=512), True),
    },
)
def test_a_job_that_another_node_may_run_is_not_cancelled(
    node: SchedulerNode, cancels: bool
) -> None:
    made = scheduled(cancel_unsatisfiable=True)
    nodes = (node,) if node.name == HOST else (AS_IT_SHOULD, node)
    (tell,) = told(made, *nodes, jobs=(HUGE,))
    ended(made, tell, DONE)
    made.advance(made.settings.settle)
    assert bool(told(made, *nodes, jobs=(HUGE,))) is cancels


# Nodes.


def test_a_node_is_described_only_while_it_differs() -> None:
    made = scheduled()
    assert told(made) == ()
    (describe,) = told(made, replace(AS_IT_SHOULD, weight=5))
    assert describe == DescribeNode(HOST, 100, (*NAMES, "ssd"), ("rack2",))
    others = ("rack1", "instancetype=large", "rack2")
    (describe,) = told(made, replace(AS_IT_SHOULD, features=others))
    assert describe.drop == ("rack2",)
    made.flags["dispatched"] = errands_sent(Dispatched(), (describe,), (), made.now)
    assert told(made, replace(AS_IT_SHOULD, weight=5)) == ()


def test_a_size_without_a_price_leaves_the_weight_as_it_is() -> None:
    made = scheduled(sizes=(replace(SIZE, price=None),))
    assert told(made, replace(AS_IT_SHOULD, weight=77)) == ()


def test_a_node_that_is_not_ours_or_held_is_not_described() -> None:
    made = scheduled()
    assert told(made, AS_IT_SHOULD, SchedulerNode("static1", IDLE, weight=5)) == ()
    made.change("r1", held=True)
    assert told(made, replace(AS_IT_SHOULD, weight=5)) == ()


@cases(
    "flags",
    {
        "no-lease": {"lease": False},
        "read-only": {"read_only": "disk"},
        "paused": {"pool_marks": {PAUSE: Mark("me", 0.0, "why")}},
    },
)
def test_who_may_not_write_tells_nothing(flags: dict[str, Any]) -> None:
    made = scheduled()
    assert told(made, replace(AS_IT_SHOULD, weight=5), jobs=(HUGE,), **flags) == ()


def test_what_failed_is_tried_again_later_and_what_was_refused_much_later() -> None:
    wrong = replace(AS_IT_SHOULD, weight=5)
    for outcome, wait_s in ((FAILED, 300.0), (REFUSED, REFUSED_AGAIN_S), (DONE, 300.0)):
        made = scheduled()
        (describe,) = told(made, wrong)
        ended(made, describe, outcome)
        assert told(made, wrong) == ()
        made.advance(wait_s)
        assert told(made, wrong) == (describe,)


# Nodes that are gone.


def freed() -> World:
    """The record of a node that vanished was freed; another one pings."""
    made = scheduled()
    made.add_record("r2", quiet=1.0, hostname="compute2")
    made.add_node("r2", size=SIZE.instance_type)
    told(made)
    made.drop_node("i-r1")
    made.free("r1")
    return made


LEFT = SchedulerNode(HOST, BUSY, responds=False)
TWO = replace(AS_IT_SHOULD, name="compute2")


@cases(
    ("node", "marks"),
    {
        "its-job-hangs-there": (LEFT, True),
        "idle-and-not-responding": (replace(LEFT, state=UNKNOWN), True),
        "down-and-drained-by-us": (
            SchedulerNode(HOST, DOWN, draining=True, reason=f"{OURS}to be shut down"),
            True,
        ),
        "down-already": (SchedulerNode(HOST, DOWN), False),
        "it-responds": (SchedulerNode(HOST, BUSY), False),
        "drained-by-somebody-else": (replace(LEFT, draining=True, reason="disk"), False),
        "reserved": (replace(LEFT, reserved=True), False),
        "never-ours": (replace(LEFT, name="compute9"), False),
    },
)
def test_a_node_whose_record_is_free_is_marked_down_where_it_left_a_state(
    node: SchedulerNode, marks: bool
) -> None:
    made = freed()
    assert told(made, TWO, node) == ((MarkGone(HOST, "r1"),) if marks else ())


def _of_another(made: World) -> None:
    made.change("r2", hostname=HOST)


def _a_seat(made: World) -> None:
    """It is switched off instead."""
    made.change("r1", properties={SEAT: HOST})


def _unlisted(made: World) -> None:
    """The listing may be short: the record may have another node by now, and that node a job."""
    made.records[:] = [one for one in made.records if one.uuid != "r1"]


def _alive_after_all(made: World) -> None:
    """Its job runs on; the scheduler would queue it again beside it (U8)."""
    key, life = next(iter(made.history.freed.items()))
    made.history = replace(made.history, freed={key: replace(life, reported_at=made.now)})


def _written_to(made: World) -> None:
    made.flags["record_flights"] = {"r1": Flight("setup", made.now)}


def _breaker_open(made: World) -> None:
    made.breaker = Breaker(Cause.WRITES_FAIL)


@pytest.mark.parametrize(
    "but", [_of_another, _a_seat, _unlisted, _alive_after_all, _written_to, _breaker_open]
)
def test_a_name_is_not_marked_down_that_may_be_anybodys_by_now_u8_b2(
    but: Callable[[World], None],
) -> None:
    made = freed()
    but(made)
    assert not [one for one in told(made, TWO, LEFT) if isinstance(one, MarkGone)]


def test_listings_from_before_the_clean_do_not_count() -> None:
    made = freed()
    made.poll_scheduler(TWO, LEFT)
    made.plan()
    assert not [one for one in made.last.errands if isinstance(one, MarkGone)]


def test_a_scheduler_listing_from_before_the_clean_marks_nothing_t6() -> None:
    """The records were listed after the clean, the scheduler before it."""
    made = scheduled()
    made.add_record("r2", quiet=1.0, hostname="compute2")
    made.add_node("r2", size=SIZE.instance_type)
    told(made)
    made.poll_scheduler(TWO, LEFT)
    made.drop_node("i-r1")
    made.free("r1")
    made.advance(1.0)
    made.poll()
    assert made.plan().errands == ()


# Names that the scheduler gave up.


def given_up(**record: Any) -> World:
    """The free record r1 is the seat HOST, and r2's node works."""
    made = freed()
    made.change("r1", properties={SEAT: HOST}, **record)
    return made


NOT_COME = SchedulerNode(HOST, DOWN, responds=False, suspended=True, given_up=True)


def returned(made: World, *nodes: SchedulerNode, **flags: Any) -> list[ReturnNode]:
    return [one for one in told(made, TWO, *nodes, **flags) if isinstance(one, ReturnNode)]


def test_a_name_that_was_given_up_and_is_free_is_resumed_and_again_if_that_failed() -> None:
    made = given_up()
    (errand,) = returned(made, NOT_COME)
    assert errand.log_fields == {"action": "resume", "host": HOST, "record": "r1"}
    ended(made, errand, FAILED)
    assert returned(made, NOT_COME) == []
    made.advance(made.settings.max_poll_time)
    assert returned(made, NOT_COME) == [errand]
    ended(made, errand, REFUSED)
    assert returned(made, NOT_COME) == []
    made.advance(made.settings.boot_fail_after)
    assert returned(made, NOT_COME) == [errand]


@cases(
    "record",
    {
        "a-claim-holds-it": {"slot_number": 1, "hostname": HOST},
        "unreadable": {"problems": ("its claim can't be read",)},
        "held": {"held": True},
    },
)
def test_a_name_whose_record_is_not_free_is_left_alone(record: dict[str, Any]) -> None:
    made = given_up(**record)
    assert returned(made, NOT_COME) == []


LATE = replace(AS_IT_SHOULD, state=DOWN, reason=f"{OURS}destroyed")


def test_a_node_that_we_called_gone_and_that_answers_is_resumed() -> None:
    """The order was about the node of that name before, and came late (seed 992000243)."""
    (errand,) = told(scheduled(), LATE)
    assert errand.log_fields == {"action": "resume", "host": HOST, "record": "r1"}


@cases(
    ("node", "flags"),
    {
        "no-slurmd-answers": (replace(LATE, responds=False), {}),
        "somebody-else-did": (replace(LATE, reason="bad disk"), {}),
        "we-are-at-it": (LATE, {"record_flights": {"r1": Flight("clean", 0.0)}}),
    },
)
def test_no_other_node_that_is_down_is_resumed(node: SchedulerNode, flags: dict[str, Any]) -> None:
    assert told(scheduled(), node, **flags) == ()


@cases(
    ("node", "flags"),
    {
        "an-operator-called-it-down": (replace(NOT_COME, given_up=False), {}),
        "held": (NOT_COME, {"holds": frozenset({"r1"})}),
        "breaker-b2": (NOT_COME, {"breaker": Breaker(Cause.WRITES_FAIL)}),
    },
)
def test_no_other_name_that_was_given_up_is_resumed(
    node: SchedulerNode, flags: dict[str, Any]
) -> None:
    assert returned(given_up(), node, **flags) == []
    assert returned(freed(), NOT_COME) == [], "a registry's record is no seat"


def test_a_name_of_other_partitions_is_another_managers_matter_t3() -> None:
    assert returned(given_up(), replace(NOT_COME, elsewhere=True)) == []
    drained = replace(NOT_COME, given_up=False, draining=True, reason=f"{OURS}to be shut down")
    assert switched_off(given_up(), drained) != []
    assert switched_off(given_up(), replace(drained, elsewhere=True)) == []


# What is known of them.


def test_what_a_job_was_told_is_known_as_long_as_it_waits() -> None:
    tell, describe = TellJob("9", "why", Reason.NO_FITTING_SIZE), DescribeNode(HOST, 5, ())
    books = errand_ended(Dispatched(), tell, DONE, 0.0)
    books = errand_ended(books, describe, DONE, 0.0)
    late = REFUSED_AGAIN_S + 1.0
    assert errands_sent(books, (), (HUGE,), 1.0) == books
    assert errands_sent(books, (), (HUGE,), late).errands.keys() == {tell.key}
    assert errands_sent(books, (), (Job("8"),), late).errands == {}
    assert errands_sent(books, (), None, late).errands.keys() == {tell.key}


# Seats whose machine is gone, or does not come.


def switched_off(made: World, *nodes: SchedulerNode, **flags: Any) -> list[SwitchOff]:
    return [one for one in told(made, TWO, *nodes, **flags) if isinstance(one, SwitchOff)]


DRAINED_OFF = SchedulerNode(
    HOST, UNKNOWN, draining=True, reason=f"{OURS}to be shut down", suspended=True, responds=False
)
WANTED = SchedulerNode(HOST, UNKNOWN, suspended=True, responds=False, wanted=True)


@cases(
    ("node", "is_told"),
    {
        "off-and-drained-by-us": (DRAINED_OFF, True),
        "silent-and-drained-by-us": (replace(DRAINED_OFF, suspended=False), True),
        "drained-by-somebody-else": (replace(DRAINED_OFF, reason="disk"), False),
        "it-responds": (replace(DRAINED_OFF, suspended=False, responds=True), False),
        "reserved": (replace(DRAINED_OFF, reserved=True), False),
        "silent": (LEFT, False),
        "wanted-by-the-scheduler": (WANTED, False),
    },
)
def test_a_free_seat_that_our_drain_has_outlived_is_switched_off_d16(
    node: SchedulerNode, is_told: bool
) -> None:
    made = given_up()
    found = switched_off(made, node)
    assert found == ([SwitchOff(HOST, "r1")] if is_told else [])
    assert all(is_still_off(one, node) for one in found)
    assert is_told is is_still_off(SwitchOff(HOST, "r1"), node)
    held = given_up(slot_number=1, hostname=HOST)
    assert switched_off(held, node) == []


def released(made: World, *, why: Reason = Reason.CREATE_REFUSED) -> str:
    """The claim of r1's last life was released; gives that life's key."""
    (life,) = made.history.freed.values()
    made.history = changed(made.history, freed={life.key: replace(life, why=why.value)})
    return life.key


NO_ROOM = Limits(resting={SIZE.name: 1e9})


def test_what_waits_for_a_machine_that_the_cloud_refused_is_queued_again_once() -> None:
    made = given_up()
    life = released(made)
    (errand,) = switched_off(made, WANTED, limits=NO_ROOM)
    assert errand == SwitchOff(HOST, "r1", life)
    assert errand.log_fields == {"action": "power_down", "host": HOST, "record": "r1"}
    assert is_still_off(errand, WANTED)
    assert not is_still_off(errand, replace(WANTED, wanted=False))
    ended(made, errand, DONE)
    made.advance(made.settings.max_poll_time)
    assert switched_off(made, WANTED, limits=NO_ROOM) == []


@cases(
    ("why", "limits", "wait_s"),
    {
        "withdrawn-and-not-refused": (Reason.CREATE_REFUSED, Limits(), 0.0),
        "its-node-had-come": (Reason.STALE_SLOT, NO_ROOM, 0.0),
        "long-after-the-refusal": (Reason.CREATE_REFUSED, NO_ROOM, 601.0),
    },
)
def test_what_waits_for_any_other_machine_is_left_waiting_u14(
    why: Reason, limits: Limits, wait_s: float
) -> None:
    made = given_up()
    released(made, why=why)
    made.advance(wait_s)
    assert switched_off(made, WANTED, limits=limits) == []
