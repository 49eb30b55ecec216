"""What must outlive the process in PostgreSQL, where a manager on another machine finds it, too.

Each pool has a schema of its own. The database is opened by the first transaction that it takes,
so that a manager starts without it, and does nothing but watch until it is there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from nodemanager.errors import JournalError, StartError, StoreError
from nodemanager.journal import durable
from nodemanager.journal.database import storable
from nodemanager.journal.schema import fences, metadata
from nodemanager.lib.clock import Clock
from nodemanager.sql.database import Database, Purpose, Unreachable
from nodemanager.sql.fence import Fence

OPTION = "[Journal] database"
TIMEOUT_S = 5.0
"""Seconds for connecting, a lock or a statement; the daemon decides nothing meanwhile."""


class SharedDatabase:
    """The rows of one pool; see `database.Transactions`."""

    def __init__(
        self,
        url: str,
        pool: str,
        clock: Clock,
        *,
        timeout: float = TIMEOUT_S,
        fence: Fence | None = None,
    ) -> None:
        """With a `fence`, the database takes no write once another holder's token is newer (L6)."""
        self._url = url
        self._fence = fence
        self._pool = pool
        self._clock = clock
        self._timeout = timeout
        self._purpose = Purpose(
            name="the journal's database",
            option=OPTION,
            tables=metadata,
            migrations=Path(__file__).parent / "migrations",
            lock=0x6E6F6465_6A726E6C,
            schema=f"nodemanager {pool}",
        )
        self._lock = threading.Lock()
        self._database: Database | None = None
        self.failure: str | None = None

    def open(self, now: float) -> None:
        with contextlib.suppress(JournalError), self._translated(starting=True):
            self._ready(now)

    @contextlib.contextmanager
    def writing(self, now: float) -> Iterator[sa.Connection]:
        with self._translated(), self._ready(now).writing() as connection:
            yield connection
        self.failure = None

    @contextlib.contextmanager
    def reading(self, now: float) -> Iterator[sa.Connection]:
        with self._translated(), self._ready(now).reading() as connection:
            yield connection

    def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _ready(self, now: float) -> Database:
        with self._lock:
            if self._database is None:
                made = Database(self._url, self._clock, self._purpose, timeout=self._timeout)
                try:
                    made.before_each(storable)
                    if self._fence is not None:
                        made = made.fenced(self._fence, fences)
                    with made.writing() as connection:
                        name = f"{self._purpose.name} {made.shown}"
                        durable.check_owner(connection, self._pool, now, name=name, option=OPTION)
                except BaseException:
                    made.close()
                    raise
                self._database = made
            return self._database

    @contextlib.contextmanager
    def _translated(self, *, starting: bool = False) -> Iterator[None]:
        """Every failure is a JournalError, except what must not be used at the start."""
        try:
            yield
        except (StoreError, StartError) as error:
            self.failure = f"{error}; the daemon goes on by itself once it is there"
            if starting and not isinstance(error, (StoreError, Unreachable)):
                raise
            raise JournalError(self.failure) from error
