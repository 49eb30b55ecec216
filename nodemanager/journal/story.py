"""The reader of logged events in a journal, a running daemon's or a copy.

`Story.news` gives the events since the last call, oldest first; the first call gives all.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nodemanager.core.explain.events import Group, grouped
from nodemanager.core.operate.naming import Thing, UnknownIdError, resolve
from nodemanager.journal.event import COLUMNS, LoggedEvent, event_of_row
from nodemanager.journal.opened import opened, reported_as_damage
from nodemanager.lib.logline import Json

_IS_NAMED = ":id IN (record, host, node, name, CAST(slot AS TEXT))"
# An id that an operator typed, whether or not it names anything.
_IS_TYPED = "event LIKE 'operator.%' AND json_extract(more, '$.id') = :id"
_LIVES = f"SELECT incarnation FROM logged WHERE {_IS_NAMED}"  # noqa: S608 - columns only
# Also a life's events from before its record, host or node was known.
_ABOUT = f" AND ({_IS_NAMED} OR {_IS_TYPED} OR host IS NULL AND incarnation IN ({_LIVES}))"


class Story:
    """Reads the events of the journal at `path` since `since` until `until` (epoch seconds).

    With `id`, any name of a record or node or the beginning of an id, it reads only the events of
    that and of its pair.
    """

    def __init__(
        self, path: Path, since: float = 0.0, id: str | None = None, until: float | None = None
    ) -> None:
        self.path = path
        self._since = since
        self._until = math.inf if until is None else until
        self._id = id
        self._seen: int | None = None

    def news(self) -> Iterator[LoggedEvent]:
        """The events since the last call. Raises JournalError, and UnknownIdError for an `id` that
        names nothing."""
        with opened(self.path) as connection, reported_as_damage(self.path):
            newest = connection.execute("SELECT max(id) FROM logged").fetchone()[0] or 0
            if self._seen is None and self._id is not None:
                self._id = _meant(connection, self._id)
            if self._seen is None or self._seen > newest:
                # This is the first call, or the file was replaced.
                self._seen = 0
            # Names of columns only; whatever was asked for is bound.
            while rows := connection.execute(
                f"SELECT id, {','.join(COLUMNS)} FROM logged WHERE id > :seen AND id <= :newest"  # noqa: S608
                f" AND at >= :since AND at <= :until{_ABOUT if self._id is not None else ''}"
                " ORDER BY id LIMIT :some",
                {
                    "seen": self._seen,
                    "newest": newest,
                    "since": self._since,
                    "until": self._until,
                    "id": self._id,
                    "some": AT_ONCE,
                },
            ).fetchall():
                for number, *row in rows:
                    self._seen = number
                    yield event_of_row(row)
            self._seen = newest


def lately(path: Path, since: float, *, until: float | None, id: str | None, quiet: bool) -> Json:
    """What happened then, in groups; `quiet` includes events that say that nothing was done."""
    groups = grouped(Story(path, since, id, until).news(), quiet=quiet)
    return {"since": since, "until": until, "groups": [group_json(one) for one in groups]}


def group_json(one: Group) -> Json:
    return {**asdict(one), "names": list(one.names)}


def _meant(connection: sqlite3.Connection, id: str) -> str:
    """`id` itself where it names anything, else the only id that begins with it."""
    if _is_any(connection, _IS_NAMED, id):
        return id
    try:
        return resolve(id, _things(connection)).id
    except UnknownIdError:
        if _is_any(connection, _IS_TYPED, id):
            return id
        raise


def _is_any(connection: sqlite3.Connection, condition: str, id: str) -> bool:
    # The condition is one of this file's own.
    found = connection.execute(f"SELECT 1 FROM logged WHERE {condition} LIMIT 1", {"id": id})  # noqa: S608
    return found.fetchone() is not None


def _things(connection: sqlite3.Connection) -> list[Thing]:
    rows = connection.execute(
        "SELECT DISTINCT record, node, host, slot, name FROM logged"
    ).fetchall()
    of_records = {row[1] for row in rows if row[0] is not None}
    return [
        Thing(record, node, True, *others)
        for record, node, *others in rows
        if record is not None or (node is not None and node not in of_records)
    ]


# The newest logged events of a journal.

AT_ONCE = 1000
"""Rows per query: an open transaction would keep the write-ahead log from shrinking."""
_TEXTS = ("event", "reason", "record", "host", "node", "name", "more")
_TEXT = " || ' ' || ".join(f"coalesce({one}, '')" for one in _TEXTS)
# Several values are separated by commas.
_ONE_OF = "instr(',' || :{0} || ',', ',' || {1} || ',') > 0"
_ASKED = {
    "about": f"instr(lower({_TEXT}), lower(:about)) > 0",
    "event": _ONE_OF.format("event", "event"),
    "reason": _ONE_OF.format("reason", "reason"),
    "level": _ONE_OF.format("level", "coalesce(json_extract(more, '$.level'), 'info')"),
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
    text that is in it; an `event`, `reason` or `level`, or several; of a `host`, `record` or
    `node`; a number `before` that; `since` and `until` a time, epoch seconds. Raises JournalError.
    """
    names = {f"no{number}": event for number, event in enumerate(sorted(without))}
    wanted = [f"event NOT IN ({','.join(f':{name}' for name in names)})"] if names else []
    where, given = _where(wanted, asked)
    # Names of columns and of parameters only; whatever was asked for is bound.
    query = f"SELECT id, {','.join(COLUMNS)} FROM logged{where} ORDER BY id DESC LIMIT :most"  # noqa: S608
    with opened(path) as connection, reported_as_damage(path):
        rows = connection.execute(query, {**names, **given, "most": most}).fetchall()
        return [(number, event_of_row(row)) for number, *row in rows]


def each_latest(path: Path, **asked: Any) -> Iterator[tuple[int, LoggedEvent]]:
    """All that `latest` would give, however many, read in pieces."""
    while rows := latest(path, AT_ONCE, **asked):
        yield from rows
        asked["before"] = rows[-1][0]


def count(path: Path, **asked: Any) -> int:
    where, given = _where([], asked)
    with opened(path) as connection, reported_as_damage(path):
        # As above.
        found = connection.execute(f"SELECT count(*) FROM logged{where}", given).fetchone()  # noqa: S608
        return int(found[0])


def _where(wanted: list[str], asked: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    given = {name: value for name, value in asked.items() if value is not None}
    wanted = [*wanted, *(_ASKED[name] for name in given)]
    return f" WHERE {' AND '.join(wanted)}" if wanted else "", given


# The names of records and nodes that a journal knows, for the completion of a typed word.

MOST = 20_000
"""The names of that many newest events are offered: a shell waits for them."""


def names_in(path: Path, beginning: str = "") -> frozenset[str]:
    """Uuids, hosts, slots, node ids and names of late events that begin with `beginning`.

    Raises JournalError.
    """
    newest = (
        "SELECT DISTINCT record, node, host, CAST(slot AS TEXT), name FROM"
        " (SELECT * FROM logged ORDER BY id DESC LIMIT ?)"
    )
    with opened(path) as connection, reported_as_damage(path):
        rows = connection.execute(newest, (MOST,)).fetchall()
    return frozenset(one for row in rows for one in row if one and one.startswith(beginning))
