"""A few workers share the orders: who waits, who goes first, and how many call the cloud (U13)."""

from __future__ import annotations

from typing import Any

from nodemanager.actors.workers.worker_pool import WorkerPool


class Crew:
    """A pool of three workers, with what they were told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.at_once = 3
        self.pool = WorkerPool((self, self, self), lambda: self.at_once)

    def tell(self, message: Any) -> None:
        self.told.append(message)

    def give(self, *keys: str, paced: bool = True) -> None:
        for key in keys:
            self.pool.give(key, key, paced=paced)

    def done(self, *keys: str) -> list[Any]:
        """What is told next, once these are done."""
        before = len(self.told)
        for key in keys:
            self.pool.done(key)
        return self.told[before:]


def test_who_came_first_is_served_first_u13() -> None:
    crew = Crew()
    crew.give("a", "b", "c", "d", "e", "f")
    assert crew.told == ["a", "b", "c"]
    assert crew.done("b", "a") == ["d", "e"]
    assert crew.pool.drop_waiting() == ["f"]


def test_no_more_run_than_may_call_the_cloud_u13() -> None:
    crew = Crew()
    crew.at_once = 1
    crew.give("a", "b", "c")
    assert crew.told == ["a"]
    assert not crew.pool.has_room
    crew.at_once = 2
    assert crew.done("a") == ["b", "c"]


def test_what_calls_no_cloud_waits_for_none_u13() -> None:
    """A scheduler is told to drain a node, however long the cloud is not to be called."""
    crew = Crew()
    crew.at_once = 0
    crew.give("a")
    crew.give("drain", paced=False)
    assert crew.told == ["drain"]
    crew.at_once = 3
    crew.pool.hand_out()
    assert crew.told == ["drain", "a"]


def test_a_step_for_which_too_many_run_waits_in_its_own_place_u13() -> None:
    """The order of priority is kept: what came first goes on first."""
    crew = Crew()
    crew.give("a", "b", "c", "d", "e")
    crew.at_once = 0
    for key in ("b", "a"):
        crew.pool.go_on(key, f"{key} again", paced=True)
    assert crew.told == ["a", "b", "c"]
    assert [crew.pool.has(key) for key in "abc"] == [False, False, True]
    crew.at_once = 3
    assert crew.done("c") == ["a again", "b again", "d"]


def test_a_step_that_calls_no_cloud_goes_on_u13() -> None:
    crew = Crew()
    crew.give("a")
    crew.at_once = 0
    crew.pool.go_on("a", "claim")
    assert crew.told == ["a", "claim"]


def test_a_key_has_one_worker_at_a_time() -> None:
    crew = Crew()
    crew.give("a", "a", "b")
    assert crew.told == ["a", "b"]
    assert crew.done("a") == ["a"]
