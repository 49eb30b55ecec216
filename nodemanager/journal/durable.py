"""The queries for what must outlive the process: intents, pre-images, holds, leftovers, values.

Each function is the body of one transaction; it converts rows to the dataclasses of `api`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from nodemanager import redact
from nodemanager.core.execute.leftovers import Entry, LedgerState
from nodemanager.core.execute.unacknowledged import Late
from nodemanager.core.model.world import FreedLife, Leftover, LeftoverKind, Record
from nodemanager.core.observe.store_clock import StoreClock, after_boot
from nodemanager.core.plan.snapshot import LateWrite
from nodemanager.core.safety.boot_loops import NONE, Loops, Streak
from nodemanager.core.safety.breaker import Breaker, Cause, opened
from nodemanager.journal.api import (
    PARKED_AFTER,
    Concluded,
    Hold,
    Intent,
    IntentKind,
    OpenIntent,
    PreImage,
)
from nodemanager.journal.codec import (
    codec_of,
    decoded,
    dump,
    known_part,
    load,
    to_text,
    without_secrets,
)
from nodemanager.journal.event import COLUMNS, Told, told_from
from nodemanager.journal.schema import holds, intents, kept, leftovers, pre_images, told

_ANY = codec_of(Any)
_LATE = codec_of(Mapping[str, LateWrite])
_IS_OPEN = intents.c.concluded_at.is_(None)
_WITH_PRE_IMAGE = sa.select(intents, pre_images.c.body).outerjoin(
    pre_images, pre_images.c.intent == intents.c.id
)
BREAKER = "breaker"
CLOCK = "store_clock"
LATE = "late_writes"
LOOPS = "boot_loops"


def write_intent(connection: sa.Connection, intent: Intent, now: float) -> None:
    """Write an intent; it replaces an open one with the same key, which is tried again."""
    open_one = connection.execute(
        sa.select(intents.c.id).where(intents.c.key == intent.key, _IS_OPEN)
    ).scalar()
    values: dict[str, Any] = {
        "kind": intent.kind.value,
        "plan_id": intent.plan_id,
        "record": intent.record,
        "node": intent.node,
        "details": to_text(_ANY.encode(without_secrets(intent.details))),
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
        "body": dump(record),
    }
    _put(connection, pre_images, values, ["intent"])


def _put(
    connection: sa.Connection, table: sa.Table, row: dict[str, Any], keys: list[str], **new: float
) -> None:
    """Write the row, in place of the one with the same keys; `new` are only for one without."""
    put = insert(table).values({**row, **new})
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
            result=to_text(_ANY.encode(without_secrets(details))),
        )
    )


def count_failure(connection: sa.Connection, key: str, error: str) -> OpenIntent | None:
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
) -> tuple[OpenIntent, ...]:
    rows = connection.execute(_WITH_PRE_IMAGE.where(_IS_OPEN, *where).order_by(intents.c.id))
    return tuple(
        OpenIntent(
            intent=_intent(row),
            opened_at=row.opened_at,
            failures=row.failures,
            parked=row.failures >= PARKED_AFTER,
            error=row.error,
        )
        for row in rows
    )


def newest(connection: sa.Connection, key: str) -> Intent | None:
    found = _WITH_PRE_IMAGE.where(intents.c.key == key).order_by(intents.c.id.desc()).limit(1)
    row = connection.execute(found).first()
    return None if row is None else _intent(row)


def concluded(connection: sa.Connection, id: str | None, since: float) -> tuple[Concluded, ...]:
    query = sa.select(intents, sa.null().label("body")).where(intents.c.concluded_at >= since)
    if id is not None:
        query = query.where(sa.or_(intents.c.record == id, intents.c.node == id))
    return tuple(
        Concluded(
            intent=_intent(row),
            opened_at=row.opened_at,
            concluded_at=row.concluded_at,
            outcome=row.outcome,
            details=_ANY.decode(json.loads(row.result)),
        )
        for row in connection.execute(query.order_by(intents.c.concluded_at, intents.c.id))
    )


def _intent(row: Any) -> Intent:
    return Intent(
        kind=IntentKind(row.kind),
        key=row.key,
        plan_id=row.plan_id,
        record=row.record,
        node=row.node,
        details=_ANY.decode(json.loads(row.details)),
        pre_image=None if row.body is None else load(Record, row.body),
    )


def find_pre_images(
    connection: sa.Connection, record: str | None, since: float
) -> tuple[PreImage, ...]:
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
        PreImage(
            # A restore can't use fields that only a newer program knows.
            record=known_part(Record, json.loads(row.body))[0],
            key=row.key,
            plan_id=row.plan_id,
            taken_at=row.taken_at,
            outcome=row.outcome,
            ended_at=row.concluded_at,
            reason=None if row.result is None else json.loads(row.result).get("reason"),
        )
        for row in rows
    )


def all_holds(connection: sa.Connection) -> tuple[Hold, ...]:
    rows = connection.execute(sa.select(holds).order_by(holds.c.at, holds.c.id))
    return tuple(Hold(row.id, row.reason, row.by, row.at) for row in rows)


def put_hold(connection: sa.Connection, hold: Hold) -> None:
    values = {"id": hold.id, "reason": hold.reason, "by": hold.by, "at": hold.at}
    _put(connection, holds, values, ["id"])


def drop_hold(connection: sa.Connection, id: str) -> bool:
    return connection.execute(sa.delete(holds).where(holds.c.id == id)).rowcount > 0


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
    values = {"name": name, "value": to_text(value), "at": now}
    _put(connection, kept, values, ["name"])


def moved_by(
    data: Mapping[str, Any], boot_id: str, boottime: float, passed_s: float = 0.0
) -> float:
    """Seconds to add to the CLOCK_BOOTTIME times in `data` for the clock of this boot.

    Nobody knows how long ago another boot kept `data`, because the wall clock may have been set
    since. So a time is as old now as it was then, and as far ahead: no wait ends too early, and
    none lasts longer than its own length. Only where a wait may end early `passed_s` is the time
    since then by the wall clock.
    """
    if boot_id and data["boot_id"] == boot_id:
        return 0.0
    kept_at: float = data["boottime"]
    return boottime - passed_s - kept_at


def breaker_data(breaker: Breaker, boot_id: str, boottime: float) -> dict[str, Any]:
    """The breaker, with the boot and the clock that its times refer to."""
    return {
        "breaker": codec_of(Breaker).encode(breaker),
        "boot_id": boot_id,
        "boottime": boottime,
    }


def breaker_from(data: Mapping[str, Any], boot_id: str, boottime: float) -> Breaker:
    """The breaker with its times converted to this boot's clock.

    A breaker that can't be read completely comes from a newer program: it is open until an operator
    resets it.
    """
    breaker: Breaker
    try:
        breaker, unknown = known_part(Breaker, data["breaker"])
        breaker = _moved(breaker, moved_by(data, boot_id, boottime))
    except (ValueError, KeyError, TypeError, AttributeError):
        breaker, unknown = Breaker(), ("breaker",)
    if not unknown:
        return breaker
    names = frozenset(unknown)
    return opened(breaker, Cause.UNREADABLE, names, boottime, {"count": len(names)})


def clock_data(clock: StoreClock, boot_id: str, boottime: float, wall: float) -> dict[str, Any]:
    """The store's clock, with the boot and the clocks that its times refer to."""
    return {
        "clock": codec_of(StoreClock).encode(clock),
        "boot_id": boot_id,
        "boottime": boottime,
        "wall": wall,
    }


def put_told(connection: sa.Connection, rows: Sequence[Told]) -> None:
    if rows:
        marks = ",".join("?" * len(COLUMNS))
        # Only our own column names and question marks are formatted in.
        statement = f"INSERT INTO told ({','.join(COLUMNS)}) VALUES ({marks})"  # noqa: S608
        values = [
            (*(getattr(one, name) for name in COLUMNS[:-1]), to_text(one.more)) for one in rows
        ]
        connection.exec_driver_sql(statement, values)


def last_told(connection: sa.Connection, events: Collection[str], about: str) -> tuple[Told, ...]:
    newest = (
        sa.select(sa.func.max(told.c.id)).where(told.c.event.in_(events)).group_by(told.c[about])
    )
    rows = connection.execute(
        sa.select(*(told.c[name] for name in COLUMNS)).where(told.c.id.in_(newest))
    )
    return tuple(told_from(row) for row in rows)


def clock_from(data: Mapping[str, Any], boot_id: str, boottime: float, wall: float) -> StoreClock:
    """The store's clock relative to this boot's clock, by our wall clock until it is read."""
    clock: StoreClock = decoded(StoreClock, data["clock"])
    if boot_id and data["boot_id"] == boot_id:
        return clock
    return after_boot(clock, -moved_by(data, boot_id, boottime, wall - data["wall"]))


def late_data(late: Late, boot_id: str, boottime: float) -> dict[str, Any]:
    """The late writes, with the boot and the clock that their times refer to."""
    return {"boot_id": boot_id, "boottime": boottime, "writes": _LATE.encode(late)}


def late_from(data: Mapping[str, Any], boot_id: str, boottime: float) -> Late:
    """The late writes with their times converted to this boot's clock."""
    late: Late = decoded(Mapping[str, LateWrite], data["writes"])
    by_s = moved_by(data, boot_id, boottime)
    return {
        uuid: LateWrite(one.at + by_s, None if one.clean_at is None else one.clean_at + by_s)
        for uuid, one in late.items()
    }


def loops_data(loops: Loops, boot_id: str, boottime: float, wall: float) -> dict[str, Any]:
    """The streaks of failed boots, with the boot and the clocks that their times refer to."""
    return {
        "loops": codec_of(Loops).encode(loops),
        "boot_id": boot_id,
        "boottime": boottime,
        "wall": wall,
    }


def loops_from(data: Mapping[str, Any], boot_id: str, boottime: float, wall: float) -> Loops:
    """The streaks with their times converted to this boot's clock; none where another version of
    this program wrote them.

    After a reboot our wall clock tells how much of a rest is over. Where it was set ahead the rest
    ends early, which costs the price of one more node and frees nothing.
    """
    try:
        loops: Loops = decoded(Loops, data["loops"])
        by_s = moved_by(data, boot_id, boottime, max(0.0, wall - data["wall"]))
    except (ValueError, KeyError):
        return NONE
    sizes = {name: _streak_moved(streak, by_s) for name, streak in loops.sizes.items()}
    return Loops(sizes, _streak_moved(loops.pool, by_s))


def _streak_moved(streak: Streak, by_s: float) -> Streak:
    return replace(streak, until=streak.until + by_s) if streak.rests else streak


def _moved(breaker: Breaker, by_s: float) -> Breaker:
    return replace(
        breaker,
        opened_at=breaker.opened_at + by_s if breaker.is_open else breaker.opened_at,
        denied={node_id: at + by_s for node_id, at in breaker.denied.items()},
        others=tuple(_moved(other, by_s) for other in breaker.others),
        looked_at=breaker.looked_at + by_s,
        told={key: _life_moved(life, by_s) for key, life in breaker.told.items()},
    )


def _life_moved(life: FreedLife, by_s: float) -> FreedLife:
    told_at = None if life.told_at is None else life.told_at + by_s
    return replace(life, freed_at=life.freed_at + by_s, told_at=told_at)
