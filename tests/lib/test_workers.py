"""No work is left without a thread, whenever it comes."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue

import pytest

from nodemanager.lib import workers
from nodemanager.lib.workers import Workers
from tests.waiting import until


def test_work_that_comes_with_a_result_leaves_later_work_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_IDLE_S", 0.02)
    pool = Workers("one-worker", 1)
    more: list[Future[int]] = []
    begun = threading.Event()
    first = pool.submit(begun.wait)
    # Called by the thread itself, before it waits for work again.
    first.add_done_callback(lambda _: more.append(pool.submit(int, "2")))
    begun.set()
    assert first.result(timeout=30)
    until("the next work", lambda: bool(more))
    assert more[0].result(timeout=30) == 2

    def ended() -> bool:
        return all(one.name != "one-worker" for one in threading.enumerate())

    until("the idle thread to end", ended)
    assert pool.submit(int, "3").result(timeout=30) == 3


def test_work_that_comes_as_an_idle_thread_ends_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_IDLE_S", 0.02)
    pool = Workers("one-worker", 1)
    more: list[Future[int]] = []

    class GivesUp(SimpleQueue):  # type: ignore[type-arg]
        """Work comes after the thread saw none, and before it is gone."""

        def get(self, block: bool = True, timeout: float | None = None) -> object:
            try:
                return super().get(block, timeout)
            except Empty:
                if not more:
                    more.append(pool.submit(int, "2"))
                raise

    pool._queue = GivesUp()
    assert pool.submit(int, "1").result(timeout=30) == 1
    until("the next work", lambda: bool(more))
    assert more[0].result(timeout=30) == 2
