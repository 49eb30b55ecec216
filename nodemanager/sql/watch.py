"""Ends a transaction that takes too long, also where the database's own process stands still.

A statement's time-out is the server's own: a server whose process is stopped, or whose machine
hangs, never ends a statement, and a client waits for its answer without end. So each connection
that is in use has a deadline here, and one past it loses its socket: whoever waits for it then gets
the driver's error.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

_LOOK_S = 0.25


class Watch:
    """Limits each use of the connections of `engine`, PostgreSQL's, to `timeout` seconds.

    The time counts from when a connection is taken from the pool, and anew from each statement.
    """

    def __init__(self, engine: sa.Engine, timeout: float) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._deadlines: dict[Any, float] = {}
        self._is_watching = False
        sa.event.listen(engine, "checkout", self._taken)
        sa.event.listen(engine, "checkin", self._given_back)
        sa.event.listen(engine, "before_cursor_execute", self._goes_on)

    def _taken(self, connection: Any, _record: Any, _proxy: Any) -> None:
        self._arm(connection)
        try:
            # The pool's own test of a connection comes before anybody can watch it.
            connection.execute("SELECT 1")
            connection.rollback()
        except Exception as error:
            # A driver's error; the pool then opens another connection.
            self._disarm(connection)
            raise exc.DisconnectionError("it was closed meanwhile") from error

    def _given_back(self, connection: Any, _record: Any) -> None:
        self._disarm(connection)

    def _goes_on(self, connection: sa.Connection, *_: Any) -> None:
        self._arm(connection.connection.driver_connection)

    def _arm(self, connection: Any) -> None:
        with self._lock:
            self._deadlines[connection] = time.monotonic() + self._timeout
            starts, self._is_watching = not self._is_watching, True
        if starts:
            threading.Thread(target=self._look, name="database-watch", daemon=True).start()

    def _disarm(self, connection: Any) -> None:
        with self._lock:
            self._deadlines.pop(connection, None)

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                now = time.monotonic()
                # One that was closed, and so is never given back, goes with its deadline.
                late = [one for one, deadline in self._deadlines.items() if deadline < now]
                for one in late:
                    del self._deadlines[one]
                self._is_watching = bool(self._deadlines)
                ends = not self._is_watching
            for one in late:
                _cut(one)
            if ends:
                return


def _cut(connection: Any) -> None:
    """Shut the connection's socket down: the driver notices, and nothing is written to it."""
    with contextlib.suppress(Exception):
        # Another thread may close it at this moment; then there is nothing to cut.
        duplicate = os.dup(connection.fileno())
        with socket.socket(fileno=duplicate) as cut:
            cut.shutdown(socket.SHUT_RDWR)


# Whether a PostgreSQL's standbys have all that was committed, for when one takes over.

ASKED_FOR_S = 5
NOT_AWAITED = frozenset({"off", "local"})
"""Values of `synchronous_commit` with which a commit waits for no standby."""

_ASKED = sa.text(
    "SELECT count(*), current_setting('synchronous_standby_names'),"
    " current_setting('synchronous_commit') FROM pg_stat_replication"
)


def lacking(url: str) -> str | None:
    """Why its standbys may lack the newest writes; None where they don't, or nobody can tell.

    `url` is PostgreSQL's. It has no standby where none follows it at this moment.
    """
    try:
        engine = sa.create_engine(
            sa.make_url(url).set(drivername="postgresql+psycopg"),
            connect_args={"connect_timeout": ASKED_FOR_S},
            poolclass=sa.NullPool,
        )
        with engine.connect() as connection:
            count, names, commits = connection.execute(_ASKED).one()
    except (exc.SQLAlchemyError, ImportError, ValueError):
        # It may be down, or not there yet: the daemon's own start tells it.
        return None
    if not count or (names and commits not in NOT_AWAITED):
        return None
    return f"synchronous_standby_names = '{names}', synchronous_commit = {commits}"
