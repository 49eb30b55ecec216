"""What happened in a range of time, on one page to print or to send on."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.core.explain.events import QUIET
from nodemanager.core.explain.lists import DECISIONS
from nodemanager.errors import JournalError
from nodemanager.journal.story import Story
from nodemanager.lib.logline import Json
from nodemanager.web.dashboard.charts import RANGES, TimeRange, chart_blocks
from nodemanager.web.dashboard.lists import listed
from nodemanager.web.dashboard.render import Block, Page, part
from nodemanager.web.dashboard.source import ShownDecision, Source
from nodemanager.web.dashboard.tables import table
from nodemanager.web.lists import decision_row

MOST_EVENTS = 300
"""The most events that are told one by one: about ten printed pages."""


def incident(source: Source, seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """The range's charts, what happened in it in groups, the worst first, and one by one."""
    span = TimeRange.of(query, seen.decision.snapshot.wall)
    asked = {key: one for key, one in query.items() if key != "range"} | span.times
    groups, form, _ = listed("/incident", "events", source, seen, asked, span.times)
    told, problem = _events(source, span)
    caption = "One after the other, the oldest first"
    if len(told) > MOST_EVENTS:
        caption += f"; the first {MOST_EVENTS} of {len(told)}"
    shown = table(DECISIONS, told[:MOST_EVENTS], span.end, problem or "nothing was done")
    head = part("incident", seen.status.pool, span.times, span.query, tuple(RANGES), span.name)
    blocks = (
        Block("range", "", head, wide=True),
        Block("groups", "What happened, the worst first", form, groups, wide=True),
        *chart_blocks(source, span),
        Block("events", caption, "", shown, wide=True),
    )
    return Page("What happened", "Decisions", blocks)


def _events(source: Source, span: TimeRange) -> tuple[list[Json], str | None]:
    """What was done in the range, the oldest first, or why that is not known."""
    journal = source.explanations.journal
    if journal is None:
        return [], "there is no journal"
    try:
        done = (one for one in Story(journal, span.begin, until=span.end).news())
        told = (one for one in done if one.event not in QUIET)
        return [decision_row(number, one) for number, one in enumerate(told)], None
    except JournalError as error:
        return [], str(error)
