"""What goes wrong between a cloud's server and its adapter, on order."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar


@dataclass
class Reply:
    """An answer of the servers that answer in JSON."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


R = TypeVar("R")


@dataclass
class Fault(Generic[R]):
    """What goes wrong with the next `times` calls of `action`.

    `before` gives an answer instead of doing the work; `after` spoils the answer to work that was
    done. Either gives None to cut the connection without an answer.
    """

    action: str
    times: int = 1
    before: Callable[[], R | None] | None = None
    after: Callable[[R], R | None] | None = None


class FaultsOnOrder:
    """Of a cloud's server: `calls` is every request so far, each with its `action`."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.faults: list[Fault[Any]] = []
        self._lock = threading.RLock()

    def fault(self, action: str, **how: Any) -> None:
        """The next calls of `action` go wrong: see Fault."""
        with self._lock:
            self.faults.append(Fault(action, **how))

    def heal(self, action: str) -> None:
        """Nothing goes wrong with it any more."""
        with self._lock:
            self.faults = [fault for fault in self.faults if fault.action != action]

    def called(self, action: str) -> list[Any]:
        """The requests for `action` so far."""
        with self._lock:
            return [call for call in self.calls if call.action == action]

    def start_afresh(self) -> None:
        """No faults, nothing recorded."""
        with self._lock:
            self.calls, self.faults = [], []

    def fault_for(self, action: str) -> Fault[Any] | None:
        """What goes wrong with this call of `action`, which counts."""
        with self._lock:
            for fault in self.faults:
                if fault.action == action and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def faulty(self, action: str, work: Callable[[], Any]) -> Any:
        """The answer that `work` gives, or what comes in its place; None: nobody hears of it."""
        fault = self.fault_for(action)
        if fault is not None and fault.before is not None:
            return fault.before()
        reply = work()
        return fault.after(reply) if fault is not None and fault.after is not None else reply


def lost(_reply: Reply) -> None:
    """The work is done, and nobody hears of it."""


def unheard() -> None:
    """Nothing is done, and nobody hears of it."""


def truncated(reply: Reply) -> Reply:
    """Half an answer that claims to be whole."""
    return Reply(reply.status, reply.body[: len(reply.body) // 2], reply.headers)


def plain(status: int, body: str, retry_after: str | None = None) -> Callable[[], Reply]:
    """Any answer at all."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return lambda: Reply(status, body.encode(), dict(headers))


def changed(change: Callable[[Any], object]) -> Callable[[Reply], Reply]:
    """The answer's JSON, changed in place by `change`."""

    def spoil(reply: Reply) -> Reply:
        told = reply.json
        change(told)
        return Reply(reply.status, json.dumps(told).encode(), reply.headers)

    return spoil
