"""All that the daemon knows, as one value, what its own doing changes in it, and its snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.execute import expectations, news
from nodemanager.core.execute.effects import ClaimRecord, FreeRecord, RenewClaim
from nodemanager.core.execute.flights import Flights, LeftOpen, Stepped
from nodemanager.core.execute.news import Learned
from nodemanager.core.execute.recent import (
    Recent,
    after_claim,
    after_end,
    after_fence,
    after_freed,
    after_gone,
    still_recent,
    with_inherited,
)
from nodemanager.core.execute.workflow import Action, End, Key
from nodemanager.core.execute.writes import Writes, after_answer, after_poll
from nodemanager.core.judge.node_view import FAILED_BOOTS
from nodemanager.core.model.annotations import NO_MARKS, HandClean, Marks
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import Dispatched, ErrandOutcome
from nodemanager.core.model.settings import ASK_AGAIN_S, Settings
from nodemanager.core.model.streaks import Loops
from nodemanager.core.model.world import Job, life_key
from nodemanager.core.observe.clocks import wall_read
from nodemanager.core.observe.ended import is_booting
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Expected, Limits, Snapshot
from nodemanager.core.operate.backlog import ItemMarks, let_go
from nodemanager.core.plan import availability, leftovers
from nodemanager.core.plan.errands import errand_ended, errands_sent
from nodemanager.core.plan.leftovers import Ledger
from nodemanager.core.plan.plan import Plan
from nodemanager.core.safety import boot_loops
from nodemanager.errors import RemoteError


@dataclass(frozen=True, slots=True)
class Identity:
    """The account and the store that answered last, and what is wrong with them.

    `mismatched` says how one differs from the known one, by kind; `identified` are the kinds that
    were compared. `failed` says why a value in the state directory could not be read or written
    last time, by what it is. While anything is wrong, nothing may be written.
    """

    account: str | None = None
    store: str | None = None
    mismatched: Mapping[str, str] = field(default_factory=dict)
    identified: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def read_only(self) -> tuple[str, ...]:
        """What is wrong with account, store or state directory."""
        return (*sorted(self.mismatched.values()), *sorted(set(self.failed.values())))

    @property
    def account_in_question(self) -> bool:
        """Whether the account is not the known one, or could not be compared."""
        return "account" in self.mismatched or "account" in self.failed


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the first plan with cleans held back, and the marks that let some of it go (S5).

    Until it `is_saved`, another run would not know of it.
    """

    first_clean: bool = False
    records: frozenset[str] = frozenset()
    marks: ItemMarks = field(default_factory=dict)
    is_saved: bool = True

    def after_plan(self, made: Plan) -> Backlog:
        # A clean by hand says nothing about how many records wait.
        cleans = any(order.hand is None for order in made.cleans)
        if not (self.first_clean and (cleans or made.backlog)):
            return self
        return Backlog(False, made.backlog, self.marks, is_saved=False)


@dataclass(frozen=True)
class State:
    """All that the facts so far add up to. `new_records`: a new record listing is unjudged (D7).

    `expected`, `created` and `sizes` are by record uuid. `created` has incarnation and size until
    we destroyed the node or its record is freed. `withdrawn` counts set-ups since the newest plan,
    by size; `pins_failed` counts failures to tell the pins, by node id.
    """

    history: History = field(default_factory=History)
    breaker: Breaker = field(default_factory=Breaker)
    demand: tuple[Job, ...] | None = ()
    demand_at: float | None = None
    slots: int | None = None
    new_records: bool = False
    limits: Limits = field(default_factory=Limits)
    expected: Mapping[str, Expected] = field(default_factory=dict)
    created: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    withdrawn: Counter[str] = field(default_factory=Counter)
    pins_failed: Mapping[str, int] = field(default_factory=dict)
    drains: expectations.Drains = field(default_factory=expectations.Drains)
    dispatched: Dispatched = field(default_factory=Dispatched)
    recent: Recent = field(default_factory=Recent)
    writes: Writes = field(default_factory=Writes)
    flights: Flights = field(default_factory=Flights)
    ledger: Ledger = field(default_factory=Ledger)
    """What nodes left behind, or may have (D4)."""
    identity: Identity = field(default_factory=Identity)
    backlog: Backlog = field(default_factory=Backlog)
    marks: Marks = NO_MARKS
    by_hand: Mapping[str, HandClean] = field(default_factory=dict)
    plan: Plan | None = None
    """The newest plan."""
    plans: int = 0
    """How many plans this run has made."""
    journal_read: bool = True
    """Whether what a former run left is known. A run begins without, until its journal is read."""
    expects_creates_since: float | None = None
    """When the oldest action that a former run left open began (epoch seconds), while the nodes of
    its creates are still to be expected."""
    ended: frozenset[str] = frozenset()
    """The keys of lives and the ids of nodes that a former run's actions ended (A2)."""


@dataclass(frozen=True, slots=True)
class OwnNews:
    """What happened because of us, `at` that CLOCK_BOOTTIME, and `wall` by our wall clock.

    It may be a value that takes the place of the State's own.
    """

    one: Own
    at: float
    wall: float


Own = (
    Learned
    | End
    | Stepped
    | LeftOpen
    | news.Inherited
    | news.CreatesRead
    | news.Deciding
    | news.OrdersBegun
    | news.StoreAnswered
    | news.StoreListed
    | news.Throttling
    | news.CloudWorked
    | news.ErrandRun
    | news.LoopsReset
    | news.HandCleans
    | Marks
    | Identity
    | Ledger
    | Backlog
    | news.LeftoversSearched
)


def after_own(state: State, own: OwnNews, settings: Settings) -> State:
    """The state after what happened because of us."""
    one, at, limits = own.one, own.at, state.limits
    match one:
        case news.Inherited():
            return _after_inherited(state, one, at, settings)
        case news.CreatesRead(expected=expected, ended=ended):
            expected = expectations.without_ended({**expected, **state.expected}, ended)
            return changed(state, expected=expected, ended=ended, expects_creates_since=None)
        case Stepped() | LeftOpen():
            return changed(state, flights=state.flights.after(one))
        case news.Deciding():
            rests = availability.without_ended(limits.places, at)
            if rests is not limits.places:
                limits = replace(limits, places=rests)
            return changed(
                state,
                limits=limits,
                sizes=expectations.still_unheard(state.sizes, state.history),
                recent=still_recent(state.recent, state.history, at),
                writes=state.writes.still(at, settings),
            )
        case news.OrdersBegun(with_errands=with_errands):
            return _after_orders(state, at, settings, with_errands=with_errands)
        case news.StoreAnswered():
            return _after_write(state, one, at, settings)
        case news.StoreListed(listing=listing):
            writes, breaker = after_poll(state.writes, state.breaker, listing, at, settings)
            return changed(state, writes=writes, breaker=breaker)
        case news.Throttling(retry_after=asked_s):
            return changed(
                state, limits=availability.after_throttled(limits, asked_s, at, settings)
            )
        case news.CloudWorked():
            return changed(state, limits=availability.after_worked(limits, settings))
        case news.ErrandRun():
            dispatched = errand_ended(state.dispatched, one.errand, _outcome_of(one.error), at)
            return changed(state, dispatched=dispatched)
        case news.LoopsReset():
            return with_loops(state, boot_loops.after_reset(limits.loops))
        case news.HandCleans(by_hand):
            return changed(state, by_hand=by_hand)
        case Marks():
            return changed(state, marks=one)
        case Identity():
            return changed(state, identity=one)
        case Ledger():
            return changed(state, ledger=one)
        case Backlog():
            return changed(state, backlog=one)
        case news.LeftoversSearched():
            present = state.history.present
            failed = {id: count for id, count in state.pins_failed.items() if id in present}
            return changed(state, pins_failed=failed)
        case End():
            state = changed(state, recent=after_end(state.recent, one, at, settings))
            return _after_clean(state, one, own, settings) if one.has_freed else state
        case _:
            return _after_step(state, one, own, settings)


def _after_inherited(state: State, one: news.Inherited, at: float, settings: Settings) -> State:
    """The state with what a former run left. No rest of a place lasts longer than a new one would,
    however our wall clock was set.
    """
    places, longest = dict(state.limits.places), at + settings.max_poll_time
    for size, of in one.rests.items():
        capped = {place: min(until, longest) for place, until in of.items()}
        places[size] = {**capped, **places.get(size, {})}
    limits = replace(state.limits, places=places) if one.rests else state.limits
    state = changed(
        state,
        limits=limits,
        recent=with_inherited(state.recent, one.sent, at, settings, may_lack=one.may_lack),
        writes=state.writes.inherited(one.late, one.under_way, at),
        marks=one.marks.with_newer(state.marks),
        expects_creates_since=one.oldest,
        ledger=leftovers.joined(one.leftovers, state.ledger, at, settings.visible_after),
        journal_read=True,
    )
    return with_loops(state, boot_loops.joined(one.loops, limits.loops))


def _after_orders(state: State, at: float, settings: Settings, *, with_errands: bool) -> State:
    """The state once the newest plan's orders are on their way.

    While the pool rests, one of its set-ups is the probe (B5).
    """
    made = state.plan
    if made is None:
        return state
    if with_errands:
        dispatched = errands_sent(state.dispatched, made.errands, state.demand, at)
        state = changed(state, dispatched=dispatched)
    if not made.boots:
        return state
    loops = boot_loops.after_probe(state.limits.loops, at, settings.boot_fail_after)
    return with_loops(state, loops)


def _after_step(state: State, one: Learned, own: OwnNews, settings: Settings) -> State:
    """The state with what a step of a workflow learned."""
    at = own.at
    state = learned(state, one, at, _nodes_now(state, one), settings)
    if state.ended:
        state = changed(state, expected=expectations.without_ended(state.expected, state.ended))
    if isinstance(one, news.NodeGone):
        ledger = leftovers.ended(state.ledger, one.node_id, at)
        state = changed(state, recent=after_gone(state.recent, one, at), ledger=ledger)
        return _after_gone(state, one, own, settings)
    return state


def _after_write(state: State, one: news.StoreAnswered, at: float, settings: Settings) -> State:
    """The state after a write to the store: what a claim or a clean of ours changes."""
    expected, recent, effect = state.expected, state.recent, one.effect
    writes, breaker = after_answer(state.writes, state.breaker, effect, one.answer, one.error, at)
    if one.error is None and isinstance(effect, ClaimRecord | RenewClaim):
        recent = after_claim(recent, one.answer, at, settings)
    elif one.error is None and isinstance(effect, FreeRecord):
        uuid = effect.record.uuid
        expected = {id: node for id, node in expected.items() if id != uuid}
        recent = after_freed(recent, uuid)
    return changed(state, expected=expected, recent=recent, writes=writes, breaker=breaker)


def _after_clean(state: State, end: End, own: OwnNews, settings: Settings) -> State:
    """The state after a clean that freed its record; it may show that a node never came up."""
    order = end.order
    incarnation, size = state.created.get(end.key.id, (None, ""))
    left = {uuid: of for uuid, of in state.created.items() if uuid != end.key.id}
    state = changed(state, created=left)
    if order.reason is Reason.CLAIM_EXPIRED and incarnation == order.incarnation:
        # It was created, and vanished before it came up.
        return _after_failed_boot(state, None, size, None, own, settings)
    return state


def _after_gone(state: State, gone: news.NodeGone, own: OwnNews, settings: Settings) -> State:
    """The state after a node that we destroyed is gone; its boot may have come to nothing (B5)."""
    # Its record may wait for its clean for long, and the node is listed as ended meanwhile.
    life = None if gone.record is None else life_key(gone.record, gone.incarnation)
    if gone.reason in FAILED_BOOTS or _ended_in_setup(gone, state.history):
        return _after_failed_boot(state, gone.node_id, gone.size, life, own, settings)
    lives = _named(gone.node_id, state.history) if life is None else (life,)
    loops = state.limits.loops
    for one in lives:
        loops = boot_loops.counted(loops, one)
    return with_loops(state, loops)


def _named(node_id: str, history: History) -> tuple[str, ...]:
    """The lives of the records that name the node, though it had none: the next run pairs by it."""
    named = (one for one in history.listed_records if one.instance_id == node_id)
    return tuple(life_key(one.uuid, one.incarnation) for one in named)


def _ended_in_setup(gone: news.NodeGone, history: History) -> bool:
    """Whether the node was stopped, or fell silent, before its boot came to something (B5)."""
    if gone.reason not in (Reason.NODE_STOPPED, Reason.NODE_DOWN) or gone.record is None:
        return False
    return is_booting(gone.record, gone.incarnation, history)


def _after_failed_boot(
    state: State,
    node_id: str | None,
    size: str | None,
    life: str | None,
    own: OwnNews,
    settings: Settings,
) -> State:
    """The state after a boot of ours came to nothing: its node was given up, or vanished."""
    node = state.history.present.get(node_id or "")
    wall = wall_read(state.history.wall, own.wall, own.at)
    loops = boot_loops.after_end(state.limits.loops, node, size, wall, own.at, settings, life=life)
    return with_loops(state, loops)


def with_loops(state: State, loops: Loops) -> State:
    """The state with these streaks of failed boots."""
    if loops == state.limits.loops:
        return state
    return changed(state, limits=replace(state.limits, loops=loops))


def _outcome_of(error: RemoteError | None) -> ErrandOutcome:
    if error is None:
        return ErrandOutcome.DONE
    return ErrandOutcome.REFUSED if error.definite else ErrandOutcome.FAILED


def learned(state: State, one: Learned, now: float, nodes: int, settings: Settings) -> State:
    """The state with one more thing learned; `nodes` is how many nodes there are now.

    A node that was just created is one of them.
    """
    match one:
        case news.Claimed(record, size):
            return changed(state, sizes={**state.sizes, record: size})
        case news.CreateRefused(sizes, error):
            limits = state.limits
            for size in sizes:
                limits = availability.after_refusal(limits, error, size, nodes, now, settings)
            return changed(state, limits=limits)
        case news.NodeExpected():
            return _expecting(state, one, now, nodes)
        case news.NodeDenied(record, incarnation):
            expected = state.expected.get(record)
            if expected is None or (expected.node_id, expected.incarnation) != (None, incarnation):
                return state
            first_at = now if expected.denied_at is None else expected.denied_at
            is_denied = now - first_at >= ASK_AGAIN_S
            denied = replace(expected, denied_at=first_at, is_denied=is_denied)
            return changed(state, expected={**state.expected, record: denied})
        case news.Withdrawn(size):
            return changed(state, withdrawn=state.withdrawn + Counter([size]))
        case news.PinsFailed(node_id):
            failed = state.pins_failed.get(node_id, 0) + 1
            return changed(state, pins_failed={**state.pins_failed, node_id: failed})
        case news.PinsTold(node_id):
            left = {id: count for id, count in state.pins_failed.items() if id != node_id}
            return changed(state, pins_failed=left)
        case news.DrainTold():
            return changed(state, drains=state.drains.after_told(one, now))
        case news.SchedulerTold():
            return changed(
                state, dispatched=expectations.dispatched_after(state.dispatched, one, now)
            )
        case news.NodeGone() if one.reason is not Reason.UNPAIRED:
            # It did not vanish by itself, however late its record is cleaned (B5).
            life = one.record, one.incarnation
            left_of = {uuid: of for uuid, of in state.created.items() if (uuid, of[0]) != life}
            return changed(state, created=left_of)
        case news.FenceStands():
            return changed(state, recent=after_fence(state.recent, now))
        case news.WriteInDoubt(record):
            return changed(state, writes=state.writes.in_doubt(record, now))
        case news.PinsDoubted(node_id):
            ledger = leftovers.doubtful(state.ledger, node_id, now, settings.visible_after)
            return changed(state, ledger=ledger)
        case news.Restored(record):
            return changed(state, writes=state.writes.without_own_clean(record))
        case _:
            return state


def _expecting(state: State, one: news.NodeExpected, now: float, nodes: int) -> State:
    """The state with a node that was created, or may have been."""
    since = now if one.since is None else one.since
    expected = Expected(one.node_id, one.size, since, one.incarnation, one.place)
    state = changed(state, expected={**state.expected, one.record: expected})
    if one.node_id is None or not one.is_new:
        return changed(state, sizes={**state.sizes, one.record: one.size})
    created = {**state.created, one.record: (one.incarnation, one.size)}
    limits = availability.after_success(state.limits, one.size, nodes)
    return changed(state, created=created, limits=limits)


def _nodes_now(state: State, one: Learned) -> int:
    """The number of nodes, with those created since the last listing and the one created just now.

    Listed nodes that may yet be refused don't count, nor does the one that was refused just now.
    """
    created = one.node_id if isinstance(one, news.NodeExpected) else None
    refused = one.node_id if isinstance(one, news.CreateRefused) else None
    planned = 0 if state.plan is None else state.plan.counts.get("nodes", 0)
    present = state.history.present
    ids = {expected.node_id for expected in state.expected.values()} | {created}
    unmade = (state.flights.going_on | {refused}) & present.keys()
    return max(0, planned + len(ids - {None} - present.keys()) - len(unmade))


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
        journal_read=state.journal_read,
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
