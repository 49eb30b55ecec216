"""How a fake's next calls go wrong.

cloud.on("list_nodes", fail(CloudError("timeout")), fail(CloudError("timeout")))
store.on("clean", first(lambda: store.ping(uuid)))
cloud.always("create", fail(QuotaExceeded("no more")))
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """What one call does: `before` runs first; then an `error`, or the answer, `altered`.

    With `lost` the call takes effect before the error.
    """

    before: Callable[[], Any] | None = None
    error: Exception | None = None
    lost: bool = False
    altered: Callable[[Any], Any] | None = None


def fail(error: Exception) -> Step:
    """The call does nothing and raises."""
    return Step(error=error)


def lose(error: Exception) -> Step:
    """The call takes effect and its answer is lost."""
    return Step(error=error, lost=True)


def answer(altered: Callable[[Any], Any]) -> Step:
    """The call takes effect and answers something else, made from the true answer."""
    return Step(altered=altered)


def first(before: Callable[[], Any]) -> Step:
    """Something happens just before the call takes effect."""
    return Step(before=before)


class Scripted:
    """Counts the calls of a fake, keeps its writes, and lets each go as scripted."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.writes: list[str] = []
        self.lock = RLock()
        self._next: defaultdict[str, deque[Step]] = defaultdict(deque)
        self._always: dict[str, Step] = {}

    def on(self, method: str, *steps: Step) -> None:
        """The next calls of `method` go as `steps` say, one each."""
        self._next[method].extend(steps)

    def always(self, method: str, step: Step | None) -> None:
        """Every call of `method` goes like this, until None is given."""
        if step is None:
            self._always.pop(method, None)
        else:
            self._always[method] = step

    def _run(self, method: str, do: Callable[[], T], *, write: str | None = None) -> T:
        self.calls[method] += 1
        waiting = self._next[method]
        step = waiting.popleft() if waiting else self._always.get(method, Step())
        if step.before is not None:
            step.before()
        if step.error is not None and not step.lost:
            raise step.error
        with self.lock:
            if write is not None:
                self.writes.append(f"{method} {write}")
            result = do()
        if step.error is not None:
            raise step.error
        return result if step.altered is None else step.altered(result)
