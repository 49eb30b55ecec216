"""What happened in a range of time, on one page to print or to send on."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.core.explain.lately import QUIET, grouped
from nodemanager.errors import JournalError
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.story import Story
from nodemanager.web.dashboard.overview import EVENT_HEAD, event_row, groups_table
from nodemanager.web.dashboard.page import Block, Page, Table
from nodemanager.web.dashboard.ranges import RANGES, TimeRange, chart_blocks
from nodemanager.web.dashboard.render import part
from nodemanager.web.dashboard.source import ShownDecision, Source

MOST_EVENTS = 300
"""The most events that are told one by one: about ten printed pages."""


def incident(source: Source, seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """The range's charts, what happened in it in groups, the worst first, and one by one."""
    span = TimeRange.of(query, seen.picture.snapshot.wall)
    events, problem = _events(source, span)
    told = {f"i{number}": event_row(f"i{number}", one) for number, one in enumerate(events)}
    shown = dict(list(told.items())[:MOST_EVENTS])
    caption = "One after the other, the oldest first"
    if len(told) > len(shown):
        caption += f"; the first {len(shown)} of {len(told)}"
    empty = problem or "nothing was done"
    groups = groups_table("What happened, in groups", grouped(events), empty)
    head = part("incident", seen.status.pool, span.words, span.query, tuple(RANGES), span.name)
    blocks = (
        Block("range", "", head, wide=True),
        Block("groups", "What happened, the worst first", "", groups, wide=True),
        *chart_blocks(source, span),
        Block("events", caption, "", Table("Events", EVENT_HEAD, shown, empty), wide=True),
    )
    return Page("What happened", "Decisions", blocks)


def _events(source: Source, span: TimeRange) -> tuple[list[LoggedEvent], str | None]:
    """What was done in the range, the oldest first, or why that is not known."""
    journal = source.explanations.journal
    if journal is None:
        return [], "there is no journal"
    try:
        return [
            one
            for one in Story(journal, span.begin).news()
            if one.at <= span.end and one.event not in QUIET
        ], None
    except JournalError as error:
        return [], str(error)
