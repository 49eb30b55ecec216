"""Reads a journal, of a running daemon or a copy, as the core objects that were recorded.

`read` gives what is written; `replayed` (replay.py) folds it and decides again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodemanager.core.model import StoreTime
from nodemanager.core.reasons import Reason
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.journal.codec import decoded
from nodemanager.journal.deltas import VerdictChange, decode_changes, decode_snapshot
from nodemanager.journal.facts import CloudSeen, Fact, RecordsSeen, Start, settings_after
from nodemanager.journal.listings import NODES, RECORDS
from nodemanager.journal.opened import opened as _opened
from nodemanager.journal.opened import told_as_damage as _told_as_damage
from nodemanager.journal.opened import unpacked as _unpacked
from nodemanager.journal.recording import OTHER_FACTS, START, Base
from nodemanager.journal.states import decode_start


@dataclass(frozen=True)
class Decided:
    """A decision as recorded. The snapshot's history is empty: that is what the facts fold to.

    `changes` are the verdicts that are not what they were in the decision before (in a segment's
    first, all); `digest` tells all verdicts, measures and all, from any others.
    """

    snapshot: Snapshot
    settings: Settings
    new_records: bool
    changes: tuple[VerdictChange, ...]
    digest: int
    took_s: float
    aborted: Reason | None = None


Entry = Start | Fact | Decided


def read(path: Path, *, since: float = 0.0, until: float = float("inf")) -> Iterator[Entry]:
    """All that is recorded in the file at `path`, oldest first, each segment behind its Start.

    `since` and `until` are epoch seconds and choose whole segments: those with anything in
    between. Raises JournalError for a file that is no journal, a newer program's, or damaged.
    """
    with _opened(path) as connection:
        segments = connection.execute(
            "SELECT segment FROM entries GROUP BY segment HAVING max(wall) >= ? AND min(wall) <= ?"
            " ORDER BY segment",
            (since, until),
        ).fetchall()
        for (segment,) in segments:
            # All of a segment at once: a transaction left open would keep the log from shrinking.
            rows = connection.execute(
                "SELECT kind, body, verdicts FROM entries WHERE segment = ? ORDER BY seq",
                (segment,),
            ).fetchall()
            with _told_as_damage(path):
                yield from _segment(rows)


def verdict_log(
    path: Path, *, since: float = 0.0, until: float = float("inf")
) -> Iterator[tuple[float, VerdictChange]]:
    """Every change of a verdict, oldest first: when (epoch seconds), and the change."""
    with _opened(path) as connection:
        rows = connection.execute(
            "SELECT wall, verdicts FROM entries WHERE verdicts IS NOT NULL"
            " AND wall BETWEEN ? AND ? ORDER BY seq",
            (since, until),
        ).fetchall()
    with _told_as_damage(path):
        for wall, packed in rows:
            for change in decode_changes(_unpacked(packed)):
                yield wall, change


def _segment(rows: list[tuple[str, bytes, bytes | None]]) -> Iterator[Entry]:
    base: Base | None = None
    settings: Settings | None = None
    for kind, body, verdicts in rows:
        data = _unpacked(body)
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
        changes=decode_changes(_unpacked(verdicts)) if verdicts is not None else (),
        digest=data["digest"],
        took_s=data["took_s"],
        aborted=_REASONS[data["aborted"][0]] if "aborted" in data else None,
    )


_REASONS = {reason.value: reason for reason in Reason}


def _fact(name: str, data: Any, base: Base) -> Fact:
    if name == CloudSeen.__name__:
        listing, account = data
        return CloudSeen(NODES.decode(base.nodes, listing), account)
    if name == RecordsSeen.__name__:
        listing, store_id, stamp, slots, answered_at = data
        records = RECORDS.decode(base.records, listing)
        return RecordsSeen(records, store_id, StoreTime(*stamp), slots, answered_at)
    fact: Fact = decoded(OTHER_FACTS[name], data)
    return fact
