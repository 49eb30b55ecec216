"""The lists over HTTP, and why sizes don't grow or shrink; all need the token.

GET /api/nodes       every node of the newest decision
GET /api/nodes/ID    the node that ID names; else 404 with similar ids
GET /api/slots       every held slot
GET /api/jobs        the waiting jobs, in the order of the queue
GET /api/orders      the operators' orders that stand
GET /api/events      what happened, in groups, the worst first: in the last hour, or from since=TIME
                     on; also with until=TIME, id=ID, all=yes
GET /api/decisions   the journal's events one by one, the newest first; also with since=TIME,
                     until=TIME, only=done, and before=NUMBER for those before the last answer's
GET /api/why?size=NAME   the active sizes, or that one
GET /api/jobs/ID     a waiting job, or what one had that left the queue; else 404

A list takes the query of core.explain.lists: filters, `sort` and `q`. TIME is epoch seconds, or UTC
as `2026-11-28 02:30`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import falcon
from falcon.asgi import Request

from nodemanager.core.explain import inventory, lists
from nodemanager.core.explain.events import QUIET
from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.jobs import jobs
from nodemanager.core.explain.why import Blocker, SizeWhy, why
from nodemanager.core.judge.preconditions import stale_poll
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import JournalError
from nodemanager.journal.event import LEVEL, LoggedEvent
from nodemanager.journal.explained import plain
from nodemanager.journal.job import explain_job, job_json
from nodemanager.journal.story import lately, latest
from nodemanager.lib.logline import Json
from nodemanager.lib.workers import Workers
from nodemanager.web.explain import SOURCE, ExplainResource, moment_of, no_such_time
from nodemanager.web.status import Board


def as_json(one: SizeWhy) -> Json:
    """One size of the answer of GET /api/why; each cause has its reason's sentence, `says`."""
    shown: Json = plain(one)
    shown["grows"] = [_cause(cause) for cause in one.grows]
    shown["shrinks"] = [_cause(cause) for cause in one.shrinks]
    shown["one_more"] = None if one.one_more is None else _cause(one.one_more)
    return shown


def _cause(cause: Blocker) -> Json:
    return {**plain(cause), "says": cause.reason.doc}


def answer(decision: DecisionView, size: str | None) -> Json:
    made = decision.made
    return {
        "pool": decision.settings.pool,
        "plan": made.plan_id,
        "at": decision.snapshot.wall,
        "aborted": aborted(made),
        "known": sorted(one.name for one in decision.settings.sizes),
        "sizes": [as_json(one) for one in why(decision, size)],
    }


def _job(decision: DecisionView, journal: Path | None, request: Request, id: str) -> Json:
    return explain_job(decision, id, source=SOURCE, journal=journal)


LATELY_S = 3600.0
"""How far back the groups go where nobody says since when."""
MOST_DECISIONS = 200
TIMES = ("since", "until")


class ListRequest(NamedTuple):
    """What a list is made from, and the query of the address."""

    decision: DecisionView
    journal: Path | None = None
    query: Mapping[str, str] = {}

    def time(self, key: str) -> float | None:
        return moment_of(self.query.get(key))

    def events(self) -> Path:
        """The journal. Raises JournalError where there is none."""
        if self.journal is None:
            raise JournalError("there is no journal")
        return self.journal


def number_of(text: str | None) -> int | None:
    """The number of an event; more than SQLite's numbers have is none."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None


class ListAnswer(NamedTuple):
    """A list: what it is, and its whole answer before the query chooses rows."""

    kind: lists.ListKind
    answer: Callable[[ListRequest], Json]

    def asked(self, decision: DecisionView, journal: Path | None, request: Request) -> Json:
        """The answer with the rows that the request asks for. Raises falcon's 400."""
        asked = ListRequest(decision, journal, dict(parse_qsl(request.query_string)))
        for key in TIMES:
            if asked.query.get(key) and asked.time(key) is None:
                raise no_such_time(asked.query[key])
        if asked.query.get("before") and number_of(asked.query["before"]) is None:
            raise falcon.HTTPBadRequest(
                title="no such number", description=f"before={asked.query['before']}"
            )
        shown = self.answer(asked)
        try:
            rows = self.kind.chosen(shown[self.kind.key], asked.query)
        except lists.UnknownColumnError as error:
            raise falcon.HTTPBadRequest(title="no such column", description=str(error)) from error
        return {**shown, self.kind.key: rows}


def nodes(asked: ListRequest) -> Json:
    return {**_listed(asked), "nodes": plain(_taken(asked.decision).nodes)}


def slots(asked: ListRequest) -> Json:
    taken = _taken(asked.decision)
    return {**_listed(asked), "total": taken.total, "slots": plain(taken.slots)}


def waiting(asked: ListRequest) -> Json:
    """The answer of GET /api/jobs; each reason has its sentence, `says`."""
    decision = asked.decision
    return {
        **_listed(asked),
        "aborted": aborted(decision.made),
        "polled": decision.snapshot.demand is not None,
        "jobs": [job_json(one) for one in jobs(decision)],
    }


def orders(asked: ListRequest) -> Json:
    decision = asked.decision
    marks = decision.marks
    rows = inventory.standing_orders(marks, inventory.hosts_of(decision.made, marks))
    return {**_head(asked), "orders": plain(rows)}


def groups(asked: ListRequest) -> Json:
    since = asked.time("since")
    happened = lately(
        asked.events(),
        asked.decision.snapshot.wall - LATELY_S if since is None else since,
        until=asked.time("until"),
        id=asked.query.get("id"),
        quiet=asked.query.get("all") == "yes",
    )
    return {**_head(asked), **happened}


def decisions(asked: ListRequest) -> Json:
    """The answer of GET /api/decisions; the next page's are those `before` the number, if any."""
    query = asked.query
    found = latest(
        asked.events(),
        MOST_DECISIONS,
        without=QUIET if query.get("only") == "done" else (),
        about=query.get("q", "").strip() or None,
        before=number_of(query.get("before")),
        **{key: asked.time(key) for key in TIMES},
        **{key: query.get(key) or None for key in lists.DECISIONS.filters},
    )
    older = found[-1][0] if len(found) == MOST_DECISIONS else None
    rows = [decision_row(number, one) for number, one in found]
    return {**_head(asked), "before": older, "decisions": rows}


def decision_row(number: int, one: LoggedEvent) -> Json:
    return {
        "number": number,
        "at": one.at,
        "level": one.level,
        "event": one.event,
        "reason": one.reason,
        "host": one.host,
        "slot": one.slot,
        "record": one.record,
        "node": one.node,
        "plan": one.plan,
        "measures": plain({key: value for key, value in one.more.items() if key != LEVEL}),
    }


def node(decision: DecisionView, given: str) -> Json:
    """The node that `given` names. Raises UnknownIdError, also for a record without a node."""
    row = inventory.node_row(decision.made, decision.snapshot, decision.settings, given)
    if row is None:
        raise UnknownIdError(f"{given} has no listed node")
    shown: Json = plain(row)
    return shown


def aborted(made: Plan) -> Json | None:
    """Why no decision could be taken; None where one was."""
    if made.aborted is None:
        return None
    reason, measures, _ = made.aborted
    return {"reason": reason.value, "says": reason.doc, "measures": plain(measures)}


def _taken(decision: DecisionView) -> inventory.Inventory:
    return inventory.take(decision.made, decision.snapshot, decision.settings)


def _head(asked: ListRequest) -> Json:
    decision = asked.decision
    at = decision.snapshot.wall
    return {"pool": decision.settings.pool, "plan": decision.made.plan_id, "at": at}


def _listed(asked: ListRequest) -> Json:
    """The head of a list that is as old as the polls that it is made from."""
    found = stale_poll(asked.decision.snapshot, asked.decision.settings)
    if found is None:
        return {**_head(asked), "stale": None}
    source, age_s = found
    old = {"source": source, "age_s": round(age_s, 3) if math.isfinite(age_s) else None}
    return {**_head(asked), "stale": old}


LISTS: Mapping[str, ListAnswer] = {
    "nodes": ListAnswer(lists.NODES, nodes),
    "slots": ListAnswer(lists.SLOTS, slots),
    "jobs": ListAnswer(lists.JOBS, waiting),
    "orders": ListAnswer(lists.ORDERS, orders),
    "events": ListAnswer(lists.GROUPS, groups),
    "decisions": ListAnswer(lists.DECISIONS, decisions),
}


def add_lists(app: Any, board: Board, workers: Workers) -> None:
    """Add the routes of the lists, of one node and one job, and of why."""
    routes: dict[str, Callable[..., Json]] = {
        **{f"/api/{name}": listed.asked for name, listed in LISTS.items()},
        # Some clouds' ids contain slashes.
        "/api/nodes/{id:path}": lambda decision, _, request, id: node(decision, id),
        "/api/jobs/{id:path}": _job,
        "/api/why": lambda decision, _, request: answer(decision, request.get_param("size")),
    }
    for path, ask in routes.items():
        app.add_route(path, ExplainResource(board, workers, ask))
