"""The daemon's ledger of leftovers: changes core's ledger, the journal and the log together.

However a shutdown ends (gone, refused, skipped, or cut off by a kill), one of `called_off`,
`ended`, `doubted` or `restore` follows, and then the same releases (SAFETY.md D4, D5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nodemanager.actors.report.journal_writer import JournalWriter
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Leftover, Outcome
from nodemanager.core.observe.history import History
from nodemanager.core.plan import leftovers
from nodemanager.core.plan.leftovers import PASS_OVER_AFTER, Entry, Ledger, LedgerState
from nodemanager.core.safety.rate_limits import heeded
from nodemanager.errors import LeftAlone, RemoteError
from nodemanager.log import DEBUG, INFO, WARNING, Logger


class LeftoverBook:
    """What is still to be released. Times are CLOCK_BOOTTIME.

    Unless it `applies`, it writes and releases nothing: a dry run logs what it finds, and once for
    each leftover what it would do.
    """

    def __init__(self, journal_writer: JournalWriter, log: Logger, *, mode: str) -> None:
        self._scribe = journal_writer
        self._log = log
        self._mode = mode
        self.ledger = Ledger()

    @property
    def applies(self) -> bool:
        return self._mode == "apply"

    def restore(self, entries: Iterable[Entry], now: float, visible_after: float) -> None:
        """Add the entries of a former run; those that this run entered already go before them."""
        former = leftovers.restored(entries, now, visible_after).entries
        self.ledger = replace(self.ledger, entries={**former, **self.ledger.entries})

    # Shutdowns of ours.

    def enter(self, pins: tuple[Leftover, ...], now: float) -> bool:
        """Enter what a node pins. It may be destroyed only if this returns True."""
        ledger = leftovers.entered(self.ledger, pins, now)
        if not self._scribe.enter([ledger.entries[pin.key] for pin in pins]):
            return False
        for pin in pins:
            self._log.event(Event.LEFTOVER_ENTERED, **_names(pin))
        self.ledger = ledger
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
            self._log.event(Event.LEFTOVER_CALLED_OFF, **_names(leftover))
        self.ledger = ledger
        self._scribe.call_off(dropped)

    def ended(self, node_id: str, now: float) -> None:
        self.ledger = leftovers.ended(self.ledger, node_id, now)

    def doubted(self, node_id: str, now: float, visible_after: float) -> None:
        self.ledger = leftovers.doubtful(self.ledger, node_id, now, visible_after)

    # The search.

    def found(self, seen: tuple[Leftover, ...], now: float, visible_after: float) -> bool:
        """Enter what the cloud found with our tags; whether that could be written."""
        before = self.ledger
        if not self.applies:
            # A dry run releases nothing, so it forgets what is not found any more.
            keys = {leftover.key for leftover in seen}
            kept = {key: entry for key, entry in before.entries.items() if key in keys}
            before = replace(before, entries=kept)
        ledger = leftovers.found(before, seen, now, visible_after)
        new = [entry for key, entry in ledger.entries.items() if key not in before.entries]
        if self.applies and not self._scribe.enter(new):
            return False
        for entry in new:
            self._log.event(
                Event.LEFTOVER_FOUND,
                **_names(entry.leftover),
                retry_s=visible_after,
                mode=self._mode,
            )
        self.ledger = ledger
        return True

    # A release.

    def listed(self, history: History, settings: Settings) -> None:
        """Note which nodes the cloud listing that was just taken in lacks (C5)."""
        self.ledger = leftovers.listed(self.ledger, history, settings)

    def about_to_release(self, entry: Entry) -> None:
        self._log.event(
            Event.LEFTOVER_RELEASE,
            level=DEBUG if entry.attempts else INFO,
            reason=Reason.LEFT_BEHIND,
            **_names(entry.leftover),
            attempt=entry.attempts + 1,
            mode=self._mode,
        )

    def would_release(self, entry: Entry, now: float) -> None:
        """Log the release that a dry run would order, and enter it as an unknown outcome."""
        self.about_to_release(entry)
        ledger, _ = leftovers.after(
            self.ledger, entry.leftover, Outcome.UNKNOWN, now, error=Reason.DRY_RUN.value
        )
        self.ledger = ledger

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
        self.ledger = ledger
        self._scribe.tried(entry)
        if entry.state is LedgerState.RELEASED:
            self._log.event(Event.LEFTOVER_RELEASED, **_names(leftover), attempt=entry.attempts)
            return
        is_passed_over = entry.attempts == PASS_OVER_AFTER
        if outcome is Outcome.ACCEPTED and not is_passed_over:
            return
        is_news = is_passed_over or known is None or known.last_error != entry.last_error
        self._log.event(
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
