"""Lists the rows of the `nodes` table, and of a row listed before reads only what a ping changed.

Most pings say nothing new and change three columns. To read the others again, two JSON objects and
a claim among them, would take most of a listing's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from nodemanager.core.model.world import Listed, Record
from nodemanager.records import rows, wire
from nodemanager.records.schema import decoded, nodes

_PAGE = 2000
_PINGED = ("version", "last_ping_at", "modified_at")
"""What each ping changes; the columns and the fields of Record have the same names."""
_FIRST = ("uuid", *_PINGED)
_COLUMNS = (*_FIRST, *(column.name for column in nodes.columns if column.name not in _FIRST))
_QUERY = (
    sa.select(
        *(
            sa.type_coerce(nodes.c[name], sa.Text) if name in rows.JSON else nodes.c[name]
            for name in _COLUMNS
        )
    )
    .order_by(nodes.c.uuid)
    .execution_options(yield_per=_PAGE)
)
"""Every row, its JSON as text."""
_FIELDS = tuple(one.name for one in fields(Record))
_VALUES = attrgetter(*_FIELDS)
_VERSION, _LAST_PING_AT, _MODIFIED_AT = map(_FIELDS.index, _PINGED)
_BETWEEN, _BEHIND = slice(_VERSION + 1, _LAST_PING_AT), slice(_MODIFIED_AT + 1, None)
"""The fields of Record between the first and the second that each ping changes, and behind the
last; the second and the third are neighbours, and only the uuid is before the first."""

_Row = sa.Row[*tuple[Any, ...]]
_Values = tuple[Any, ...]


class _Known(NamedTuple):
    """A readable row's columns that a ping need not change, and those values of its record."""

    rest: _Values
    uuid: str
    between: _Values
    behind: _Values


class Rereader:
    """Lists all records, and remembers them with their rows until the next listing.

    A record has the values that its row alone would give. Those that did not change are the same
    objects as in the listing before, and so is a record of which nothing changed, because nobody
    changes a Record. Two threads may list at once.
    """

    def __init__(self) -> None:
        self._before: Mapping[str, tuple[_Known, Record]] = {}

    def listed(self, connection: sa.Connection) -> Listed[Record]:
        """Every row as a Record, ordered by uuid."""
        before: Mapping[str, tuple[_Known, Record]] = self._before
        now: dict[str, tuple[_Known, Record]] = {}

        def read(row: _Row) -> Record:
            uuid, rest = row[0], row[len(_FIRST) :]
            found = before.get(uuid)
            if found is not None and rest == found[0].rest:
                # The texts of the row before are kept, so that these are freed at once.
                record = _pinged(*found, row)
                now[uuid] = found[0], record
                return record
            record = _read(row)
            if not record.problems:
                values = _VALUES(record)
                now[uuid] = _Known(rest, uuid, values[_BETWEEN], values[_BEHIND]), record
            return record

        pages = connection.execute(_QUERY).partitions()
        listed = wire.collect(read, chain.from_iterable(pages))
        self._before = now
        return listed


def _read(row: _Row) -> Record:
    values = dict(zip(_COLUMNS, row, strict=True))
    return rows.record_of(values | {name: decoded(values[name]) for name in rows.JSON})


def _pinged(known: _Known, before: Record, row: _Row) -> Record:
    """The record of a row that differs at most by pings from the known one, which gave `before`."""
    _, version, last_ping_at, modified_at = row[:4]
    if not type(version) is type(last_ping_at) is type(modified_at) is int:
        return _read(row)
    pinged_at = wire.epoch(last_ping_at)
    # A ping stamps both alike.
    at = pinged_at if modified_at == last_ping_at else wire.epoch(modified_at)
    named = str(version)
    if before.version == named and before.last_ping_at == pinged_at and before.modified_at == at:
        return before
    values = [known.uuid, named, *known.between, pinged_at, at, *known.behind]
    return Record(*values)
