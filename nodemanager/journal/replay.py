"""The replay of a recording: the same facts and settings must give the same verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nodemanager.core.execute.state import State
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from nodemanager.core.replay.fold import Start, after_decision, after_fact, decide, settings_after
from nodemanager.journal.reading import Decided, JournalEntry
from nodemanager.journal.verdicts import VerdictChange, digest, verdicts_of


@dataclass(frozen=True)
class ReplayedDecision:
    """One decision made again. `is_same`: every verdict is as recorded."""

    snapshot: Snapshot
    recorded: Decided
    plan: Plan
    is_same: bool


class Fold:
    """What a recording had come to, entry by entry: the state and the settings in force."""

    def __init__(self) -> None:
        self.state = State()
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """Raises ValueError before a start."""
        if self._settings is None:
            raise ValueError("facts without a start to fold them into")
        return self._settings

    def take(self, entry: JournalEntry) -> ReplayedDecision | None:
        """Fold the entry in; the decision made again where it is one."""
        if isinstance(entry, Start):
            self.state, self._settings = entry.state, entry.settings
            return None
        if isinstance(entry, Decided):
            snapshot = replace(entry.snapshot, history=self.state.history)
            made = decide(snapshot, entry.settings, new_records=entry.new_records)
            is_same = digest(verdicts_of(made)) == entry.digest
            self.state = after_decision(self.state, made, snapshot.now, entry.settings)
            return ReplayedDecision(snapshot, entry, made, is_same)
        self._settings = settings_after(self.settings, entry)
        self.state = after_fact(self.state, entry, self._settings)
        return None


def within(entries: Iterable[JournalEntry], since: float, until: float) -> Iterator[JournalEntry]:
    """The entries of the decisions from `since` to `until` (epoch seconds) alone.

    What the journal keeps as a whole begins earlier. All before the first of them is folded, as it
    was recorded, into the start of what is given; that decision has all verdicts as its changes.
    """
    fold, start = Fold(), None
    changes: dict[tuple[str, str], VerdictChange] = {}
    begun = False
    for entry in entries:
        if isinstance(entry, Decided) and entry.snapshot.wall > until:
            return
        if begun:
            yield entry
            continue
        if isinstance(entry, Start):
            start = entry
            changes.clear()
        elif isinstance(entry, Decided):
            changes |= {(one.subject, one.id): one for one in entry.changes}
            if entry.snapshot.wall >= since:
                assert start is not None
                begun = True
                at, wall = entry.snapshot.now, entry.snapshot.wall
                yield replace(start, settings=fold.settings, at=at, wall=wall, state=fold.state)
                there = tuple(one for one in changes.values() if one.kind is not None)
                yield replace(entry, changes=there)
                continue
        fold.take(entry)


def replayed(entries: Iterable[JournalEntry]) -> Iterator[ReplayedDecision]:
    """Make every decision of `entries` again, from its snapshot and its recorded settings.

    Each segment brings its own initial state, so that nothing is folded twice and a gap does not
    affect what follows.
    """
    fold = Fold()
    for entry in entries:
        made = fold.take(entry)
        if made is not None:
            yield made
