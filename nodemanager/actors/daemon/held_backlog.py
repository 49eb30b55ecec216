"""Keeps what the first plan with cleans held back, until an operator lets it go (SAFETY.md S5)."""

from __future__ import annotations

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.identities import Identities
from nodemanager.core.model.reasons import Event
from nodemanager.core.operate.backlog_run import Run
from nodemanager.core.plan.plan import Plan
from nodemanager.log import WARNING


class HeldBacklog:
    """The records that are held back, and the run that lets some of them go."""

    def __init__(self, context: Context, identities: Identities) -> None:
        self._context = context
        self._identities = identities
        self.first_clean, self.records = context.inputs.backlog.load()
        self.run: Run | None = None
        self._owed = False

    def keep(self, made: Plan) -> None:
        """Hold back the backlog of the first plan that has cleans."""
        # A clean by hand says nothing about how many records wait.
        cleans = any(order.hand is None for order in made.cleans)
        if not (self.first_clean and (cleans or made.backlog)):
            return
        if made.backlog:
            self._context.log.event(
                Event.BACKLOG_FOUND,
                level=WARNING,
                count=len(made.backlog),
                limit=self._context.settings.max_cleans_per_cycle,
                clear="nodemanager backlog plan shows them, nodemanager backlog apply frees those "
                "you leave in it; or set [Cleaning] backlog = clean and reload",
            )
        self.first_clean, self.records = False, made.backlog
        self._owed = self._context.applies
        self.save()

    def save(self) -> None:
        """Write the backlog if need be: the next run must know it before anything is freed."""
        if self._owed:
            keeper = self._context.inputs.backlog
            kept, _ = self._identities.keeps_state("backlog", lambda: keeper.save(self.records))
            self._owed = not kept
