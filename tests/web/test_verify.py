"""GET /api/verify over a real socket: with the token, all of one decision."""

from __future__ import annotations

from nodemanager.core.explain.verify import NO_DECISION, verify
from nodemanager.journal.explained import plain
from tests.core.build import World, world
from tests.web.manager import Manager


def test_before_the_first_decision_it_is_settling_and_no_error(manager: Manager) -> None:
    answer = manager.ask("/api/verify")
    assert answer.status_code == 200
    assert answer.json() == plain(NO_DECISION)
    assert answer.json()["open"][0]["reason"] == "no_listing"


def test_it_is_of_the_newest_decision(manager: Manager, small: World) -> None:
    manager.decides(small)
    decision = manager.decides(small)
    told = manager.ask("/api/verify").json()
    wanted = plain(verify(decision, manager.clock.boottime()))
    assert (told["plan"], told["nodes"], told["open"]) == (
        wanted["plan"],
        wanted["nodes"],
        wanted["open"],
    )


def test_an_empty_pool_passes_only_where_that_is_allowed(manager: Manager) -> None:
    made = world(min_nodes=0)
    made.flags["demand_at"] = made.now
    manager.decides(made)
    reasons = [one["reason"] for one in manager.ask("/api/verify").json()["open"]]
    assert "pool_empty" in reasons
    assert manager.ask("/api/verify?allow_empty=yes").json()["open"] == []
