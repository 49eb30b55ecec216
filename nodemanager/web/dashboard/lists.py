"""The lists of nodes, of records that hold a slot and of waiting jobs, filtered and sorted as the
address says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from nodemanager.core.explain.lists import (
    JOBS,
    NODES,
    SLOTS,
    Column,
    ListKind,
    TableRow,
    UnknownColumnError,
    Width,
)
from nodemanager.core.explain.picture import Picture
from nodemanager.lib.logline import Json
from nodemanager.web import inventory, why
from nodemanager.web.dashboard.overview import alerts_block
from nodemanager.web.dashboard.page import Block, Page, Table, row_id
from nodemanager.web.dashboard.render import part, path_of
from nodemanager.web.dashboard.source import ShownDecision

MOST_ROWS = 2000
"""The most rows of one page; more make a phone slow."""
AHEAD = frozenset({"free_in_s", "in_s"})
"""Durations that are still to pass; the others have passed."""
QUIET_FROM_S = 300.0
"""From when on it is shown that the record of a listed node is quiet: before, it changes with each
ping and says nothing."""


class ListPage(NamedTuple):
    """A list as a page: its rows come from the answer that the API gives, too."""

    kind: ListKind
    title: str
    nav: str
    answer: Callable[[Picture], Json]


PAGES: Mapping[str, ListPage] = {
    "/nodes": ListPage(NODES, "Nodes", "Nodes", inventory.nodes),
    "/records": ListPage(SLOTS, "Records and their slots", "Records", inventory.slots),
    "/jobs": ListPage(JOBS, "Waiting jobs", "Jobs", why.waiting),
}


class Cell(NamedTuple):
    """A cell: how it looks, its heading if a phone needs it, and its value or the links in it.

    A moment is epoch seconds, so that a row stays the same while time passes.
    """

    look: str
    value: Any = None
    label: str = ""
    links: tuple[tuple[str, str], ...] = ()


def list_page(path: str, seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """The page of the list at `path`, of the newest decision."""
    shown = PAGES[path]
    rows = shown.answer(seen.picture)[shown.kind.key]
    wall = seen.picture.snapshot.wall
    table, html = _table(path, shown.kind, rows, dict(query), wall)
    blocks = (alerts_block(seen), Block("list", "", html, table, wide=True))
    return Page(shown.title, shown.nav, blocks)


def _table(
    path: str, kind: ListKind, rows: Sequence[TableRow], query: dict[str, str], wall: float
) -> tuple[Table, str]:
    """The table of the chosen rows, and above it the filters with how many there are of each."""
    try:
        found = kind.chosen(rows, query)
    except UnknownColumnError:
        del query["sort"]
        found = kind.chosen(rows, query)
    shown, sort = found[:MOST_ROWS], query.get("sort", "")
    columns = kind.shown(Width.PAGE)
    fields = []
    for name in kind.filters:
        counts = Counter(str(one[name]) for one in rows if one[name])
        if query.get(name):
            counts.setdefault(query[name], len(found))
        fields.append((name, query.get(name, ""), sorted(counts.items())))
    html = part("filters", path, fields, query.get("q", ""), columns, sort)
    html += part("shown_of", len(shown), len(rows), MOST_ROWS)
    head = part("heads", columns, sort, lambda sort: urlencode({**query, "sort": sort}))
    lines = (_row(kind, one, columns, wall) for one in shown)
    return Table(kind.title, head, dict(lines), f"no such {kind.what}"), html


def _row(kind: ListKind, row: TableRow, columns: Sequence[Column], wall: float) -> tuple[str, str]:
    id = row_id(f"{kind.what} {[row[key] for key in kind.names]}")
    return id, _rendered(id, tuple(_cell(kind, row, one, wall) for one in columns))


@lru_cache(maxsize=20_000)
def _rendered(id: str, cells: tuple[Cell, ...]) -> str:
    return part("list_row", id, cells)


def _cell(kind: ListKind, row: TableRow, column: Column, wall: float) -> Cell:
    value, key = row[column.key], column.key
    name = kind.name_of(row) or ""
    if key == kind.head:
        links = ((str(value or name), path_of(kind.page, name)),) if kind.page else ()
        return Cell("head", value or name, links=links)
    if value is None or value == []:
        return Cell("n" if column.is_number else "")
    if key == "quiet_s" and row["state"] == "listed_node" and value < QUIET_FROM_S:
        return Cell("n")
    if key.endswith("_s"):
        moment = round(wall + value if key in AHEAD else wall - value)
        return Cell("until" if key in AHEAD else "ago", moment, column.heading)
    if key in ("state", "reason"):
        return Cell(key, value)
    if column.is_number:
        return Cell("n", value or None, column.heading)
    several = value if isinstance(value, list) else [value]
    if column.links and several != [name]:
        return Cell("id", links=tuple((one, path_of(column.links, one)) for one in several))
    return Cell("id" if column.links else "", ", ".join(several))
