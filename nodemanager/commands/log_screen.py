"""A logged event's line on a terminal, for `nodemanager log`."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.times import local
from nodemanager.journal.event import LEVEL, Told
from nodemanager.logline import logfmt, span

STYLES = (
    (("breaker.opened", "false_clean", "failed", "invariant"), "bold red"),
    (("operator.", "breaker."), "magenta"),
    (("cleaned", "created", "gone", "restored"), "green"),
    (("clean", "shutdown", "setup"), "yellow"),
    (("deferred", "skipped", "aborted", "foreign"), "cyan"),
)


def line_of(one: Told) -> Text:
    """An event's line for a terminal: time, event, reason, subject and measures."""
    line = Text(f"{local(one.at)}  ", style="dim")
    line.append(f"{one.event:<21} ", style=style_of(one.event) or "not dim")
    line.append(f"{one.reason or '':<22} ", style="not dim bold")
    whom = [one.host or "", one.record or "", one.node or ""]
    line.append(show.cell(" ".join(word for word in whom if word), "not dim"))
    for key, value in one.more.items():
        if value is not None and key != LEVEL:
            line.append("  ").append(show.cell(_measure(key, value), "dim"))
    return line


def style_of(event: str) -> str:
    """The style of that event's name."""
    for words, style in STYLES:
        if any(word in event for word in words):
            return f"not dim {style}"
    return ""


def _measure(key: str, value: Any) -> str:
    if key.endswith("_s") and isinstance(value, (int, float)):
        return f"{key.removesuffix('_s')} {span(value)}"
    return logfmt({key: value}).replace("=", " ", 1)
