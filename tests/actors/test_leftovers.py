"""What nodes leave behind: entered before the destroy, released in order after it (D4, D5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodemanager.actors.daemon.leftovers import FIND_EVERY_S
from nodemanager.actors.messages import Ordered
from nodemanager.core.execute.shutdown import PINS_TRIES
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.world import (
    CloudNode,
    CloudState,
    Leftover,
    LeftoverKind,
    Outcome,
    WorkerState,
)
from nodemanager.core.operate.replies import Command
from nodemanager.core.operate.verbs import Verb
from nodemanager.core.plan.leftovers import FIRST_RETRY_S, Entry, LedgerState
from nodemanager.errors import BadRequest, CloudError, LeftAlone, StoreError, Throttled
from nodemanager.journal.kept import BREAKER
from nodemanager.journal.sqlite import SqliteJournal
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, memory, until
from tests.actors.test_recovery import killed, killed_in, restart
from tests.fakes import FakeCloud, TickingClock, answer, fail, first
from tests.fakes.journal import MemoryJournal
from tests.fakes.script import Step

pytestmark = pytest.mark.slow

HOUR = 3600.0
VISIBLE_AFTER = 300.0
ROUND = 60.0
"""Long enough for a poll and the decision after it."""


def pinning(rig: Rig) -> CloudNode:
    """An idle node that nobody wants, with an interface and a volume that outlive it."""
    rig.fleet.state = WorkerState.IDLE
    machine, _ = rig.fleet.add_node(age=10 * HOUR)
    rig.cloud.pin(machine.node.id, LeftoverKind.VOLUME, "vol-1")
    rig.cloud.pin(machine.node.id, LeftoverKind.INTERFACE, "eni-1")
    return machine.node


@pytest.fixture
def leaving(make_rig: MakeRig) -> Callable[..., tuple[Rig, CloudNode]]:
    """A rig, not started, with a node that goes in the first rounds and leaves two things."""

    def make(**options: object) -> tuple[Rig, CloudNode]:
        rig = make_rig(min_nodes=0, backlog="clean", **options)
        return rig, pinning(rig)

    return make


Leaving = Callable[..., tuple[Rig, CloudNode]]


def left_behind(rig: Rig, node_id: str = "i-gone") -> None:
    """A volume of a node that is not there any more, and that no ledger names."""
    rig.cloud.pin(node_id, LeftoverKind.VOLUME, "vol-1")


def ledger_of(rig: Rig) -> dict[str, Entry]:
    return {entry.leftover.id: entry for entry in rig.journal.leftovers()}


def releases(rig: Rig) -> list[str]:
    return [write.split()[1] for write in rig.cloud.writes if write.startswith("release")]


def released(rig: Rig) -> list[str]:
    return [line["leftover"] for line in rig.lines("leftover.released")]


def tell(rig: Rig, command: object) -> None:
    rig.system.daemon.tell(command)
    rig.flush()


# A shut-down of ours.


def test_what_a_node_leaves_is_released_in_order_once_it_is_gone(leaving: Leaving) -> None:
    rig, node = leaving()
    rig.start()
    rig.turn_until("leftover.released", within=600, leftover="vol-1")
    assert releases(rig) == ["eni-1", "vol-1"]
    assert released(rig) == ["eni-1", "vol-1"]
    events = [
        (line["event"], line["leftover"])
        for line in rig.out.fields
        if line["event"].startswith("leftover.") and "leftover" in line
    ]
    assert events == [
        ("leftover.entered", "eni-1"),
        ("leftover.entered", "vol-1"),
        ("leftover.release", "eni-1"),
        ("leftover.released", "eni-1"),
        ("leftover.release", "vol-1"),
        ("leftover.released", "vol-1"),
    ]
    assert {line["node"] for line in rig.lines("leftover.release")} == {node.id}
    assert {line["reason"] for line in rig.lines("leftover.release")} == {"left_behind"}
    assert ledger_of(rig) == {}
    kept = {entry.leftover.id: entry.state for entry in rig.journal.leftovers(released=True)}
    assert set(kept.values()) == {LedgerState.RELEASED}
    assert set(kept) == {"eni-1", "vol-1"}


def test_what_a_node_pins_is_on_the_disk_before_its_destroy_is_sent(leaving: Leaving) -> None:
    """D4: written to a durable ledger before destroy."""
    rig, _ = leaving()
    at_destroy: list[str] = []
    rig.cloud.on("destroy", first(lambda: at_destroy.extend(ledger_of(rig))))
    rig.start()
    rig.turn_until("node.gone", within=300)
    assert sorted(at_destroy) == ["eni-1", "vol-1"]


def test_the_record_is_free_at_once_whatever_becomes_of_the_leftovers(leaving: Leaving) -> None:
    """D4: the record is freed once the node is gone."""
    rig, _ = leaving()
    rig.cloud.always("release", fail(CloudError("no answer")))
    rig.start()
    cleaned = rig.turn_until("record.cleaned", within=300)
    assert cleaned["reason"] == "after_shutdown"
    rig.turn(HOUR)
    assert set(ledger_of(rig)) == {"eni-1", "vol-1"}

    rig.cloud.always("release", None)
    rig.turn_until("leftover.released", within=2 * HOUR, leftover="vol-1")


def test_a_release_that_fails_is_tried_again_ever_later_and_said_once(leaving: Leaving) -> None:
    rig, _ = leaving()
    del rig.cloud.things["vol-1"]
    at: list[float] = []
    rig.cloud.always("release", fail(BadRequest("eni-1 is in use")))
    rig.start()
    rig.turn_until("leftover.release_failed", within=300)
    rig.cloud.always("release", first(lambda: at.append(rig.clock.boottime())))
    failed = rig.lines("leftover.release_failed")
    assert [(one["level"], one["attempt"]) for one in failed] == [("warning", 1)]
    assert failed[0]["retry_s"] == FIRST_RETRY_S
    rig.turn_until("leftover.released", within=120, leftover="eni-1")
    # Accepted, and asked for again.
    assert len(at) == 2


def test_a_destroy_that_is_refused_calls_its_leftovers_off(leaving: Leaving) -> None:
    """D5: whatever way a shut-down ends, the ledger follows."""
    rig, node = leaving()
    rig.cloud.always("destroy", fail(BadRequest("termination protection")))
    rig.start()
    rig.turn_until("node.shutdown_failed", within=300, node=node.id)
    assert len(rig.lines("leftover.entered")) >= 2
    assert len(rig.lines("leftover.called_off")) == len(rig.lines("leftover.entered"))
    assert rig.journal.leftovers(released=True) == ()

    rig.cloud.always("destroy", None)
    rig.turn_until("leftover.released", within=600, leftover="vol-1")
    assert released(rig) == ["eni-1", "vol-1"]


def test_a_shutdown_that_takes_too_long_leaves_its_leftovers_due(leaving: Leaving) -> None:
    """D5: nobody may be left to tell of the node's end; the release asks for the node first."""
    rig, node = leaving(action_timeout=120)
    for call in ("ask", "destroy"):
        rig.cloud.always(call, fail(CloudError("no answer")))
    rig.start()
    rig.turn_until("flight.expired", within=600, node=node.id)
    rig.cloud.change(node.id, state=CloudState.TERMINATED)
    rig.turn_until("leftover.released", within=VISIBLE_AFTER + 240, leftover="vol-1")
    assert rig.lines("node.gone") == rig.lines("leftover.found") == []
    assert releases(rig) == ["eni-1", "vol-1"]


def test_a_last_look_that_leaves_the_node_alone_enters_nothing(leaving: Leaving) -> None:
    rig, _ = leaving()
    rig.store.always("read", fail(CloudError("no answer")))
    rig.start()
    rig.turn_until("node.shutdown_skipped", within=300, reason="evidence_missing")
    assert rig.cloud.calls["pins"] >= 1
    assert rig.journal.leftovers(released=True) == ()


# What the node pins is not known.


def test_a_shutdown_waits_for_the_answer_what_the_node_pins_but_not_for_ever(
    leaving: Leaving,
) -> None:
    rig, node = leaving()
    rig.cloud.always("pins", fail(CloudError("no answer")))
    rig.start()
    rig.turn_until("node.gone", within=600, node=node.id)
    skipped = rig.reasons("node.shutdown_skipped", node=node.id)
    assert skipped == ["pins_unknown"] * (PINS_TRIES - 1)
    assert rig.cloud.calls["pins"] == PINS_TRIES
    assert "found by its tags" in rig.lines("leftover.unknown")[-1]["detail"]
    assert ledger_of(rig) == {}

    # The search picks them up.
    rig.turn(FIND_EVERY_S + VISIBLE_AFTER + ROUND)
    assert [line["leftover"] for line in rig.lines("leftover.found")] == ["vol-1", "eni-1"]
    assert released(rig) == ["eni-1", "vol-1"]


def test_one_answer_is_enough_to_go_on(leaving: Leaving) -> None:
    rig, node = leaving()
    rig.cloud.on("pins", fail(CloudError("no answer")))
    rig.start()
    rig.turn_until("node.gone", within=600, node=node.id)
    assert rig.reasons("node.shutdown_skipped") == ["pins_unknown"]
    assert set(ledger_of(rig)) == {"eni-1", "vol-1"}


def test_an_answer_that_always_comes_too_late_is_not_waited_for_for_ever(leaving: Leaving) -> None:
    rig, node = leaving()
    rig.cloud.always("pins", first(lambda: rig.clock.advance_to(rig.clock.boottime() + 61)))
    rig.start()
    rig.turn_until("node.gone", within=1200, node=node.id)
    assert rig.reasons("node.shutdown_skipped") == ["order_expired"] * PINS_TRIES
    assert rig.cloud.calls["pins"] == PINS_TRIES


def test_a_throttled_question_slows_every_call_down(leaving: Leaving) -> None:
    rig, _ = leaving()
    rig.cloud.on("pins", fail(Throttled("slow down", retry_after=200.0)))
    rig.start()
    rig.turn_until("leftover.unknown", within=300)
    rig.forget_calls()
    rig.turn(190)
    assert not rig.cloud.calls


# Found by our tags.


def test_what_no_ledger_names_is_found_at_the_start_and_released_once_it_is_sure(
    make_rig: MakeRig,
) -> None:
    """A1: a node younger than visible_after may be missing from what the cloud says."""
    rig = make_rig()
    left_behind(rig)
    rig.start()
    found = rig.lines("leftover.found")
    assert [(line["leftover"], line["node"], line["mode"]) for line in found] == [
        ("vol-1", "i-gone", "apply")
    ]
    rig.turn(VISIBLE_AFTER - 10)
    assert rig.cloud.calls["release"] == 0
    rig.turn(10 + FIRST_RETRY_S + 5)
    assert released(rig) == ["vol-1"]


def test_the_search_comes_again_about_every_hour(make_rig: MakeRig) -> None:
    rig = make_rig().start()
    left_behind(rig)
    rig.turn(FIND_EVERY_S - ROUND)
    assert (rig.cloud.calls["find_leftovers"], rig.lines("leftover.found")) == (1, [])
    rig.turn(2 * ROUND)
    assert rig.cloud.calls["find_leftovers"] == 2
    rig.turn(VISIBLE_AFTER + ROUND)
    assert released(rig) == ["vol-1"]


def test_a_search_that_fails_is_repeated_soon(make_rig: MakeRig) -> None:
    rig = make_rig()
    left_behind(rig)
    rig.cloud.on("find_leftovers", fail(CloudError("no answer")), fail(CloudError("no answer")))
    rig.start()
    rig.turn(ROUND)
    assert [line["attempt"] for line in rig.lines("leftover.unknown")] == [1, 2]
    assert len(rig.lines("leftover.found")) == 1


def test_what_bears_no_tags_of_ours_is_never_touched(leaving: Leaving) -> None:
    """D4: only what the ledger or our tag names."""
    rig, node = leaving()
    rig.cloud.pin(node.id, LeftoverKind.VOLUME, "vol-theirs", tagged=False)
    rig.cloud.pin("i-gone", LeftoverKind.VOLUME, "vol-old", tagged=False)
    rig.start()
    rig.turn(2 * FIND_EVERY_S)
    assert set(rig.cloud.things) == {"vol-theirs", "vol-old"}
    assert set(releases(rig)) == {"eni-1", "vol-1"}
    told = {line.get("leftover") for line in rig.out.fields}
    assert not told & {"vol-theirs", "vol-old"}


def test_an_adapter_s_find_without_our_tags_is_not_believed(make_rig: MakeRig) -> None:
    rig = make_rig()
    theirs = Leftover(LeftoverKind.VOLUME, "vol-9", "i-gone", tagged=False)
    rig.cloud.always("find_leftovers", answer(lambda found: (theirs,)))
    rig.start()
    rig.turn(HOUR)
    assert rig.cloud.calls["release"] == 0
    assert rig.lines("leftover.found") == []


def test_a_live_node_s_things_are_kept_and_said_to_be(make_rig: MakeRig) -> None:
    rig = make_rig()
    left_behind(rig)
    rig.cloud.always("release", fail(LeftAlone("vol-1 belongs to a node that is running")))
    rig.start()
    failed = rig.turn_until("leftover.release_failed", within=2 * VISIBLE_AFTER)
    assert failed["reason"] == "left_alone"
    rig.turn(2 * HOUR)
    levels = [one["level"] for one in rig.lines("leftover.release_failed")]
    assert levels == ["warning", "warning"]  # The first, and the one that is passed over.


# When nothing may be released.


def test_a_dry_run_says_what_it_would_release_and_releases_nothing(make_rig: MakeRig) -> None:
    """S3."""
    rig = make_rig()
    left_behind(rig)
    rig.start(dry_run=True)
    rig.turn(3 * HOUR)
    assert rig.cloud.calls["release"] == 0
    assert rig.cloud.calls["find_leftovers"] >= 3
    assert rig.journal.leftovers(released=True) == ()
    found, would = rig.lines("leftover.found"), rig.lines("leftover.release")
    assert [(line["leftover"], line["mode"]) for line in found] == [("vol-1", "dry-run")]
    assert [(line["leftover"], line["mode"]) for line in would] == [("vol-1", "dry-run")]


def test_an_open_breaker_releases_nothing_until_it_is_reset(make_rig: MakeRig) -> None:
    """B2."""
    rig = make_rig()
    left_behind(rig)
    rig.journal.keep(BREAKER, Breaker(Cause.RECORDS_COLLAPSED, frozenset({"r-1"})))
    rig.start()
    rig.turn(HOUR)
    assert rig.cloud.calls["release"] == 0
    deferred = rig.lines("leftover.deferred")
    assert [(line["reason"], line["count"]) for line in deferred] == [("breaker_open", 1)]

    tell(rig, Ordered(Command(Verb.BREAKER_RESET, "test"), lambda problem: None))
    rig.turn(ROUND)
    assert released(rig) == ["vol-1"]


def test_without_the_lease_nothing_is_released(make_rig: MakeRig) -> None:
    """L6."""
    rig = make_rig()
    left_behind(rig)
    rig.start()
    until(rig, "leftover.found", within=ROUND)
    rig.lease = False
    rig.turn(HOUR)
    assert rig.cloud.calls["release"] == 0
    assert rig.reasons("leftover.deferred") == ["no_lease"]
    rig.lease = True
    rig.turn(ROUND)
    assert released(rig) == ["vol-1"]


def test_another_account_is_neither_asked_nor_released_from(make_rig: MakeRig) -> None:
    """L5."""
    rig = make_rig().start()
    rig.kill()
    left_behind(rig)
    rig.cloud.account_name = "fake:account-2"
    rig.forget_calls()
    rig.start()
    rig.turn(HOUR)
    assert rig.cloud.calls["find_leftovers"] == rig.cloud.calls["release"] == 0


@pytest.mark.parametrize("held", ["vol-1", "i-gone"], ids=["itself", "its-node"])
def test_an_operator_s_hold_keeps_what_was_left(make_rig: MakeRig, held: str) -> None:
    """C9."""
    rig = make_rig()
    left_behind(rig)
    rig.start()
    tell(rig, Ordered(Command(Verb.HOLD, "test", "looking", held), lambda problem: None))
    rig.turn(HOUR)
    assert rig.cloud.calls["release"] == 0
    assert rig.reasons("leftover.deferred") == ["held"]
    tell(rig, Ordered(Command(Verb.RELEASE, "test", "", held), lambda problem: None))
    rig.turn(ROUND)
    assert released(rig) == ["vol-1"]


def test_a_journal_that_can_t_be_written_destroys_nothing_and_releases_nothing(
    leaving: Leaving,
) -> None:
    rig, node = leaving()
    journal = memory(rig)
    journal.fault = lambda call: "the disk is full" if call == "save_leftovers" else None
    rig.start()
    skipped = rig.turn_until("node.shutdown_skipped", within=300, node=node.id)
    assert skipped["reason"] == "read_only"
    assert rig.cloud.calls["destroy"] == 0
    journal.heal()
    rig.turn_until("leftover.released", within=600, leftover="vol-1")


def test_what_became_of_a_release_is_owed_to_a_journal_that_fails(leaving: Leaving) -> None:
    rig, _ = leaving()
    journal = memory(rig)
    rig.cloud.on("release", first(journal.fail))
    rig.start()
    rig.turn_until("journal.failed", within=300)
    rig.turn(5 * ROUND)
    # The order that was in the air, and no other.
    assert releases(rig) == ["eni-1"]
    assert "read_only" in rig.reasons("leftover.deferred")

    journal.heal()
    rig.turn_until("leftover.released", within=600, leftover="vol-1")
    assert ledger_of(rig) == {}
    assert len(rig.journal.leftovers(released=True)) == 2


def test_the_end_of_a_release_is_owed_to_a_journal_that_fails(leaving: Leaving) -> None:
    rig, _ = leaving()
    del rig.cloud.things["vol-1"]
    journal = memory(rig)
    rig.cloud.on("release", Step(), first(journal.fail))
    rig.start()
    rig.turn_until("leftover.released", within=300)
    assert set(ledger_of_failing(journal)) == {"eni-1"}
    journal.heal()
    rig.turn(ROUND)
    assert ledger_of(rig) == {}
    assert rig.cloud.calls["release"] == 2


def ledger_of_failing(journal: MemoryJournal) -> list[str]:
    """What is on its disk, though it answers nothing."""
    fault, journal.fault = journal.fault, lambda call: None
    kept = [entry.leftover.id for entry in journal.leftovers()]
    journal.fault = fault
    return kept


def test_a_destroy_that_could_not_be_written_down_calls_its_leftovers_off(
    leaving: Leaving,
) -> None:
    rig, _ = leaving()
    journal = memory(rig)
    journal.fault = lambda call: "the disk is full" if call == "intend" else None
    rig.start()
    rig.turn_until("node.shutdown_skipped", within=300, reason="read_only")
    assert rig.cloud.calls["destroy"] == 0
    called_off = {line["leftover"] for line in rig.lines("leftover.called_off")}
    assert called_off == {"eni-1", "vol-1"}
    rig.fleet.state = WorkerState.BUSY
    journal.heal()
    rig.turn(2 * ROUND)
    assert rig.journal.leftovers(released=True) == ()


def test_what_was_called_off_is_owed_to_a_journal_that_fails(leaving: Leaving) -> None:
    rig, _ = leaving()
    journal = memory(rig)
    journal.fault = lambda call: "the disk is full" if call == "forget_leftovers" else None
    rig.cloud.always("destroy", fail(BadRequest("termination protection")))
    rig.start()
    rig.turn_until("journal.failed", within=300)
    assert set(ledger_of(rig)) == {"eni-1", "vol-1"}

    rig.fleet.state = WorkerState.BUSY
    rig.turn(ROUND)
    journal.heal()
    rig.turn(ROUND)
    assert rig.lines("journal.healed")
    assert rig.journal.leftovers(released=True) == ()


# Restarts, and the end.


def test_killed_between_destroy_and_release_the_next_run_releases(
    make_rig: MakeRig, tmp_path: Path
) -> None:
    """D5, R1: on a journal that is a file."""
    cloud = FakeCloud(TickingClock(), visible_after=VISIBLE_AFTER)

    def opened() -> SqliteJournal:
        return SqliteJournal(tmp_path / "journal.db", pool=cloud.pool, clock=cloud.clock)

    rig = make_rig(cloud=cloud, journal=opened(), min_nodes=0)
    pinning(rig)
    rig.start()
    cloud.always("release", fail(CloudError("the connection was cut")))
    rig.turn_until("node.gone", within=300)
    rig.kill()
    rig.journal.close()
    assert set(cloud.things) == {"eni-1", "vol-1"}

    cloud.always("release", None)
    rig.journal = opened()
    rig.forget_lines()
    rig.start()
    assert set(ledger_of(rig)) == {"eni-1", "vol-1"}
    rig.turn_until("leftover.released", within=VISIBLE_AFTER + 120, leftover="vol-1")
    assert released(rig) == ["eni-1", "vol-1"]
    assert rig.cloud.things == {}
    assert ledger_of(rig) == {}
    rig.journal.close()


def test_killed_before_the_destroy_was_sent_the_live_node_keeps_its_things(
    leaving: Leaving,
) -> None:
    """D5: entered, and nothing more; the next run asks for the node first."""
    rig, node = leaving()
    rig.cloud.on("destroy", killed_in(rig, lost=False))
    rig.start()
    killed(rig)
    rig.fleet.states[node.id] = WorkerState.BUSY
    restart(rig)
    assert set(ledger_of(rig)) == {"eni-1", "vol-1"}
    rig.turn(HOUR)
    assert rig.cloud.calls["release"] == 0
    assert rig.reasons("leftover.deferred") == ["in_flight"]
    called_off = {line["leftover"] for line in rig.lines("leftover.called_off")}
    assert called_off == {"eni-1", "vol-1"} == set(rig.cloud.things)
    assert rig.journal.leftovers(released=True) == ()


def test_what_an_inherited_destroy_may_leave_is_not_called_off_before_it_is_asked_about_d4_r1(
    leaving: Leaving,
) -> None:
    """The new run has seen the cloud and not the records: the destroy may still be on its way."""
    rig, node = leaving()
    rig.cloud.on("destroy", killed_in(rig, lost=False))
    rig.start()
    killed(rig)
    rig.store.always("list_records", fail(StoreError("timed out")))
    restart(rig)
    rig.turn(2 * VISIBLE_AFTER)
    assert not rig.lines("leftover.called_off", node=node.id)
    assert set(ledger_of(rig)) == {"vol-1", "eni-1"}


def test_a_release_in_the_air_is_waited_for_and_no_other_begun_when_the_daemon_stops(
    leaving: Leaving,
) -> None:
    rig, _ = leaving()
    rig.start()
    rig.turn_until("leftover.release", within=300)
    rig.ask_to_stop()
    begun = rig.cloud.calls["release"]
    rig.turn(HOUR)
    assert rig.stopped == ["done"] * len(rig.stopped)
    assert rig.stopped
    assert rig.cloud.calls["release"] == begun


def test_one_round_enters_what_is_left_and_leaves_it_to_the_daemon(leaving: Leaving) -> None:
    rig, _ = leaving()
    rig.start(once=True)
    rig.turn(10 * ROUND)
    assert rig.codes
    assert set(rig.codes) == {0}
    assert rig.lines("node.gone")
    rig.kill()
    rig.start()
    rig.turn(VISIBLE_AFTER + 2 * ROUND)
    assert rig.cloud.things == {}
    assert ledger_of(rig) == {}


def test_one_thing_is_released_at_a_time_and_shutdowns_go_on_beside_it(make_rig: MakeRig) -> None:
    """However many are due, one worker at most is kept from the shutdowns."""
    rig = make_rig(min_nodes=0)
    for number in range(20):
        rig.cloud.pin(f"i-gone-{number}", LeftoverKind.VOLUME, f"vol-of-{number}")
    under_way: list[int] = []
    most: list[int] = []

    def begins() -> None:
        under_way.append(1)
        most.append(len(under_way))

    def ends(outcome: Outcome) -> Outcome:
        under_way.pop()
        return outcome

    rig.cloud.always("release", Step(before=begins, altered=ends))
    rig.start()
    rig.turn(VISIBLE_AFTER - ROUND)
    node = pinning(rig)
    rig.turn_until("node.gone", within=300, node=node.id)
    rig.turn(VISIBLE_AFTER)
    assert len(releases(rig)) == len(set(releases(rig))) == 22
    assert max(most) == 1
