"""An explanation as JSON, of a decision in memory or of a replayed one.

The running daemon's web thread and the command that reads a journal both use it, so that they give
the same answer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from nodemanager.core.explain.explain import APPLY, DRY_RUN, DecisionView, Explanation, explain
from nodemanager.core.model.reasons import is_flip
from nodemanager.core.operate.naming import UnknownIdError
from nodemanager.errors import JournalError
from nodemanager.journal.event import LoggedEvent
from nodemanager.journal.opened import opened
from nodemanager.journal.reading import Decided, JournalEntry, read
from nodemanager.journal.replay import replayed
from nodemanager.journal.story import Story, count, each_latest
from nodemanager.lib.logline import Json, timestamp

MOST = 100
"""The most events of a history that is not wanted whole; the newest are kept."""


@dataclass(frozen=True, slots=True)
class Part:
    """The wanted part of a history: from and until a time (epoch seconds), only events with a
    number in the journal before that one, and at `most` so many of these, the newest."""

    since: float | None = None
    until: float | None = None
    before: int | None = None
    most: float = MOST


NEWEST = Part()


def view_at(
    path: Path, at: float | None = None, *, step: Callable[[int], None] = lambda done: None
) -> DecisionView:
    """The last decision in the journal at `path`, or the last one before `at` (epoch seconds).

    Calls `step` with the number of replayed decisions. Raises JournalError where there is none.
    """
    wall = _newest(path, at)
    last: DecisionView | None = None
    mode = DRY_RUN if path.stem.endswith("-dry-run") else APPLY
    entries = _until(read(path, since=wall, until=wall), wall)
    for done, one in enumerate(replayed(entries), 1):
        last = DecisionView(one.snapshot, one.plan, one.recorded.settings, mode)
        step(done)
    if last is None:
        raise JournalError(f"the journal {path} has no decision from that time")
    return last


def _newest(path: Path, at: float | None) -> float:
    """The wall time of the last decision, or of the last one before `at`."""
    with opened(path) as connection:
        first, last = connection.execute("SELECT min(wall), max(wall) FROM entries").fetchone()
        if first is None:
            raise JournalError(f"the journal {path} contains no decision yet")
        if at is None or at >= last:
            return float(last)
        found = connection.execute(
            "SELECT max(wall) FROM entries WHERE wall <= ?", (at,)
        ).fetchone()[0]
    if found is None:
        raise JournalError(
            f"the journal {path} begins at {timestamp(first)}; it has nothing from before"
        )
    return float(found)


def _until(entries: Any, wall: float) -> Any:
    """The entries up to the last decision at that wall time."""
    entry: JournalEntry
    for entry in entries:
        if isinstance(entry, Decided) and entry.snapshot.wall > wall:
            return
        yield entry


def explanation(
    decision: DecisionView, given: str, *, source: str, journal: Path | None, part: Part = NEWEST
) -> Json:
    """Everything about the record or node that `given` names; its history from `journal`, if any.

    Raises UnknownIdError, whose text says when the journal last mentioned it.
    """
    try:
        explanation = explain(
            decision.snapshot, decision.made, decision.settings, given, mode=decision.mode
        )
    except UnknownIdError as error:
        last = None if journal is None else _last_heard(journal, given)
        raise UnknownIdError(f"{error}{last or ''}", error.near) from error
    shown = as_json(explanation, source)
    history: list[Json] = []
    problem, left_out = None, 0
    if journal is not None:
        try:
            history, left_out = _history(journal, explanation, part)
        except JournalError as error:
            problem = str(error)
    beside = {"history_left_out": left_out, "history_problem": problem}
    return {**shown, "history": history, **beside}


def _history(path: Path, explanation: Explanation, part: Part) -> tuple[list[Json], int]:
    """The newest events about the record or node itself, up to and including those of the decision,
    and how many older ones there are.

    A node that turns busy and idle again and again has one event of that until another comes.
    """
    asked = {explanation.subject: explanation.id, "since": part.since}
    newest: list[Json] = []
    oldest = part.before
    for number, one in each_latest(path, before=oldest, until=part.until, **asked):
        if one.at > explanation.wall and one.plan != explanation.plan_id:
            continue
        if newest and is_flip(one.event, one.reason) and newest[-1]["flips"]:
            newest[-1]["count"] += 1
        elif len(newest) < part.most:
            newest.append(_history_row(number, one))
        else:
            break
        newest[-1]["number"] = oldest = number
    left_out = count(path, before=oldest, **asked) if newest else 0
    return newest[::-1], left_out


def _history_row(number: int, one: LoggedEvent) -> Json:
    return {
        "at": timestamp(one.at),
        "number": number,
        "event": one.event,
        "count": 1,
        "flips": is_flip(one.event, one.reason),
        "reason": one.reason,
        "record": one.record,
        "node": one.node,
        "measures": plain(one.more),
    }


def _last_heard(path: Path, given: str) -> str | None:
    try:
        newest = deque(Story(path, id=given).news(), maxlen=1)
    except (JournalError, UnknownIdError):
        return None
    if not newest:
        return None
    (last,) = newest
    reason = f", {last.reason}" if last.reason is not None else ""
    return (
        f"; the journal last mentions it at {timestamp(last.at)} ({last.event}{reason}): "
        f"--at with an earlier time explains it, `nodemanager log {given}` shows its history"
    )


def as_json(explanation: Explanation, source: str) -> Json:
    """The explanation as JSON values: times are RFC 3339 in UTC, durations are seconds."""
    verdict, wall, when = explanation.verdict, explanation.wall, explanation.earliest

    def at(ahead: float | None) -> str | None:
        return None if ahead is None else timestamp(wall + ahead)

    return {
        "subject": explanation.subject,
        "id": explanation.id,
        "source": source,
        "pool": explanation.pool,
        "plan": explanation.plan_id,
        "mode": explanation.mode,
        "at": timestamp(wall),
        "wall": round(wall, 3),
        "verdict": {
            "kind": verdict.kind.value,
            "reason": verdict.reason.value,
            "says": verdict.reason.doc,
            "measures": plain(verdict.measures or {}),
        },
        "state": explanation.state,
        "record": plain(explanation.record),
        "node": plain(explanation.node),
        "rivals": list(explanation.rivals),
        "rules": plain(explanation.findings),
        "blocks": list(dict.fromkeys(one.rule for one in explanation.blocks)),
        "earliest": {
            "at": at(when.in_s),
            "in_s": plain(when.in_s),
            "why": list(when.why),
            "not_before": at(when.not_before_s),
        },
    }


def plain(value: Any) -> Any:
    """The value in JSON's types, a dataclass by its fields; infinite and undefined numbers become
    null."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return round(value, 3) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    return value if isinstance(value, (str, int)) else str(value)
