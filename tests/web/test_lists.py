"""GET /api/nodes and /api/slots over a real socket: with the token, of the newest decision (O1)."""

from __future__ import annotations

import pytest
import requests

from nodemanager.web import lists
from tests.core.build import World
from tests.web.manager import Manager


def get(manager: Manager, path: str) -> requests.Response:
    return manager.ask(f"/api/{path}")


@pytest.mark.parametrize("path", ["nodes", "slots", "nodes/compute7"])
def test_before_the_first_decision_there_is_nothing_to_list(
    manager: Manager, small: World, path: str
) -> None:
    assert get(manager, path).status_code == 503
    manager.decides(small)
    assert get(manager, path).status_code == 200


def test_the_lists_are_of_the_newest_decision(manager: Manager, small: World) -> None:
    manager.decides(small)
    decision = manager.decides(small)
    assert get(manager, "nodes").json() == lists.nodes(lists.ListRequest(decision))
    assert get(manager, "slots").json() == lists.slots(lists.ListRequest(decision))


def test_one_node_is_given_by_any_name_and_an_unknown_one_is_404(
    manager: Manager, small: World
) -> None:
    decision = manager.decides(small)
    (first, *_) = lists.nodes(lists.ListRequest(decision))["nodes"]
    assert get(manager, f"nodes/{first['node']}").json() == first
    missing = get(manager, "nodes/no-such-node")
    assert missing.status_code == 404
    assert missing.json()["title"] == "unknown"


def test_the_address_chooses_and_sorts_the_rows(manager: Manager, small: World) -> None:
    manager.decides(small)
    rows = get(manager, "slots?sort=-slot").json()["slots"]
    slots = [one["slot"] for one in rows]
    assert slots == sorted(slots, reverse=True)
    assert get(manager, "slots?state=leaked,claim&q=COMPUTE7").json()["slots"] == [
        one for one in rows if one["host"] == "compute7" and one["state"] == "leaked"
    ]
    assert get(manager, "jobs?state=waiting&sort=job").json()["jobs"] == []
    refused = get(manager, "nodes?sort=colour")
    assert (refused.status_code, refused.json()["title"]) == (400, "no such column")


@pytest.mark.parametrize("time", ["banana", "1e999", "nan", "-5", "1e300", "99999-01-01"])
@pytest.mark.parametrize("path", ["events", "decisions", "explain/7"])
def test_what_is_no_time_is_refused_and_never_in_the_answer(
    manager: Manager, small: World, path: str, time: str
) -> None:
    """`since=1e999` was answered with `Infinity`, which is no JSON."""
    manager.decides(small)
    for key in ("since", "until"):
        answer = get(manager, f"{path}?{key}={time}")
        assert (answer.status_code, answer.json()["title"]) == (400, "no such time")


def test_a_page_of_decisions_that_is_none_is_refused(manager: Manager, small: World) -> None:
    manager.decides(small)
    answer = get(manager, "decisions?before=abc")
    assert (answer.status_code, answer.json()["title"]) == (400, "no such number")
