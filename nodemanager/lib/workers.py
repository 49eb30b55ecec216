"""A few threads for work that blocks, beside an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_IDLE_S = 10.0


class Workers(Executor):
    """A pool of at most `threads` daemon threads, started when there is work; idle ones end.

    Python's own pool has no daemon threads, so hanging work would keep the process from ending.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most = threads
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = threading.Semaphore(0)
        """Counts the threads that wait for work and have been given none."""
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    async def run(self, work: Callable[..., T], *given: Any, **named: Any) -> T:
        """The result of `work`, run in one of the threads while the event loop goes on."""
        return await asyncio.wrap_future(self.submit(work, *given, **named))

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        self._queue.put((future, lambda: fn(*args, **kwargs)))
        if self._idle.acquire(blocking=False):
            return future
        with self._lock:
            starts = self._threads < self._most
            self._threads += starts
        if starts:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            try:
                future, work = self._queue.get(timeout=_IDLE_S)
            except Empty:
                # Where this fails, `submit` has just counted on this thread for new work.
                if self._idle.acquire(blocking=False):
                    break
                continue
            if future.set_running_or_notify_cancel():
                try:
                    result = work()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
            del future, work
            self._idle.release()
        with self._lock:
            self._threads -= 1
