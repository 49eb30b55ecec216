"""The daemon actor: coordinates the others, and alone decides - by asking core.

Every fact that arrives is folded into the history; then one `Decide` takes one plan from one
snapshot and hands out its orders. What comes back from a worker is confirmed by core again before
anything is destroyed or freed. There is no `if` about freeing or destroying in here.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nodemanager.actors.base import OnDeath, RoleActor
from nodemanager.actors.crew import Crew
from nodemanager.actors.flights import Flights, SetUp
from nodemanager.actors.intents import (
    LooseCreate,
    clean_intent,
    clean_key,
    create_intent,
    create_key,
    destroy_intent,
    destroy_key,
)
from nodemanager.actors.messages import (
    ApplySettings,
    AskGone,
    AskNodes,
    AskTagged,
    BackOff,
    Begin,
    CheckGone,
    CleanAgain,
    CleanFailed,
    CleanLooked,
    CloudListed,
    CloudPollStarted,
    Decide,
    DemandPolled,
    DestroyNode,
    Fence,
    FenceLifted,
    FenceRecord,
    FreeRecord,
    GoneAsked,
    HoldId,
    LiftFence,
    LookBeforeClean,
    LookBeforeShutdown,
    NodeCreated,
    NodeDestroyed,
    NodesAsked,
    Poll,
    PollFailed,
    RecordClaimed,
    RecordCleaned,
    RecordFenced,
    RecordsListed,
    ReleaseId,
    ResetBreaker,
    SetupFailed,
    SetUpNode,
    ShutdownLooked,
    Stop,
    TaggedAsked,
    Team,
)
from nodemanager.actors.narrator import Narrator, record_fields
from nodemanager.actors.observer import Observer
from nodemanager.actors.recovery import Recovery
from nodemanager.actors.scribe import Loaded, Scribe
from nodemanager.actors.timer import Timer, tell
from nodemanager.clock import Clock
from nodemanager.core import breaker as breakers
from nodemanager.core import history as histories
from nodemanager.core.breaker import Breaker
from nodemanager.core.demand import after_refusal, after_success
from nodemanager.core.history import History, Nodes, Records
from nodemanager.core.model import Claim, CloudNode, Guarantee, Job, Outcome, Record
from nodemanager.core.plan import BootOrder, Plan, plan
from nodemanager.core.reasons import Event, Kind, Reason
from nodemanager.core.records import (
    CleanEvidence,
    CleanOrder,
    confirm_clean,
    fenced_order,
    order_release,
)
from nodemanager.core.settings import ASK_AGAIN_S, ORDER_TTL_S, Settings
from nodemanager.core.shutdown import Destroyed, ShutdownOrder, confirm_shutdown, judge_gone
from nodemanager.core.snapshot import Expected, Limits, Snapshot
from nodemanager.core.verdict import Verdict, keep
from nodemanager.errors import RemoteError, Throttled
from nodemanager.journal.api import Hold, Intent, Journal
from nodemanager.journal.facts import (
    BreakerSet,
    CloudPollBegun,
    CloudSeen,
    Decision,
    DemandSeen,
    NodesAnswered,
    NodesExplained,
    PollMissed,
    RecordsSeen,
    SettingsTaken,
    Start,
    State,
)
from nodemanager.journal.memory import MemoryJournal
from nodemanager.log import DEBUG, WARNING, Logger


class Identity(Protocol):
    """Remembers the account and the store over restarts (L5)."""

    def check(self, kind: str, seen: str) -> str | None:
        """None when `seen` is what was known (or the first), else a line that says what differs."""
        ...


class BacklogKeeper(Protocol):
    """Remembers over restarts what the first plan with cleans in it held back (S5)."""

    def load(self) -> tuple[bool, frozenset[str]]:
        """Whether there was no such plan yet, and what is held back."""
        ...

    def save(self, backlog: frozenset[str]) -> None: ...


class NoBacklog:
    """Every record is ours to judge from the start."""

    def load(self) -> tuple[bool, frozenset[str]]:
        return False, frozenset()

    def save(self, backlog: frozenset[str]) -> None:
        return


@dataclass(frozen=True, slots=True)
class Once:
    """`--once`: one plan is applied, its outcomes are awaited, then `finished` gets the code."""

    finished: Callable[[int], None]


@dataclass(frozen=True)
class Role:
    """What the daemon actor is given once and for all.

    `mode` is `apply` or `dry-run`; `token` is the lease's fencing token.
    """

    manager: str
    mode: str
    guarantee: Guarantee
    fence_wait: float
    identity: Identity
    observer: Observer
    backlog: BacklogKeeper = field(default_factory=lambda: NoBacklog())
    holds_lease: Callable[[], bool] = lambda: True
    token: int = 0
    once: Once | None = None
    run_id: str = field(default_factory=lambda: secrets.token_hex(2))
    journal: Journal = field(default_factory=lambda: MemoryJournal(keeps_entries=False))


class NodeManagerDaemonActor(RoleActor):
    """Coordinates the team; see the module's text."""

    def __init__(
        self,
        *,
        settings: Settings,
        role: Role,
        timer: Timer,
        clock: Clock,
        log: Logger,
        on_death: OnDeath,
    ) -> None:
        super().__init__(on_death)
        self._settings = settings
        self._role = role
        self._timer = timer
        self._clock = clock
        self._log = log
        self._narrator = Narrator(log, settings, role.mode)
        self._history = History()
        self._breaker = Breaker()
        self._limits = Limits()
        self._flights = Flights()
        self._expected: dict[str, Expected] = {}
        self._own_cleans: dict[str, tuple[str, float]] = {}
        self._demand: tuple[Job, ...] | None = () if not settings.demand_polled else None
        self._demand_at: float | None = None
        self._slots: int | None = None
        self._store_id: str | None = None
        self._read_only: dict[str, str] = {}
        self._identified: set[str] = set()
        self._first_clean, self._backlog = role.backlog.load()
        self._had_lease = True
        self._plan_numbers = itertools.count(1)
        self._plan: Plan | None = None
        self._deciding = False
        self._new_records = False
        self._asked_after: Nodes | None = None
        self._stopping: Stop | None = None
        self._scribe = Scribe(role.journal, log)
        self._recovery = Recovery(self, self._scribe, log)
        self._creates: dict[int, tuple[str, str]] = {}
        self._once_listings: set[float] = set()
        self._once_applied = False

    # The team.

    def on_Begin(self, message: Begin) -> None:
        team = message.team
        self._team: Team = team
        self._setups = Crew(team.setups)
        self._shutdowns = Crew(team.shutdowns)
        self._cleaner = Crew((team.cleaner,))
        loaded = self._scribe.load()
        if loaded is not None:
            self._adopt(loaded)
        state = State(breaker=self._breaker, demand=self._demand)
        self._scribe.begin(
            Start(
                self._settings.pool,
                self._settings,
                self._clock.boottime(),
                self._clock.wall(),
                state,
                self._role.run_id,
            )
        )
        for poller in (team.record_list, team.cloud_list, team.demand):
            if poller is not None:
                tell(poller, Poll())

    def _adopt(self, loaded: Loaded) -> None:
        """Go on with what a former run left (R1, R4)."""
        stored = loaded.breaker
        if stored is not None:
            after = breakers.joined(stored, self._breaker)
            self._narrator.breaker_changed(self._breaker, after)
            self._breaker = after
            self._scribe.save_breaker(after)
            self._scribe.note(BreakerSet(after, self._clock.boottime()))
        self._recovery.load(loaded.intents, self._clock.boottime())

    def on_ApplySettings(self, message: ApplySettings) -> None:
        self._settings = message.settings
        self._scribe.note(SettingsTaken(message.settings, self._clock.boottime()))
        self._narrator.settings = message.settings
        self._decide_soon()

    # Facts from the polls.

    def on_CloudPollStarted(self, message: CloudPollStarted) -> None:
        self._scribe.note(CloudPollBegun(self._clock.boottime()))
        self._history = histories.cloud_poll_started(self._history)

    def on_CloudListed(self, message: CloudListed) -> None:
        listing = message.listing
        if message.account is not None:
            self._identify("account", message.account)
        self._scribe.note(CloudSeen(listing, message.account))
        took_s = listing.ended_at - listing.started_at
        self._narrator.listed("cloud", len(listing.items), took_s, listing.complete)
        problems = self._narrator.items_with_problems(listing.items)
        self._narrator.malformed("cloud", listing.problems + problems)
        self._observe_listing("cloud", listing)
        if listing.complete:
            ids = frozenset(node.id for node in listing.items)
            self._watch_collapse(ids, listing.started_at, cloud=True)
        self._history = histories.cloud_listed(self._history, listing, self._settings)
        self._decide_soon()

    def on_RecordsListed(self, message: RecordsListed) -> None:
        listing = message.listing
        self._identify("store", message.store_id)
        self._store_id = message.store_id
        self._scribe.note(
            RecordsSeen(
                listing, message.store_id, message.store_time, message.slots, message.answered_at
            )
        )
        took_s = listing.ended_at - listing.started_at
        answered = message.answered_at is not None
        self._narrator.listed(
            "records", len(listing.items), took_s, listing.complete, pings_answered=answered
        )
        problems = self._narrator.items_with_problems(listing.items)
        self._narrator.malformed("records", listing.problems + problems)
        self._observe_listing("records", listing)
        history = histories.store_clock_read(self._history, message.store_time)
        if message.answered_at is not None:
            history = histories.store_answered(history, message.answered_at, self._settings)
        self._history = history
        if listing.complete:
            ids = frozenset(record.uuid for record in listing.items)
            self._watch_collapse(ids, listing.started_at, cloud=False)
            self._forget_own_cleans(listing)
            self._new_records = True
        self._history = histories.records_listed(self._history, listing, self._settings)
        self._slots = message.slots
        self._decide_soon()

    def _forget_own_cleans(self, listing: Records) -> None:
        """A record that someone wrote since is not last written by our own clean (U2)."""
        if not self._own_cleans:
            return
        versions = {record.uuid: record.version for record in listing.items}
        self._own_cleans = {
            uuid: (version, at)
            for uuid, (version, at) in self._own_cleans.items()
            if at >= listing.started_at or versions.get(uuid) == version
        }

    def on_DemandPolled(self, message: DemandPolled) -> None:
        self._demand, self._demand_at = message.jobs, message.started_at
        self._scribe.note(DemandSeen(message.jobs, message.started_at, message.ended_at))
        took_s = message.ended_at - message.started_at
        self._narrator.listed("demand", len(message.jobs), took_s, True)
        self._role.observer.listed("demand", took_s, len(message.jobs), message.started_at)
        self._decide_soon()

    def on_PollFailed(self, message: PollFailed) -> None:
        self._narrator.list_failed(message.source, message.error, message.retry_s, message.took_s)
        self._role.observer.list_failed(message.source)
        self._scribe.note(
            PollMissed(
                message.source,
                type(message.error).__name__,
                str(message.error),
                message.retry_s,
                message.took_s,
                self._clock.boottime(),
            )
        )
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        if self._role.once is not None and not self._once_applied:
            self._role.once.finished(1)
        self._decide_soon()

    def on_NodesAsked(self, message: NodesAsked) -> None:
        now = self._clock.boottime()
        self._scribe.note(NodesAnswered(message.answers, now))
        self._set_breaker(
            breakers.after_answers(self._breaker, message.answers, at=now, settings=self._settings)
        )

    def _observe_listing(self, source: str, listing: Nodes | Records) -> None:
        if not listing.complete:
            self._role.observer.list_partial(source)
            return
        took_s = listing.ended_at - listing.started_at
        self._role.observer.listed(source, took_s, len(listing.items), listing.started_at)

    def _identify(self, kind: str, seen: str) -> None:
        """L5: another account or store than the one known makes us read-only."""
        self._role.observer.identified(kind, seen)
        problem = self._role.identity.check(kind, seen)
        if problem is None:
            if self._read_only.pop(kind, None) is not None or kind not in self._identified:
                seen_as: dict[str, Any] = {kind: seen}
                self._log.event(Event.IDENTITY_SEEN, **seen_as)
        elif self._read_only.get(kind) != problem:
            self._read_only[kind] = problem
            self._log.event(
                Event.IDENTITY_CHANGED, level=WARNING, reason=Reason.READ_ONLY, problem=problem
            )
        self._identified.add(kind)

    def _watch_collapse(self, ids: frozenset[str], at: float, *, cloud: bool) -> None:
        breaker = breakers.after_listing(
            self._breaker, self._history, ids, at, self._settings, cloud=cloud
        )
        if breaker.is_open and breaker.generation != self._breaker.generation:
            source = "cloud" if cloud else "records"
            self._log.event(
                Event.LIST_SUSPECT,
                level=WARNING,
                reason=Reason.COLLAPSED,
                source=source,
                **breaker.detail,
            )
            self._role.observer.list_suspect(source)
        self._set_breaker(breaker)

    def _set_breaker(self, breaker: Breaker) -> None:
        if breaker != self._breaker:
            self._scribe.save_breaker(breaker)
        self._narrator.breaker_changed(self._breaker, breaker)
        self._breaker = breaker

    def _forget_expected(self, made: Plan, now: float) -> None:
        """A created node that paired or ended since, or never came in boot_fail_after (P4)."""
        cloud = made.history.cloud
        ended = {node.id for node in cloud.items if node.is_absent} if cloud is not None else set()
        self._expected = {
            uuid: expected
            for uuid, expected in self._expected.items()
            if expected.node_id not in made.pairs.record_of
            and expected.node_id not in ended
            and now - expected.since <= self._settings.boot_fail_after
        }

    # Deciding.

    def _decide_soon(self) -> None:
        if not self._deciding:
            self._deciding = True
            self.actor_ref.tell(Decide())

    def _snapshot(self, plan_id: str, *, without: str | None = None) -> Snapshot:
        """The picture of this moment; `without` leaves one order's own flight out."""
        flights = self._flights
        reasons = sorted(self._read_only.values())
        if self._scribe.problem is not None:
            reasons.append(self._scribe.problem)
        return Snapshot(
            plan_id=plan_id,
            now=self._clock.boottime(),
            wall=self._clock.wall(),
            history=self._history,
            demand=self._demand,
            demand_at=self._demand_at,
            slots=self._slots,
            record_flights=flights.by_record(without),
            node_flights=flights.by_node(without),
            cleaned_lately=flights.cleaned_lately,
            destroyed_lately=flights.destroyed_lately,
            boots_unclaimed=flights.unclaimed(),
            claimed_sizes=dict(flights.sizes),
            expected=dict(self._expected),
            holds=self._scribe.holds,
            limits=self._limits,
            breaker=self._breaker,
            read_only="; ".join(reasons) if reasons else None,
            own_cleans=frozenset(self._own_cleans),
            lease=self._holds_lease(),
            first_clean=self._first_clean,
            backlog=self._backlog,
            touched=dict(flights.touched),
            gone=dict(flights.gone),
        )

    def _holds_lease(self) -> bool:
        holds = self._role.holds_lease()
        if self._had_lease and not holds:
            self._log.event(Event.LEASE_LOST, level=WARNING, pool=self._settings.pool)
        self._had_lease = holds
        return holds

    def _keep_backlog(self, made: Plan) -> None:
        if not (self._first_clean and (made.cleans or made.backlog)):
            return
        if made.backlog:
            self._log.event(
                Event.BACKLOG_FOUND,
                level=WARNING,
                count=len(made.backlog),
                limit=self._settings.max_cleans_per_cycle,
                clear="look at these records, then set [Cleaning] backlog = clean and reload",
            )
        self._first_clean, self._backlog = False, made.backlog
        if self._role.mode == "apply":
            self._role.backlog.save(made.backlog)

    def on_Decide(self, message: Decide) -> None:
        self._deciding = False
        loaded = self._scribe.mend()
        if loaded is not None:
            self._adopt(loaded)
        self._flights.forget_landed(self._history)
        now = self._clock.boottime()
        self._flights.forget_touched(self._history)
        for what in self._flights.expire(now, self._settings.action_timeout):
            self._log.event(Event.FLIGHT_EXPIRED, level=WARNING, **what)
            self._took_too_long(what, now)
        self._recover()
        plan_id = f"{self._role.run_id}-{next(self._plan_numbers)}"
        snapshot = self._snapshot(plan_id)
        made = plan(snapshot, self._settings, new_records=self._new_records)
        new_records, self._new_records = self._new_records, False
        self._history = made.history
        self._set_breaker(made.breaker)
        self._plan = made
        if made.aborted is None:
            self._forget_expected(made, now)
        self._keep_backlog(made)
        records = self._history.records
        by_uuid = {record.uuid: record for record in records.items} if records else {}
        self._narrator.plan(made, by_uuid, now)
        took_s = self._clock.boottime() - now
        self._scribe.decided(Decision(snapshot, made, new_records, took_s))
        self._role.observer.planned(made, snapshot, self._settings, took_s)
        if made.ask and self._asked_after is not self._history.cloud and self._stopping is None:
            self._asked_after = self._history.cloud
            tell(self._team.cloud_list, AskNodes(made.ask))
        if self._may_act(made, now):
            self._carry_out(made, now)
        self._finish_once()
        self._finish_stop()

    def _may_act(self, made: Plan, now: float) -> bool:
        if self._stopping is not None or made.aborted is not None:
            return False
        if self._scribe.problem is not None:
            if self._role.once is not None and not self._once_applied:
                self._role.once.finished(1)
            return False
        if self._limits.throttled_until > now:
            return False
        if self._role.once is None:
            return True
        if self._once_applied:
            return False
        # Counted as C5 and C6 count, so that the one plan may do what a later one could.
        cloud, records = made.history.cloud, made.history.records
        if made.history.base is None or cloud is None or records is None:
            return False
        self._once_listings.add(cloud.started_at)
        newest = min(cloud.started_at, records.started_at)
        settled = newest - min(self._once_listings) >= self._settings.settle
        return settled and len(self._once_listings) >= self._settings.absent_listings

    def _carry_out(self, made: Plan, now: float) -> None:
        for clean in made.cleans:
            self._narrator.clean_ordered(clean)
        for shutdown in made.shutdowns:
            self._narrator.shutdown_ordered(shutdown)
        for boot in made.boots:
            if self._narrator.is_news(f"boot {boot.size.name}", boot.reason):
                self._log.event(
                    Event.NODE_SETUP_STARTED,
                    reason=boot.reason,
                    size=boot.size.name,
                    price=boot.size.price,
                    record=boot.record.uuid if boot.record else None,
                    plan=boot.plan_id,
                    mode=self._role.mode,
                )
        self._once_applied = True
        if self._role.mode != "apply":
            return
        for clean in made.cleans:
            self._begin_clean(clean)
        for shutdown in made.shutdowns:
            self._flights.shutdown_begun(shutdown, now)
            self._shutdowns.give(shutdown.node_id, LookBeforeShutdown(shutdown))
        self._begin_setups(made.boots, now)

    # Recovery: what Recovery asks for (its Deeds), and what it is told.

    def _recover(self) -> None:
        """Finish what a former run left, once both answered as the ones we know (L5, R1)."""
        history = self._history
        if history.cloud is None or history.records is None or self._read_only:
            return
        if self._stopping is None and self._role.mode == "apply":
            self._recovery.begin()
            self._recovery.watch_creates(history)

    def resume_destroy(self, order: ShutdownOrder) -> None:
        now = self._clock.boottime()
        self._flights.shutdown_begun(order, now)
        self._flights.destroy_sent(Destroyed(order, now))
        self._shutdowns.give(order.node_id, AskGone(order))

    def resume_clean(self, order: CleanOrder, before: Record | None) -> None:
        if order.uuid in self._flights.cleans:
            # Its node is gone by now, and that led to it.
            return
        fenced = self._role.guarantee is Guarantee.FENCED and before is not None
        if order.is_exception and not fenced:
            self._begin_clean(self._afresh(order))
            return
        # Nothing is freed on what a former run judged: it is only looked at.
        past = replace(order, not_after=float("-inf"))
        self._flights.clean_begun(past, self._clock.boottime())
        fence = Fence(before, before, before.ping_secret) if fenced and before else None
        if fence is not None:
            self._flights.fenced(fence, past)
        self._cleaner.give(order.uuid, LookBeforeClean(past, fence))

    def _afresh(self, order: CleanOrder) -> CleanOrder:
        """A clean of its own right, ordered again now."""
        return order_release(
            order.uuid,
            order.reason,
            self._snapshot(order.plan_id),
            incarnation=order.incarnation,
            instance_id=order.instance_id,
            slot=order.slot,
            hostname=order.hostname,
        )

    def ask_tagged(self, records: tuple[str, ...]) -> None:
        tell(self._team.cloud_list, AskTagged(records))

    def on_TaggedAsked(self, message: TaggedAsked) -> None:
        self._recovery.tagged(message.answers, self._history)

    def expect(self, record: Record, node: CloudNode, size: str) -> None:
        self._flights.sizes[record.uuid] = size
        if node.id not in self._history.present:
            self._expected[record.uuid] = Expected(node.id, size, self._clock.boottime())

    def _conclude(self, key: str, outcome: str, **details: object) -> None:
        self._scribe.conclude(key, outcome, **details)
        self._recovery.ended(key, outcome)

    def _took_too_long(self, what: Mapping[str, Any], now: float) -> None:
        """Nobody waits for it any more."""
        for order_id in [one for one in self._creates if not self._flights.is_setup(one)]:
            self._doubt_create(order_id, now)
        node_id, uuid = what.get("node"), what.get("record")
        if what["action"] == "setup" or self._stopping is not None:
            return
        key = destroy_key(str(node_id)) if node_id is not None else clean_key(str(uuid))
        if not self._recovery.goes_on(key):
            self._conclude(key, "expired")

    def _doubt_create(self, order_id: int, now: float) -> None:
        incarnation, size = self._creates.pop(order_id)
        self._recovery.doubt(LooseCreate(create_key(incarnation), incarnation, size, now))

    # Set-up.

    def _begin_setups(self, boots: Iterable[BootOrder], now: float) -> None:
        prepared = [(boot, self._claim_for()) for boot in boots]
        intents: list[Intent] = [create_intent(boot, claim) for boot, claim in prepared]
        if not intents or not self._scribe.intend(intents):
            return
        for boot, claim in prepared:
            self._begin_setup(boot, claim, now)

    def _claim_for(self) -> Claim:
        incarnation = secrets.token_hex(16)
        return Claim(
            pool=self._settings.pool,
            manager=self._role.manager,
            token=self._role.token,
            at=0.0,
            node_name=f"compute-{incarnation[:12]}-{self._settings.pool}",
            incarnation=incarnation,
        )

    def _begin_setup(self, boot: BootOrder, claim: Claim, now: float) -> None:
        clock = self._history.clock
        assert clock is not None, "a plan with boots has seen a record poll, and so its clock"
        order_id = self._flights.setup_begun(boot, now)
        self._creates[order_id] = (claim.incarnation, boot.size.name)
        assert self._store_id is not None, "the same poll told the store's id"
        order = SetUpNode(order_id, boot, claim, self._store_id, clock.offset, now + ORDER_TTL_S)
        self._setups.give(str(order_id), order)

    def on_RecordClaimed(self, message: RecordClaimed) -> None:
        record = message.record
        self._flights.claimed(message.order_id, record)
        self._log.event(
            Event.RECORD_CLAIMED,
            **record_fields(record, record.uuid),
            name=record.claim.node_name if record.claim else None,
            incarnation=record.incarnation,
        )

    def on_NodeCreated(self, message: NodeCreated) -> None:
        self._flights.setup_lands(message.order_id, self._clock.boottime())
        self._setups.done(str(message.order_id))
        setup = self._flights.setup_ended(message.order_id, self._clock.boottime())
        record, node, now = message.record, message.node, self._clock.boottime()
        size = setup.boot.size.name if setup is not None else node.size or ""
        self._expected[record.uuid] = Expected(node.id, size, now)
        self._creates.pop(message.order_id, None)
        if record.incarnation is not None:
            key = create_key(record.incarnation)
            self._conclude(key, "created", record=record.uuid, node=node.id)
        self._limits = after_success(self._limits, self._nodes_now())
        self._log.event(
            Event.NODE_CREATED,
            node=node.id,
            name=node.name,
            **record_fields(record, record.uuid),
            size=size,
            took_s=message.took_s,
        )
        self._role.observer.booted(size)
        self._settled()

    def on_SetupFailed(self, message: SetupFailed) -> None:
        self._flights.setup_lands(message.order_id, self._clock.boottime())
        self._setups.done(str(message.order_id))
        setup = self._flights.setup_ended(message.order_id, self._clock.boottime())
        record, error = message.record, message.error
        uuid = record.uuid if record is not None else None
        self._log.event(
            Event.NODE_SETUP_FAILED,
            level=WARNING,
            **(record_fields(record, record.uuid) if record is not None else {}),
            size=setup.boot.size.name if setup is not None else None,
            action=message.stage,
            definite=message.definite,
            error=error,
        )
        self._role.observer.create_failed(type(error).__name__)
        if setup is not None and message.stage == "create":
            self._refused(setup, error)
        if record is not None and uuid is not None and message.definite:
            order = order_release(
                uuid,
                Reason.CREATE_REFUSED,
                self._snapshot(setup.boot.plan_id if setup is not None else ""),
                incarnation=record.incarnation,
                instance_id=None,
                slot=record.slot_number,
                hostname=record.hostname,
            )
            self._narrator.clean_ordered(order)
            self._begin_clean(order)
        if message.definite and message.order_id in self._creates:
            incarnation, _ = self._creates.pop(message.order_id)
            self._conclude(create_key(incarnation), "refused", stage=message.stage)
        elif message.order_id in self._creates:
            self._doubt_create(message.order_id, self._clock.boottime())
        self._settled()

    def _refused(self, setup: SetUp, error: Exception) -> None:
        if isinstance(error, Throttled):
            self._throttled(error)
        now = self._clock.boottime()
        self._limits = after_refusal(
            self._limits, error, setup.boot.size.name, self._nodes_now(), now, self._settings
        )

    def _throttled(self, error: RemoteError) -> None:
        """D6: back off all calls."""
        wait_s = error.retry_after or self._settings.max_poll_time
        until = self._clock.boottime() + wait_s
        self._limits = replace(
            self._limits, throttled_until=max(self._limits.throttled_until, until)
        )
        tell(self._team.cloud_list, BackOff(until))

    def _nodes_now(self) -> int:
        """The nodes there are, those created since the last listing among them."""
        planned = self._plan.counts.get("nodes", 0) if self._plan is not None else 0
        present = self._history.present
        return planned + sum(one.node_id not in present for one in self._expected.values())

    # Shut-down.

    def on_ShutdownLooked(self, message: ShutdownLooked) -> None:
        order = message.order
        if not self._flights.is_shutdown(order):
            self._shutdowns.done(order.node_id)
            self._settled()
            return
        wants = self._plan.wants if self._plan is not None else None
        verdict = confirm_shutdown(
            order,
            message.found,
            self._snapshot(order.plan_id, without=order.node_id),
            self._settings,
            wanted=wants is not None and order.size in wants.unmet,
        )
        if self._deciding and order.cancellable and verdict.kind is Kind.SHUTDOWN:
            verdict = keep(
                order.node_id, Reason.CHANGED_SINCE_PLAN, detail="news that no plan has weighed yet"
            )
        reason, measures = _why_not(verdict)
        if verdict.kind is Kind.SHUTDOWN and self._stopping is None:
            if self._scribe.intend([destroy_intent(order)]):
                self._shutdowns.go_on(order.node_id, DestroyNode(order))
                return
            reason, measures = Reason.READ_ONLY, {"detail": self._scribe.problem}
        self._flights.shutdown_ended(order.node_id, self._clock.boottime())
        self._log.event(
            Event.NODE_SHUTDOWN_SKIPPED,
            **{"node": order.node_id, "reason": reason, **measures},
            plan=order.plan_id,
        )
        self._shutdowns.done(order.node_id)
        self._role.observer.shutdown_skipped(reason)
        self._settled()

    def on_NodeDestroyed(self, message: NodeDestroyed) -> None:
        order = message.order
        self._shutdowns.done(order.node_id)
        now = self._clock.boottime()
        self._flights.destroy_sent(Destroyed(order, now))
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        if message.outcome is Outcome.GONE:
            self._gone(order)
            return
        if message.outcome is Outcome.FAILED:
            self._flights.shutdown_ended(order.node_id, now)
            self._conclude(destroy_key(order.node_id), Outcome.FAILED.value)
            self._log.event(
                Event.NODE_SHUTDOWN_FAILED,
                level=WARNING,
                node=order.node_id,
                outcome=message.outcome,
                error=message.error,
                plan=order.plan_id,
            )
            self._role.observer.destroy_failed()
            self._settled()
            return
        if message.error is not None:
            self._log.event(
                Event.NODE_SHUTDOWN_FAILED,
                level=WARNING,
                node=order.node_id,
                outcome=message.outcome,
                error=message.error,
                plan=order.plan_id,
            )
        self._ask_gone_later(order)

    def _ask_gone_later(self, order: ShutdownOrder) -> None:
        now = self._clock.boottime()
        wait_s = self._flights.next_question_s(order.node_id, self._settings.max_poll_time)
        destroyed = self._flights.destroyed.get(order.node_id)
        if destroyed is not None and destroyed.denied_at is not None:
            # A second "no such node" settles it (D3).
            wait_s = max(1.0, destroyed.denied_at + ASK_AGAIN_S - now)
        self._timer.after(wait_s, self.actor_ref, CheckGone(order))
        self._settled()

    def on_CheckGone(self, message: CheckGone) -> None:
        order = message.order
        destroyed = self._flights.destroyed.get(order.node_id)
        if destroyed is None or destroyed.order is not order or self._stopping is not None:
            return
        wait_s = self._limits.throttled_until - self._clock.boottime()
        if wait_s > 0:
            self._timer.after(wait_s, self.actor_ref, message)
        else:
            self._shutdowns.give(order.node_id, AskGone(order))

    def on_GoneAsked(self, message: GoneAsked) -> None:
        order = message.order
        self._shutdowns.done(order.node_id)
        destroyed = self._flights.destroyed.get(order.node_id)
        if destroyed is None:
            self._settled()
            return
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        error = None if message.error is None else str(message.error)
        self._recovery.answered(destroy_key(order.node_id), error)
        if message.error is not None:
            self._log.event(
                Event.NODE_SHUTDOWN_FAILED,
                level=WARNING,
                node=order.node_id,
                outcome=Outcome.UNKNOWN,
                error=message.error,
                plan=order.plan_id,
            )
            self._ask_gone_later(order)
            return
        outcome, destroyed = judge_gone(
            destroyed, message.node, self._clock.boottime(), self._clock.wall(), self._settings
        )
        self._flights.destroy_sent(destroyed)
        if outcome is Outcome.GONE:
            self._gone(order)
        else:
            self._ask_gone_later(order)

    def _gone(self, order: ShutdownOrder) -> None:
        now = self._clock.boottime()
        self._flights.shutdown_ended(order.node_id, now)
        self._flights.gone[order.node_id] = now
        self._scribe.note(NodesExplained((order.node_id,), now))
        self._history = histories.explained(self._history, (order.node_id,))
        self._narrator.forget_node(order.node_id)
        self._flights.shut_down(order, now)
        self._log.event(
            Event.NODE_GONE,
            node=order.node_id,
            reason=order.reason,
            record=order.record,
            host=order.hostname,
            outcome=Outcome.GONE,
            plan=order.plan_id,
        )
        self._role.observer.shut_down(order.reason, order.size or "")
        if order.record is not None and order.reason is not Reason.UNPAIRED:
            clean = order_release(
                order.record,
                Reason.AFTER_SHUTDOWN,
                self._snapshot(order.plan_id),
                incarnation=order.incarnation,
                instance_id=order.node_id,
                slot=order.slot,
                hostname=order.hostname,
            )
            self._narrator.clean_ordered(clean)
            self._begin_clean(clean)
        # Only now: until the clean is written down, the destroy is what leads to it.
        if order.record is None or self._scribe.problem is None:
            self._conclude(destroy_key(order.node_id), Outcome.GONE.value)
        self._settled()

    # Cleaning.

    def _begin_clean(self, order: CleanOrder) -> None:
        if order.is_exception:
            # A stale record will be stale after a restart; this one only we know of.
            self._scribe.intend([clean_intent(order)])
        self._flights.clean_begun(order, self._clock.boottime())
        self._cleaner.give(order.uuid, LookBeforeClean(order))

    def on_CleanLooked(self, message: CleanLooked) -> None:
        order, found = message.order, message.found
        key = clean_key(order.uuid)
        self._recovery.answered(key, found.error)
        if isinstance(message.error, Throttled):
            self._throttled(message.error)
        if not self._flights.is_clean(order):
            if message.fenced is not None:
                self._cleaner.go_on(order.uuid, LiftFence(order, message.fenced))
                return
            self._cleaner.done(order.uuid)
            self._settled()
            return
        verdict = confirm_clean(
            order, found, self._snapshot(order.plan_id, without=order.uuid), self._settings
        )
        if verdict.kind is not Kind.CLEAN or self._stopping is not None:
            reason, measures = _why_not(verdict)
            self._log.event(
                Event.RECORD_CLEAN_SKIPPED,
                **{**record_fields(found.record, order.uuid), "reason": reason, **measures},
                plan=order.plan_id,
            )
            self._role.observer.clean_skipped(reason)
            again = reason in (Reason.EVIDENCE_MISSING, Reason.READ_ONLY)
            done = self._scribe.may_be_written(key) and _is_done(order, found)
            if message.fenced is not None and not done:
                self._cleaner.go_on(order.uuid, LiftFence(order, message.fenced, again))
                return
            if done:
                self._flights.unfenced(order.uuid)
            self._cleaner.done(order.uuid)
            self._clean_ended(order, "cleaned" if done else reason.value, again=again)
            return
        assert found.record is not None
        self._write_clean(order, found.record, message.fenced)

    def _write_clean(self, order: CleanOrder, record: Record, fence: Fence | None) -> None:
        """Fence or free the record, once its pre-image is on the disk."""
        fences = self._role.guarantee is Guarantee.FENCED and fence is None
        judged = record if fence is None else fence.judged
        if not self._scribe.intend([clean_intent(order, judged, fence=fences)]):
            self._log.event(
                Event.RECORD_CLEAN_SKIPPED,
                **record_fields(record, order.uuid),
                reason=Reason.READ_ONLY,
                detail=self._scribe.problem,
                plan=order.plan_id,
            )
            self._role.observer.clean_skipped(Reason.READ_ONLY)
            if fence is not None:
                self._cleaner.go_on(order.uuid, LiftFence(order, fence, again=True))
                return
            self._cleaner.done(order.uuid)
            self._clean_ended(order, Reason.READ_ONLY.value, again=True)
        elif fences:
            self._cleaner.go_on(order.uuid, FenceRecord(order, record))
        else:
            self._cleaner.go_on(order.uuid, FreeRecord(order, record))

    def on_RecordFenced(self, message: RecordFenced) -> None:
        order, fence = message.order, message.fence
        self._flights.fenced(fence, order)
        behind = fenced_order(order, fence.judged, fence.fenced)
        if behind is None or self._stopping is not None:
            self._cleaner.go_on(order.uuid, LiftFence(order, fence))
            return
        self._cleaner.done(order.uuid)
        self._flights.clean_begun(behind, self._clock.boottime())
        look = LookBeforeClean(behind, fence)
        self._timer.after(self._role.fence_wait, self.actor_ref, look)

    def on_LookBeforeClean(self, message: LookBeforeClean) -> None:
        """The timer says that the fence has stood for long enough (C12)."""
        if self._stopping is None and self._flights.is_clean(message.order):
            self._cleaner.give(message.order.uuid, message)

    def on_FenceLifted(self, message: FenceLifted) -> None:
        order, error = message.order, message.error
        self._cleaner.done(order.uuid)
        if error is not None:
            self._log.event(
                Event.RECORD_CLEAN_FAILED,
                level=WARNING,
                record=order.uuid,
                action="unfence",
                error=error,
                plan=order.plan_id,
            )
            if self._stopping is None and not getattr(error, "definite", False):
                # Its node may live, and can't ping before it has its secret back.
                wait_s = self._flights.next_question_s(order.uuid, self._settings.max_poll_time)
                again = LiftFence(order, message.fence, message.again)
                self._timer.after(wait_s, self.actor_ref, again)
                return
            if not getattr(error, "definite", False):
                # Its intent stays open: the next start lifts it.
                self._flights.unfenced(order.uuid)
                self._flights.clean_ended(order.uuid, self._clock.boottime())
                self._settled()
                return
        self._flights.unfenced(order.uuid)
        self._clean_ended(order, "lifted" if error is None else "failed", again=message.again)

    def on_LiftFence(self, message: LiftFence) -> None:
        """The timer says that a fence that could not be lifted is to be tried again."""
        uuid = message.order.uuid
        if uuid in self._flights.fences and not self._cleaner.has(uuid):
            self._cleaner.give(uuid, message)

    def on_RecordCleaned(self, message: RecordCleaned) -> None:
        order, before = message.order, message.before
        self._cleaner.done(order.uuid)
        self._flights.unfenced(order.uuid)
        self._own_cleans[order.uuid] = (message.after.version, self._clock.boottime())
        self._flights.forget_questions(order.uuid)
        self._log.event(
            Event.RECORD_CLEANED,
            reason=order.reason,
            **record_fields(before, order.uuid),
            guarantee=self._role.guarantee,
            plan=order.plan_id,
        )
        self._role.observer.cleaned(order.reason)
        self._clean_ended(order, "cleaned", again=False)

    def on_CleanFailed(self, message: CleanFailed) -> None:
        order = message.order
        self._log.event(
            Event.RECORD_CLEAN_FAILED,
            level=WARNING,
            record=order.uuid,
            slot=order.slot,
            host=order.hostname,
            action=message.stage,
            error=message.error,
            plan=order.plan_id,
        )
        self._role.observer.clean_failed()
        if message.fence is not None:
            # Nobody knows whether the fence is up.
            self._flights.fenced(message.fence, order)
        fence = self._flights.fences.get(order.uuid)
        if fence is not None:
            self._cleaner.go_on(order.uuid, LiftFence(order, fence[0], again=True))
            return
        self._cleaner.done(order.uuid)
        definite = getattr(message.error, "definite", False)
        self._clean_ended(order, "failed" if definite else "unknown", again=True)

    def _clean_ended(self, order: CleanOrder, outcome: str, *, again: bool) -> None:
        """A clean of its own right that failed is tried again; a stale one is judged afresh."""
        now = self._clock.boottime()
        key = clean_key(order.uuid)
        since = self._flights.clean_ended(order.uuid, now)
        if self._stopping is not None and again:
            # Its intent stays open for the next start.
            self._settled()
            return
        retries = again and (order.is_exception or self._recovery.has(key))
        if retries and since is not None and now - since < self._settings.action_timeout:
            wait_s = self._flights.next_question_s(order.uuid, self._settings.max_poll_time)
            self._flights.clean_begun(order, since)
            self._timer.after(wait_s, self.actor_ref, CleanAgain(order))
        elif outcome == "cleaned" or not self._recovery.goes_on(key):
            self._clean_concluded(order, outcome)
        self._settled()

    def _clean_concluded(self, order: CleanOrder, outcome: str) -> None:
        self._conclude(clean_key(order.uuid), outcome, reason=order.reason.value)
        if order.reason is Reason.AFTER_SHUTDOWN and order.instance_id is not None:
            self._conclude(destroy_key(order.instance_id), Outcome.GONE.value)
        relieved = outcome == "lifted" and order.not_after == float("-inf")
        if relieved and order.is_exception and self._stopping is None:
            self._begin_clean(self._afresh(order))

    def on_CleanAgain(self, message: CleanAgain) -> None:
        order = message.order
        if self._stopping is not None or not self._flights.is_clean(order):
            return
        fence = self._flights.fences.get(order.uuid)
        if order.is_exception and fence is None:
            order = self._afresh(order)
            self._scribe.intend([clean_intent(order)])
        self._flights.clean_begun(order, self._flights.cleans[order.uuid][1])
        self._cleaner.give(order.uuid, LookBeforeClean(order, fence[0] if fence else None))

    # Operators' commands.

    def on_ResetBreaker(self, message: ResetBreaker) -> None:
        if self._scribe.problem is not None:
            message.answered(self._scribe.problem)
            return
        self._log.event(Event.OPERATOR_BREAKER_RESET, by=message.by)
        if self._breaker.is_open:
            breaker = breakers.reset(self._breaker)
            self._scribe.note(BreakerSet(breaker, self._clock.boottime()))
            self._set_breaker(breaker)
            self._decide_soon()
        message.answered(self._scribe.problem)

    def on_HoldId(self, message: HoldId) -> None:
        hold = Hold(message.id, message.reason, message.by, self._clock.wall())
        if self._scribe.hold(hold):
            self._log.event(
                Event.OPERATOR_HOLD, name=hold.id, cause=hold.reason or None, by=hold.by
            )
            self._decide_soon()
        message.answered(self._scribe.problem)

    def on_ReleaseId(self, message: ReleaseId) -> None:
        if self._scribe.release(message.id):
            self._log.event(Event.OPERATOR_RELEASE, name=message.id, by=message.by)
            self._decide_soon()
        message.answered(self._scribe.problem)

    # The end.

    def _settled(self) -> None:
        """Something of ours ended. The next decision waits for the next poll: what it would be
        taken from does not show the outcome yet."""
        self._finish_once()
        self._finish_stop()

    def on_Stop(self, message: Stop) -> None:
        self._stopping = message
        for key in self._setups.drop_waiting():
            self._flights.setup_ended(int(key), self._clock.boottime())
            incarnation, _ = self._creates.pop(int(key))
            self._conclude(create_key(incarnation), "stopped")
        for key in self._shutdowns.drop_waiting():
            self._flights.shutdown_ended(key, self._clock.boottime())
        self._cleaner.drop_waiting()
        for uuid, (fence, order) in list(self._flights.fences.items()):
            # A step under way ends by itself; a lift behind a finished clean would undo it.
            if not self._cleaner.has(uuid):
                self._cleaner.give(uuid, LiftFence(order, fence))
        self._log.event(Event.DAEMON_STOPPING, level=DEBUG, reason=message.reason)
        self._finish_stop()

    def _finish_stop(self) -> None:
        crews = (self._setups, self._shutdowns, self._cleaner)
        if self._stopping is not None and not any(crew.busy for crew in crews):
            self._stopping.done()

    def _finish_once(self) -> None:
        if self._role.once is None or not self._once_applied or not self._flights.is_empty:
            return
        self._narrator.summary_again()
        self._role.once.finished(0)


def _is_done(order: CleanOrder, found: CleanEvidence) -> bool:
    """Whether the record no longer is what was to be freed: a write of ours took effect."""
    record = found.record
    if found.error is not None or record is None:
        return False
    return not record.holds_anything or record.incarnation != order.incarnation


def _why_not(verdict: Verdict) -> tuple[Reason, dict[str, Any]]:
    """Why an order ends at the last look: what forbids it now, or that we stop."""
    if verdict.kind is Kind.KEEP:
        return verdict.reason, dict(verdict.measures or {})
    return Reason.STOPPING, {}
