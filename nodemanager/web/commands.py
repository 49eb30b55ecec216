"""The operators' commands over HTTP; each is a POST that needs the token.

    POST /api/VERB/ID   or, for the whole pool, /api/VERB
         {"by": NAME, "reason": TEXT}, with "force": [RULE, ...] or "unlisted": true where it fits

    POST /api/power/resume       {"nodes": HOSTLIST}
    POST /api/power/suspend      {"nodes": HOSTLIST}

ID is a record's uuid, a cloud node's id, or a hostname that only one record has. The answer is 200
once the command is in the journal, or where nothing was left to do; 202 for a clean that has not
ended yet; 409 where a rule forbids it; 404 for an unknown id; 503 when it can't be written. Each
answer has `result` and `message`; a refusal has `reason`, `rule` and `measures`, too. What a
scheduler's power saving says is taken with 202 at once: the daemon asks the scheduler anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.operate.replies import Command, Reply, Result, lacks_reason
from nodemanager.core.operate.verbs import CommandTarget, Takes, Verb
from nodemanager.journal.explained import plain
from nodemanager.lib.workers import Workers
from nodemanager.web.door import user_of

LONGEST = 1000
MOST_FORCED = 20

STATUS = {
    Result.DONE: falcon.HTTP_200,
    Result.ALREADY: falcon.HTTP_200,
    Result.UNDER_WAY: falcon.HTTP_202,
    Result.REFUSED: falcon.HTTP_409,
    Result.UNKNOWN: falcon.HTTP_404,
    Result.FAILED: falcon.HTTP_503,
}
_TITLES = {
    Result.REFUSED: "refused",
    Result.UNKNOWN: "unknown id",
    Result.FAILED: "not done",
}


class Commands(Protocol):
    """The receiver of operators' commands, and of what a scheduler's power saving says."""

    def power(self, direction: str, nodes: str, by: str) -> bool:
        """Pass it on without waiting; False while the daemon is still starting."""
        ...

    def give(self, command: Command) -> Reply:
        """Carry out a command; gives its outcome."""
        ...

    def ask(self, message: Callable[[Callable[[Any], None]], Any]) -> Any:
        """The daemon's answer to what `message` makes of the function that takes the answer.

        A text says why there is none.
        """
        ...

    def order(self, message: Callable[[Callable[[Any], None]], Any]) -> Any: ...


def user_named(request: Request, said: str) -> str:
    """The name of the user who gave an order.

    Over TCP it is the name that the client sends. Over the Unix socket it is the kernel's; where
    the client's differs (sudo), it is `CLIENT'S as KERNEL'S`.
    """
    user = user_of(request)
    if user is None:
        return said
    return user if said in ("", user) else f"{said} as {user}"


def add_commands(app: Any, commands: Commands, workers: Workers) -> None:
    """Add the commands' routes; each command waits for the daemon in one of `workers`."""
    for verb in Verb:
        # Some clouds' ids contain slashes.
        about = "" if verb.row.subject is CommandTarget.POOL else "/{id:path}"
        app.add_route(verb.path + about, _Order(verb, commands, workers))


@dataclass(frozen=True, slots=True)
class _Order:
    verb: Verb
    commands: Commands
    workers: Workers

    async def on_post(self, request: Request, response: Response, id: str | None = None) -> None:
        known = {"by", "reason"}
        known |= {"force"} if Takes.FORCE in self.verb.row.takes else set()
        known |= {"unlisted"} if Takes.UNLISTED in self.verb.row.takes else set()
        command = _command(self.verb, id, await body_of(request, known))
        command = replace(command, by=user_named(request, command.by))
        missing = lacks_reason(command)
        if missing is not None:
            raise bad_request(f"{missing}: send `reason`")
        reply = await self.workers.run(self.commands.give, command)
        response.status = STATUS[reply.result]
        response.media = as_json(reply)


def as_json(reply: Reply) -> dict[str, Any]:
    """The answer as JSON; an error also has falcon's `title` and `description`."""
    shown: dict[str, Any] = {"done": reply.ok, "result": reply.result.value, "message": reply.text}
    if reply.result in _TITLES:
        shown |= {"title": _TITLES[reply.result], "description": reply.text}
    for key in ("record", "node", "rule", "nearest"):
        if getattr(reply, key) is not None:
            shown[key] = getattr(reply, key)
    if reply.reason is not None:
        shown |= {"reason": reply.reason.value, "measures": plain(reply.measures)}
    return shown


def _command(verb: Verb, id: str | None, given: Mapping[str, Any]) -> Command:
    """The command of a request's body. Raises falcon's 400 for a malformed one."""
    forced, unlisted = given.get("force", []), given.get("unlisted", False)
    if not isinstance(forced, list) or len(forced) > MOST_FORCED:
        raise bad_request(f"force must be a list of at most {MOST_FORCED} rules")
    for rule in forced:
        text_of({"force": rule}, "force")
    if not isinstance(unlisted, bool):
        raise bad_request("unlisted must be true or false")
    return Command(
        verb,
        by=text_of(given, "by"),
        reason=text_of(given, "reason").strip(),
        id=None if id is None else text_of({"the id": id}, "the id"),
        forced=tuple(dict.fromkeys(forced)),
        unlisted=unlisted,
    )


async def body_of(request: Request, known: Collection[str] = ()) -> dict[str, Any]:
    """The request's body: a JSON object of the `known` keys, or of any. Raises falcon's 400."""
    given = await request.get_media(default_when_empty={})
    if not isinstance(given, dict):
        raise bad_request("send a JSON object")
    if any(key.lstrip().startswith(("{", "[")) for key in given):
        # curl -d sends JSON as a form unless it is told otherwise.
        raise bad_request("send JSON with the header `Content-Type: application/json`")
    for key in given if known else ():
        if key not in known:
            raise bad_request(f"unknown key {key!r}; the known keys are {', '.join(sorted(known))}")
    return given


def text_of(given: Mapping[str, Any], key: str) -> str:
    """The text under `key`, empty where there is none. Raises falcon's 400 for anything else."""
    value = given.get(key, "")
    if not isinstance(value, str) or len(value) > LONGEST:
        raise bad_request(f"{key} must be a text of at most {LONGEST} characters")
    return value


def bad_request(what: str) -> falcon.HTTPBadRequest:
    return falcon.HTTPBadRequest(title="bad request", description=what)


# A scheduler's own power saving says that it wants nodes up, or down.


def add_power(app: Any, power: Commands) -> None:
    for direction in ("resume", "suspend"):
        app.add_route(f"/api/power/{direction}", _Said(direction, power))


@dataclass(frozen=True, slots=True)
class _Said:
    direction: str
    power: Commands

    async def on_post(self, request: Request, response: Response) -> None:
        nodes = text_of(await body_of(request, {"nodes"}), "nodes")
        if not nodes:
            raise bad_request("nodes must name at least one node")
        if not self.power.power(self.direction, nodes, user_named(request, "")):
            raise falcon.HTTPServiceUnavailable(description="the daemon is still starting")
        response.status = falcon.HTTP_202
        response.media = {"taken": True}


Reload = Callable[[str], dict[str, Any] | None]
"""Reads the file again for whom; None where the daemon did not answer in time."""


def add_reload(app: Any, reload: Reload, workers: Workers) -> None:
    app.add_route("/api/reload", _Reload(reload, workers))


@dataclass(frozen=True, slots=True)
class _Reload:
    reload: Reload
    workers: Workers

    async def on_post(self, request: Request, response: Response) -> None:
        by = user_named(request, text_of(await body_of(request, {"by"}), "by")) or "somebody"
        reloaded = await self.workers.run(self.reload, by)
        if reloaded is None:
            raise falcon.HTTPServiceUnavailable(
                title="no answer", description="the daemon is busy; look at its log"
            )
        response.media = reloaded
