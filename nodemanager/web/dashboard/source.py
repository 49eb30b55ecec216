"""What the pages are made from: the newest decision and status, the charts' past, the journal."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.explain.explain import DecisionView
from nodemanager.web.dashboard.history import ChartHistory
from nodemanager.web.status import Board, Status


@dataclass(frozen=True, slots=True)
class ShownDecision:
    """One decision as a page shows it. `status` is of the same decision or a newer one."""

    decision: DecisionView
    status: Status

    def wall(self, boottime: float | None) -> float | None:
        """Boottime seconds as epoch seconds."""
        snapshot = self.decision.snapshot
        return None if boottime is None else snapshot.wall + boottime - snapshot.now

    def ahead(self, seconds: float | None) -> float | None:
        """The epoch seconds that are so many seconds after the decision."""
        return None if seconds is None else self.decision.snapshot.wall + seconds


@dataclass(frozen=True, slots=True)
class Source:
    """Where the pages' numbers come from. `old_after` is the age in seconds above which a decision
    is too old."""

    board: Board
    history: ChartHistory
    old_after: float

    def seen(self) -> ShownDecision | None:
        """The newest decision; None before the first."""
        decision, status = self.board.decision, self.board.read()
        return None if decision is None or status is None else ShownDecision(decision, status)
