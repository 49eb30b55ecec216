"""The `nodes` resource as the HTTP face serves it: each operation one transaction.

The contract is that of the Arvados server, 2.0 era; what is answered is the administrator's view.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nodemanager.errors import NoFreeSlot, NoSuchRecord, StoreRefused
from nodemanager.records import freed, rows, wire
from nodemanager.records.attributes import writable
from nodemanager.records.database import Database
from nodemanager.records.query import ListQuery
from nodemanager.records.schema import nodes
from nodemanager.records.view import view

_TOTALS = ("total_cpu_cores", "total_ram_mb", "total_scratch_mb")
_LEADING_NUMBER = re.compile(r"\s*(\d{1,15})")
_MAX_WORD = 255


class WrongSecret(StoreRefused):
    """A ping that does not bear the record's secret."""


@dataclass(frozen=True, slots=True)
class Pinged:
    """What a ping did. `taken_from` lists the records that lost their address to this one."""

    node: dict[str, Any]
    taken_from: tuple[str, ...] = ()


class NodesResource:
    """List, get, create, update, delete and ping, as dictionaries of the wire's shape.

    Raises NoSuchRecord (404), WrongSecret (401), NoFreeSlot, Conflict or StoreRefused (422), and
    any other StoreError when the database fails (503).
    """

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
        """One page, with `items_available` unless count is none."""
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

    def ping(self, uuid: str, params: Mapping[str, Any], caller: str) -> Pinged:
        """A sign of life from the node that bears the record's secret.

        `caller` is the address it came from. The answer follows the commit. With no slot free
        what it told is kept all the same, and NoFreeSlot raised. One with the secret of a life
        that was freed is refused like any other wrong one, and remembered (U8).
        """
        try:
            return self._pinged(uuid, params, caller)
        except (WrongSecret, NoSuchRecord):
            self._remember_late(uuid, params, caller)
            raise

    def _remember_late(self, uuid: str, params: Mapping[str, Any], caller: str) -> None:
        secret = _word_or_none(params, "ping_secret")
        if not secret:
            return
        with self._db.reading() as connection:
            # Whoever guesses secrets must not keep the one writer busy.
            if not freed.is_known(connection, uuid, secret):
                return
        instance = _word_or_none(params, "instance_id") or _word_or_none(params, "ec2_instance_id")
        address = _word_or_none(params, "local_ipv4") or caller
        with self._db.writing() as connection:
            now = self._db.now_ns(connection)
            freed.pinged(
                connection, uuid, secret, now, instance_id=instance or None, address=address
            )

    def _pinged(self, uuid: str, params: Mapping[str, Any], caller: str) -> Pinged:
        with self._db.writing() as connection:
            row = rows.find(connection, uuid)
            if row is None:
                raise NoSuchRecord(f"no record {uuid}")
            if row["ip_address"] is None or not row["slot_number"]:
                # Before the row's own lock, so that two first pings can't wait for each other.
                self._db.serialise(connection)
            row = rows.get(connection, uuid)
            self._check_secret(row, _word(params, "ping_secret"))
            values = self._told(row, params)
            values["last_ping_at"] = self._db.now_ns(connection)
            taken: list[str] = []
            if row["ip_address"] is None:
                address = _address(_word(params, "local_ipv4") or caller)
                values |= {"ip_address": address, "first_ping_at": values["last_ping_at"]}
                taken = rows.take_address(self._db, connection, uuid, address)
            row = rows.change(self._db, connection, row, values, sign_of_life=True)
            row, full = self._give_slot(connection, row)
            node = view(row, self._db.now_ns(connection))
        if full is not None:
            raise full
        return Pinged(node, tuple(taken))

    def _give_slot(
        self, connection: sa.Connection, row: rows.Row
    ) -> tuple[rows.Row, NoFreeSlot | None]:
        """The row with a slot, or as it is with the refusal to raise once it is saved."""
        try:
            values = rows.with_slot(connection, self._naming, row)
        except NoFreeSlot as full:
            return row, full
        return rows.change(self._db, connection, row, values), None

    @staticmethod
    def _check_secret(row: rows.Row, given: str | None) -> None:
        if not given:
            raise StoreRefused("a ping needs its ping_secret")
        _, info = rows.objects(row)
        secret = info.get(wire.PING_SECRET)
        known = secret if isinstance(secret, str) else ""
        if not known or not hmac.compare_digest(_bytes(known), _bytes(given)):
            raise WrongSecret("this is not the record's ping_secret")

    @staticmethod
    def _told(row: rows.Row, params: Mapping[str, Any]) -> dict[str, Any]:
        """What a ping says in info and properties; our own keys there stay."""
        properties, info = rows.objects(row)
        instance = _word(params, "instance_id") or _word(params, "ec2_instance_id")
        if instance:
            known = info.setdefault(wire.INSTANCE_ID, None)
            if known is not None and known != instance:
                raise StoreRefused("another instance_id pinged this record before")
            info[wire.INSTANCE_ID] = instance
        state = _word(params, "worker_state")
        if state and state.strip():
            info[wire.WORKER_STATE] = state.strip().lower()
        else:
            info.pop(wire.WORKER_STATE, None)
        for name in _TOTALS:
            number = _LEADING_NUMBER.match(_word(params, name) or "")
            if number is None:
                properties.pop(name, None)
            else:
                properties[name] = int(number[1])
        return {"info": info, "properties": properties}


def _word(params: Mapping[str, Any], name: str) -> str | None:
    """A parameter as text; JSON bodies may bring numbers."""
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise StoreRefused(f"{name} must be text")
    text = str(value)
    if len(text) > _MAX_WORD or not text.isprintable():
        raise StoreRefused(f"{name} is not a plain short text")
    return text


def _word_or_none(params: Mapping[str, Any], name: str) -> str | None:
    """The same, where a value that can't be used is no reason to refuse."""
    try:
        return _word(params, name)
    except StoreRefused:
        return None


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _address(text: str) -> str:
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError as error:
        raise StoreRefused("local_ipv4 is not an address") from error
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
