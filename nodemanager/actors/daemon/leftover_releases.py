"""The search for what gone nodes left behind, and its release (SAFETY.md D4, D5).

One search or release runs at a time, and only on a free shutdown worker. So a destroy waits for at
most one of them, and no decided release grows old in a queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.leftover_book import LeftoverBook
from nodemanager.actors.messages import (
    FindLeftovers,
    LeftoverReleased,
    LeftoversFound,
    ReleaseLeftover,
    TendLeftovers,
)
from nodemanager.core.execute.news import LeftoversSearched
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.plan import leftovers
from nodemanager.core.plan.leftovers import Turn
from nodemanager.errors import Throttled
from nodemanager.lib.log import WARNING

FIND_EVERY_S = 3600.0
"""Seconds between searches: EC2 forgets a terminated instance within the hour."""
ROOM_AGAIN_S = 5.0
"""Seconds until the next look for a free worker."""
LEFTOVERS = "leftovers"
"""The key of all searches and releases in the worker pool; it is no node's id."""


@dataclass(eq=False)
class LeftoverReleases:
    """Finds leftovers and releases them in order; calls `settled` after each answer."""

    _context: Context
    book: LeftoverBook
    _settled: Callable[[], None]
    _find_at: float = 0.0
    _finds_failed: int = 0
    _tend_at: float | None = None
    _deferred_for: Reason | None = None

    def due(self, message: TendLeftovers) -> None:
        """Take the timer's reminder, unless a newer one was scheduled."""
        if message.at == self._tend_at:
            self._tend_at = None
            self.tend()

    def tend(self) -> None:
        """Send the next search or release if it is due; else schedule a reminder."""
        if self._context.stopping is not None or self._context.shutdowns.has(LEFTOVERS):
            return
        now = self._context.now
        if self._time_to_find(now):
            self._give(FindLeftovers())
            return
        turn = self._next_release(now)
        while turn.entry is not None and not self._context.applies:
            self.book.would_release(turn.entry, now)
            turn = self._next_release(now)
        self._tell_deferred(turn, now)
        if turn.entry is None:
            self._tend_later(now, is_blocked=turn.block is not None)
        elif self._give(ReleaseLeftover(turn.entry.leftover)):
            self.book.about_to_release(turn.entry)

    def _next_release(self, now: float) -> Turn:
        if not leftovers.due(self.book.ledger, now, self._context.state.marks.holds.keys()):
            return Turn()
        snapshot = self._context.snapshot(LEFTOVERS)
        for node_id in leftovers.living(self.book.ledger, snapshot):
            self.book.lives(node_id)
        return leftovers.next_release(self.book.ledger, snapshot, self._context.settings)

    def _give(self, order: FindLeftovers | ReleaseLeftover) -> bool:
        if not self._context.shutdowns.has_room:
            self._tend_after(ROOM_AGAIN_S)
            return False
        self._context.shutdowns.give(LEFTOVERS, order, paced=True)
        return True

    def _time_to_find(self, now: float) -> bool:
        """Whether a search is due, and what it finds can be kept (L5)."""
        return (
            now >= self._find_at
            and now >= self._context.limits.throttled_until
            and self._context.history.cloud is not None
            and not self._context.state.identity.read_only
            and self._context.journal_writer.problem is None
        )

    def found(self, message: LeftoversFound) -> None:
        """Take the result of a search."""
        self._context.shutdowns.done(LEFTOVERS)
        now = self._context.now
        if isinstance(message.error, Throttled):
            self._context.throttled(message.error)
        if message.error is not None:
            self._finds_failed += 1
            wait_s = min(FIND_EVERY_S, leftovers.retry_delay(self._finds_failed))
            self._context.log.event(
                Event.LEFTOVER_UNKNOWN,
                level=WARNING,
                error=message.error,
                attempt=self._finds_failed,
                retry_s=wait_s,
            )
        else:
            self._finds_failed = 0
            wait_s = FIND_EVERY_S
            if not self.book.found(message.found, now, self._context.settings.visible_after):
                # Search again as soon as the journal can be written.
                wait_s = 0.0
            self._context.learn(LeftoversSearched())
        self._find_at = now + wait_s
        self.tend()
        self._settled()

    def released(self, message: LeftoverReleased) -> None:
        """Take the result of a release."""
        self._context.shutdowns.done(LEFTOVERS)
        if isinstance(message.error, Throttled):
            self._context.throttled(message.error)
        now = self._context.now
        self.book.tried(
            message.leftover,
            message.outcome,
            message.error,
            now,
            longest_s=self._context.settings.max_retry_after,
        )
        self.tend()
        self._settled()

    def _tell_deferred(self, turn: Turn, now: float) -> None:
        """Log why nothing is released, when the reason changes."""
        block = turn.block
        reason = None if block is None else block.reason
        if block is not None and reason is not self._deferred_for:
            count = len(leftovers.due(self.book.ledger, now))
            fields: dict[str, Any] = {"reason": reason, "count": count, **block.measures}
            self._context.log.event(Event.LEFTOVER_DEFERRED, **fields)
        self._deferred_for = reason

    def _tend_later(self, now: float, *, is_blocked: bool) -> None:
        times = [self._find_at]
        due_at = leftovers.next_due(self.book.ledger)
        if due_at is not None and not is_blocked:
            times.append(due_at)
        # Each decision looks again at what blocks a release.
        later = [at for at in times if at > now]
        if later:
            self._tend_after(min(later) - now)

    def _tend_after(self, seconds: float) -> None:
        """Schedule a reminder, unless an earlier one is scheduled."""
        now = self._context.now
        at = now + seconds
        if self._tend_at is not None and now < self._tend_at <= at:
            return
        self._tend_at = at
        self._context.remind(seconds, TendLeftovers(at))
