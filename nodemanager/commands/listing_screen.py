"""The tables of the lists, and the lines of the log on a terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.times import local
from nodemanager.core.explain.lists import MOST_ROWS, CellKind, Column, ListKind, TableRow
from nodemanager.core.model.reasons import Event, is_flip
from nodemanager.journal.event import LEVEL, LoggedEvent
from nodemanager.lib.logline import measure, span
from nodemanager.lib.logline import timestamp as stamp
from nodemanager.lib.logscreen import Shortened, style_of

MOST_NAMES, NOTHING = 4, "-"


def line_of(one: LoggedEvent) -> Text:
    """An event's line for a terminal: time, event, reason, subject and measures."""
    line = Text(f"{local(one.at)}  ", style="dim")
    line.append(f"{one.event:<21} ", style=f"not dim {style_of(one.event, one.level)}")
    line.append(f"{one.reason or '':<22} ", style="not dim bold")
    whom = [one.host or "", one.record or "", one.node or ""]
    line.append(show.cell(" ".join(word for word in whom if word), "not dim"))
    for key, value in one.more.items():
        if value is not None and key != LEVEL:
            line.append("  ").append(show.cell(measure(key, value), "dim"))
    return line


class Folding:
    """Folds what says only that nodes turned busy or idle, as most events of a busy pool do."""

    def __init__(self, *, folds: bool = True) -> None:
        self._folds = folds
        self._turns: list[LoggedEvent] = []

    def take(self, news: Iterable[LoggedEvent]) -> Iterator[LoggedEvent]:
        """The events, turns in a row as one; the last turns are kept for those to come."""
        for one in news:
            if self._folds and is_flip(one.event, one.reason):
                self._turns.append(one)
                continue
            yield from self.rest()
            yield one

    def rest(self) -> Iterator[LoggedEvent]:
        """What is kept."""
        turns, self._turns = self._turns, []
        if len(turns) < 2:
            yield from turns
            return
        names = list(dict.fromkeys(one.host or one.node or "" for one in turns))
        more = " ..." if len(names) > MOST_NAMES else ""
        yield LoggedEvent(
            turns[0].at,
            Event.NODE_KEEP.value,
            "busy or idle",
            host=" ".join(names[:MOST_NAMES]) + more,
            more={"times": len(turns), "until": local(turns[-1].at).split()[-1]},
        )


STYLES = {
    **dict.fromkeys(("busy", "idle", "listed_node", "served"), "green"),
    **dict.fromkeys(("booting", "shutdown", "claim", "drained", "no_node", "waiting"), "yellow"),
    **dict.fromkeys(("down", "unpaired", "fail", "leaked", "impossible"), "bold red"),
    **dict.fromkeys(("critical", "error"), "bold red"),
    "warning": "yellow",
    **dict.fromkeys(("foreign", "other_pool", "info"), "dim"),
}


NARROW = 60
"""On a terminal with fewer columns, as a phone's, a table that does not fit cuts every word."""


def table(
    rows: Sequence[TableRow], columns: Sequence[Column], *, whole: bool, out: Console
) -> RenderableType:
    """The rows under the headings of the columns.

    A terminal gets the first MOST_ROWS of them, and short ids unless `whole`; a narrow one a
    paragraph for each row, if the table does not fit.
    """
    terminal, headings = out.is_terminal, [one.heading for one in columns]
    numbers = ",".join(one.heading for one in columns if one.is_number)
    made = show.table(*headings, terminal=terminal, right=numbers)
    short = None
    if terminal and not whole:
        short = Shortened(one["node"] for one in rows if one.get("node"))
    paragraphs = []
    for row in rows[:MOST_ROWS] if terminal else rows:
        cells = [_cell(row, one, short, terminal=terminal) for one in columns]
        made.add_row(*(show.cell(*one) if terminal else one[0] for one in cells))
        if terminal and out.width < NARROW:
            paragraphs.append(_paragraph(headings, cells))
    if not paragraphs:
        return made
    wide = Measurement.get(out, out.options.update(max_width=show.PIPE_WIDTH), made).maximum
    return made if wide <= out.width else Group(*paragraphs)


def _paragraph(headings: Sequence[str], cells: Sequence[tuple[str, str]]) -> Text:
    """A row in words: `host compute1, state busy, age 6m20s`."""
    said = [
        Text.assemble((f"{heading} ", "dim"), show.cell(text, style))
        for heading, (text, style) in zip(headings, cells, strict=True)
        if text != NOTHING
    ]
    return Text(", ").join(said)


def _cell(
    row: TableRow, column: Column, short: Shortened | None, *, terminal: bool
) -> tuple[str, str]:
    """The text of a row in a column, and its style."""
    value, look, style = row[column.key], column.look, ""
    if value in (None, "", []):
        return NOTHING, "dim"
    if look in (CellKind.AGO, CellKind.UNTIL):
        # Without a blank, so that a pipe's reader can split columns at blanks.
        text = span(value).replace(" ", "")
    elif look is CellKind.MOMENT:
        text = f"{span(max(0.0, time.time() - value))} ago" if terminal else stamp(value)
    elif column.key == "node" and short is not None:
        text = short.of(value)
    elif isinstance(value, list):
        more = " ..." if row.get("others") else ""
        text = ",".join(str(one) for one in value) + more
    else:
        text, style = str(value), STYLES.get(value, "") if look is CellKind.STATE else ""
    return text, style


def foot(
    found: Sequence[TableRow], rows: Sequence[TableRow], kind: ListKind, at: float, more: str
) -> Text:
    """The counts of the `found` rows, or of all where none was found, and how old they are."""
    counts = Counter(str(one[kind.filters[0]]) for one in (found or rows))
    counted = ", ".join(f"{count} {one}" for one, count in counts.most_common())
    if found or not rows:
        line = f"{len(found)} {kind.what}{'' if len(found) == 1 else 's'}"
    else:
        line = f"no {kind.what} matches; there are"
    line += f" {counted}" if rows and not found else f": {counted}" if counted else ""
    if len(found) > MOST_ROWS:
        line += f"; {MOST_ROWS} are shown (--json, or a pipe, has them all)"
    age = span(max(0.0, time.time() - at))
    return show.cell(f"{line}{more}; as of {local(at)}, {age} ago", "dim")
