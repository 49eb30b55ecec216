"""Writes the daemon's journal, and knows when it can't, or may not.

The journal is the lease holder's: without the lease another manager may be writing it (L6). While
it can't or may not be written, `problem` says why, every snapshot is read-only, and nothing is
begun. The outcomes of what was begun before wait, and are written once that is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from nodemanager.core.explain.events import CLEANED
from nodemanager.core.model.annotations import Marks
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import FreedLife, Leftover
from nodemanager.core.observe.clocks import Clocks, is_news
from nodemanager.core.observe.facts import Fact
from nodemanager.core.plan.leftovers import Entry
from nodemanager.core.replay.fold import Decision, Start
from nodemanager.errors import JournalError, JournalReplaced
from nodemanager.journal import api
from nodemanager.journal.kept import (
    ALL,
    BACKLOG_MARKS,
    BOOT_LOOPS,
    BREAKER,
    CLOCKS,
    GIVEN_BACK,
    LATE_WRITES,
    MARKS,
    Kept,
)
from nodemanager.lib.log import WARNING, Logger

NO_LEASE = "this manager lacks the pool's lease"

T = TypeVar("T")


class JournalAccess:
    """The journal of one daemon actor. `failure` is why it can't be used, until it is mended.

    Its methods raise JournalReplaced, and no other JournalError.
    """

    def __init__(self, journal: api.Journal, log: Logger, may_write: Callable[[], bool]) -> None:
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


JOINED: tuple[Kept[Any], ...] = (BREAKER, LATE_WRITES, BOOT_LOOPS, GIVEN_BACK, BACKLOG_MARKS)
"""The values that may change before the journal was read: what it has is joined with them."""


@dataclass(frozen=True)
class Loaded:
    """What a former run left."""

    intents: tuple[api.OpenIntent, ...]
    leftovers: tuple[Entry, ...]
    values: Mapping[Kept[Any], Any]

    def of(self, what: Kept[T]) -> T:
        value: T = self.values[what]
        return value


class JournalWriter:
    """Writes the journal of one daemon actor. Raises JournalReplaced, and no other JournalError."""

    def __init__(self, journal: api.Journal, log: Logger, holds_lease: Callable[[], bool]) -> None:
        self._journal = journal
        self._access = JournalAccess(journal, log, holds_lease)
        self._open: dict[str, api.Intent] = {}
        self._clocks: Clocks | None = None
        self._values: dict[Kept[Any], Any] = {what: what.nothing for what in JOINED}

    @property
    def problem(self) -> str | None:
        """Why nothing may be begun; None while the journal can be read and written."""
        return self._access.problem

    def load(self) -> Loaded | None:
        """Load what a former run left; None if it can't be read now."""
        loaded = self._access.asks(self._read, None)
        if loaded is None:
            return None
        self._access.is_loaded = True
        for what, own in self._values.items():
            self._values[what] = what.joined(loaded.values[what], own)
        # An operator sees to one passed over: nothing that ends under its key concludes it.
        self._open |= {one.intent.key: one.intent for one in loaded.intents if not one.passed_over}
        if self._journal.failure is not None:
            self._access.failed(JournalError(self._journal.failure))
        return loaded

    def _read(self) -> Loaded:
        """What a former run left. Raises JournalError."""
        journal = self._journal
        return Loaded(
            _kept("open intents", journal.open_intents),
            _kept("leftovers", journal.leftovers),
            {what: _kept(what.title, partial(journal.kept, what)) for what in ALL},
        )

    def mend(self) -> Loaded | None:
        """After a failure try again, and write what waits. Returns what was loaded only now."""
        access = self._access
        if access.problem is None:
            return None
        if not access.may_write():
            return None
        if not self._journal.retry():
            access.failed(JournalError(self._journal.failure or "it does not answer"))
            return None
        loaded = None
        if not access.is_loaded:
            loaded = self.load()
            if loaded is None:
                return None
        access.mends()
        return loaded

    # Intents.

    def intend(self, intents: Sequence[api.Intent]) -> bool:
        """Write the intents. They may be carried out only if this returns True."""
        if self.problem is not None or not self._access.does(
            partial(self._journal.intend, intents)
        ):
            return False
        self._opened(intents)
        return True

    def commit(self, opened: Sequence[api.Intent], ended: Sequence[api.Conclusion]) -> bool:
        """Write new intents and, in the same transaction, the outcomes that led to them.

        The new intents may be carried out only if this returns True. Outcomes alone always return
        True; they wait while they can't be written.
        """
        ended = [one for one in ended if one.key in self._open]
        if not opened:
            for key, outcome, details in ended:
                self.conclude(key, outcome, **details)
            return True
        if not ended:
            return self.intend(opened)
        if self.problem is not None or not self._access.does(
            partial(self._journal.commit, opened, ended)
        ):
            return False
        self._opened(opened)
        for one in ended:
            del self._open[one.key]
        return True

    def _opened(self, intents: Sequence[api.Intent]) -> None:
        for intent in intents:
            known = self._open.get(intent.key)
            image = intent.pre_image or (known.pre_image if known is not None else None)
            self._open[intent.key] = replace(intent, pre_image=image)

    def conclude(self, key: str, outcome: str, **details: object) -> None:
        """Write the outcome of the open intent of that key, if there is one."""
        if self._open.pop(key, None) is not None:
            self._access.owes(
                ("outcome", key), partial(self._journal.conclude, key, outcome, details)
            )

    def recovery_failed(self, key: str, error: str) -> api.OpenIntent | None:
        """Count a failed recovery; None if there is no such intent, or it can't be written."""
        if self.problem is not None:
            return None
        counted = self._access.asks(partial(self._journal.recovery_failed, key, error), None)
        if counted is not None and counted.passed_over:
            self._open.pop(key, None)
        return counted

    # What operators order.

    def save_marks(self, marks: Marks) -> bool:
        """Write the marks; whether they are on the disk."""
        write = partial(self._journal.keep, MARKS, marks)
        return self.problem is None and self._access.does(write)

    # What nodes leave behind (D4).

    def enter(self, entries: Sequence[Entry]) -> bool:
        """Write leftovers. Their node may be destroyed only if this returns True."""
        if self.problem is not None:
            return False
        return not entries or self._access.does(partial(self._journal.save_leftovers, entries))

    def tried(self, entry: Entry) -> None:
        self._access.owes(
            ("leftover", entry.leftover.key), partial(self._journal.save_leftovers, [entry])
        )

    def call_off(self, leftovers: Sequence[Leftover]) -> None:
        for one in leftovers:
            forget = partial(self._journal.forget_leftovers, [one])
            self._access.owes(("leftover", one.key), forget)

    # What the next run must know.

    def keep(self, what: Kept[T], value: T) -> None:
        """Write a value for the next run, before it takes effect here."""
        self._values[what] = value
        # What was read meanwhile may have been joined with it.
        self._access.owes(what.name, lambda: self._journal.keep(what, self._values[what]))

    def keep_all(self, values: Mapping[Kept[Any], Any]) -> bool:
        """Write these values, or leave those before: whether every one is written.

        For what an operator orders: an order that can't be written has no effect, nor gets one
        once the journal takes writes again.
        """
        before = {what: self._values[what] for what in values}
        for what, value in values.items():
            self.keep(what, value)
        if self.problem is None:
            return True
        for what, value in before.items():
            self.keep(what, value)
        return False

    def kept(self, what: Kept[T]) -> T:
        value: T = self._values[what]
        return value

    def save_clocks(self, clocks: Clocks) -> None:
        """Write the clocks if one of them changed: a later run must know of a jump."""
        before = self._clocks
        if (
            before is not None
            and not is_news(before.store, clocks.store)
            and not is_news(before.wall, clocks.wall)
        ):
            return
        # One that can't be written is out of date once that is possible: the next reading goes.
        if self.problem is None and self._access.does(partial(self._journal.keep, CLOCKS, clocks)):
            self._clocks = clocks

    def concluded(self, since: float = 0.0, id: str | None = None) -> tuple[api.Concluded, ...]:
        """The intents that ended since then (epoch seconds), oldest first; none if unreadable.

        Only those of the record or node `id` where it is given.
        """
        try:
            return self._access.asks(partial(self._journal.concluded, id=id, since=since), ())
        except ValueError:
            return ()

    def pre_images(
        self, *, record: str | None = None, since: float = 0.0
    ) -> tuple[api.PreImage, ...]:
        """The pre-images in the journal, newest first; none if it can't be read."""
        return self._access.asks(partial(self._journal.pre_images, record=record, since=since), ())

    def given_back(self, lives: Iterable[FreedLife], at: float, since: float) -> None:
        """Keep that these lives got their record back; drop what was kept before `since`.

        Each is kept by when its newest clean ended: our clock may be set back between the two. It
        is kept by `at`, the time now, if the journal can't tell.
        """
        known = {key: then for key, then in self.kept(GIVEN_BACK).items() if then >= since}
        for life in lives:
            images = self.pre_images(record=life.record)
            own = (one for one in images if one.incarnation == life.incarnation)
            ends = (one.ended_at for one in own if one.outcome == CLEANED)
            ended_at = next(ends, None)
            known[life.key] = at if ended_at is None else ended_at
        self.keep(GIVEN_BACK, known)

    def newest(self, key: str) -> tuple[bool, api.Intent | None]:
        """Whether the journal could be read, and the newest intent of that key."""
        unread: tuple[bool, api.Intent | None] = (False, None)
        return self._access.asks(lambda: (True, self._journal.newest(key)), unread)

    # What was seen and decided.

    def begin(self, start: Start) -> None:
        self._journal.begin(start)

    def note(self, fact: Fact) -> None:
        self._journal.note(fact)

    def decided(self, decision: Decision) -> None:
        self._access.does(partial(self._journal.decided, decision))


def _kept(what: str, read: Callable[[], T]) -> T:
    """What `read` returns. Raises JournalError if this program can't read the stored value."""
    try:
        return read()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise JournalError(
            f"what it keeps of {what} can't be read ({error}): restore the journal from a copy, or "
            "let the open work end and move it away"
        ) from error
