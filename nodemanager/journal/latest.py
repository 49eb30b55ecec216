"""The newest logged events of a journal."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from nodemanager.journal.event import COLUMNS, LoggedEvent, told_from
from nodemanager.journal.opened import opened, told_as_damage

AT_ONCE = 1000
"""Rows per query: an open transaction would keep the write-ahead log from shrinking."""
_ASKED = {
    "about": "(:about IN (record, host, node, name, CAST(slot AS TEXT)) OR event = :about"
    " OR reason = :about)",
    "event": "event = :event",
    "host": "host = :host",
    "record": "record = :record",
    "node": "node = :node",
    "before": "id < :before",
    "since": "at >= :since",
    "until": "at <= :until",
}


def latest(
    path: Path, most: int, *, without: Collection[str] = (), **asked: Any
) -> list[tuple[int, LoggedEvent]]:
    """The newest events with their numbers in the journal, the newest first.

    Leaves out the events `without`. `asked` are conditions, where they are not None: `about` a
    name, event or reason code; an `event`; of a `host`, `record` or `node`; a number `before` that;
    `since` and `until` a time, epoch seconds. Raises JournalError.
    """
    names = {f"no{number}": event for number, event in enumerate(sorted(without))}
    wanted = [f"event NOT IN ({','.join(f':{name}' for name in names)})"] if names else []
    where, given = _where(wanted, asked)
    # Names of columns and of parameters only; whatever was asked for is bound.
    query = f"SELECT id, {','.join(COLUMNS)} FROM told{where} ORDER BY id DESC LIMIT :most"  # noqa: S608
    with opened(path) as connection, told_as_damage(path):
        rows = connection.execute(query, {**names, **given, "most": most}).fetchall()
        return [(number, told_from(row)) for number, *row in rows]


def each_latest(path: Path, **asked: Any) -> Iterator[tuple[int, LoggedEvent]]:
    """All that `latest` would give, however many, read in pieces."""
    while rows := latest(path, AT_ONCE, **asked):
        yield from rows
        asked["before"] = rows[-1][0]


def count(path: Path, **asked: Any) -> int:
    """How many such events there are."""
    where, given = _where([], asked)
    with opened(path) as connection, told_as_damage(path):
        # As above.
        found = connection.execute(f"SELECT count(*) FROM told{where}", given).fetchone()  # noqa: S608
        return int(found[0])


def _where(wanted: list[str], asked: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    given = {name: value for name, value in asked.items() if value is not None}
    wanted = [*wanted, *(_ASKED[name] for name in given)]
    return f" WHERE {' AND '.join(wanted)}" if wanted else "", given
