"""The page with the newest decisions and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from nodemanager.core.explain.lately import QUIET
from nodemanager.web.dashboard.overview import EVENT_HEAD, alerts_block, event_rows
from nodemanager.web.dashboard.page import Block, Page, Table
from nodemanager.web.dashboard.ranges import moment_of
from nodemanager.web.dashboard.render import part
from nodemanager.web.dashboard.source import ShownDecision, Source

MOST_EVENTS = 200


def decisions(source: Source, seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """The newest events, or those before the one of a number, or up to a time.

    With `only=done` without those that leave something as it is.
    """
    about, only_done = query.get("q", "").strip() or None, query.get("only") == "done"
    without = QUIET if only_done else frozenset()
    before, until = number_of(query.get("before")), moment_of(query.get("until"))
    rows, problem = event_rows(
        source, MOST_EVENTS, without=without, about=about, before=before, until=until
    )
    html = part("log_filters", about or "", only_done, query.get("until", ""))
    oldest = min(int(row.removeprefix("e")) for row in rows) if len(rows) == MOST_EVENTS else None
    html += ways("/log", query, oldest)
    table = Table("Decisions and actions", EVENT_HEAD, rows, problem or "none such")
    blocks = (alerts_block(seen), Block("list", "", html, table, wide=True))
    return Page("Decisions", "Decisions", blocks)


def ways(path: str, query: Mapping[str, str], oldest: int | None) -> str:
    """The ways to the newest events and to those before the `oldest`, where there are any."""
    html = part("log_way", "Newest", path, _query(query, None)) if query.get("before") else ""
    return html + (
        "" if oldest is None else part("log_way", "Older", path, _query(query, str(oldest)))
    )


def _query(query: Mapping[str, str], before: str | None) -> str:
    kept = {name: value for name, value in query.items() if name != "before" and value}
    return urlencode(kept if before is None else {**kept, "before": before})


def number_of(text: str | None) -> int | None:
    # More than SQLite's numbers have is no number of an event.
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None
