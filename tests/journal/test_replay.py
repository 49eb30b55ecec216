"""What was recorded replays to exactly the recorded verdicts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodemanager.core.observe.history import History
from nodemanager.core.replay.fold import Start
from nodemanager.errors import JournalError
from nodemanager.journal import recording
from nodemanager.journal.reading import Decided, outline, read
from nodemanager.journal.recording import decode_history, encode_history
from nodemanager.journal.replay import replayed, within
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.journal.sweep import replay
from nodemanager.journal.verdicts import VerdictChange, verdicts_of
from tests.fakes.journal import MemoryJournal
from tests.journal.random_world import RandomWorld, bare_fact, bare_history

pytestmark = pytest.mark.slow

Opener = Callable[..., SqliteJournal]
SEEDS = (0, 3, 11, 19, 22, 23)


def recorded(journal: SqliteJournal, seed: int, rounds: int = 60) -> RandomWorld:
    world = RandomWorld(seed, journal)
    for decision in world.run(rounds):
        journal.decided(decision)
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_recorded_is_read_again_and_replays_to_the_recorded_verdicts(
    seed: int, opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 17)
    world = recorded(opened(), seed)
    entries = list(read(path))
    facts = [one for one in entries if not isinstance(one, (Start, Decided))]
    assert facts == [bare_fact(one) for one in world.facts]
    assert sum(isinstance(one, Start) for one in entries) >= 4
    decisions = [one for one in entries if isinstance(one, Decided)]
    assert [(one.snapshot, one.settings, one.new_records) for one in decisions] == [
        (replace(snapshot, history=History()), settings, new_records)
        for snapshot, settings, new_records in world.snapshots
    ]
    steps = list(replayed(entries))
    assert len(steps) == len(world.plans) == 60
    for step, made, (snapshot, _, _) in zip(steps, world.plans, world.snapshots, strict=True):
        assert step.snapshot == replace(snapshot, history=bare_history(snapshot.history))
        assert step.plan.records == made.records
        assert [view.verdict for view in step.plan.views] == [view.verdict for view in made.views]
        assert [order.uuid for order in step.plan.cleans] == [order.uuid for order in made.cleans]
        assert step.plan.shutdowns == made.shutdowns
        assert step.plan.breaker == made.breaker
        assert step.plan.aborted == made.aborted
        assert step.is_same


def test_random_worlds_come_to_every_kind_of_decision() -> None:
    """Or the test above would prove little."""
    kinds, reasons, aborted, opened_breakers = set(), set(), 0, 0
    for seed in SEEDS:
        world = RandomWorld(seed, MemoryJournal())
        for decision in world.run(60):
            made = decision.plan
            kinds |= {verdict.kind.value for _, verdict in verdicts_of(made)}
            reasons |= {verdict.reason.value for _, verdict in verdicts_of(made)}
            aborted += made.aborted is not None
            opened_breakers += made.breaker.is_open
    assert kinds >= {"keep", "clean", "shutdown"}
    assert len(reasons) > 25
    assert aborted > 0
    assert opened_breakers > 0


def test_the_changes_of_verdicts_add_up_to_the_verdicts(opened: Opener, path: Path) -> None:
    world = recorded(opened(), 99)
    standing: dict[tuple[str, str], Any] = {}
    plans = iter(world.plans)
    for entry in read(path):
        if isinstance(entry, Start):
            standing = {}
        if not isinstance(entry, Decided):
            continue
        made = next(plans)
        now = {(subject, one.id): one for subject, one in verdicts_of(made)}
        changes = [
            VerdictChange(*key, one.kind, one.reason, one.measures)
            for key, one in now.items()
            if key not in standing or standing[key][:2] != one[:2]
        ]
        changes += [VerdictChange(*key, None, None) for key in standing.keys() - now.keys()]
        assert sorted(entry.changes, key=repr) == sorted(changes, key=repr)
        standing = now


def test_a_changed_verdict_is_noticed(opened: Opener, path: Path) -> None:
    recorded(opened(), 5)
    entries = [
        replace(one, settings=replace(one.settings, node_stale_after=1.0))
        if isinstance(one, Decided)
        else one
        for one in read(path)
    ]
    steps = list(replayed(entries))
    assert any(not step.is_same for step in steps)


def test_no_ping_secret_is_in_what_was_seen(opened: Opener, path: Path) -> None:
    journal = opened()
    world = recorded(journal, 3)
    assert any(record.ping_secret for record in world.records.values())
    assert "secret-r-" in repr([record.info for record in world.records.values()])
    assert "secret-r-" not in repr(
        [(one, vars(one)) for one in read(path) if isinstance(one, Start)]
    )
    for entry in read(path):
        listing = getattr(entry, "listing", None)
        items = [] if listing is None else listing.items
        for item in items:
            assert getattr(item, "ping_secret", None) is None
            assert "secret-r-" not in repr(getattr(item, "info", ""))


def test_a_write_that_failed_leaves_no_hole_to_fold_over(
    opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened()
    world = RandomWorld(7, journal)
    for number, decision in enumerate(world.run(60)):
        if number % 10 == 9:
            with monkeypatch.context() as broken:
                broken.setattr(journal._recorder, "write", _full)
                with pytest.raises(JournalError, match="full"):
                    journal.decided(decision)
        else:
            journal.decided(decision)
    entries = list(read(path))
    assert sum(isinstance(one, Start) for one in entries) == 6
    steps = list(replayed(entries))
    assert len(steps) == 54
    assert all(step.is_same for step in steps)


def _full(*_: object) -> None:
    import sqlite3

    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorname = "SQLITE_FULL"
    raise error


def test_a_restart_begins_a_new_segment(opened: Opener, path: Path) -> None:
    first = opened()
    world = RandomWorld(8, first)
    for decision in world.run(5):
        first.decided(decision)
    second = opened()
    world.journal = second
    world.begin()
    for decision in world.run(5):
        second.decided(decision)
    steps = list(replayed(read(path)))
    assert len(steps) == 10
    assert all(step.is_same for step in steps)


@pytest.mark.parametrize("seed", range(4))
def test_a_history_is_kept_whole(seed: int) -> None:
    world = RandomWorld(seed, MemoryJournal())
    for _ in world.run(25):
        history = world.state.history
        assert decode_history(encode_history(history)) == bare_history(history)


def test_a_part_is_read_by_time(
    opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 10)
    world = recorded(opened(), 6)
    walls = [snapshot.wall for snapshot, _, _ in world.snapshots]
    part = [one for one in read(path, since=walls[25], until=walls[44]) if isinstance(one, Decided)]
    assert [one.snapshot.wall for one in part] == walls[20:50]


@pytest.mark.parametrize(("first", "last"), [(25, 44), (20, 29), (23, 23), (0, 59)])
def test_a_part_begins_and_ends_with_the_very_decisions_that_are_asked_for(
    first: int, last: int, opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the journal keeps whole segments, here of ten decisions."""
    monkeypatch.setattr(recording, "SEGMENT_DECISIONS", 10)
    world = recorded(opened(), 6)
    walls = [snapshot.wall for snapshot, _, _ in world.snapshots]
    since, until = walls[first], walls[last]
    steps = list(replayed(within(read(path, since=since, until=until), since, until)))
    assert [one.snapshot.wall for one in steps] == walls[first : last + 1]
    assert all(one.is_same for one in steps)
    told = outline(path, since=since, until=until)
    assert (told.decisions, told.first, told.last) == (last - first + 1, since, until)
    made = replay(path, told, [{"node_stale_after": 1.0}], since=since, until=until, jobs=1)
    assert made.walls == tuple(walls[first : last + 1])
    assert (made.differing, made.differences) == (0, ())


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="there is no journal"):
        next(read(tmp_path / "none.db"))
    (tmp_path / "text").write_text("not a database at all, but long enough to look like one" * 50)
    with pytest.raises(JournalError, match="can't be read"):
        next(read(tmp_path / "text"))


@pytest.mark.parametrize("tables", [(), ("nodes", "alembic_version")], ids=["empty", "another's"])
def test_another_database_is_no_journal(tmp_path: Path, tables: tuple[str, ...]) -> None:
    """The registry's stands beside it; `no such table: logged` told nobody what was wrong."""
    path = tmp_path / "registry.db"
    with closing(sqlite3.connect(path)) as connection:
        for name in tables:
            connection.execute(f"CREATE TABLE {name} (version_num)")
    path.touch()
    with pytest.raises(JournalError, match="is no journal: give the file that a daemon wrote"):
        next(read(path))
