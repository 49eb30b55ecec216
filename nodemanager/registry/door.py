"""The way of most requests, past the framework: a ping that comes whole and is answered.

falcon takes as long to look at a request as all the rest does that the event loop has to do for a
ping. Whatever is no such ping, and whatever is refused, goes through falcon as ever.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nodemanager.httpserver import AsgiApp, Receive, Scope, Send
from nodemanager.records import wire
from nodemanager.records.pings import Ping
from nodemanager.registry import params

JSON = "application/json; charset=utf-8"
FAILED = "nodemanager.failed"
"""In a request's scope: why its ping failed, for falcon to answer."""
_PATH = re.compile(rf"/arvados/v1/nodes/({wire.UUID.pattern})/ping")


class PingDoor:
    """The application `app`, where `answer` gives the answer to a ping at once."""

    def __init__(self, app: AsgiApp, answer: Callable[[Ping], Awaitable[bytes]]) -> None:
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = _PATH.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        headers = dict(scope["headers"])
        if path is None or b"x-http-method-override" in headers or not scope["client"]:
            await self._app(scope, receive, send)
            return
        first = await receive()
        body = None
        try:
            told = _told(scope, headers, first)
            if told is not None:
                body = await self._answer(Ping(path[1], told, scope["client"][0]))
        except Exception as error:
            scope[FAILED] = error
        if body is None:
            await self._app(scope, _again(first, receive), send)
            return
        shown = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": shown})
        await send({"type": "http.response.body", "body": body})


def _told(
    scope: Scope, headers: Mapping[bytes, bytes], first: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The parameters of a request that is here as a whole, else None."""
    body = first.get("body", b"")
    whole = first["type"] == "http.request" and not first.get("more_body", False)
    if not whole or len(body) > params.MAX_BODY:
        return None
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    return params.merged(scope["query_string"].decode(), content_type, body)


def _again(first: Mapping[str, Any], receive: Receive) -> Receive:
    """What `receive` gives, the message that was taken from it included."""
    came = [first]

    async def receiving() -> Mapping[str, Any]:
        return came.pop() if came else await receive()

    return receiving
