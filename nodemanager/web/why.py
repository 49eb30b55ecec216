"""Why sizes don't grow or shrink, what waiting jobs get, and what happened lately, over HTTP; all
need the token.

GET /api/why?size=NAME          the active sizes, or that one
GET /api/jobs                   the waiting jobs, in the order of the queue
GET /api/jobs/ID                one of them, or what a job had that left the queue; else 404
GET /api/events?since=EPOCH     the journal's events since then, in groups, the worst first; also
                                with until=EPOCH, id=ID, all=yes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from falcon.asgi import Request

from nodemanager.core.explain.jobs import jobs
from nodemanager.core.explain.lists import JOBS
from nodemanager.core.explain.picture import Picture
from nodemanager.core.explain.why import Blocker, SizeWhy, why
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import JournalError
from nodemanager.journal.explained import plain
from nodemanager.journal.job import job_json, told_job
from nodemanager.journal.story import lately
from nodemanager.lib.logline import Json
from nodemanager.lib.workers import Workers
from nodemanager.web.commands import Doorkeeper
from nodemanager.web.explain import SOURCE, ExplainResource, Explanations
from nodemanager.web.inventory import as_asked

LATELY_S = 3600.0
"""How far back the events go where nobody says since when."""


def add_why(app: Any, explanations: Explanations, door: Doorkeeper, workers: Workers) -> None:
    routes: dict[str, Callable[..., Json]] = {
        "/api/why": lambda picture, _, request: answer(picture, request.get_param("size")),
        "/api/jobs": lambda picture, _, request: as_asked(JOBS, waiting(picture), request),
        "/api/jobs/{id:path}": _job,
        "/api/events": _events,
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


def answer(picture: Picture, size: str | None) -> Json:
    """The answer of GET /api/why."""
    made = picture.made
    return {
        "pool": picture.settings.pool,
        "plan": made.plan_id,
        "at": picture.snapshot.wall,
        "aborted": _aborted(made),
        "known": sorted(one.name for one in picture.settings.sizes),
        "sizes": [as_json(one) for one in why(picture, size)],
    }


def waiting(picture: Picture) -> Json:
    """The answer of GET /api/jobs; each reason has its sentence, `says`."""
    return {
        "pool": picture.settings.pool,
        "plan": picture.made.plan_id,
        "at": picture.snapshot.wall,
        "aborted": _aborted(picture.made),
        "polled": picture.snapshot.demand is not None,
        "jobs": [job_json(one) for one in jobs(picture)],
    }


def _aborted(made: Plan) -> Json | None:
    """Why no decision could be taken; None where one was."""
    if made.aborted is None:
        return None
    reason, measures, _ = made.aborted
    return {"reason": reason.value, "says": reason.doc, "measures": plain(measures)}


def _job(picture: Picture, journal: Path | None, request: Request, id: str) -> Json:
    return told_job(picture, id, source=SOURCE, journal=journal)


def _events(picture: Picture, journal: Path | None, request: Request) -> Json:
    if journal is None:
        raise JournalError("this daemon keeps no journal in a file")
    since = request.get_param_as_float("since")
    return lately(
        journal,
        picture.snapshot.wall - LATELY_S if since is None else since,
        until=request.get_param_as_float("until"),
        id=request.get_param("id"),
        quiet=request.get_param_as_bool("all") or False,
    )
