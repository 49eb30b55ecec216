"""Why sizes don't grow or shrink, what waiting jobs get, and what happened lately, over HTTP; all
need the token.

GET /api/why?size=NAME          the active sizes, or that one
GET /api/jobs                   the waiting jobs, in the order of the queue
GET /api/events?since=EPOCH     the journal's events since then, in groups, the worst first
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.explain.jobs import jobs
from nodemanager.core.explain.lately import grouped
from nodemanager.core.explain.lists import JOBS
from nodemanager.core.explain.picture import Picture
from nodemanager.core.explain.why import Blocker, SizeWhy, why
from nodemanager.core.plan.plan import Plan
from nodemanager.errors import JournalError
from nodemanager.journal.explained import plain
from nodemanager.journal.story import Story
from nodemanager.logline import Json
from nodemanager.web.commands import Doorkeeper
from nodemanager.web.explain import Explanations, Pictured
from nodemanager.web.inventory import as_asked
from nodemanager.workers import Workers

LATELY_S = 3600.0
"""How far back the events go where nobody says since when."""


def add_why(app: Any, explanations: Explanations, door: Doorkeeper, workers: Workers) -> None:
    app.add_route("/api/why", _Why(explanations, door, workers))
    app.add_route("/api/jobs", _Jobs(explanations, door, workers))
    app.add_route("/api/events", _Events(explanations, door, workers))


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
        "jobs": [
            {**plain(asdict(one)), "says": None if one.reason is None else one.reason.doc}
            for one in jobs(picture)
        ],
    }


def _aborted(made: Plan) -> Json | None:
    """Why no decision could be taken; None where one was."""
    if made.aborted is None:
        return None
    reason, measures, _ = made.aborted
    return {"reason": reason.value, "says": reason.doc, "measures": plain(measures)}


class _Why(Pictured):
    async def on_get(self, request: Request, response: Response) -> None:
        picture, size = self.picture(request), request.get_param("size")
        response.media = await self.workers.run(answer, picture, size)


class _Jobs(Pictured):
    async def on_get(self, request: Request, response: Response) -> None:
        shown = await self.workers.run(waiting, self.picture(request))
        response.media = as_asked(JOBS, shown, request)


class _Events(Pictured):
    async def on_get(self, request: Request, response: Response) -> None:
        picture = self.picture(request)
        since = request.get_param_as_float("since")
        if since is None:
            since = picture.snapshot.wall - LATELY_S
        quiet = request.get_param_as_bool("all") or False
        try:
            response.media = await self.workers.run(self._lately, since, quiet)
        except JournalError as error:
            raise falcon.HTTPServiceUnavailable(
                title="no journal", description=str(error)
            ) from error

    def _lately(self, since: float, quiet: bool) -> Json:
        journal = self.explanations.journal
        if journal is None:
            raise JournalError("this daemon keeps no journal in a file")
        groups = grouped(Story(journal, since).news(), quiet=quiet)
        return {"since": since, "groups": [asdict(one) for one in groups]}
