"""A database in SQLite or PostgreSQL: opening, schema upgrade, and transactions.

Both behave alike behind it. A write transaction is durable when it returns, and every failure is a
StoreError that quotes neither statement nor values.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from nodemanager.core.model.reasons import Event
from nodemanager.errors import Conflict, StartError, StoreError
from nodemanager.lib import log
from nodemanager.lib.clock import Clock
from nodemanager.sql.fence import Fence
from nodemanager.sql.watch import Watch

_VERSIONS = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table, as Alembic makes it."""


def bring_up_to_date(
    connection: sa.Connection, migrations: Path, tables: sa.MetaData, name: str
) -> None:
    """Make the `tables` of a new database; run the revisions in `migrations` that an old one lacks.

    All is done in the connection's transaction. `name` is the database's name in messages. Raises
    StartError for a schema newer than any revision there, and leaves it unchanged.
    """
    newest = newest_of(migrations)
    if not sa.inspect(connection).has_table(_VERSIONS.name):
        tables.create_all(connection, checkfirst=False)
        _VERSIONS.create(connection)
        connection.execute(_VERSIONS.insert().values(version_num=newest))
    elif connection.scalar(sa.select(_VERSIONS)) != newest:
        _upgrade(connection, migrations, name)


def newest_of(migrations: Path) -> str:
    """The newest revision there, by the file's name."""
    newest = max(path.name for path in (migrations / "versions").glob("r*.py"))
    return newest[1:].partition("_")[0]


def _upgrade(connection: sa.Connection, migrations: Path, name: str) -> None:
    # Alembic takes a tenth of the time that a daemon needs to start, and seldom has work to do.
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    # It logs each step at INFO, in words that mean nothing to an operator.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    head = scripts.get_current_head()
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in known:
        raise StartError(
            f"{name} has schema {current}, but the newest that this program knows is {head}:"
            " upgrade nodemanager"
        )
    command.upgrade(config, "head")


_log = log.get(__name__)


@dataclass(frozen=True)
class Purpose:
    """What a database is for: its `name` in messages, and the `option` of the file that gives it.

    It has these `tables`, and `migrations` is the folder of their revisions. `lock` is
    PostgreSQL's, for transactions that must not run side by side; SQLite has only one writer
    anyway. In PostgreSQL, the tables are in `schema`, which is made if it is missing; None is the
    user's own.
    """

    name: str
    option: str
    tables: sa.MetaData
    migrations: Path
    lock: int
    schema: str | None = None


class Unreachable(StartError):
    """The database can't be opened now; a later attempt may succeed."""


class Database:
    """A database for several threads at once.

    `timeout` (seconds) limits each of connecting, waiting for a lock and running a statement.
    Raises Unreachable, or another StartError when the database must not be used.
    """

    def __init__(self, url: str, clock: Clock, purpose: Purpose, *, timeout: float = 15.0) -> None:
        self._clock = clock
        self._timeout = timeout
        self._purpose = purpose
        self._fence: tuple[Fence, sa.Table] | None = None
        self._is_raised = False
        self._url = _checked(url, purpose)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        # SQLite's busy handler is unfair; queueing our own writers first keeps each wait short.
        self._writer = threading.Lock()
        self._opened: tuple[int, int] | None = None
        if self.is_sqlite:
            path = Path(str(self._url.database))
            _make_private(path, purpose)
            self._opened = _file_at(path)
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

    def fenced(self, fence: Fence, fences: sa.Table) -> Database:
        """The same database for one holder of the lease: it takes no write once there is a newer
        one (L6).

        The first transaction raises the token in the table `fences`, so that nobody else's write
        comes after what it reads. Transactions then raise Superseded under an older token. Only
        this database itself is to be closed.
        """
        other = copy.copy(self)
        other._fence, other._is_raised = (fence, fences), False
        return other

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A read transaction that sees one state of the database."""
        self._raise_fence()
        self._require_same_file()
        with self._translated(), self._read_engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self, *, allots: bool = False) -> Iterator[sa.Connection]:
        """A write transaction, durable once the block ends without an exception.

        `allots` must be True if it may allot a slot or move an address between rows.
        """
        self._raise_fence()
        with self._transaction() as connection:
            if allots:
                self.serialise(connection)
            if self._fence is not None:
                fence, fences = self._fence
                fence.check(connection, fences)
            yield connection

    def _raise_fence(self) -> None:
        if self._fence is None or self._is_raised:
            return
        fence, fences = self._fence
        with self._transaction() as connection:
            fence.raise_in(connection, fences)
        self._is_raised = True

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        self._require_same_file()
        with self._translated(), self._queued(), self._write_engine.begin() as connection:
            yield connection

    def serialise(self, connection: sa.Connection) -> None:
        """Wait until no other transaction that allots is running."""
        if not self.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(self._purpose.lock)))

    def now_ns(self, connection: sa.Connection) -> int:
        """The store's clock in nanoseconds since the epoch: PostgreSQL's own, else this machine's.

        Registry processes on several machines may share a PostgreSQL database; those on one SQLite
        file share a machine and its clock.
        """
        if self.is_sqlite:
            return round(self._clock.wall() * 1e6) * 1000
        microseconds = sa.func.extract("epoch", sa.func.clock_timestamp()) * 1_000_000
        return int(connection.scalar(sa.select(microseconds)) or 0) * 1000

    def before_each(self, change: Callable[..., tuple[str, Any]]) -> None:
        """Have `change` see each statement and its values first; it gives those to be executed."""
        sa.event.listen(self._engine, "before_cursor_execute", change, retval=True)

    def close(self) -> None:
        self._engine.dispose()

    def _require_same_file(self, *_connected: object) -> None:
        """Raise StoreError if another file, or none, is at the path by now, as from a backup.

        Open connections would go on with the file that was there, and new ones take the other: one
        listing would show what the next one lacks.
        """
        if self._opened is None:
            return
        path = Path(str(self._url.database))
        if _file_at(path) != self._opened:
            raise StoreError(
                f"{self._purpose.name} {path} was moved, removed or replaced while this process "
                "has it open: put it back, or start each process that uses it again"
            )

    @contextlib.contextmanager
    def _queued(self) -> Iterator[None]:
        if not self.is_sqlite:
            yield
            return
        if not self._writer.acquire(timeout=self._timeout):
            raise StoreError(f"{self._purpose.name} is busy: other writes take too long")
        try:
            yield
        finally:
            self._writer.release()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.IntegrityError as error:
            raise Conflict(f"{self._purpose.name} refuses it: {_first_line(error)}") from error
        except (*self._failures, UnicodeError, OverflowError) as error:
            raise StoreError(f"{self._purpose.name}: {_first_line(error)}") from error

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
            sa.event.listen(engine, "connect", self._require_same_file)
            sa.event.listen(engine, "connect", _set_up_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
        else:
            Watch(engine, self._timeout)
        if not self.is_sqlite and self._purpose.schema is not None:
            sa.event.listen(engine, "connect", partial(_search, self._purpose.schema))
        return engine

    def _open(self) -> None:
        try:
            if self.is_sqlite:
                self._use_wal()
            with self._write_engine.begin() as connection:
                self.serialise(connection)
                if not self.is_sqlite and self._purpose.schema is not None:
                    make = sa.schema.CreateSchema(self._purpose.schema, if_not_exists=True)
                    connection.execute(make)
                name = f"{self._purpose.name} {self.shown}"
                bring_up_to_date(connection, self._purpose.migrations, self._purpose.tables, name)
        except self._failures as error:
            raise Unreachable(
                f"can't use {self._purpose.name} {self.shown}: {_first_line(error)};"
                f" see {self._purpose.option}"
            ) from error

    def _use_wal(self) -> None:
        raw = self._engine.raw_connection()
        try:
            mode = self._switched(raw.cursor())
        finally:
            raw.close()
        if mode is None or mode[0] != "wal":
            raise StartError(
                f"{self._purpose.name} {self.shown} can't keep a write-ahead log there;"
                f" put {self._purpose.option} on a local disk"
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


def _checked(url: str, purpose: Purpose) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        raise StartError(
            f"{purpose.option} is not a URL like sqlite:////path/registry.db or"
            " postgresql://user@host/name"
        ) from error
    backend = parsed.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StartError(f"{purpose.option} is {backend}: use sqlite or postgresql")
    if not parsed.database or parsed.database == ":memory:":
        raise StartError(f"{purpose.option} names no file: use sqlite:////path/registry.db")
    return parsed.set(drivername="sqlite")


def _file_at(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file that is there; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _make_private(path: Path, purpose: Purpose) -> None:
    """Create the file for its owner only: it holds the ping secrets."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if path.is_symlink() and not path.exists():
            raise StartError(
                f"{purpose.name} {path} is a link to nothing: remove it, or give "
                f"{purpose.option} the file's own path"
            ) from None
        _put_right(path, purpose)
    except OSError as error:
        raise StartError(
            f"can't create {purpose.name} {path}: {error.strerror}; see {purpose.option}"
        ) from error


def _put_right(path: Path, purpose: Purpose) -> None:
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
                f"other users can read or write {purpose.name} {file}, which holds the "
                f"nodes' ping secrets; `chmod 0600` it ({error.strerror})"
            ) from error
        _log.event(
            Event.CONFIG_WARNING,
            level=log.WARNING,
            message=f"other users could read or write {file} (mode {mode:04o}), which holds the "
            "nodes' ping secrets; only its owner can now. Anybody who has read it can ping as your "
            "nodes",
        )


def _search(schema: str, connection: Any, _record: Any) -> None:
    """Have tables without a schema's name be those of `schema`."""
    with connection.cursor() as cursor:
        quoted = '"' + schema.replace('"', '""') + '"'
        cursor.execute("SELECT set_config('search_path', %s, false)", (quoted,))
    connection.commit()


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


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


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
