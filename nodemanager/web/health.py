"""Health and readiness of the daemon, for load balancers and supervisors.

    GET /_health/ping   with the token, as Arvados Node Manager had it
    GET /healthz        the same without a token: whether cycles go on
    GET /_health/active whether this manager acts for its pool, and no other (503: it stands by)
    GET /readyz         whether decisions rest on fresh answers of every source

They tell no names, and nothing that an operator could not tell everybody. A health check that
fails calls for a restart; one of readiness calls for patience, or for a look at the sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.model.lease import LeaseRole
from nodemanager.web.door import Door
from nodemanager.web.status import Board, Status

OK = {"health": "OK"}


@dataclass(frozen=True, slots=True)
class Health:
    """What the answers rest on; `healthy_for` is the longest time in seconds between two cycles."""

    board: Board
    door: Door
    healthy_for: float

    def problem(self) -> str | None:
        """Why the process needs a restart; None while it works."""
        age_s = self.board.age()
        if age_s <= self.healthy_for:
            return None
        return f"no cycle ended for {age_s:.0f} s; the limit is {self.healthy_for:.0f} s"

    def lacking(self) -> list[str]:
        """What keeps decisions from being made, in words; empty where nothing does."""
        status = self.board.read()
        if status is None:
            return ["the first cycle has not ended yet"]
        problem = self.problem()
        return [*([problem] if problem is not None else []), *_sources(status, self.board.now())]


def add_health(app: Any, health: Health) -> None:
    """Route the four paths."""
    app.add_route("/_health/ping", _Ping(health))
    app.add_route("/_health/active", _Active(health))
    app.add_route("/healthz", _Alive(health))
    app.add_route("/readyz", _Ready(health))


class _Ping:
    def __init__(self, health: Health) -> None:
        self._health = health

    async def on_get(self, request: Request, response: Response) -> None:
        self._health.door.lets_in(request)
        _say(response, self._health.problem())


class _Active:
    def __init__(self, health: Health) -> None:
        self._health = health

    async def on_get(self, request: Request, response: Response) -> None:
        self._health.door.opens(request)
        role = self._health.board.lease().role
        is_active = role is LeaseRole.ACTIVE
        response.status = falcon.HTTP_200 if is_active else falcon.HTTP_503
        response.media = {"active": is_active, "role": role.value}


class _Alive:
    def __init__(self, health: Health) -> None:
        self._health = health

    async def on_get(self, request: Request, response: Response) -> None:
        self._health.door.opens(request)
        _say(response, self._health.problem())


class _Ready:
    def __init__(self, health: Health) -> None:
        self._health = health

    async def on_get(self, request: Request, response: Response) -> None:
        self._health.door.opens(request)
        lacking = self._health.lacking()
        response.status = falcon.HTTP_503 if lacking else falcon.HTTP_200
        response.media = {"ready": not lacking, "lacking": lacking}


def _say(response: Response, problem: str | None) -> None:
    response.status = falcon.HTTP_200 if problem is None else falcon.HTTP_503
    response.media = OK if problem is None else {"health": "ERROR", "error": problem}


def _sources(status: Status, now: float) -> list[str]:
    """What the sources lack: no complete answer yet, or a stale one."""
    limit_s = status.poll_stale_after
    found = []
    for source, poll in sorted(status.polls.items()):
        if poll.started_at is None:
            found.append(f"{source}: no complete answer yet")
        elif limit_s is not None and now - poll.started_at > limit_s:
            age_s = now - poll.started_at
            found.append(f"{source}: the last complete answer is {age_s:.0f} s old")
    missing = {"cloud", "records"} - status.polls.keys()
    return [*found, *(f"{source}: no complete answer yet" for source in sorted(missing))]
