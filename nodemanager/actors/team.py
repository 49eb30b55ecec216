"""What the daemon's pollers and workers have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodemanager.actors.base import OnDeath, tell
from nodemanager.actors.messages import Ref
from nodemanager.actors.timer import Timer
from nodemanager.cloud.api import CloudDriver
from nodemanager.lib.clock import Clock
from nodemanager.records.api import RecordStore
from nodemanager.schedulers.api import Scheduler


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
        """Tell the daemon."""
        tell(self.daemon, fact)
