"""The rows of the `nodes` table: read, insert, change, allot a slot; contains every SQL write.

Each function runs inside the caller's transaction.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nodemanager.core.model.world import Record
from nodemanager.errors import Conflict, NoFreeSlot, NoSuchRecord, SlotTaken, StoreRefused
from nodemanager.records import seats, wire
from nodemanager.records.schema import decoded, nodes
from nodemanager.records.view import crunch_worker_state
from nodemanager.sql.database import Database

Row = Mapping[str, Any]
_COLUMNS = tuple(column.name for column in nodes.columns)
# Statements of every ping are text, since SQLAlchemy would take longer to compile than to run them.
_UNLOCKED = f"SELECT {', '.join(_COLUMNS)} FROM nodes WHERE uuid IN (%s) ORDER BY uuid"  # noqa: S608
_SIGN = (
    "UPDATE nodes SET last_ping_at = %s, modified_at = %s, version = %s"
    " WHERE uuid = %s AND version = %s"
)
_BASE36 = string.digits + string.ascii_lowercase
JSON = ("properties", "info")


@dataclass(frozen=True, slots=True)
class Naming:
    """The slots (1 to `slots`) and the names made from them that the store gives to records."""

    slots: int
    hostname: str
    domain: str
    uuid_prefix: str

    def host(self, slot: int) -> str:
        return self.hostname % {"slot_number": slot}


def new_secret() -> str:
    """A new ping secret of 192 random bits."""
    return secrets.token_urlsafe(24)


def record_of(row: Row) -> Record:
    """The row as the manager's Record; its `problems` name unreadable fields."""
    version = row["version"]
    readable = isinstance(version, int)
    fields = {**row, "crunch_worker_state": crunch_worker_state(row)}
    return wire.read(fields, version=str(version) if readable else "", when=_epoch)


def _epoch(nanoseconds: Any) -> float:
    if not isinstance(nanoseconds, int):
        raise TypeError("a time is whole nanoseconds")
    return wire.epoch(nanoseconds)


def find(connection: sa.Connection, uuid: str, *, to_write: bool = False) -> Row | None:
    """The row of that uuid; `to_write` locks it against other writers."""
    query = sa.select(nodes).where(nodes.c.uuid == uuid)
    if to_write:
        query = query.with_for_update()
    return _only(connection, query)


def find_unlocked(connection: sa.Connection, uuids: Sequence[str]) -> dict[str, Row]:
    """The rows of those uuids, locked against other writers; without those already locked."""
    # The last uuid is repeated to get one of few lengths, so that the driver can reuse prepared
    # statements.
    length = 1 << (len(uuids) - 1).bit_length()
    given = [*uuids, *[uuids[-1]] * (length - len(uuids))]
    text = _UNLOCKED % ", ".join(["%s"] * length)
    if not _is_sqlite(connection):
        text += " FOR UPDATE SKIP LOCKED"
    with _cursor(connection) as cursor:
        cursor.execute(_marked(connection, text), given)
        return {found[0]: _row(found) for found in cursor.fetchall()}


def _row(found: Sequence[Any]) -> dict[str, Any]:
    row = dict(zip(_COLUMNS, found, strict=True))
    for name in JSON:
        row[name] = decoded(row[name])
    return row


def _cursor(connection: sa.Connection) -> contextlib.closing[Any]:
    """The driver's own cursor, in the connection's transaction; it raises the driver's errors."""
    return contextlib.closing(connection.connection.cursor())


def _marked(connection: sa.Connection, text: str) -> str:
    return text.replace("%s", "?") if _is_sqlite(connection) else text


def _is_sqlite(connection: sa.Connection) -> bool:
    return connection.dialect.name == "sqlite"


def get(connection: sa.Connection, uuid: str) -> Row:
    """The row of that uuid, locked to write; raises NoSuchRecord when there is none."""
    row = find(connection, uuid, to_write=True)
    if row is None:
        raise NoSuchRecord(f"no record {uuid}")
    return row


def get_at(connection: sa.Connection, record: Record) -> Row:
    """The row of `record`, locked to write, if it still has `record.version`; else raises
    Conflict."""
    row = get(connection, record.uuid)
    if str(row["version"]) != record.version:
        raise Conflict(f"record {record.uuid} is at version {row['version']}, not {record.version}")
    return row


def all_to_write(connection: sa.Connection) -> list[dict[str, Any]]:
    query = sa.select(nodes).order_by(nodes.c.uuid).with_for_update()
    return [row._asdict() for row in connection.execute(query)]


def find_incarnation(connection: sa.Connection, incarnation: str) -> Row | None:
    query = sa.select(nodes).where(nodes.c.incarnation == incarnation).limit(1)
    return _only(connection, query)


def insert(db: Database, connection: sa.Connection, naming: Naming, values: Row) -> Row:
    """Insert a row with `values`, and with a new ping secret unless they have one."""
    now = db.now_ns(connection)
    row: dict[str, Any] = {column.name: None for column in nodes.columns}
    row |= {"uuid": _new_uuid(naming.uuid_prefix), "domain": naming.domain, "properties": {}}
    row |= {"info": {}} | dict(values)
    row |= {"version": 1, "created_at": now, "modified_at": now}
    row["info"] = with_secret(row["info"])
    row["incarnation"] = _incarnation(row["properties"])
    connection.execute(sa.insert(nodes).values(row))
    return row


def change(
    db: Database, connection: sa.Connection, row: Row, values: Row, *, sign_of_life: bool = False
) -> Row:
    """Write the `values` that differ from `row`; raises Conflict if the row has changed since.

    The version changes with every change and every sign of life, modified_at only with a field.
    """
    changed = {name: value for name, value in values.items() if not _same(name, row, value)}
    if not changed and not sign_of_life:
        return row
    if changed:
        changed["modified_at"] = db.now_ns(connection)
    if "properties" in changed:
        changed["incarnation"] = _incarnation(changed["properties"])
    version = version_of(row)
    changed["version"] = version + 1
    done = connection.execute(
        sa.update(nodes)
        .where(nodes.c.uuid == row["uuid"], nodes.c.version == version)
        .values(changed)
    )
    if done.rowcount != 1:
        raise Conflict(f"record {row['uuid']} is no longer at version {version}")
    return {**row, **changed}


def tell_drain(connection: sa.Connection, row: Row, order: str | None) -> Row:
    """Set the order for the answers to pings, or remove it; the version stays the same (D12)."""
    connection.execute(sa.update(nodes).where(nodes.c.uuid == row["uuid"]).values({"drain": order}))
    return {**row, "drain": order}


def change_all(
    connection: sa.Connection, changes: Sequence[tuple[Row, Row]], now_ns: int
) -> list[Row]:
    """Write many signs of life at `now_ns`, given as rows with their new values.

    Does what `change` does, with a single statement for all rows whose JSON stays the same.
    """
    after: list[Row] = []
    steady: list[tuple[Any, ...]] = []
    for row, values in changes:
        changed = {name: value for name, value in values.items() if not _same(name, row, value)}
        uuid, version = row["uuid"], version_of(row)
        signs = {"last_ping_at": now_ns, "modified_at": now_ns, "version": version + 1}
        after.append({**row, **changed, **signs})
        if not changed:
            steady.append((*signs.values(), uuid, version))
            continue
        if "properties" in changed:
            changed["incarnation"] = _incarnation(changed["properties"])
        at = (nodes.c.uuid == uuid, nodes.c.version == version)
        done = connection.execute(sa.update(nodes).where(*at).values({**changed, **signs}))
        _check_written(done.rowcount, 1)
    if steady:
        with _cursor(connection) as cursor:
            cursor.executemany(_marked(connection, _SIGN), steady)
            _check_written(cursor.rowcount, len(steady))
    return after


def version_of(row: Row) -> int:
    """The row's version; raises StoreRefused for a row without a valid one."""
    version = row["version"]
    if not isinstance(version, int):
        raise StoreRefused(f"record {row['uuid']} has no valid version")
    return version


def _check_written(written: int, expected: int) -> None:
    if written != expected:
        raise Conflict("a record no longer has the version that was read")


def _only(connection: sa.Connection, query: sa.Select[Any]) -> Row | None:
    row = connection.execute(query).one_or_none()
    return None if row is None else row._asdict()


def delete(connection: sa.Connection, uuid: str) -> None:
    connection.execute(sa.delete(nodes).where(nodes.c.uuid == uuid))


def take_address(
    db: Database, connection: sa.Connection, uuid: str, address: str, quiet_since_ns: int
) -> list[str]:
    """Take `address` from every record but `uuid` that has not pinged since `quiet_since_ns`.

    Gives the uuids of the records that lost it. A record that pings keeps its address, because a
    node may name any address as its own.
    """
    pinging = nodes.c.last_ping_at > quiet_since_ns
    query = (
        sa.select(nodes)
        .where(nodes.c.ip_address == address, nodes.c.uuid != uuid)
        .where(nodes.c.last_ping_at.is_(None) | ~pinging)
        .order_by(nodes.c.uuid)
        .with_for_update()
    )
    others = [row._asdict() for row in connection.execute(query)]
    for other in others:
        change(db, connection, other, {"ip_address": None})
    return [str(other["uuid"]) for other in others]


def free_slot(connection: sa.Connection, naming: Naming) -> int:
    """The smallest free slot of 1..slots. Only inside a transaction that allots.

    Raises NoFreeSlot. It is one statement, because cleans don't wait for transactions that allot: a
    clean between two statements could hide the slots above the one that it freed.
    """
    above = nodes.alias("above")
    taken = sa.exists().where(above.c.slot_number == nodes.c.slot_number + 1)
    gap = (
        sa.select(nodes.c.slot_number + 1)
        .where(nodes.c.slot_number >= 1, nodes.c.slot_number < naming.slots, ~taken)
        .order_by(nodes.c.slot_number)
        .limit(1)
    )
    first_taken = sa.exists().where(nodes.c.slot_number == 1)
    query = sa.select(sa.case((~first_taken, 1), else_=gap.scalar_subquery()))
    slot = connection.scalar(query)
    if slot is None:
        raise NoFreeSlot(f"all {naming.slots} slots are held")
    return int(slot)


def refuse_taken(connection: sa.Connection, before: Record) -> None:
    """Raise SlotTaken when another record holds the slot of `before`."""
    if before.slot_number is None:
        return
    query = sa.select(nodes.c.uuid).where(
        nodes.c.slot_number == before.slot_number, nodes.c.uuid != before.uuid
    )
    holder = connection.scalar(query)
    if holder is not None:
        raise SlotTaken(f"slot {before.slot_number} now belongs to record {holder}")


def values_of(connection: sa.Connection, before: Record) -> dict[str, Any]:
    """The columns that restore a freed row to `before`, with its secret.

    The address is left out where another record has it now.
    """
    taken = sa.select(nodes.c.uuid).where(
        nodes.c.ip_address == before.ip_address, nodes.c.uuid != before.uuid
    )
    borne = before.ip_address is not None and connection.scalar(taken) is not None
    return {
        "slot_number": before.slot_number,
        "hostname": before.hostname,
        "ip_address": None if borne else before.ip_address,
        "first_ping_at": _nanoseconds(before.first_ping_at),
        "last_ping_at": _nanoseconds(before.last_ping_at),
        # A destroy that was sent for a drained node may still take effect: no job may begin (D12).
        "drain": before.drain,
        "properties": dict(before.properties),
        "info": {**before.info, wire.PING_SECRET: before.ping_secret},
    }


def _nanoseconds(seconds: float | None) -> int | None:
    """Nanoseconds, rounded to microseconds, which is a float's precision."""
    return None if seconds is None else round(seconds * 1e6) * 1000


def with_slot(connection: sa.Connection, naming: Naming, row: Row) -> dict[str, Any]:
    """The columns that give the row a slot, and a hostname if it has none; empty if it has a
    slot. A row that is bound to a seat gets that one's."""
    held = row["slot_number"]
    if held is not None and (not isinstance(held, int) or held > 0):
        return {}
    own = seats.own_slot(row)
    if own is not None:
        return {"slot_number": own[0], "hostname": own[1]}
    slot = free_slot(connection, naming)
    named = row["hostname"] is not None
    return {"slot_number": slot} if named else {"slot_number": slot, "hostname": naming.host(slot)}


def objects(row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Copies of properties and info; empty where the row has no object there."""
    properties, info = row["properties"], row["info"]
    return (
        dict(properties) if isinstance(properties, dict) else {},
        dict(info) if isinstance(info, dict) else {},
    )


def with_secret(info: Mapping[str, Any]) -> dict[str, Any]:
    """`info` with a new ping secret if it has none."""
    given = info.get(wire.PING_SECRET)
    return dict(info) if given else {**info, wire.PING_SECRET: new_secret()}


def _same(name: str, row: Row, value: Any) -> bool:
    if name in JSON and isinstance(row[name], dict):
        return _same_json(row[name], value)
    return bool(row[name] == value)


def _same_json(old: dict[str, Any], new: Any) -> bool:
    if not isinstance(new, dict) or old.keys() != new.keys():
        return False
    for key, before in old.items():
        now = new[key]
        if before is now or (isinstance(before, str) and isinstance(now, str) and before == now):
            continue
        # Python calls 1, 1.0 and True equal; JSON does not.
        if json.dumps(before, sort_keys=True) != json.dumps(now, sort_keys=True):
            return False
    return True


def _incarnation(properties: Any) -> str | None:
    claim = _claim(properties)
    return None if claim is None else str(claim["incarnation"])


def own_node(properties: Any) -> str | None:
    """The node id that the record's claim names, or None (P1a)."""
    claim = _claim(properties)
    return None if claim is None else claim.get("node_id") or None


def _claim(properties: Any) -> dict[str, Any] | None:
    try:
        return wire.checked_claim(properties.get(wire.CLAIM))
    except ValueError:
        return None


def _new_uuid(prefix: str) -> str:
    return f"{prefix}-7ekkf-" + "".join(secrets.choice(_BASE36) for _ in range(15))
