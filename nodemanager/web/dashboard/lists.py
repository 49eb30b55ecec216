"""The pages of the lists, filtered and sorted as the address says; that of a range of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from nodemanager.core.explain import lists
from nodemanager.core.explain.events import QUIET
from nodemanager.errors import JournalError
from nodemanager.journal.story import Story
from nodemanager.lib.logline import Json
from nodemanager.web.dashboard.charts import RANGES, TimeRange, chart_blocks
from nodemanager.web.dashboard.overview import alerts_block
from nodemanager.web.dashboard.render import Block, Page, Table, part
from nodemanager.web.dashboard.source import ShownDecision, Source
from nodemanager.web.dashboard.tables import table
from nodemanager.web.lists import LISTS, TIMES, ListRequest, decision_row


class ListPage(NamedTuple):
    """A list of the API as a page. One of the past has a range of time."""

    name: str
    title: str
    nav: str
    is_past: bool = False


PAGES: Mapping[str, ListPage] = {
    "/nodes": ListPage("nodes", "Nodes", "Nodes"),
    "/records": ListPage("slots", "Records and their slots", "Records"),
    "/jobs": ListPage("jobs", "Waiting jobs", "Jobs"),
    "/orders": ListPage("orders", "Standing orders", "Orders"),
    "/log": ListPage("decisions", "Decisions", "Decisions", is_past=True),
}


def list_page(path: str, source: Source, seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """The page of the list at `path`, of the newest decision."""
    shown = PAGES[path]
    times = {key: query.get(key, "") for key in TIMES} if shown.is_past else {}
    made, html, answer = listed(path, shown.name, source, seen, query, times)
    html += ways(path, query, answer.get("before"))
    blocks = (alerts_block(seen), Block("list", "", html, made, wide=True))
    return Page(shown.title, shown.nav, blocks)


def listed(
    path: str,
    name: str,
    source: Source,
    seen: ShownDecision,
    query: Mapping[str, str],
    times: Mapping[str, str],
) -> tuple[Table, str, Json]:
    """The table of the chosen rows, the form that chooses them, and the list's whole answer.

    The form has the `times` of a range, where there is one.
    """
    kind, problem = LISTS[name].kind, f"no such {LISTS[name].kind.what}"
    try:
        answer = LISTS[name].answer(ListRequest(seen.decision, source.board.journal, query))
    except JournalError as error:
        answer, problem = {kind.key: []}, str(error)
    rows = answer[kind.key]
    try:
        found = kind.chosen(rows, query)
    except lists.UnknownColumnError:
        query = {**query, "sort": ""}
        found = kind.chosen(rows, query)
    sort, columns = query.get("sort", ""), kind.shown(lists.Width.PAGE)
    fields = [(key, query.get(key, ""), _choices(kind, rows, key, query)) for key in kind.filters]
    done = query.get("only") == "done" if name == "decisions" else None
    html = part("filters", path, fields, query.get("q", ""), columns, sort, times, done)
    html += part("shown_of", min(len(found), lists.MOST_ROWS), len(rows), lists.MOST_ROWS)
    head = part("heads", columns, sort, lambda sort: urlencode({**query, "sort": sort}))
    wall = seen.decision.snapshot.wall
    return table(kind, found[: lists.MOST_ROWS], wall, problem, head), html, answer


def _choices(
    kind: lists.ListKind, rows: list[lists.TableRow], key: str, query: Mapping[str, str]
) -> list[tuple[str, int]]:
    """The values that one may choose rows by, with how many there are of each."""
    counts = Counter(str(one[key]) for one in rows if one[key])
    if query.get(key):
        counts.setdefault(query[key], 0)
    return sorted(counts.items())


def ways(path: str, query: Mapping[str, str], before: int | None) -> str:
    """The ways to the newest events and to those before that number, where there are any."""
    kept = {name: value for name, value in query.items() if name != "before" and value}
    html = part("log_way", "Newest", path, urlencode(kept)) if query.get("before") else ""
    if before is None:
        return html
    return html + part("log_way", "Older", path, urlencode({**kept, "before": before}))


# What happened in a range of time, on one page to print or to send on.

MOST_EVENTS = 300
"""The most events that are told one by one: about ten printed pages."""


def incident(source: Source, seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """The range's charts, what happened in it in groups, the worst first, and one by one."""
    span = TimeRange.of(query, seen.decision.snapshot.wall)
    asked = {key: one for key, one in query.items() if key != "range"} | span.times
    groups, form, _ = listed("/incident", "events", source, seen, asked, span.times)
    done, problem = _events(source, span)
    caption = "One after the other, the oldest first"
    if len(done) > MOST_EVENTS:
        caption += f"; the first {MOST_EVENTS} of {len(done)}"
    shown = table(lists.DECISIONS, done[:MOST_EVENTS], span.end, problem or "nothing was done")
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
    journal = source.board.journal
    if journal is None:
        return [], "there is no journal"
    try:
        logged = Story(journal, span.begin, until=span.end).news()
        done = (one for one in logged if one.event not in QUIET)
        return [decision_row(number, one) for number, one in enumerate(done)], None
    except JournalError as error:
        return [], str(error)
