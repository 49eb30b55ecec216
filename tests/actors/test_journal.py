"""Nothing is done that was not written down first, and nothing while it can't be (R1, DESIGN)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodemanager.core.model.world import Guarantee, WorkerState
from nodemanager.core.replay.fold import Start
from nodemanager.errors import QuotaExceeded, StoreError
from nodemanager.journal.api import IntentKind
from nodemanager.journal.reading import read
from nodemanager.journal.replay import replayed
from nodemanager.journal.sqlite import SqliteJournal
from tests.actors.conftest import MakeRig
from tests.actors.rig import Rig, until
from tests.fakes import FakeCloud, FakeStore, TickingClock, fail, first
from tests.fakes.journal import MemoryJournal

HOUR = 3600.0


def memory(rig: Rig) -> MemoryJournal:
    assert isinstance(rig.journal, MemoryJournal)
    return rig.journal


def outcomes(rig: Rig) -> list[tuple[str, str]]:
    return [(one.intent.kind.value, one.outcome) for one in rig.journal.concluded()]


def seen_open(rig: Rig, kind: IntentKind, seen: list[str]) -> Callable[[], None]:
    """Notes the keys of the open intents of that kind, at the moment of a call."""
    return lambda: seen.extend(
        one.intent.key for one in rig.journal.open_intents() if one.intent.kind is kind
    )


def lose_file(rig: Rig) -> None:
    """The file is moved away: one call fails, and the next begins a new file."""
    kept = memory(rig)
    kept._intents.clear()
    told = iter(("it was moved or removed",))
    kept.fault = lambda call: next(told, None)


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
def test_what_is_under_way_is_in_the_new_journal_when_the_file_is_lost_r1(
    make_rig: MakeRig, kind: str
) -> None:
    """R1, C20: a kill must find it, and what rests on it is proven by it."""
    rig = make_rig(min_nodes=1 if kind == "create" else 0)
    rig.fleet.state = WorkerState.IDLE
    if kind == "destroy":
        rig.fleet.add_node(age=10 * HOUR)

    rig.cloud.on(kind, first(lambda: lose_file(rig)))
    rig.start()
    until(rig, "journal.healed", within=900)
    open_again = [one.intent.key for one in rig.journal.open_intents()]
    until(rig, "node.created" if kind == "create" else "record.cleaned", within=900)
    rig.turn(60)
    assert (kind, "created" if kind == "create" else "gone") in outcomes(rig), open_again
    assert rig.journal.open_intents() == ()
    assert rig.lines("invariant.broken") == []


@pytest.mark.parametrize("call", ["read", "clean"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_destroy_is_in_the_new_journal_while_the_clean_that_rests_on_it_is_under_way_c20(
    make_rig: MakeRig, call: str, restarted: bool
) -> None:
    """C20: the file is lost once the destroy has ended and before its clean has."""
    rig = make_rig(min_nodes=0)
    rig.fleet.state = WorkerState.IDLE
    _, record = rig.fleet.add_node(age=10 * HOUR)
    if restarted:
        # A former run left the clean, and nothing but the journal knows of its destroy.
        rig.store.always("clean", fail(StoreError("timeout")))
        rig.start()
        until(rig, "record.clean_failed", within=900)
        rig.kill()
        rig.store.always("clean", None)

    lost: list[str] = []

    def lose_once() -> None:
        keys = [one.intent.key for one in rig.journal.open_intents()]
        if keys == [f"clean:{record.uuid}"] and not lost:
            lost.extend(keys)
            lose_file(rig)

    rig.store.always(call, first(lose_once))
    rig.start()
    until(rig, "journal.healed", within=900)
    until(rig, "record.cleaned", within=900, record=record.uuid)
    rig.turn(60)
    assert outcomes(rig) == [("destroy", "gone"), ("clean", "cleaned")]
    assert rig.journal.open_intents() == ()
    assert rig.lines("invariant.broken") == []


@pytest.mark.parametrize("reason", ["stale_slot", "after_shutdown"])
def test_a_clean_whose_proof_is_owed_is_in_the_new_journal_when_the_file_is_lost(
    make_rig: MakeRig, reason: str
) -> None:
    """Its outcome was written, its entry could not be read then, and now the file is lost."""
    rig = make_rig(min_nodes=0, backlog="clean")
    rig.fleet.state = WorkerState.IDLE
    silent_s = 3 * HOUR if reason == "stale_slot" else 0.0
    machine, record = rig.fleet.add_node(age=10 * HOUR, pinged_ago=silent_s)
    if reason == "stale_slot":
        rig.cloud.vanish(machine.node.id)
    memory(rig).fault = lambda call: "the disk is full" if call in ("newest", "retry") else None
    rig.start()
    until(rig, "record.cleaned", within=900, record=record.uuid, reason=reason)
    until(rig, "journal.failed", within=60)
    rig.turn(60)
    lose_file(rig)
    until(rig, "journal.healed", within=300)
    rig.turn(60)

    assert rig.lines("invariant.broken") == []
    assert rig.lines("breaker.opened") == []
    (image,) = rig.journal.pre_images(record=record.uuid)
    assert (image.outcome, image.record.ping_secret) == ("cleaned", record.ping_secret)
    told = [line["error"] for line in rig.lines("journal.failed")]
    assert told == ["JournalError: the disk is full", "JournalError: it was moved or removed"]

    # Once it is proven, another loss takes it like all that is over.
    lose_file(rig)
    rig.turn(120)
    assert outcomes(rig) == []
    assert rig.lines("invariant.broken") == []


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
    assert len(steps) > 300
    by_run: dict[str, list[int]] = {}
    for step in steps:
        run, number = step.plan.plan_id.split("-")
        by_run.setdefault(run, []).append(int(number))
    assert [one == list(range(1, len(one) + 1)) for one in by_run.values()] == [True, True]
    assert all(step.is_same for step in steps)
    reasons = {verdict.reason for step in steps for verdict in step.plan.records}
    assert {"within_window", "stale_slot", "paired"} <= reasons
