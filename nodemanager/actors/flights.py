"""The daemon's book of what is under way: set-ups, shutdowns, cleans, fences (SAFETY.md C8)."""

from __future__ import annotations

from nodemanager.actors.runner import End
from nodemanager.core.execute.workflow import Action
from nodemanager.core.history import History
from nodemanager.core.late import NEVER
from nodemanager.core.reasons import Reason
from nodemanager.core.snapshot import Flight
from nodemanager.core.telling import CLEANED


class Flights:
    """What is in the air. Times are CLOCK_BOOTTIME.

    What has landed still counts until both listings began after its end: a set-up as a node to be,
    a clean and a destroy against the cycle's caps.
    """

    def __init__(self) -> None:
        self._landed: dict[str, tuple[Flight, float]] = {}
        self._cleaned_at: list[float] = []
        self._destroyed_at: list[float] = []
        self.touched: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.skipped: dict[str, float] = {}
        self._doubtful: list[tuple[str, float]] = []

    def forget_touched(self, history: History) -> None:
        """Forget what both newest listings began after."""
        if history.cloud is None or history.records is None:
            return
        shown = min(history.cloud.started_at, history.records.started_at)
        self.touched = {id: at for id, at in self.touched.items() if at >= shown}
        self.gone = {id: at for id, at in self.gone.items() if at >= shown}
        self.skipped = {uuid: at for uuid, at in self.skipped.items() if uuid in history.heard}

    # The views that a snapshot takes.

    def by_record(self, without: str | None) -> dict[str, Flight]:
        """By record uuid; `without` is the record or node whose own flight is left out."""
        return {uuid: flight for uuid, (flight, _) in self._landed.items() if uuid != without}

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """The sizes of set-ups of which nobody knows whether a record was claimed for them."""
        return tuple(size for size, _ in self._doubtful)

    # What the listings show.

    def forget_landed(self, history: History) -> None:
        """Forget what both newest listings began after."""
        if history.cloud is None or history.records is None:
            return
        shown = min(history.cloud.started_at, history.records.started_at)
        self._landed = {id: landed for id, landed in self._landed.items() if landed[1] >= shown}
        self._doubtful = [(size, at) for size, at in self._doubtful if at >= shown]
        self._cleaned_at = [at for at in self._cleaned_at if at >= shown]
        self._destroyed_at = [at for at in self._destroyed_at if at >= shown]

    @property
    def cleaned_lately(self) -> int:
        return len(self._cleaned_at)

    @property
    def destroyed_lately(self) -> int:
        return len(self._destroyed_at)

    # Shutdowns.

    def shut_down(self, reason: Reason, now: float) -> None:
        """The node is gone."""
        if reason is not Reason.IDLE_BEYOND_DEMAND:
            self._destroyed_at.append(now)

    # Workflows.

    def workflow_ended(self, end: End, now: float) -> None:
        """It blocks its record and node no more; a listing that began before shows what was."""
        about, action, since = end.about, end.key.action, end.since
        if since is None and action is not Action.CLEAN:
            return
        for id in (about.record, about.node):
            # A drain changes nothing that a record or node is judged by.
            if id is not None and action is not Action.DRAIN:
                self.touched[id] = now
        if action is Action.CLEAN:
            self._clean_ended(end, now)
        elif action is Action.PRUNE:
            self._cleaned_at.append(now)
        elif action is Action.SETUP and end.state.is_written and since is not None:
            # A node to be until it is listed with the claim (U6).
            if about.record is not None:
                self._landed[about.record] = (Flight("setup", since), now)
            else:
                self._doubtful.append((end.order.size.name, now))

    def _clean_ended(self, end: End, now: float) -> None:
        uuid = end.key.id
        self.skipped[uuid] = now
        if end.ended is not None and end.ended.name == CLEANED:
            del self.skipped[uuid]
        if end.since is None:
            return
        if end.order.reason is Reason.CREATE_REFUSED:
            # A claim counts as a node to be until it is seen to be released (U6).
            self._landed[uuid] = (Flight("setup", end.since), now)
        elif end.order.not_after != NEVER:
            self._cleaned_at.append(now)
