"""Explanations over HTTP: why a record or node is left alone.

    GET /api/explain/ID?since=EPOCH    with the token

ID is a record's uuid, a cloud node's id or name, a hostname or a slot number. The answer is 404
with similar ids when ID names nothing or more than one thing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.explain.picture import Picture
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.journal.explained import Json, told
from nodemanager.web.commands import Doorkeeper
from nodemanager.workers import Workers

SOURCE = "daemon"


class Explanations:
    """Keeps the newest decision for the web's threads; reads histories from `journal`."""

    def __init__(self, journal: Path | None) -> None:
        self._journal = journal
        self.picture: Picture | None = None
        """The newest decision, None before the first. It is immutable, so readers need no lock."""

    def told(self, id: str, since: float | None) -> Json | None:
        """The explanation of `id`, None before the first decision. Raises UnknownIdError."""
        picture = self.picture
        if picture is None:
            return None
        return told(picture, id, source=SOURCE, journal=self._journal, since=since)


def add_explain(app: Any, explanations: Explanations, door: Doorkeeper, workers: Workers) -> None:
    # Some clouds' ids contain slashes.
    app.add_route("/api/explain/{id:path}", _Explain(explanations, door, workers))


class _Explain:
    def __init__(self, explanations: Explanations, door: Doorkeeper, workers: Workers) -> None:
        self._explanations = explanations
        self._door = door
        self._workers = workers

    async def on_get(self, request: Request, response: Response, id: str) -> None:
        self._door.lets_in(request)
        since = request.get_param_as_float("since")
        try:
            shown = await self._workers.run(self._explanations.told, id, since)
        except UnknownIdError as error:
            raise falcon.HTTPNotFound(title="unknown", description=str(error)) from error
        if shown is None:
            raise falcon.HTTPServiceUnavailable(
                title="starting", description="there is no decision yet; try again", retry_after=1
            )
        response.media = shown
