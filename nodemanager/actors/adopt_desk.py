"""The daemon's adoption: our tags on the nodes that an operator named, and on no others (D11)."""

from __future__ import annotations

from nodemanager.actors.backlog_desk import BacklogDesk
from nodemanager.actors.messages import AdoptLooked, AdoptNode, LookBeforeAdopt, NodeAdopted
from nodemanager.core import backlog_run
from nodemanager.core.adoption import AdoptOrder, confirm_adoption, order_adoption
from nodemanager.core.backlog import PASSING
from nodemanager.core.backlog_run import Run, Step, Where
from nodemanager.core.reasons import Event, Kind, Reason
from nodemanager.errors import RemoteError, Throttled
from nodemanager.log import WARNING

ADOPT_KEY = "adopt "


class AdoptDesk(BacklogDesk):
    """Hands out a look and the tags for each node that was let go. The run is its intent: a later
    process finds it open, and what bears our tag by then is done."""

    _adopting: frozenset[str] = frozenset()

    def _take_run(self, before: Run | None, run: Run) -> None:
        super()._take_run(before, run)
        self._adopt_due(run)

    def _adopt_due(self, run: Run) -> None:
        """Hand out a look for each node that was let go and that nobody is at."""
        seen, now = self._seen, self._clock.boottime()
        blocked = run.waits_for is not None or self._scribe.problem is not None
        if seen is None or blocked or self._stopping is not None:
            return
        if self._limits.throttled_until > now:
            return
        for item in backlog_run.due_adoptions(run):
            if item.id not in self._adopting:
                snapshot = self._snapshot(seen.snapshot.plan_id)
                order = order_adoption(item, seen, snapshot, self._settings)
                self._adopting = self._adopting | {item.id}
                self._setups.give(ADOPT_KEY + item.id, LookBeforeAdopt(order))

    def on_AdoptLooked(self, message: AdoptLooked) -> None:
        order, run, seen = message.order, self._run, self._seen
        wanted = order.item in backlog_run.due_adoptions(run)
        if not wanted or seen is None or self._stopping is not None:
            self._adoption_over(order, None)
            return
        if message.error is not None:
            self._adopt_failed(order, message.error)
            return
        snapshot = self._snapshot(seen.snapshot.plan_id)
        verdict = confirm_adoption(order, message.node, seen, snapshot, self._settings)
        if verdict.kind is Kind.ADOPT:
            self._setups.go_on(ADOPT_KEY + order.node_id, AdoptNode(order))
        elif verdict.reason is Reason.ADOPTED:
            # The listing is older than the tag, which the look shows.
            self._adoption_over(order, Step(Where.ALREADY, Reason.ADOPTED))
        elif verdict.reason in PASSING:
            self._adoption_over(order, None)
        else:
            step = Step(Where.SKIPPED, verdict.reason, verdict.measures or {})
            self._adoption_over(order, step)

    def on_NodeAdopted(self, message: NodeAdopted) -> None:
        order = message.order
        if message.error is not None:
            self._adopt_failed(order, message.error)
            return
        tags = order.tags
        self._log.event(
            Event.NODE_ADOPTED,
            reason=Reason.ADOPTED,
            node=order.node_id,
            pool=tags.pool,
            record=tags.record,
            incarnation=tags.incarnation,
            by=self._run.by if self._run is not None else None,
        )
        self._adoption_over(order, Step(Where.DONE, Reason.ADOPTED))

    def _adopt_failed(self, order: AdoptOrder, error: RemoteError) -> None:
        """One that may pass is tried again with the next decision."""
        self._log.event(Event.NODE_ADOPT_FAILED, level=WARNING, node=order.node_id, error=error)
        if isinstance(error, Throttled):
            self._throttled(error)
        refused = error.definite and not isinstance(error, Throttled)
        step = Step(Where.SKIPPED, Reason.ADOPT_REFUSED, {"error": str(error)})
        self._adoption_over(order, step if refused else None)

    def _adoption_over(self, order: AdoptOrder, step: Step | None) -> None:
        self._adopting = self._adopting - {order.node_id}
        self._setups.done(ADOPT_KEY + order.node_id)
        if step is not None:
            self._step_ended(order.item.key, step)
        self._settled()
