"""Shares orders among a few workers of one kind, so that threads don't grow with nodes."""

from __future__ import annotations

from collections import deque
from typing import Any

from nodemanager.actors.base import tell
from nodemanager.actors.messages import Ref


class WorkerPool:
    """Each worker has one order at a time; further ones wait here, first come, first served."""

    def __init__(self, workers: tuple[Ref, ...]) -> None:
        self._free = deque(workers)
        self._waiting: deque[tuple[str, Any]] = deque()
        self._busy: dict[str, Ref] = {}

    def give(self, key: str, message: Any) -> None:
        """Hand `message` to a free worker, now or later; `done(key)` frees the worker again."""
        if self._free and key not in self._busy:
            worker = self._free.popleft()
            self._busy[key] = worker
            tell(worker, message)
        else:
            self._waiting.append((key, message))

    def go_on(self, key: str, message: Any) -> None:
        """Hand the next step to the worker that has `key`, ahead of waiting orders."""
        worker = self._busy.get(key)
        if worker is None:
            self.give(key, message)
        else:
            tell(worker, message)

    def done(self, key: str) -> None:
        """Free the worker that had `key` after its last answer, and hand out waiting orders."""
        worker = self._busy.pop(key, None)
        if worker is not None:
            self._free.append(worker)
        for _ in range(len(self._waiting)):
            if not self._free:
                return
            next_key, message = self._waiting.popleft()
            self.give(next_key, message)

    def drop_waiting(self) -> list[str]:
        """Forget the orders that no worker has begun, and return their keys."""
        keys = [key for key, _ in self._waiting]
        self._waiting.clear()
        return keys

    def has(self, key: str) -> bool:
        """Whether a worker has an order for `key`."""
        return key in self._busy

    @property
    def has_room(self) -> bool:
        """Whether a worker would begin an order at once."""
        return bool(self._free)

    @property
    def busy(self) -> int:
        return len(self._busy)
