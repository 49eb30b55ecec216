"""What one snapshot calls for: a verdict for each node and record, and the orders.

`plan` is pure: the same snapshot and settings give the same plan, and the order of a listing's
items does not matter. The same predicates feed the action, the log line, the metric and the
simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from nodemanager.core.judge import false_clean
from nodemanager.core.judge.idle import is_kept_drained, stays_drained
from nodemanager.core.judge.node_view import OUTSIDE, NodeView, recovered
from nodemanager.core.judge.nodes import NodeJudge
from nodemanager.core.judge.records import RecordJudge
from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.breaker import Breaker, Cause
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import OURS, Kind, Reason
from nodemanager.core.model.settings import ASK_LIMIT, Settings
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.model.streaks import NONE, Loops
from nodemanager.core.model.verdict import NOTHING_BEFORE, Objection, Verdict, keep
from nodemanager.core.model.world import FreedLife, WorkerState
from nodemanager.core.observe import nodes_since
from nodemanager.core.observe.ended import EndedNode
from nodemanager.core.observe.evidence import Impossible, find_impossible, of_one_slot
from nodemanager.core.observe.history import History
from nodemanager.core.observe.nodes_by_record import each_once
from nodemanager.core.observe.pairing import NO_PAIRS, Pairs, pair
from nodemanager.core.observe.pools import adopts_unclaimed
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.observe.unlisted import NOTHING, Unlisted, look_for_unlisted
from nodemanager.core.plan.demand import DemandPlan, Market
from nodemanager.core.plan.destroy import ShutdownOrder
from nodemanager.core.plan.due import (
    Judged,
    PruneOrder,
    judge_records,
    left_fences,
    to_prune,
    with_prunes,
)
from nodemanager.core.plan.errands import Errand, errands
from nodemanager.core.plan.orders import (
    BindOrder,
    BootOrder,
    DrainOrder,
    bind_orders,
    boot_orders,
    dispatch_orders,
    drain_orders,
    free_seats,
    shutdown_orders,
)
from nodemanager.core.plan.slots import Slots, count_slots
from nodemanager.core.plan.summary import Notice, cycle_counts, made_since, notices
from nodemanager.core.plan.supply import Supply, count_out_of_sight
from nodemanager.core.safety import breaker as breakers
from nodemanager.core.safety.boot_loops import nodes_ended
from nodemanager.core.safety.breaker import Population
from nodemanager.core.safety.orders import CleanOrder
from nodemanager.core.safety.rate_limits import after_eligible, eligible_seen, name_of


@dataclass(frozen=True)
class Plan:
    """All that one snapshot calls for.

    `aborted` says why no decision may be made from it. `views` are of listed nodes, `unheard` of
    silent ones that no listing shows but the cloud has (D13). `ended` are the nodes that this
    plan is the first to know as ended, and not by us (D3). `history` and `breaker` are what the
    next snapshot starts from. `ask` are ids of nodes to ask the cloud for, `ask_tagged` uuids of
    records to ask for by tag (B3, P6, U8). `restores` are freed lives to restore, `not_restored`
    says why others can't be. `lifts` are fences to lift, that no clean follows any more (C12).
    `prunes` are records to delete, `binds` claims that lack the id of their node (P1a). `errands`
    are for the scheduler, `notices` for an operator.
    """

    plan_id: str
    history: History
    breaker: Breaker
    pairs: Pairs
    records: tuple[Verdict, ...] = ()
    views: tuple[NodeView, ...] = ()
    unheard: tuple[NodeView, ...] = ()
    boots: tuple[BootOrder, ...] = ()
    shutdowns: tuple[ShutdownOrder, ...] = ()
    drains: tuple[DrainOrder, ...] = ()
    dispatches: tuple[DrainOrder, ...] = ()
    errands: tuple[Errand, ...] = ()
    cleans: tuple[CleanOrder, ...] = ()
    lifts: tuple[CleanOrder, ...] = ()
    prunes: tuple[PruneOrder, ...] = ()
    ask: tuple[str, ...] = ()
    ask_tagged: tuple[str, ...] = ()
    unlisted: Unlisted = NOTHING
    ended: tuple[EndedNode, ...] = ()
    loops: Loops = NONE
    """The streaks of failed boots, with those that this plan shows (B5)."""
    pending: frozenset[str] = frozenset()
    """The records that stand for future nodes, by uuid (U6)."""
    restores: tuple[FreedLife, ...] = ()
    binds: tuple[BindOrder, ...] = ()
    not_restored: tuple[Verdict, ...] = ()
    wants: DemandPlan | None = None
    slots: Slots | None = None
    impossible: Impossible | None = None
    aborted: Objection | None = None
    deferred: int = 0
    backlog: frozenset[str] = frozenset()
    counts: Mapping[str, int] = field(default_factory=dict)
    pool_marks: Mapping[str, Mark] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


HANDLED = OURS | {Reason.NODE_ABSENT}
"""Verdicts under which a node that turned bad still counts as bad (D9)."""

UNCOUNTED = OUTSIDE | {Reason.UNTAGGED}
"""Nodes that D9 leaves out: we never destroy them."""


def plan(
    snapshot: Snapshot,
    settings: Settings,
    *,
    new_records: bool = False,
    before: Plan | None = None,
) -> Plan:
    """The plan of a snapshot. `new_records`: a record listing came since the last plan (D7).

    `before`, the last plan, changes nothing in it: what comes out the same is taken over, and the
    two plans share it.
    """
    snapshot = _with(snapshot, changed(snapshot.history, wall=snapshot.wall_clock))
    history = snapshot.history
    if history.cloud is None or history.records is None:
        missing = "cloud" if history.cloud is None else "records"
        return _no_plan(snapshot, Objection(Reason.NO_LISTING, {"source": missing}), None)
    impossible = find_impossible(history)
    if impossible.too_many:
        shown = {"items": len(impossible.ids), "listed": impossible.listed}
        measures = {**shown, **of_one_slot(impossible.sharing)}
        snapshot = _with(snapshot, _doubted(history, settings))
        return _no_plan(snapshot, Objection(Reason.TOO_MANY_IMPOSSIBLE, measures), impossible)
    settings = adopting(history, settings)
    return _planned(snapshot, settings, impossible, before, new_records=new_records)


def _planned(
    snapshot: Snapshot,
    settings: Settings,
    impossible: Impossible,
    before: Plan | None,
    *,
    new_records: bool,
) -> Plan:
    """The plan of a snapshot that may be decided on."""
    snapshot, pairs = _paired(snapshot, settings, before, new_records=new_records)
    views = _viewed(snapshot, settings, pairs, before)
    before_ends = snapshot.history.ended_lives
    snapshot, ended = nodes_ended(snapshot, settings)
    unlisted = look_for_unlisted(snapshot, settings)
    unheard = _unheard(snapshot, settings, unlisted, impossible.ids)
    silent = [one for one in unheard if one.bad]
    out_of_sight = partial(count_out_of_sight, snapshot, settings, pairs, unlisted)
    snapshot = _after_silence(snapshot, settings, views, silent, out_of_sight)
    known = NOTHING_BEFORE if before is None else {one.id: one for one in before.records}
    judge = RecordJudge(snapshot, settings, pairs, unlisted, known)
    snapshot, (verdicts, cleans, deferred, backlog) = _judged_records(judge, impossible)
    records = snapshot.history.listed_records
    slots = count_slots(records, verdicts, snapshot, settings)
    noticed = notices(records, verdicts, slots.leaks, settings)
    supply = Supply(snapshot, settings, views, pairs, unlisted)
    seats = free_seats(snapshot, settings, impossible.ids)
    wants = Market(supply, snapshot, settings, slots, seats).trade()
    snapshot = _after_unwanted(snapshot, views, wants)
    _tell_late_destroys(snapshot, settings, views)
    _tell_spares(views, wants)
    shutdowns = shutdown_orders(snapshot, settings, [*views, *unheard], wants, impossible.ids)
    restores, not_restored = _restores(snapshot, settings)
    boots = boot_orders(snapshot, settings, wants, impossible.ids)
    used = impossible.ids | {boot.record.uuid for boot in boots if boot.record is not None}
    prunes = to_prune(snapshot, settings, unlisted, used, cleans)
    verdicts = with_prunes(verdicts, prunes)
    return Plan(
        plan_id=snapshot.plan_id,
        history=_to_go_on_from(snapshot, before_ends),
        breaker=snapshot.breaker,
        pairs=pairs,
        records=tuple(verdicts),
        views=tuple(views),
        unheard=tuple(unheard),
        boots=boots,
        shutdowns=shutdowns,
        drains=tuple(drain_orders(views, snapshot, settings)),
        dispatches=tuple(dispatch_orders(views, snapshot, settings)),
        errands=errands(views, wants, snapshot, settings),
        cleans=cleans,
        lifts=left_fences(snapshot, settings, impossible.ids),
        prunes=prunes,
        ask=_to_ask(snapshot, settings, pairs, unlisted),
        ask_tagged=_in_turn(false_clean.to_ask_tagged(snapshot, settings), unlisted.ask_tagged),
        unlisted=unlisted,
        ended=ended,
        loops=snapshot.limits.loops,
        pending=frozenset(supply.pending_records),
        restores=restores,
        binds=bind_orders(snapshot, settings, pairs),
        not_restored=not_restored,
        wants=wants,
        slots=slots,
        impossible=impossible,
        deferred=deferred,
        backlog=backlog,
        counts=cycle_counts(views, verdicts, supply.pending_records, snapshot),
        pool_marks=snapshot.pool_marks,
        notices=noticed,
    )


def _paired(
    snapshot: Snapshot, settings: Settings, before: Plan | None, *, new_records: bool
) -> tuple[Snapshot, Pairs]:
    """The pairs, and the snapshot that knows since when the other nodes are without a record."""
    history = snapshot.history
    pairs = pair(
        history,
        pool=settings.pool,
        ids_unique=settings.ids_unique,
        adopt_unclaimed=settings.adopt_unclaimed,
        before=NO_PAIRS if before is None else before.pairs,
    )
    unpaired = _unpaired(history, pairs, settings)
    history = nodes_since.pairing_seen(history, unpaired, snapshot.now, new_records=new_records)
    return _with(snapshot, history), pairs


def _to_ask(
    snapshot: Snapshot, settings: Settings, pairs: Pairs, unlisted: Unlisted
) -> tuple[str, ...]:
    """The node ids to ask the cloud for before the next plan."""
    return _in_turn(
        breakers.to_ask(snapshot.breaker, snapshot.history),
        false_clean.to_ask(snapshot, settings, pairs),
        unlisted.ask,
    )


def _viewed(
    snapshot: Snapshot, settings: Settings, pairs: Pairs, before: Plan | None
) -> list[NodeView]:
    """Each listed node, judged once; demand, caps and breakers come later (`shutdown_orders`)."""
    views = () if before is None else before.views
    known = {view.verdict.id: view.verdict for view in views}
    judge, history = NodeJudge(snapshot, settings, pairs, known), snapshot.history
    assert history.cloud is not None
    return [judge.view(node) for node in each_once(history.cloud.items, history.nodes_twice)]


def _unheard(
    snapshot: Snapshot, settings: Settings, unlisted: Unlisted, impossible: frozenset[str]
) -> list[NodeView]:
    """Nodes that are silent and unlisted, but that the cloud has, judged as if listed (D13)."""
    if not unlisted.unheard:
        return []
    own = {
        node.id: record
        for record in snapshot.history.listed_records
        if record.uuid not in impossible and (node := unlisted.unheard.get(record.uuid)) is not None
    }
    judge = NodeJudge(snapshot, settings, Pairs(own, {}, {}))
    sizes = Sizes(settings.sizes)
    views = [judge.view(node) for node in unlisted.unheard.values() if node.id in own]
    for view in views:
        view.size = sizes.called(view.node, view.record)
    return views


def _in_turn(*asking: Iterable[str]) -> tuple[str, ...]:
    """The first ASK_LIMIT of all these, each once, in the order given."""
    return tuple(dict.fromkeys(chain.from_iterable(asking)))[:ASK_LIMIT]


def _with(snapshot: Snapshot, history: History, breaker: Breaker | None = None) -> Snapshot:
    """The snapshot with this history and breaker; the same object where neither changed."""
    breaker = snapshot.breaker if breaker is None else breaker
    if history is snapshot.history and breaker is snapshot.breaker:
        return snapshot
    return changed(snapshot, history=history, breaker=breaker)


def _to_go_on_from(snapshot: Snapshot, before_ends: frozenset[str]) -> History:
    """The next snapshot's history: a listing that is not believed proves no absence (L3, C5).

    Which lives have ended is found out anew until it is known which of them are news (B5).
    """
    history = snapshot.history
    if not snapshot.journal_read:
        history = changed(history, ended_lives=before_ends)
    if snapshot.breaker.part(Cause.CLOUD_COLLAPSED) is None:
        return history
    return changed(history, absence={})


def judged(made: Plan, snapshot: Snapshot) -> Snapshot:
    """The snapshot as the judges of this plan saw it, so that `explain` can ask them again."""
    # `_to_go_on_from` may have dropped the absences, which the judges still had.
    history = changed(made.history, absence=snapshot.history.absence)
    limits = replace(snapshot.limits, loops=made.loops)
    return changed(snapshot, history=history, breaker=made.breaker, limits=limits)


def adopting(history: History, settings: Settings) -> Settings:
    """The settings; `adopt_unclaimed`, if unset, is yes until a record names another pool (T3)."""
    if settings.adopt_unclaimed is not None or history.records is None:
        return settings
    adopts = adopts_unclaimed(history.other_pools, settings)
    return changed(settings, adopt_unclaimed=adopts)


def _no_plan(
    snapshot: Snapshot,
    aborted: Objection,
    impossible: Impossible | None,
) -> Plan:
    """The plan where nothing may be decided: it only asks what the breaker waits for."""
    return Plan(
        plan_id=snapshot.plan_id,
        history=snapshot.history,
        breaker=snapshot.breaker,
        pairs=Pairs({}, {}, {}),
        loops=snapshot.limits.loops,
        impossible=impossible,
        aborted=aborted,
        ask=breakers.to_ask(snapshot.breaker, snapshot.history),
        pool_marks=snapshot.pool_marks,
    )


def _doubted(history: History, settings: Settings) -> History:
    """The history after listings that are not believed: they may restart a count, never finish one.

    A node may have been paired (D7) or wanted (D12) meanwhile, and no plan has seen it.
    """
    settings = adopting(history, settings)
    unique, adopts = settings.ids_unique, settings.adopt_unclaimed
    pairs = pair(history, pool=settings.pool, ids_unique=unique, adopt_unclaimed=adopts)
    history = nodes_since.still_unpaired(history, set(_unpaired(history, pairs, settings)))
    return changed(history, unwanted={}, over_max=frozenset())


def _unpaired(history: History, pairs: Pairs, settings: Settings) -> list[str]:
    """Ids of listed nodes of our pool that pair with no record; none is ambiguous (D7)."""
    return [
        node.id
        for node in history.present.values()
        if node.id not in pairs.record_of
        and node.id not in pairs.ambiguous
        and node.tags.pool == settings.pool
    ]


def _after_silence(
    snapshot: Snapshot,
    settings: Settings,
    views: list[NodeView],
    unheard: list[NodeView],
    out_of_sight: Callable[[Collection[str]], int],
) -> Snapshot:
    """Count the nodes that turned silent, down or unpaired; open or close the breaker on it (D9).

    A bad node that we are destroying still counts as bad; one that we never destroy does not count.
    """
    ours = [
        view
        for view in (*views, *unheard)
        if view.verdict.reason not in UNCOUNTED or view.node.id in snapshot.gone
    ]
    no_more = partial(_no_more_ill, snapshot, settings, views, ours)
    turned, part = snapshot.history.turned, snapshot.breaker.part(Cause.MASS_SILENCE)
    ill = [
        view
        for view in ours
        if view.bad_s is not None or (view.node.id in turned and view.verdict.reason in HANDLED)
    ]
    unlisted = frozenset(view.node.id for view in unheard)
    history = nodes_since.turned_bad(
        snapshot.history,
        {view.node.id: snapshot.now - (view.bad_s or 0.0) for view in ill},
        snapshot.now,
        settings,
        unlisted,
        well=no_more({one: then.found_at for one, then in turned.items()}),
        leaving=snapshot.node_flights.keys(),
        boots={view.node.id for view in ill if view.verdict.reason is Reason.NOT_JOINED},
        down={view.node.id for view in ill if view.state is WorkerState.DOWN},
        collapsed=snapshot.breaker.part(Cause.CLOUD_COLLAPSED) is not None,
    )
    left = history.turned.keys() - {view.node.id for view in ours} if history.turned else ()
    breaker = breakers.after_silence(
        snapshot.breaker,
        history,
        no_more(
            dict.fromkeys(snapshot.breaker.acquitted, float("-inf"))
            | ({} if part is None else dict.fromkeys(part.ids, part.opened_at))
        ),
        Population(
            len(ours),
            frozenset(left),
            snapshot.history.uncounted,
            partial(made_since, ours, snapshot),
            partial(out_of_sight, history.turned.keys() | unlisted),
        ),
        snapshot.now,
        settings,
    )
    return _with(snapshot, history, breaker)


def _no_more_ill(
    snapshot: Snapshot,
    settings: Settings,
    views: list[NodeView],
    ours: list[NodeView],
    since: Mapping[str, float],
) -> frozenset[str]:
    """The nodes, of those that are ill `since` then, that are well again, or not ours (B3)."""
    if not since:
        return frozenset()
    others = {view.node.id for view in views} - {view.node.id for view in ours}
    return recovered(ours, since, snapshot, settings) | (since.keys() & others)


def _after_eligible(judge: RecordJudge, backlog: frozenset[str]) -> Snapshot:
    """Open the breaker on too many newly eligible records, before one of them is freed (B1).

    The backlog does not count: an operator was told of it and decides (S5).
    """
    snapshot, settings = judge.snapshot, judge.settings
    items = snapshot.history.listed_records
    eligible = [one for one in items if one.uuid in judge.eligible] if judge.eligible else []
    known: Iterable[str] = ()
    if snapshot.first_clean and not settings.hold_backlog:
        known = [name_of(one) for one in eligible]
    elif backlog or snapshot.backlog:
        known = backlog | snapshot.backlog
    history = eligible_seen(snapshot, eligible, known)
    breaker = after_eligible(snapshot.breaker, history, snapshot.slots, snapshot.now)
    return _with(snapshot, history, breaker)


def _after_unwanted(snapshot: Snapshot, views: list[NodeView], wants: DemandPlan) -> Snapshot:
    """Note the nodes that demand, an operator or the cloud wants no more, and since when (D12)."""
    leaving = [view.node.id for view in views if view.leaves]
    unwanted = wants.unwanted | frozenset(leaving)
    history = nodes_since.unwanted_seen(snapshot.history, unwanted, wants.over_max, snapshot.now)
    return _with(snapshot, history)


def _tell_late_destroys(snapshot: Snapshot, settings: Settings, views: list[NodeView]) -> None:
    """Change the verdict of each idle node that is wanted again, and that stays drained (D12)."""
    if not snapshot.late_destroys and not snapshot.unknown_destroys:
        return
    needed, unwanted = Reason.NEEDED, snapshot.history.unwanted
    for view in views:
        node_id, record = view.node.id, view.record
        if view.verdict.reason is not needed or node_id in unwanted:
            continue
        if record is not None and (
            stays_drained(node_id, record, snapshot)
            or is_kept_drained(node_id, record, snapshot, settings)
        ):
            view.verdict = keep(node_id, Reason.LATE_DESTROY)


def _tell_spares(views: list[NodeView], wants: DemandPlan) -> None:
    """Change the verdict of each idle node that is kept as a spare one."""
    for view in views if wants.spare else ():
        if view.node.id in wants.spare and view.verdict.reason is Reason.NEEDED:
            one = wants.spares[view.size or ""]
            measures = {"size": view.size, "spares": one.there, "spare_nodes": one.wanted}
            view.verdict = keep(view.node.id, Reason.SPARE, **measures)


def _restores(
    snapshot: Snapshot, settings: Settings
) -> tuple[tuple[FreedLife, ...], tuple[Verdict, ...]]:
    """The freed lives to restore now, and for others what lasting cause forbids it (U8)."""
    restores, not_restored = [], []
    for life in false_clean.open_lives(snapshot.breaker):
        verdict = false_clean.judge_restore(life, snapshot, settings)
        if verdict.kind is Kind.RESTORE:
            restores.append(life)
        elif verdict.reason.row.restores:
            not_restored.append(verdict)
    return tuple(restores), tuple(not_restored)


def _judged_records(judge: RecordJudge, impossible: Impossible) -> tuple[Snapshot, Judged]:
    """Judge the records; judge them again where the first result opens the breaker (B1)."""
    made = judge_records(judge, impossible)
    snapshot = _after_eligible(judge, backlog=made[3])
    if snapshot.breaker.generation != judge.snapshot.breaker.generation:
        judge = RecordJudge(snapshot, judge.settings, judge.pairs, judge.unlisted, judge.before)
        made = judge_records(judge, impossible)
    return snapshot, made
