"""What a recorded time cost, and what it shows of each window: one pass through a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.facts import CloudSeen, NodesExplained, RecordsSeen
from nodemanager.core.observe.history import Nodes, Records
from nodemanager.core.replay.evidence import Evidence
from nodemanager.core.replay.fold import Start
from nodemanager.core.replay.spending import Account
from nodemanager.errors import JournalError
from nodemanager.journal.reading import Decided, JournalEntry, read
from nodemanager.journal.replay import within

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
    """What these entries come to."""
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
