"""Ends the daemon: after the one plan of `--once`, or when it is told to stop."""

from __future__ import annotations

from dataclasses import dataclass, field

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.messages import Stop
from nodemanager.core.execute.clean import Unsure
from nodemanager.core.execute.workflow import Action
from nodemanager.core.judge.preconditions import listed_for_long
from nodemanager.core.model.reasons import Event
from nodemanager.core.plan.plan import Plan
from nodemanager.lib.log import DEBUG


@dataclass(eq=False)
class Endings:
    """Reports the end once no action of ours is in flight."""

    _context: Context
    _listings: set[float] = field(default_factory=set, init=False)
    _applied: bool = False

    # --once.

    def cannot_act(self) -> None:
        """A poll or the journal failed: end `--once` with 1 if it has not applied its plan yet."""
        once = self._context.inputs.once
        if once is not None and not self._applied:
            once.finished(1)

    def may_apply(self, made: Plan) -> bool:
        """Whether this plan may be applied; with `--once` only the first one that is settled."""
        if self._context.inputs.once is None:
            return True
        if self._applied:
            return False
        history = made.history
        # Without a base there is no record listing to decide from yet, so no listing counts.
        if history.base is not None and history.cloud is not None and history.records is not None:
            self._listings.add(history.cloud.started_at)
        return listed_for_long(self._listings, history, self._context.settings)

    def applied(self) -> None:
        """Note that a plan is being carried out."""
        self._applied = True

    # The end.

    def stop(self, message: Stop) -> None:
        """Begin nothing more, and tell the workflows that no worker is busy with."""
        context = self._context
        context.stopping = message
        context.runner.drop(Action.SETUP, context.setups.drop_waiting())
        waiting = tuple(context.shutdowns.drop_waiting())
        context.runner.drop(Action.SHUTDOWN, waiting)
        context.runner.drop(Action.DISPATCH, waiting)
        context.cleaners.drop_waiting()
        # A step that a worker has begun ends by itself.
        context.runner.stop(context.now, self._is_busy)
        context.log.event(Event.DAEMON_STOPPING, level=DEBUG, reason=message.reason)
        self._finish_stop()

    def _is_busy(self, id: str) -> bool:
        return any(pool.has(id) for pool in self._context.worker_pools)

    def settled(self) -> None:
        """End the daemon if it is done; called after each outcome and each decision."""
        self._finish_once()
        self._finish_stop()

    def _finish_stop(self) -> None:
        stopping = self._context.stopping
        if stopping is not None and not any(pool.busy for pool in self._context.worker_pools):
            stopping.done()

    def _finish_once(self) -> None:
        context = self._context
        once = context.inputs.once
        if once is None or not self._applied:
            return
        left = [one.state for one in context.flights.under_way]
        if left:
            waited = context.now - context.settings.action_timeout
            unsure = [one for one in left if isinstance(one, Unsure) and one.since <= waited]
            if len(unsure) == len(left):
                # Their outcomes have been unknown for long: the next run goes on with them.
                once.finished(1)
            return
        context.event_log.summary_again()
        once.finished(0)
