"""The daemon's book of what is under way: set-ups, shutdowns, cleans, fences (SAFETY.md C8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodemanager.actors.messages import Fence
from nodemanager.core.execute.workflow import About, Action, State
from nodemanager.core.history import History
from nodemanager.core.late import NEVER, Late, Unknown
from nodemanager.core.orders import CleanOrder
from nodemanager.core.reasons import Reason
from nodemanager.core.snapshot import Flight

FIRST_QUESTION_S = 2.0


class Flights:
    """What is in the air. Times are CLOCK_BOOTTIME.

    What has landed still counts until both listings began after its end: a set-up as a node to be,
    a clean and a destroy against the cycle's caps.
    """

    def __init__(self) -> None:
        self._landed: dict[str, tuple[Flight, float]] = {}
        self._cleaned_at: list[float] = []
        self._destroyed_at: list[float] = []
        self.cleans: dict[str, tuple[CleanOrder, float]] = {}
        self.fences: dict[str, tuple[Fence, CleanOrder]] = {}
        self.sizes: dict[str, str] = {}
        self._questions: dict[str, int] = {}
        self.touched: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.skipped: dict[str, float] = {}
        self._doubtful: list[tuple[str, float]] = []
        self.late: Late = {}
        self.unknown: dict[str, Unknown] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.cleans or self.fences)

    def is_only_unknown(self, since: float) -> bool:
        """Whether all that is left are cleans of which nobody has known the outcome since then."""
        known = self.cleans.keys() - self.unknown.keys()
        others = bool(known)
        return not others and all(one.since <= since for one in self.unknown.values())

    def expire(self, now: float, action_timeout: float) -> list[Mapping[str, Any]]:
        """Drop what takes longer than action_timeout: it is judged afresh. Says what it was."""
        expired: list[Mapping[str, Any]] = []
        for uuid, (_, since) in list(self.cleans.items()):
            if now - since > action_timeout and uuid not in self.fences:
                self.clean_ended(uuid, now)
                expired.append({"action": "clean", "record": uuid, "age_s": now - since})
        return expired

    def forget_touched(self, history: History) -> None:
        """Forget what both newest listings began after."""
        if history.cloud is None or history.records is None:
            return
        heard = history.heard
        self.sizes = {
            uuid: size
            for uuid, size in self.sizes.items()
            if uuid not in heard or heard[uuid].last_ping_at is None
        }
        shown = min(history.cloud.started_at, history.records.started_at)
        self.touched = {id: at for id, at in self.touched.items() if at >= shown}
        self.gone = {id: at for id, at in self.gone.items() if at >= shown}
        self.skipped = {uuid: at for uuid, at in self.skipped.items() if uuid in heard}

    # The views that a snapshot takes.

    def by_record(self, without: str | None) -> dict[str, Flight]:
        """By record uuid; `without` is the record or node whose own flight is left out."""
        flights = {uuid: flight for uuid, (flight, _) in self._landed.items() if uuid != without}
        for uuid, (clean, since) in self.cleans.items():
            if uuid != without:
                flights[uuid] = _clean_flight(clean, since)
        return flights

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

    def next_question_s(self, id: str, longest: float) -> float:
        """How long to wait before the next question about `id`: doubling."""
        asked = self._questions.get(id, 0)
        self._questions[id] = asked + 1
        return min(longest, FIRST_QUESTION_S * 2.0 ** min(asked, 16))

    # Cleans.

    def clean_begun(self, order: CleanOrder, since: float) -> None:
        self.cleans[order.uuid] = (order, since)

    def is_clean(self, order: CleanOrder) -> bool:
        under_way = self.cleans.get(order.uuid)
        return under_way is not None and under_way[0] is order

    def clean_ended(self, uuid: str, now: float) -> float | None:
        """Since when it was under way."""
        self.touched[uuid] = self.skipped[uuid] = now
        ended = self.cleans.pop(uuid, None)
        if ended is None:
            return None
        if ended[0].reason is Reason.CREATE_REFUSED:
            self._landed[uuid] = (_clean_flight(*ended), now)
        elif ended[0].not_after != NEVER:
            self._cleaned_at.append(now)
        return ended[1]

    def forget_questions(self, id: str) -> None:
        """The next wait for `id` is a short one again."""
        self._questions.pop(id, None)

    # Workflows.

    def workflow_ended(
        self, action: Action, state: State, about: About, since: float, now: float
    ) -> None:
        """It blocks its record and node no more; a listing that began before shows what was."""
        for id in about:
            # A drain changes nothing that a record or node is judged by.
            if id is not None and action is not Action.DRAIN:
                self.touched[id] = now
        if action is Action.PRUNE:
            self._cleaned_at.append(now)
        elif action is Action.SETUP and state.is_written:
            # A node to be until it is listed with the claim (U6).
            if about.record is not None:
                self._landed[about.record] = (Flight("setup", since), now)
            else:
                self._doubtful.append((state.order.size.name, now))

    def fenced(self, fence: Fence, order: CleanOrder) -> None:
        self.fences[order.uuid] = (fence, order)

    def unfenced(self, uuid: str) -> None:
        self.fences.pop(uuid, None)
        self.unknown.pop(uuid, None)


def _clean_flight(order: CleanOrder, since: float) -> Flight:
    if order.reason is Reason.CREATE_REFUSED:
        # A claim counts as a node to be until it is seen to be released (U6).
        return Flight("setup", since)
    return Flight("unfence" if order.not_after == NEVER else "clean", since)
