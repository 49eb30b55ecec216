"""Where the journal's durable tables are: its SQLite file, or a PostgreSQL schema of the pool.

The PostgreSQL database is for what a manager on another machine must find, too. It is opened by the
first transaction that it takes, so that a manager starts without it, and does nothing but watch
until it is there.

The file has a write-ahead log and synchronous=FULL: a transaction is on the disk when it returns.
Every failure raises a JournalError that says what to do, and closes the connection, so that the
next call opens the file anew.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import exc

from nodemanager.errors import JournalError, JournalReplaced, StartError, StoreError
from nodemanager.journal import durable
from nodemanager.journal.schema import fences, metadata
from nodemanager.lib import foreign
from nodemanager.lib.clock import Clock
from nodemanager.sql.database import Database, Purpose, Unreachable, bring_up_to_date
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


BUSY_S = 2.0
"""Seconds that a write waits for another process's lock; the daemon decides nothing meanwhile."""
LOG_LIMIT = 8 * 1024 * 1024
"""The size in bytes to which the write-ahead log is cut after a checkpoint."""

_LEAST, _MOST = -(2**63), 2**63 - 1

_FAILURES = (exc.SQLAlchemyError, sqlite3.Error, OSError)


class Transactions(Protocol):
    """Where the rows of `schema` are: a file, or a database that several machines reach.

    A failing call raises JournalError; `failure` then says why until one succeeds. The times are
    epoch seconds.
    """

    @property
    def failure(self) -> str | None: ...

    def open(self, now: float) -> None:
        """Open it; sets `failure` on an error. Raises StartError where it must not be used."""
        ...

    def writing(self, now: float) -> AbstractContextManager[sa.Connection]:
        """A write transaction, durable once the block ends without an exception."""
        ...

    def reading(self, now: float) -> AbstractContextManager[sa.Connection]: ...

    def close(self) -> None: ...


class JournalFile:
    """The SQLite file at `path`, opened by the first transaction and anew after a failure."""

    def __init__(self, path: Path, pool: str) -> None:
        self.path = path
        self._pool = pool
        self._lock = threading.RLock()
        self._engine: sa.Engine | None = None
        self._opened: tuple[int, int] | None = None
        self.failure: str | None = None

    def open(self, now: float) -> None:
        """Open the file; sets `failure` on an error. Raises StartError for a newer schema."""
        with contextlib.suppress(JournalError), self._lock, self._translated(starting=True):
            self._ready(now)

    @contextlib.contextmanager
    def writing(self, now: float) -> Iterator[sa.Connection]:
        """A write transaction, durable once the block ends without an exception."""
        with self._lock, self._translated():
            engine = self._ready(now)
            with engine.begin() as connection:
                yield connection
            self.failure = None

    @contextlib.contextmanager
    def reading(self, now: float) -> Iterator[sa.Connection]:
        with self._lock, self._translated():
            engine = self._ready(now).execution_options(journal_reads=True)
            with engine.begin() as connection:
                yield connection

    def shorten_log(self) -> None:
        """Write the write-ahead log into the file and truncate it, unless a reader needs it."""
        with self._lock, self._translated():
            if self._engine is not None:
                with self._plain(self._engine) as cursor:
                    cursor.execute("PRAGMA incremental_vacuum")
                    cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._lock:
            engine, self._engine = self._engine, None
            if engine is not None:
                engine.dispose()

    # Opening.

    def _ready(self, now: float) -> sa.Engine:
        """The engine for the file that is at the path now."""
        if self._opened is not None and not self._is_there():
            self.close()
            raise JournalReplaced(
                f"the journal {self.path} was moved, removed or replaced while the daemon runs; "
                "the daemon ends, and its next start goes on from the file that it finds there, "
                "or from a new one"
            )
        if self._engine is None:
            self._engine = self._open_engine(now)
        return self._engine

    def _is_there(self) -> bool:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._opened

    def _open_engine(self, now: float) -> sa.Engine:
        _make_private(self.path)
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(self.path)),
            connect_args={"timeout": BUSY_S, "check_same_thread": False},
            hide_parameters=True,
            poolclass=sa.pool.StaticPool,
        )
        sa.event.listen(engine, "connect", _set_up)
        sa.event.listen(engine, "begin", _begin)
        sa.event.listen(engine, "before_cursor_execute", storable, retval=True)
        try:
            self._use_log(engine)
            with engine.begin() as connection:
                folder = Path(__file__).parent / "migrations"
                name = f"the journal {self.path}"
                bring_up_to_date(connection, folder, metadata, name)
                durable.check_owner(connection, self._pool, now, name=name, option="[Journal] path")
            found = os.stat(self.path)
        except BaseException:
            engine.dispose()
            raise
        self._opened = (found.st_dev, found.st_ino)
        return engine

    def _use_log(self, engine: sa.Engine) -> None:
        with self._plain(engine) as cursor:
            damage = cursor.execute("PRAGMA quick_check(1)").fetchone()
            if damage is not None and damage[0] != "ok":
                raise sqlite3.DatabaseError("database disk image is malformed")
            # This takes effect only before the first table is made.
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
            mode = cursor.execute("PRAGMA journal_mode=WAL").fetchone()
        if mode is None or mode[0] != "wal":
            raise JournalError(
                f"the journal {self.path} can't keep a write-ahead log there: put "
                "[Journal] path on a local disk"
            )

    @contextlib.contextmanager
    def _plain(self, engine: sa.Engine) -> Iterator[sqlite3.Cursor]:
        """A cursor outside any transaction."""
        raw = engine.raw_connection()
        try:
            yield raw.cursor()  # type: ignore[misc]  # SQLAlchemy's proxy of a sqlite3 cursor
        finally:
            raw.close()

    @contextlib.contextmanager
    def _translated(self, *, starting: bool = False) -> Iterator[None]:
        try:
            yield
        except (JournalError, StartError) as error:
            if starting and isinstance(error, StartError):
                raise
            self.failure = str(error)
            if isinstance(error, JournalError):
                raise
            raise JournalError(self.failure) from error
        except _FAILURES as error:
            self.close()
            self.failure = f"the journal {self.path}: {_what_to_do(error, self.path)}"
            raise JournalError(self.failure) from error


def _make_private(path: Path) -> None:
    """Create the file, or restrict it to its owner: pre-images hold ping secrets."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise JournalError(
            f"the journal {path} can't be opened: {error.strerror}; see [Journal] path"
        ) from error
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _set_up(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute(f"PRAGMA journal_size_limit={LOG_LIMIT}")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    reads = connection.get_execution_options().get("journal_reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def storable(
    _connection: Any, _cursor: Any, statement: str, given: Any, _context: Any, many: bool
) -> tuple[str, Any]:
    """The statement with values that a database takes: one that it can't hold is put as text.

    Names and words come from clouds, clients and terminals. One that can't be written must not
    keep the journal from writing all else.
    """
    if many:
        return statement, [_held_in(row) for row in given]
    return statement, _held_in(given)


def _held_in(row: Any) -> Any:
    if isinstance(row, Mapping):
        return {name: _held(value) for name, value in row.items()}
    return tuple(map(_held, row)) if isinstance(row, tuple) else row


def _held(value: Any) -> Any:
    if isinstance(value, str):
        # PostgreSQL has no NUL in a text.
        return foreign.shown(value).replace("\0", "\\x00")
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return str(value)
    return value


def _what_to_do(error: BaseException, path: Path) -> str:
    """The cause of an error, without SQL statement or values, and its remedy."""
    cause = getattr(error, "orig", None) or error
    name = str(getattr(cause, "sqlite_errorname", ""))
    said = str(cause).strip().splitlines()
    first = said[0] if said else type(cause).__name__
    if name == "SQLITE_FULL" or getattr(cause, "errno", None) == errno.ENOSPC:
        return f"the disk is full ({first}); make room, and the daemon goes on by itself"
    if name.startswith("SQLITE_IOERR"):
        return f"the disk fails ({first}); make room or repair it, and the daemon goes on"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"another process locks it ({first}); end that one, and the daemon goes on by itself"
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or "malformed" in first:
        return (
            f"it is damaged ({first}); restore it, or move {path}, {path.name}-wal and "
            f"{path.name}-shm away together: then the daemon begins a new one, without the holds, "
            "breaker and pre-images that were in it"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "SQLITE_AUTH")):
        return f"it can't be written ({first}); check the permissions of [Journal] path"
    return first
