"""A dashboard without a socket, a browser that remembers its cookie, and a world to show."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from falcon import testing

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.model.annotations import Marks
from nodemanager.web.dashboard.history import ChartHistory
from nodemanager.web.status import Board
from tests.core.build import World, world
from tests.fakes.clock import ManualClock
from tests.web.manager import READ_TOKEN, TOKEN, Manager, decision_on

HOST = "127.0.0.1:8989"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def small(nodes: int = 2) -> World:
    """A world with slot 7 leaked, and nodes i-1 and so on in the other slots from 1 on."""
    made = world()
    for number in (one for one in range(1, nodes + 1) if one != 7):
        made.add_record(f"r{number}", slot=number, ping_secret="s3cr3t")
        made.add_node(f"r{number}", id=f"i-{number}")
    made.add_record("r7", slot=7)
    return made


class Console:
    """A management server with a dashboard, and one browser at it."""

    def __init__(
        self,
        journal: Path | None = None,
        token: str | None = TOKEN,
        public_url: str | None = None,
    ) -> None:
        self.history = ChartHistory()
        made = Manager(
            Board(ManualClock(), journal=journal),
            self.history,
            token=token,
            read_token=READ_TOKEN if token else None,
            public_url=public_url,
            healthy_for=60.0,
        )
        self.clock, self.board, self.daemon = made.clock, made.board, made.daemon
        self.observer, self.server = made.observer, made.server
        self.client = testing.TestClient(self.server.app)
        self.cookie: str | None = None

    def decides(self, made: World, marks: Marks | None = None, **flags: Any) -> DecisionView:
        """Show the next decision about that world; `flags` are the snapshot's."""
        made.flags |= flags
        made.settle()
        decision = decision_on(made)
        marks = replace(marks or Marks(), pool=decision.snapshot.pool_marks)
        decision = replace(decision, marks=marks)
        self.observer.show(decision)
        return decision

    def get(self, path: str, **headers: str) -> testing.Result:
        return self._ask("GET", path, {}, headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> testing.Result:
        return self._ask("POST", path, fields, headers)

    def _ask(
        self, method: str, path: str, fields: dict[str, str], headers: dict[str, str]
    ) -> testing.Result:
        host, _, port = headers.pop("Host", HOST).partition(":")
        sent = {key.replace("_", "-"): one for key, one in headers.items()}
        if self.cookie is not None:
            sent["Cookie"] = self.cookie
        body = None
        if method == "POST":
            sent = {**FORM, **sent}
            body = urlencode(fields)
        path, _, query = path.partition("?")
        answer = self.client.simulate_request(
            method,
            path,
            query_string=query,
            headers=sent,
            body=body,
            host=host,
            port=int(port or 80),
        )
        given = answer.headers.get("set-cookie")
        if given is not None:
            pair = given.partition(";")[0]
            self.cookie = pair if not pair.endswith('=""') and not pair.endswith("=") else None
        return answer

    def sign_in(self, token: str = TOKEN, name: str = "Ann", **more: str) -> testing.Result:
        return self.post("/sign-in", {"name": name, "token": token, **more})

    @property
    def form_token(self) -> str:
        """The form token in the page that is shown."""
        found = re.search(r'name="form_token" value="([^"]+)"', self.get("/nodes").text)
        assert found is not None
        return found[1]


def showing(
    made: World, marks: Marks | None = None, *, journal: Path | None = None, **flags: Any
) -> Console:
    """A console that shows that world's next decision to somebody who is signed in."""
    console = Console(journal)
    console.decides(made, marks, **flags)
    console.sign_in()
    return console
