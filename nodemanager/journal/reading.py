"""The reader of a journal (a running daemon's or a copy) as the recorded core objects.

`read` gives what was written; `replayed` (replay.py) folds it and decides again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import StoreTime
from nodemanager.core.observe import facts
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.replay.fold import Start, settings_after
from nodemanager.errors import JournalError
from nodemanager.journal.codec import decoded
from nodemanager.journal.listings import NODES, RECORDS
from nodemanager.journal.opened import opened, reported_as_damage, unpacked
from nodemanager.journal.recording import (
    CYCLE,
    FACTS,
    QUEUED,
    START,
    Base,
    decode_snapshot,
    decode_start,
)
from nodemanager.journal.verdicts import VerdictChange, decode_changes

_SEGMENTS = (
    "SELECT segment FROM entries GROUP BY segment HAVING max(wall) >= ? AND min(wall) <= ?"
    " ORDER BY segment"
)
_ACTS = (
    "SELECT EXISTS (SELECT 1 FROM intents)"
    " OR EXISTS (SELECT 1 FROM logged WHERE event IN (?, ?, ?))"
)
"""Its intents may be in a shared database; a dry run tells of none of these ends."""
_ENDS = (Event.NODE_CREATED.value, Event.NODE_GONE.value, Event.RECORD_CLEANED.value)


@dataclass(frozen=True)
class Decided:
    """A decision as recorded. The snapshot's history is empty: folding the facts gives it.

    `changes` are the verdicts that changed since the decision before (in a segment's first, all
    verdicts); `digest` is a checksum of all verdicts with their measures.
    """

    snapshot: Snapshot
    settings: Settings
    new_records: bool
    changes: tuple[VerdictChange, ...]
    digest: int
    took_s: float
    aborted: Reason | None = None


JournalEntry = Start | facts.Fact | Decided


def read(path: Path, *, since: float = 0.0, until: float = float("inf")) -> Iterator[JournalEntry]:
    """All entries of the journal at `path`, oldest first; each segment begins with its Start.

    `since` and `until` are epoch seconds and select whole segments: those with an entry in
    between. Raises JournalError for a file that is no journal, has a newer schema, or is damaged.
    """
    with opened(path) as connection:
        segments = connection.execute(_SEGMENTS, (since, until)).fetchall()
    for (segment,) in segments:
        yield from segment_of(path, segment)


def segment_of(path: Path, segment: int) -> Iterator[JournalEntry]:
    with opened(path) as connection:
        # Read a whole segment at once: an open transaction would keep the write-ahead log from
        # shrinking.
        rows = connection.execute(
            "SELECT kind, body, verdicts FROM entries WHERE segment = ? ORDER BY seq", (segment,)
        ).fetchall()
    with reported_as_damage(path):
        yield from _segment(rows)


@dataclass(frozen=True)
class Outline:
    """A summary of a part of a journal, made without reading all of it.

    `size` is in bytes as written, compressed. `first` and `last` are the epoch seconds of its
    decisions; `settings` are those in force at its end. `acts` is False for a dry run, which leaves
    no intents. `poll_s` is the median of the seconds between cloud listings, None with fewer than
    two listings.
    """

    decisions: int
    size: int
    first: float
    last: float
    settings: Settings
    acts: bool
    poll_s: float | None


def outline(path: Path, *, since: float = 0.0, until: float = float("inf")) -> Outline:
    """The outline of the decisions from `since` to `until`. Raises JournalError as `read` does, and
    where there is none."""
    with opened(path) as connection:
        segments = [segment for (segment,) in connection.execute(_SEGMENTS, (since, until))]
        last = segments[-1] if segments else None
        marks = ",".join("?" * len(segments))
        what = "count(*), sum(length(body)), min(wall), max(wall)"
        # Only our own texts and question marks are formatted in.
        count = f"SELECT {what} FROM entries WHERE kind = ? AND wall BETWEEN ? AND ?"  # noqa: S608
        decisions, size, first, end = connection.execute(
            f"{count} AND segment IN ({marks})",
            (CYCLE, since, until, *segments),
        ).fetchone()
        acts = connection.execute(_ACTS, _ENDS).fetchone()[0]
        rows = connection.execute(
            "SELECT kind, body FROM entries WHERE segment = ? ORDER BY seq", (last,)
        ).fetchall()
    if not decisions:
        raise JournalError(f"the journal {path} has no decision from that time")
    with reported_as_damage(path):
        settings, polls = _settings_and_polls(rows)
    gaps = sorted(later - sooner for sooner, later in itertools.pairwise(polls))
    poll_s = gaps[len(gaps) // 2] if gaps else None
    return Outline(decisions, size, first, end, settings, bool(acts), poll_s)


def _settings_and_polls(rows: list[tuple[str, bytes]]) -> tuple[Settings, list[float]]:
    """The settings at the end of a segment, and the start times of its cloud listings."""
    settings: Settings | None = None
    polls: list[float] = []
    for kind, body in rows:
        data = unpacked(body)
        if kind == START:
            settings = decode_start(data).settings
            continue
        for name, fact in data["facts"]:
            if name == facts.CloudSeen.__name__:
                polls.append(fact[0]["at"][0])
            elif name == facts.SettingsTaken.__name__:
                settings = decoded(facts.SettingsTaken, fact).settings
    if settings is None:
        raise ValueError("a segment without its start")
    return settings, polls


def _segment(rows: list[tuple[str, bytes, bytes | None]]) -> Iterator[JournalEntry]:
    base: Base | None = None
    settings: Settings | None = None
    for kind, body, verdicts in rows:
        data = unpacked(body)
        if kind == START:
            start = decode_start(data)
            base, settings = Base.of(start), start.settings
            yield start
            continue
        if base is None or settings is None:
            raise ValueError("a segment without its start")
        for name, fact_data in data["facts"]:
            fact = _fact(name, fact_data, base)
            base.took(fact)
            settings = settings_after(settings, fact)
            yield fact
        decision = _decided(data, verdicts, base, settings)
        base.snapshot = decision.snapshot
        yield decision


def _decided(data: Any, verdicts: bytes | None, base: Base, settings: Settings) -> Decided:
    return Decided(
        snapshot=decode_snapshot(base.snapshot, data["snapshot"]),
        settings=settings,
        new_records=data["new_records"],
        changes=decode_changes(unpacked(verdicts)) if verdicts is not None else (),
        digest=data["digest"],
        took_s=data["took_s"],
        aborted=_REASONS[data["aborted"][0]] if "aborted" in data else None,
    )


_REASONS = {reason.value: reason for reason in Reason}


def _fact(name: str, data: Any, base: Base) -> facts.Fact:
    if name == facts.CloudSeen.__name__:
        listing, account = data
        return facts.CloudSeen(NODES.decode(base.nodes, listing), account)
    if name == facts.RecordsSeen.__name__:
        listing, store_id, stamp, slots, answered_at = data
        records = RECORDS.decode(base.records, listing)
        return facts.RecordsSeen(records, store_id, StoreTime(*stamp), slots, answered_at)
    if name in QUEUED and "jobs" not in data:
        jobs = base.snapshot.demand or ()
        seen: facts.DemandSeen | facts.SchedulerSeen = decoded(FACTS[name], {**data, "jobs": []})
        return replace(seen, jobs=jobs)
    fact: facts.Fact = decoded(FACTS[name], data)
    return fact
