"""The page with the newest decisions and what came of them."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.web.dashboard.overview import (
    EVENT_HEAD,
    UNCHANGED,
    alerts_block,
    event_rows,
)
from nodemanager.web.dashboard.page import Block, Page, Table
from nodemanager.web.dashboard.render import part
from nodemanager.web.dashboard.source import ShownDecision, Source

MOST_EVENTS = 200


def decisions(source: Source, seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """The newest events; with `only=done` without those that leave something as it is."""
    about, only_done = query.get("q", "").strip() or None, query.get("only") == "done"
    without = UNCHANGED if only_done else frozenset()
    rows, problem = event_rows(source, MOST_EVENTS, without=without, about=about)
    html = part("log_filters", about or "", only_done)
    table = Table("Decisions and actions", EVENT_HEAD, rows, problem or "none such")
    blocks = (alerts_block(seen), Block("list", "", html, table, wide=True))
    return Page("Decisions", "Decisions", blocks)
