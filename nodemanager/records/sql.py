"""The registry as the manager's record store, directly on its database (records/api.py)."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Mapping
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import requests
import sqlalchemy as sa

from nodemanager.core.model.world import Claim, Guarantee, LatePing, Listed, Record, StoreTime
from nodemanager.errors import Conflict, StartError, StoreError, StoreRefused
from nodemanager.lib.clock import Clock
from nodemanager.records import freed, rows, seats, wire
from nodemanager.records.resource import NodesResource
from nodemanager.records.schema import decoded, fences, metadata, nodes, store
from nodemanager.sql.database import Database, Purpose
from nodemanager.sql.fence import Fence

# Lists the rows of the `nodes` table, and of a row listed before reads only what a ping changed.

_PAGE = 2000
_PINGED = ("version", "last_ping_at", "modified_at")
"""What each ping changes; the columns and the fields of Record have the same names."""
_FIRST = ("uuid", *_PINGED)
_COLUMNS = (*_FIRST, *(column.name for column in nodes.columns if column.name not in _FIRST))
_QUERY = (
    sa.select(
        *(
            sa.type_coerce(nodes.c[name], sa.Text) if name in rows.JSON else nodes.c[name]
            for name in _COLUMNS
        )
    )
    .order_by(nodes.c.uuid)
    .execution_options(yield_per=_PAGE)
)
"""Every row, its JSON as text."""
_FIELDS = tuple(one.name for one in fields(Record))
_VALUES = attrgetter(*_FIELDS)
_VERSION, _LAST_PING_AT, _MODIFIED_AT = map(_FIELDS.index, _PINGED)
_BETWEEN, _BEHIND = slice(_VERSION + 1, _LAST_PING_AT), slice(_MODIFIED_AT + 1, None)
"""The fields of Record between the first and the second that each ping changes, and behind the
last; the second and the third are neighbours, and only the uuid is before the first."""

_Row = sa.Row[*tuple[Any, ...]]
_Values = tuple[Any, ...]


class _Known(NamedTuple):
    """A readable row's columns that a ping need not change, and those values of its record."""

    rest: _Values
    uuid: str
    between: _Values
    behind: _Values


class Rereader:
    """Lists all records, and remembers them with their rows until the next listing.

    A record has the values that its row alone would give. Those that did not change are the same
    objects as in the listing before, and so is a record of which nothing changed, because nobody
    changes a Record. Two threads may list at once.
    """

    def __init__(self) -> None:
        self._before: Mapping[str, tuple[_Known, Record]] = {}

    def listed(self, connection: sa.Connection) -> Listed[Record]:
        before: Mapping[str, tuple[_Known, Record]] = self._before
        now: dict[str, tuple[_Known, Record]] = {}

        def read(row: _Row) -> Record:
            uuid, rest = row[0], row[len(_FIRST) :]
            found = before.get(uuid)
            if found is not None and rest == found[0].rest:
                # The texts of the row before are kept, so that these are freed at once.
                record = _pinged(*found, row)
                now[uuid] = found[0], record
                return record
            record = _read(row)
            if not record.problems:
                values = _VALUES(record)
                now[uuid] = _Known(rest, uuid, values[_BETWEEN], values[_BEHIND]), record
            return record

        pages = connection.execute(_QUERY).partitions()
        listed = wire.collect(read, chain.from_iterable(pages))
        self._before = now
        return listed


def _read(row: _Row) -> Record:
    values = dict(zip(_COLUMNS, row, strict=True))
    return rows.record_of(values | {name: decoded(values[name]) for name in rows.JSON})


def _pinged(known: _Known, before: Record, row: _Row) -> Record:
    """The record of a row that differs at most by pings from the known one, which gave `before`."""
    _, version, last_ping_at, modified_at = row[:4]
    if not type(version) is type(last_ping_at) is type(modified_at) is int:
        return _read(row)
    pinged_at = wire.epoch(last_ping_at)
    # A ping stamps both alike.
    at = pinged_at if modified_at == last_ping_at else wire.epoch(modified_at)
    named = str(version)
    if before.version == named and before.last_ping_at == pinged_at and before.modified_at == at:
        return before
    values = [known.uuid, named, *known.between, pinged_at, at, *known.behind]
    return Record(*values)


NOTHING: rows.Row = {}
REGISTRY = Purpose(
    name="the registry's database",
    option="[Registry] database",
    tables=metadata,
    migrations=Path(__file__).parent / "migrations",
    lock=0x6E6F6465_6D616E01,
)
_PROBE_TIMEOUT = 5.0


class SqlRecordStore:
    """A record store in SQLite or PostgreSQL.

    `database_url` is SQLAlchemy's; `slots` is the number of slots (numbered from 1); `hostname` is
    a pattern with `%(slot_number)d`. `public_url` is the URL of the HTTP server for nodes, without
    a path; it may be set later, once the port is known. `ca_file` (PEM) is used to check that
    server's certificate, or the system's authorities where it is None. `timeout` in seconds limits
    every call. `resource` offers the same data to the HTTP server. Raises StartError.
    """

    provider = "registry"
    guarantee = Guarantee.CAS
    may_authorise = True
    settle_wait = 0.0
    tells_drain = True

    def __init__(
        self,
        database_url: str,
        *,
        slots: int,
        hostname: str,
        domain: str,
        public_url: str,
        clock: Clock,
        uuid_prefix: str = "zzzzz",
        timeout: float = 15.0,
        ca_file: str | None = None,
    ) -> None:
        self.public_url = public_url
        self._clock = clock
        self._timeout = timeout
        self._ca_file = ca_file
        self.naming = _naming(slots, hostname, domain, uuid_prefix)
        self.db = Database(database_url, clock, REGISTRY, timeout=timeout)
        self._rereader = Rereader()
        try:
            self._introduce()
        except StoreError as error:
            self.db.close()
            raise StartError(str(error)) from error
        self.resource = NodesResource(self.db, self.naming)

    def _introduce(self) -> None:
        with self.db.writing(allots=True) as connection:
            known = connection.scalar(sa.select(store.c.store_id).where(store.c.id == 1))
            if known is not None:
                return
            made, now = secrets.token_hex(16), self.db.now_ns(connection)
            row = {"id": 1, "store_id": made, "created_at": now, "heartbeat_at": now}
            connection.execute(sa.insert(store).values(row | {"heartbeats": 0}))

    def under(self, fence: Fence) -> SqlRecordStore:
        """The same store for one holder of the lease: a newer one's token ends its writes (L6)."""
        other = copy.copy(self)
        other.db = self.db.fenced(fence, fences)
        return other

    def store_id(self) -> str:
        """The store's random id, made with the database and never changed (L5).

        Read at each call, since the database may be replaced while the program runs.
        """
        with self.db.reading() as connection:
            found = connection.scalar(sa.select(store.c.store_id).where(store.c.id == 1))
        if found is None:
            raise StoreError("the database no longer has its registry's id")
        return str(found)

    def slots(self) -> int | None:
        return self.naming.slots

    def store_time(self, *, writes: bool = True) -> StoreTime:
        """The time stamp of a new heartbeat or, without `writes`, the database's clock (T1)."""
        before = self._clock.boottime()
        with self.db.writing() if writes else self.db.reading() as connection:
            at = self.db.now_ns(connection)
            if writes:
                beat = {"heartbeat_at": at, "heartbeats": store.c.heartbeats + 1}
                connection.execute(sa.update(store).where(store.c.id == 1).values(beat))
            beats = connection.scalar(sa.select(store.c.heartbeats).where(store.c.id == 1))
        after = self._clock.boottime()
        return StoreTime(wire.epoch(at), (before + after) / 2, (after - before) / 2, beats)

    def list_records(self) -> Listed[Record]:
        """Every row, ordered by uuid, from one state of the database (L2)."""
        with self.db.reading() as connection:
            return self.listed(connection)

    def listed(self, connection: sa.Connection) -> Listed[Record]:
        return self._rereader.listed(connection)

    def read(self, uuid: str) -> Record | None:
        with self.db.reading() as connection:
            row = rows.find(connection, uuid)
            return None if row is None else rows.record_of(row)

    def create(self, claim: Claim) -> Record:
        """A new record with claim, slot, hostname and secret, in one transaction (U1, U7)."""
        with self.db.writing(allots=True) as connection:
            row = rows.find_incarnation(connection, claim.incarnation)
            if row is None:
                slot = rows.free_slot(connection, self.naming)
                values = {
                    "slot_number": slot,
                    "hostname": self.naming.host(slot),
                    "properties": wire.claimed({}, claim),
                }
                row = rows.insert(self.db, connection, self.naming, values)
            return rows.record_of(row)

    def claim(self, record: Record, claim: Claim) -> Record:
        """Claim a cleaned record, or renew a claim of the same incarnation, by compare-and-set.

        Raises StoreRefused for a record that holds anything else (U3) or names another pool (T3).
        """
        with self.db.writing(allots=True) as connection:
            return rows.record_of(self.claimed(connection, record, claim))

    def claimed(
        self, connection: sa.Connection, record: Record, claim: Claim, more: rows.Row = NOTHING
    ) -> rows.Row:
        """The row with that claim; `more` are other keys of its info that change with it."""
        row = rows.get_at(connection, record)
        held = rows.record_of(row)
        renewed = held.incarnation == claim.incarnation
        wire.refuse_unfit(held, claim, renewed=renewed)
        properties, info = rows.objects(row)
        if not renewed:
            info[wire.PING_SECRET] = rows.new_secret()
            info = wire.without_word(info) | dict(more)
        if claim.node_id is not None:
            # This replaces an id that an earlier ping named.
            info[wire.INSTANCE_ID] = claim.node_id
        values = {
            "properties": wire.claimed(properties, claim),
            **({} if renewed else {"drain": None}),
            "info": rows.with_secret(info),
            **rows.with_slot(connection, self.naming, row),
        }
        return rows.change(self.db, connection, row, values, sign_of_life=True)

    def clean(self, record: Record, reason: str) -> Record:
        """Free the record by compare-and-set (C12). Without a secret it takes no pings."""
        with self.db.writing() as connection:
            return rows.record_of(self.cleaned(connection, record, reason))

    def cleaned(self, connection: sa.Connection, record: Record, reason: str) -> rows.Row:
        """The freed row; its life is remembered, and a binding to a seat stays."""
        row = rows.get_at(connection, record)
        freed.remember(connection, row, self.db.now_ns(connection))
        pool = rows.record_of(row).pool
        properties, info = rows.objects(row)
        info.pop(wire.PING_SECRET, None)
        info |= {wire.INSTANCE_ID: None, wire.LAST_ACTION: reason}
        named = {} if pool is None else {wire.POOL: pool}
        values = {
            **wire.NOTHING_HELD,
            "drain": None,
            "properties": {**seats.kept(properties), **named},
            "info": info,
        }
        return rows.change(self.db, connection, row, values, sign_of_life=True)

    def restore(self, record: Record, before: Record) -> Record:
        """Restore the record by compare-and-set; its slot must still be free (U8).

        It does not get its address back where another record has it now.
        """
        if before.uuid != record.uuid:
            raise StoreRefused(f"record {record.uuid} can't become {before.uuid}")
        if before.ping_secret is None or before.problems:
            raise StoreRefused(f"the pre-image of record {record.uuid} is incomplete")
        assert before.ping_secret is not None
        with self.db.writing(allots=True) as connection:
            row = rows.get_at(connection, record)
            if rows.record_of(row).holds_anything:
                raise StoreRefused(f"record {record.uuid} holds something again")
            rows.refuse_taken(connection, before)
            values = rows.values_of(connection, before)
            row = rows.change(self.db, connection, row, values, sign_of_life=True)
            freed.forget(connection, record.uuid, before.ping_secret)
            return rows.record_of(row)

    def delete(self, record: Record) -> None:
        """Delete the record by compare-and-set (C12)."""
        with self.db.writing() as connection:
            row = rows.get_at(connection, record)
            held = rows.record_of(row)
            if held.holds_anything or held.problems:
                raise StoreRefused(f"record {record.uuid} holds something: it is not deleted")
            rows.delete(connection, record.uuid)

    def drain(self, record: Record, *, on: bool) -> Record:
        """Set or remove the order, by compare-and-set on incarnation and current order (D12)."""
        order = secrets.token_hex(8) if on else None
        with self.db.writing() as connection:
            row = rows.get(connection, record.uuid)
            held = rows.record_of(row)
            if held.incarnation != record.incarnation or held.drain != record.drain:
                raise Conflict(f"record {record.uuid} has another claim or another order")
            row = rows.tell_drain(connection, row, order)
            return rows.record_of(row)

    def late_pings(self) -> tuple[LatePing, ...]:
        with self.db.reading() as connection:
            return freed.late_pings(connection)

    def fence(self, record: Record) -> Record:
        return self._set_secret(record, rows.new_secret())

    def unfence(self, record: Record, ping_secret: str | None) -> Record | None:
        return None if ping_secret is None else self._set_secret(record, ping_secret)

    def _set_secret(self, record: Record, secret: str) -> Record:
        with self.db.writing() as connection:
            row = rows.get_at(connection, record)
            _, info = rows.objects(row)
            info[wire.PING_SECRET] = secret
            row = rows.change(self.db, connection, row, {"info": info})
            return rows.record_of(row)

    def ping_url(self, record: Record) -> str:
        return wire.ping_url(self.public_url, record)

    def probe(self) -> bool:
        """Ping an impossible uuid through the address that nodes use (D8).

        True only for this API's own answer: not for a proxy's 404, for a 503 of a registry that
        can't reach its database, or for an untrusted certificate.
        """
        try:
            with requests.Session() as session:
                # The environment's proxies are this machine's, not the nodes'.
                session.trust_env = False
                answer = session.post(
                    wire.ping_path(self.public_url, wire.nobody(self.naming.uuid_prefix)),
                    data={"ping_secret": "probe"},
                    timeout=min(self._timeout, _PROBE_TIMEOUT),
                    verify=self._ca_file or True,
                    allow_redirects=False,
                )
            body = answer.json()
        except (requests.RequestException, ValueError):
            return False
        return answer.status_code < 500 and isinstance(body, dict) and "errors" in body

    def close(self) -> None:
        self.db.close()


def _naming(slots: int, hostname: str, domain: str, uuid_prefix: str) -> rows.Naming:
    naming = rows.Naming(slots, hostname, domain, uuid_prefix)
    if slots < 1:
        raise StartError("[Registry] slots must be at least 1")
    try:
        distinct = naming.host(1) != naming.host(2)
    except (TypeError, ValueError, KeyError):
        distinct = False
    if not distinct:
        raise StartError("[Registry] hostname needs %(slot_number)d, once, to name each slot")
    if not wire.UUID.fullmatch(wire.nobody(uuid_prefix)):
        raise StartError("a uuid prefix is five of a-z and 0-9")
    return naming
