"""The registry's database: opening, schema upgrade, and transactions.

SQLite and PostgreSQL behave alike behind it. A write transaction is durable when it returns, and
every failure is a StoreError that quotes neither statement nor values.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from nodemanager import log
from nodemanager.clock import Clock
from nodemanager.core.model.reasons import Event
from nodemanager.errors import Conflict, StartError, StoreError
from nodemanager.records.watch import Watch
from nodemanager.revisions import bring_up_to_date

_log = log.get(__name__)

# The PostgreSQL lock for transactions that allot slots; SQLite has only one writer anyway.
_LOCK_KEY = 0x6E6F6465_6D616E01


class Database:
    """The registry's database, for several threads at once.

    `timeout` (seconds) limits each of connecting, waiting for a lock and running a statement.
    Raises StartError when the database can't be used.
    """

    def __init__(self, url: str, clock: Clock, *, timeout: float = 15.0) -> None:
        self._clock = clock
        self._timeout = timeout
        self._url = _checked(url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        # SQLite's busy handler is unfair; queueing our own writers first keeps each wait short.
        self._writer = threading.Lock()
        if self.is_sqlite:
            _make_private(Path(str(self._url.database)))
        self._engine = self._make_engine()
        # SQLAlchemy does not translate the driver's errors from the set-up of a connection and
        # from the driver's own cursors.
        self._failures = (exc.SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error)
        self._read_engine = self._engine
        if not self.is_sqlite:
            whole = self._engine.execution_options(isolation_level="REPEATABLE READ")
            self._read_engine = whole
        self._write_engine = self._engine.execution_options(nodemanager_writes=True)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def shown(self) -> str:
        """The database's URL without its password."""
        return self._url.render_as_string(hide_password=True)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A read transaction that sees one state of the database."""
        with self._translated(), self._read_engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self, *, allots: bool = False) -> Iterator[sa.Connection]:
        """A write transaction, durable once the block ends without an exception.

        `allots` must be True if it may allot a slot or move an address between rows.
        """
        with self._translated(), self._queued(), self._write_engine.begin() as connection:
            if allots:
                self.serialise(connection)
            yield connection

    def serialise(self, connection: sa.Connection) -> None:
        """Wait until no other transaction that allots is running."""
        if not self.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_KEY)))

    def now_ns(self, connection: sa.Connection) -> int:
        """The store's clock in nanoseconds since the epoch: PostgreSQL's own, else this machine's.

        Registry processes on several machines may share a PostgreSQL database; those on one SQLite
        file share a machine and its clock.
        """
        if self.is_sqlite:
            return round(self._clock.wall() * 1e6) * 1000
        microseconds = sa.func.extract("epoch", sa.func.clock_timestamp()) * 1_000_000
        return int(connection.scalar(sa.select(microseconds)) or 0) * 1000

    def close(self) -> None:
        self._engine.dispose()

    @contextlib.contextmanager
    def _queued(self) -> Iterator[None]:
        if not self.is_sqlite:
            yield
            return
        if not self._writer.acquire(timeout=self._timeout):
            raise StoreError("the registry's database is busy: other writes take too long")
        try:
            yield
        finally:
            self._writer.release()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.IntegrityError as error:
            raise Conflict(f"the registry's database refuses it: {_first_line(error)}") from error
        except (*self._failures, UnicodeError, OverflowError) as error:
            raise StoreError(f"the registry's database: {_first_line(error)}") from error

    def _make_engine(self) -> sa.Engine:
        arguments: dict[str, Any] = {"timeout": self._timeout, "check_same_thread": False}
        if not self.is_sqlite:
            milliseconds = int(self._timeout * 1000)
            arguments = {
                "connect_timeout": max(2, int(self._timeout)),
                "tcp_user_timeout": milliseconds,
                "options": f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds}"
                f" -c idle_in_transaction_session_timeout={milliseconds}",
            }
        engine = sa.create_engine(
            self._url,
            connect_args=arguments,
            hide_parameters=True,
            pool_size=5,
            max_overflow=20,
            pool_timeout=self._timeout,
        )
        if self.is_sqlite:
            sa.event.listen(engine, "connect", _set_up_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
        else:
            Watch(engine, self._timeout)
        return engine

    def _open(self) -> None:
        try:
            if self.is_sqlite:
                self._use_wal()
            with self._write_engine.begin() as connection:
                self.serialise(connection)
                self._migrate(connection)
        except self._failures as error:
            raise StartError(
                f"can't use the registry's database {self.shown}: {_first_line(error)};"
                " see [Registry] database"
            ) from error

    def _use_wal(self) -> None:
        raw = self._engine.raw_connection()
        try:
            mode = self._switched(raw.cursor())
        finally:
            raw.close()
        if mode is None or mode[0] != "wal":
            raise StartError(
                f"the registry's database {self.shown} can't keep a write-ahead log there;"
                " put [Registry] database on a local disk"
            )

    def _switched(self, cursor: Any) -> Any:
        """The journal mode after the switch; another program may be switching the new file, too.

        SQLite's own wait does not cover that: two that switch at one moment would wait for each
        other, so one of them is told at once that the file is locked.
        """
        gives_up_at = time.monotonic() + self._timeout
        cursor.execute("PRAGMA busy_timeout=0")
        while True:
            try:
                cursor.execute("PRAGMA journal_mode=WAL")
                mode = cursor.fetchone()
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > gives_up_at:
                    raise
            time.sleep(0.05)
        cursor.execute(f"PRAGMA busy_timeout={int(self._timeout * 1000)}")
        return mode

    def _migrate(self, connection: sa.Connection) -> None:
        folder = Path(__file__).parent / "migrations"
        bring_up_to_date(connection, folder, f"the registry's database {self.shown}")


def _checked(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        raise StartError(
            "[Registry] database is not a URL like sqlite:////path/registry.db or"
            " postgresql://user@host/name"
        ) from error
    backend = parsed.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StartError(f"[Registry] database is {backend}: use sqlite or postgresql")
    if not parsed.database or parsed.database == ":memory:":
        raise StartError("[Registry] database names no file: use sqlite:////path/registry.db")
    return parsed.set(drivername="sqlite")


def _make_private(path: Path) -> None:
    """Create the file for its owner only: it holds the ping secrets."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if path.is_symlink() and not path.exists():
            raise StartError(
                f"the registry's database {path} is a link to nothing: remove it, or give "
                "[Registry] database the file's own path"
            ) from None
        _put_right(path)
    except OSError as error:
        raise StartError(
            f"can't create the registry's database {path}: {error.strerror};"
            " see [Registry] database"
        ) from error


def _put_right(path: Path) -> None:
    """Restrict existing files to their owner, and log that: somebody else made or opened them."""
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
            if not mode & (stat.S_IRWXG | stat.S_IRWXO):
                continue
            file.chmod(0o600)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StartError(
                f"other users can read or write the registry's database {file}, which holds the "
                f"nodes' ping secrets; `chmod 0600` it ({error.strerror})"
            ) from error
        _log.event(
            Event.CONFIG_WARNING,
            level=log.WARNING,
            message=f"other users could read or write {file} (mode {mode:04o}), which holds the "
            "nodes' ping secrets: only its owner can now. Anybody who has read it can ping as your "
            "nodes",
        )


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    # A byte that is no UTF-8 makes one row unreadable, and not all that are read with it.
    connection.text_factory = _text
    cursor = connection.cursor()
    # FULL: with WAL, NORMAL may lose an acknowledged ping when the power fails.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    # Makes `like` case-sensitive, as in PostgreSQL.
    cursor.execute("PRAGMA case_sensitive_like=ON")
    cursor.close()


_text = partial(str, encoding="utf-8", errors="surrogateescape")


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("nodemanager_writes")
    # Through the driver itself: SQLAlchemy's overhead exceeds SQLite's time for this statement.
    driver: Any = connection.connection.driver_connection
    driver.execute("BEGIN IMMEDIATE" if writes else "BEGIN")


def _first_line(error: BaseException) -> str:
    """The first line of the driver's message, without statement and values."""
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines() if not isinstance(cause, UnicodeError) else []
    return lines[0] if lines else type(cause).__name__
