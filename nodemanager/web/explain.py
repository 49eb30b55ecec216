"""Explanations over HTTP: why a record or node is left alone.

    GET /api/explain/ID?since=EPOCH    with the token

ID is a record's uuid, a cloud node's id or name, a hostname or a slot number. The answer is 404
with similar ids when ID names nothing or more than one thing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import falcon
from falcon.asgi import Request, Response

from nodemanager.core.explain.explain import STANDBY
from nodemanager.core.explain.picture import Picture
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.journal.explained import told
from nodemanager.web.commands import Doorkeeper
from nodemanager.workers import Workers

SOURCE = "daemon"


class Explanations:
    """Keeps the newest decision for the web's threads; reads histories from `journal`.

    What was decided while this manager stood by is in the file `standby`.
    """

    def __init__(self, journal: Path | None, standby: Path | None = None) -> None:
        self._journal, self._standby = journal, standby
        self.picture: Picture | None = None
        """The newest decision, None before the first. It is immutable, so readers need no lock."""

    @property
    def journal(self) -> Path | None:
        """The journal that the newest decision is in."""
        stands_by = self.picture is not None and self.picture.mode == STANDBY
        return self._standby if stands_by else self._journal


@dataclass(frozen=True, slots=True)
class Pictured:
    """A resource that is shown from the newest decision."""

    explanations: Explanations
    door: Doorkeeper
    workers: Workers

    def picture(self, request: Request) -> Picture:
        """The newest decision; raises falcon errors without the token or before the first."""
        self.door.lets_in(request)
        picture = self.explanations.picture
        if picture is None:
            raise falcon.HTTPServiceUnavailable(
                title="starting", description="there is no decision yet; try again", retry_after=1
            )
        return picture


def add_explain(app: Any, explanations: Explanations, door: Doorkeeper, workers: Workers) -> None:
    # Some clouds' ids contain slashes.
    app.add_route("/api/explain/{id:path}", _Explain(explanations, door, workers))


class _Explain(Pictured):
    async def on_get(self, request: Request, response: Response, id: str) -> None:
        picture, since = self.picture(request), request.get_param_as_float("since")
        journal = self.explanations.journal
        try:
            response.media = await self.workers.run(
                told, picture, id, source=SOURCE, journal=journal, since=since
            )
        except UnknownIdError as error:
            raise falcon.HTTPNotFound(title="unknown", description=str(error)) from error
