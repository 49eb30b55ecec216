"""The daemon's ledger of leftovers: changes core's ledger, the journal and the log together.

However a shutdown ends (gone, refused, skipped, or cut off by a kill), one of `called_off`,
`ended`, `doubted` or `restore` follows, and then the same releases (SAFETY.md D4, D5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nodemanager.actors.daemon.context import Context
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import Leftover, Outcome
from nodemanager.core.plan import leftovers
from nodemanager.core.plan.leftovers import PASS_OVER_AFTER, Entry, Ledger, LedgerState
from nodemanager.core.safety.rate_limits import heeded
from nodemanager.errors import LeftAlone, RemoteError
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
        retry_after = None if error is None else heeded(error.retry_after, longest_s)
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
