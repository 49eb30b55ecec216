"""Nothing is done that was not written down first, and nothing while it can't be (R1, DESIGN)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodemanager.actors.report.journal_writer import JournalAccess, JournalWriter
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.world import Guarantee, WorkerState
from nodemanager.core.observe.snapshot import LateWrite
from nodemanager.core.replay.fold import Start
from nodemanager.errors import JournalReplaced, QuotaExceeded, StoreError
from nodemanager.journal.api import IntentKind
from nodemanager.journal.kept import (
    BACKLOG_MARKS,
    BREAKER,
    GIVEN_BACK,
    LATE_WRITES,
    PLACE_RESTS,
    Kept,
)
from nodemanager.journal.reading import read
from nodemanager.journal.replay import replayed
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.lib.log import get
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, memory, until
from tests.cases import cases
from tests.fakes import FakeCloud, FakeStore, TickingClock, fail, first
from tests.fakes.journal import MemoryJournal

HOUR = 3600.0


def outcomes(rig: Rig) -> list[tuple[str, str]]:
    return [(one.intent.kind.value, one.outcome) for one in rig.journal.concluded()]


def seen_open(rig: Rig, kind: IntentKind, seen: list[str]) -> Callable[[], None]:
    """Notes the keys of the open intents of that kind, at the moment of a call."""
    return lambda: seen.extend(
        one.intent.key for one in rig.journal.open_intents() if one.intent.kind is kind
    )


def replace_file(rig: Rig) -> None:
    memory(rig).replaced = True


def start_again(rig: Rig) -> None:
    """What systemd does once the daemon ended, which it did because its journal was replaced."""
    ((actor, error),) = rig.deaths
    assert actor == "NodeManagerDaemonActor"
    assert isinstance(error, JournalReplaced)
    assert rig.lines("journal.failed") == [], "it ends at the first call, and the service says why"
    rig.deaths.clear()
    rig.kill()
    rig.journal = MemoryJournal(rig.clock)
    rig.start()


# Written ahead.


def test_a_create_is_written_down_before_it_is_sent(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1)
    at_claim: list[str] = []
    at_create: list[str] = []
    rig.store.on("create", first(seen_open(rig, IntentKind.CREATE, at_claim)))
    rig.cloud.on("create", first(seen_open(rig, IntentKind.CREATE, at_create)))
    rig.start()
    until(rig, "node.created", within=120)
    incarnation = rig.records[0].incarnation
    assert at_claim == at_create == [f"create:{incarnation}"]
    assert outcomes(rig) == [("create", "created")]
    assert rig.journal.open_intents() == ()


def test_a_refused_create_and_the_release_of_its_claim_are_written_down(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1)
    rig.cloud.on("create", fail(QuotaExceeded("no more")))
    rig.start()
    until(rig, "record.cleaned", within=120, reason="create_refused")
    assert outcomes(rig) == [("create", "refused"), ("clean", "cleaned")]


def test_a_destroy_and_the_clean_behind_it_are_written_down_before_they_are_sent(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=0)
    rig.fleet.state = WorkerState.IDLE
    machine, record = rig.fleet.add_node(age=10 * HOUR)
    before_clean = rig.store.rows[record.uuid]
    destroys: list[str] = []
    cleans: list[str] = []
    rig.cloud.on("destroy", first(seen_open(rig, IntentKind.DESTROY, destroys)))
    rig.store.on("clean", first(seen_open(rig, IntentKind.CLEAN, cleans)))
    rig.start()
    until(rig, "record.cleaned", within=600, record=record.uuid)
    assert destroys == [f"destroy:{machine.node.id}"]
    assert cleans == [f"clean:{record.uuid}"]
    assert outcomes(rig) == [("destroy", "gone"), ("clean", "cleaned")]
    (image,) = rig.journal.pre_images(record=record.uuid)
    assert image.outcome == "cleaned"
    assert image.record.slot_number == before_clean.slot_number
    assert image.record.ping_secret == before_clean.ping_secret is not None
    assert image.incarnation == before_clean.incarnation


def test_a_fence_is_written_down_with_the_secret_it_takes_away(
    make_rig: MakeRig, clock: TickingClock
) -> None:
    store = FakeStore(clock, guarantee=Guarantee.FENCED)
    rig = make_rig(cloud=FakeCloud(clock), store=store, backlog="clean")
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    secret = record.ping_secret
    rig.cloud.vanish(machine.node.id)
    fences: list[str] = []
    store.on("fence", first(seen_open(rig, IntentKind.FENCE, fences)))
    rig.start()
    until(rig, "record.cleaned", within=600, record=record.uuid)
    assert fences == [f"clean:{record.uuid}"]
    (image,) = rig.journal.pre_images(record=record.uuid)
    assert (image.record.ping_secret, image.outcome) == (secret, "cleaned")


def test_whatever_is_skipped_or_fails_ends_in_the_journal_too(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, backlog="clean")
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    rig.cloud.vanish(machine.node.id)
    rig.store.on("clean", fail(StoreError("timeout")))
    rig.start()
    until(rig, "record.cleaned", within=900, record=record.uuid)
    assert outcomes(rig) == [("clean", "unknown"), ("clean", "cleaned")]
    assert rig.journal.open_intents() == ()


# A journal that fails.


def test_nothing_is_begun_while_the_journal_can_not_be_written(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=3, backlog="clean")
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    rig.cloud.vanish(machine.node.id)
    memory(rig).fail("the disk is full")
    rig.start()
    rig.turn(600)
    assert rig.cloud.calls["create"] == rig.store.calls["clean"] == 0
    assert rig.reasons("record.keep", record=record.uuid)[-1] == "read_only"
    (line,) = rig.lines("journal.failed")
    assert "the disk is full" in str(line["error"])
    assert rig.lines("journal.healed") == []
    assert rig.lines("cycle.done"), "it goes on polling and deciding"

    memory(rig).heal()
    until(rig, "record.cleaned", within=120, record=record.uuid)
    rig.turn(60)
    assert len(rig.lines("journal.healed")) == len(rig.lines("journal.failed")) == 1
    assert len(rig.nodes) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["create", "destroy", "clean"])
def test_an_order_that_can_not_be_written_down_is_not_carried_out(
    make_rig: MakeRig, kind: str
) -> None:
    rig = make_rig(min_nodes=1 if kind == "create" else 0, backlog="clean")
    rig.fleet.state = WorkerState.IDLE
    if kind == "destroy":
        rig.fleet.add_node(age=10 * HOUR)
    elif kind == "clean":
        rig.store.add_leaked(40, quiet_for=3 * HOUR)
    # Only the writing ahead fails, and only when it comes to that.
    memory(rig).fault = lambda call: "the disk is full" if call == "intend" else None
    rig.start()
    rig.turn(900)
    fake = rig.store if kind == "clean" else rig.cloud
    assert fake.calls[kind] == 0
    assert rig.lines("journal.failed")
    assert not rig.deaths

    memory(rig).heal()
    rig.turn(900)
    assert fake.calls[kind] > 0


def test_a_record_that_is_due_to_a_destroy_is_freed_once_the_journal_heals(
    make_rig: MakeRig,
) -> None:
    rig = make_rig(min_nodes=0)
    rig.fleet.state = WorkerState.IDLE
    _, record = rig.fleet.add_node(age=10 * HOUR)
    rig.cloud.on("destroy", first(lambda: memory(rig).fail("the disk is full")))
    rig.start()
    until(rig, "journal.failed", within=600)
    rig.turn(120)
    # That it is gone, and the clean that follows, are written down as one.
    assert rig.lines("node.gone") == []
    assert rig.store.rows[record.uuid].slot_number is not None
    assert rig.store.calls["clean"] == 0

    memory(rig).heal()
    until(rig, "node.gone", within=60)
    until(rig, "record.cleaned", within=400, record=record.uuid, reason="after_shutdown")
    rig.turn(60)
    assert rig.journal.open_intents() == ()
    assert ("destroy", "gone") in outcomes(rig)


def test_an_outcome_that_could_not_be_written_is_written_once_it_can(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1)
    rig.cloud.on("create", first(lambda: memory(rig).fail()))
    rig.start()
    until(rig, "node.created", within=120)
    rig.turn(60)
    memory(rig).heal()
    assert [one.intent.kind for one in rig.journal.open_intents()] == [IntentKind.CREATE]
    rig.turn(60)
    assert rig.journal.open_intents() == ()
    assert outcomes(rig) == [("create", "created")]


@pytest.mark.parametrize("kind", ["create", "destroy"])
def test_a_replaced_journal_ends_the_daemon_and_the_next_finds_what_was_under_way_r1(
    make_rig: MakeRig, kind: str
) -> None:
    """R1: it has the claims and the tags to go by."""
    rig = make_rig(min_nodes=1 if kind == "create" else 0)
    rig.fleet.state = WorkerState.IDLE
    if kind == "destroy":
        rig.fleet.add_node(age=10 * HOUR)
    rig.cloud.on(kind, first(lambda: replace_file(rig)))
    rig.start()
    for _ in range(30):
        if not rig.deaths:
            rig.turn(30)
    start_again(rig)
    (record,) = rig.records
    if kind == "create":
        until(rig, "node.paired", within=900)
        assert len(rig.cloud.living()) == 1
    else:
        until(rig, "record.cleaned", within=4 * HOUR, record=record.uuid)
        assert rig.cloud.living() == []
    assert rig.journal.open_intents() == ()
    assert rig.lines("invariant.broken") == []


def test_a_replaced_journal_is_noticed_before_a_new_action_is_sent(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0)
    rig.start()
    rig.turn(60)
    replace_file(rig)
    rig.fleet.add_node(age=10 * HOUR)
    rig.fleet.state = WorkerState.IDLE
    for _ in range(30):
        rig.turn(30)
    assert rig.cloud.calls["destroy"] == 0
    start_again(rig)
    until(rig, "record.cleaned", within=900)


def test_a_clean_is_proven_once_its_entry_can_be_read_c20(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=0, backlog="clean")
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=3 * HOUR)
    rig.cloud.vanish(machine.node.id)
    asked: list[str] = []

    def unreadable(call: str) -> str | None:
        if call in ("newest", "retry"):
            asked.append(call)
            return "the disk fails"
        return None

    memory(rig).fault = unreadable
    rig.start()
    until(rig, "record.cleaned", within=900, record=record.uuid)
    until(rig, "journal.failed", within=60)
    memory(rig).fault = lambda call: asked.append(call)
    asked.clear()
    until(rig, "journal.healed", within=300)
    rig.turn(60)
    assert asked.count("newest") == 1
    assert rig.lines("invariant.broken") == []


# What waits.


def test_what_could_not_be_written_is_written_in_order_and_the_newest_of_each_alone() -> None:
    clock = TickingClock()
    journal, written = MemoryJournal(clock), list[str]()
    access = JournalAccess(journal, get("nodemanager.daemon"), lambda: True)
    access.is_loaded = True

    def write(what: str) -> Callable[[], None]:
        def it() -> None:
            journal.conclude(what, "gone")
            written.append(what)

        return it

    access.owes("a", write("a1"))
    journal.fail()
    for key, what in (("a", "a2"), ("b", "b1"), ("c", "c1"), ("b", "b2")):
        access.owes(key, write(what))
    access.mends()
    assert written == ["a1"]
    assert access.problem == "the journal can't be written: the disk is full"

    left = iter((None, None, "the disk is full"))
    journal.fault = lambda call: next(left)
    access.mends()
    assert written == ["a1", "a2", "c1"]
    assert access.problem is not None
    journal.heal()
    access.owes("d", write("d1"))
    assert written == ["a1", "a2", "c1"], "it waits behind what is older"
    access.mends()
    assert written == ["a1", "a2", "c1", "b2", "d1"]
    assert access.problem is None
    access.mends()
    assert len(written) == 5


@cases(
    ("what", "own"),
    {
        "the-breaker": (BREAKER, Breaker(Cause.WRITES_FAIL, generation=1)),
        "late-writes": (LATE_WRITES, {"r1": LateWrite(1.0)}),
        "rests-of-places": (PLACE_RESTS, {"small": {"zone-a": 9e9}}),
        "lives-given-back": (GIVEN_BACK, {"r1:life": 1.0}),
        "a-backlog-run": (BACKLOG_MARKS, {"run": 1}),
    },
)
def test_what_changed_before_the_journal_was_read_is_written_once_it_is(
    what: Kept[Any], own: Any
) -> None:
    clock = TickingClock()
    journal = MemoryJournal(clock)
    writer = JournalWriter(journal, get("nodemanager.daemon"), lambda: True)
    journal.fail("the disk is away")
    assert writer.load() is None
    writer.keep(what, own)
    journal.heal()
    assert writer.mend() is not None
    assert journal.kept(what) == own


def test_once_ends_with_1_when_the_journal_can_not_be_written(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=1)
    memory(rig).fail()
    rig.start(once=True)
    rig.turn(300)
    assert rig.codes[:1] == [1]
    assert rig.cloud.calls["create"] == 0


def test_a_dry_run_writes_no_intent(make_rig: MakeRig) -> None:
    rig = make_rig(min_nodes=2)
    rig.start(dry_run=True)
    rig.turn(300)
    assert rig.lines("node.setup_started", mode="dry-run")
    assert rig.journal.open_intents() == rig.journal.concluded() == ()
    assert isinstance(memory(rig).entries[0], Start)


# What was recorded.


@pytest.fixture
def on_disk(tmp_path: Path, clock: TickingClock) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(tmp_path / "journal.db", pool="pool", clock=clock)
    yield journal
    journal.close()


@pytest.mark.slow
def test_a_long_run_of_the_actors_replays_to_the_recorded_verdicts(
    make_rig: MakeRig, clock: TickingClock, cloud: FakeCloud, on_disk: SqliteJournal
) -> None:
    rig = make_rig(cloud=cloud, journal=on_disk, min_nodes=6, max_nodes=8, backlog="clean")
    rig.store.add_leaked(60, quiet_for=3 * HOUR)
    rig.start()
    rig.turn(600)
    rig.cloud.vanish(rig.nodes[0].id)
    rig.cloud.on("list_nodes", fail(QuotaExceeded("nonsense")))
    rig.turn(3 * HOUR)
    rig.kill()
    rig.start()
    rig.fleet.state = WorkerState.IDLE
    rig.cloud.machines.clear()
    rig.turn(600)
    assert rig.lines("breaker.opened")
    steps = list(replayed(read(on_disk.path)))
    assert len(steps) > 150
    by_run: dict[str, list[int]] = {}
    for step in steps:
        run, number = step.plan.plan_id.split("-")
        by_run.setdefault(run, []).append(int(number))
    assert [one == list(range(1, len(one) + 1)) for one in by_run.values()] == [True, True]
    assert all(step.is_same for step in steps)
    reasons = {verdict.reason for step in steps for verdict in step.plan.records}
    assert {"within_window", "stale_slot", "paired"} <= reasons
