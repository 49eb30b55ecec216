"""The `nodes` resource that the registry's HTTP server offers; each operation is one transaction.

It follows the contract of the Arvados server 2.0 and answers with the administrator's view.
"""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nodemanager.errors import NoFreeSlot, NoSuchRecord, StoreRefused
from nodemanager.lib import foreign
from nodemanager.records import freed, rows, wire
from nodemanager.records.pings import (
    Ping,
    Pinged,
    WrongSecret,
    address_of,
    address_or_caller,
    answer_to,
    columns_of,
    is_first,
    word_or_none,
)
from nodemanager.records.query import ListQuery, plain_text, stored_time
from nodemanager.records.rows import Naming
from nodemanager.records.schema import nodes
from nodemanager.records.view import FIELDS, view
from nodemanager.sql.database import Database

# The check of attributes that a client writes to a record, before they reach the database.

_TEXTS = ("hostname", "domain", "job_uuid")
_TIMES = ("first_ping_at", "last_ping_at")
_OBJECTS = ("properties", "info")
_WRITABLE = frozenset({*_TEXTS, *_TIMES, *_OBJECTS, "uuid", "slot_number", "ip_address"})
_MAX_TEXT = 255
_MAX_SLOT = 2**31 - 1


def writable(attributes: Mapping[str, Any], naming: Naming) -> dict[str, Any]:
    """Column values for `attributes`; raises StoreRefused for an unknown name or a wrong type.

    Ignores attributes that only the server makes (href, etag, status, modified_at ...), since
    clients send back the whole record that they read.
    """
    values: dict[str, Any] = {}
    for name, value in attributes.items():
        if name not in FIELDS:
            raise StoreRefused(f"no attribute {name[:80]!r}")
        if name in _WRITABLE:
            values[name] = _checked(name, value, naming)
    return values


def _checked(name: str, value: Any, naming: Naming) -> Any:
    if name in _OBJECTS:
        return _object(name, value)
    if name == "uuid":
        return _uuid(value, naming)
    if value is None:
        return None
    if name == "slot_number":
        return _slot(value)
    if name in _TIMES:
        nanoseconds = stored_time(name, value)
        if nanoseconds < 0:
            raise StoreRefused(f"{name} is before 1970")
        return nanoseconds
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise StoreRefused(f"{name} must be a text of at most {_MAX_TEXT} characters")
    return _address(value) if name == "ip_address" else plain_text(name, value)


def _object(name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise StoreRefused(f"{name} must be an object")
    if foreign.is_deep(value):
        raise StoreRefused(f"{name} is nested deeper than {foreign.DEEPEST}")
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise StoreRefused(f"{name} can't be kept as JSON") from error
    secret = value.get(wire.PING_SECRET)
    if name == "info" and secret is not None and not isinstance(secret, str):
        raise StoreRefused("info.ping_secret must be text")
    return value


def _uuid(value: Any, naming: Naming) -> str:
    pattern = f"{naming.uuid_prefix}-7ekkf-"
    if not isinstance(value, str) or not wire.UUID.fullmatch(value):
        raise StoreRefused(f"uuid must be {pattern} and 15 of a-z and 0-9")
    if not value.startswith(pattern):
        raise StoreRefused(f"uuid must begin with {pattern}")
    return value


def _slot(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_SLOT:
        raise StoreRefused("slot_number must be a whole number from 0 up")
    return value


def _address(value: str) -> str:
    try:
        address = ipaddress.ip_address(value)
    except ValueError as error:
        raise StoreRefused("ip_address is not an address") from error
    if getattr(address, "scope_id", None) is not None:
        raise StoreRefused("ip_address has a scope, which means nothing elsewhere")
    return str(address)


_SOON_S = 1.0
KEEPS_ADDRESS_S = 300
"""A record that pinged within this many seconds keeps its address even if another claims it."""

Outcomes = list[Pinged | Exception | None]
"""For each ping its result or its error; None for one that must be handled alone."""


class NodesResource:
    """List, get, create, update, delete and ping, as dictionaries of the wire's shape.

    Raises NoSuchRecord (404), WrongSecret (401), NoFreeSlot, Conflict or StoreRefused (422), and
    any other StoreError when the database fails (503).
    """

    _columns_of = staticmethod(columns_of)

    def __init__(self, db: Database, naming: rows.Naming) -> None:
        self._db = db
        self._naming = naming

    def get(self, uuid: str) -> dict[str, Any]:
        with self._db.reading() as connection:
            row = rows.find(connection, uuid)
            if row is None:
                raise NoSuchRecord(f"no record {uuid}")
            return view(row, self._db.now_ns(connection))

    def list(self, query: ListQuery) -> dict[str, Any]:
        """One page, with `items_available` unless `count` is `none`."""
        conditions, (limit, offset) = query.conditions(), query.page()
        wanted = sa.select(nodes).where(*conditions).order_by(*query.ordering())
        shown, counts = query.shown(), query.counts()
        answer: dict[str, Any] = {"kind": "arvados#nodeList", "etag": "", "self_link": ""}
        answer |= {"offset": offset, "limit": limit}
        with self._db.reading() as connection:
            if counts:
                number = sa.select(sa.func.count()).select_from(nodes).where(*conditions)
                answer["items_available"] = connection.scalar(number)
            found = connection.execute(wanted.limit(limit).offset(offset))
            now = self._db.now_ns(connection)
            items = [view(row._asdict(), now) for row in found]
        answer["items"] = [{name: item[name] for name in shown} for item in items]
        return answer

    def create(self, attributes: Mapping[str, Any], *, assign_slot: bool = False) -> dict[str, Any]:
        values = writable(attributes, self._naming)
        with self._db.writing(allots=True) as connection:
            uuid = values.get("uuid")
            if uuid is not None and rows.find(connection, uuid) is not None:
                raise StoreRefused(f"there is a record {uuid} already")
            row = rows.insert(self._db, connection, self._naming, values)
            row, full = self._give_slot(connection, row) if assign_slot else (row, None)
            node = view(row, self._db.now_ns(connection))
        if full is not None:
            raise full
        return node

    def update(
        self, uuid: str, attributes: Mapping[str, Any], *, assign_slot: bool = False
    ) -> dict[str, Any]:
        """Write the attributes given; `properties` and `info` replace what was there."""
        values = writable(attributes, self._naming)
        if values.pop("uuid", uuid) != uuid:
            raise StoreRefused("a record keeps its uuid")
        if "info" in values:
            values["info"] = rows.with_secret(values["info"])
        with self._db.writing(allots=assign_slot or "slot_number" in values) as connection:
            row = rows.get(connection, uuid)
            row = rows.change(self._db, connection, row, values)
            row, full = self._give_slot(connection, row) if assign_slot else (row, None)
            node = view(row, self._db.now_ns(connection))
        if full is not None:
            raise full
        return node

    def delete(self, uuid: str) -> dict[str, Any]:
        with self._db.writing() as connection:
            row = rows.get(connection, uuid)
            rows.delete(connection, uuid)
            return view(row, self._db.now_ns(connection))

    def ping(self, ping: Ping) -> Pinged:
        """Take a ping, the sign of life of the node with the record's secret.

        Returns after the commit. Where no slot is free, writes the ping and then raises NoFreeSlot.
        A ping with the secret of a freed life is refused like any wrong secret, and remembered
        (U8).
        """
        try:
            return self._pinged(ping)
        except (WrongSecret, NoSuchRecord):
            self.remember_late(ping)
            raise

    def ping_all(self, pings: Sequence[Ping]) -> Outcomes:
        """Take `pings` of different records in one transaction; gives the result of each.

        None is for a ping that `ping` must handle alone: a first ping, one of a row that somebody
        is writing, or all of them where they can't be written together. For a WrongSecret the
        caller must call `remember_late`. Raises StoreError when the database fails.
        """
        begun = time.monotonic()
        try:
            return self._pinged_together(pings)
        except Exception:
            # One of the pings may be the cause, so each is tried alone; but don't wait again for a
            # database that hangs.
            if time.monotonic() - begun > _SOON_S:
                raise
            return [None] * len(pings)

    def _pinged_together(self, pings: Sequence[Ping]) -> Outcomes:
        outcomes: Outcomes = [None] * len(pings)
        changed: dict[int, tuple[rows.Row, dict[str, Any]]] = {}
        written: dict[int, rows.Row] = {}
        with self._db.writing() as connection:
            found = rows.find_unlocked(connection, [ping.uuid for ping in pings])
            now = self._db.now_ns(connection)
            for number, ping in enumerate(pings):
                row = found.get(ping.uuid)
                if row is None or is_first(row):
                    continue
                try:
                    changed[number] = (row, self._columns_of(row, ping))
                except StoreRefused as error:
                    # The traceback and this frame refer to each other, a cycle that only the
                    # garbage collector would free.
                    outcomes[number] = error.with_traceback(None)
                except Exception as error:
                    outcomes[number] = error
            if changed:
                after = rows.change_all(connection, list(changed.values()), now)
                written = dict(zip(changed, after, strict=True))
        for number, row in written.items():
            outcomes[number] = Pinged(answer_to(row, now))
        return outcomes

    def remember_late(self, ping: Ping) -> None:
        """Remember a ping with a wrong secret, if that was the secret of a freed life."""
        params = ping.params
        secret = word_or_none(params, "ping_secret")
        if not secret:
            return
        with self._db.reading() as connection:
            # Read first: clients that guess secrets must not keep the only writer busy.
            if not freed.is_known(connection, ping.uuid, secret):
                return
        instance = word_or_none(params, "instance_id") or word_or_none(params, "ec2_instance_id")
        address = address_or_caller(ping)
        with self._db.writing() as connection:
            now = self._db.now_ns(connection)
            freed.pinged(
                connection, ping.uuid, secret, now, instance_id=instance or None, address=address
            )

    def _pinged(self, ping: Ping) -> Pinged:
        uuid = ping.uuid
        with self._db.reading() as connection:
            # Read first: clients that guess uuids must not keep the only writer busy.
            if rows.find(connection, uuid) is None:
                raise NoSuchRecord(f"no record {uuid}")
        with self._db.writing() as connection:
            row = rows.find(connection, uuid)
            if row is None:
                raise NoSuchRecord(f"no record {uuid}")
            if is_first(row):
                # Taken before the row's own lock, so that two first pings can't deadlock.
                self._db.serialise(connection)
            row = rows.get(connection, uuid)
            values = self._columns_of(row, ping)
            values["last_ping_at"] = self._db.now_ns(connection)
            taken: list[str] = []
            if row["ip_address"] is None:
                address = address_of(ping)
                values["ip_address"] = address
                if row["first_ping_at"] is None:
                    values["first_ping_at"] = values["last_ping_at"]
                quiet_since = values["last_ping_at"] - KEEPS_ADDRESS_S * 10**9
                taken = rows.take_address(self._db, connection, uuid, address, quiet_since)
            row = rows.change(self._db, connection, row, values, sign_of_life=True)
            row, full = self._give_slot(connection, row)
            node = answer_to(row, self._db.now_ns(connection))
        if full is not None:
            raise full
        return Pinged(node, tuple(taken))

    def _give_slot(
        self, connection: sa.Connection, row: rows.Row
    ) -> tuple[rows.Row, NoFreeSlot | None]:
        """The row with a slot; or the unchanged row and the error to raise after the commit."""
        try:
            values = rows.with_slot(connection, self._naming, row)
        except NoFreeSlot as full:
            return row, full
        return rows.change(self._db, connection, row, values), None
