"""What other settings would have made of a recorded world, and what that is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nodemanager.core.model.world import CloudState, Listing, Record
from nodemanager.core.observe.history import History
from nodemanager.core.observe.listing_history import Absence
from nodemanager.core.replay.whatif import (
    By,
    Hit,
    LifeEnd,
    Sign,
    World,
    as_cleaned,
    is_life,
    life_of,
    renamed,
)
from nodemanager.core.replay.worth import ReplayOutcome, weigh
from tests.cases import cases
from tests.core import build
from tests.core.build import EPOCH, node

AT = 5000.0


def record(uuid: str, **fields: Any) -> Record:
    """One that was last heard of before AT."""
    return build.record(uuid, at=EPOCH - 100.0, **fields)


def listing(*records: Record, at: float = AT + 60.0) -> Listing[Record]:
    return Listing(records, at, at + 1.0)


def freed(one: Record, *, by: By = By.CLEAN) -> World:
    """A world in which that record's life was freed at AT, which is EPOCH on the store's clock."""
    world = World()
    world.free(one, LifeEnd(life_of(one), EPOCH, by), at=AT, store_at=EPOCH)
    return world


def outcome(
    *ends: LifeEnd, refused: tuple[int, ...] = (), hits: tuple[Hit, ...] = (), spared: int = 0
) -> ReplayOutcome:
    return ReplayOutcome({end.life.key: end for end in ends}, hits, spared, refused, {})


# Lives.


def test_a_life_ends_with_its_incarnation() -> None:
    one = record("r-1", claimed=True)
    assert is_life(one, life_of(one))
    assert one.claim is not None
    other = replace(one, claim=replace(one.claim, incarnation="another"))
    assert not is_life(other, life_of(one))
    assert not is_life(as_cleaned(one, EPOCH), life_of(one))


def test_without_a_claim_a_life_is_told_by_slot_and_first_ping() -> None:
    one = replace(record("r-1", claimed=False, slot=0), first_ping_at=EPOCH - 9.0)
    assert is_life(replace(one, last_ping_at=EPOCH), life_of(one))
    assert not is_life(replace(one, first_ping_at=EPOCH), life_of(one))
    assert not is_life(replace(one, slot_number=4), life_of(one))
    assert life_of(one).key != life_of(replace(one, slot_number=4)).key


# A life freed sooner than it was.


def test_a_life_freed_here_is_listed_as_clean_until_the_recording_frees_it() -> None:
    one = record("r-1", slot=3)
    world = freed(one)
    (shown,) = world.records(listing(one)).items
    assert not shown.holds_anything
    assert shown.version != one.version
    clean = as_cleaned(one, EPOCH)
    assert world.records(listing(clean)).items == (clean,)
    assert world.freed == {}
    assert life_of(one).key in world.ends


def test_a_ping_after_the_clean_is_a_hit_and_gives_the_life_back() -> None:
    one = record("r-1", slot=3)
    world = freed(one)
    pinged = replace(one, last_ping_at=EPOCH + 30.0)
    assert world.records(listing(pinged)).items == (pinged,)
    (hit,) = world.hits
    assert (hit.sign, hit.pinged_at, hit.freed_at) == (Sign.PINGED, EPOCH + 30.0, EPOCH)
    assert world.ends == {}


def test_a_ping_from_before_the_clean_would_have_been_seen_by_the_last_look() -> None:
    one = record("r-1", slot=3)
    world = freed(one)
    pinged = replace(one, last_ping_at=EPOCH - 1.0)
    assert world.records(listing(pinged)).items == (pinged,)
    assert (world.hits, world.spared, world.ends) == ([], 1, {})


@cases(
    ("state", "lives"),
    {
        "running": (CloudState.RUNNING, True),
        "stopping": (CloudState.STOPPING, True),
        "terminated": (CloudState.TERMINATED, False),
    },
)
def test_a_node_that_is_listed_after_the_clean_is_a_hit(state: CloudState, lives: bool) -> None:
    one = record("r-1", slot=3, claimed=True)
    world = freed(one)
    again = node("r-1", id="i-9", state=state)
    assert again.tags.incarnation == one.incarnation
    world.nodes(Listing((again,), AT + 60.0, AT + 61.0), EPOCH + 61.0)
    assert [hit.sign for hit in world.hits] == ([Sign.LISTED] if lives else [])
    assert bool(world.freed) is not lives


def test_a_listing_that_began_before_the_clean_is_no_sign() -> None:
    world = freed(record("r-1", slot=3, claimed=True))
    world.nodes(Listing((node("r-1", id="i-9"),), AT - 1.0, AT + 1.0), EPOCH)
    assert world.hits == []


def test_a_listed_nodes_ping_is_told_when_it_comes() -> None:
    one = record("r-1", slot=3, claimed=True)
    world = freed(one)
    world.nodes(Listing((node("r-1", id="i-9"),), AT + 60.0, AT + 61.0), EPOCH + 61.0)
    world.records(listing(one))
    assert world.hits[0].pinged_at is None
    world.records(listing(replace(one, last_ping_at=EPOCH + 70.0)))
    assert world.hits[0].pinged_at == EPOCH + 70.0


def test_a_record_that_somebody_deleted_is_forgotten() -> None:
    world = freed(record("r-1", slot=3))
    assert world.records(listing()).items == ()
    assert world.freed == {}


def test_a_destroyed_node_is_listed_no_more() -> None:
    one = record("r-1", slot=3, claimed=True)
    world = freed(one, by=By.SHUTDOWN)
    world.destroy("i-1")
    seen = Listing((node("r-1", id="i-1"), node("r-2", id="i-2")), AT + 60.0, AT + 61.0)
    assert [each.id for each in world.nodes(seen, EPOCH).items] == ["i-2"]
    # Being there is no sign of life of what we destroy.
    assert world.hits == []


# A life freed later than it was.


def test_a_life_held_on_is_listed_beside_whoever_has_its_record_now() -> None:
    one = record("r-1", slot=3, claimed=True)
    world = World()
    shown = world.hold(one)
    assert one.claim is not None
    next_life = replace(one, claim=replace(one.claim, incarnation="next"))
    items = world.records(listing(next_life)).items
    assert items == (next_life, shown)
    assert shown.uuid != one.uuid
    assert shown.slot_number not in (None, one.slot_number)
    end = LifeEnd(world.held[shown.uuid].life, EPOCH, By.CLEAN)
    world.free(shown, end, at=AT, store_at=EPOCH)
    assert not world.records(listing(next_life)).items[1].holds_anything
    assert world.ends[life_of(one).key].life.slot == 3


def test_a_late_ping_reaches_a_life_that_is_held_on() -> None:
    one = record("r-1", slot=3, claimed=True)
    world = World()
    world.hold(one)
    assert world.heard(life_of(one), EPOCH + 5.0)
    assert world.records(listing()).items[0].last_ping_at == EPOCH + 5.0
    assert not world.heard(life_of(record("r-2")), EPOCH)


def test_what_was_counted_of_a_record_goes_on_under_its_other_name() -> None:
    one = record("r-1", slot=3, claimed=True)
    seen = Absence(one.incarnation, 1.0, 1.0, 2.0, 3)
    history = History(
        records=listing(one),
        base_index={"r-1": one.version},
        absence={"r-1": seen},
        eligible={f"r-1@{one.version}": 7.0, "r-10@v": 8.0},
    )
    shown = World().hold(one)
    after = renamed(history, "r-1", shown)
    assert after.absence[shown.uuid] is seen
    assert after.base_index[shown.uuid] == one.version
    assert after.records is not None
    assert after.records.items == (one, shown)
    assert after.eligible == {
        **history.eligible,
        f"{shown.uuid}@{one.version}": 7.0,
    }


def test_a_node_that_is_kept_is_listed_on_as_it_was() -> None:
    one = record("r-1", slot=3, claimed=True)
    world = World()
    running = node("r-1", id="i-1")
    world.keep(running, one)
    gone = Listing((), AT + 60.0, AT + 61.0)
    stopping = replace(gone, items=(replace(running, state=CloudState.STOPPING),))
    assert world.nodes(gone, EPOCH).items == (running,)
    assert world.nodes(stopping, EPOCH).items == (running,)
    shown = world.hold(one)
    (kept,) = world.nodes(gone, EPOCH).items
    assert kept.tags.record == shown.uuid


def test_a_node_that_pings_again_was_not_destroyed_after_all() -> None:
    one = replace(record("r-1", slot=3, claimed=True), instance_id="i-1")
    world = World()
    world.keep(node("r-1", id="i-1"), one)
    world.records(listing(replace(one, last_ping_at=EPOCH + 1.0)))
    assert world.kept == {}


# What it is worth.


def test_a_slot_that_is_free_sooner_counts_up_to_when_it_was() -> None:
    life = life_of(record("r-1", slot=0))
    recorded = outcome(LifeEnd(life, 1000.0, By.CLEAN), refused=(0, 0))
    other = outcome(LifeEnd(life, 400.0, By.CLEAN), refused=(0, 0))
    balance = weigh(recorded, other, (0.0, 5000.0))
    assert (balance.slot_s, balance.earlier) == (600.0, 1)
    assert weigh(other, recorded, (0.0, 5000.0)).slot_s == -600.0


def test_what_is_not_free_within_the_recording_counts_to_its_end() -> None:
    life = life_of(record("r-1", slot=3))
    some, none = outcome(LifeEnd(life, 1000.0, By.CLEAN)), outcome()
    lost, won = weigh(some, none, (0.0, 5000.0)), weigh(none, some, (0.0, 5000.0))
    assert (lost.slot_s, lost.never, lost.later) == (-4000.0, 1, 0)
    assert (won.slot_s, won.earlier) == (4000.0, 1)


def test_a_record_without_a_slot_gains_none() -> None:
    life = life_of(record("r-1", slot=None))
    recorded = outcome(LifeEnd(life, 1000.0, By.CLEAN))
    balance = weigh(recorded, outcome(LifeEnd(life, 400.0, By.CLEAN)), (0.0, 5000.0))
    assert (balance.slot_s, balance.earlier) == (0.0, 1)


@cases(
    ("recorded", "other", "boots", "lost", "wait_s"),
    {
        "one-boot-waits-less": ((0, 1, 1, 1, 0), (0, 1, 0, 0, 0), 1, 0, 120.0),
        "two-and-one-lost-again": ((0, 2, 2, 0, 0), (0, 0, 1, 0, 0), 2, 0, 180.0),
        "one-waits-more": ((0, 0, 0, 0, 0), (0, 0, 1, 1, 0), 0, 1, 0.0),
        "the-same": ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), 0, 0, 0.0),
        "one-after-the-other": ((1, 0, 1, 0, 0), (0, 0, 0, 0, 0), 2, 0, 120.0),
    },
)
def test_a_boot_that_waits_is_one_boot_however_often_it_is_refused(
    recorded: tuple[int, ...], other: tuple[int, ...], boots: int, lost: int, wait_s: float
) -> None:
    walls = tuple(60.0 * at for at in range(5))
    balance = weigh(outcome(refused=recorded), outcome(refused=other), walls)
    assert (balance.boots, balance.boots_lost, balance.boot_wait_s) == (boots, lost, wait_s)


def test_nothing_waits_while_the_daemon_is_stopped() -> None:
    balance = weigh(outcome(refused=(1, 1)), outcome(refused=(0, 0)), (0.0, 90_000.0))
    assert balance.boot_wait_s == 600.0
