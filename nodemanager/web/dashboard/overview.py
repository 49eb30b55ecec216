"""The first page: what is wrong, the slots, the nodes, the demand, and what happened lately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from nodemanager.core.explain.events import QUIET, SEVERITY, grouped
from nodemanager.core.explain.inventory import slot_states
from nodemanager.core.explain.lists import DECISIONS, GROUPS
from nodemanager.core.explain.why import why
from nodemanager.core.model.breaker import HOW_TO_CLEAR
from nodemanager.core.model.reasons import Reason
from nodemanager.core.operate.verbs import STANDING, UNDO, Verb
from nodemanager.core.plan.leftovers import LedgerState
from nodemanager.core.plan.slots import Holder
from nodemanager.core.safety.lease import LeaseRole
from nodemanager.errors import JournalError
from nodemanager.journal.story import group_json, latest
from nodemanager.lib.logline import Json
from nodemanager.web.dashboard.charts import RANGES, TimeRange, chart_blocks
from nodemanager.web.dashboard.render import (
    Block,
    Page,
    Table,
    act_path,
    doc_of,
    heads,
    part,
    row_id,
    words,
)
from nodemanager.web.dashboard.source import ShownDecision, Source
from nodemanager.web.dashboard.tables import table
from nodemanager.web.lists import ListRequest, decisions, orders

LATEST = 12
LATELY_S = 3600.0
TITLES = {
    Reason.BACKLOG_HELD: "A backlog is held",
    Reason.UNUSED_RECORDS: "Far more records than needed",
}
"""The titles of notices; the others are of stuck slots."""
REFUSED = {
    Reason.NO_FREE_SLOT: "No slot is free",
    Reason.AT_QUOTA: "The cloud's quota is reached",
    Reason.BOOT_LOOP: "Boots come to nothing",
    Reason.SIZE_RESTS: "The cloud has no room",
    Reason.PLACES_REST: "The cloud has no room",
    Reason.NOT_AUTHORISED: "The cloud refuses the credentials",
    Reason.UNPRICED_SIZE: "A size has no price",
    Reason.NOT_IN_SCHEDULER: "The scheduler does not know the node",
}
"""What is wrong where wanted nodes are refused for that reason; `max_nodes` is as it was set."""
LEVELS = ("bad", "odd", "good")
"""The levels of alerts, the worst first."""
WARNINGS = SEVERITY[: SEVERITY.index("warning") + 1]


@dataclass(frozen=True, slots=True)
class Alert:
    """What an operator should see first. `acts` are the orders that end it, with their labels,
    `links` the pages that tell more."""

    level: str
    title: str
    text: str
    since: float | None = None
    acts: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def overview(source: Source, seen: ShownDecision, query: Mapping[str, str]) -> Page:
    """The first page; `query` has the range of the charts."""
    span = TimeRange.of(query, seen.decision.snapshot.wall)
    found = sorted([*alerts(seen), *_waiting(seen)], key=_rank)
    slots, *others = chart_blocks(source, span)
    ranges = part("ranges", "/", tuple(RANGES), span.name, span.query)
    blocks = (
        Block("alerts", "", part("alerts", found or [_calm(seen)]), wide=True),
        *_warnings(source, seen),
        _slots(seen),
        replace(slots, html=ranges + slots.html),
        Block("nodes", "Nodes", part("counts", seen.status, asdict(seen.status.nodes))),
        _demand(seen),
        Block("health", "Breaker, lease, polls", part("health", seen)),
        Block("orders", "Operators' orders", part("orders", *_marks(seen))),
        *others,
        _why(seen),
        _stream(source, seen),
    )
    return Page("Overview", "Overview", blocks)


def alerts_block(seen: ShownDecision) -> Block:
    """What is wrong with the pool as a whole, for the top of every page."""
    return Block("alerts", "", part("alerts", sorted(alerts(seen), key=_rank)), wide=True)


def _rank(alert: Alert) -> int:
    return LEVELS.index(alert.level)


def _calm(seen: ShownDecision) -> Alert:
    states, total = slot_states(seen.decision.made), seen.status.slots.total
    with_node = seen.status.slots.held_by.get(Holder.LISTED_NODE.value, 0)
    held = "" if states is None else f"{with_node} slots have a node"
    free = "" if states is None or total is None else f", {states.free} of {total} are free"
    return Alert("good", "All is well.", f"{held}{free}.")


def _waiting(seen: ShownDecision) -> Iterator[Alert]:
    """What polls, slots and demand wait for, if it is no limit that was set."""
    status, states = seen.status, slot_states(seen.decision.made)
    if states is not None and states.leaked:
        text = f"{states.leaked}: their nodes are gone, and their windows are over."
        links = (("Records", "/records?state=leaked"),)
        yield Alert("odd", "Slots are leaked", text, links=links)
    yield from _unanswered(seen, old=False)
    waiting = Counter[Reason]()
    for (_, reason), count in status.refused.items():
        waiting[Reason(reason)] += count
    jobs = (("Jobs", "/jobs?state=waiting"),)
    for why_not, count in waiting.items():
        if why_not in REFUSED:
            text = f"Wanted nodes that wait: {count}. {why_not.doc}"
            yield Alert("odd", REFUSED[why_not], text, links=jobs)
    if status.unsatisfiable:
        text = f"{len(status.unsatisfiable)}: no boot can ever serve them."
        links = (("Jobs", "/jobs?state=impossible"),)
        yield Alert("odd", "Jobs can't be served", text, links=links)


def _warnings(source: Source, seen: ShownDecision) -> Iterator[Block]:
    """What the journal warned of in the last hour, if anything; it may have ended since."""
    journal, since = source.board.journal, seen.decision.snapshot.wall - LATELY_S
    try:
        newest = [] if journal is None else latest(journal, 500, without=QUIET)
    except JournalError:
        # The list of what was done last says so.
        return
    groups = grouped(one for _, one in newest if one.at >= since)
    if bad := [group_json(one) for one in groups if one.level in WARNINGS]:
        warned = table(GROUPS, bad, seen.decision.snapshot.wall, "none")
        link = '<p><a href="/incident?range=1h">What happened in the last hour</a></p>'
        yield Block("warnings", "Warned of in the last hour", link, warned, wide=True)


def _unanswered(seen: ShownDecision, *, old: bool) -> Iterator[Alert]:
    """The polls without an answer: those too `old` to decide from, which every page rests on, or
    those that began to fail."""
    status = seen.status
    for source, poll in status.polls.items():
        is_old = status.is_old(poll, seen.decision.snapshot.now)
        if is_old is old and (poll.failures_in_a_row or (old and poll.started_at is not None)):
            text = f"Polls that failed in a row: {poll.failures_in_a_row}; the last answer came"
            if poll.error is not None:
                text = f"{poll.error}. {text}"
            level = "bad" if old else "odd"
            yield Alert(level, f"No answer from {source}", text, seen.wall(poll.started_at))


def alerts(seen: ShownDecision) -> Iterator[Alert]:
    status = seen.status
    reset = (("Reset the breaker…", act_path("breaker_reset")),)
    for breaker in status.breaker.parts:
        assert breaker.cause is not None
        counts = ", ".join(f"{name} {count}" for name, count in breaker.detail.items())
        text = f"{words(breaker.cause.value)}: {counts}" if counts else words(breaker.cause.value)
        text += f". Nothing is freed or destroyed. It {HOW_TO_CLEAR[breaker.cause]}."
        opened = seen.wall(breaker.opened_at)
        yield Alert("bad", "The breaker is open", text, opened, reset)
    if status.mode == "read-only":
        yield Alert("bad", "This daemon is read-only", status.read_only or "look at its log")
    elif status.mode == "dry-run":
        yield Alert("odd", "Dry run", "It only tells what it would do: nothing is written.")
    elif status.lease.role is LeaseRole.STANDBY:
        holder = status.lease.holder or "Another manager"
        yield Alert("odd", "This manager stands by", f"{holder} acts for this pool.")
    elif not status.lease.is_active:
        why = status.lease.error or "Another daemon may act for this pool."
        yield Alert("bad", "The lease is not held", why)
    yield from _unanswered(seen, old=True)
    for kind, one in STANDING.items():
        mark = status.marks.pool.get(kind)
        if mark is not None:
            acts = ((f"{UNDO[kind].row.heading}…", act_path(UNDO[kind].value)),)
            text = f"by {mark.by or 'somebody'}: {mark.reason}"
            yield Alert(one.level, one.title, text, mark.at, acts)
    if status.aborted is not None:
        yield Alert("bad", f"No decision: {status.aborted}", doc_of(status.aborted))
    for notice in status.notices:
        what = "slots" if notice.slots else "records"
        text = f"{notice.count} {what}: {doc_of(notice.reason.value)} {notice.clear}."
        yield Alert("odd", TITLES.get(notice.reason, "Slots are stuck"), text)
    failed = sum(
        count for (_, state), count in status.leftovers.items() if state is LedgerState.FAILED
    )
    if failed:
        text = f"{failed} could not be released, and are tried again."
        yield Alert("odd", "Leftovers of nodes", text)


def _slots(seen: ShownDecision) -> Block:
    states = slot_states(seen.decision.made)
    slots = seen.status.slots
    if states is None:
        return Block("slots", "Slots", "<p class=dim>The last decision counted none.</p>")
    leaks = [
        {
            "count": leak.count,
            "leaked": leak.leaked,
            "cause": leak.cause.value,
            "oldest": seen.ahead(None if leak.oldest_s is None else -leak.oldest_s),
            "free": seen.ahead(leak.free_in_s),
        }
        for leak in slots.leaks
    ]
    next_free = seen.ahead(slots.earliest_free_s) if states.free == 0 else None
    return Block("slots", "Slots", part("slots", states, slots.total, leaks, next_free))


def _demand(seen: ShownDecision) -> Block:
    wants = seen.decision.made.wants
    granted = Counter((size.name, why.value) for size, why in (wants.boots if wants else ()))
    return Block("demand", "Demand", part("demand", seen, granted))


def _why(seen: ShownDecision) -> Block:
    rows = {}
    for one in why(seen.decision):
        id = row_id(f"size {one.size}")
        rows[id] = part("why_row", id, one, seen.decision.snapshot.wall)
    head = heads("size", "nodes", "wished", "does not grow", "does not shrink", numbers=("wished",))
    table = Table("What keeps each size from growing and shrinking", head, rows, "no size")
    return Block("why", "Sizes", "", table, wide=True)


def _marks(seen: ShownDecision) -> tuple[list[Json], list[tuple[str, str]]]:
    """The standing orders, the pool's first, and what can be ordered of the whole pool."""
    pool = [UNDO[kind] if kind in seen.status.marks.pool else Verb(kind) for kind in STANDING]
    return orders(ListRequest(seen.decision))["orders"], [(one, one.row.heading) for one in pool]


def _stream(source: Source, seen: ShownDecision) -> Block:
    asked = ListRequest(seen.decision, source.board.journal, {"only": "done"})
    try:
        rows, problem = decisions(asked)["decisions"][:LATEST], "nothing yet"
    except JournalError as error:
        rows, problem = [], str(error)
    done = table(DECISIONS, rows, seen.decision.snapshot.wall, problem)
    return Block("stream", "Lately", '<p><a href="/log">All decisions</a></p>', done, wide=True)
