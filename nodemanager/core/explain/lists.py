"""The lists for people: their columns, and how rows are chosen and sorted, on every screen.

Command line, HTTP and dashboard have the same columns, words and order, and take the same query:
each filter's values by its key, separated by commas; `sort`, a column's heading, with a `-` before
it in reverse; and `q`, a text that some value must contain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from nodemanager.errors import NodeManagerError

TableRow = Mapping[str, Any]
"""A row as JSON has it, by key; durations are seconds, and their keys end with `_s`."""


class UnknownColumnError(NodeManagerError):
    """The list has no column with the `given` heading; `known` are those that it has."""

    def __init__(self, given: str, known: list[str]) -> None:
        super().__init__(f"{given!r} is none of {', '.join(known)}")
        self.given = given
        self.known = known


class Width(IntEnum):
    """How many columns there is room for: on a terminal, on a page, with `-o wide`."""

    NARROW = 0
    PAGE = 1
    WIDE = 2


class Column(NamedTuple):
    """A column: its heading, its key in a row, and from which width on it is shown.

    `links` is the kind of page that its values are the ids of.
    """

    heading: str
    key: str
    width: Width = Width.NARROW
    is_number: bool = False
    links: str = ""


@dataclass(frozen=True, slots=True)
class ListKind:
    """One of the lists: its key in an answer, the word for a row, its title and its columns.

    `filters` are the keys that one may choose rows by, `names` those of a row's own id, the first
    that is known; `first` are the keys that it is sorted by unless a column is asked for. `head` is
    the key that people call a row by, and `page` the kind of page that it leads to, if any.
    """

    key: str
    what: str
    title: str
    columns: tuple[Column, ...]
    filters: tuple[str, ...]
    names: tuple[str, ...]
    first: tuple[str, ...] = ()
    head: str = "host"
    page: str = ""

    def shown(self, width: Width) -> tuple[Column, ...]:
        """The columns for that width."""
        return tuple(one for one in self.columns if one.width <= width)

    def name_of(self, row: TableRow) -> str | None:
        """The id that other commands and the row's page take."""
        return next((row[key] for key in self.names if row[key]), None)

    def sort_key(self, sort: str) -> str:
        """The key of the column that `sort` names. Raises UnknownColumnError."""
        wanted = sort.removeprefix("-")
        for one in self.columns:
            if one.heading == wanted:
                return one.key
        raise UnknownColumnError(wanted, [one.heading for one in self.columns])

    def chosen(self, rows: Iterable[TableRow], query: Mapping[str, str]) -> list[TableRow]:
        """The rows that match the query, in its order; rows without the sorted value come last.

        Raises UnknownColumnError.
        """
        wanted = {
            key: {word.strip() for word in query[key].split(",")}
            for key in self.filters
            if query.get(key)
        }
        text = query.get("q", "").strip().lower()
        found = [
            one
            for one in rows
            if all(one[key] in words for key, words in wanted.items()) and _has(one, text)
        ]
        if self.first:
            found.sort(key=lambda one: [natural(one[key]) for key in self.first])
        sort = query.get("sort")
        if not sort:
            return found
        key = self.sort_key(sort)
        there = [one for one in found if one[key] is not None]
        there.sort(key=lambda one: natural(one[key]), reverse=sort.startswith("-"))
        return there + [one for one in found if one[key] is None]


def natural(value: Any) -> tuple[Any, ...]:
    """A sort key: compute2 comes before compute10, and None comes last."""
    if value is None:
        return (1, ())
    if isinstance(value, (int, float)):
        return (0, ((0, value, ""),))
    parts = re.split(r"(\d+)", str(value))
    return (0, tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in parts))


def _has(row: TableRow, text: str) -> bool:
    return not text or any(isinstance(it, str) and text in it.lower() for it in row.values())


PAGE, WIDE = Width.PAGE, Width.WIDE
NODES = ListKind(
    key="nodes",
    what="node",
    title="Cloud nodes",
    columns=(
        Column("host", "host"),
        Column("node", "node", links="nodes"),
        Column("size", "size"),
        Column("state", "state"),
        Column("age", "age_s", is_number=True),
        Column("slot", "slot", is_number=True),
        Column("reason", "reason"),
        Column("orders", "orders", PAGE),
        Column("cloud", "cloud_state", WIDE),
        Column("name", "name", WIDE),
        Column("record", "record", WIDE, links="records"),
        Column("pool", "pool", WIDE),
        Column("addresses", "addresses", WIDE),
    ),
    filters=("state", "size", "reason"),
    names=("node", "record"),
    first=("slot", "host", "node"),
    page="nodes",
)
SLOTS = ListKind(
    key="slots",
    what="slot",
    title="Held slots",
    columns=(
        Column("slot", "slot", is_number=True),
        Column("host", "host"),
        Column("state", "state"),
        Column("node", "node", links="nodes"),
        Column("quiet", "quiet_s", is_number=True),
        Column("free_in", "free_in_s", is_number=True),
        Column("reason", "reason"),
        Column("orders", "orders", PAGE),
        Column("record", "record", WIDE, links="records"),
        Column("record_state", "record_state", WIDE),
        Column("pool", "pool", WIDE),
    ),
    filters=("state", "reason"),
    names=("record",),
    first=("slot", "host", "node"),
    page="records",
)
JOBS = ListKind(
    key="jobs",
    what="job",
    title="Waiting jobs",
    columns=(
        Column("job", "job"),
        Column("state", "state"),
        Column("count", "count", is_number=True),
        Column("asks", "asks"),
        Column("size", "size"),
        Column("nodes", "nodes", links="nodes"),
        Column("coming", "coming", is_number=True),
        Column("reason", "reason"),
        Column("ends_in", "in_s", is_number=True),
    ),
    filters=("state", "size", "reason"),
    names=("job",),
    head="job",
    page="jobs",
)
"""The queue's order is kept."""
