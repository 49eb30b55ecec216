"""The daemon's releases of what gone nodes left behind, and the search for it (SAFETY.md D4, D5).

One question or release at a time, and only where a shut-down worker is free: a destroy never waits
behind more than one of them, and nothing that was decided grows old in a queue.
"""

from __future__ import annotations

from typing import Any

from nodemanager.actors.messages import (
    FindLeftovers,
    LeftoverReleased,
    LeftoversFound,
    ReleaseLeftover,
    TendLeftovers,
)
from nodemanager.actors.restore_desk import RestoreDesk
from nodemanager.core import leftovers
from nodemanager.core.leftovers import Turn
from nodemanager.core.reasons import Event
from nodemanager.errors import Throttled
from nodemanager.log import WARNING

FIND_EVERY_S = 3600.0
"""EC2 forgets a terminated instance within the hour, and what it left costs by the hour."""
ROOM_AGAIN_S = 5.0
"""How soon to look again for a free worker."""
LEFTOVERS = "leftovers"
"""The key of whatever a shut-down worker does here; no node's id."""


class LeftoverDesk(RestoreDesk):
    """Asks what nodes pin before they go, finds what was left, and releases it in order."""

    def _leftovers_unknown(
        self,
        error: Exception,
        *,
        attempt: int,
        retry_s: float,
    ) -> None:
        self._log.event(
            Event.LEFTOVER_UNKNOWN,
            level=WARNING,
            error=error,
            attempt=attempt,
            retry_s=retry_s,
        )

    # The search, and the releases.

    def on_TendLeftovers(self, message: TendLeftovers) -> None:
        if message.at == self._tend_at:
            self._tend_at = None
            self._tend_leftovers()

    def _tend_leftovers(self) -> None:
        """Send the next question or release, if it is time; else arrange to be reminded."""
        if self._stopping is not None or self._shutdowns.has(LEFTOVERS):
            return
        now = self._clock.boottime()
        if self._finds_leftovers(now):
            self._give_leftovers(FindLeftovers())
            return
        turn = self._next_release(now)
        while turn.entry is not None and not self._leftovers.applies:
            self._leftovers.would_release(turn.entry, now)
            turn = self._next_release(now)
        self._tell_deferred(turn, now)
        if turn.entry is None:
            self._tend_later(now, is_blocked=turn.block is not None)
        elif self._give_leftovers(ReleaseLeftover(turn.entry.leftover)):
            self._leftovers.about_to_release(turn.entry)

    def _next_release(self, now: float) -> Turn:
        if not leftovers.due(self._leftovers.ledger, now, self._scribe.holds):
            return Turn()
        snapshot = self._snapshot(LEFTOVERS)
        for node_id in leftovers.living(self._leftovers.ledger, snapshot):
            self._leftovers.lives(node_id)
        return leftovers.next_release(self._leftovers.ledger, snapshot, self._settings)

    def _give_leftovers(self, order: FindLeftovers | ReleaseLeftover) -> bool:
        if not self._shutdowns.has_room:
            self._tend_after(ROOM_AGAIN_S)
            return False
        self._shutdowns.give(LEFTOVERS, order)
        return True

    def _finds_leftovers(self, now: float) -> bool:
        """Whether it is time to ask, and what is found could be kept (L5)."""
        return (
            now >= self._find_at
            and now >= self._limits.throttled_until
            and self._history.cloud is not None
            and not self._read_only
            and self._scribe.problem is None
        )

    def on_LeftoversFound(self, message: LeftoversFound) -> None:
        self._shutdowns.done(LEFTOVERS)
        now = self._clock.boottime()
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        if message.error is not None:
            self._finds_failed += 1
            wait_s = min(FIND_EVERY_S, leftovers.retry_delay(self._finds_failed))
            self._leftovers_unknown(message.error, attempt=self._finds_failed, retry_s=wait_s)
        else:
            self._finds_failed = 0
            wait_s = FIND_EVERY_S
            if not self._leftovers.found(message.found, now, self._settings.visible_after):
                # The journal: as soon as it can be written.
                wait_s = 0.0
            present = self._history.present
            self._pins_failed = {id: n for id, n in self._pins_failed.items() if id in present}
        self._find_at = now + wait_s
        self._tend_leftovers()
        self._settled()

    def on_LeftoverReleased(self, message: LeftoverReleased) -> None:
        self._shutdowns.done(LEFTOVERS)
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        now = self._clock.boottime()
        self._leftovers.tried(
            message.leftover,
            message.outcome,
            message.error,
            now,
            longest_s=self._settings.max_retry_after,
        )
        self._tend_leftovers()
        self._settled()

    def _tell_deferred(self, turn: Turn, now: float) -> None:
        """Say why nothing is released, once for each reason."""
        reason, measures = turn.block or (None, {})
        if reason is not None and reason is not self._deferred_for:
            count = len(leftovers.due(self._leftovers.ledger, now))
            fields: dict[str, Any] = {"reason": reason, "count": count, **measures}
            self._log.event(Event.LEFTOVER_DEFERRED, **fields)
        self._deferred_for = reason

    def _tend_later(self, now: float, *, is_blocked: bool) -> None:
        times = [self._find_at]
        due_at = leftovers.next_due(self._leftovers.ledger)
        if due_at is not None and not is_blocked:
            times.append(due_at)
        # What blocks it is looked at with each decision.
        later = [at for at in times if at > now]
        if later:
            self._tend_after(min(later) - now)

    def _tend_after(self, seconds: float) -> None:
        """Be reminded by then; an earlier reminder stands."""
        now = self._clock.boottime()
        at = now + seconds
        if self._tend_at is not None and now < self._tend_at <= at:
            return
        self._tend_at = at
        self._timer.after(seconds, self.actor_ref, TendLeftovers(at))
