"""The replay of a recording: the same facts and settings must give the same verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nodemanager.core.execute.state import State
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from nodemanager.core.replay.fold import Start, after_decision, after_fact, decide, settings_after
from nodemanager.journal.reading import Decided, JournalEntry
from nodemanager.journal.verdicts import digest, verdicts_of


@dataclass(frozen=True)
class ReplayedDecision:
    """One decision made again. `is_same`: every verdict is as recorded."""

    snapshot: Snapshot
    recorded: Decided
    plan: Plan
    is_same: bool


def replayed(entries: Iterable[JournalEntry]) -> Iterator[ReplayedDecision]:
    """Make every decision of `entries` again, from its snapshot and its recorded settings.

    Each segment brings its own initial state, so that nothing is folded twice and a gap does not
    affect what follows.
    """
    state, settings = State(), None
    for entry in entries:
        if isinstance(entry, Start):
            state, settings = entry.state, entry.settings
        elif settings is None:
            raise ValueError("facts without a start to fold them into")
        elif isinstance(entry, Decided):
            snapshot = replace(entry.snapshot, history=state.history)
            made = decide(snapshot, entry.settings, new_records=entry.new_records)
            is_same = digest(verdicts_of(made)) == entry.digest
            yield ReplayedDecision(snapshot, entry, made, is_same)
            state = after_decision(state, made, snapshot.now, entry.settings)
        else:
            settings = settings_after(settings, entry)
            state = after_fact(state, entry, settings)
