"""What the parts of the log share: which lines are due again, and how a verdict's line is made."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any, TypeVar

from nodemanager.core.model.reasons import Event, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.plan.plan import Plan
from nodemanager.lib.log import WARNING, Logger

SUMMARY_EVERY_S = 60.0
"""Seconds between two INFO lines of the same summary; the others are DEBUG."""

NAMED = 10
"""The most records or nodes that one line names; it counts the others."""

T = TypeVar("T", bound=Hashable)


class Lasting:
    """Tells when to log a condition that lasts: when it begins, and then every `every_s`."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._told_at: dict[Hashable, float] = {}

    def due(self, lasting: Collection[T], now: float) -> set[T]:
        """Those of `lasting` to log now; it has all that hold now, and the others have ended."""
        never = float("-inf")
        due = {one for one in lasting if now - self._told_at.get(one, never) >= self._every_s}
        self._told_at = {one: now if one in due else self._told_at[one] for one in lasting}
        return due


def tell_verdict(
    log: Logger, event: Event, level: int, verdict: Verdict, fields: dict[str, Any], plan: Plan
) -> None:
    """Log a verdict of the plan, with its reason and its measures; `fields` say of what it is."""
    merged = {**fields, **(verdict.measures or {})}
    log.event(event, level=level, reason=verdict.reason, **merged, plan=plan.plan_id)


def first_of(ids: Sequence[str], key: str) -> dict[str, Any]:
    """The first of `ids` under `key`, and under `more` how many others there are."""
    return {key: tuple(ids[:NAMED]) or None, "more": max(0, len(ids) - NAMED) or None}


# Logs what only a person can end: once a day, and at once when it has doubled.

EVERY_S = 86_400.0
"""Seconds between two lines of the same notice, also when it ended and began again."""


class NoticeLog:
    """Remembers when each notice was told last, and of how many it was."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._told: dict[Reason, tuple[float, int]] = {}

    def plan(self, plan: Plan, now: float) -> None:
        """Log the plan's notices that are due."""
        for notice in plan.notices:
            told_at, told_count = self._told.get(notice.reason, (float("-inf"), 0))
            if now - told_at < EVERY_S and notice.count < 2 * told_count:
                continue
            self._told[notice.reason] = now, notice.count
            self._log.event(
                notice.event,
                level=WARNING,
                reason=notice.reason,
                count=notice.count,
                limit=notice.limit,
                **first_of([str(slot) for slot in notice.slots], "stuck"),
                clear=notice.clear,
                plan=plan.plan_id,
            )
