"""A scheduler's own power saving over HTTP: it says that it wants nodes up, or down.

    POST /api/power/resume     {"nodes": HOSTLIST}
    POST /api/power/suspend    {"nodes": HOSTLIST}

The answer is 202 at once: the daemon asks the scheduler anew, and the next plan decides by what its
nodes' states ask for. Both need the token, or the Unix socket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.web.commands import Commands, Doorkeeper, bad_request, text_of, told_by

DIRECTIONS = ("resume", "suspend")


def add_power(app: Any, power: Commands, door: Doorkeeper) -> None:
    for direction in DIRECTIONS:
        app.add_route(f"/api/power/{direction}", _Said(direction, power, door))


@dataclass(frozen=True, slots=True)
class _Said:
    direction: str
    power: Commands
    door: Doorkeeper

    async def on_post(self, request: Request, response: Response) -> None:
        self.door.lets_in(request)
        given = await request.get_media(default_when_empty={})
        if not isinstance(given, dict) or given.keys() - {"nodes"}:
            raise bad_request('send {"nodes": HOSTLIST}')
        nodes = text_of(given, "nodes")
        if not nodes:
            raise bad_request("nodes must name at least one node")
        if not self.power.power(self.direction, nodes, told_by(request, "")):
            raise falcon.HTTPServiceUnavailable(description="the daemon is still starting")
        response.status = falcon.HTTP_202
        response.media = {"taken": True}
