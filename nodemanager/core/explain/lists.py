"""The lists for people: their columns, and how rows are chosen and sorted, on every screen.

Command line, HTTP and dashboard have the same columns, words and order, and take the same query:
each filter's values by its key, separated by commas; `sort`, a column's heading, with a `-` before
it in reverse; and `q`, a text that some value must contain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from nodemanager.errors import NodeManagerError

MOST_ROWS = 2000
"""The most rows on one screen; more make a phone or a terminal slow."""
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


class CellKind(StrEnum):
    """What a column's values are, and so how each screen shows them."""

    TEXT = ""
    NUMBER = "n"
    STATE = "state"
    CODE = "code"
    """Of an event or a reason, or the word for an order."""
    AGO = "ago"
    """Seconds that have passed."""
    UNTIL = "until"
    """Seconds that are still to pass."""
    MOMENT = "moment"
    """Epoch seconds."""
    MEASURES = "measures"
    VERB = "verb"
    """What an operator types, to undo the row's order."""


class Column(NamedTuple):
    """A column: its heading, its key in a row, from which width on it is shown, and its look."""

    heading: str
    key: str
    width: Width = Width.NARROW
    look: CellKind = CellKind.TEXT

    @property
    def is_number(self) -> bool:
        """Whether its values are to the right."""
        return self.look in (CellKind.NUMBER, CellKind.AGO, CellKind.UNTIL)


@dataclass(frozen=True, slots=True)
class ListKind:
    """One of the lists: its key in an answer, the word for a row, its title and its columns.

    `filters` are the keys that one may choose rows by; a list's foot counts its rows by the first.
    `states` are all values that the first may have, if they are known beforehand.
    `names` are those of a row's own id, the first that is known, and `own` those that no two rows
    share, if they are others. `first` are the keys that it is sorted by unless a column is asked
    for. `head` is the key that people call a row by.
    """

    key: str
    what: str
    title: str
    columns: tuple[Column, ...]
    filters: tuple[str, ...]
    names: tuple[str, ...]
    own: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    head: str = "host"
    states: tuple[str, ...] = ()

    def shown(self, width: Width) -> tuple[Column, ...]:
        """The columns for that width."""
        return tuple(one for one in self.columns if one.width <= width)

    def named(self, row: TableRow) -> tuple[str, str] | None:
        """The id that other commands and the row's page take, with its key."""
        return next(((key, row[key]) for key in self.names if row[key]), None)

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
    """Whether a text of the row, or one in a list or mapping of it, contains the `text`."""
    return not text or any(text in one.lower() for one in _texts(row))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


PAGE, WIDE = Width.PAGE, Width.WIDE
NODES = ListKind(
    key="nodes",
    what="node",
    title="Cloud nodes",
    columns=(
        Column("host", "host"),
        Column("node", "node"),
        Column("size", "size"),
        Column("state", "state", look=CellKind.STATE),
        Column("age", "age_s", look=CellKind.AGO),
        Column("slot", "slot", look=CellKind.NUMBER),
        Column("reason", "reason", look=CellKind.CODE),
        Column("orders", "orders", PAGE),
        Column("cloud", "cloud_state", WIDE),
        Column("name", "name", WIDE),
        Column("record", "record", WIDE),
        Column("pool", "pool", WIDE),
        Column("addresses", "addresses", WIDE),
    ),
    filters=("state", "size", "reason"),
    names=("node", "record"),
    first=("slot", "host", "node"),
    states=(
        *("busy", "idle", "booting", "unlisted", "unknown", "unpaired", "down", "shutdown"),
        "foreign",
        # The cloud's own, where no decision could be taken.
        *("pending", "running", "stopping", "stopped", "terminated"),
    ),
)
SLOTS = ListKind(
    key="slots",
    what="slot",
    title="Held slots",
    columns=(
        Column("slot", "slot", look=CellKind.NUMBER),
        Column("host", "host"),
        Column("state", "state", look=CellKind.STATE),
        Column("node", "node"),
        Column("quiet", "quiet_s", look=CellKind.AGO),
        Column("free_in", "free_in_s", look=CellKind.UNTIL),
        Column("reason", "reason", look=CellKind.CODE),
        Column("orders", "orders", PAGE),
        Column("record", "record", WIDE),
        Column("record_state", "record_state", WIDE),
        Column("pool", "pool", WIDE),
    ),
    filters=("state", "reason"),
    names=("record",),
    first=("slot", "host", "node"),
    states=("listed_node", "claim", "no_node", "leaked", "other_pool"),
)
JOBS = ListKind(
    key="jobs",
    what="job",
    title="Waiting jobs",
    columns=(
        Column("job", "job"),
        Column("state", "state", look=CellKind.STATE),
        Column("count", "count", look=CellKind.NUMBER),
        Column("asks", "asks"),
        Column("size", "size"),
        Column("nodes", "nodes"),
        Column("coming", "coming", look=CellKind.NUMBER),
        Column("reason", "reason", look=CellKind.CODE),
        Column("ends_in", "in_s", look=CellKind.UNTIL),
    ),
    filters=("state", "size", "reason"),
    names=("job",),
    head="job",
    states=("served", "booting", "waiting", "impossible"),
)
"""The queue's order is kept."""
GROUPS = ListKind(
    key="groups",
    what="group",
    title="What happened, in groups",
    columns=(
        Column("last", "last_at", look=CellKind.MOMENT),
        Column("first", "first_at", look=CellKind.MOMENT),
        Column("count", "count", look=CellKind.NUMBER),
        Column("level", "level", look=CellKind.STATE),
        Column("event", "event", look=CellKind.CODE),
        Column("reason", "reason", look=CellKind.CODE),
        Column("of", "names"),
    ),
    filters=("level", "event", "reason"),
    names=(),
    own=("event", "reason"),
    head="",
    states=("info", "warning", "error", "critical"),
)
"""The worst come first, as `core.explain.events` has them."""
DECISIONS = ListKind(
    key="decisions",
    what="event",
    title="Decisions and actions",
    columns=(
        Column("when", "at", look=CellKind.MOMENT),
        Column("level", "level", look=CellKind.STATE),
        Column("event", "event", look=CellKind.CODE),
        Column("reason", "reason", look=CellKind.CODE),
        Column("host", "host"),
        Column("measured", "measures", look=CellKind.MEASURES),
    ),
    filters=("level", "event", "reason"),
    names=("record", "node", "host"),
    own=("number",),
)
"""Events one by one, as the journal has them."""
ORDERS = ListKind(
    key="orders",
    what="order",
    title="Standing orders",
    columns=(
        Column("order", "order", look=CellKind.CODE),
        Column("of", "of"),
        Column("id", "id", WIDE),
        Column("by", "by"),
        Column("since", "at", look=CellKind.MOMENT),
        Column("undo", "undo", look=CellKind.VERB),
        Column("why", "why"),
    ),
    filters=("order", "by"),
    names=("id",),
    own=("order", "id"),
    head="of",
)
