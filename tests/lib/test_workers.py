"""No work is left without a thread, whenever it comes."""

from __future__ import annotations

import threading
from concurrent.futures import Future

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
