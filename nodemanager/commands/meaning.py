"""What a reason code or an event means: for `nodemanager explain within_window`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from nodemanager.commands import show
from nodemanager.core.model.reasons import Event, Reason


def meaning(word: str) -> dict[str, Any] | None:
    """What the word says, its rule, the options that it depends on, and how an operator ends it;
    None if it is no reason code and no event."""
    from nodemanager.config.sections import SECTIONS

    known: Reason | Event | None = next(
        (one for one in (*Reason, *Event) if one.value == word), None
    )
    if known is None:
        return None
    named = set(re.findall(r"`(\w+)`", known.doc))
    options = [one for each in SECTIONS for one in each.options if one.name in named]
    shown: dict[str, Any] = {
        "subject": "reason" if isinstance(known, Reason) else "event",
        "id": word,
        "says": known.doc,
        "options": {f"[{one.section}] {one.name}": one.help.split(". ")[0] for one in options},
    }
    if isinstance(known, Reason):
        row = known.row
        ends = [one for one in (row.clear, row.frees, row.restores) if one]
        shown |= {"rule": known.rule, "ends": ends}
    return shown


def screen(shown: dict[str, Any]) -> Iterator[Any]:
    """The sentence, and below it the rule, the options and how it ends."""
    yield show.cell(f"{shown['id']}: {shown['says']}")
    table = Table.grid(padding=(0, 2, 0, 0))
    if shown.get("rule"):
        table.add_row("rule", f"{shown['rule']}, on the manual's page of rules")
    for name, help in shown["options"].items():
        table.add_row("option", show.cell(f"{name}: {help.rstrip('.')}."))
    for ends in shown.get("ends", ()):
        table.add_row("ends", show.cell(ends))
    if shown["subject"] == "reason":
        table.add_row("see", f"nodemanager log --reason {shown['id']}")
    else:
        table.add_row("see", f"nodemanager log --event {shown['id']}")
    yield table
