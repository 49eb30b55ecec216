"""What a decision, or a step of a workflow, is taken from: the State at one moment."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nodemanager.core.execute.state import State
from nodemanager.core.execute.workflow import Action, Key
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.backlog_marks import let_go


def snapshot_of(
    state: State,
    plan_id: str,
    now: float,
    wall: float,
    *,
    lease: bool,
    problem: str | None,
    besides: Key | None = None,
) -> Snapshot:
    """A snapshot of the State, without the workflow of the key `besides`.

    A set-up that has landed does not keep its claim from being released by that (U6). `problem` is
    why the journal can't be written.
    """
    landed = besides.id if besides is not None and besides.action is Action.CLEAN else None
    recent, flights, backlog = state.recent, state.flights, state.backlog
    records, nodes = flights.by_record_and_node(besides)
    wrong = (*state.identity.read_only, *(() if problem is None else (problem,)))
    return Snapshot(
        plan_id=plan_id,
        now=now,
        wall=wall,
        history=state.history,
        demand=state.demand,
        demand_at=state.demand_at,
        slots=state.slots,
        record_flights=recent.by_record(landed) | records,
        node_flights=nodes,
        cleaned_lately=len(recent.cleaned_at),
        destroyed_lately=len(recent.destroyed_at),
        boots_unclaimed=(*recent.unclaimed, *flights.unclaimed(besides)),
        unclear=flights.unclear,
        claimed_sizes=state.sizes,
        expected=state.expected,
        places_to_be=flights.places(besides) + _places_expected(state),
        holds=frozenset(state.marks.holds),
        limits=state.limits,
        breaker=state.breaker,
        read_only="; ".join(wrong) or None,
        own_cleans=frozenset(state.writes.own_cleans),
        lease=lease,
        first_clean=backlog.first_clean,
        backlog=backlog.records,
        let_go=let_go(backlog.marks),
        skipped=recent.skipped,
        late=state.writes.late,
        touched=recent.touched,
        gone=recent.gone,
        drains=state.marks.drains,
        drain_orders=state.drains.orders,
        dispatched=state.dispatched,
        late_destroys=frozenset(recent.late_destroys),
        unknown_destroys=now <= recent.unknown_destroys,
        kills=state.marks.kills,
        by_hand=state.by_hand,
        pool_marks=state.marks.pool,
    )


def wanted(state: State) -> dict[str, Any]:
    """What the newest plan wants of future nodes, without those withdrawn since: see `Seen`."""
    if state.plan is None or state.plan.wants is None:
        return {}
    wants, gone = state.plan.wants, state.withdrawn
    return {
        "needless": Counter(wants.needless) - gone,
        "wished": wants.wished,
        "too_many": wants.too_many > gone.total(),
        "too_dear": Counter(wants.too_dear) - gone,
        "unmet": wants.unmet,
    }


def _places_expected(state: State) -> Counter[str]:
    return Counter(
        one.place
        for one in state.expected.values()
        if one.place is not None and one.node_id not in state.history.present
    )
