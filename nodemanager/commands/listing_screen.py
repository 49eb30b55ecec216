"""The tables of `nodemanager nodes` and `nodemanager slots`, for a terminal and for a pipe."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from rich.table import Table
from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.columns import Column, TableRow
from nodemanager.commands.times import local
from nodemanager.logline import span

STYLES = {
    **dict.fromkeys(("busy", "idle", "listed_node"), "green"),
    **dict.fromkeys(("booting", "shutdown", "claim", "drained", "leaked"), "yellow"),
    **dict.fromkeys(("down", "unpaired", "fail"), "bold red"),
    **dict.fromkeys(("foreign", "other_pool"), "dim"),
}
SHORT_TAIL = 6
"""The number of characters shown after an id's last dash; more where two ids would look alike."""


def table(
    rows: Sequence[TableRow], columns: Sequence[Column], *, whole: bool, terminal: bool
) -> Table:
    """The rows under the headings of the columns; a terminal gets short ids unless `whole`."""
    numbers = ",".join(one.heading for one in columns if one.is_number)
    headings = [one.heading for one in columns]
    made = show.table(*headings, terminal=terminal, right=numbers)
    short = {} if whole or not terminal else short_ids([one["node"] for one in rows])
    for row in rows:
        made.add_row(*(_cell(row, one.key, short) for one in columns))
    return made


def _cell(row: TableRow, key: str, short: Mapping[str, str]) -> Text:
    value = row[key]
    if value is None:
        return Text("-", style="dim")
    if key.endswith("_s"):
        # Without a blank, so that a pipe's reader can split columns at blanks.
        return show.cell(span(value).replace(" ", ""))
    if key == "node":
        return show.cell(short.get(value, value))
    if isinstance(value, list):
        return show.cell(" ".join(str(one) for one in value) or "-")
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


def short_ids(ids: Iterable[str | None]) -> dict[str, str]:
    """For each id its shortened form, a beginning that no other id has."""
    whole = sorted({one for one in ids if one})
    same = [os.path.commonprefix(two) for two in pairwise(whole)]  # noqa: RUF071 - by character
    alike = [0, *map(len, same), 0]
    made = {}
    for place, id in enumerate(whole):
        least = id.rfind("-") + 1 + SHORT_TAIL
        made[id] = id[: max(least, alike[place] + 1, alike[place + 1] + 1)]
    return made
