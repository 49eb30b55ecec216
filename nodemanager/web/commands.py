"""The operators' commands over HTTP: each a POST that needs the token.

    POST /api/breaker/reset      {"by": NAME}
    POST /api/hold/ID            {"by": NAME, "reason": TEXT}
    POST /api/release/ID         {"by": NAME}

ID is a record's uuid or a cloud node's id. The answer is 200 {"done": true} once it is written to
the journal, 503 with the reason when it can't be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import falcon

LONGEST = 1000


class Commands(Protocol):
    """What an operator may tell the daemon. Each returns why it was not done, or None."""

    def reset_breaker(self, by: str) -> str | None: ...

    def hold(self, id: str, reason: str, by: str) -> str | None: ...

    def release(self, id: str, by: str) -> str | None: ...


class Doorkeeper(Protocol):
    def lets_in(self, request: falcon.Request) -> None:
        """Raise falcon's 401, 403 or 404 for whoever has no token."""
        ...


def add_commands(app: Any, commands: Commands, door: Doorkeeper) -> None:
    app.add_route("/api/breaker/reset", _Reset(commands, door))
    app.add_route("/api/hold/{id}", _Hold(commands, door))
    app.add_route("/api/release/{id}", _Release(commands, door))


class _Reset:
    def __init__(self, commands: Commands, door: Doorkeeper) -> None:
        self._commands = commands
        self._door = door

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        self._door.lets_in(request)
        said = _body(request)
        _answer(response, lambda: self._commands.reset_breaker(said["by"]))


class _Hold:
    def __init__(self, commands: Commands, door: Doorkeeper) -> None:
        self._commands = commands
        self._door = door

    def on_post(self, request: falcon.Request, response: falcon.Response, id: str) -> None:
        self._door.lets_in(request)
        said = _body(request)
        _answer(response, lambda: self._commands.hold(id, said["reason"], said["by"]))


class _Release:
    def __init__(self, commands: Commands, door: Doorkeeper) -> None:
        self._commands = commands
        self._door = door

    def on_post(self, request: falcon.Request, response: falcon.Response, id: str) -> None:
        self._door.lets_in(request)
        said = _body(request)
        _answer(response, lambda: self._commands.release(id, said["by"]))


def _body(request: falcon.Request) -> dict[str, str]:
    """`by` and `reason`, each a short text; both may be left out."""
    given = request.get_media(default_when_empty={})
    if not isinstance(given, dict):
        raise falcon.HTTPBadRequest(title="bad request", description="send a JSON object")
    said = {"by": "", "reason": ""}
    for key, value in given.items():
        if key not in said:
            raise falcon.HTTPBadRequest(title="bad request", description=f"unknown key {key!r}")
        if not isinstance(value, str) or len(value) > LONGEST:
            raise falcon.HTTPBadRequest(
                title="bad request", description=f"{key} is a text of at most {LONGEST} characters"
            )
        said[key] = value
    return said


def _answer(response: falcon.Response, command: Callable[[], str | None]) -> None:
    problem = command()
    if problem is not None:
        raise falcon.HTTPServiceUnavailable(title="not done", description=problem)
    response.media = {"done": True}
