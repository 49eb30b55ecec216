"""Makes the snapshot that a decision, or the check before an action, is taken from."""

from __future__ import annotations

from collections import Counter

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.held_backlog import HeldBacklog
from nodemanager.actors.daemon.identities import Identities
from nodemanager.actors.daemon.operators import OperatorMarks
from nodemanager.actors.daemon.record_writes import RecordWrites
from nodemanager.core.execute.workflow import Key
from nodemanager.core.model.reasons import Event
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.backlog_run import let_go
from nodemanager.log import WARNING


class Snapshots:
    """Makes a Snapshot from all that the daemon's parts know."""

    def __init__(
        self,
        context: Context,
        identities: Identities,
        writes: RecordWrites,
        backlog: HeldBacklog,
        marks: OperatorMarks,
    ) -> None:
        self._context = context
        self._identities = identities
        self._writes = writes
        self._backlog = backlog
        self._marks = marks
        self._had_lease = True

    def taken(
        self, plan_id: str, *, without: str | None = None, besides: Key | None = None
    ) -> Snapshot:
        """A snapshot of now, without the landed set-up of `without` and the flight of `besides`."""
        context, backlog, marks = self._context, self._backlog, self._marks
        books, recent, state = context.books, context.recent, context.state
        runner = context.runner
        records, nodes = runner.flights(besides)
        return Snapshot(
            plan_id=plan_id,
            now=context.now,
            wall=context.clock.wall(),
            history=state.history,
            demand=state.demand,
            demand_at=state.demand_at,
            slots=state.slots,
            record_flights=recent.by_record(without) | records,
            node_flights=nodes,
            cleaned_lately=len(recent.cleaned_at),
            destroyed_lately=len(recent.destroyed_at),
            boots_unclaimed=(*recent.unclaimed, *runner.unclaimed(besides)),
            unclear=runner.unclear(),
            claimed_sizes=books.sizes,
            expected=books.expected,
            places_to_be=runner.places(besides) + self._places_expected(),
            holds=context.journal_writer.orders.held,
            limits=books.limits,
            breaker=state.breaker,
            read_only=self._read_only,
            own_cleans=self._writes.own_cleans,
            lease=self._holds_lease(),
            first_clean=backlog.first_clean,
            backlog=backlog.records,
            let_go=let_go(backlog.run),
            skipped=recent.skipped,
            late=self._writes.late,
            touched=recent.touched,
            gone=recent.gone,
            drains=dict(marks.drains),
            drain_orders=books.drains.orders,
            dispatched=books.dispatched,
            late_destroys=frozenset(recent.late_destroys),
            unknown_destroys=context.now <= recent.unknown_destroys,
            kills=dict(marks.kills),
            by_hand=dict(marks.by_hand),
            rotation_paused=marks.rotation,
            paused=marks.paused,
        )

    def _places_expected(self) -> Counter[str]:
        present, expected = self._context.history.present, self._context.books.expected
        return Counter(
            one.place
            for one in expected.values()
            if one.place is not None and one.node_id not in present
        )

    @property
    def _read_only(self) -> str | None:
        problem = self._context.journal_writer.problem
        reasons = (*self._identities.read_only, *(() if problem is None else (problem,)))
        return "; ".join(reasons) or None

    def _holds_lease(self) -> bool:
        inputs = self._context.inputs
        holds = inputs.holds_lease()
        if self._had_lease and not holds:
            pool = self._context.settings.pool
            self._context.log.event(Event.LEASE_LOST, level=WARNING, pool=pool)
        self._had_lease = holds
        return holds
