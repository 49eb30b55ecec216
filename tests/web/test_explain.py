"""GET /api/explain/ID over a real socket: with the token, of the newest decision."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
import requests

from nodemanager.core.explain.explain import DecisionView
from nodemanager.journal.explained import explanation
from nodemanager.web.explain import SOURCE
from nodemanager.web.metrics import Metrics
from nodemanager.web.observer import WebObserver
from nodemanager.web.server import ManagementServer
from nodemanager.web.status import Board
from tests.core.build import World, world
from tests.fakes.clock import ManualClock

TOKEN = "open-sesame"
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}


class Daemon:
    """The web's side of a daemon: what watches it, and its server."""

    def __init__(self) -> None:
        self.clock = clock = ManualClock()
        board, metrics = Board(clock), Metrics("main", clock)
        self.observer = WebObserver(board, metrics)
        self.server = ManagementServer(
            board,
            metrics,
            listen=("127.0.0.1", 0),
            token=TOKEN,
            healthy_for=600.0,
        )

    def decides(self, made: World) -> DecisionView:
        made.settle()
        assert made.last is not None
        assert made.decided is not None
        self.observer.show(DecisionView(made.decided, made.last, made.settings))
        return DecisionView(made.decided, made.last, made.settings)

    def get(self, id: str) -> requests.Response:
        url = f"{self.server.url}/api/explain/{quote(id)}"
        return requests.get(url, headers=WITH_TOKEN, timeout=5)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    made.server.start()
    yield made
    made.server.stop()


@pytest.fixture
def small() -> World:
    made = world()
    made.add_record("r1", slot=7, ping_secret="s3cr3t")
    made.add_node("r1", id="zone/a/i-1")
    return made


def test_the_newest_decision_is_explained(daemon: Daemon, small: World) -> None:
    decision = daemon.decides(small)
    answer = daemon.get("compute7")
    assert answer.status_code == 200
    assert answer.json() == explanation(decision, "r1", source=SOURCE, journal=None)
    assert "s3cr3t" not in answer.text


def test_a_node_whose_id_has_slashes_is_found(daemon: Daemon, small: World) -> None:
    daemon.decides(small)
    assert daemon.get("zone/a/i-1").json()["id"] == "zone/a/i-1"


def test_it_follows_each_decision(daemon: Daemon, small: World) -> None:
    daemon.decides(small)
    small.drop_node("zone/a/i-1")
    daemon.decides(small)
    assert daemon.get("r1").json()["verdict"]["reason"] == "within_window"


def test_an_unknown_id_is_404_with_what_there_is_near(daemon: Daemon, small: World) -> None:
    daemon.decides(small)
    answer = daemon.get("compute8")
    assert answer.status_code == 404
    assert "near it: compute7" in answer.json()["description"]


def test_before_the_first_decision_it_is_503(daemon: Daemon) -> None:
    assert daemon.get("r1").status_code == 503
