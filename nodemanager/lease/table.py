"""The pool's row in PostgreSQL. Each call is one statement, and no lock is held between two.

The database is opened by the first call, so that a manager starts without it and stands by.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Double, MetaData, Table, Text
from sqlalchemy.dialects import postgresql

from nodemanager.core.safety.lease import LeaseRow
from nodemanager.errors import StartError, StoreError
from nodemanager.lib.clock import Clock
from nodemanager.sql.database import Database, Purpose, Unreachable

metadata = MetaData()

# One row a pool. `expires_at` is on the database's clock, in epoch seconds, and only shown.
leases = Table(
    "leases",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("holder", Text),
    Column("token", BigInteger, nullable=False),
    Column("renewals", BigInteger, nullable=False),
    Column("duration", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
)

# What the first start saw (L5) and held back (S5): any holder must know it. Values are JSON.
facts = Table(
    "facts",
    metadata,
    Column("pool", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)


OPTION = "[Lease] database"
LEASE = Purpose(
    name="the lease's database",
    option=OPTION,
    tables=metadata,
    migrations=Path(__file__).parent / "migrations",
    lock=0x6E6F6465_6C656173,
    schema="nodemanager lease",
)
_NOW: sa.ColumnElement[float] = sa.cast(
    sa.func.extract("epoch", sa.func.clock_timestamp()), sa.Double
)

JsonScalar = str | int | float | bool | None


class LeaseTable:
    """The lease of `pool` in the database at `url`; see `keeper.Leases`.

    A failing call raises StoreError. `timeout` (seconds) limits each wait for the database.
    """

    def __init__(self, url: str, pool: str, clock: Clock, *, timeout: float) -> None:
        self._url, self._pool, self._clock, self._timeout = url, pool, clock, timeout
        self._lock = threading.Lock()
        self._database: Database | None = None

    def open(self) -> None:
        """Open the database. Raises StartError where it must not be used; that it can't be reached
        now is no error."""
        try:
            self._opened()
        except Unreachable:
            return

    def look(self) -> LeaseRow | None:
        """The row as it is now; None where nobody has ever had the lease."""
        left_s = (leases.c.expires_at - _NOW).label("left_s")
        wanted = (leases.c.holder, leases.c.token, leases.c.renewals, leases.c.duration, left_s)
        query = sa.select(*wanted).where(leases.c.pool == self._pool)
        with self._ready().reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else LeaseRow(*row)

    def take(self, seen: LeaseRow | None, holder: str, duration: float) -> int | None:
        """Take the lease if the row is still as it was `seen`; the new token, or None.

        Somebody may have renewed or taken it since that look.
        """
        new = {
            "holder": holder,
            "renewals": 0,
            "duration": duration,
            "expires_at": _NOW + duration,
        }
        token, renewals = seen.version if seen is not None else (0, 0)
        put = (
            postgresql.insert(leases)
            .values(pool=self._pool, token=1, **new)
            .on_conflict_do_update(
                index_elements=["pool"],
                set_={**new, "token": leases.c.token + 1},
                where=sa.and_(leases.c.token == token, leases.c.renewals == renewals),
            )
            .returning(leases.c.token)
        )
        with self._ready().writing() as connection:
            taken: int | None = connection.scalar(put)
        return taken

    def renew(self, holder: str, token: int, duration: float) -> bool:
        """Renew the lease, also one that has ended; False where somebody else has taken it."""
        renewed = {
            "renewals": leases.c.renewals + 1,
            "duration": duration,
            "expires_at": _NOW + duration,
        }
        return self._changed(holder, token, renewed)

    def give_back(self, holder: str, token: int) -> None:
        """Let the next manager take the lease at once."""
        self._changed(holder, token, {"holder": None, "expires_at": _NOW})

    def _changed(self, holder: str, token: int, values: dict[str, Any]) -> bool:
        ours = (leases.c.pool == self._pool, leases.c.holder == holder, leases.c.token == token)
        change = sa.update(leases).where(*ours).values(values).returning(leases.c.token)
        with self._ready().writing() as connection:
            return connection.scalar(change) is not None

    def close(self) -> None:
        with self._lock:
            database, self._database = self._database, None
        if database is not None:
            database.close()

    # The facts that the pool's managers share.

    def recall(self, name: str) -> JsonScalar:
        """The fact remembered under `name`, or None. Raises StartError if it can't be read now."""
        ours = sa.and_(facts.c.pool == self._pool, facts.c.name == name)
        with _as_start_error(), self._ready().reading() as connection:
            text = connection.scalar(sa.select(facts.c.value).where(ours))
        found: JsonScalar = None if text is None else json.loads(text)
        return found

    def remember(self, name: str, value: JsonScalar) -> None:
        """Write `value` under `name`; None removes it. Raises StartError if that fails."""
        ours = sa.and_(facts.c.pool == self._pool, facts.c.name == name)
        row = {"pool": self._pool, "name": name, "value": json.dumps(value)}
        put = postgresql.insert(facts).values(row)
        put = put.on_conflict_do_update(index_elements=["pool", "name"], set_=row)
        with _as_start_error(), self._ready().writing() as connection:
            connection.execute(sa.delete(facts).where(ours) if value is None else put)

    @property
    def shown(self) -> str:
        """Where the facts are, for messages."""
        return f"the table facts of {OPTION}"

    def _ready(self) -> Database:
        try:
            return self._opened()
        except StartError as error:
            raise StoreError(str(error)) from error

    def _opened(self) -> Database:
        with self._lock:
            if self._database is None:
                self._database = Database(self._url, self._clock, LEASE, timeout=self._timeout)
            return self._database


@contextlib.contextmanager
def _as_start_error() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise StartError(str(error)) from error
