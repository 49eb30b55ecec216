"""A pool's journal as its managers write it: on SQLite or in memory, by the same calls.

A write may fail, all of them or some; a manager may be killed right before one or right after it,
in the middle of a handler; and the whole journal may be lost, which ends its writer.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodemanager.errors import JournalError, JournalReplaced
from nodemanager.journal.api import Journal
from nodemanager.journal.kept import ALL, CLOCKS
from nodemanager.journal.sqlite import SqliteJournal
from tests.fakes.journal import MemoryJournal
from tests.simulation.engine import Killed, SimClock

if TYPE_CHECKING:
    from tests.simulation.hosts import Host

CLOCKS_KEPT = f"keep {CLOCKS.name}"
DEEDS = frozenset(
    {
        *("intend", "conclude", "commit", "recovery_failed"),
        *("save_leftovers", "forget_leftovers"),
        *(f"keep {what.name}" for what in ALL if what is not CLOCKS),
    }
)
WRITES = DEEDS | {"decided", CLOCKS_KEPT, "retry"}
FREE = frozenset({"begin", "note", "close"})
"""They write nothing themselves, and never fail."""
MEMORY = "/dev/shm"

Fault = Callable[[str], str | None]
"""Why a call of that name fails, or None."""
Told = Callable[[str], None]
Strike = Callable[[str], bool]
"""Whether that writer is killed now."""


def healthy(call: str) -> str | None:
    return None


class Paper:
    """What a pool's journal is written on, whoever writes; and what goes wrong with it."""

    def __init__(self, pool: str, clock: SimClock, *, sqlite: bool) -> None:
        self._pool = pool
        self._clock = clock
        self._folder = None
        if sqlite:
            place = MEMORY if Path(MEMORY).is_dir() else None
            self._folder = tempfile.TemporaryDirectory(prefix="nodemanager-", dir=place)
        self._kept = MemoryJournal(clock, keeps_entries=False)
        self._pens: list[Pen] = []
        self.token = 0
        """The newest holder's of a lease (L6)."""
        self._reader: SqliteJournal | None = None
        self.lost_at: list[float] = []
        """When it was lost, in the world's time."""
        self.clockless: Told = lambda writer: None
        """Told of a writer that finds no store's clock in it."""
        self.clock_kept: Told = lambda writer: None
        """Told of a writer whose newest reading of the store's clock is in it."""
        self.fault: Fault = healthy
        self.before: Strike | None = None
        """Asked before each write whether its writer is killed now; `after`, after it."""
        self.after: Strike | None = None
        self.deeds_alone = False
        """They are asked only where a deed or its outcome is written."""

    def pen(self, writer: str) -> Pen:
        """For a manager that starts: all that is not on the disk is forgotten."""
        boot = str(self._clock.booted_at)
        self._kept.boot_id = boot
        if self._folder is not None:
            made = Pen(self, writer, self._opened(Path(self._folder.name), boot))
        else:
            made = Pen(self, writer, None)
        self._pens.append(made)
        return made

    def shared_pen(self, writer: str, host: Host, token: int) -> Pen:
        """For the holder of a lease on another machine, whose boot is none of ours (L6)."""
        self.token = max(self.token, token)
        own = copy.copy(self._kept)
        own.clock, own.boot_id = host.clock, f"{host.name} {host.clock.booted_at}"
        made = Pen(self, writer, None, own, host, token)
        self._pens.append(made)
        return made

    def _opened(self, folder: Path, boot: str) -> SqliteJournal:
        path = folder / "journal.db"
        return SqliteJournal(path, pool=self._pool, clock=self._clock, boot_id=boot)

    @property
    def kept(self) -> MemoryJournal:
        return self._kept

    def whole(self) -> Journal:
        """The journal itself, also while its disk fails; empty where nobody began a new one.

        The world reads a file by itself: a writer's own is not the one that is there after a loss.
        """
        if self._folder is None:
            return self._kept
        folder = Path(self._folder.name)
        if self._reader is None and not (folder / "journal.db").exists():
            return MemoryJournal(self._clock, keeps_entries=False)
        if self._reader is None:
            self._reader = self._opened(folder, str(self._clock.booted_at))
        return self._reader

    def takes_writes_of(self, writer: str) -> bool:
        """Whether nothing keeps that writer from writing, and its newest call succeeded."""
        works = self.fault is healthy and self.before is None and self.after is None
        return works and all(one.failure is None for one in self._pens if one.writer == writer)

    @property
    def lost(self) -> int:
        """How often it was lost."""
        return len(self.lost_at)

    def lose(self) -> None:
        """It is gone, and whoever starts next begins a new one."""
        self.lost_at.append(self._clock.booted_at + self._clock.boottime())
        if self._folder is not None:
            folder = Path(self._folder.name)
            self._put_down()
            for file in list(folder.glob("journal.db*")):
                file.rename(folder / f"lost-{self.lost}-{file.name}")
            return
        self._kept = MemoryJournal(self._clock, keeps_entries=False, boot_id=self._kept.boot_id)

    def fail(self, why: str = "the disk is full") -> None:
        self.fault = lambda call: why

    def heal(self) -> None:
        self.fault = healthy

    def _put_down(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def close(self) -> None:
        self._put_down()
        for pen in self._pens:
            pen.journal.close()
        if self._folder is not None:
            self._folder.cleanup()


class Pen:
    """The journal as one manager has it."""

    def __init__(
        self,
        paper: Paper,
        writer: str,
        file: SqliteJournal | None,
        own: MemoryJournal | None = None,
        host: Host | None = None,
        token: int = 0,
    ) -> None:
        self._paper = paper
        self.writer = writer
        self.journal: Journal = file or own or paper.kept
        self._host, self._token = host, token
        self._lost = paper.lost
        self._failed: str | None = None

    @property
    def failure(self) -> str | None:
        return self._failed or self.journal.failure

    def retry(self) -> bool:
        try:
            done: bool = self._call("retry")
        except JournalError:
            return False
        return done

    def __getattr__(self, name: str) -> Any:
        if name in FREE:
            return getattr(self.journal, name)
        call = partial(self._call, name)
        # The next time it is found without asking here.
        setattr(self, name, call)
        return call

    def _call(self, method: str, *given: Any, **more: Any) -> Any:
        paper = self._paper
        if self._lost != paper.lost:
            self._failed = "it was moved, removed or replaced"
            raise JournalReplaced(self._failed)
        name = f"{method} {given[0].name}" if method in ("keep", "kept") else method
        why = paper.fault(name)
        if self._host is not None and not self._host.reaches_database:
            why = "the database does not answer"
        elif self._token < paper.token:
            why = "the lease is another manager's"
        if why is not None:
            self._failed = why
            raise JournalError(why)
        self._failed = None
        writes = name in (DEEDS if paper.deeds_alone else WRITES)
        if writes and paper.before is not None and paper.before(self.writer):
            raise Killed
        result = getattr(self.journal, method)(*given, **more)
        if name == f"kept {CLOCKS.name}" and result is None:
            paper.clockless(self.writer)
        elif name == CLOCKS_KEPT:
            paper.clock_kept(self.writer)
        if writes and paper.after is not None and paper.after(self.writer):
            raise Killed
        return result
