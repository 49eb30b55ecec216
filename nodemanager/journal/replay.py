"""The replay of a recording: the same facts and settings must give the same verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nodemanager.core.execute.state import State
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.facts import CloudSeen, NodesExplained, RecordsSeen
from nodemanager.core.observe.history import Nodes, Records
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan, plan
from nodemanager.core.replay.evidence import Evidence
from nodemanager.core.replay.fold import Start, after_decision, after_fact, settings_after
from nodemanager.core.replay.spending import Account
from nodemanager.errors import JournalError
from nodemanager.journal.reading import Decided, JournalEntry, read
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
            made = plan(snapshot, entry.settings, new_records=entry.new_records)
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


# What a recorded time cost, and what it shows of each window: one pass through a journal.

Tick = Callable[[int], None]
"""Called with the number of decisions read since the last call."""


@dataclass
class Past:
    """A recorded time; `first` and `last` are the epoch seconds of its decisions."""

    account: Account = field(default_factory=Account)
    evidence: Evidence = field(default_factory=Evidence)
    decisions: int = 0
    first: float = 0.0
    last: float = 0.0
    settings: Settings = field(default_factory=lambda: Settings(""))
    """Those in force at the end."""

    @property
    def hours(self) -> float:
        return (self.last - self.first) / 3600


def past(
    path: Path,
    *,
    since: float = 0.0,
    until: float = float("inf"),
    tick: Tick = lambda _: None,
) -> Past:
    """Follow the decisions from `since` to `until` (epoch seconds).

    Raises JournalError as `read` does, and where there is none.
    """
    found = follow(within(read(path, since=since, until=until), since, until), tick)
    if not found.decisions:
        raise JournalError(f"the journal {path} has no decision from that time")
    return found


def follow(entries: Iterable[JournalEntry], tick: Tick = lambda _: None) -> Past:
    found = Past()
    account, evidence = found.account, found.evidence
    records: dict[str, Record] = {}
    offset, whole, pool = 0.0, True, ""
    for entry in entries:
        match entry:
            case Start():
                offset, whole = entry.wall - entry.at, True
                history, pool = entry.state.history, entry.settings.pool
                records, nodes = _records(history.records, pool), _nodes(history.cloud)
                nodes_at, records_at = (
                    None if one is None else offset + one.started_at
                    for one in (history.cloud, history.records)
                )
                evidence.begun(nodes, records, nodes_at, records_at)
                if nodes_at is not None:
                    account.listed(nodes, nodes_at)
            case CloudSeen(listing=listing) if listing.complete:
                nodes = _nodes(listing)
                account.listed(nodes, offset + listing.started_at)
                evidence.nodes_listed(nodes, offset + listing.started_at)
            case RecordsSeen(listing=listing) if listing.complete:
                records = _records(listing, pool)
                evidence.records_listed(records, offset + listing.started_at)
            case NodesExplained():
                account.gone(entry.node_ids, offset + entry.at)
            case Decided():
                at = entry.snapshot.wall
                offset = at - entry.snapshot.now
                changes = {one.id: one.reason for one in entry.changes if one.subject == "node"}
                if not (whole and entry.aborted):
                    # A run's first decision may lack a listing: then it judged no node.
                    account.decided(at, changes, records, entry.settings, whole=whole)
                    whole = False
                evidence.decided(changes, entry.aborted)
                found.first = found.first or at
                found.last, found.settings = at, entry.settings
                found.decisions += 1
                tick(1)
            case _:
                pass
    account.end()
    return found


def _nodes(listing: Nodes | None) -> Mapping[str, CloudNode]:
    items = () if listing is None else listing.items
    return {one.id: one for one in items if one.managed}


def _records(listing: Records | None, pool: str) -> dict[str, Record]:
    items = () if listing is None else listing.items
    return {one.uuid: one for one in items if one.pool in (None, pool)}
