"""The lists of nodes, of records that hold a slot and of waiting jobs, filtered and sorted as the
address says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from nodemanager.core.explain import inventory
from nodemanager.core.explain.inventory import NodeRow, SlotRow
from nodemanager.core.explain.jobs import WaitingJob, jobs
from nodemanager.web.dashboard.overview import alerts_block
from nodemanager.web.dashboard.page import Block, Page, Table, row_id
from nodemanager.web.dashboard.render import part
from nodemanager.web.dashboard.source import ShownDecision

MOST_ROWS = 2000
"""The most rows of one page; more make a phone slow."""


class DashboardColumn(NamedTuple):
    """A column: its heading, and the field that it is sorted by, if it can be."""

    name: str
    field: str
    number: bool = False
    sortable: bool = True


NODES = (
    DashboardColumn("host", "host"),
    DashboardColumn("node", "node"),
    DashboardColumn("size", "size"),
    DashboardColumn("state", "state"),
    DashboardColumn("age", "since", number=True),
    DashboardColumn("slot", "slot", number=True),
    DashboardColumn("reason", "reason"),
    DashboardColumn("orders", "orders"),
)
RECORDS = (
    DashboardColumn("host", "host"),
    DashboardColumn("slot", "slot", number=True),
    DashboardColumn("state", "state"),
    DashboardColumn("node", "node"),
    DashboardColumn("quiet", "quiet", number=True),
    DashboardColumn("free in", "free", number=True),
    DashboardColumn("reason", "reason"),
    DashboardColumn("orders", "orders"),
)


JOBS = (
    DashboardColumn("job", "job"),
    DashboardColumn("state", "state"),
    DashboardColumn("nodes", "wants", number=True),
    DashboardColumn("asks", "asks"),
    DashboardColumn("size", "size"),
    DashboardColumn("has", "has"),
    DashboardColumn("reason", "reason"),
    DashboardColumn("may end", "ends", number=True),
)


class JobLine(NamedTuple):
    """A waiting job as its row shows it; `place` is that in the queue, `ends` epoch seconds."""

    place: int
    job: str
    state: str
    wants: int
    asks: str
    size: str | None
    has: str
    reason: str | None
    ends: int | None


class NodeLine(NamedTuple):
    """A node as its row shows it. `since` is epoch seconds, so that a row stays the same."""

    host: str | None
    node: str | None
    size: str | None
    state: str
    since: int | None
    slot: int | None
    reason: str | None
    orders: tuple[str, ...]
    record: str | None
    name: str | None


class SlotLine(NamedTuple):
    """A held slot as its row shows it; `quiet` and `free` are epoch seconds."""

    host: str | None
    slot: int
    state: str
    node: str | None
    quiet: int | None
    free: int | None
    reason: str | None
    orders: tuple[str, ...]
    record: str


@dataclass(frozen=True, slots=True)
class PageQuery:
    """What the address of a list asks for."""

    path: str
    query: Mapping[str, str]

    def get(self, name: str) -> str:
        return self.query.get(name, "")

    def chosen(self, lines: Iterable[Any], filters: Sequence[str]) -> list[Any]:
        """The lines that match the filters and contain the text."""
        given = {name: self.get(name) for name in filters if self.get(name)}
        text = self.get("q").strip().lower()
        return [
            one
            for one in lines
            if all(str(getattr(one, name) or "") == value for name, value in given.items())
            and (not text or any(isinstance(it, str) and text in it.lower() for it in one))
        ]

    def ordered(
        self, lines: list[Any], columns: Sequence[DashboardColumn], first: str
    ) -> list[Any]:
        """The lines by the column that the address names; by the field `first` without one."""
        sort = self.get("sort")
        field = next((one.field for one in columns if one.name == sort.removeprefix("-")), first)
        there = [one for one in lines if getattr(one, field) is not None]
        rest = [one for one in lines if getattr(one, field) is None]
        # The younger one's moment is the later one.
        backwards = sort.startswith("-") is not (field in ("since", "quiet"))
        there.sort(key=lambda one: getattr(one, field), reverse=backwards)
        return there + rest

    def with_sort(self, sort: str) -> str:
        return urlencode({**self.query, "sort": sort})


def nodes(seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """All nodes of the newest decision."""
    wall = seen.picture.snapshot.wall
    lines = [_node_line(one, wall) for one in _taken(seen).nodes]
    wanted = PageQuery("/nodes", query)
    table, html = _table(
        lines, wanted, NODES, ("state", "size", "reason"), "Cloud nodes", _node_row, "no such node"
    )
    blocks = (alerts_block(seen), Block("list", "", html, table, wide=True))
    return Page("Nodes", "Nodes", blocks)


def records(seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """All records that hold a slot."""
    wall = seen.picture.snapshot.wall
    lines = [_slot_line(one, wall) for one in _taken(seen).slots]
    wanted = PageQuery("/records", query)
    table, html = _table(
        lines, wanted, RECORDS, ("state", "reason"), "Held slots", _slot_row, "no such slot"
    )
    blocks = (alerts_block(seen), Block("list", "", html, table, wide=True))
    return Page("Records and their slots", "Records", blocks)


def waiting(seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """The waiting jobs, the queue's first job first."""
    wall = seen.picture.snapshot.wall
    lines = [_job_line(place, one, wall) for place, one in enumerate(jobs(seen.picture))]
    table, html = _table(
        lines,
        PageQuery("/jobs", query),
        JOBS,
        ("state", "size", "reason"),
        "Waiting jobs",
        _job_row,
        "no such job",
        first="place",
    )
    blocks = (alerts_block(seen), Block("list", "", html, table, wide=True))
    return Page("Waiting jobs", "Jobs", blocks)


def _taken(seen: ShownDecision) -> inventory.Inventory:
    picture = seen.picture
    return inventory.take(picture.made, picture.snapshot, picture.settings)


def _node_line(one: NodeRow, wall: float) -> NodeLine:
    since = None if one.age_s is None else round(wall - one.age_s)
    return NodeLine(
        *(one.host, one.node, one.size, one.state, since, one.slot, one.reason, one.orders),
        *(one.record, one.name),
    )


def _job_line(place: int, one: WaitingJob, wall: float) -> JobLine:
    coming = (f"{one.coming} coming",) if one.coming else ()
    return JobLine(
        *(place, one.job, one.state.value, one.count, one.asks, one.size),
        *(", ".join((*one.nodes, *coming)), None if one.reason is None else one.reason.value),
        None if one.in_s is None else round(wall + one.in_s),
    )


def _slot_line(one: SlotRow, wall: float) -> SlotLine:
    # A record whose node is listed is pinged again and again: its quiet time says nothing.
    is_quiet = one.state != "listed_node" and one.quiet_s is not None
    return SlotLine(
        *(one.host, one.slot, one.state, one.node),
        round(wall - (one.quiet_s or 0.0)) if is_quiet else None,
        None if one.free_in_s is None else round(wall + one.free_in_s),
        *(one.reason, one.orders, one.record),
    )


@lru_cache(maxsize=20_000)
def _node_row(line: NodeLine) -> tuple[str, str]:
    id = row_id(f"node {line.node} {line.record}")
    return id, part("node_row", id, line)


@lru_cache(maxsize=20_000)
def _slot_row(line: SlotLine) -> tuple[str, str]:
    id = row_id(f"record {line.record}")
    return id, part("slot_row", id, line)


@lru_cache(maxsize=20_000)
def _job_row(line: JobLine) -> tuple[str, str]:
    id = row_id(f"job {line.job}")
    return id, part("job_row", id, line)


def _table(
    lines: list[Any],
    wanted: PageQuery,
    columns: Sequence[DashboardColumn],
    filters: Sequence[str],
    caption: str,
    row: Callable[[Any], tuple[str, str]],
    empty: str,
    first: str = "slot",
) -> tuple[Table, str]:
    """The table of the wanted lines, and above it the filters with how many there are of each."""
    chosen = wanted.chosen(lines, filters)
    shown = wanted.ordered(chosen, columns, first)[:MOST_ROWS]
    sort = wanted.get("sort")
    fields = []
    for name in filters:
        counts = Counter(str(getattr(one, name)) for one in lines if getattr(one, name))
        if wanted.get(name):
            counts.setdefault(wanted.get(name), 0)
        fields.append((name, wanted.get(name), sorted(counts.items())))
    html = part("filters", wanted.path, fields, wanted.get("q"), sort, len(shown), len(lines))
    html += part("shown_of", len(shown), len(lines), MOST_ROWS)
    head = part("heads", columns, sort, wanted.with_sort)
    return Table(caption, head, dict(map(row, shown)), empty), html
