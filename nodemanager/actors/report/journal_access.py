"""The way to the journal, which knows when it can't be read or written, or may not.

The journal is the lease holder's: without the lease another manager may be writing it (L6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.errors import JournalError
from nodemanager.journal.api import Journal
from nodemanager.log import WARNING, Logger

NO_LEASE = "this manager lacks the pool's lease"

T = TypeVar("T")


class JournalAccess:
    """The journal of one daemon actor. `failure` is why it can't be used, until it is mended."""

    def __init__(self, journal: Journal, log: Logger, may_write: Callable[[], bool]) -> None:
        self.journal = journal
        self.may_write = may_write
        self._log = log
        self.failure: str | None = None
        self.is_loaded = False

    @property
    def problem(self) -> str | None:
        """Why nothing may be begun; None while the journal can be read and written."""
        failure = self.failure if self.may_write() else NO_LEASE
        if failure is None:
            return None if self.is_loaded else "the journal was not read yet"
        return f"the journal can't be {'written' if self.is_loaded else 'read'}: {failure}"

    def does(self, act: Callable[[], object]) -> bool:
        """Read or write; whether that was possible."""
        try:
            act()
        except JournalError as error:
            self.failed(error)
            return False
        return True

    def does_or_owes(self, write: Callable[[], object]) -> None:
        """Write now, or leave it to whoever mends it: without the lease, and after a failure."""
        if not self.may_write():
            self.failed(JournalError(NO_LEASE))
        if self.failure is None and self.is_loaded:
            self.does(write)

    def asks(self, ask: Callable[[], T], otherwise: T) -> T:
        """What `ask` reads, or `otherwise` if it can't be read."""
        try:
            return ask()
        except JournalError as error:
            self.failed(error)
            return otherwise

    def failed(self, error: JournalError) -> None:
        if self.failure != str(error):
            # Log another failure again: the file may get lost while its disk is full.
            self._log.event(
                Event.JOURNAL_FAILED, level=WARNING, reason=Reason.READ_ONLY, error=error
            )
        self.failure = str(error)

    def healed(self) -> None:
        if self.failure is not None:
            self.failure = None
            self._log.event(Event.JOURNAL_HEALED)
