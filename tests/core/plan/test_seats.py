"""A job for one seat boots that seat's record, and no other (core/model/seats.py)."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.seats import SEAT, SEAT_SIZE, may_take, seat_of
from nodemanager.core.model.world import Job, Record
from nodemanager.core.plan.snapshot import LateWrite
from tests.core.build import EPOCH, LARGE, SMALL, START, Flight, World, cleaned, world


def seat(uuid: str, name: str, size: str | None = "small") -> Record:
    free = cleaned(uuid, at=EPOCH)
    return replace(
        free,
        properties={**free.properties, SEAT: name, **({SEAT_SIZE: [size]} if size else {})},
    )


def wish(host: str, size: str = "small") -> Job:
    return Job(id=f"power_up {host}", instance_type=size, host=host)


def booted(*jobs: Job, records: tuple[Record, ...]) -> tuple[World, list[tuple[str, str | None]]]:
    made = world(max_nodes=9)
    made.records = list(records)
    made.flags["demand"] = jobs
    plan = made.round()
    return made, [(one.size.name, one.record and seat_of(one.record)) for one in plan.boots]


SEATS = (seat("r0", "s1"), seat("r1", "s2"), seat("r2", "l1", "large"))


def test_a_boot_takes_the_record_of_its_seat_and_of_no_other():
    _, boots = booted(wish("s2"), wish("l1", "large"), records=SEATS)
    assert boots == [("small", "s2"), ("large", "l1")]


def test_a_seat_that_is_not_there_or_holds_something_boots_nothing():
    held = replace(seat("r0", "s1"), hostname="s1", slot_number=1, last_ping_at=1.0)
    _, boots = booted(wish("s1"), wish("s9"), records=(held, seat("r1", "s2")))
    assert boots == []


def test_a_seat_that_is_being_set_up_is_not_booted_again():
    made = world(max_nodes=9)
    made.records = list(SEATS)
    made.flags["demand"] = (wish("s1"),)
    made.flags["record_flights"] = {"r0": Flight("setup", START)}
    assert made.round().boots == ()


def test_each_wish_boots_its_own_seat_though_the_size_is_the_same():
    _, boots = booted(wish("s1"), wish("s2"), records=SEATS)
    assert [name for _, name in boots] == ["s1", "s2"]


def test_a_boot_for_no_seat_takes_one_of_its_size():
    _, boots = booted(Job(id="7", cores=1, instance_type="large"), records=SEATS)
    assert boots == [("large", "l1")]


def test_where_no_seat_may_be_taken_no_boot_is_left_to_the_store_u2():
    """Slurm would have it claimed, though a late write of ours may still hit it."""
    late = LateWrite(START)
    made = world(max_nodes=9, min_nodes=1, sizes=(SMALL,), compare_and_set=False)
    made.records = [seat("r0", "s1")]
    made.flags |= {"late": {"r0": late}, "own_cleans": frozenset({"r0"})}
    plan = made.round()
    assert plan.boots == ()
    assert plan.wants is not None
    assert plan.wants.refused == {("small", Reason.NO_FREE_SLOT): 1}
    made.flags["late"] = {}
    assert [one.record and one.record.uuid for one in made.round().boots] == ["r0"]


def test_may_take():
    assert may_take(SEATS[0], SMALL, None)
    assert may_take(SEATS[0], SMALL, "s1")
    assert not may_take(SEATS[0], SMALL, "s2")
    assert not may_take(SEATS[0], LARGE, "s1")
    assert may_take(seat("r9", "any", None), LARGE, None)
    assert may_take(cleaned("r8", at=EPOCH), LARGE, None)
    assert not may_take(cleaned("r8", at=EPOCH), LARGE, "s1")
