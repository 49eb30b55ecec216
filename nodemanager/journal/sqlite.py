"""The journal: each call is one transaction, of its SQLite file or of a shared database.

What was seen, decided and logged is in the file. What must outlive the process is there, too, or in
a database that a manager on another machine reaches as well.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from nodemanager.core.model.world import Leftover
from nodemanager.core.observe.facts import Fact
from nodemanager.core.plan.leftovers import Entry
from nodemanager.core.replay.fold import Decision, Start
from nodemanager.errors import JournalError, JournalReplaced
from nodemanager.journal import durable
from nodemanager.journal.api import Concluded, Conclusion, Intent, OpenIntent, PreImage
from nodemanager.journal.database import JournalFile, Transactions
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.kept import Kept, Now
from nodemanager.journal.recording import Recorder
from nodemanager.journal.schema import entries, intents, leftovers, logged, pre_images
from nodemanager.lib import redact
from nodemanager.lib.clock import Clock

# The journal's retention: deletes by age, then the oldest decisions by size; no open intents.

ROWS_AT_ONCE = 500
"""The most rows deleted in one transaction, so that it stays small."""


def tidy(connection: sa.Connection, before: float, max_size: int) -> bool:
    """Delete some of what ended before `before` (epoch seconds) or exceeds `max_size` (bytes).

    Gives True when there may be more to delete. Keeps open intents, holds, the breaker, unreleased
    leftovers and younger pre-images whatever the size.
    """
    forget_ended(connection, before)
    connection.execute(sa.delete(logged).where(logged.c.at < before))
    oldest = _segment_to_drop(connection, before, max_size)
    if oldest is None:
        return False
    some = (
        sa.select(entries.c.seq)
        .where(entries.c.segment == oldest)
        .order_by(entries.c.seq.desc())
        .limit(ROWS_AT_ONCE)
    )
    # The segment's start is deleted last, so that the rest is readable after a kill.
    then = sa.select(sa.func.max(entries.c.wall)).where(entries.c.segment == oldest)
    connection.execute(sa.delete(logged).where(logged.c.at <= then.scalar_subquery()))
    connection.execute(sa.delete(entries).where(entries.c.seq.in_(some)))
    return True


def forget_ended(connection: sa.Connection, before: float) -> None:
    """Delete the intents, pre-images and leftovers that ended before that (epoch seconds)."""
    ended = sa.select(intents.c.id).where(intents.c.concluded_at < before)
    connection.execute(sa.delete(pre_images).where(pre_images.c.intent.in_(ended)))
    connection.execute(sa.delete(intents).where(intents.c.concluded_at < before))
    connection.execute(sa.delete(leftovers).where(leftovers.c.released_at < before))


def _segment_to_drop(connection: sa.Connection, before: float, max_size: int) -> int | None:
    """The oldest segment, if all of it is too old or the file is too large; never the newest."""
    segments = (
        connection.execute(
            sa.select(entries.c.segment)
            .group_by(entries.c.segment)
            .order_by(entries.c.segment)
            .limit(2)
        )
        .scalars()
        .all()
    )
    if len(segments) < 2:
        return None
    oldest = segments[0]
    newest_wall = connection.execute(
        sa.select(sa.func.max(entries.c.wall)).where(entries.c.segment == oldest)
    ).scalar()
    too_old = newest_wall is not None and newest_wall < before
    return int(oldest) if too_old or size_of(connection) > max_size else None


def size_of(connection: sa.Connection) -> int:
    """The bytes in use, without free pages."""
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


T = TypeVar("T")

TIDY_EVERY_S = 600.0
MOST_LOGGED = 100_000
"""The most logged events that wait in memory while the journal can't be written."""


class SqliteJournal:
    """The journal in the file at `path`; see api.Journal.

    Entries older than `keep` seconds are deleted, and the oldest decisions once the file exceeds
    `max_size` bytes. What must outlive the process is in the file, or in `shared`. Raises
    StartError when one of them has a newer schema or belongs to another pool; `failure` tells any
    other problem.
    """

    def __init__(
        self,
        path: Path,
        *,
        pool: str,
        clock: Clock,
        keep: float = 7 * 86400.0,
        max_size: int = 256 * 1024 * 1024,
        boot_id: str | None = None,
        shared: Transactions | None = None,
    ) -> None:
        self.path = path
        self._clock = clock
        self._keep = keep
        self._max_size = max_size
        self._boot_id = this_boot() if boot_id is None else boot_id
        self._recorder = Recorder()
        self._logged: deque[LoggedEvent] = deque(maxlen=MOST_LOGGED)
        self._tidied_at = clock.boottime()
        self._file = JournalFile(path, pool)
        self._shared = shared
        for one in (self._file, shared):
            if one is not None:
                one.open(clock.wall())

    @property
    def failure(self) -> str | None:
        return self._file.failure or (None if self._shared is None else self._shared.failure)

    def retry(self) -> bool:
        now = self._clock.wall()
        try:
            with self._recording() as connection:
                durable.note_try(connection, now)
            if self._shared is not None:
                with self._shared.writing(now) as connection:
                    durable.note_try(connection, now)
        except JournalReplaced:
            raise
        except JournalError:
            return False
        return True

    # Intents.

    def intend(self, intents: Sequence[Intent]) -> None:
        self.commit(intents, ())

    def conclude(self, key: str, outcome: str, details: Mapping[str, Any] | None = None) -> None:
        self.commit((), (Conclusion(key, outcome, details or {}),))

    def commit(self, opened: Sequence[Intent], ended: Sequence[Conclusion]) -> None:
        now = self._clock.wall()
        with self._writing() as connection:
            for intent in opened:
                durable.write_intent(connection, intent, now)
            for key, outcome, details in ended:
                durable.conclude(connection, key, outcome, details, now)

    def recovery_failed(self, key: str, error: str) -> OpenIntent | None:
        with self._writing() as connection:
            return durable.count_failure(connection, key, redact.text(error))

    def open_intents(self) -> tuple[OpenIntent, ...]:
        with self._reading() as connection:
            return durable.open_intents(connection)

    def concluded(self, *, id: str | None = None, since: float = 0.0) -> tuple[Concluded, ...]:
        with self._reading() as connection:
            return durable.concluded(connection, id, since)

    def newest(self, key: str) -> Intent | None:
        with self._reading() as connection:
            return durable.newest(connection, key)

    def pre_images(self, *, record: str | None = None, since: float = 0.0) -> tuple[PreImage, ...]:
        with self._reading() as connection:
            return durable.find_pre_images(connection, record, since)

    # What must outlive the process.

    def kept(self, what: Kept[T]) -> T:
        with self._reading() as connection:
            data = durable.recall(connection, what.name)
        return what.loaded(data, self._now())

    def keep(self, what: Kept[T], value: T) -> None:
        now = self._now()
        with self._writing() as connection:
            durable.remember(connection, what.name, what.write(value, now), now.wall)

    def _now(self) -> Now:
        return Now(self._boot_id, self._clock.boottime(), self._clock.wall())

    def leftovers(self, *, released: bool = False) -> tuple[Entry, ...]:
        with self._reading() as connection:
            return durable.all_leftovers(connection, released=released)

    def save_leftovers(self, entries: Sequence[Entry]) -> None:
        with self._writing() as connection:
            durable.put_leftovers(connection, entries, self._clock.wall())

    def forget_leftovers(self, leftovers: Sequence[Leftover]) -> None:
        with self._writing() as connection:
            durable.drop_leftovers(connection, leftovers)

    # What was logged.

    def tell(self, event: LoggedEvent) -> None:
        self._logged.append(event)

    def last_logged(self, events: Collection[str], about: str) -> tuple[LoggedEvent, ...]:
        with self._file.reading(self._clock.wall()) as connection:
            return durable.last_logged(connection, events, about)

    # What was seen and decided.

    def begin(self, start: Start) -> None:
        self._recorder.begin(start)

    def note(self, fact: Fact) -> None:
        self._recorder.note(fact)

    def decided(self, decision: Decision) -> None:
        entries = self._recorder.decided(decision)
        try:
            with self._recording() as connection:
                self._recorder.write(connection, entries)
        except JournalError:
            self._recorder.lost()
            raise
        if self._clock.boottime() - self._tidied_at > TIDY_EVERY_S:
            self.tidy()

    # The end.

    def tidy(self) -> None:
        self._tidied_at = self._clock.boottime()
        now = self._clock.wall()
        if self._shared is not None:
            with self._shared.writing(now) as connection:
                forget_ended(connection, now - self._keep)
        while True:
            with self._recording() as connection:
                if not tidy(connection, now - self._keep, self._max_size):
                    break
        self._file.shorten_log()

    def close(self) -> None:
        if self._logged:
            with contextlib.suppress(JournalReplaced):
                self.retry()
        self._file.close()
        if self._shared is not None:
            self._shared.close()

    @contextlib.contextmanager
    def _recording(self) -> Iterator[sa.Connection]:
        """A write transaction of the file, which takes what was logged with it."""
        with self._file.writing(self._clock.wall()) as connection:
            yield connection
            new = tuple(islice(self._logged, len(self._logged)))
            durable.put_events(connection, new)
        for _ in new:
            self._logged.popleft()

    def _writing(self) -> AbstractContextManager[sa.Connection]:
        if self._shared is None:
            return self._recording()
        return self._shared.writing(self._clock.wall())

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        return (self._shared or self._file).reading(self._clock.wall())


def this_boot() -> str:
    """The id of this boot, whose start CLOCK_BOOTTIME counts from; '' where unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
