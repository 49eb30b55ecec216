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
        self._unfinished = 0
        """How much work waits or is being done."""
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    async def run(self, work: Callable[..., T], *given: Any, **named: Any) -> T:
        """The result of `work`, run in one of the threads while the event loop goes on."""
        return await asyncio.wrap_future(self.submit(work, *given, **named))

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            self._queue.put((future, lambda: fn(*args, **kwargs)))
            self._unfinished += 1
            starts = self._threads < min(self._most, self._unfinished)
            self._threads += starts
        if starts:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            try:
                future, work = self._queue.get(timeout=_IDLE_S)
            except Empty:
                # `submit` counts on each thread: under the lock, work is seen or a thread is gone.
                with self._lock:
                    if self._queue.empty():
                        self._threads -= 1
                        return
                continue
            result, failure = None, None
            is_wanted = future.set_running_or_notify_cancel()
            if is_wanted:
                try:
                    result = work()
                except BaseException as error:
                    failure = error
            with self._lock:
                self._unfinished -= 1
            if failure is not None:
                future.set_exception(failure)
            elif is_wanted:
                future.set_result(result)
            del future, work, result, failure
