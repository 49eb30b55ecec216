"""GET /api/nodes and /api/slots over a real socket: with the token, of the newest decision (O1)."""

from __future__ import annotations

import pytest
import requests

from nodemanager.web import lists
from tests.core.build import World
from tests.web.test_explain import WITH_TOKEN, Daemon, daemon, small

__all__ = ["daemon", "small"]


def get(daemon: Daemon, path: str) -> requests.Response:
    return requests.get(f"{daemon.server.url}/api/{path}", headers=WITH_TOKEN, timeout=5)


@pytest.mark.parametrize("path", ["nodes", "slots", "nodes/compute7"])
def test_before_the_first_decision_there_is_nothing_to_list(
    daemon: Daemon, small: World, path: str
) -> None:
    assert get(daemon, path).status_code == 503
    daemon.decides(small)
    assert get(daemon, path).status_code == 200


def test_the_lists_are_of_the_newest_decision(daemon: Daemon, small: World) -> None:
    daemon.decides(small)
    decision = daemon.decides(small)
    assert get(daemon, "nodes").json() == lists.nodes(lists.ListRequest(decision))
    assert get(daemon, "slots").json() == lists.slots(lists.ListRequest(decision))


def test_one_node_is_given_by_any_name_and_an_unknown_one_is_404(
    daemon: Daemon, small: World
) -> None:
    decision = daemon.decides(small)
    (first, *_) = lists.nodes(lists.ListRequest(decision))["nodes"]
    assert get(daemon, f"nodes/{first['node']}").json() == first
    missing = get(daemon, "nodes/no-such-node")
    assert missing.status_code == 404
    assert missing.json()["title"] == "unknown"


def test_the_address_chooses_and_sorts_the_rows(daemon: Daemon, small: World) -> None:
    daemon.decides(small)
    rows = get(daemon, "slots?sort=-slot").json()["slots"]
    slots = [one["slot"] for one in rows]
    assert slots == sorted(slots, reverse=True)
    assert get(daemon, "slots?state=leaked,claim&q=COMPUTE7").json()["slots"] == [
        one for one in rows if one["host"] == "compute7" and one["state"] == "leaked"
    ]
    assert get(daemon, "jobs?state=waiting&sort=job").json()["jobs"] == []
    refused = get(daemon, "nodes?sort=colour")
    assert (refused.status_code, refused.json()["title"]) == (400, "no such column")


@pytest.mark.parametrize("time", ["banana", "1e999", "nan", "-5", "1e300", "99999-01-01"])
@pytest.mark.parametrize("path", ["events", "decisions", "explain/7"])
def test_what_is_no_time_is_refused_and_never_in_the_answer(
    daemon: Daemon, small: World, path: str, time: str
) -> None:
    """`since=1e999` was answered with `Infinity`, which is no JSON."""
    daemon.decides(small)
    for key in ("since", "until"):
        answer = get(daemon, f"{path}?{key}={time}")
        assert (answer.status_code, answer.json()["title"]) == (400, "no such time")


def test_a_page_of_decisions_that_is_none_is_refused(daemon: Daemon, small: World) -> None:
    daemon.decides(small)
    answer = get(daemon, "decisions?before=abc")
    assert (answer.status_code, answer.json()["title"]) == (400, "no such number")
