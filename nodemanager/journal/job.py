"""A job as JSON: what it waits for, or what it had when it left the queue.

Its past is in the journal: each decision has the queue that it was taken from.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from operator import not_
from pathlib import Path

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.jobs import WaitingJob, jobs
from nodemanager.core.model.reasons import Event
from nodemanager.core.operate.naming import AmbiguousIdError, UnknownIdError
from nodemanager.journal.explained import NEWEST, Part, explanation, plain, view_at
from nodemanager.journal.opened import opened, reported_as_damage
from nodemanager.journal.recording import QUEUED
from nodemanager.journal.story import latest
from nodemanager.lib.logline import Json, timestamp
from nodemanager.lib.near import did_you_mean


def explain_any(
    decision: DecisionView, given: str, *, source: str, journal: Path | None, part: Part = NEWEST
) -> Json:
    """The explanation of the record, node or slot that `given` names, or else of that job.

    Raises UnknownIdError.
    """
    try:
        return explanation(decision, given, source=source, journal=journal, part=part)
    except AmbiguousIdError:
        raise
    except UnknownIdError as unknown:
        try:
            return explain_job(decision, given, source=source, journal=journal)
        except UnknownIdError:
            raise unknown from None


def explain_job(decision: DecisionView, given: str, *, source: str, journal: Path | None) -> Json:
    """What the job of that id waits for or has; `left_at` is when it was in the queue for the last
    time, if it is not any more. Raises UnknownIdError."""
    wall = decision.snapshot.wall
    waits = any(one.id == given for one in decision.snapshot.demand or ())
    asked = None if journal is None else _asked(journal, given, wall)
    row = _row(decision, given)
    if row is None and asked is not None and journal is not None:
        row = _row(view_at(journal, asked[1]), given)
    if row is None:
        known = [one.id for one in decision.snapshot.demand or ()]
        raise UnknownIdError(
            f"no waiting job has the id {given!r}{did_you_mean(given, known)}; {len(known)} wait, "
            "and the journal has no other of that id"
        )
    end = wall if waits or asked is None else asked[1]
    return {
        **job_json(row),
        "subject": "job",
        "source": source,
        "pool": decision.settings.pool,
        "wall": wall,
        "asked_at": None if asked is None else timestamp(asked[0]),
        "left_at": None if waits else timestamp(end),
        "came": [] if journal is None else [_came(journal, host, end) for host in row.nodes],
    }


def job_json(one: WaitingJob) -> Json:
    """A job's row as JSON; its reason has its sentence, `says`."""
    return {**plain(one), "says": None if one.reason is None else one.reason.doc}


def _row(decision: DecisionView, given: str) -> WaitingJob | None:
    return next((one for one in jobs(decision) if one.job == given), None)


def _came(journal: Path, host: str, until: float) -> Json:
    """When the node of that hostname was paired, the last time until then."""
    paired = latest(journal, 1, event=Event.NODE_PAIRED.value, host=host, until=until)
    return {"host": host, "at": timestamp(paired[0][1].at) if paired else None}


def _asked(journal: Path, job: str, until: float) -> tuple[float, float] | None:
    """The times of the first and last decision that had the job in its queue."""
    with opened(journal) as connection:
        query = "SELECT DISTINCT segment FROM entries WHERE wall <= ? ORDER BY segment DESC"
        segments = [segment for (segment,) in connection.execute(query, (until,))]
    found = (_walls(journal, segment, job, until) for segment in segments)
    together = list(takewhile(bool, dropwhile(not_, found)))
    return (together[-1][0], together[0][-1]) if together else None


def _walls(journal: Path, segment: int, job: str, until: float) -> list[float]:
    """The times of the segment's decisions that had the job in their queues.

    Decodes few of them: a queue is written whole where it changed, and most rows lack the id.
    """
    query = "SELECT wall, body FROM entries WHERE segment = ? AND wall <= ? ORDER BY seq"
    with opened(journal) as connection:
        rows = connection.execute(query, (segment, until)).fetchall()
    word, waits, walls = json.dumps(job).encode(), False, []
    with reported_as_damage(journal):
        for wall, body in rows:
            text = zlib.decompress(body)
            if not waits and word not in text:
                continue
            row = json.loads(text)
            for queue in _queues(row):
                waits = any(one["id"] == job for one in queue or ())
            if waits and "facts" in row and "aborted" not in row:
                walls.append(wall)
    return walls


def _queues(row: Json) -> Iterator[list[Json] | None]:
    """The queues of a row, in their order: the one that a segment starts with, or those polled
    that were new."""
    if "facts" not in row:
        yield row["demand"]
        return
    yield from (fact["jobs"] for name, fact in row["facts"] if name in QUEUED and "jobs" in fact)
    if "demand" in row["snapshot"]:
        yield row["snapshot"]["demand"]
