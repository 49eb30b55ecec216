"""Makes the snapshot that a decision, or the check before an action, is taken from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from nodemanager.actors.daemon.context import Context
from nodemanager.actors.daemon.held_backlog import HeldBacklog
from nodemanager.actors.daemon.identities import Identities
from nodemanager.core.execute.workflow import Key
from nodemanager.core.model.reasons import Event
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.backlog_run import let_go
from nodemanager.log import WARNING


@dataclass(eq=False)
class Snapshots:
    """Makes a Snapshot from all that the daemon's parts know."""

    _context: Context
    _identities: Identities
    _backlog: HeldBacklog
    _had_lease: bool = True

    def taken(
        self, plan_id: str, *, without: str | None = None, besides: Key | None = None
    ) -> Snapshot:
        """A snapshot of now, without the landed set-up of `without` and the flight of `besides`."""
        context, backlog = self._context, self._backlog
        state = context.state
        recent = state.recent
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
            claimed_sizes=state.sizes,
            expected=state.expected,
            places_to_be=runner.places(besides) + self._places_expected(),
            holds=frozenset(state.marks.holds),
            limits=state.limits,
            breaker=state.breaker,
            read_only=self._read_only,
            own_cleans=frozenset(state.writes.own_cleans),
            lease=self._holds_lease(),
            first_clean=backlog.first_clean,
            backlog=backlog.records,
            let_go=let_go(backlog.run),
            skipped=recent.skipped,
            late=state.writes.late,
            touched=recent.touched,
            gone=recent.gone,
            drains=state.marks.drains,
            drain_orders=state.drains.orders,
            dispatched=state.dispatched,
            late_destroys=frozenset(recent.late_destroys),
            unknown_destroys=context.now <= recent.unknown_destroys,
            kills=state.marks.kills,
            by_hand=state.by_hand,
            rotation_paused=state.marks.rotation,
            paused=state.marks.paused,
        )

    def _places_expected(self) -> Counter[str]:
        present, expected = self._context.history.present, self._context.state.expected
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
