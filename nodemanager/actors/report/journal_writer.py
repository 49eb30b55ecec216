"""Writes the daemon's journal, and knows when it can't.

While the journal can't be written, `problem` says why, every snapshot is read-only, and nothing is
begun. The outcomes of what was begun before wait, and are written once that is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from nodemanager.actors.report.to_prove import FREEING, ToProve
from nodemanager.core.execute.leftovers import Entry, Key, LedgerState
from nodemanager.core.execute.unacknowledged import Late
from nodemanager.core.explain.events import CLEANED
from nodemanager.core.model.annotations import NO_MARKS, Mark, Marks
from nodemanager.core.model.facts import Fact
from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.world import FreedLife, Leftover, Outcome
from nodemanager.core.observe.store_clock import StoreClock, is_news
from nodemanager.core.replay.fold import Decision, Start
from nodemanager.core.safety.boot_loops import NONE, Loops
from nodemanager.core.safety.breaker import Breaker
from nodemanager.errors import JournalError
from nodemanager.journal.api import (
    Concluded,
    Conclusion,
    Hold,
    Intent,
    IntentKind,
    Journal,
    OpenIntent,
    PreImage,
)
from nodemanager.journal.codec import codec_of, decoded
from nodemanager.log import WARNING, Logger

GIVEN_BACK = "given_back"
"""By its key, when each freed life got its record back (U8), in epoch seconds."""
MARKS = "operator_marks"
BACKLOG_RUN = "backlog_run"
"""An operator's backlog plan and its progress (S5)."""

T = TypeVar("T")


@dataclass(frozen=True)
class Loaded:
    """What a former run left."""

    breaker: Breaker | None
    holds: tuple[Hold, ...]
    intents: tuple[OpenIntent, ...]
    late: Late = field(default_factory=dict)
    clock: StoreClock | None = None
    leftovers: tuple[Entry, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    marks: Marks = NO_MARKS
    loops: Loops = NONE


class JournalWriter:
    """Writes the journal of one daemon actor. No method raises JournalError."""

    def __init__(self, journal: Journal, log: Logger) -> None:
        self._journal = journal
        self._log = log
        self._failure: str | None = None
        self._loaded = False
        self._open: dict[str, Intent] = {}
        self._owed: dict[str, tuple[Intent, str, Mapping[str, Any]]] = {}
        self.to_prove = ToProve()
        self._breaker: Breaker | None = None
        self._late: Late = {}
        self._loops = NONE
        self._clock: StoreClock | None = None
        self._wall_ahead = 0.0
        self._holds: dict[str, Hold] = {}
        self._leftovers: dict[Key, Entry] = {}
        self._values: dict[str, Any] = {GIVEN_BACK: {}, BACKLOG_RUN: None}
        """The values that `keep` was given, by name."""
        self._called_off: dict[Key, Leftover] = {}
        self._marks = NO_MARKS

    @property
    def problem(self) -> str | None:
        """Why nothing may be begun; None while the journal can be read and written."""
        if self._failure is None:
            return None if self._loaded else "the journal was not read yet"
        return f"the journal can't be {'written' if self._loaded else 'read'}: {self._failure}"

    def load(self) -> Loaded | None:
        """Load what a former run left; None if it can't be read now."""
        journal = self._journal
        try:
            loaded = Loaded(
                _kept("the breaker", journal.breaker),
                _kept("holds", journal.holds),
                _kept("open intents", journal.open_intents),
                _kept("late writes", journal.late_writes),
                _kept("the store's clock", journal.store_clock),
                _kept("leftovers", journal.leftovers),
                {name: _kept(name, partial(journal.recall, name)) for name in self._values},
                _kept(MARKS, lambda: _marks_from(journal.recall(MARKS))),
                _kept("boot loops", journal.boot_loops),
            )
            grounds = _kept("destroys", lambda: self._destroys_behind(loaded.intents))
        except JournalError as error:
            self._failed(error)
            return None
        self._loaded = True
        self._marks = loaded.marks
        self._breaker = loaded.breaker
        self._late = loaded.late
        if self._loops == NONE:
            self._loops = loaded.loops
        given_back = {**(loaded.values[GIVEN_BACK] or {}), **self._values[GIVEN_BACK]}
        known = {name: self._values[name] or value for name, value in loaded.values.items()}
        self._values = {**known, GIVEN_BACK: given_back}
        self._holds = {hold.id: hold for hold in loaded.holds}
        self._leftovers = {entry.leftover.key: entry for entry in loaded.leftovers}
        # An operator sees to a parked one: nothing that ends under its key concludes it.
        self._open |= {one.intent.key: one.intent for one in loaded.intents if not one.parked}
        self.to_prove.rest_on(grounds)
        if journal.failure is not None:
            self._failed(JournalError(journal.failure))
        return loaded

    def _destroys_behind(self, intents: Iterable[OpenIntent]) -> dict[str, Intent]:
        """The destroy of its node that ended in gone, by the key of each open clean."""
        found = {}
        for one in intents:
            node_id = one.intent.node
            if one.intent.kind not in FREEING or node_id is None:
                continue
            for ended in self._journal.concluded(id=node_id):
                if _is_gone(ended.intent, ended.outcome) and ended.intent.node == node_id:
                    found[one.intent.key] = ended.intent
        return found

    def mend(self) -> Loaded | None:
        """After a failure try again, and write what waits. Returns what was loaded only now."""
        if self._failure is None and self._loaded:
            return None
        if not self._journal.retry():
            self._failed(JournalError(self._journal.failure or "it does not answer"))
            return None
        loaded = None
        if not self._loaded:
            loaded = self.load()
            if loaded is None:
                return None
        try:
            self._write_owed()
        except JournalError as error:
            self._failed(error)
            return loaded
        if self._failure is not None:
            self._failure = None
            self._log.event(Event.JOURNAL_HEALED)
        return loaded

    # Intents.

    def intend(self, intents: Sequence[Intent]) -> bool:
        """Write the intents. They may be carried out only if this returns True."""
        if self.problem is not None:
            return False
        try:
            self._journal.intend(intents)
        except JournalError as error:
            self._failed(error)
            return False
        self._opened(intents)
        return True

    def commit(self, opened: Sequence[Intent], ended: Sequence[Conclusion]) -> bool:
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
        if self.problem is not None:
            return False
        try:
            self._journal.commit(opened, ended)
        except JournalError as error:
            self._failed(error)
            return False
        self._opened(opened)
        for one in ended:
            intent = self._open.pop(one.key)
            if _is_gone(intent, one.outcome):
                self.to_prove.destroyed(intent, self._open.values())
            self.to_prove.concluded(intent, one)
        return True

    def _opened(self, intents: Sequence[Intent]) -> None:
        for intent in intents:
            known = self._open.get(intent.key)
            image = intent.pre_image or (known.pre_image if known is not None else None)
            self._open[intent.key] = replace(intent, pre_image=image)

    def conclude(self, key: str, outcome: str, **details: object) -> None:
        """Write the outcome of the open intent of that key, if there is one."""
        intent = self._open.pop(key, None)
        if intent is None:
            return
        self._owed[key] = (intent, outcome, details)
        if _is_gone(intent, outcome):
            self.to_prove.destroyed(intent, self._open.values())
        if self._failure is not None:
            return
        try:
            self._write_conclusions()
        except JournalError as error:
            self._failed(error)

    def recovery_failed(self, key: str, error: str) -> OpenIntent | None:
        """Count a failed recovery; None if there is no such intent, or the write failed."""
        try:
            counted = self._journal.recovery_failed(key, error)
        except JournalError as failed:
            self._failed(failed)
            return None
        if counted is not None and counted.parked:
            self._open.pop(key, None)
        return counted

    # What the next run must know.

    def save_breaker(self, breaker: Breaker) -> None:
        """Write the breaker, before it takes effect."""
        self._breaker = breaker
        if self._failure is not None or not self._loaded:
            return
        try:
            self._journal.save_breaker(breaker)
        except JournalError as error:
            self._failed(error)

    def save_clock(self, clock: StoreClock, wall_ahead: float) -> None:
        """Write the store's clock if it changed: a later run must know of a step.

        `wall_ahead` is how far our wall clock is ahead of CLOCK_BOOTTIME, in seconds.
        """
        moved_s = wall_ahead - self._wall_ahead
        if self._failure is not None or not self._loaded:
            return
        if not is_news(self._clock, clock, moved_s):
            return
        try:
            self._journal.save_store_clock(clock)
        except JournalError as error:
            self._failed(error)
            return
        self._clock, self._wall_ahead = clock, wall_ahead

    def save_late(self, late: Late) -> None:
        """Write the late writes before their intents' outcomes: until then intents have them."""
        self._late = late
        if self._failure is not None or not self._loaded:
            return
        try:
            self._journal.save_late_writes(late)
        except JournalError as error:
            self._failed(error)

    def save_loops(self, loops: Loops) -> None:
        """Write the streaks of failed boots (B5)."""
        self._loops = loops
        if self._loaded:
            self._write_or_owe(lambda: self._journal.save_boot_loops(loops))

    def hold(self, hold: Hold) -> bool:
        """Write a hold; whether it is on the disk."""
        try:
            self._journal.hold(hold)
        except JournalError as error:
            self._failed(error)
            return False
        self._holds[hold.id] = hold
        return True

    def release(self, id: str) -> bool:
        try:
            self._journal.release(id)
        except JournalError as error:
            self._failed(error)
            return False
        self._holds.pop(id, None)
        return True

    def hold_on(self, id: str) -> Mark | None:
        hold = self._holds.get(id)
        return None if hold is None else Mark(hold.by, hold.at, hold.reason)

    @property
    def hold_marks(self) -> Mapping[str, Mark]:
        return {hold.id: Mark(hold.by, hold.at, hold.reason) for hold in self._holds.values()}

    def save_marks(self, marks: Marks) -> bool:
        """Write the drains, the kills and the pause; whether they are on the disk."""
        if self.problem is not None:
            return False
        try:
            self._journal.remember(MARKS, _marks_data(marks))
        except JournalError as error:
            self._failed(error)
            return False
        self._marks = marks
        return True

    def concluded(self, since: float) -> tuple[Concluded, ...]:
        """The intents that ended since then (epoch seconds), oldest first; none if unreadable."""
        try:
            return self._journal.concluded(since=since)
        except ValueError:
            return ()
        except JournalError as error:
            # A lost file is told only once: what is known must go into the new one.
            self._failed(error)
            return ()

    # The ledger of leftovers (D4).

    def enter_leftovers(self, entries: Sequence[Entry]) -> bool:
        """Write leftovers. Their node may be destroyed only if this returns True."""
        if self.problem is not None:
            return False
        if not entries:
            return True
        try:
            self._journal.save_leftovers(entries)
        except JournalError as error:
            self._failed(error)
            return False
        self._leftovers |= {entry.leftover.key: entry for entry in entries}
        return True

    def keep_leftover(self, entry: Entry) -> None:
        """Write the state of one leftover, now or once that is possible again."""
        self._leftovers[entry.leftover.key] = entry
        self._write_or_owe(lambda: self._write_leftovers([entry]))

    def call_off_leftovers(self, leftovers: Sequence[Leftover]) -> None:
        for leftover in leftovers:
            self._leftovers.pop(leftover.key, None)
            self._called_off[leftover.key] = leftover
        if leftovers:
            self._write_or_owe(self._write_called_off)

    def _write_or_owe(self, write: Callable[[], None]) -> None:
        if self._failure is not None:
            return
        try:
            write()
        except JournalError as error:
            self._failed(error)

    def _write_leftovers(self, entries: Sequence[Entry]) -> None:
        self._journal.save_leftovers(entries)
        for entry in entries:
            if entry.state is LedgerState.RELEASED:
                self._leftovers.pop(entry.leftover.key, None)

    def _write_called_off(self) -> None:
        self._journal.forget_leftovers(tuple(self._called_off.values()))
        self._called_off.clear()

    @property
    def holds(self) -> frozenset[str]:
        return frozenset(self._holds)

    def pre_images(self, *, record: str | None = None, since: float = 0.0) -> tuple[PreImage, ...]:
        """The pre-images in the journal, newest first; none if it can't be read."""
        try:
            return self._journal.pre_images(record=record, since=since)
        except JournalError as error:
            self._failed(error)
            return ()

    def given_back(self, lives: Iterable[FreedLife], at: float, since: float) -> None:
        """Keep that these lives got their record back; drop what was kept before `since`.

        Each is kept by when its newest clean ended: our clock may be set back between the two. It
        is kept by `at`, the time now, if the journal can't tell.
        """
        known = {key: then for key, then in self._values[GIVEN_BACK].items() if then >= since}
        for life in lives:
            images = self.pre_images(record=life.record)
            own = (one for one in images if one.incarnation == life.incarnation)
            ends = (one.ended_at for one in own if one.outcome == CLEANED)
            ended_at = next(ends, None)
            known[life.key] = at if ended_at is None else ended_at
        self.keep(GIVEN_BACK, known)

    def keep(self, name: str, value: Any) -> None:
        """Write a value for the next run: JSON, times in epoch seconds; before it takes effect."""
        self._values[name] = value
        self._write_or_owe(lambda: self._journal.remember(name, value))

    def kept(self, name: str) -> Any:
        """The value that was kept by that name, or None."""
        return self._values[name]

    def newest(self, key: str) -> tuple[bool, Intent | None]:
        """Whether the journal could be read, and the newest intent of that key.

        After a failure it can't, until it is mended: a new file may lack our entries.
        """
        if self._failure is not None:
            return False, None
        try:
            return True, self._journal.newest(key)
        except JournalError as error:
            self._failed(error)
            return False, None

    # What was seen and decided.

    def begin(self, start: Start) -> None:
        self._journal.begin(start)

    def note(self, fact: Fact) -> None:
        self._journal.note(fact)

    def decided(self, decision: Decision) -> None:
        try:
            self._journal.decided(decision)
        except JournalError as error:
            self._failed(error)

    def _write_open(self) -> None:
        """Write the open intents that this file lacks: their outcomes need them."""
        known = {one.intent.key for one in self._journal.open_intents()}
        ours = {key: intent for key, (intent, _, _) in self._owed.items()} | self._open
        lacking = [intent for key, intent in ours.items() if key not in known]
        if lacking:
            self._journal.intend(lacking)

    def _write_conclusions(self) -> None:
        for key, (intent, outcome, details) in list(self._owed.items()):
            self._journal.conclude(key, outcome, details)
            del self._owed[key]
            self.to_prove.concluded(intent, Conclusion(key, outcome, details))

    def _write_owed(self) -> None:
        """Write everything again, because the file may be a new one."""
        if self._breaker is not None:
            self._journal.save_breaker(self._breaker)
        self._journal.save_late_writes(self._late)
        self._journal.save_boot_loops(self._loops)
        # The next reading is then written, even if it is no news.
        self._clock = None
        for hold in self._holds.values():
            self._journal.hold(hold)
        self._journal.remember(MARKS, _marks_data(self._marks))
        self._write_leftovers(tuple(self._leftovers.values()))
        self._write_called_off()
        for name, value in self._values.items():
            self._journal.remember(name, value)
        self.to_prove.write(self._journal, self._owed)
        self._write_open()
        self._write_conclusions()

    def _failed(self, error: JournalError) -> None:
        if self._failure != str(error):
            # Log another failure again: the file may get lost while its disk is full.
            self._log.event(
                Event.JOURNAL_FAILED, level=WARNING, reason=Reason.READ_ONLY, error=error
            )
        self._failure = str(error)


def _is_gone(intent: Intent, outcome: str) -> bool:
    return intent.kind is IntentKind.DESTROY and outcome == Outcome.GONE.value


def _kept(what: str, read: Callable[[], T]) -> T:
    """What `read` returns. Raises JournalError if this program can't read the stored value."""
    try:
        return read()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JournalError(
            f"what it keeps of {what} can't be read ({error}): mostly a newer version wrote it; "
            "run that one"
        ) from error


def _marks_data(marks: Marks) -> Any:
    """The marks as they are kept, without holds, which have their own table."""
    if not (marks.drains or marks.kills or marks.paused):
        return None
    return codec_of(Marks).encode(replace(marks, holds={}))


def _marks_from(data: Any) -> Marks:
    """The marks that were kept. Raises ValueError if they can't be decoded."""
    marks: Marks = NO_MARKS if data is None else decoded(Marks, data)
    return marks
