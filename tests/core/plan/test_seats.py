"""A job for one seat boots that seat's record, and no other; none that is set aside (D16)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.execute.setup import SetUpOrder, confirm_setup, order_setup
from nodemanager.core.execute.workflow import Seen
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import SEAT, SEAT_SIZE, SchedulerNode, may_take, seat_of
from nodemanager.core.model.world import Claim, Guarantee, Job, Record, WorkerState
from nodemanager.core.plan.errands import SwitchOn
from nodemanager.core.plan.orders import BootOrder
from nodemanager.core.plan.plan import Plan
from nodemanager.core.plan.slots import SeatUse
from tests.core.build import EPOCH, LARGE, POOL, SMALL, START, Flight, World, cleaned, world


def seat(uuid: str, name: str, size: str | None = "small") -> Record:
    free = cleaned(uuid, at=EPOCH)
    return replace(
        free,
        properties={**free.properties, SEAT: name, **({SEAT_SIZE: [size]} if size else {})},
    )


def wish(host: str, size: str = "small") -> Job:
    return Job(id=f"power_up {host}", instance_type=size, host=host)


def off(name: str, **told: object) -> SchedulerNode:
    """A node that is switched off, but for what is `told` of it."""
    one = SchedulerNode(name, WorkerState.UNKNOWN, suspended=True, responds=False, off=True)
    return replace(one, **told)


def up(name: str, state: WorkerState = WorkerState.IDLE, **told: object) -> SchedulerNode:
    return replace(SchedulerNode(name, state), **told)


def wanted(name: str) -> SchedulerNode:
    return off(name, off=False, wanted=True)


def pool(*records: Record, **settings: Any) -> World:
    made = world(
        **{
            "scheduled": True,
            "demand_polled": True,
            "seats": True,
            "max_nodes": 9,
            "min_nodes": 0,
            **settings,
        }
    )
    made.records = list(records)
    return made


def planned(made: World, *nodes: SchedulerNode, jobs: tuple[Job, ...] = ()) -> Plan:
    made.advance(30.0)
    made.poll()
    made.poll_scheduler(*nodes, jobs=jobs)
    return made.plan()


def boots(plan: Plan) -> list[tuple[str, str | None]]:
    return [(one.size.name, one.record and seat_of(one.record)) for one in plan.boots]


def powered_up(plan: Plan) -> list[str]:
    return [one.node for one in plan.errands if isinstance(one, SwitchOn)]


SEATS = (seat("r0", "s1"), seat("r1", "s2"), seat("r2", "l1", "large"))
OFF = tuple(off(name) for name in ("s1", "s2", "l1"))


def test_a_boot_takes_the_record_of_its_seat_and_of_no_other():
    plan = planned(
        pool(*SEATS), off("s1"), wanted("s2"), wanted("l1"), jobs=(wish("s2"), wish("l1", "large"))
    )
    assert boots(plan) == [("small", "s2"), ("large", "l1")]
    assert powered_up(plan) == []


def test_a_seat_that_is_not_there_or_holds_something_boots_nothing():
    held = replace(seat("r0", "s1"), hostname="s1", slot_number=1, last_ping_at=1.0)
    plan = planned(pool(held, seat("r1", "s2")), *OFF, wanted("s9"), jobs=(wish("s1"), wish("s9")))
    assert boots(plan) == []


def test_a_seat_that_is_being_set_up_is_not_booted_again():
    made = pool(*SEATS)
    made.flags["record_flights"] = {"r0": Flight("setup", START)}
    assert boots(planned(made, wanted("s1"), jobs=(wish("s1"),))) == []


def test_each_wish_boots_its_own_seat_though_the_size_is_the_same():
    plan = planned(pool(*SEATS), wanted("s1"), wanted("s2"), jobs=(wish("s1"), wish("s2")))
    assert [name for _, name in boots(plan)] == ["s1", "s2"]


@pytest.mark.parametrize("lacks", ["min_nodes", "spare_nodes"])
def test_what_the_pool_lacks_is_powered_up_and_booted_once_the_scheduler_wants_it(lacks: str):
    spare = 2 if lacks == "spare_nodes" else 0
    sizes = (replace(SMALL, spare_nodes=spare), LARGE)
    made = pool(*SEATS, sizes=sizes, min_nodes=2 - spare)
    plan = planned(made, *OFF)
    assert (boots(plan), powered_up(plan)) == ([], ["s1", "s2"])
    # Slurm has been told, and takes its time.
    plan = planned(made, wanted("s1"), off("s2"), off("l1"), jobs=(wish("s1"),))
    assert (boots(plan), powered_up(plan)) == ([("small", "s1")], ["s2"])


def test_a_seat_that_the_scheduler_wants_already_is_not_told_so_again():
    """Its queue was asked a moment before its nodes."""
    plan = planned(pool(*SEATS, min_nodes=1), wanted("s1"), off("s2"))
    assert (boots(plan), powered_up(plan)) == ([], ["s2"])


ASIDE = {
    SeatUse.DRAINED: off("s1", draining=True, reason="bad disk"),
    SeatUse.RESERVED: off("s1", reserved=True),
    SeatUse.DOWN: up("s1", WorkerState.DOWN, reason="disk"),
    SeatUse.UP: up("s1", WorkerState.BUSY),
    SeatUse.CHANGING: off("s1", off=False),
    SeatUse.ELSEWHERE: off("s1", elsewhere=True),
    SeatUse.UNTOLD: None,
}


@pytest.mark.parametrize("use", ASIDE)
@pytest.mark.parametrize("lacks", ["min_nodes", "spare_nodes"])
def test_no_machine_comes_for_a_seat_that_is_up_or_set_aside_d16(use: SeatUse, lacks: str):
    spare = int(lacks == "spare_nodes")
    made = pool(SEATS[0], sizes=(replace(SMALL, spare_nodes=spare),), min_nodes=1 - spare)
    made.flags["slots"] = 1
    told = ASIDE[use]
    for _ in range(5):
        plan = planned(made, *(() if told is None else (told,)))
        assert (boots(plan), powered_up(plan)) == ([], [])
    assert plan.wants is not None
    assert plan.slots is not None
    assert plan.wants.refused == {("small", Reason.NO_FREE_SLOT): 1}
    assert (plan.slots.free, plan.slots.held_by) == (0, {use.value: 1})


def test_a_seat_of_which_the_scheduler_told_too_long_ago_is_not_powered_up():
    made = pool(SEATS[0], min_nodes=1)
    assert powered_up(planned(made, off("s1"))) == ["s1"]
    made.advance(made.settings.poll_stale_after)
    made.poll()
    assert powered_up(made.plan()) == []


def test_a_seat_that_is_up_without_a_claim_is_booted_once_slurm_wants_it_anew():
    made = pool(SEATS[0])
    assert boots(planned(made, up("s1"))) == []
    assert boots(planned(made, wanted("s1"), jobs=(wish("s1"),))) == [("small", "s1")]


def test_where_no_seat_may_be_taken_no_boot_is_left_to_the_store_u2():
    made = pool(seat("r0", "s1"), min_nodes=1, sizes=(SMALL,))
    made.flags["holds"] = frozenset({"r0"})
    plan = planned(made, off("s1"))
    assert (boots(plan), powered_up(plan)) == ([], [])
    assert plan.wants is not None
    assert plan.wants.refused == {("small", Reason.NO_FREE_SLOT): 1}
    made.flags["holds"] = frozenset()
    assert powered_up(planned(made, off("s1"))) == ["s1"]


# What is withdrawn (U14).


def set_up(made: World, uuid: str) -> SetUpOrder:
    record = made.record(uuid)
    life = Claim(POOL, "manager-1", 1, 0.0, "node", f"life-{uuid}", size="small")
    return order_setup(BootOrder(SMALL, Reason.WANTED, "p", record), life, "store-1", made.now)


def withdrawn(made: World, plan: Plan, *uuids: str) -> dict[str, Reason | None]:
    """Why the set-up of each record is withdrawn, where it asks now."""
    assert plan.wants is not None
    seen = Seen(
        made.snapshot(),
        made.settings,
        Guarantee.CAS,
        needless=plan.wants.needless,
        wished=plan.wants.wished,
    )
    blocks = {one: confirm_setup(set_up(made, one), seen, made.record(one)) for one in uuids}
    return {one: None if block is None else block[0] for one, block in blocks.items()}


def test_of_two_seats_the_one_that_is_wanted_no_more_is_withdrawn_whoever_asks_first_u14():
    made = pool(*SEATS, sizes=(SMALL,))
    planned(made, wanted("s1"), wanted("s2"), jobs=(wish("s1"), wish("s2")))
    made.flags["record_flights"] = {
        uuid: Flight("setup", made.now, f"life-{uuid}") for uuid in ("r0", "r1")
    }
    plan = planned(made, off("s1"), wanted("s2"), jobs=(wish("s2"),))
    assert withdrawn(made, plan, "r1", "r0") == {"r1": None, "r0": Reason.NO_LONGER_WANTED}


def test_a_seat_that_is_wanted_no_more_is_withdrawn_though_another_of_its_size_is_u14():
    made = pool(*SEATS, sizes=(SMALL,))
    made.flags["record_flights"] = {"r0": Flight("setup", made.now, "life-r0")}
    plan = planned(made, off("s1"), wanted("s2"), jobs=(wish("s2"),))
    assert withdrawn(made, plan, "r0") == {"r0": Reason.NO_LONGER_WANTED}
    assert boots(plan) == [("small", "s2")]


@pytest.mark.parametrize("adopt", [None, False, True])
def test_of_two_pools_each_boots_the_seats_of_its_partitions_that_nobody_had_yet_t3(adopt):
    """No record is ever made for a seat: one that waits for a pool's name would wait for ever."""
    made = pool(
        replace(SEATS[0], pool=None), replace(SEATS[1], pool="another"), adopt_unclaimed=adopt
    )
    jobs = (wish("s1"), wish("s2"))
    assert boots(planned(made, wanted("s1"), wanted("s2"), jobs=jobs)) == [("small", "s1")]
    lacking = pool(*made.records, replace(SEATS[2], pool=None), min_nodes=2, adopt_unclaimed=adopt)
    nodes = off("s1"), off("s2"), off("l1", elsewhere=True)
    assert powered_up(planned(lacking, *nodes)) == ["s1"]


@pytest.mark.parametrize("lacks", [{"min_nodes": 1}, {}])
def test_a_listing_without_any_seat_has_nothing_booted_u2(lacks: dict[str, int]):
    """The store would give the boot any seat that is off, also of a partition of others."""
    made = pool(**lacks)
    plan = planned(made, wanted("s1"), off("s2"), jobs=(wish("s1"),))
    assert (boots(plan), powered_up(plan)) == ([], [])


def test_may_take():
    assert may_take(SEATS[0], SMALL, None)
    assert may_take(SEATS[0], SMALL, "s1")
    assert not may_take(SEATS[0], SMALL, "s2")
    assert not may_take(SEATS[0], LARGE, "s1")
    assert may_take(seat("r9", "any", None), LARGE, None)
    assert may_take(SEATS[0], replace(LARGE, group=SMALL.name), "s1")
    assert may_take(cleaned("r8", at=EPOCH), LARGE, None)
    assert not may_take(cleaned("r8", at=EPOCH), LARGE, "s1")
