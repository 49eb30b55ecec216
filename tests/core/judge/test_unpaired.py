"""Nodes without their record, untagged or of others (D7, D10, D11, P2, T3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.world import CloudState, Listing, Tags, WorkerState
from nodemanager.core.observe import history as histories
from nodemanager.core.observe.snapshot import Expected
from tests.cases import cases
from tests.core.build import POOL, Job, World, node, world
from tests.core.nodes import live, pinging, silent, unpaired, verdict


def test_an_unpaired_node_is_held_until_boot_fail_after_has_passed_d7_d10() -> None:
    made = unpaired()
    made.round()
    began = made.now
    while made.of_node("i-r1").kind is Kind.KEEP and made.now < began + 4000.0:
        assert made.of_node("i-r1").reason is Reason.UNPAIRED_WITHIN_WINDOW
        made.advance(50.0)
        made.round()
    assert made.of_node("i-r1").reason is Reason.UNPAIRED
    assert made.now - began > 1800.0
    assert made.now - began < 2000.0


@cases(
    ("listings", "expected"),
    {"one": (1, Reason.UNPAIRED_WITHIN_WINDOW), "two": (2, Reason.UNPAIRED)},
)
def test_it_needs_two_record_listings_that_began_after_it_was_seen_unpaired_d7(
    listings: int, expected: Reason
) -> None:
    made = unpaired()
    made.round()
    made.advance(2000.0)
    for _ in range(listings):
        made.advance(60.0)
        made.poll_records()
        made.plan()
    made.poll_cloud()
    for _ in range(5):
        made.plan()
    assert made.of_node("i-r1").reason is expected


def test_one_record_listing_counts_once_however_often_it_is_planned_from_d7() -> None:
    made = unpaired()
    made.round()
    made.advance(2000.0)
    made.poll()
    for _ in range(5):
        made._new_records = True
        made.plan()
    assert made.of_node("i-r1").reason is Reason.UNPAIRED_WITHIN_WINDOW


def test_a_pair_in_between_starts_it_again_d7() -> None:
    made = unpaired()
    for _ in range(20):
        made.round()
        made.advance(60.0)
    made.add_record("r1")
    made.round()
    assert verdict(made)[1] is not Reason.UNPAIRED_WITHIN_WINDOW
    made.records.clear()
    for _ in range(15):
        made.advance(60.0)
        made.round()
    assert verdict(made) == (Kind.KEEP, Reason.UNPAIRED_WITHIN_WINDOW)


@pytest.mark.parametrize("shown", ["paired", "absent"])
def test_a_pair_or_an_absence_in_a_cycle_that_is_aborted_starts_it_again_d7_l4(shown: str) -> None:
    made = unpaired()
    for _ in range(20):
        made.round()
        made.advance(60.0)
    nodes, records = list(made.nodes), list(made.records)
    if shown == "paired":
        made.add_record("r1")
    else:
        made.nodes.clear()
    made.nodes += [node("r2")] * 2
    made.round()
    assert made.last.aborted is not None
    made.nodes[:], made.records[:] = nodes, records
    for _ in range(15):
        made.advance(60.0)
        made.round()
    assert verdict(made) == (Kind.KEEP, Reason.UNPAIRED_WITHIN_WINDOW)


def test_a_cycle_that_is_aborted_in_between_does_not_start_it_again_d7_l4() -> None:
    made = unpaired()
    for number in range(40):
        made.nodes += [node("r2")] * 2 if number == 20 else []
        made.round()
        made.nodes = [one for one in made.nodes if one.id != "i-r2"]
        made.advance(60.0)
    assert verdict(made) == (Kind.SHUTDOWN, Reason.UNPAIRED)


@cases(
    "lost",
    {
        "record-lost-its-claim": {"claim": None},
        "record-lost-its-properties": {"claim": None, "pool": None},
    },
)
def test_an_unpaired_node_that_a_pinging_record_names_is_never_destroyed_d7(
    lost: dict[str, Any],
) -> None:
    made = live(WorkerState.BUSY)
    made.change("r1", **lost)
    pinging(made, WorkerState.BUSY, 50, every=60.0)
    assert verdict(made) == (Kind.KEEP, Reason.BUSY)


def _only_named() -> World:
    """A busy node, one of five, that only its record's pings tie to it for 50 minutes."""
    made = live(WorkerState.BUSY)
    for other in ("r2", "r3", "r4", "r5"):
        made.add_record(other)
        made.add_node(other)
    made.change("r1", claim=None)
    pinging(made, WorkerState.BUSY, 50, every=60.0)
    assert verdict(made) == (Kind.KEEP, Reason.BUSY)
    return made


def _within_the_window(made: World, minutes: int) -> None:
    for _ in range(minutes):
        made.advance(60.0)
        made.round()
        assert verdict(made) == (Kind.KEEP, Reason.UNPAIRED_WITHIN_WINDOW)


def test_it_starts_again_once_a_listing_lacks_the_record_that_named_it_d10() -> None:
    made = _only_named()
    made.records[:] = [one for one in made.records if one.uuid != "r1"]
    _within_the_window(made, 25)
    for _ in range(10):
        made.advance(60.0)
        made.round()
    assert verdict(made) == (Kind.SHUTDOWN, Reason.UNPAIRED)


def test_both_twins_that_a_free_record_may_name_wait_again_once_it_is_lacking_d10() -> None:
    """Twins of one create: each may be who pings the record that lost its claim and its id."""
    made = unpaired()
    made.add_node("r1", id="i-twin")
    made.add_record("r1", claim=None, instance_id=None)
    for other in ("r2", "r3", "r4", "r5"):
        made.add_record(other)
        made.add_node(other)
    for _ in range(20):
        made.advance(60.0)
        made.round()
    made.records[:] = [one for one in made.records if one.uuid != "r1"]
    for _ in range(20):
        made.advance(60.0)
        made.round()
        for node_id in ("i-r1", "i-twin"):
            assert made.of_node(node_id).reason is Reason.UNPAIRED_WITHIN_WINDOW


def test_a_doubted_listing_with_the_record_that_named_it_starts_it_again_d10_l4() -> None:
    made = _only_named()
    every = list(made.records)
    others = [one for one in every if one.uuid != "r1"]
    made.records[:] = others
    _within_the_window(made, 20)
    made.records[:] = every
    made.nodes += [node("r6")] * 2
    made.round()
    assert made.last.aborted is not None
    made.records[:] = others
    del made.nodes[-2:]
    _within_the_window(made, 20)


def test_an_unpaired_node_is_not_silent_while_no_ping_could_arrive_d7_d8() -> None:
    """The registry was down for longer than the window, and is back; its nodes ping soon (N15)."""
    made = live(WorkerState.BUSY)
    made.change("r1", claim=None)
    pinging(made, WorkerState.BUSY, 60, every=60.0)
    for _ in range(130):
        made.advance(60.0)
        made.poll_cloud()
        made.plan()
    made.round()
    assert (made.destroyed, made.of_node("i-r1").kind) == ([], Kind.KEEP)
    pinging(made, WorkerState.BUSY)
    assert verdict(made) == (Kind.KEEP, Reason.BUSY)


def test_an_unpaired_node_goes_once_silent_for_the_window_that_pings_could_arrive_in_d7_d8() -> (
    None
):
    made = live(WorkerState.BUSY)
    made.change("r1", claim=None)
    pinging(made, WorkerState.BUSY, 60, every=60.0)
    silent(made, 7100.0)
    assert made.of_node("i-r1").kind is Kind.KEEP
    silent(made, 400.0)
    assert verdict(made) == (Kind.SHUTDOWN, Reason.UNPAIRED)


def test_a_node_that_lost_its_incarnation_tag_lives_while_its_record_is_pinged_d7() -> None:
    made = live(WorkerState.IDLE)
    made.change_node("i-r1", tags=Tags(POOL, "r1", None))
    pinging(made, WorkerState.IDLE, 50, every=60.0)
    assert verdict(made) == (Kind.KEEP, Reason.WORKER_UNKNOWN)


def test_the_elder_of_two_nodes_on_one_record_goes_by_d7() -> None:
    """Its record was cleaned and given to another node: its pings are refused."""
    made = world()
    made.add_record("r1", life=2, instance_id="i-new")
    made.add_node("r1", id="i-old", life=1)
    made.add_node("r1", id="i-new", life=2)
    made.poll()
    pinging(made, WorkerState.BUSY, 40, every=60.0)
    assert made.of_node("i-new").reason is Reason.BUSY
    assert made.destroyed == ["i-old"]


def test_a_created_node_that_is_listed_before_its_claim_is_booting_p4() -> None:
    made = unpaired(age=0.0)
    made.flags["expected"] = {"r1": Expected("i-r1", "small", made.now)}
    made.round()
    assert verdict(made) == (Kind.KEEP, Reason.BOOTING)


# P2, T3, D11.


def test_two_nodes_of_one_incarnation_are_both_kept_p2() -> None:
    made = world()
    made.add_record("r1", quiet=9000.0)
    made.add_node("r1")
    made.add_node("r1", id="i-twin", state=CloudState.STOPPED)
    for _ in range(40):
        made.advance(60.0)
        made.round()
    assert made.of_node("i-r1").reason is Reason.AMBIGUOUS
    assert made.of_node("i-twin").reason is Reason.AMBIGUOUS
    assert made.of_record("r1").reason is Reason.AMBIGUOUS
    assert (made.destroyed, made.cleaned) == ([], [])


@cases(
    ("fields", "reason"),
    {
        "another-pool": ({"pool": "other"}, Reason.FOREIGN_NODE),
        "unmanaged": ({"pool": None, "managed": False}, Reason.FOREIGN_NODE),
        "untagged": ({"pool": None}, Reason.UNTAGGED),
    },
)
@pytest.mark.parametrize("state", [CloudState.RUNNING, CloudState.STOPPED])
def test_what_is_not_tagged_ours_is_never_destroyed_t3_d11(
    fields: dict[str, Any], reason: Reason, state: CloudState
) -> None:
    made = world(min_nodes=0, max_nodes=0)
    made.add_node(id="x", state=state, **fields)
    for _ in range(60):
        made.advance(60.0)
        made.round()
    assert made.of_node("x").reason is reason
    assert made.destroyed == []


def test_an_untagged_node_that_pairs_by_instance_id_is_not_drained_d11() -> None:
    made = world(ids_unique=True, max_nodes=0)
    made.add_record("r1", quiet=10.0)
    made.add_node(id="i-r1", pool=None)
    made.poll()
    pinging(made, WorkerState.IDLE, 5)
    assert verdict(made) == (Kind.KEEP, Reason.UNTAGGED)
    assert made.last.pairs.record_of["i-r1"].uuid == "r1"


@cases("held", {"node": "i-r1", "its-record": "r1"})
def test_an_unpaired_node_is_kept_while_it_or_its_record_is_held_c9_d7(held: str) -> None:
    made = unpaired()
    made.flags["holds"] = frozenset({held})
    for _ in range(60):
        made.advance(50.0)
        made.round()
    assert verdict(made) == (Kind.KEEP, Reason.HELD)
    assert made.destroyed == []


def test_a_record_listing_that_began_before_the_cloud_listing_ended_does_not_count_d7() -> None:
    """The record may have been written in between."""
    made = unpaired()
    made.round()
    made.history = replace(made.history, unpaired={})
    began = made.now
    made.poll_cloud(took=60.0)
    made.plan()
    for started in (began + 30.0, began + 59.0):
        late = Listing((), started, made.now + 1.0, complete=True)
        made.history = histories.records_listed(made.history, late, made.settings)
        made._new_records = True
        made.plan()
    assert made.history.unpaired["i-r1"].record_listings == 0
    made.advance(2.0)
    made.poll_records()
    made.plan()
    assert made.history.unpaired["i-r1"].record_listings == 1


# One that has ended, and that a late listing shows.


def ended(**settings: Any) -> World:
    """We destroyed i-r1 and freed its record; the cloud called it gone, and lists it still."""
    made = world(max_nodes=2, **settings)
    for uuid in ("r1", "r2", "r3"):
        made.add_record(uuid)
        made.add_node(uuid)
    made.round()
    made.free("r1", why=Reason.AFTER_SHUTDOWN.value)
    made.advance(60.0)
    others_ping(made, 3)
    return made


def others_ping(made: World, polls: int) -> None:
    for _ in range(polls):
        made.advance(30.0)
        for uuid in ("r2", "r3"):
            made.ping(uuid, WorkerState.IDLE)
        made.poll()
        made.plan()


def test_it_takes_no_place_of_max_nodes_for_which_an_idle_node_would_go_d3() -> None:
    made = ended()
    made.plan(demand=(Job("j1"), Job("j2")))
    assert verdict(made) == (Kind.KEEP, Reason.NODE_ABSENT)
    assert [made.of_node(f"i-{one}").reason for one in ("r2", "r3")] == [Reason.NEEDED] * 2


def test_it_is_not_destroyed_once_more_nor_taken_for_a_node_that_lost_its_record_d7_d9() -> None:
    made = ended()
    for _ in range(80):
        others_ping(made, 1)
        assert verdict(made) == (Kind.KEEP, Reason.NODE_ABSENT)
    assert not made.breaker.is_open


@pytest.mark.parametrize("state", [CloudState.RUNNING, CloudState.STOPPED])
def test_it_counts_again_once_the_cloud_asked_by_id_has_it_u8(state: CloudState) -> None:
    made = ended()
    made.answer({"i-r1": None})
    made.plan()
    assert verdict(made)[1] is Reason.NODE_ABSENT
    made.answer({"i-r1": replace(node("r1"), state=state)})
    made.plan()
    assert verdict(made)[1] is Reason.UNPAIRED_WITHIN_WINDOW
    # However long ago that was: nobody asks for it any more.
    made.history = replace(made.history, asked={})
    made.plan()
    assert verdict(made)[1] is Reason.UNPAIRED_WITHIN_WINDOW


@cases(
    "change",
    {
        "freed-for-its-silence": {"why": Reason.STALE_SLOT.value},
        "its-twin": {"node_id": "i-twin"},
        "of-another-life": {"incarnation": "f" * 32},
    },
)
def test_only_the_very_node_that_we_destroyed_has_ended_d3(change: dict[str, Any]) -> None:
    made = ended()
    (life,) = made.history.freed.values()
    life = replace(life, **change)
    made.history = replace(made.history, freed={life.key: life})
    made.plan()
    assert verdict(made)[1] is Reason.UNPAIRED_WITHIN_WINDOW
