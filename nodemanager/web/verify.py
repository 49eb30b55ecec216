"""Whether the pool is at rest, over HTTP.

    GET /api/verify?allow_empty=yes    with the token

One answer is of one decision. Before the first decision it says so by `no_listing`, not by a 503,
because a client that waits has to tell that from an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from falcon.asgi import Request, Response

from nodemanager.core.explain.verify import NO_DECISION, Verification, verify
from nodemanager.journal.explained import plain
from nodemanager.lib.logline import Json
from nodemanager.lib.workers import Workers
from nodemanager.web.commands import Doorkeeper
from nodemanager.web.explain import Explanations

PATH = "/api/verify"


def add_verify(
    app: Any,
    explanations: Explanations,
    door: Doorkeeper,
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
    door: Doorkeeper
    workers: Workers
    now: Callable[[], float]

    async def on_get(self, request: Request, response: Response) -> None:
        self.door.lets_in(request)
        allow_empty = request.get_param_as_bool("allow_empty") or False
        response.media = await self.workers.run(self._answer, allow_empty)

    def _answer(self, allow_empty: bool) -> Json:
        picture = self.explanations.picture
        if picture is None:
            return as_json(NO_DECISION)
        return as_json(verify(picture, self.now(), allow_empty=allow_empty))
