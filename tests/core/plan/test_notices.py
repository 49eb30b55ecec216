"""What a plan tells an operator of slots that nothing frees and records that nobody needs."""

from __future__ import annotations

from typing import Any

from nodemanager.core.model.reasons import POOL, RECORD, Event, Outlook, Reason
from nodemanager.core.model.scheduling import SEAT
from nodemanager.core.plan.summary import UNUSED_LIMIT, Notice
from tests.cases import cases
from tests.core.build import World, cleaned, world

WINDOW = 7200.0
WEEK_S = 7 * 86_400.0


def notices_of(made: World) -> dict[Reason, Notice]:
    return {one.reason: one for one in made.last.notices}


def stocked(count: int, **options: Any) -> World:
    """A pool with so many records that hold nothing."""
    made = world(**options)
    made.records += [cleaned(f"r{number}", at=made.store_now - 1e6) for number in range(count)]
    made.settle()
    return made


def test_slots_whose_nodes_nobody_can_ask_about_are_told_with_their_command_c11() -> None:
    made = world(node_stale_after=WINDOW)
    for slot in (3, 7):
        made.add_record(f"r{slot}", quiet=9000.0, slot=slot, claimed=False, instance_id=None)
    made.add_record("r9", quiet=100.0, slot=9, claimed=False, instance_id=None)
    made.settle()
    notice = notices_of(made)[Reason.UNVERIFIABLE]
    assert (notice.event, notice.count, notice.slots) == (Event.SLOTS_STUCK, 2, (3, 7))
    assert "nodemanager clean SLOT --force unverifiable" in notice.clear


def test_a_record_that_names_no_pool_and_is_nobodys_is_told_t3() -> None:
    made = world(node_stale_after=WINDOW, adopt_unclaimed=False)
    made.add_record("r1", quiet=9000.0, pool=None, claimed=False)
    made.settle()
    notice = notices_of(made)[Reason.UNCLAIMED_POOL]
    assert (notice.count, notice.slots) == (1, (1,))
    assert "adopt_unclaimed = yes" in notice.clear


def test_slots_that_time_or_an_operator_frees_are_not_told() -> None:
    made = world(node_stale_after=WINDOW)
    made.add_record("r1", quiet=100.0)
    made.add_record("r2", quiet=9000.0, slot=2)
    made.flags["holds"] = frozenset({"r2"})
    made.settle()
    assert notices_of(made) == {}


def test_each_cause_that_only_a_person_ends_has_its_words() -> None:
    stuck = {one for one in Reason if one.outlooks.get(RECORD) is Outlook.STUCK}
    told_of_the_pool = {one for one in Reason if one.outlooks.get(POOL) is Outlook.STUCK}
    told_of_the_pool -= {Reason.IMPOSSIBLE}
    # Verify leaves it to the other pool's manager, which there may not be.
    with_words = {one for one in Reason if one.row.frees}
    assert with_words == stuck - told_of_the_pool | {Reason.UNCLAIMED_POOL}


@cases(
    ("count", "told"),
    {"at-the-edge": (8 + UNUSED_LIMIT, False), "just-past": (9 + UNUSED_LIMIT, True)},
)
def test_far_more_unused_records_than_max_nodes_are_told(count: int, told: bool) -> None:
    made = stocked(count, max_nodes=8)
    assert (Reason.UNUSED_RECORDS in notices_of(made)) is told
    if told:
        notice = notices_of(made)[Reason.UNUSED_RECORDS]
        assert (notice.event, notice.count, notice.limit) == (Event.RECORDS_SURPLUS, count, 8)
        assert "prune_after = 7d" in notice.clear


def test_a_store_that_can_not_compare_is_told_how_they_go_by_hand_c12() -> None:
    made = stocked(300, max_nodes=8, compare_and_set=False, prune_after=WEEK_S)
    assert "doc/arvados" in notices_of(made)[Reason.UNUSED_RECORDS].clear


def test_records_that_are_being_deleted_are_not_told() -> None:
    assert notices_of(stocked(300, max_nodes=8, prune_after=WEEK_S)) == {}


def test_another_pools_records_are_not_counted_t3() -> None:
    made = world(max_nodes=8)
    made.records += [
        cleaned(f"r{number}", at=made.store_now - 1e6, pool="other") for number in range(300)
    ]
    made.settle()
    assert notices_of(made) == {}


def test_the_schedulers_own_nodes_are_never_too_many_records() -> None:
    made = world(max_nodes=8, seats=True)
    made.records += [
        cleaned(f"r{number}", at=made.store_now - 1e6, properties={SEAT: f"cloud{number}"})
        for number in range(300)
    ]
    made.settle()
    assert notices_of(made) == {}
