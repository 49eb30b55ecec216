"""Read-only access to a journal's file, beside a running daemon or on a copy."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nodemanager.errors import JournalError

SCHEMA = "0001"
TABLES = frozenset({"alembic_version", "entries", "logged"})
"""The tables that tell a journal from other databases, such as the registry's."""


def is_there(path: Path) -> bool:
    """Whether the file exists. Raises JournalError where we lack the permission to read it."""
    try:
        if not path.is_file():
            return False
        if os.access(path, os.R_OK, effective_ids=True):
            return True
        error: OSError = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as caught:
        error = caught
    raise JournalError(
        f"the journal {path} can't be read: {error.strerror}; run this as {_owner(path)}. "
        "Commands to the running daemon (`nodemanager explain ID` without --at) don't need this"
    ) from error


def _owner(path: Path) -> str:
    """The user who may read it: its owner, or the owner of the nearest visible directory."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError, KeyError):
            return f"the user {pwd.getpwuid(place.stat().st_uid).pw_name}"
    return "the user that the daemon runs as"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection, beside a running daemon or to a copy.

    Raises JournalError for another database, and for a schema newer than this program's.
    """
    if not is_there(path):
        raise JournalError(f"there is no journal {path}")
    connection: sqlite3.Connection | None = None
    try:
        connection = _connected(path)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not tables >= TABLES:
            raise JournalError(
                f"{path} is no journal: give the file that a daemon wrote, or a copy of it"
            )
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        if found is None or found[0] > SCHEMA:
            raise JournalError(
                f"the journal {path} has schema {found[0] if found else 'none'}, but this "
                f"program reads up to {SCHEMA}: upgrade nodemanager"
            )
        yield connection
    except sqlite3.Error as error:
        raise JournalError(f"the journal {path} can't be read: {error}") from error
    finally:
        if connection is not None:
            connection.close()


def _connected(path: Path) -> sqlite3.Connection:
    where = f"file:{quote(str(path.absolute()))}?mode=ro"
    connection = sqlite3.connect(where, uri=True, timeout=5.0)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # The file may be a copy in a directory where we can't create SQLite's shared memory.
        connection.close()
        connection = sqlite3.connect(f"{where}&immutable=1", uri=True)
    return connection


@contextlib.contextmanager
def reported_as_damage(path: Path) -> Iterator[None]:
    """Translate decoding errors in the block to a JournalError."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, zlib.error) as error:
        raise JournalError(f"the journal {path} is damaged: {error!r}") from error


def unpacked(packed: bytes) -> Any:
    """The JSON of a body or of the verdicts in the table `entries`."""
    return json.loads(zlib.decompress(packed))
