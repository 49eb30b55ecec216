"""Watches the daemon for the status page and the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from nodemanager.core import breaker as breakers
from nodemanager.core.breaker import HOW_TO_CLEAR
from nodemanager.core.leftovers import LedgerState
from nodemanager.core.marks import NO_MARKS, Marks
from nodemanager.core.model import LeftoverKind
from nodemanager.core.plan import Plan
from nodemanager.core.reasons import Reason
from nodemanager.core.settings import Settings
from nodemanager.core.signs import classify
from nodemanager.core.snapshot import Snapshot
from nodemanager.web.explain import Explanations
from nodemanager.web.metrics import Metrics
from nodemanager.web.status import Board, Breaker, NodeCounts, Poll, Slots, Status


class WebObserver:
    """Keeps the board and the metrics current; called by the daemon actor alone."""

    def __init__(
        self,
        board: Board,
        metrics: Metrics,
        *,
        mode: str,
        holder: str,
        explanations: Explanations | None = None,
    ) -> None:
        self._board = board
        self._metrics = metrics
        self._mode = mode
        self._explanations = explanations
        self._holder = holder
        self._polls: dict[str, Poll] = {}
        self._known = {"account": "", "store": ""}
        self._breaker_generation = 0
        self._leftovers: dict[LedgerState, int] = {}
        self._marks = NO_MARKS

    def planned(self, plan: Plan, snapshot: Snapshot, settings: Settings, took_s: float) -> None:
        self._metrics.cycle(took_s)
        if self._explanations is not None:
            self._explanations.keep(snapshot, plan, settings)
        if plan.aborted is not None:
            self._metrics.cycle_aborted(plan.aborted[0].value)
        if plan.breaker.cause is not None and plan.breaker.generation != self._breaker_generation:
            self._metrics.breaker_opened(plan.breaker.cause.value)
        self._breaker_generation = plan.breaker.generation
        status = self._status(plan, snapshot, settings)
        self._board.replace(status)
        self._metrics.show(status)

    def _status(self, plan: Plan, snapshot: Snapshot, settings: Settings) -> Status:
        counts = plan.counts
        reasons = Counter(verdict.reason.value for verdict in plan.records)
        reasons.update(view.verdict.reason.value for view in plan.views)
        return Status(
            made_at=snapshot.now,
            pool=settings.pool,
            mode="read-only" if snapshot.read_only is not None else self._mode,
            read_only=snapshot.read_only,
            nodes=NodeCounts(
                booting=counts.get("nodes_booting", 0),
                unpaired=counts.get("nodes_unpaired", 0),
                busy=counts.get("nodes_busy", 0),
                idle=counts.get("nodes_idle", 0),
                fail=counts.get("nodes_bad", 0),
                down=counts.get("nodes_down", 0),
                shutdown=counts.get("nodes_shutdown", 0),
                wish=plan.wants.wishlist if plan.wants is not None else 0,
            ),
            errors=self._metrics.error_counts(),
            max_nodes=settings.max_nodes,
            quota=snapshot.limits.quota,
            price=plan.wants.price if plan.wants is not None else 0.0,
            idle_times={
                view.node.name: snapshot.now - heard.idle_since
                for view in plan.views
                if view.record is not None
                and (heard := plan.history.heard.get(view.record.uuid)) is not None
                and heard.idle_since is not None
            },
            polls=dict(self._polls),
            poll_stale_after=settings.poll_stale_after,
            breaker=_breaker(plan),
            lease_held=snapshot.lease and self._mode == "apply",
            holder=self._holder,
            slots=_slots(plan),
            records=_record_states(plan, snapshot, settings),
            plan=plan.plan_id,
            reasons=dict(reasons),
            aborted=None if plan.aborted is None else plan.aborted[0].value,
            deferred=plan.deferred,
            refused=_refused(plan),
            unsatisfiable=_unsatisfiable(plan),
            under_way=_under_way(snapshot),
            held=tuple(sorted(snapshot.holds)),
            leftovers={state.value: count for state, count in self._leftovers.items()},
            account=self._known["account"],
            store=self._known["store"],
            marks=replace(self._marks, paused=snapshot.paused),
            paused_at=(
                None
                if snapshot.paused is None
                else snapshot.now - max(0.0, snapshot.wall - snapshot.paused.at)
            ),
        )

    def identified(self, kind: str, seen: str) -> None:
        self._known[kind] = seen

    def listed(self, source: str, took_s: float, items: int, started_at: float) -> None:
        self._metrics.list_ok(source, took_s, items)
        self._polls[source] = Poll(started_at, items, 0)

    def list_partial(self, source: str) -> None:
        self._metrics.list_partial(source)

    def list_suspect(self, source: str) -> None:
        self._metrics.list_suspect(source)

    def list_failed(self, source: str) -> None:
        self._metrics.list_failed(source)
        poll = self._polls.get(source, Poll())
        self._polls[source] = replace(poll, failures_in_a_row=poll.failures_in_a_row + 1)

    def booted(self, size: str) -> None:
        self._metrics.boot(size)

    def create_failed(self, kind: str) -> None:
        self._metrics.create_failed(kind)

    def shut_down(self, reason: Reason, size: str) -> None:
        self._metrics.shutdown(reason.value)
        if reason is Reason.BOOT_FAILED:
            self._metrics.boot_failed(size)

    def shutdown_skipped(self, reason: Reason) -> None:
        self._metrics.shutdown_skipped(reason.value)

    def destroy_failed(self) -> None:
        self._metrics.destroy_failed()

    def cleaned(self, reason: Reason) -> None:
        self._metrics.clean(reason.value)

    def clean_skipped(self, reason: Reason) -> None:
        self._metrics.clean_skipped(reason.value)

    def clean_failed(self) -> None:
        self._metrics.clean_failed()

    def false_cleaned(self) -> None:
        self._metrics.false_clean()

    def violated(self, rule: str) -> None:
        self._metrics.violation(rule)

    def restored(self) -> None:
        self._metrics.restore()

    def pruned(self) -> None:
        self._metrics.prune()

    def leftovers(self, counts: Mapping[tuple[LeftoverKind, LedgerState], int]) -> None:
        self._leftovers = {
            state: sum(count for (_, one), count in counts.items() if one is state)
            for state in LedgerState
            if state is not LedgerState.RELEASED
        }
        self._metrics.leftovers(
            {(kind.value, state.value): count for (kind, state), count in counts.items()}
        )

    def leftover_released(self, kind: LeftoverKind) -> None:
        self._metrics.leftover_released(kind.value)

    def leftover_failed(self, kind: LeftoverKind) -> None:
        self._metrics.leftover_failed(kind.value)

    def marked(self, marks: Marks) -> None:
        self._marks = marks

    def leftovers_unknown(self) -> None:
        self._metrics.leftovers_unknown()


def _breaker(plan: Plan) -> Breaker:
    if not plan.breaker.is_open:
        return Breaker()
    first, *others = [_part(part) for part in plan.breaker.parts]
    return replace(first, others=tuple(others))


def _part(part: breakers.Breaker) -> Breaker:
    assert part.cause is not None
    counts = ", ".join(f"{name} {count}" for name, count in part.detail.items())
    cause = part.cause.value.replace("_", " ")
    return Breaker(
        reason=part.cause.value,
        cause=f"{cause}: {counts}" if counts else cause,
        clear=HOW_TO_CLEAR[part.cause],
        opened_at=part.opened_at,
    )


def _slots(plan: Plan) -> Slots:
    slots = plan.slots
    if slots is None:
        return Slots()
    return Slots(
        used=sum(slots.held_by.values()),
        total=slots.total,
        free_in_s=slots.earliest_free_s if slots.free == 0 else None,
        held_by=slots.held_by,
        leaks=slots.leaks,
    )


def _refused(plan: Plan) -> dict[tuple[str, str], int]:
    if plan.wants is None:
        return {}
    return {(size, why.value): count for (size, why), count in plan.wants.refused.items()}


def _unsatisfiable(plan: Plan) -> tuple[tuple[str, str], ...]:
    if plan.wants is None:
        return ()
    return tuple((job.id, job.reason.value) for job in plan.wants.unsatisfiable)


def _under_way(snapshot: Snapshot) -> dict[str, int]:
    """Set-ups, shutdowns and cleans of ours in the air; a shutdown has its record's flight too."""
    counts = Counter(
        flight.kind
        for flight in snapshot.record_flights.values()
        if not flight.kind.startswith("shutdown")
    )
    counts["setup"] += len(snapshot.boots_unclaimed)
    counts["shutdown"] += len(snapshot.node_flights)
    return dict(+counts)


def _record_states(plan: Plan, snapshot: Snapshot, settings: Settings) -> dict[str, int]:
    records = plan.history.records
    if records is None:
        return {}
    return dict(Counter(classify(record, snapshot, settings).value for record in records.items))
