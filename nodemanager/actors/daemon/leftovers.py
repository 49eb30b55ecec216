"""What nodes that are gone left behind: the search, the list and its release (D4, D5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.actors import messages
from nodemanager.actors.daemon.context import Context
from nodemanager.core.execute.news import LeftoversSearched
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import Leftover, Outcome
from nodemanager.core.plan import leftovers
from nodemanager.core.plan.leftovers import PASS_OVER_AFTER, Entry, Ledger, LedgerState, Turn
from nodemanager.core.safety.rate_limits import capped_retry_after
from nodemanager.errors import LeftAlone, RemoteError, Throttled
from nodemanager.lib.log import DEBUG, INFO, WARNING


@dataclass(eq=False)
class LeftoverBook:
    """What is still to be released. Times are CLOCK_BOOTTIME.

    Unless it `applies`, it writes and releases nothing: a dry run logs what it finds, and once for
    each leftover what it would do.
    """

    _context: Context

    @property
    def ledger(self) -> Ledger:
        return self._context.state.ledger

    def _log(self, event: Event, **fields: Any) -> None:
        self._context.log.event(event, **fields)

    # Shutdowns of ours.

    def enter(self, pins: tuple[Leftover, ...], now: float) -> bool:
        """Enter what a node pins. It may be destroyed only if this returns True."""
        ledger = leftovers.entered(self.ledger, pins, now)
        if not self._context.journal_writer.enter([ledger.entries[pin.key] for pin in pins]):
            return False
        for pin in pins:
            self._log(Event.LEFTOVER_ENTERED, **_names(pin))
        self._context.learn(ledger)
        return True

    def called_off(self, node_id: str) -> None:
        """Drop the leftovers of a node whose destroy was not sent, or was refused."""
        self._drop(leftovers.called_off(self.ledger, node_id))

    def lives(self, node_id: str) -> None:
        """Drop the leftovers of a node that is listed and has no action of ours in flight."""
        self._drop(leftovers.without(self.ledger, node_id))

    def _drop(self, ledger: Ledger) -> None:
        before = self.ledger.entries.items()
        dropped = [entry.leftover for key, entry in before if key not in ledger.entries]
        for leftover in dropped:
            self._log(Event.LEFTOVER_CALLED_OFF, **_names(leftover))
        self._context.learn(ledger)
        self._context.journal_writer.call_off(dropped)

    # The search.

    def found(self, seen: tuple[Leftover, ...], now: float, visible_after: float) -> bool:
        """Enter what the cloud found with our tags; whether that could be written."""
        before = self.ledger
        if not self._context.applies:
            # A dry run releases nothing, so it forgets what is not found any more.
            keys = {leftover.key for leftover in seen}
            kept = {key: entry for key, entry in before.entries.items() if key in keys}
            before = replace(before, entries=kept)
        ledger = leftovers.found(before, seen, now, visible_after)
        new = [entry for key, entry in ledger.entries.items() if key not in before.entries]
        if self._context.applies and not self._context.journal_writer.enter(new):
            return False
        for entry in new:
            self._log(
                Event.LEFTOVER_FOUND,
                **_names(entry.leftover),
                retry_s=visible_after,
                mode=self._context.inputs.mode,
            )
        self._context.learn(ledger)
        return True

    # A release.

    def about_to_release(self, entry: Entry) -> None:
        self._log(
            Event.LEFTOVER_RELEASE,
            level=DEBUG if entry.attempts else INFO,
            reason=Reason.LEFT_BEHIND,
            **_names(entry.leftover),
            attempt=entry.attempts + 1,
            mode=self._context.inputs.mode,
        )

    def would_release(self, entry: Entry, now: float) -> None:
        """Log the release that a dry run would order, and enter it as an unknown outcome."""
        self.about_to_release(entry)
        ledger, _ = leftovers.after(
            self.ledger, entry.leftover, Outcome.UNKNOWN, now, error=Reason.DRY_RUN.value
        )
        self._context.learn(ledger)

    def tried(
        self,
        leftover: Leftover,
        outcome: Outcome,
        error: RemoteError | None,
        now: float,
        *,
        longest_s: float,
    ) -> None:
        """Write the outcome of one attempt, and log it; as a warning if it is news."""
        known = self.ledger.entries.get(leftover.key)
        said = None if error is None else str(error)
        retry_after = None if error is None else capped_retry_after(error.retry_after, longest_s)
        ledger, entry = leftovers.after(
            self.ledger, leftover, outcome, now, error=said, retry_after=retry_after
        )
        self._context.learn(ledger)
        self._context.journal_writer.tried(entry)
        if entry.state is LedgerState.RELEASED:
            self._log(Event.LEFTOVER_RELEASED, **_names(leftover), attempt=entry.attempts)
            return
        is_passed_over = entry.attempts == PASS_OVER_AFTER
        if outcome is Outcome.ACCEPTED and not is_passed_over:
            return
        is_news = is_passed_over or known is None or known.last_error != entry.last_error
        self._log(
            Event.LEFTOVER_RELEASE_FAILED,
            level=WARNING if is_news else DEBUG,
            reason=_why(error, passed_over=is_passed_over),
            **_names(leftover),
            outcome=outcome,
            error=error,
            attempt=entry.attempts,
            retry_s=entry.not_before - now,
        )


def _why(error: RemoteError | None, *, passed_over: bool) -> Reason | None:
    if isinstance(error, LeftAlone):
        return Reason.LEFT_ALONE
    return Reason.PASSED_OVER if passed_over else None


def _names(leftover: Leftover) -> dict[str, Any]:
    return {
        "leftover": leftover.id,
        "kind": leftover.kind.value,
        "node": leftover.node_id or None,
    }


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

    def due(self, message: messages.TendLeftovers) -> None:
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
            self._give(messages.FindLeftovers())
            return
        turn = self._next_release(now)
        while turn.entry is not None and not self._context.applies:
            self.book.would_release(turn.entry, now)
            turn = self._next_release(now)
        self._tell_deferred(turn, now)
        if turn.entry is None:
            self._tend_later(now, is_blocked=turn.block is not None)
        elif self._give(messages.ReleaseLeftover(turn.entry.leftover)):
            self.book.about_to_release(turn.entry)

    def _next_release(self, now: float) -> Turn:
        if not leftovers.due(self.book.ledger, now, self._context.state.marks.holds.keys()):
            return Turn()
        snapshot = self._context.snapshot(LEFTOVERS)
        for node_id in leftovers.living(self.book.ledger, snapshot):
            self.book.lives(node_id)
        return leftovers.next_release(self.book.ledger, snapshot, self._context.settings)

    def _give(self, order: messages.FindLeftovers | messages.ReleaseLeftover) -> bool:
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

    def found(self, message: messages.LeftoversFound) -> None:
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

    def released(self, message: messages.LeftoverReleased) -> None:
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
        self._context.remind(seconds, messages.TendLeftovers(at))
