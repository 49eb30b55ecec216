"""GET /api/verify over a real socket: with the token, all of one decision."""

from __future__ import annotations

import requests

from nodemanager.core.explain.verify import NO_DECISION, verify
from nodemanager.journal.explained import plain
from tests.core.build import World, world
from tests.web.test_explain import WITH_TOKEN, Daemon, daemon, small

__all__ = ["daemon", "small"]


def get(daemon: Daemon, query: str = "") -> requests.Response:
    return requests.get(f"{daemon.server.url}/api/verify{query}", headers=WITH_TOKEN, timeout=5)


def test_before_the_first_decision_it_is_settling_and_no_error(daemon: Daemon) -> None:
    answer = get(daemon)
    assert answer.status_code == 200
    assert answer.json() == plain(NO_DECISION)
    assert answer.json()["open"][0]["reason"] == "no_listing"


def test_it_is_of_the_newest_decision(daemon: Daemon, small: World) -> None:
    daemon.decides(small)
    decision = daemon.decides(small)
    told = get(daemon).json()
    wanted = plain(verify(decision, daemon.clock.boottime()))
    assert (told["plan"], told["nodes"], told["open"]) == (
        wanted["plan"],
        wanted["nodes"],
        wanted["open"],
    )


def test_an_empty_pool_passes_only_where_that_is_allowed(daemon: Daemon) -> None:
    made = world(min_nodes=0)
    made.flags["demand_at"] = made.now
    daemon.decides(made)
    reasons = [one["reason"] for one in get(daemon).json()["open"]]
    assert "pool_empty" in reasons
    assert get(daemon, "?allow_empty=yes").json()["open"] == []
