"""Lists as tables: their columns are core.explain.lists', and each look has its form here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from nodemanager.core.explain.lists import CellKind, Column, ListKind, TableRow, Width
from nodemanager.core.operate.verbs import Verb
from nodemanager.web.dashboard import render

QUIET_FROM_S = 300.0
"""From when on it is shown that the record of a listed node is quiet: before, it changes with each
ping and says nothing."""
_VERBS = {verb.typed: verb for verb in Verb}


class Cell(NamedTuple):
    """A cell: how it looks, its heading if a phone needs it, and its value or the links in it.

    A moment is epoch seconds, so that a row stays the same while time passes.
    """

    look: str
    value: Any = None
    label: str = ""
    links: tuple[tuple[str, str], ...] = ()


_SHOWN: Mapping[CellKind, Callable[[Any, float], Any]] = {
    CellKind.NUMBER: lambda value, wall: value or None,
    CellKind.AGO: lambda value, wall: round(wall - value),
    CellKind.UNTIL: lambda value, wall: round(wall + value),
    CellKind.MEASURES: lambda value, wall: render.measures(value),
}
"""What a cell has of a value, where it is not the value itself."""


def table(
    kind: ListKind, rows: Iterable[TableRow], wall: float, empty: str, head: str = ""
) -> render.Table:
    """The rows of a decision at `wall` (epoch seconds), which are not sorted if there is no
    `head`."""
    columns = kind.shown(Width.PAGE)
    numbers = [one.heading for one in columns if one.is_number]
    head = head or render.heads(*(one.heading for one in columns), numbers=numbers)
    return render.Table(
        kind.title, head, dict(_row(kind, one, columns, wall) for one in rows), empty
    )


def _row(kind: ListKind, row: TableRow, columns: Sequence[Column], wall: float) -> tuple[str, str]:
    own = [row[key] for key in kind.own or kind.names]
    id = render.row_id(f"{kind.what} {own}") if "number" not in row else f"e{row['number']}"
    return id, _rendered(id, tuple(_cell(kind, row, one, wall) for one in columns))


@lru_cache(maxsize=20_000)
def _rendered(id: str, cells: tuple[Cell, ...]) -> str:
    return render.part("list_row", id, cells)


def _cell(kind: ListKind, row: TableRow, column: Column, wall: float) -> Cell:
    value, look = row[column.key], column.look
    if column.key == kind.head:
        key, id = kind.named(row) or ("", "")
        text = str(row[kind.head] or id)
        return Cell("head", text, links=((text, render.link_of(key, id)),) if id else ())
    if value in (None, "", []) or _says_nothing(row, column.key):
        return Cell("n" if column.is_number else "")
    if look is CellKind.VERB:
        return Cell(
            look, links=((_VERBS[value].row.heading, render.act_path(_VERBS[value], row["id"])),)
        )
    label = render.words(column.heading) if column is not kind.columns[0] else ""
    if look in _SHOWN:
        return Cell(look, _SHOWN[look](value, wall), label)
    return Cell(look, value, label) if look is CellKind.MOMENT else _named(kind, row, column, label)


def _named(kind: ListKind, row: TableRow, column: Column, label: str) -> Cell:
    """One name or several, each of which may have a page; the row's own is linked by its head."""
    value, own = row[column.key], kind.named(row)
    names = [str(one) for one in (value if isinstance(value, list) else [value])]
    links = tuple((one, href) for one in names if (href := render.link_of(column.key, one)))
    look = column.look or ("id" if links else "")
    is_own = own is not None and names == [own[1]]
    return Cell(look, ", ".join(names), label, () if is_own else links)


def _says_nothing(row: TableRow, key: str) -> bool:
    """Whether a value is as nearly all are."""
    if key == "quiet_s":
        return bool(row["state"] == "listed_node" and row[key] < QUIET_FROM_S)
    return key == "level" and row[key] == "info"
