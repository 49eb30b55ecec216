"""The observer of the daemon for status page and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.explain.inventory import hosts_of
from nodemanager.core.explain.why import why
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.signs import classify
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from nodemanager.lib.log import masked
from nodemanager.lib.logline import CAUSE, Fields
from nodemanager.web.dashboard.history import ChartHistory
from nodemanager.web.metrics import Metrics
from nodemanager.web.status import NO_SLOTS, Board, ErrorCounts, NodeCounts, PollStatus, Status


class WebObserver:
    """Keeps for board and metrics what the daemon logs and decides."""

    def __init__(self, board: Board, metrics: Metrics, charts: ChartHistory | None = None) -> None:
        self._board = board
        self._metrics = metrics
        self._charts = charts
        self._polls: dict[str, PollStatus] = {}

    def heard(self, event: Event, level: int, fields: Fields) -> None:
        """Take a logged event; a log listener."""
        self._metrics.heard(event, level, fields)
        if self._charts is not None:
            self._charts.heard(event)
        if event is Event.LIST_OK:
            self._polls[fields["source"]] = PollStatus(items=fields["items"])
        elif event is Event.LIST_FAILED:
            poll = self._polls.get(fields["source"], PollStatus())
            failures, error = poll.failures_in_a_row + 1, masked({"error": fields.get("error")})
            # Its causes are in the log.
            said = str(error["error"] or "").partition(CAUSE)[0] or None
            self._polls[fields["source"]] = replace(poll, failures_in_a_row=failures, error=said)

    def show(self, decision: DecisionView) -> None:
        """Show a new decision, or what was ordered since the newest one.

        The daemon does not wait for what only a reader asks for.
        """
        before, self._board.decision = self._board.decision, decision
        if before is None or decision.made is not before.made:
            self._count(decision)
        polls, errors = self._polls_of(decision.snapshot), self._metrics.error_counts()
        self._board.replace(
            decision.snapshot.now, lambda: self._status(decision, polls=polls, errors=errors)
        )

    def _count(self, decision: DecisionView) -> None:
        self._metrics.cycle(decision.took_s)
        if decision.made.slots is not None:
            self._metrics.slots(decision.made.slots)
        if self._charts is not None:
            self._charts.add(decision.snapshot.wall, decision.made, decision.settings)

    def _status(
        self, decision: DecisionView, *, polls: Mapping[str, PollStatus], errors: ErrorCounts
    ) -> Status:
        plan, snapshot, settings = decision.made, decision.snapshot, decision.settings
        counts, states = plan.counts, _record_states(plan, snapshot, settings)
        reasons = Counter([verdict.reason for verdict in plan.records])
        reasons.update([view.verdict.reason for view in plan.views])
        return Status(
            made_at=snapshot.now,
            pool=settings.pool,
            mode=decision.shown_mode,
            read_only=snapshot.read_only,
            nodes=NodeCounts(
                booting=counts.get("nodes_booting", 0),
                unlisted=counts.get("nodes_unlisted", 0),
                unpaired=counts.get("nodes_unpaired", 0),
                busy=counts.get("nodes_busy", 0),
                idle=counts.get("nodes_idle", 0),
                unknown=counts.get("nodes_unknown", 0),
                fail=counts.get("nodes_bad", 0),
                down=counts.get("nodes_down", 0),
                shutdown=counts.get("nodes_shutdown", 0),
                wish=plan.wants.wishlist if plan.wants is not None else 0,
            ),
            live=counts.get("nodes", 0),
            spares=plan.wants.spares if plan.wants is not None else {},
            rotations=plan.wants.rotations.sizes if plan.wants is not None else {},
            errors=errors,
            max_nodes=settings.max_nodes,
            quota=snapshot.limits.quota,
            price=plan.wants.price if plan.wants is not None else 0.0,
            idle_times=_idle_times(plan, snapshot.now),
            polls=polls,
            poll_stale_after=settings.poll_stale_after,
            breaker=plan.breaker,
            slots=plan.slots or NO_SLOTS,
            leaked_by_end=self._metrics.leaked_by_end((plan.slots or NO_SLOTS).leaks),
            records=_by_state(states),
            record_reasons=_by_reason(plan, states),
            last_ping_s=_last_ping_s(snapshot, settings),
            plan=plan.plan_id,
            reasons={reason.value: count for reason, count in reasons.items()},
            aborted=None if plan.aborted is None else plan.aborted.reason.value,
            deferred=plan.deferred,
            refused=_refused(plan),
            unsatisfiable=_unsatisfiable(plan),
            resting=_resting(snapshot),
            sizes=why(decision),
            notices=plan.notices,
            under_way=_under_way(snapshot),
            leftovers=decision.leftovers,
            account=decision.account,
            store=decision.store,
            marks=decision.marks,
            hosts=hosts_of(plan, decision.marks),
            marked_at={
                kind: snapshot.now - max(0.0, snapshot.wall - mark.at)
                for kind, mark in decision.marks.pool.items()
            },
        )

    def _polls_of(self, snapshot: Snapshot) -> dict[str, PollStatus]:
        """The polls of each source so far, with the start of its newest complete answer."""
        cloud, records = snapshot.history.cloud, snapshot.history.records
        scheduler = snapshot.history.scheduler
        started_at = {
            "cloud": cloud.started_at if cloud is not None else None,
            "records": records.started_at if records is not None else None,
            "demand": snapshot.demand_at,
            "scheduler": None if scheduler is None else scheduler.started_at,
        }
        return {
            source: replace(poll, started_at=started_at.get(source))
            for source, poll in self._polls.items()
        }


def _idle_times(plan: Plan, now: float) -> dict[str, float]:
    """For how many seconds each node has said idle, by its name."""
    return {
        view.node.name: now - heard.idle_since
        for view in plan.views
        if view.record is not None
        and (heard := plan.history.heard.get(view.record.uuid)) is not None
        and heard.idle_since is not None
    }


def _refused(plan: Plan) -> dict[tuple[str, str], int]:
    if plan.wants is None:
        return {}
    return {(size, why.value): count for (size, why), count in plan.wants.refused.items()}


def _resting(snapshot: Snapshot) -> tuple[tuple[str, str, float], ...]:
    rests = snapshot.limits.places
    return tuple(
        (size, place, until)
        for size, places in sorted(rests.items())
        for place, until in sorted(places.items())
        if until > snapshot.now
    )


def _unsatisfiable(plan: Plan) -> tuple[tuple[str, str], ...]:
    if plan.wants is None:
        return ()
    return tuple((job.id, job.reason.value) for job in plan.wants.unsatisfiable)


def _under_way(snapshot: Snapshot) -> dict[str, int]:
    """The numbers of in-flight set-ups, shutdowns and cleans.

    A shutdown counts once, although its record is in flight, too.
    """
    counts = Counter(
        flight.kind
        for flight in snapshot.record_flights.values()
        if not flight.kind.startswith("shutdown")
    )
    counts["setup"] += len(snapshot.boots_unclaimed)
    counts["shutdown"] += len(snapshot.node_flights)
    return dict(+counts)


def _record_states(plan: Plan, snapshot: Snapshot, settings: Settings) -> dict[str, str]:
    """The state of each listed record, by its uuid."""
    records = plan.history.records
    if records is None:
        return {}
    return {one.uuid: classify(one, snapshot, settings).value for one in records.items}


def _by_state(states: Mapping[str, str]) -> dict[str, int]:
    return dict(Counter(states.values()))


def _by_reason(plan: Plan, states: Mapping[str, str]) -> dict[tuple[str, str], int]:
    return dict(
        Counter(
            (states[verdict.id], verdict.reason.value)
            for verdict in plan.records
            if verdict.id in states
        )
    )


def _last_ping_s(snapshot: Snapshot, settings: Settings) -> float | None:
    """The age of the newest ping of the pool's records, on the store's clock."""
    history = snapshot.history
    if history.records is None or history.clock is None:
        return None
    pings = [
        record.last_ping_at
        for record in history.records.items
        if record.last_ping_at is not None and record.pool == settings.pool
    ]
    return max(0.0, history.clock.now(snapshot.now) - max(pings)) if pings else None
