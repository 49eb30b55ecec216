"""What every journal promises (journal/api.py): in a file, in PostgreSQL and in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodemanager.core.model.annotations import NO_MARKS, Mark, Marks
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.streaks import NONE, Loops, Streak
from nodemanager.core.model.world import FreedLife, Leftover, LeftoverKind
from nodemanager.core.observe.clocks import Clocks, MeasuredClock
from nodemanager.core.observe.snapshot import LateWrite
from nodemanager.core.plan.leftovers import Entry, LedgerState
from nodemanager.journal.api import Conclusion, Intent, IntentKind, Journal
from nodemanager.journal.database import SharedDatabase
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.kept import (
    BACKLOG_MARKS,
    BOOT_LOOPS,
    BREAKER,
    CLOCKS,
    LATE_WRITES,
    MARKS,
    PLACE_RESTS,
)
from tests.cases import cases
from tests.core.build import record
from tests.fakes.clock import ManualClock
from tests.fakes.journal import MemoryJournal

pytestmark = pytest.mark.slow

Again = Callable[..., Journal]
"""The same journal, as the next process opens it: after another boot with its clock and boot_id."""

VOLUME = Leftover(LeftoverKind.VOLUME, "vol-1", "i-1")
INTERFACE = Leftover(LeftoverKind.INTERFACE, "eni-1", "i-1")


def waiting(leftover: Leftover, clock: ManualClock) -> Entry:
    return Entry(leftover, LedgerState.WAITING, clock.boottime())


POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.server("postgresql"))


@pytest.fixture(params=["sqlite", "memory", POSTGRESQL])
def again(request, opened, clock) -> Again:
    if request.param == "memory":
        kept = MemoryJournal(clock)

        def in_memory(clock=clock, boot_id="boot-1"):
            kept.clock, kept.boot_id = clock, boot_id
            return kept

        return in_memory
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql").new_database()

        def beside(clock=clock, **changes):
            return opened(clock=clock, shared=SharedDatabase(url, "main", clock), **changes)

        return beside
    return opened


def destroy(node="i-1", **fields):
    values = {"kind": IntentKind.DESTROY, "key": f"destroy:{node}", "plan_id": "p-1", "node": node}
    return Intent(**{**values, **fields})


def clean(uuid="r-1", **fields):
    judged = record(uuid, at=1000.0, ping_secret="open sesame", info={"ping_secret": "open sesame"})
    values = {"kind": IntentKind.CLEAN, "key": f"clean:{uuid}", "plan_id": "p-1", "record": uuid}
    return Intent(**{**values, "pre_image": judged, **fields})


def test_an_intent_is_open_until_it_is_concluded(again: Again, clock: ManualClock) -> None:
    intents = [destroy(record="r-1", details={"order": {"reason": "node_down"}}), clean()]
    again().intend(intents)
    assert [one.intent for one in again().open_intents()] == intents
    assert {one.opened_at for one in again().open_intents()} == {clock.wall()}

    clock.advance(5)
    again().conclude("destroy:i-1", "gone", {"asked": 2})
    assert [one.intent for one in again().open_intents()] == [intents[1]]
    (ended,) = again().concluded(id="i-1")
    assert (ended.outcome, ended.details) == ("gone", {"asked": 2})
    assert (ended.intent, ended.concluded_at - ended.opened_at) == (intents[0], 5)


def test_outcomes_are_found_by_record_node_and_time(again: Again, clock: ManualClock) -> None:
    journal = again()
    for number in range(3):
        journal.intend([destroy(f"i-{number}", record=f"r-{number}")])
        journal.conclude(f"destroy:i-{number}", "gone")
        clock.advance(10)
    assert [one.intent.node for one in journal.concluded()] == ["i-0", "i-1", "i-2"]
    assert [one.intent.node for one in journal.concluded(id="r-1")] == ["i-1"]
    since = clock.wall() - 15
    assert [one.intent.node for one in journal.concluded(since=since)] == ["i-2"]


def test_an_intent_tried_again_takes_the_place_of_the_open_one(
    again: Again, clock: ManualClock
) -> None:
    again().intend([clean()])
    clock.advance(7)
    again().intend([clean(plan_id="p-2", pre_image=None)])
    (one,) = again().open_intents()
    assert one.intent.plan_id == "p-2"
    assert one.intent.pre_image is not None
    assert clock.wall() - one.opened_at == 7


def test_the_newest_intent_of_a_key_is_found_ended_or_not_with_its_pre_image(
    again: Again,
) -> None:
    journal = again()
    assert journal.newest("clean:r-1") is None
    for plan_id in ("p-1", "p-2"):
        journal.intend([clean(plan_id=plan_id, details={"look": {"lease": True}})])
        journal.conclude("clean:r-1", "cleaned")
    journal.intend([clean("r-2")])
    found = again().newest("clean:r-1")
    assert found is not None
    assert (found.plan_id, found.record) == ("p-2", "r-1")
    assert found.details == {"look": {"lease": True}}
    assert found.pre_image is not None
    assert found.pre_image.ping_secret == "open sesame"
    still_open = again().newest("clean:r-2")
    assert still_open is not None
    assert still_open.pre_image is not None


def test_what_is_begun_is_written_in_one_with_the_end_of_what_led_to_it(again: Again) -> None:
    again().intend([destroy()])
    again().commit([clean()], [Conclusion("destroy:i-1", "gone", {"asked": 2})])
    assert [one.intent.key for one in again().open_intents()] == ["clean:r-1"]
    (ended,) = again().concluded()
    assert (ended.intent.key, ended.outcome, ended.details) == ("destroy:i-1", "gone", {"asked": 2})


def test_the_same_thing_may_be_done_again_once_it_ended(again: Again) -> None:
    journal = again()
    for outcome in ("failed", "gone"):
        journal.intend([destroy()])
        journal.conclude("destroy:i-1", outcome)
    assert [one.outcome for one in again().concluded()] == ["failed", "gone"]


def test_concluding_what_is_not_open_is_no_error(again: Again) -> None:
    again().conclude("destroy:i-9", "gone")
    assert again().concluded() == ()


def test_an_intent_is_passed_over_after_five_failed_recoveries(again: Again) -> None:
    again().intend([destroy()])
    for number in range(1, 6):
        failed = again().recovery_failed("destroy:i-1", f"refused {number}")
        assert failed is not None
        assert (failed.failures, failed.passed_over) == (number, number == 5)
    (one,) = again().open_intents()
    assert (one.passed_over, one.error) == (True, "refused 5")
    assert again().recovery_failed("destroy:i-9", "nobody") is None


def test_details_keep_no_secret(again: Again) -> None:
    details = {
        "claim": {"token": 7, "node_name": "n"},
        "ping_secret": "s",
        "deep": [{"token": "s"}],
    }
    again().intend([destroy(details=details)])
    (one,) = again().open_intents()
    assert one.intent.details == {"claim": {"token": 7, "node_name": "n"}, "deep": [{}]}


def test_a_pre_image_is_the_record_with_its_secret_and_gets_the_outcome(
    again: Again, clock: ManualClock
) -> None:
    intent = clean()
    again().intend([intent])
    (image,) = again().pre_images(record="r-1")
    assert image.record == intent.pre_image
    assert image.record.ping_secret == "open sesame"
    assert "sesame" not in repr(image) + repr(intent) + repr(again().open_intents())
    assert (image.outcome, image.taken_at) == (None, clock.wall())

    clock.advance(3)
    again().conclude(intent.key, "cleaned", {"reason": "stale_slot"})
    (image,) = again().pre_images(record="r-1")
    assert (image.outcome, image.ended_at) == ("cleaned", clock.wall())
    assert image.reason == "stale_slot"


def test_pre_images_are_found_by_record_newest_first(again: Again) -> None:
    lives = [record("r-1", at=1000.0 + life, life=life) for life in (1, 2)]
    for image in (*lives, record("r-2", at=5.0)):
        intent = clean(image.uuid, pre_image=image)
        again().intend([intent])
        again().conclude(intent.key, "cleaned")
    found = [one.record for one in again().pre_images(record="r-1")]
    assert found == [lives[1], lives[0]]
    assert len(again().pre_images()) == 3
    assert again().pre_images(record="r-3") == ()


def test_pre_images_taken_before_a_time_can_be_left_out(again: Again, clock: ManualClock) -> None:
    again().intend([clean("r-1")])
    clock.advance(10)
    since = clock.wall()
    again().intend([clean("r-2")])
    assert [one.record.uuid for one in again().pre_images(since=since)] == ["r-2"]


def test_leftovers_are_told_in_order_of_release_until_they_are_released(
    again: Again, clock: ManualClock
) -> None:
    """D4: what a destroy will leave is in the ledger until the cloud says that it is gone."""
    volume, interface = waiting(VOLUME, clock), waiting(INTERFACE, clock)
    again().save_leftovers([volume, interface])
    clock.advance(10)
    assert [one.leftover for one in again().leftovers()] == [INTERFACE, VOLUME]
    assert {one.state for one in again().leftovers()} == {LedgerState.WAITING}

    failed = replace(
        interface,
        state=LedgerState.FAILED,
        attempts=2,
        not_before=clock.boottime() + 60,
        last_error="in use",
    )
    again().save_leftovers([failed])
    (told, other) = again().leftovers()
    assert told == failed
    assert other.leftover == VOLUME

    again().save_leftovers([replace(failed, state=LedgerState.RELEASED, last_error=None)])
    assert [one.leftover for one in again().leftovers()] == [VOLUME]
    states = {one.leftover: one.state for one in again().leftovers(released=True)}
    assert states == {INTERFACE: LedgerState.RELEASED, VOLUME: LedgerState.WAITING}


@cases(
    ("state", "attempts", "told"),
    {
        "due": (LedgerState.DUE, 0, LedgerState.WAITING),
        "releasing": (LedgerState.RELEASING, 1, LedgerState.RELEASING),
    },
)
def test_how_far_a_leftover_came_is_told_as_far_as_it_is_kept(
    again: Again, clock: ManualClock, state: LedgerState, attempts: int, told: LedgerState
) -> None:
    again().save_leftovers([replace(waiting(VOLUME, clock), state=state, attempts=attempts)])
    (kept,) = again().leftovers()
    assert (kept.state, kept.attempts) == (told, attempts)


def test_a_leftover_whose_node_was_not_destroyed_is_forgotten(
    again: Again, clock: ManualClock
) -> None:
    again().save_leftovers([waiting(VOLUME, clock), waiting(INTERFACE, clock)])
    again().forget_leftovers([VOLUME])
    again().forget_leftovers([VOLUME])
    assert [one.leftover for one in again().leftovers(released=True)] == [INTERFACE]


def test_small_values_are_kept_and_forgotten(again: Again) -> None:
    assert again().kept(BACKLOG_MARKS) is None
    again().keep(BACKLOG_MARKS, {"until": 12.5, "spent": [1, 2]})
    assert again().kept(BACKLOG_MARKS) == {"until": 12.5, "spent": [1, 2]}
    again().keep(BACKLOG_MARKS, None)
    assert again().kept(BACKLOG_MARKS) is None


def test_operators_marks_are_kept_until_they_are_taken_off(again: Again) -> None:
    held = {"i-1": Mark("anna", 10.0, "a disk to look at"), "r-7": Mark("bo", 5.0)}
    marks = Marks(holds=held, drains={"i-2": Mark("bo", 6.0, kept=True)})
    again().keep(MARKS, marks)
    assert again().kept(MARKS) == marks
    again().keep(MARKS, NO_MARKS)
    assert again().kept(MARKS) == NO_MARKS


def test_the_breaker_survives_whole(again: Again) -> None:
    assert again().kept(BREAKER) is None
    other = Breaker(Cause.MASS_SILENCE, frozenset({"i-3"}), opened_at=900.0, generation=3)
    breaker = Breaker(
        cause=Cause.CLOUD_COLLAPSED,
        ids=frozenset({"i-1", "i-2"}),
        confirmed=frozenset({"i-1"}),
        opened_at=950.25,
        generation=4,
        detail={"lost": 2, "known": 5},
        denied={"i-2": 960.125},
        others=(other,),
        gone=frozenset({"i-0"}),
        reported={"r-1/x": FreedLife("r-1", "x", 900.5, node_id="i-1", slot=0, reported_at=950.25)},
    )
    again().keep(BREAKER, breaker)
    assert again().kept(BREAKER) == breaker
    again().keep(BREAKER, Breaker(generation=5))
    assert again().kept(BREAKER) == Breaker(generation=5)


def test_the_clocks_survive_and_another_boot_reads_them_by_the_wall_t1_r4(
    again: Again, clock: ManualClock
) -> None:
    assert again().kept(CLOCKS) is None
    kept = MeasuredClock(1.7e9, 0.25, 2, 990.0, 900.0)
    wall = MeasuredClock(clock.wall() - clock.boottime(), 0.0, known_since=950.0)
    again().keep(CLOCKS, Clocks(kept, wall))
    assert again().kept(CLOCKS) == Clocks(kept, wall)
    booted = ManualClock(boottime=20.0, wall=clock.wall() + 50.0)
    moved = again(clock=booted, boot_id="boot-2").kept(CLOCKS)
    assert moved.store.now(20.0) == kept.now(clock.boottime()) + 50.0
    assert moved.wall.now(20.0) == clock.wall() + 50.0
    # Nobody knows how long the machine was off: a jump is as old now as it was.
    assert 20.0 - moved.store.known_since == clock.boottime() - kept.known_since
    assert 20.0 - moved.wall.known_since == clock.boottime() - wall.known_since
    assert moved.store.agreed == kept.agreed
    assert moved.store.by_wall
    assert not moved.store.trusted_at(20.0, 600.0)


def test_late_writes_survive_and_are_as_old_after_another_boot_as_they_were(
    again: Again, clock: ManualClock
) -> None:
    assert again().kept(LATE_WRITES) == {}
    late = {"r1": LateWrite(900.0, 800.0), "r2": LateWrite(950.0)}
    again().keep(LATE_WRITES, late)
    assert again().kept(LATE_WRITES) == late
    booted = ManualClock(boottime=20.0, wall=clock.wall() + 50.0)
    moved = again(clock=booted, boot_id="boot-2").kept(LATE_WRITES)
    assert moved == {"r1": LateWrite(20.0 - 100.0, 20.0 - 200.0), "r2": LateWrite(20.0 - 50.0)}
    again().keep(LATE_WRITES, {})
    assert again().kept(LATE_WRITES) == {}


def test_a_rest_of_booting_survives_and_after_another_boot_goes_on_by_the_wall(
    again: Again, clock: ManualClock
) -> None:
    assert again().kept(BOOT_LOOPS) == NONE
    loops = Loops({"small": Streak(5, 1, 1600.0, 0.5), "large": Streak(2)}, Streak(10, 1, 1900.0))
    again().keep(BOOT_LOOPS, loops)
    clock.step_wall(5000.0)
    assert again().kept(BOOT_LOOPS) == loops
    clock.step_wall(-5000.0)
    for wall_s, passed_s in ((50.0, 50.0), (-5000.0, 0.0)):
        booted = ManualClock(boottime=20.0, wall=clock.wall() + wall_s)
        moved = again(clock=booted, boot_id="boot-2").kept(BOOT_LOOPS)
        small, pool = Streak(5, 1, 20.0 + 600.0 - passed_s, 0.5), Streak(10, 1, 920.0 - passed_s)
        assert moved == Loops({"small": small, "large": Streak(2)}, pool)


def test_rests_of_places_survive_by_the_wall_clock(again: Again, clock: ManualClock) -> None:
    assert again().kept(PLACE_RESTS) == {}
    rests = {"small": {"zone-a": clock.boottime() + 600.0, "zone-b": clock.boottime() + 5.0}}
    again().keep(PLACE_RESTS, rests)
    assert again().kept(PLACE_RESTS) == rests
    booted = ManualClock(boottime=20.0, wall=clock.wall() + 50.0)
    moved = again(clock=booted, boot_id="boot-2").kept(PLACE_RESTS)
    assert moved == {"small": {"zone-a": 20.0 + 550.0, "zone-b": 20.0 - 45.0}}
    again().keep(PLACE_RESTS, {})
    assert again().kept(PLACE_RESTS) == {}


def test_the_breakers_times_move_to_the_clock_of_a_new_boot(
    again: Again, clock: ManualClock
) -> None:
    life = FreedLife("r-1", "x", freed_at=800.0, reported_at=900.0)
    told = {life.key: life}
    breaker = Breaker(Cause.MASS_SILENCE, opened_at=900.0, denied={"i-1": 950.0}, reported=told)
    assert clock.boottime() == 1000.0
    again().keep(BREAKER, breaker)

    booted = ManualClock(boottime=20.0, wall=clock.wall() + 300.0)
    same_age = again(clock=booted, boot_id="boot-2").kept(BREAKER)
    moved = {life.key: replace(life, freed_at=-180.0, reported_at=-80.0)}
    denied = {"i-1": -30.0}
    assert same_age == replace(breaker, opened_at=-80.0, denied=denied, reported=moved)
    assert booted.boottime() - same_age.opened_at == clock.boottime() - breaker.opened_at


@pytest.mark.parametrize("wall_s", [-6000.0, 20.0, 6000.0])
def test_over_another_boot_no_time_of_the_breaker_gets_older_or_lies_ahead_whatever_the_wall_says(
    again: Again, clock: ManualClock, wall_s: float
) -> None:
    """Else it closes too early, or waits for answers from the future (B3)."""
    opened = Breaker(
        Cause.CLOUD_COLLAPSED, frozenset({"i-1"}), opened_at=960.0, denied={"i-1": 990.0}
    )
    again().keep(BREAKER, opened)
    booted = ManualClock(boottime=20.0, wall=clock.wall() + wall_s)
    kept = again(clock=booted, boot_id="boot-2").kept(BREAKER)
    assert (kept.opened_at, kept.denied) == (20.0 - 40.0, {"i-1": 20.0 - 10.0})


def test_a_journal_that_is_told_to_fail_says_why_and_changes_nothing() -> None:
    from nodemanager.errors import JournalError

    journal = MemoryJournal()
    journal.intend([destroy()])
    journal.fail("the disk is full")
    with pytest.raises(JournalError, match="full"):
        journal.conclude("destroy:i-1", "gone")
    assert journal.failure == "the disk is full"
    assert not journal.retry()
    journal.heal()
    assert journal.retry()
    assert journal.failure is None
    assert len(journal.open_intents()) == 1


def test_an_intent_tried_again_keeps_the_newest_pre_image(again: Again) -> None:
    """A restore from an older one would give the record a state that it no longer had."""
    again().intend([clean(pre_image=record("r-1", at=1000.0, slot=3))])
    again().intend([clean(pre_image=record("r-1", at=2000.0, slot=4))])
    (one,) = again().open_intents()
    assert one.intent.pre_image is not None
    assert one.intent.pre_image.slot_number == 4
    assert [image.record.slot_number for image in again().pre_images(record="r-1")] == [4]


def test_the_newest_told_of_each_is_known_to_the_next_process(again: Again) -> None:
    journal = again()
    told = [
        LoggedEvent(1.0, "record.keep", "busy", record="r-1", slot=0, host="compute0"),
        LoggedEvent(
            2.0, "record.keep", "within_window", record="r-1", node="i-1", more={"idle_s": 2.5}
        ),
        LoggedEvent(
            3.0, "record.deferred", "cap", record="r-2", name="n", incarnation="ab", plan="p-1"
        ),
        LoggedEvent(4.0, "node.gone", node="i-1", record="r-1"),
    ]
    for one in told:
        journal.tell(one)
    assert journal.retry()
    kept = again().last_logged({"record.keep", "record.deferred"}, "record")
    assert sorted(kept, key=lambda one: one.at) == told[1:3]
    assert again().last_logged({"node.keep"}, "node") == ()


def test_no_secret_of_a_clouds_error_stays_in_the_ledger(opened, clock: ManualClock) -> None:
    error = "denied: Authorization: Bearer abcdefghijklmnop"
    failed = replace(waiting(VOLUME, clock), state=LedgerState.FAILED, last_error=error)
    opened().save_leftovers([failed])
    (kept,) = opened().leftovers()
    assert kept.last_error is not None
    assert kept.last_error.startswith("denied")
    assert "abcdefghijklmnop" not in kept.last_error
