"""The journal's retention: deletes by age, then the oldest decisions by size; no open intents."""

from __future__ import annotations

import sqlalchemy as sa

from nodemanager.journal.schema import entries, intents, leftovers, pre_images, told

ROWS_AT_ONCE = 500
"""The most rows deleted in one transaction, so that it stays small."""


def tidy(connection: sa.Connection, before: float, max_size: int) -> bool:
    """Delete some of what ended before `before` (epoch seconds) or exceeds `max_size` (bytes).

    Gives True when there may be more to delete. Keeps open intents, holds, the breaker, unreleased
    leftovers and younger pre-images whatever the size.
    """
    forget_ended(connection, before)
    connection.execute(sa.delete(told).where(told.c.at < before))
    oldest = _segment_to_drop(connection, before, max_size)
    if oldest is None:
        return False
    some = (
        sa.select(entries.c.seq)
        .where(entries.c.segment == oldest)
        .order_by(entries.c.seq.desc())
        .limit(ROWS_AT_ONCE)
    )
    # The segment's start is deleted last, so that the rest is readable after a kill.
    then = sa.select(sa.func.max(entries.c.wall)).where(entries.c.segment == oldest)
    connection.execute(sa.delete(told).where(told.c.at <= then.scalar_subquery()))
    connection.execute(sa.delete(entries).where(entries.c.seq.in_(some)))
    return True


def forget_ended(connection: sa.Connection, before: float) -> None:
    """Delete the intents, pre-images and leftovers that ended before that (epoch seconds)."""
    ended = sa.select(intents.c.id).where(intents.c.concluded_at < before)
    connection.execute(sa.delete(pre_images).where(pre_images.c.intent.in_(ended)))
    connection.execute(sa.delete(intents).where(intents.c.concluded_at < before))
    connection.execute(sa.delete(leftovers).where(leftovers.c.released_at < before))


def _segment_to_drop(connection: sa.Connection, before: float, max_size: int) -> int | None:
    """The oldest segment, if all of it is too old or the file is too large; never the newest."""
    segments = (
        connection.execute(
            sa.select(entries.c.segment)
            .group_by(entries.c.segment)
            .order_by(entries.c.segment)
            .limit(2)
        )
        .scalars()
        .all()
    )
    if len(segments) < 2:
        return None
    oldest = segments[0]
    newest_wall = connection.execute(
        sa.select(sa.func.max(entries.c.wall)).where(entries.c.segment == oldest)
    ).scalar()
    too_old = newest_wall is not None and newest_wall < before
    return int(oldest) if too_old or size_of(connection) > max_size else None


def size_of(connection: sa.Connection) -> int:
    """The bytes in use, without free pages."""
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
