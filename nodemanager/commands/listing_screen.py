"""The tables of `nodemanager nodes`, `slots` and `jobs`, for a terminal and for a pipe."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.times import local
from nodemanager.core.explain.lists import Column, TableRow
from nodemanager.lib.logline import span
from nodemanager.lib.logscreen import Shortened

STYLES = {
    **dict.fromkeys(("busy", "idle", "listed_node", "served"), "green"),
    **dict.fromkeys(("booting", "shutdown", "claim", "drained", "no_node", "waiting"), "yellow"),
    **dict.fromkeys(("down", "unpaired", "fail", "leaked", "impossible"), "bold red"),
    **dict.fromkeys(("foreign", "other_pool"), "dim"),
}


def table(
    rows: Sequence[TableRow], columns: Sequence[Column], *, whole: bool, terminal: bool
) -> Table:
    """The rows under the headings of the columns; a terminal gets short ids unless `whole`."""
    numbers = ",".join(one.heading for one in columns if one.is_number)
    headings = [one.heading for one in columns]
    made = show.table(*headings, terminal=terminal, right=numbers)
    short = None
    if terminal and not whole:
        short = Shortened(one["node"] for one in rows if one.get("node"))
    for row in rows:
        made.add_row(*(_cell(row, one.key, short) for one in columns))
    return made


def _cell(row: TableRow, key: str, short: Shortened | None) -> Text:
    value = row[key]
    if value is None or value == []:
        return Text("-", style="dim")
    if key.endswith("_s"):
        # Without a blank, so that a pipe's reader can split columns at blanks.
        return show.cell(span(value).replace(" ", ""))
    if key == "node" and short is not None:
        return show.cell(short.of(value))
    if isinstance(value, list):
        return show.cell(",".join(str(one) for one in value))
    return show.cell(value, STYLES.get(value, "") if key == "state" else "")


def foot(
    found: Sequence[TableRow], rows: Sequence[TableRow], what: str, at: float, more: str
) -> Text:
    """The counts of the `found` rows, or of all where none was found, and how old they are."""
    states = Counter(str(one["state"]) for one in (found or rows))
    told = ", ".join(f"{count} {state}" for state, count in states.most_common())
    if found or not rows:
        line = f"{len(found)} {what}{'' if len(found) == 1 else 's'}"
    else:
        line = f"no {what} matches; there are"
    line += f" {told}" if rows and not found else f": {told}" if told else ""
    age = span(max(0.0, time.time() - at))
    return show.cell(f"{line}{more}; as of {local(at)}, {age} ago", "dim")
