"""The daemon's adoption: our tags on the nodes that an operator named, and on no others (D11)."""

from __future__ import annotations

from nodemanager.actors.backlog_desk import BacklogDesk
from nodemanager.core import backlog_run
from nodemanager.core.backlog_run import Run
from nodemanager.core.execute.adopt import order_adoption
from nodemanager.core.execute.workflow import Action, Key


class AdoptDesk(BacklogDesk):
    """Begins an adoption for each node that was let go."""

    def _take_run(self, before: Run | None, run: Run) -> None:
        super()._take_run(before, run)
        self._adopt_due(run)

    def _adopt_due(self, run: Run) -> None:
        """Begin it for each node that was let go and that nobody is at."""
        seen, now = self._seen, self._clock.boottime()
        blocked = run.waits_for is not None or self._scribe.problem is not None
        if seen is None or blocked or self._stopping is not None:
            return
        if self._limits.throttled_until > now:
            return
        for item in backlog_run.due_adoptions(run):
            if Key(Action.ADOPT, item.key) not in self._runner.running:
                snapshot = self._snapshot(seen.snapshot.plan_id)
                order = order_adoption(item, seen, snapshot, self._settings)
                self._runner.begin(Action.ADOPT, order, order.plan_id, now)
