"""A fast path around the framework for most requests: successful pings that arrive complete.

falcon takes as much time for a request as all the rest of the event loop's work for a ping. All
other requests, and refused pings, go through falcon as usual.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import falcon
import falcon.asgi

from nodemanager.httpserver.server import AsgiApp, Receive, Scope, Send
from nodemanager.lib import foreign
from nodemanager.records import wire
from nodemanager.records.pings import Ping

# The parameters of a request, from query string, form or JSON body.

MAX_BODY = 1024 * 1024
MAX_PING = 8 * 1024
"""A ping's body is read before it is known whether its sender has the secret."""
_MAX_FIELDS = 2000


def most_of(path: bytes) -> int:
    """The bytes that the body of a request of that path may have."""
    return MAX_PING if path.endswith(b"/ping") else MAX_BODY


async def read(req: falcon.asgi.Request, most: int = MAX_BODY) -> dict[str, Any]:
    """The parameters of query and body; the body's win. Raises falcon.HTTPError, a 4xx.

    `most` limits the bytes of the body.
    """
    return merged(req.query_string, req.content_type or "", await _body(req, most))


def merged(query: str, content_type: str, body: bytes) -> dict[str, Any]:
    """The parameters of a request's parts; see `read`."""
    params = _form(query) if query else {}
    if not body.strip():
        return params
    kind = content_type.split(";")[0].strip().lower()
    if kind in ("", "application/x-www-form-urlencoded"):
        return params | _form(_text(body))
    if kind != "application/json":
        raise falcon.HTTPUnsupportedMediaType(description=f"{kind[:80]} is not JSON")
    given = decode(_text(body))
    if not isinstance(given, dict):
        raise falcon.HTTPBadRequest(description="the body must be a JSON object")
    return params | given


def attributes(params: Mapping[str, Any], options: frozenset[str]) -> dict[str, Any]:
    """The record's attributes, from under `node` or directly from the body.

    In the latter case `options` are the names of the request's own parameters.
    """
    if "node" not in params:
        return {name: value for name, value in params.items() if name not in options}
    node = params["node"]
    if isinstance(node, str):
        node = decode(node)
    if not isinstance(node, dict):
        raise falcon.HTTPBadRequest(description="node must be an object")
    return node


def json_param(params: Mapping[str, Any], name: str) -> Any:
    """A JSON parameter: a text in a query or form, an already decoded value in a JSON body."""
    value = params.get(name)
    if not isinstance(value, str):
        return value
    return decode(value) if value.strip() else None


def order_param(params: Mapping[str, Any]) -> Any:
    """The parameter `order`, which may be JSON or plain text: `modified_at desc, uuid`."""
    value = params.get("order")
    plain = isinstance(value, str) and not value.lstrip().startswith(("[", '"'))
    return value if plain else json_param(params, "order")


def flag(params: Mapping[str, Any], name: str) -> bool:
    """A yes-no parameter, False where it is missing; raises a falcon 400 for another value."""
    value = params.get(name)
    if value in (None, "", False, 0, "false", "0", "no"):
        return False
    if value in (True, 1, "true", "1", "yes"):
        return True
    raise falcon.HTTPBadRequest(description=f"{name} must be true or false")


def decode(text: str) -> Any:
    """The value of a client's JSON text; raises a falcon 400 for what is none, or can't be kept."""
    try:
        return foreign.strict_loads(text)
    except ValueError as error:
        raise falcon.HTTPBadRequest(description="a value is not JSON") from error


def _form(text: str) -> dict[str, Any]:
    if "%" not in text and text.count("&") < _MAX_FIELDS:
        # A fast parser in C, but it takes percent-encoded bytes for UTF-8 without a check.
        found = falcon.uri.parse_query_string(text, keep_blank=True)
        return {name: said if isinstance(said, str) else said[-1] for name, said in found.items()}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise falcon.HTTPBadRequest(description="the form is not form-encoded UTF-8") from error
    return dict(pairs)


async def _body(req: falcon.asgi.Request, most: int) -> bytes:
    body = b"" if (req.content_length or 0) > most else await req.stream.read(most + 1)
    if (req.content_length or len(body)) > most:
        raise falcon.HTTPContentTooLarge(description=f"a body may have at most {most} bytes")
    return body


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise falcon.HTTPBadRequest(description="the body is not UTF-8") from error


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
            params = _params_of(scope, headers, first)
            if params is not None:
                body = await self._answer(Ping(path[1], params, scope["client"][0]))
        except Exception as error:
            scope[FAILED] = error
        if body is None:
            await self._app(scope, _again(first, receive), send)
            return
        shown = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": shown})
        await send({"type": "http.response.body", "body": body})


def _params_of(
    scope: Scope, headers: Mapping[bytes, bytes], first: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The parameters of a complete request; None for an incomplete one."""
    body = first.get("body", b"")
    whole = first["type"] == "http.request" and not first.get("more_body", False)
    if not whole or len(body) > MAX_PING:
        return None
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    return merged(scope["query_string"].decode(), content_type, body)


def _again(first: Mapping[str, Any], receive: Receive) -> Receive:
    """A `receive` that gives the message `first` again before the others."""
    came = [first]

    async def receiving() -> Mapping[str, Any]:
        return came.pop() if came else await receive()

    return receiving
