"""GET /api/explain/ID over a real socket: with the token, of the newest decision."""

from __future__ import annotations

from urllib.parse import quote

import requests

from nodemanager.journal.explained import explanation
from nodemanager.web.explain import SOURCE
from tests.core.build import World
from tests.web.manager import Manager


def explained(manager: Manager, id: str) -> requests.Response:
    return manager.ask(f"/api/explain/{quote(id)}")


def test_the_newest_decision_is_explained(manager: Manager, small: World) -> None:
    decision = manager.decides(small)
    answer = explained(manager, "compute7")
    assert answer.status_code == 200
    assert answer.json() == explanation(decision, "r1", source=SOURCE, journal=None)
    assert "s3cr3t" not in answer.text


def test_a_node_whose_id_has_slashes_is_found(manager: Manager, small: World) -> None:
    manager.decides(small)
    assert explained(manager, "zone/a/i-1").json()["id"] == "zone/a/i-1"


def test_it_follows_each_decision(manager: Manager, small: World) -> None:
    manager.decides(small)
    small.drop_node("zone/a/i-1")
    manager.decides(small)
    assert explained(manager, "r1").json()["verdict"]["reason"] == "within_window"


def test_an_unknown_id_is_404_with_what_there_is_near(manager: Manager, small: World) -> None:
    manager.decides(small)
    answer = explained(manager, "compute8")
    assert answer.status_code == 404
    assert "near it: compute7" in answer.json()["description"]


def test_before_the_first_decision_it_is_503(manager: Manager) -> None:
    assert explained(manager, "r1").status_code == 503
