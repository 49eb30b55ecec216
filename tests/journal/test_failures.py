"""A full disk, a damaged or locked file, a kill: no promise is lost, and it heals."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodemanager.core.model.annotations import NO_MARKS, Mark, Marks
from nodemanager.errors import JournalError, JournalReplaced, StartError
from nodemanager.journal import durable
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.database import JournalFile
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.kept import MARKS
from nodemanager.journal.sqlite import SqliteJournal

Opener = Callable[..., SqliteJournal]

HELD = Marks(holds={"i-1": Mark("anna", 1.0)})


def intent(number: int = 1) -> Intent:
    return Intent(IntentKind.DESTROY, f"destroy:i-{number}", "p-1", node=f"i-{number}")


def keys(journal: SqliteJournal) -> list[str]:
    return [one.intent.key for one in journal.open_intents()]


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    where = tmp_path / "tiny"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(where)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a full disk takes a small tmpfs, which only root may mount")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def fill(where: Path) -> Path:
    """Take all the room that is left, to the last byte."""
    filler = where / "filler"
    with open(filler, "wb", buffering=0) as opened:
        for size in (65536, 4096, 1):
            try:
                while opened.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
    return filler


def test_a_full_disk_stops_it_and_room_heals_it(opened: Opener, tiny: Path) -> None:
    journal = opened(path=tiny / "journal.db")
    journal.intend([intent(1)])
    filler = fill(tiny)
    done = ["destroy:i-1"]

    def go_on() -> None:
        for number in itertools.count(2):
            journal.intend([intent(number)])
            done.append(f"destroy:i-{number}")

    with pytest.raises(JournalError, match="the disk is full") as failed:
        go_on()
    assert "goes on by itself" in str(failed.value)
    assert journal.failure == str(failed.value)
    assert not journal.retry()

    filler.unlink()
    assert journal.retry()
    assert journal.failure is None
    assert keys(journal) == done


def test_a_disk_that_is_full_at_the_start_heals_too(opened: Opener, tiny: Path) -> None:
    filler = fill(tiny)
    journal = opened(path=tiny / "journal.db")
    assert journal.failure is not None
    assert "full" in journal.failure
    with pytest.raises(JournalError, match="full"):
        journal.kept(MARKS)

    filler.unlink()
    journal.intend([intent()])
    assert journal.failure is None
    assert keys(journal) == ["destroy:i-1"]


LIMITED = """
import resource, signal, sys
from pathlib import Path
from nodemanager.lib.clock import SystemClock
from nodemanager.errors import JournalError, JournalReplaced
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.sqlite import SqliteJournal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = SqliteJournal(Path(sys.argv[1]), pool="main", clock=SystemClock())
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
done = 0
try:
    while True:
        details = {"much": "x" * 5000}
        journal.intend([Intent(IntentKind.CLEAN, f"clean:{done}", "p", details=details)])
        done += 1
except JournalError as error:
    assert journal.failure == str(error)
print(done, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert journal.retry(), journal.failure
assert len(journal.open_intents()) == done
"""


@pytest.mark.slow
def test_a_file_that_may_not_grow_stops_it_and_heals(opened: Opener, path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    assert len(keys(opened())) == int(child.stdout) > 0


def test_a_damaged_file_says_what_to_do_and_another_one_heals(opened: Opener, path: Path) -> None:
    journal = opened()
    journal.keep(MARKS, HELD)
    journal.tidy()
    journal.close()
    with open(path, "r+b") as file:
        file.write(b"not a database at all" * 200)

    broken = opened()
    assert broken.failure is not None
    assert "damaged" in broken.failure
    assert "restore it, or move" in broken.failure
    for _ in range(2):
        with pytest.raises(JournalError, match="damaged"):
            broken.intend([intent()])

    for file in path.parent.iterdir():
        file.rename(path.parent / f"away-{file.name}")
    assert broken.retry()
    assert broken.kept(MARKS) == NO_MARKS


def test_damage_inside_the_file_is_found_when_it_is_opened(opened: Opener, path: Path) -> None:
    journal = opened()
    for number in range(200):
        journal.intend([intent(number)])
    journal.tidy()
    journal.close()
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096)
    assert "damaged" in str(opened().failure)


LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_another_process_lock_is_waited_for_shortly_and_named(opened: Opener, path: Path) -> None:
    journal = opened()
    journal.intend([intent(1)])
    with subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as locker:
        assert locker.stdout is not None
        assert locker.stdin is not None
        assert locker.stdout.readline() == "locked\n"
        began = time.monotonic()
        with pytest.raises(JournalError, match="another process locks it"):
            journal.intend([intent(2)])
        assert 1.0 < time.monotonic() - began < 10.0
        locker.stdin.write("\n")
        locker.stdin.flush()
        assert locker.wait() == 0
    journal.intend([intent(3)])
    assert journal.failure is None
    assert keys(journal) == ["destroy:i-1", "destroy:i-3"]


def test_a_file_that_was_replaced_is_never_written_to_r1(opened: Opener, path: Path) -> None:
    """What was open would be missing in another one: only a new start may begin it."""
    journal = opened()
    journal.intend([intent(1)])
    path.rename(path.with_name("moved.db"))
    for _ in range(2):
        with pytest.raises(JournalReplaced, match="moved, removed or replaced"):
            journal.intend([intent(2)])
        with pytest.raises(JournalReplaced):
            journal.retry()
    assert not path.exists()

    other = opened()
    other.intend([intent(3)])
    with pytest.raises(JournalReplaced):
        journal.intend([intent(4)])
    journal.tell(LoggedEvent(1.0, "daemon.stopped"))
    journal.close()
    assert keys(other) == ["destroy:i-3"]


def test_a_file_lost_while_its_disk_fails_is_noticed_too(
    opened: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure closes the file: the next call must not make a new one."""
    journal = opened()
    journal.intend([intent(1)])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as broken:
        broken.setattr(durable, "write_intent", full)
        with pytest.raises(JournalError, match="the disk is full"):
            journal.intend([intent(2)])
    path.unlink()
    with pytest.raises(JournalReplaced):
        journal.retry()
    assert not path.exists()


WRITER = """
import itertools, sys
from pathlib import Path
from nodemanager.lib.clock import SystemClock
from nodemanager.journal.api import Intent, IntentKind
from nodemanager.journal.sqlite import SqliteJournal
from tests.core.build import record

journal = SqliteJournal(Path(sys.argv[1]), pool="main", clock=SystemClock())
first = int(sys.argv[2])
for number in itertools.count(first):
    image = record(f"r-{number}", at=1.0, ping_secret="s")
    key = f"clean:{number}"
    journal.intend([Intent(IntentKind.CLEAN, key, "p", record=image.uuid, pre_image=image)])
    print("intended", number, flush=True)
    journal.conclude(key, "cleaned")
    print("concluded", number, flush=True)
"""


@pytest.mark.slow
def test_whatever_was_promised_is_there_after_a_kill(opened: Opener, path: Path) -> None:
    intended: set[int] = set()
    concluded: set[int] = set()
    for round_number in range(4):
        first = round_number * 100_000
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(first)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            # Killed at another point of the work each time.
            for _ in range(20 + 7 * round_number):
                assert writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            told = writer.stdout.read()
        assert writer.returncode == -signal.SIGKILL
        journal = opened()
        # What the reader above skipped counts up from `first`, one line each.
        lines = 20 + 7 * round_number + told.count("\n")
        intended |= set(range(first, first + (lines + 1) // 2))
        concluded |= set(range(first, first + lines // 2))
        ended = {int(one.intent.key.split(":")[1]) for one in journal.concluded()}
        still_open = {int(key.split(":")[1]) for key in keys(journal)}
        assert concluded <= ended
        assert intended <= ended | still_open
        assert len(ended | still_open) == len(journal.pre_images())
        journal.close()


def test_the_file_and_its_log_are_their_owners_alone(opened: Opener, path: Path) -> None:
    mask = os.umask(0)
    try:
        path.touch(0o644)
        opened().intend([intent()])
    finally:
        os.umask(mask)
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["journal.db", "journal.db-shm", "journal.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_what_returned_is_on_the_disk(opened: Opener, path: Path) -> None:
    journal = opened()
    with journal._file.reading(0.0) as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "auto_vacuum")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "auto_vacuum": 2}


def test_an_older_program_refuses_a_newer_file_and_leaves_it_alone(
    opened: Opener, path: Path
) -> None:
    opened().close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StartError, match=r"9999.*0001.*upgrade"):
        opened()
    with sqlite3.connect(path) as connection:
        kept = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    assert kept == [("9999",)]


def test_one_pools_journal_is_refused_to_another(opened: Opener) -> None:
    opened().close()
    with pytest.raises(StartError, match=r"belongs to pool main, .*gpu"):
        opened(pool="gpu")


def test_a_path_that_can_not_be_is_told_with_the_option(opened: Opener, tmp_path: Path) -> None:
    journal = opened(path=tmp_path / "nowhere" / "journal.db")
    assert "[Journal] path" in str(journal.failure)
    (tmp_path / "nowhere").mkdir()
    assert journal.retry()


def test_a_failure_quotes_no_values(path: Path) -> None:
    file = JournalFile(path, "main")
    with pytest.raises(JournalError) as failed, file.writing(0.0) as connection:
        connection.exec_driver_sql("INSERT INTO nowhere VALUES (?)", ("open sesame",))
    assert "sesame" not in str(failed.value)
    file.close()
