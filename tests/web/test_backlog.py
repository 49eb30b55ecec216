"""The backlog over a real socket: who may ask, what is refused, and what is never told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from nodemanager.core.operate import backlog
from tests.cases import cases
from tests.core.build import World, world
from tests.web.manager import WITH_TOKEN, Manager

ORDER = {
    "by": "eve",
    "pool": "main",
    "store": "s",
    "account": "a",
    "items": [{"deed": "clean", "id": "r00", "version": "v1"}],
}


def held_back() -> tuple[World, backlog.IndexedPlan]:
    made = world(max_cleans_per_cycle=2)
    made.flags["first_clean"] = True
    for number in range(3):
        made.add_record(f"r{number:02}", quiet=1e6, ping_secret="hush-hush")
    made.settle()
    snapshot = made.snapshot()
    seen = backlog.indexed_plan(made.plan(), snapshot)
    assert seen is not None
    return made, seen


class Daemon:
    """Answers as a daemon that holds three records back."""

    def __init__(self) -> None:
        self.world, self.seen = held_back()
        self.orders: list[backlog.Order] = []
        self.refuses: str | None = None
        self.starting = False
        self.marks: backlog.ItemMarks = {}

    def ask(self, message: Callable[[Callable[[Any], None]], object]) -> Any:
        """What the daemon answers, or why it does not."""
        if self.refuses is not None:
            return self.refuses
        match message(lambda answer: None):
            case backlog.ShowBacklog():
                seen = None if self.starting else self.seen
                return backlog.BacklogView(seen, self.world.settings, "s", "a", "apply", self.marks)
            case backlog.ApplyBacklog(order=order):
                self.orders.append(order)
                found = backlog.statuses(order.items, self.seen, self.world.settings)
                self.marks = backlog.marks_of(order, found)
                return found
        return len(self.marks)

    order = ask


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def url(daemon: Daemon) -> Iterator[str]:
    # The backlog's half of the commands.
    server = Manager(commands=daemon).server
    server.start()
    yield f"{server.url}/api/backlog"
    server.stop()


def test_the_plan_shows_each_record_with_its_evidence_and_no_secret(url: str) -> None:
    answer = requests.get(url, headers=WITH_TOKEN, timeout=5)
    shown = answer.json()
    assert "hush-hush" not in answer.text
    assert (shown["pool"], shown["store"], shown["account"]) == ("main", "s", "a")
    assert [item["id"] for item in shown["items"]] == ["r00", "r01", "r02"]
    item = shown["items"][0]
    assert (item["deed"], item["version"], item["chosen"]) == ("clean", "v1", True)
    assert (item["reason"], item["standing"]) == ("stale_slot", "backlog_held")
    assert item["measures"]["idle_s"] > item["measures"]["window_s"]
    assert "status" not in item


def test_an_order_reaches_the_daemon_and_its_marks_are_shown(url: str, daemon: Daemon) -> None:
    told = requests.post(f"{url}/apply", json=ORDER, headers=WITH_TOKEN, timeout=5).json()
    assert daemon.orders == [
        backlog.Order(
            "eve", "main", "s", "a", (backlog.Item(backlog.ItemAction.CLEAN, "r00", "v1"),)
        )
    ]
    assert [(one["id"], one["stands"]) for one in told["items"]] == [("r00", "held")]
    marks = requests.get(f"{url}/marks", headers=WITH_TOKEN, timeout=5).json()
    assert marks == {"items": told["items"]}
    stopped = requests.post(f"{url}/stop", json={"by": "eve"}, headers=WITH_TOKEN, timeout=5)
    assert stopped.json() == {"stopped": 1}


@cases(
    "changes",
    {
        "nothing": {"items": []},
        "not-an-item": {"items": ["r00"]},
        "a-deed": {"items": [{"deed": "destroy", "id": "x", "version": "1"}]},
        "no-version": {"items": [{"deed": "clean", "id": "x"}]},
        "a-number": {"items": [{"deed": "clean", "id": "x", "version": 1}]},
        "pool-a-number": {"pool": 7},
        "unknown-key": {"force": True},
    },
)
def test_a_malformed_order_is_refused_and_reaches_nobody(
    url: str, daemon: Daemon, changes: dict[str, Any]
) -> None:
    answer = requests.post(f"{url}/apply", json={**ORDER, **changes}, headers=WITH_TOKEN, timeout=5)
    assert answer.status_code == 400
    assert not daemon.orders


def test_a_refusal_is_told_with_its_reason(url: str, daemon: Daemon) -> None:
    daemon.refuses = "this daemon runs with --dry-run"
    answer = requests.post(f"{url}/apply", json=ORDER, headers=WITH_TOKEN, timeout=5)
    assert (answer.status_code, answer.json()["description"]) == (409, daemon.refuses)
    assert requests.get(url, headers=WITH_TOKEN, timeout=5).status_code == 503


def test_before_the_first_decision_there_is_no_plan_yet(url: str, daemon: Daemon) -> None:
    daemon.starting = True
    assert requests.get(url, headers=WITH_TOKEN, timeout=5).status_code == 503
    assert requests.get(f"{url}/marks", headers=WITH_TOKEN, timeout=5).status_code == 503
