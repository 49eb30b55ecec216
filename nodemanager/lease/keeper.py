"""Takes the pool's lease, renews it, and knows when it is over (SAFETY.md L6, T2).

`Keeper.step` makes one look or one renewal, and says when the next one is due; a thread of its own
calls it, because a database may let it wait. Whoever sends an order asks the `Term`, which needs
nobody's answer.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Double, MetaData, Table, Text
from sqlalchemy.dialects import postgresql

from nodemanager.core.model.reasons import Event
from nodemanager.core.safety import lease as rules
from nodemanager.core.safety.lease import RENEWALS, LeaseRole, LeaseRow, LeaseView, Sighting
from nodemanager.errors import StartError, StoreError
from nodemanager.lib.clock import Clock
from nodemanager.lib.log import INFO, WARNING, Logger
from nodemanager.sql.database import Database, Purpose, Unreachable

LOOK_S = 1.0
"""Seconds between two looks of a standby, at most."""


class Leases(Protocol):
    """The pool's row. A failing call raises StoreError."""

    def look(self) -> LeaseRow | None: ...

    def take(self, seen: LeaseRow | None, holder: str, duration: float) -> int | None: ...

    def renew(self, holder: str, token: int, duration: float) -> bool: ...

    def give_back(self, holder: str, token: int) -> None: ...


class Term:
    """One time of holding the lease. Several threads ask it; it never begins anew once it ended.

    `after_another` says that the one before did not give the lease back.
    """

    def __init__(
        self, clock: Clock, token: int, holder: str, taken_at: float, *, after_another: bool
    ) -> None:
        self.token, self.holder, self.taken_at = token, holder, taken_at
        self.after_another = after_another
        self._clock = clock
        self._ends_at = taken_at
        self._is_over = False

    def holds(self) -> bool:
        """Whether an order may be sent at this moment."""
        return not self._is_over and self._clock.boottime() < self._ends_at

    @property
    def ends_at(self) -> float:
        """When the last order is sent, unless the lease is renewed (CLOCK_BOOTTIME)."""
        return self._ends_at

    def lasts_until(self, ends_at: float) -> None:
        self._ends_at = ends_at

    def is_over(self) -> None:
        self._is_over = True


class Keeper:
    """Keeps the lease of one pool for `holder`. `changed` is told each new term, and its end."""

    def __init__(
        self,
        leases: Leases,
        *,
        pool: str,
        holder: str,
        duration: float,
        clock: Clock,
        log: Logger,
        changed: Callable[[Term | None], None],
    ) -> None:
        self.holder = holder
        self._leases, self._pool, self._duration = leases, pool, duration
        self._clock, self._log, self._changed = clock, log, changed
        self._term: Term | None = None
        self._seen: Sighting | None = None
        self._seen_at = 0.0
        self._last_logged: tuple[object, ...] | None = None
        """What was said last of who has the lease."""
        self._lost = False
        self._error: str | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def term(self) -> Term | None:
        """The term that no other manager has ended, as far as it is known."""
        return self._term

    def view(self) -> LeaseView:
        term, seen = self._term, self._seen
        ahead_s = self._clock.wall() - self._clock.boottime()
        if term is not None:
            role = LeaseRole.ACTIVE if term.holds() else LeaseRole.NONE
            until = term.ends_at + ahead_s
            return LeaseView(role, self.holder, term.token, until, self._error)
        if seen is None:
            return LeaseView(LeaseRole.STANDBY, error=self._error)
        until = self._seen_at + seen.row.left_s + ahead_s
        return LeaseView(LeaseRole.STANDBY, seen.row.holder, seen.row.token, until, self._error)

    # One step.

    def step(self) -> float:
        """Look, take or renew once; gives the seconds until the next step."""
        try:
            next_s = self._contend() if self._term is None else self._renew(self._term)
        except StoreError as error:
            self._error = str(error)
            self._out_of_reach(error)
            return min(LOOK_S, self._duration / 10)
        self._error = None
        return next_s

    def _contend(self) -> float:
        row = self._leases.look()
        now = self._seen_at = self._clock.boottime()
        self._seen = None if row is None else rules.sighted(self._seen, row, now)
        if self._seen is not None and not rules.may_take(self._seen, now):
            self._stands_by(self._seen.row)
        else:
            self._take(row)
        return min(LOOK_S, self._duration / (10 if self._term is None else RENEWALS))

    def _take(self, row: LeaseRow | None) -> None:
        sent_at = self._clock.boottime()
        token = self._leases.take(row, self.holder, self._duration)
        if token is None:
            return
        after_another = row is not None and row.holder is not None
        taken_at = self._clock.boottime()
        term = Term(self._clock, token, self.holder, taken_at, after_another=after_another)
        term.lasts_until(rules.ends_at(sent_at, self._duration))
        self._term, self._lost = term, False
        self._tell(Event.LEASE_ACQUIRED, WARNING if after_another else INFO, token=token)
        self._changed(term)

    def _renew(self, term: Term) -> float:
        sent_at = self._clock.boottime()
        if not self._leases.renew(self.holder, term.token, self._duration):
            term.is_over()
            self._term = self._seen = None
            error = "another manager has taken it"
            self._tell(Event.LEASE_LOST, WARNING, token=term.token, error=error)
            self._changed(None)
            return 0.0
        if not term.holds():
            self._ended(term, "the database answered too late")
        term.lasts_until(rules.ends_at(sent_at, self._duration))
        if self._lost and term.holds():
            self._lost = False
            detail = "the database answers again; nobody had taken the lease"
            self._tell(Event.LEASE_ACQUIRED, WARNING, token=term.token, detail=detail)
        # Where the answer came too late, the next one may be in time.
        return self._duration / RENEWALS if term.holds() else 0.0

    def _out_of_reach(self, error: StoreError) -> None:
        term = self._term
        if term is None:
            # One that comes back may lack the newest renewals: the watch begins anew.
            self._seen = None
            if self._last_logged != (str(error),):
                self._last_logged = (str(error),)
                self._tell(Event.LEASE_STANDBY, WARNING, holder=None, error=error)
        elif not term.holds():
            self._ended(term, error)

    def _ended(self, term: Term, error: object) -> None:
        """Tell once that the term is at its end, unless it is renewed after all."""
        if not self._lost:
            self._lost = True
            self._tell(Event.LEASE_LOST, WARNING, token=term.token, error=error)

    def _stands_by(self, row: LeaseRow) -> None:
        holding = (row.holder, row.token)
        if self._last_logged != holding:
            self._last_logged = holding
            self._tell(Event.LEASE_STANDBY, INFO, holder=row.holder, token=row.token)

    def _tell(self, event: Event, level: int, **fields: object) -> None:
        if event is not Event.LEASE_STANDBY:
            self._last_logged = None
        values = {"pool": self._pool, "holder": self.holder, **fields}
        self._log.event(event, level=level, **values)

    # Its thread.

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, gives_back: bool) -> None:
        """End; idempotent. The lease may be given back only if nothing is under way any more."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join(self._duration)
        term, self._term = self._term, None
        if term is None:
            return
        term.is_over()
        if not gives_back or self._thread.is_alive():
            return
        try:
            self._leases.give_back(self.holder, term.token)
        except StoreError:
            # It ends by itself.
            return

    def _run(self) -> None:
        wait_s = 0.0
        while not self._ends.wait(wait_s):
            wait_s = self.step()


# The pool's row in PostgreSQL. Each call is one statement, and no lock is held between two.

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
