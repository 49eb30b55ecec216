"""A fast path around the framework for most requests: successful pings that arrive complete.

falcon takes as much time for a request as all the rest of the event loop's work for a ping. All
other requests, and refused pings, go through falcon as usual.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nodemanager.httpserver.server import AsgiApp, Receive, Scope, Send
from nodemanager.records import wire
from nodemanager.records.pings import Ping
from nodemanager.registry import params

JSON = "application/json; charset=utf-8"
FAILED = "nodemanager.failed"
"""The key in a request's scope for the error of its ping, which falcon must answer."""
_PATH = re.compile(rf"/arvados/v1/nodes/({wire.UUID.pattern})/ping")


class PingDoor:
    """The application `app` with a fast path: `answer` gives the answers to pings.

    `answered` tells how many of them it gave so far, on either path. `renew` changes the token of
    the application.
    """

    def __init__(
        self,
        app: AsgiApp,
        answer: Callable[[Ping], Awaitable[bytes]],
        answered: Callable[[], int],
        renew: Callable[[str], None],
    ) -> None:
        self._app = app
        self._answer = answer
        self.answered = answered
        self.renew = renew

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
    """The parameters of a complete request; None for an incomplete one."""
    body = first.get("body", b"")
    whole = first["type"] == "http.request" and not first.get("more_body", False)
    if not whole or len(body) > params.MAX_PING:
        return None
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    return params.merged(scope["query_string"].decode(), content_type, body)


def _again(first: Mapping[str, Any], receive: Receive) -> Receive:
    """A `receive` that gives the message `first` again before the others."""
    came = [first]

    async def receiving() -> Mapping[str, Any]:
        return came.pop() if came else await receive()

    return receiving
