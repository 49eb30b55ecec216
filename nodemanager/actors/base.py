"""What every actor is made of: its errors, its timer, its team."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import pykka

from nodemanager.actors.messages import Beat, Ref
from nodemanager.cloud.api import CloudDriver
from nodemanager.lib.clock import Clock
from nodemanager.records.api import RecordStore
from nodemanager.schedulers.api import Scheduler

OnDeath = Callable[[str, BaseException], None]


class RoleActor(pykka.ThreadingActor):
    """Handles a message of the class `NodeCreated` by its method `on_NodeCreated`.

    An unknown message is a bug. Like any other exception it kills the actor, and
    `on_death(name, exception)` ends the process; systemd restarts it into a known state.
    """

    use_daemon_thread = True

    def __init__(self, on_death: OnDeath) -> None:
        super().__init__()
        self._on_death = on_death

    @property
    def name(self) -> str:
        return type(self).__name__

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, Beat):
            message.answered()
            return None
        return self.handler_of(message)(message)

    def handler_of(self, message: Any) -> Callable[[Any], Any]:
        handler: Callable[[Any], Any] = getattr(self, f"on_{type(message).__name__}")
        return handler

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exception_value is not None:
            self._on_death(self.name, exception_value)


def tell(to: Ref, message: Any) -> None:
    """Send the message, or drop it if that actor has ended, so that the sender does not die of it.

    An actor that died ends the process by `on_death`; the journal has what was in flight.
    """
    try:
        to.tell(message)
    except pykka.ActorDeadError:
        return


# Delayed messages, so that no handler sleeps.


class Timer(Protocol):
    def after(self, seconds: float, to: Ref, message: Any) -> None:
        """Send the message to `to` after that many seconds of CLOCK_BOOTTIME."""
        ...


class ThreadTimer:
    """One thread for all reminders.

    It waits on CLOCK_BOOTTIME in steps of at most a second, because a condition's own time-out
    stands still while the machine is suspended.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Ref, Any]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="timer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout=5)

    def after(self, seconds: float, to: Ref, message: Any) -> None:
        due = self._clock.boottime() + max(0.0, seconds)
        with self._changed:
            heapq.heappush(self._heap, (due, next(self._numbers), to, message))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                now = self._clock.boottime()
                due = []
                while self._heap and self._heap[0][0] <= now:
                    due.append(heapq.heappop(self._heap))
                if not due:
                    wait = self._heap[0][0] - now if self._heap else 1.0
                    self._changed.wait(min(wait, 1.0))
            for _, _, to, message in due:
                tell(to, message)


@dataclass(slots=True, kw_only=True)
class TeamContext:
    """What an actor of the team calls, and the daemon that it reports to.

    Only `cloud` changes: the cloud's poller replaces it when a changed file has other credentials.
    The former one is not closed, because calls of other threads may still be on their way.
    """

    cloud: CloudDriver
    store: RecordStore
    daemon: Ref
    timer: Timer
    clock: Clock
    on_death: OnDeath
    scheduler: Scheduler | None = None
    may_send: Callable[[], bool] = lambda: True
    """Whether this manager's orders may go out at this moment (L6)."""

    def report(self, fact: Any) -> None:
        tell(self.daemon, fact)
