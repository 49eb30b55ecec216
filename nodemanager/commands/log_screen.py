"""A logged event's line on a terminal, for `nodemanager log`."""

from __future__ import annotations

from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.times import local
from nodemanager.journal.event import LEVEL, LoggedEvent
from nodemanager.logline import measure
from nodemanager.logscreen import style_of


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
