"""A journal's file as readers open it: read-only, beside a running daemon or on a copy."""

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

SCHEMA = "0002"


def is_there(path: Path) -> bool:
    """Whether there is such a file. Raises JournalError where we may not look, or not read it."""
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
        "What asks the running daemon (`nodemanager explain ID` without --at) needs no such right"
    ) from error


def _owner(path: Path) -> str:
    """Who may read it: whoever has it, or has what it is in."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError, KeyError):
            return f"the user {pwd.getpwuid(place.stat().st_uid).pw_name}"
    return "the user that the daemon runs as"


@contextlib.contextmanager
def opened(path: Path, *, needs: str = "0001") -> Iterator[sqlite3.Connection]:
    """A reader's connection, which never writes: beside a running daemon, or on a copy.

    Raises JournalError for a schema that is older than it `needs`, or newer than known.
    """
    if not is_there(path):
        raise JournalError(f"there is no journal {path}")
    connection: sqlite3.Connection | None = None
    try:
        connection = _connected(path)
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        if found is None or found[0] > SCHEMA:
            raise JournalError(
                f"the journal {path} has schema {found[0] if found else 'none'}, and this "
                f"program reads up to {SCHEMA}: upgrade nodemanager"
            )
        if found[0] < needs:
            raise JournalError(
                f"an older nodemanager wrote the journal {path}, and nobody has brought it up to "
                "date: a daemon that starts on it does, `nodemanager run --once --dry-run` too"
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
        # A copy in a directory that we may not write to: no shared memory can be made there.
        connection.close()
        connection = sqlite3.connect(f"{where}&immutable=1", uri=True)
    return connection


@contextlib.contextmanager
def told_as_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, zlib.error) as error:
        raise JournalError(f"the journal {path} is damaged: {error!r}") from error


def unpacked(packed: bytes) -> Any:
    """The JSON of a body of `entries`, or of the verdicts beside it."""
    return json.loads(zlib.decompress(packed))
