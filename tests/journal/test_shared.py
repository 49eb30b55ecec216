"""The journal in PostgreSQL: lost and back, one pool alone, found on another machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from nodemanager.core.model.annotations import NO_MARKS, Mark, Marks
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.errors import JournalError, StartError
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.database import SharedDatabase
from nodemanager.journal.kept import BREAKER, MARKS
from nodemanager.journal.sqlite import SqliteJournal
from nodemanager.sql.fence import Fence
from tests.contract.stores import Postgres
from tests.core.build import record
from tests.fakes.clock import ManualClock

pytestmark = [pytest.mark.slow, pytest.mark.server("postgresql")]

Opener = Callable[..., SqliteJournal]


@pytest.fixture
def url(postgresql: Postgres) -> str:
    return postgresql.new_database()


def clean(uuid: str) -> Intent:
    image = record(uuid, at=1000.0, ping_secret="open sesame")
    return Intent(IntentKind.CLEAN, f"clean:{uuid}", "p-1", record=uuid, pre_image=image)


def test_a_manager_on_another_machine_finds_what_it_must_know(
    opened: Opener, url: str, clock: ManualClock, tmp_path: Path
) -> None:
    breaker = Breaker(Cause.CLOUD_COLLAPSED, frozenset({"i-1"}), opened_at=clock.boottime())
    first = opened(shared=SharedDatabase(url, "main", clock))
    first.intend([clean("r-1")])
    held = Marks(holds={"i-1": Mark("anna", 1.0, "to look at")})
    first.keep(MARKS, held)
    first.keep(BREAKER, breaker)

    clock.advance(60)
    other = ManualClock(boottime=5000.0, wall=clock.wall())
    second = opened(
        path=tmp_path / "elsewhere.db",
        clock=other,
        boot_id="boot-of-another",
        shared=SharedDatabase(url, "main", other),
    )
    (found,) = second.open_intents()
    assert found.intent == clean("r-1")
    assert second.kept(MARKS) == held
    kept = second.kept(BREAKER)
    assert kept is not None
    assert (kept.cause, kept.ids) == (breaker.cause, breaker.ids)
    assert kept.opened_at == pytest.approx(other.boottime()), "as old as when it was kept"
    second.conclude("clean:r-1", "cleaned")
    assert first.open_intents() == ()


def test_each_pool_has_its_own(opened: Opener, url: str, clock: ManualClock) -> None:
    """Also where PostgreSQL cuts the names of two to the same one."""
    long = "p" * 60
    one = opened(shared=SharedDatabase(url, "main", clock))
    other = opened(path=one.path.with_name("b.db"), shared=SharedDatabase(url, 'o"th er', clock))
    one.keep(MARKS, Marks(holds={"i-1": Mark("anna", 1.0)}))
    assert other.kept(MARKS) == NO_MARKS
    opened(path=one.path.with_name("c.db"), shared=SharedDatabase(url, f"{long}-1", clock))
    with pytest.raises(StartError, match=rf"belongs to pool {long}-1, but .* \[Journal\] database"):
        opened(path=one.path.with_name("d.db"), shared=SharedDatabase(url, f"{long}-2", clock))


def test_a_database_that_is_not_there_at_the_start_is_used_once_it_is(
    opened: Opener, url: str, clock: ManualClock, postgresql: Postgres
) -> None:
    moved = postgresql.folder.with_name(f"{postgresql.folder.name}-away")
    socket = postgresql.folder / ".s.PGSQL.5432"
    socket.rename(moved)
    try:
        journal = opened(shared=SharedDatabase(url, "main", clock))
        assert "can't use the journal's database" in str(journal.failure)
        assert "s3cret" not in str(journal.failure)
        with pytest.raises(JournalError, match=r"see \[Journal\] database"):
            journal.open_intents()
        assert not journal.retry()
    finally:
        moved.rename(socket)
    assert journal.retry()
    assert journal.failure is None
    journal.intend([clean("r-1")])
    assert len(journal.open_intents()) == 1


def test_one_that_stands_still_fails_in_time_and_nothing_is_half_written(
    opened: Opener, url: str, clock: ManualClock, postgresql: Postgres
) -> None:
    journal = opened(shared=SharedDatabase(url, "main", clock, timeout=1.0))
    journal.intend([clean("r-1")])
    for pid in postgresql.processes():
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(JournalError):
            journal.commit([clean("r-2")], [])
        assert not journal.retry()
        assert journal.failure is not None
    finally:
        for pid in postgresql.processes():
            os.kill(pid, signal.SIGCONT)
    assert journal.retry()
    assert {one.intent.key for one in journal.open_intents()} <= {"clean:r-1", "clean:r-2"}
    journal.intend([clean("r-2")])
    assert len(journal.open_intents()) == 2


def test_texts_that_no_database_takes_are_kept_with_escapes(
    opened: Opener, url: str, clock: ManualClock
) -> None:
    journal = opened(shared=SharedDatabase(url, "main", clock))
    marks = Marks(holds={"i-\0-\udcff": Mark("anna", 1.0, "\0")})
    journal.keep(MARKS, marks)
    journal.intend([Intent(IntentKind.DESTROY, "destroy:\0", "p", details={"a": "\0\udcff"})])
    assert journal.kept(MARKS) == marks
    (found,) = journal.open_intents()
    assert found.intent.details == {"a": "\0\udcff"}


def test_what_ended_long_ago_is_deleted_there_too(
    opened: Opener, url: str, clock: ManualClock
) -> None:
    journal = opened(shared=SharedDatabase(url, "main", clock), keep=3600.0)
    journal.intend([clean("r-1"), clean("r-2")])
    journal.conclude("clean:r-1", "cleaned")
    clock.advance(7200)
    journal.tidy()
    assert journal.concluded() == ()
    assert [image.key for image in journal.pre_images()] == ["clean:r-2"]


def test_it_takes_nothing_of_a_manager_whose_lease_another_has_taken(
    opened: Opener, url: str, clock: ManualClock, tmp_path: Path
) -> None:
    """L6: the one that comes new goes on from the State, and nobody else changes it."""
    old = opened(shared=SharedDatabase(url, "main", clock, fence=Fence("main", 1, "one")))
    old.intend([clean("r-1")])
    new = opened(
        path=tmp_path / "elsewhere.db",
        shared=SharedDatabase(url, "main", clock, fence=Fence("main", 2, "two")),
    )
    assert [one.intent.key for one in new.open_intents()] == ["clean:r-1"]
    for write in (
        lambda: old.conclude("clean:r-1", "cleaned"),
        lambda: old.intend([clean("r-2")]),
        lambda: old.keep(MARKS, Marks(holds={"i-1": Mark("anna", 1.0)})),
        lambda: old.keep(BREAKER, None),
        lambda: old.recovery_failed("clean:r-1", "x"),
    ):
        with pytest.raises(JournalError, match="two has, with token 2"):
            write()
    assert not old.retry()
    assert [one.intent.key for one in new.open_intents()] == ["clean:r-1"]
    new.conclude("clean:r-1", "cleaned")
    assert new.open_intents() == ()
