"""Reading the file again over HTTP, as SIGHUP does.

    POST /api/reload    {"by": NAME}    with the token

The answer has `done`, the `problems` of a wrong file, which changes nothing, and the `changes`:
each has its `option`, `old` and `new` as they may be shown, and whether it is `applied` or needs a
restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.lib.workers import Workers
from nodemanager.web.commands import Doorkeeper, bad_request, text_of, told_by

Reload = Callable[[str], dict[str, Any] | None]
"""Reads the file again for whom; None where the daemon did not answer in time."""


def add_reload(app: Any, reload: Reload, door: Doorkeeper, workers: Workers) -> None:
    app.add_route("/api/reload", _Reload(reload, door, workers))


@dataclass(frozen=True, slots=True)
class _Reload:
    reload: Reload
    door: Doorkeeper
    workers: Workers

    async def on_post(self, request: Request, response: Response) -> None:
        self.door.lets_in(request)
        given = await request.get_media(default_when_empty={})
        if not isinstance(given, dict):
            raise bad_request("send a JSON object")
        by = told_by(request, text_of(given, "by"))
        told = await self.workers.run(self.reload, by)
        if told is None:
            raise falcon.HTTPServiceUnavailable(
                title="no answer", description="the daemon is busy; look at its log"
            )
        response.media = told
