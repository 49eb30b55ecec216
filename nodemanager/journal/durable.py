"""The queries for what must outlive the process: intents, pre-images, leftovers, values.

Each function is the body of one transaction; it converts rows to the dataclasses of `api`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from nodemanager.core.model.world import Leftover, LeftoverKind, Record
from nodemanager.core.plan.leftovers import Entry, LedgerState
from nodemanager.errors import StartError
from nodemanager.journal import api, codec
from nodemanager.journal.event import COLUMNS, LoggedEvent, event_of_row
from nodemanager.journal.schema import about, intents, kept, leftovers, logged, pre_images
from nodemanager.lib import redact

_ANY = codec.codec_of(Any)
_IS_OPEN = intents.c.concluded_at.is_(None)
_WITH_PRE_IMAGE = sa.select(intents, pre_images.c.body).outerjoin(
    pre_images, pre_images.c.intent == intents.c.id
)


def check_owner(
    connection: sa.Connection, pool: str, now: float, *, name: str, option: str
) -> None:
    """Note in a new database whose it is. Raises StartError in another pool's.

    `name` and `option` are what the message calls it, and what gives it in the file.
    """
    found = connection.scalar(sa.select(about.c.pool))
    if found is None:
        row = {"id": 1, "pool": pool, "created_at": now, "tried_at": now}
        connection.execute(sa.insert(about).values(row))
    elif found != pool:
        raise StartError(
            f"{name} belongs to pool {found}, but this manager serves {pool}: give it a {option} "
            "of its own"
        )


def note_try(connection: sa.Connection, now: float) -> None:
    connection.execute(sa.update(about).values(tried_at=now))


def write_intent(connection: sa.Connection, intent: api.Intent, now: float) -> None:
    """Write an intent; it replaces an open one with the same key, which is tried again."""
    open_one = connection.execute(
        sa.select(intents.c.id).where(intents.c.key == intent.key, _IS_OPEN)
    ).scalar()
    values: dict[str, Any] = {
        "kind": intent.kind.value,
        "plan_id": intent.plan_id,
        "record": intent.record,
        "node": intent.node,
        "details": codec.to_text(_ANY.encode(codec.without_secrets(intent.details))),
    }
    if open_one is None:
        values |= {"key": intent.key, "opened_at": now, "failures": 0}
        enter = sa.insert(intents).values(values).returning(intents.c.id)
        open_one = connection.execute(enter).scalar_one()
    else:
        connection.execute(sa.update(intents).where(intents.c.id == open_one).values(values))
    if intent.pre_image is not None:
        _write_pre_image(connection, int(open_one), intent.pre_image, now)


def _write_pre_image(connection: sa.Connection, intent_id: int, record: Record, now: float) -> None:
    values = {
        "intent": intent_id,
        "record": record.uuid,
        "incarnation": record.incarnation,
        "taken_at": now,
        "body": codec.dump(record),
    }
    _put(connection, pre_images, values, ["intent"])


def _put(
    connection: sa.Connection, table: sa.Table, row: dict[str, Any], keys: list[str], **new: float
) -> None:
    """Write the row, in place of the one with the same keys; `new` are only for one without."""
    # Each dialect has an `insert` of its own for this, with the same methods.
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    put = dialect.insert(table).values({**row, **new})
    connection.execute(put.on_conflict_do_update(index_elements=keys, set_=row))


def conclude(
    connection: sa.Connection, key: str, outcome: str, details: Mapping[str, Any], now: float
) -> None:
    """Write the outcome of the open intent with that key, if there is one."""
    connection.execute(
        sa.update(intents)
        .where(intents.c.key == key, _IS_OPEN)
        .values(
            outcome=outcome,
            concluded_at=now,
            result=codec.to_text(_ANY.encode(codec.without_secrets(details))),
        )
    )


def count_failure(connection: sa.Connection, key: str, error: str) -> api.OpenIntent | None:
    """Count a failed recovery of the open intent with that key; gives it, or None."""
    connection.execute(
        sa.update(intents)
        .where(intents.c.key == key, _IS_OPEN)
        .values(failures=intents.c.failures + 1, error=error)
    )
    found = open_intents(connection, intents.c.key == key)
    return found[0] if found else None


def open_intents(
    connection: sa.Connection, *where: sa.ColumnElement[bool]
) -> tuple[api.OpenIntent, ...]:
    rows = connection.execute(_WITH_PRE_IMAGE.where(_IS_OPEN, *where).order_by(intents.c.id))
    return tuple(
        api.OpenIntent(
            intent=_intent(row),
            opened_at=row.opened_at,
            failures=row.failures,
            passed_over=row.failures >= api.PASSED_OVER_AFTER,
            error=row.error,
        )
        for row in rows
    )


def newest(connection: sa.Connection, key: str) -> api.Intent | None:
    found = _WITH_PRE_IMAGE.where(intents.c.key == key).order_by(intents.c.id.desc()).limit(1)
    row = connection.execute(found).first()
    return None if row is None else _intent(row)


def concluded(connection: sa.Connection, id: str | None, since: float) -> tuple[api.Concluded, ...]:
    query = sa.select(intents, sa.null().label("body")).where(intents.c.concluded_at >= since)
    if id is not None:
        query = query.where(sa.or_(intents.c.record == id, intents.c.node == id))
    return tuple(
        api.Concluded(
            intent=_intent(row),
            opened_at=row.opened_at,
            concluded_at=row.concluded_at,
            outcome=row.outcome,
            details=codec.load_any(row.result),
        )
        for row in connection.execute(query.order_by(intents.c.concluded_at, intents.c.id))
    )


def _intent(row: Any) -> api.Intent:
    return api.Intent(
        kind=api.IntentKind(row.kind),
        key=row.key,
        plan_id=row.plan_id,
        record=row.record,
        node=row.node,
        details=codec.load_any(row.details),
        pre_image=None if row.body is None else codec.load(Record, row.body),
    )


def find_pre_images(
    connection: sa.Connection, record: str | None, since: float
) -> tuple[api.PreImage, ...]:
    query = sa.select(
        pre_images,
        intents.c.key,
        intents.c.plan_id,
        intents.c.outcome,
        intents.c.concluded_at,
        intents.c.result,
    ).join(intents, intents.c.id == pre_images.c.intent)
    if record is not None:
        query = query.where(pre_images.c.record == record)
    if since:
        query = query.where(pre_images.c.taken_at >= since)
    rows = connection.execute(query.order_by(pre_images.c.intent.desc()))
    return tuple(
        api.PreImage(
            record=codec.decoded(Record, json.loads(row.body)),
            key=row.key,
            plan_id=row.plan_id,
            taken_at=row.taken_at,
            outcome=row.outcome,
            ended_at=row.concluded_at,
            reason=None if row.result is None else codec.load_any(row.result).get("reason"),
        )
        for row in rows
    )


def all_leftovers(connection: sa.Connection, *, released: bool) -> tuple[Entry, ...]:
    table = leftovers.c
    query = sa.select(leftovers).order_by(table.added_at, table.node, table.order, table.id)
    if not released:
        query = query.where(table.released_at.is_(None))
    return tuple(_entry(row) for row in connection.execute(query))


def _entry(row: sa.Row[Any]) -> Entry:
    leftover = Leftover(LeftoverKind(row.kind), row.id, row.node, row.tagged)
    if row.released_at is not None:
        state = LedgerState.RELEASED
    elif row.error is not None:
        state = LedgerState.FAILED
    else:
        state = LedgerState.RELEASING if row.attempts else LedgerState.WAITING
    return Entry(leftover, state, row.not_before, row.attempts, row.error)


def put_leftovers(connection: sa.Connection, entries: Sequence[Entry], wall: float) -> None:
    """Write entries; a known one keeps its time of entry."""
    for entry in entries:
        leftover = entry.leftover
        values = {
            "kind": leftover.kind.value,
            "id": leftover.id,
            "node": leftover.node_id,
            "order": leftover.order,
            "attempts": entry.attempts,
            "not_before": entry.not_before,
            "error": None if entry.last_error is None else redact.text(entry.last_error),
            "released_at": wall if entry.state is LedgerState.RELEASED else None,
            "tagged": leftover.tagged,
        }
        _put(connection, leftovers, values, ["kind", "id"], added_at=wall)


def drop_leftovers(connection: sa.Connection, dropped: Sequence[Leftover]) -> None:
    table = leftovers.c
    for one in dropped:
        these = (table.kind == one.kind.value) & (table.id == one.id)
        connection.execute(sa.delete(leftovers).where(these))


def recall(connection: sa.Connection, name: str) -> Any:
    text = connection.execute(sa.select(kept.c.value).where(kept.c.name == name)).scalar()
    return None if text is None else json.loads(text)


def remember(connection: sa.Connection, name: str, value: Any, now: float) -> None:
    if value is None:
        connection.execute(sa.delete(kept).where(kept.c.name == name))
        return
    values = {"name": name, "value": codec.to_text(value), "at": now}
    _put(connection, kept, values, ["name"])


def put_events(connection: sa.Connection, rows: Sequence[LoggedEvent]) -> None:
    if rows:
        marks = ",".join("?" * len(COLUMNS))
        # Only our own column names and question marks are formatted in.
        statement = f"INSERT INTO logged ({','.join(COLUMNS)}) VALUES ({marks})"  # noqa: S608
        values = [
            (*(getattr(one, name) for name in COLUMNS[:-1]), codec.to_text(one.more))
            for one in rows
        ]
        connection.exec_driver_sql(statement, values)


def last_logged(
    connection: sa.Connection, events: Collection[str], about: str
) -> tuple[LoggedEvent, ...]:
    newest = (
        sa.select(sa.func.max(logged.c.id))
        .where(logged.c.event.in_(events))
        .group_by(logged.c[about])
    )
    rows = connection.execute(
        sa.select(*(logged.c[name] for name in COLUMNS)).where(logged.c.id.in_(newest))
    )
    return tuple(event_of_row(row) for row in rows)
