"""Logs what only a person can end: once a day, and at once when it has doubled."""

from __future__ import annotations

from nodemanager.actors.report.lines import first_of
from nodemanager.core.model.reasons import Reason
from nodemanager.core.plan.plan import Plan
from nodemanager.lib.log import WARNING, Logger

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
