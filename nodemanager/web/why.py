"""Why sizes don't grow or shrink, and what one waiting job gets, over HTTP; all need the token.

GET /api/why?size=NAME          the active sizes, or that one
GET /api/jobs/ID                a waiting job, or what one had that left the queue; else 404
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from falcon.asgi import Request

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.why import Blocker, SizeWhy, why
from nodemanager.journal.explained import plain
from nodemanager.journal.job import told_job
from nodemanager.lib.logline import Json
from nodemanager.lib.workers import Workers
from nodemanager.web.commands import Doorkeeper
from nodemanager.web.explain import SOURCE, ExplainResource, Explanations
from nodemanager.web.lists import aborted


def add_why(app: Any, explanations: Explanations, door: Doorkeeper, workers: Workers) -> None:
    routes: dict[str, Callable[..., Json]] = {
        "/api/why": lambda decision, _, request: answer(decision, request.get_param("size")),
        "/api/jobs/{id:path}": _job,
    }
    for path, ask in routes.items():
        app.add_route(path, ExplainResource(explanations, door, workers, ask))


def as_json(one: SizeWhy) -> Json:
    """One size of the answer of GET /api/why; each cause has its reason's sentence, `says`."""
    shown: Json = plain(asdict(one))
    shown["grows"] = [_cause(cause) for cause in one.grows]
    shown["shrinks"] = [_cause(cause) for cause in one.shrinks]
    shown["one_more"] = None if one.one_more is None else _cause(one.one_more)
    return shown


def _cause(cause: Blocker) -> Json:
    return {**plain(asdict(cause)), "says": cause.reason.doc}


def answer(decision: DecisionView, size: str | None) -> Json:
    """The answer of GET /api/why."""
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
    return told_job(decision, id, source=SOURCE, journal=journal)
