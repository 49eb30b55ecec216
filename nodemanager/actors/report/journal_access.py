"""The way to the journal, which knows when it can't be read or written, or may not.

The journal is the lease holder's: without the lease another manager may be writing it (L6). What
can't be written then waits in one queue, and is written in order once that is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.errors import JournalError, JournalReplaced
from nodemanager.journal.api import Journal
from nodemanager.lib.log import WARNING, Logger

NO_LEASE = "this manager lacks the pool's lease"

T = TypeVar("T")


class JournalAccess:
    """The journal of one daemon actor. `failure` is why it can't be used, until it is mended.

    Its methods raise JournalReplaced, and no other JournalError.
    """

    def __init__(self, journal: Journal, log: Logger, may_write: Callable[[], bool]) -> None:
        self.journal = journal
        self.may_write = may_write
        self._log = log
        self._owed: dict[Hashable, Callable[[], object]] = {}
        """The writes that wait, oldest first; one takes the place of an older one by its key."""
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
        except JournalReplaced:
            raise
        except JournalError as error:
            self.failed(error)
            return False
        return True

    def asks(self, ask: Callable[[], T], otherwise: T) -> T:
        """What `ask` reads, or `otherwise` if it can't be read."""
        answers: list[T] = []
        return answers[0] if self.does(lambda: answers.append(ask())) else otherwise

    def owes(self, key: Hashable, write: Callable[[], object]) -> None:
        """Write now, or once that is possible: not without the lease, nor after a failure."""
        self._owed.pop(key, None)
        self._owed[key] = write
        if not self.may_write():
            self.failed(JournalError(NO_LEASE))
        if self.failure is None and self.is_loaded:
            self._pay()

    def _pay(self) -> bool:
        """Write what waits; whether nothing waits any more."""
        while self._owed:
            key = next(iter(self._owed))
            if not self.does(self._owed[key]):
                return False
            del self._owed[key]
        return True

    def failed(self, error: JournalError) -> None:
        if self.failure != str(error):
            # Log another failure again: the file may be locked while its disk is full.
            self._log.event(
                Event.JOURNAL_FAILED, level=WARNING, reason=Reason.READ_ONLY, error=error
            )
        self.failure = str(error)

    def mends(self) -> None:
        """The journal takes writes again: write what waits."""
        if self._pay() and self.failure is not None:
            self.failure = None
            self._log.event(Event.JOURNAL_HEALED)
