"""The newest logged events of a journal."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from nodemanager.journal.event import COLUMNS, LoggedEvent, told_from
from nodemanager.journal.opened import opened, told_as_damage

_IS_ABOUT = "(:about IN (record, host, node, name, CAST(slot AS TEXT)) OR event = :about"
_IS_ABOUT += " OR reason = :about)"


def latest(
    path: Path,
    most: int,
    *,
    without: Collection[str] = (),
    about: str | None = None,
    before: int | None = None,
    until: float | None = None,
) -> list[tuple[int, LoggedEvent]]:
    """The newest events with their numbers in the journal, the newest first.

    Leaves out the events `without`. With `about`, only those with that name, event or reason code;
    with `before`, only those with lower numbers; with `until`, only those up to then, epoch
    seconds. Raises JournalError.
    """
    names = {f"no{number}": event for number, event in enumerate(sorted(without))}
    wanted = [f"event NOT IN ({','.join(f':{name}' for name in names)})"] if names else []
    wanted += [] if about is None else [_IS_ABOUT]
    wanted += [] if before is None else ["id < :before"]
    wanted += [] if until is None else ["at <= :until"]
    where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
    # Names of columns and of parameters only; whatever was asked for is bound.
    query = f"SELECT id, {','.join(COLUMNS)} FROM told{where} ORDER BY id DESC LIMIT :most"  # noqa: S608
    with opened(path) as connection, told_as_damage(path):
        given = {"about": about, "most": most, "before": before, "until": until}
        rows = connection.execute(query, {**names, **given}).fetchall()
        return [(number, told_from(row)) for number, *row in rows]
