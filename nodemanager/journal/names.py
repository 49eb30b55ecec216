"""The names of records and nodes that a journal knows, for the completion of a typed word."""

from __future__ import annotations

from pathlib import Path

from nodemanager.journal.opened import opened, told_as_damage

MOST = 20_000
"""The names of that many newest events are offered: a shell waits for them."""


def names_in(path: Path, beginning: str = "") -> frozenset[str]:
    """Uuids, hosts, slots, node ids and names of late events that begin with `beginning`.

    Raises JournalError.
    """
    newest = (
        "SELECT DISTINCT record, node, host, CAST(slot AS TEXT), name FROM"
        " (SELECT * FROM told ORDER BY id DESC LIMIT ?)"
    )
    with opened(path) as connection, told_as_damage(path):
        rows = connection.execute(newest, (MOST,)).fetchall()
    return frozenset(one for row in rows for one in row if one and one.startswith(beginning))
