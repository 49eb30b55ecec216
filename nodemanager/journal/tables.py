"""What happened, told from the journal's tables: intents and their outcomes, and leftovers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from nodemanager.core.reasons import Event, Reason
from nodemanager.core.telling import event_of_clean, event_of_create, event_of_destroy
from nodemanager.journal.api import IntentKind
from nodemanager.journal.happening import Happening

_COLUMNS = (
    "id, kind, plan_id, record, node, details, opened_at, error, outcome, concluded_at, result"
)
_REASONS = {reason.value: reason for reason in Reason}
_CREATES = frozenset({IntentKind.CREATE.value, IntentKind.CLAIM.value})


class Tables:
    """Tells each row once when it is there, and once when it has ended; nothing before `since`."""

    def __init__(self, since: float) -> None:
        self._since = since
        self._newest: int | None = None
        self._open: set[int] = set()
        self._leftovers: dict[tuple[str, str], bool] = {}

    def news(self, connection: sqlite3.Connection) -> Iterator[Happening]:
        """What the rows tell that was not told yet, in no order."""
        yield from self._intents(connection)
        yield from self._ledger(connection)

    def _intents(self, connection: sqlite3.Connection) -> Iterator[Happening]:
        for row in self._rows(connection):
            number, kind, plan, record, node, packed = row[:6]
            opened_at, error, outcome, concluded_at, result = row[6:]
            details = json.loads(packed)
            ended = {} if result is None else json.loads(result)
            order = details.get("order", {})
            why = _REASONS.get(details.get("reason") or order.get("reason"))
            whose: dict[str, Any] = {
                "record": record or ended.get("record"),
                "node": node or ended.get("node"),
                "slot": order.get("slot", ended.get("slot")),
                "host": order.get("hostname", ended.get("host")),
                "incarnation": order.get("incarnation", details.get("incarnation")),
                "plan": plan,
                "is_set_up": kind in _CREATES,
            }
            if number not in self._open and opened_at >= self._since:
                begun = _BEGUN.get(kind, Event.RECORD_CLEAN)
                more = {"action": kind, **_said(details, ("name", "size"))}
                yield Happening(opened_at, begun, why, more=more, **whose)
            self._open.add(number)
            if concluded_at is None:
                continue
            self._open.discard(number)
            skipped = _REASONS.get(outcome)
            more = {"action": kind, "outcome": outcome} | ({"error": error} if error else {})
            yield Happening(concluded_at, _ended(kind, outcome), skipped or why, more=more, **whose)

    def _rows(self, connection: sqlite3.Connection) -> list[Any]:
        if self._newest is None:
            where, values = (
                "opened_at >= ?1 OR concluded_at >= ?1 OR concluded_at IS NULL",
                [self._since],
            )
        else:
            marks = ",".join("?" * len(self._open))
            where, values = f"id > ? OR id IN ({marks})", [self._newest, *self._open]
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM intents WHERE {where} ORDER BY id",  # noqa: S608 - marks only
            values,
        ).fetchall()
        self._newest = max([self._newest or 0, *(row[0] for row in rows)])
        return rows

    def _ledger(self, connection: sqlite3.Connection) -> Iterator[Happening]:
        rows = connection.execute("SELECT kind, id, node, added_at, released_at FROM leftovers")
        for kind, id, node, added_at, released_at in rows.fetchall():
            more = {"leftover": id, "kind": kind}
            if (kind, id) not in self._leftovers:
                self._leftovers[kind, id] = False
                yield Happening(added_at, Event.LEFTOVER_ENTERED, node=node or None, more=more)
            if released_at is not None and not self._leftovers[kind, id]:
                self._leftovers[kind, id] = True
                yield Happening(released_at, Event.LEFTOVER_RELEASED, node=node or None, more=more)


_BEGUN = {
    **dict.fromkeys(_CREATES, Event.NODE_SETUP_STARTED),
    IntentKind.DESTROY.value: Event.NODE_SHUTDOWN_STARTED,
}


def _ended(kind: str, outcome: str) -> Event:
    if kind in _CREATES:
        return event_of_create(outcome)
    if kind == IntentKind.DESTROY.value:
        return event_of_destroy(outcome)
    return event_of_clean(outcome)


def _said(details: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: details[key] for key in keys if key in details}
