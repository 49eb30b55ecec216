"""What is forgotten, by age and by size, and what never is."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nodemanager.core.model.annotations import Mark, Marks
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.world import Leftover, LeftoverKind
from nodemanager.core.plan.leftovers import Entry, LedgerState
from nodemanager.core.replay.fold import Start
from nodemanager.journal import recording
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.kept import BACKLOG_MARKS, BREAKER, MARKS
from nodemanager.journal.reading import Decided, read
from nodemanager.journal.replay import replayed
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.story import Story
from tests.core.build import record
from tests.fakes.clock import ManualClock
from tests.journal.random_world import RandomWorld

Opener = Callable[..., SqliteJournal]
DAY = 86400.0


def clean(uuid: str) -> Intent:
    image = record(uuid, at=1.0)
    return Intent(IntentKind.CLEAN, f"clean:{uuid}", "p", record=uuid, pre_image=image)


def left(id: str) -> Entry:
    return Entry(Leftover(LeftoverKind.VOLUME, id, "i-1"), LedgerState.WAITING, 0.0)


def test_what_ended_is_forgotten_once_it_is_old(opened: Opener, clock: ManualClock) -> None:
    journal = opened(keep=7 * DAY)
    for uuid in ("r-1", "r-2", "r-3"):
        journal.intend([clean(uuid)])
    journal.conclude("clean:r-1", "cleaned")
    journal.save_leftovers([left("v-1"), left("v-2")])
    journal.save_leftovers([replace(left("v-1"), state=LedgerState.RELEASED)])
    clock.advance(6.9 * DAY)
    journal.conclude("clean:r-2", "cleaned")
    journal.tidy()
    assert len(journal.concluded()) == 2
    clock.advance(0.2 * DAY)
    journal.tidy()
    assert [one.intent.key for one in journal.concluded()] == ["clean:r-2"]
    assert [image.record.uuid for image in journal.pre_images()] == ["r-3", "r-2"]
    assert [one.leftover.id for one in journal.leftovers(released=True)] == ["v-2"]


def test_what_is_open_or_stands_is_kept_however_old(opened: Opener, clock: ManualClock) -> None:
    journal = opened(keep=7 * DAY, max_size=1)
    breaker = Breaker(Cause.MASS_SILENCE, frozenset({"i-1"}))
    marks = Marks(holds={"i-1": Mark("anna", clock.wall())})
    journal.intend([clean("r-1")])
    journal.keep(MARKS, marks)
    journal.keep(BREAKER, breaker)
    journal.save_leftovers([left("v-1")])
    journal.keep(BACKLOG_MARKS, {"id": 7})
    clock.advance(1000 * DAY)
    journal.tidy()
    assert len(journal.open_intents()) == len(journal.pre_images()) == 1
    assert len(journal.leftovers()) == 1
    assert journal.kept(MARKS) == marks
    assert journal.kept(BREAKER) == breaker
    assert journal.kept(BACKLOG_MARKS) == {"id": 7}


def in_segments(journal: SqliteJournal, world: RandomWorld, rounds: int) -> None:
    for decision in world.run(rounds):
        journal.decided(decision)


@pytest.fixture(autouse=True)
def _short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 10)


@pytest.mark.slow
def test_the_oldest_decisions_go_first_when_it_grows_too_large(opened: Opener, path: Path) -> None:
    journal = opened(max_size=150_000)
    world = RandomWorld(1, journal, size=40)
    sizes = []
    for _ in range(6):
        in_segments(journal, world, 30)
        journal.tidy()
        log = path.with_name("journal.db-wal")
        sizes.append(path.stat().st_size + log.stat().st_size)
    assert max(sizes) < 300_000
    steps = list(replayed(read(path)))
    assert 10 < len(steps) < 180
    assert all(step.is_same for step in steps)
    assert steps[-1].snapshot.plan_id == world.snapshots[-1][0].plan_id
    kept = [step.snapshot.plan_id for step in steps]
    assert kept == [snapshot.plan_id for snapshot, _, _ in world.snapshots[-len(steps) :]]


def test_decisions_older_than_keep_go_whole_segments_at_a_time(
    opened: Opener, path: Path, clock: ManualClock
) -> None:
    world = RandomWorld(2, opened())
    in_segments(world.journal, world, 40)
    walls = [snapshot.wall for snapshot, _, _ in world.snapshots]
    clock.advance(walls[15] + 7 * DAY - clock.wall())
    opened(keep=7 * DAY).tidy()
    entries = list(read(path))
    assert isinstance(entries[0], Start)
    kept = [one.snapshot.wall for one in entries if isinstance(one, Decided)]
    assert kept == walls[10:]


def test_the_newest_segment_is_kept_whatever_its_size(opened: Opener, path: Path) -> None:
    journal = opened(max_size=1)
    in_segments(journal, RandomWorld(3, journal), 25)
    journal.tidy()
    assert sum(isinstance(one, Decided) for one in read(path)) == 5


def reported_at(path: Path) -> list[float]:
    return [one.at for one in Story(path).news()]


def test_what_was_told_goes_by_age(opened: Opener, path: Path, clock: ManualClock) -> None:
    journal = opened(keep=7 * DAY)
    for _ in range(3):
        journal.tell(LoggedEvent(clock.wall(), "node.gone"))
        assert journal.retry()
        clock.advance(3 * DAY)
    journal.tidy()
    assert reported_at(path) == [clock.wall() - 6 * DAY, clock.wall() - 3 * DAY]


def test_what_was_told_goes_with_the_decisions_of_its_time(opened: Opener, path: Path) -> None:
    journal = opened(max_size=1)
    world = RandomWorld(3, journal)
    for decision in world.run(25):
        journal.tell(LoggedEvent(decision.snapshot.wall, "node.gone"))
        journal.decided(decision)
    journal.tidy()
    walls = [snapshot.wall for snapshot, _, _ in world.snapshots]
    assert reported_at(path) == walls[20:]


def test_it_tidies_itself_now_and_then(opened: Opener, path: Path, clock: ManualClock) -> None:
    journal = opened(max_size=1)
    world = RandomWorld(4, journal)
    in_segments(journal, world, 40)
    clock.advance(601)
    in_segments(journal, world, 1)
    assert sum(isinstance(one, Decided) for one in read(path)) == 1


def test_the_log_is_cut_back(opened: Opener, path: Path) -> None:
    journal = opened()
    in_segments(journal, RandomWorld(5, journal), 30)
    log = path.with_name("journal.db-wal")
    assert log.stat().st_size > 0
    journal.tidy()
    assert log.stat().st_size == 0


@pytest.mark.slow
def test_above_its_limit_only_as_many_decisions_go_as_must(opened: Opener, path: Path) -> None:
    journal = opened()
    in_segments(journal, RandomWorld(1, journal, size=40), 120)
    with contextlib.closing(sqlite3.connect(path)) as plain:
        used = plain.execute("PRAGMA page_count").fetchone()[0] * 4096
    opened(max_size=int(used * 0.7)).tidy()
    kept = [one for one in read(path) if isinstance(one, Decided)]
    assert 40 <= len(kept) < 120
