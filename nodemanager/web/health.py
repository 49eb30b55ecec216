"""Health and readiness of the daemon, for load balancers and supervisors.

    GET /_health/ping   with the token, as Arvados Node Manager had it
    GET /healthz        the same without a token: whether cycles go on
    GET /_health/active whether this manager acts for its pool, and no other (503: it stands by)
    GET /readyz         whether decisions rest on fresh answers of every source

They tell no names, and nothing that an operator could not tell everybody. A health check that
fails calls for a restart; one of readiness calls for patience, or for a look at the sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.model.lease import LeaseRole
from nodemanager.lib.logline import Json
from nodemanager.web.door import Door
from nodemanager.web.status import Board, Status

OK: Json = {"health": "OK"}


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
    app.add_route("/_health/ping", _Check(health, _alive, needs_token=True))
    app.add_route("/_health/active", _Check(health, _active))
    app.add_route("/healthz", _Check(health, _alive))
    app.add_route("/readyz", _Check(health, _ready))


@dataclass(frozen=True, slots=True)
class _Check:
    """A path that is answered with what `told` gives: whether all is well, and the answer."""

    health: Health
    told: Callable[[Health], tuple[bool, Json]]
    needs_token: bool = False

    async def on_get(self, request: Request, response: Response) -> None:
        door = self.health.door
        if self.needs_token:
            door.lets_in(request)
        else:
            door.opens(request)
        is_well, response.media = self.told(self.health)
        response.status = falcon.HTTP_200 if is_well else falcon.HTTP_503


def _alive(health: Health) -> tuple[bool, Json]:
    problem = health.problem()
    return problem is None, OK if problem is None else {"health": "ERROR", "error": problem}


def _active(health: Health) -> tuple[bool, Json]:
    role = health.board.lease().role
    is_active = role is LeaseRole.ACTIVE
    return is_active, {"active": is_active, "role": role.value}


def _ready(health: Health) -> tuple[bool, Json]:
    lacking = health.lacking()
    return not lacking, {"ready": not lacking, "lacking": lacking}


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
