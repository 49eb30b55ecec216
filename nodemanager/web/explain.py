"""Explanations over HTTP: why a record or node is left alone.

    GET /api/explain/ID?since=EPOCH&until=EPOCH&all=yes    with the token

ID is a record's uuid, a cloud node's id or name, a hostname or a slot number, or a job's id. The
answer is 404 with similar ids when ID names nothing or more than one thing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.verify import NO_DECISION, verify
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.errors import JournalError
from nodemanager.journal.explained import MOST, Part, plain
from nodemanager.journal.job import explain_any
from nodemanager.lib.logline import Json
from nodemanager.lib.workers import Workers
from nodemanager.web.status import Board

SOURCE = "daemon"


@dataclass(frozen=True, slots=True)
class ExplainResource:
    """A resource that `ask` answers, from the newest decision, its journal, the request and what
    the path names."""

    board: Board
    workers: Workers
    ask: Callable[..., Json]

    async def on_get(self, request: Request, response: Response, **named: str) -> None:
        decision, journal = self.board.decision, self.board.journal
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


def add_explain(app: Any, board: Board, workers: Workers) -> None:
    # Some clouds' ids contain slashes.
    app.add_route("/api/explain/{id:path}", ExplainResource(board, workers, _explain))


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


def add_verify(app: Any, board: Board, workers: Workers) -> None:
    app.add_route("/api/verify", _Verify(board, workers))


@dataclass(frozen=True, slots=True)
class _Verify:
    board: Board
    workers: Workers

    async def on_get(self, request: Request, response: Response) -> None:
        allow_empty = request.get_param_as_bool("allow_empty") or False
        response.media = await self.workers.run(self._answer, allow_empty)

    def _answer(self, allow_empty: bool) -> Json:
        decision, verified = self.board.decision, NO_DECISION
        if decision is not None:
            verified = verify(decision, self.board.now(), allow_empty=allow_empty)
        shown: Json = plain(verified)
        return shown
