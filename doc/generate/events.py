"""The tables of events, reasons and keys, from the closed lists of core."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nodemanager.core.model.keys import LogKey
from nodemanager.core.model.reasons import Documented, Event, Reason


def tables() -> str:
    """The three tables as reStructuredText."""
    return "\n".join(
        [
            *_table("events", "Events", "``event=``", Event),
            *_table("reasons", "Reason codes", "``reason=``", Reason),
            *_table("keys", "Keys", "Key", LogKey),
        ]
    )


def _table(anchor: str, title: str, column: str, members: Iterable[Documented]) -> list[str]:
    rows = [
        f"   * - ``{member.value}``\n     - {_literals(member.doc)}"
        for member in members
        if isinstance(member, Documented)
    ]
    return [
        f".. _{anchor}:\n",
        title,
        "-" * len(title) + "\n",
        ".. list-table::\n   :header-rows: 1\n   :widths: 30 70\n",
        f"   * - {column}\n     - What it says",
        *rows,
        "",
    ]


def _literals(doc: str) -> str:
    """A member's text as reStructuredText: its `words` as literals, the rest escaped."""
    parts = re.split(r"`([^`]+)`", doc)
    return "".join(
        f"``{part}``" if odd else re.sub(r"([\\*|_])", r"\\\1", part)
        for odd, part in ((index % 2, part) for index, part in enumerate(parts))
    )
