"""Explanations over HTTP: why a record or node is left alone.

    GET /api/explain/ID?since=EPOCH&until=EPOCH&all=yes    with the token

ID is a record's uuid, a cloud node's id or name, a hostname or a slot number, or a job's id. The
answer is 404 with similar ids when ID names nothing or more than one thing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.explain.explain import STANDBY, DecisionView
from nodemanager.core.explain.verify import NO_DECISION, Verification, verify
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.errors import JournalError
from nodemanager.journal.explained import MOST, Part, plain
from nodemanager.journal.job import explain_any
from nodemanager.lib.logline import Json
from nodemanager.lib.workers import Workers
from nodemanager.web.door import Door

SOURCE = "daemon"


class Explanations:
    """Keeps the newest decision for the web's threads; reads histories from `journal`.

    What was decided while this manager stood by is in the file `standby`.
    """

    def __init__(self, journal: Path | None, standby: Path | None = None) -> None:
        self._journal, self._standby = journal, standby
        self.decision: DecisionView | None = None
        """The newest decision, None before the first. It is immutable, so readers need no lock."""

    @property
    def journal(self) -> Path | None:
        """The journal that the newest decision is in."""
        stands_by = self.decision is not None and self.decision.mode == STANDBY
        return self._standby if stands_by else self._journal


@dataclass(frozen=True, slots=True)
class ExplainResource:
    """A resource that `ask` answers, from the newest decision, its journal, the request and what
    the path names."""

    explanations: Explanations
    door: Door
    workers: Workers
    ask: Callable[..., Json]

    async def on_get(self, request: Request, response: Response, **named: str) -> None:
        self.door.lets_in(request)
        decision, journal = self.explanations.decision, self.explanations.journal
        if decision is None:
            raise falcon.HTTPServiceUnavailable(
                title="starting", description="there is no decision yet; try again", retry_after=1
            )
        try:
            response.media = await self.workers.run(
                self.ask, decision, journal, request, *named.values()
            )
        except UnknownIdError as error:
            raise falcon.HTTPNotFound(title="unknown", description=str(error)) from error
        except JournalError as error:
            raise falcon.HTTPServiceUnavailable(
                title="no journal", description=str(error)
            ) from error


def add_explain(app: Any, explanations: Explanations, door: Door, workers: Workers) -> None:
    # Some clouds' ids contain slashes.
    app.add_route("/api/explain/{id:path}", ExplainResource(explanations, door, workers, _explain))


def _explain(decision: DecisionView, journal: Path | None, request: Request, id: str) -> Json:
    part = Part(
        since=_time(request, "since"),
        until=_time(request, "until"),
        most=math.inf if request.get_param_as_bool("all") else MOST,
    )
    return explain_any(decision, id, source=SOURCE, journal=journal, part=part)


def _time(request: Request, key: str) -> float | None:
    given = request.get_param(key)
    moment = moment_of(given)
    if given and moment is None:
        raise no_such_time(given)
    return moment


END_OF_TIME = 253_402_300_800.0
"""The year 10000: no calendar has a later time, and JSON no infinite one."""


def moment_of(text: str | None) -> float | None:
    """The epoch seconds of `2026-11-28 02:30`, which is UTC, or of a number; None for no time."""
    try:
        given = datetime.fromisoformat(text or "")
        moment = given.replace(tzinfo=given.tzinfo or UTC).timestamp()
    except ValueError:
        try:
            moment = float(text or "")
        except ValueError:
            return None
    return moment if 0.0 <= moment < END_OF_TIME else None


def no_such_time(given: str) -> falcon.HTTPBadRequest:
    return falcon.HTTPBadRequest(title="no such time", description=given)


# Whether the pool is at rest, over HTTP.

PATH = "/api/verify"


def add_verify(
    app: Any,
    explanations: Explanations,
    door: Door,
    workers: Workers,
    now: Callable[[], float],
) -> None:
    """Add the route; `now` is CLOCK_BOOTTIME."""
    app.add_route(PATH, _Verify(explanations, door, workers, now))


def as_json(verified: Verification) -> Json:
    """The answer of GET /api/verify."""
    shown: Json = plain(asdict(verified))
    return shown


@dataclass(frozen=True, slots=True)
class _Verify:
    explanations: Explanations
    door: Door
    workers: Workers
    now: Callable[[], float]

    async def on_get(self, request: Request, response: Response) -> None:
        self.door.lets_in(request)
        allow_empty = request.get_param_as_bool("allow_empty") or False
        response.media = await self.workers.run(self._answer, allow_empty)

    def _answer(self, allow_empty: bool) -> Json:
        decision = self.explanations.decision
        if decision is None:
            return as_json(NO_DECISION)
        return as_json(verify(decision, self.now(), allow_empty=allow_empty))
