"""The daemon actor: coordinates the others, and alone decides - by asking core.

Every fact that arrives is folded into the history; then one `Decide` takes one plan from one
snapshot and hands out its orders. What comes back from a worker is confirmed by core again before
anything is destroyed or freed. There is no `if` about freeing or destroying in here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nodemanager.actors.adopt_desk import AdoptDesk
from nodemanager.actors.base import OnDeath, tell
from nodemanager.actors.crew import Crew
from nodemanager.actors.intents import may_be_under_way
from nodemanager.actors.messages import (
    ApplySettings,
    AskAccount,
    AskNodes,
    AskTagged,
    Begin,
    CarriedOut,
    CloudListed,
    CloudPollStarted,
    Decide,
    DemandPolled,
    NodesAsked,
    Poll,
    PollFailed,
    RecordsListed,
    Stop,
    TaggedAsked,
    WaitOver,
)
from nodemanager.actors.operator_desk import OperatorDesk
from nodemanager.actors.role import Role
from nodemanager.actors.runner import Runner
from nodemanager.actors.scribe import Loaded
from nodemanager.actors.timer import Timer
from nodemanager.clock import Clock
from nodemanager.core import breaker as breakers
from nodemanager.core import false_clean
from nodemanager.core import history as histories
from nodemanager.core.execute.books import (
    ItemEnded,
    Learned,
    NodeGone,
    NotRestored,
    PinsCalledOff,
    PinsDoubted,
    Restored,
    still_expected,
)
from nodemanager.core.execute.catalog import WORKFLOWS
from nodemanager.core.execute.effects import FenceRecord, FreeRecord, LiftFence, StoreWrite
from nodemanager.core.execute.workflow import Action, Key, Seen
from nodemanager.core.execute.workflow import Begin as Begun
from nodemanager.core.facts import (
    BreakerSet,
    CloudPollBegun,
    CloudSeen,
    DemandSeen,
    Fact,
    PollMissed,
    RecordsSeen,
    SettingsTaken,
    StoreClockKept,
    TagsAnswered,
)
from nodemanager.core.fold import Decision, Start, State, after_fact
from nodemanager.core.history import Records
from nodemanager.core.late import still_late
from nodemanager.core.leftovers import counts
from nodemanager.core.model import CloudNode, Leftover, Record
from nodemanager.core.picture import Picture
from nodemanager.core.plan import Plan, plan
from nodemanager.core.reasons import Event, Reason
from nodemanager.core.settings import Settings
from nodemanager.errors import RemoteError, Throttled
from nodemanager.log import DEBUG, WARNING, Logger


class NodeManagerDaemonActor(OperatorDesk, AdoptDesk):
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
        super().__init__(
            settings=settings,
            role=role,
            timer=timer,
            clock=clock,
            log=log,
            on_death=on_death,
        )
        self._runner = Runner(WORKFLOWS, self, self._scribe, log)

    def on_Begin(self, message: Begin) -> None:
        team = message.team
        self._team = team
        self._setups = Crew(team.setups)
        self._shutdowns = Crew(team.shutdowns)
        self._cleaner = Crew((team.cleaner,))
        loaded = self._scribe.load()
        if loaded is not None:
            self._adopt(loaded)
        state = State(history=self._history, breaker=self._breaker, demand=self._demand)
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
        now = self._clock.boottime()
        if loaded.clock is not None:
            self._history = histories.store_clock_kept(self._history, loaded.clock)
            self._scribe.note(StoreClockKept(loaded.clock, now))
        for uuid, late in loaded.late.items():
            self._may_be_late(uuid, late.at)
            if late.clean_at is not None:
                self._may_be_late(uuid, late.clean_at, clean=True)
        for uuid, cleans in may_be_under_way(loaded.intents):
            self._may_be_late(uuid, now, clean=cleans)
        self._adopt_marks(loaded.marks)
        self._load_loops()
        self._load_run()
        self._remember_freed()
        self._runner.load(loaded.intents, now)
        self._leftovers.restore(loaded.leftovers, now, self._settings.visible_after)

    def on_ApplySettings(self, message: ApplySettings) -> None:
        self._settings = message.settings
        self._scribe.note(SettingsTaken(message.settings, self._clock.boottime()))
        self._narrator.settings = message.settings
        self._decide_soon()

    def on_CloudPollStarted(self, message: CloudPollStarted) -> None:
        self._scribe.note(CloudPollBegun(self._clock.boottime()))
        self._history = histories.cloud_poll_started(self._history)

    def on_CloudListed(self, message: CloudListed) -> None:
        listing = message.listing
        if message.unverified is not None and "account" in self._identified:
            self._identified.discard("account")
            self._log.event(
                Event.IDENTITY_UNVERIFIED,
                level=WARNING,
                account=self._account,
                error=message.unverified,
            )
        if message.account is not None:
            self._identify("account", message.account)
            if "account" in self._mismatched or "account" in self._state_failed:
                # What was put right is noticed with the next poll.
                tell(self._team.cloud_list, AskAccount())
        self._scribe.note(CloudSeen(listing, message.account))
        took_s = listing.ended_at - listing.started_at
        self._narrator.listed("cloud", _there(listing.items), took_s, listing.complete)
        problems = self._narrator.items_with_problems(listing.items)
        self._narrator.malformed("cloud", listing.problems + problems)
        if listing.complete:
            ids = frozenset(node.id for node in listing.items)
            self._watch_collapse(ids, listing.started_at, cloud=True)
        self._history = histories.cloud_listed(self._history, listing, self._settings)
        self._decide_soon()

    def on_RecordsListed(self, message: RecordsListed) -> None:
        listing = message.listing
        self._identify("store", message.store_id)
        self._watch_age(message.store_id, message.store_time.beats)
        self._store_id = message.store_id
        self._late_pings(message.late)
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
        history = histories.store_clock_read(self._history, message.store_time)
        if history.clock is not None:
            self._scribe.save_clock(history.clock)
        if message.answered_at is not None:
            history = histories.store_answered(history, message.answered_at, self._settings)
        self._history = history
        if listing.complete:
            ids = frozenset(record.uuid for record in listing.items)
            self._watch_collapse(ids, listing.started_at, cloud=False)
            self._forget_own_cleans(listing)
            self._told_drains = self._told_drains.after_listing(listing)
            self._new_records = True
        self._take(false_clean.records_seen(self._breaker, self._history, listing))
        self._watch_freed(listing)
        self._probed(listing)
        self._watch_first_pings(listing)
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
        self._decide_soon()

    def on_PollFailed(self, message: PollFailed) -> None:
        self._narrator.list_failed(message.source, message.error, message.retry_s, message.took_s)
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
        self._take_answers(message.answers, message.malformed, message.asked_at)

    def _identify(self, kind: str, seen: str) -> None:
        """L5: another account or store than the one known makes us read-only."""
        if kind == "account":
            self._account = seen
        kept, problem = self._keeps_state(kind, lambda: self._role.identity.check(kind, seen))
        if not kept:
            return
        if problem is None:
            if self._mismatched.pop(kind, None) is not None or kind not in self._identified:
                seen_as: dict[str, Any] = {kind: seen}
                self._log.event(Event.IDENTITY_SEEN, **seen_as)
        elif self._mismatched.get(kind) != problem:
            self._mismatched[kind] = problem
            self._log.event(
                Event.IDENTITY_CHANGED, level=WARNING, reason=Reason.READ_ONLY, problem=problem
            )
        self._identified.add(kind)

    def _watch_age(self, store_id: str, beats: int | None) -> None:
        """L5: a store from a backup has the same id, and not the records that we know (N26)."""
        if beats is None or "store" in self._mismatched:
            return
        kept, problem = self._keeps_state(
            "heartbeats", lambda: self._role.identity.check_age(store_id, beats)
        )
        if not kept:
            return
        if problem is None:
            if self._mismatched.pop("heartbeats", None) is not None:
                self._log.event(Event.IDENTITY_SEEN, store=store_id)
        elif self._mismatched.get("heartbeats") != problem:
            self._mismatched["heartbeats"] = problem
            self._log.event(
                Event.IDENTITY_CHANGED, level=WARNING, reason=Reason.READ_ONLY, problem=problem
            )

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
        self._set_breaker(breaker)

    def _keep_backlog(self, made: Plan) -> None:
        # One that an operator wanted says nothing of how many wait.
        cleans = any(order.hand is None for order in made.cleans)
        if not (self._first_clean and (cleans or made.backlog)):
            return
        if made.backlog:
            self._log.event(
                Event.BACKLOG_FOUND,
                level=WARNING,
                count=len(made.backlog),
                limit=self._settings.max_cleans_per_cycle,
                clear="nodemanager backlog plan shows them, nodemanager backlog apply frees those "
                "you leave in it; or set [Cleaning] backlog = clean and reload",
            )
        self._first_clean, self._backlog = False, made.backlog
        self._backlog_owed = self._role.mode == "apply"
        self._save_backlog()

    def _save_backlog(self) -> None:
        """What is held back must be known to the next run before any of it, or more, is freed."""
        if self._backlog_owed:
            kept, _ = self._keeps_state("backlog", lambda: self._role.backlog.save(self._backlog))
            self._backlog_owed = not kept

    def on_Decide(self, message: Decide) -> None:
        self._deciding = False
        loaded = self._scribe.mend()
        if loaded is not None:
            self._adopt(loaded)
        self._save_backlog()
        self._prove_owed()
        self._flights.forget_landed(self._history)
        now = self._clock.boottime()
        self._flights.forget_touched(self._history)
        self._flights.late = still_late(self._flights.late, now, self._settings)
        if self._scribe.problem is None:
            self._runner.heal(now)
        self._runner.expire(now, self._settings.action_timeout)
        self._recover()
        plan_id = f"{self._role.run_id}-{next(self._plan_numbers)}"
        snapshot = self._snapshot(plan_id)
        made = plan(snapshot, self._settings, new_records=self._new_records)
        new_records, self._new_records = self._new_records, False
        self._history = made.history
        self._set_breaker(made.breaker)
        self._plan, self._taken_back = made, Counter()
        if made.aborted is None:
            history, pairs = made.history, made.pairs
            kept = still_expected(self._expected, history, pairs, now, self._settings)
            self._expected = dict(kept)
        self._keep_backlog(made)
        self._settle_commands(made, snapshot, acts=bool(self._asked) and self._may_act(made, now))
        records = self._history.records
        by_uuid = {record.uuid: record for record in records.items} if records else {}
        self._narrator.plan(made, by_uuid, now)
        took_s = self._clock.boottime() - now
        self._scribe.decided(Decision(snapshot, made, new_records, took_s))
        self._tend_backlog(made, snapshot)
        self._role.show(
            Picture(
                snapshot,
                made,
                self._settings,
                mode=self._role.mode,
                took_s=took_s,
                marks=self._marks(),
                leftovers=counts(self._leftovers.ledger),
                account=self._account or "",
                store=self._store_id or "",
            )
        )
        if made.ask and self._asked_after is not self._history.cloud and self._stopping is None:
            self._asked_after = self._history.cloud
            tell(self._team.cloud_list, AskNodes(made.ask))
        if made.ask_tagged and self._tags_asked_after is not self._history.cloud:
            self._tags_asked_after = self._history.cloud
            if self._stopping is None:
                tell(self._team.cloud_list, AskTagged(made.ask_tagged))
        if self._may_act(made, now):
            self._carry_out(made, now)
        self._tend_leftovers()
        self._finish_once()
        self._finish_stop()

    def _may_act(self, made: Plan, now: float) -> bool:
        if self._stopping is not None or made.aborted is not None:
            return False
        if self._scribe.problem is not None or self._state_failed:
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
        for prune in made.prunes:
            self._narrator.prune_ordered(prune)
        for shutdown in made.shutdowns:
            self._narrator.shutdown_ordered(shutdown)
        self._once_applied = True
        if self._role.mode != "apply":
            for boot in made.boots:
                self._narrator.setup_started(boot, None)
            return
        for clean in made.cleans:
            self._runner.begin(Action.CLEAN, clean, clean.plan_id, now)
        for lift in made.lifts:
            self._runner.begin(Action.CLEAN, lift, lift.plan_id, now)
        for prune in made.prunes:
            self._runner.begin(Action.PRUNE, prune, prune.plan_id, now)
        for shutdown in made.shutdowns:
            self._runner.begin(Action.SHUTDOWN, shutdown, shutdown.plan_id, now)
        for drain in made.drains:
            self._runner.begin(Action.DRAIN, drain, drain.plan_id, now)
        for life in made.restores:
            self._begin_restore(life, made.plan_id, now)
        for bind in made.binds:
            self._runner.begin(Action.BIND, bind, bind.plan_id, now)
        self._begin_setups(made.boots, now)

    def _recover(self) -> None:
        """Finish what a former run left, once both answered as the ones we know (L5, R1)."""
        history = self._history
        if history.cloud is None or history.records is None or self._read_only:
            return
        if self._stopping is None and self._role.mode == "apply":
            self._runner.resume(self._clock.boottime())
            self._runner.news(self._clock.boottime())

    # The workflows of core, and what they need of us.

    def on_CarriedOut(self, message: CarriedOut) -> None:
        self._runner.carried_out(message, self._clock.boottime())

    def on_WaitOver(self, message: WaitOver) -> None:
        if self._stopping is None:
            self._runner.wait_over(message, self._clock.boottime())

    def seen(self, key: Key, plan_id: str) -> Seen:
        # A set-up that has landed does not keep its claim from being released (U6).
        landed = key.id if key.action is Action.CLEAN else None
        return Seen(
            self._snapshot(plan_id, without=landed, besides=key),
            self._settings,
            self._role.guarantee,
            stopping=self._stopping is not None,
            needless=self._needless,
            repeats_creates=self._role.repeats_creates,
            unmet=self._plan.wants.unmet if self._plan and self._plan.wants else frozenset(),
            undecided=self._deciding,
            pins_failed=self._pins_failed,
            picture=self._seen if key.action is Action.ADOPT else None,
            run=self._run if key.action is Action.ADOPT else None,
            fence_wait=self._role.fence_wait,
            failing=self._failed_writes > 0,
        )

    @property
    def _needless(self) -> Mapping[str, int]:
        """The nodes to be, by size, that demand wants no more, less those withdrawn since."""
        wants = self._plan.wants if self._plan is not None else None
        return {} if wants is None else Counter(wants.needless) - self._taken_back

    def fold(self, fact: Fact) -> None:
        self._scribe.note(fact)
        state = State(history=self._history, breaker=self._breaker)
        after = after_fact(state, fact, self._settings)
        self._history = after.history
        self._set_breaker(after.breaker)

    def crew_for(self, action: Action) -> Crew:
        if action in (Action.SETUP, Action.ADOPT):
            return self._setups
        return self._shutdowns if action is Action.SHUTDOWN else self._cleaner

    def enter_pins(self, pins: tuple[Leftover, ...]) -> bool:
        return self._leftovers.enter(pins, self._clock.boottime())

    def learn(self, one: Learned) -> None:
        super().learn(one)
        match one:
            case NodeGone():
                self._node_gone(one)
                self._forget_marks(frozenset({one.node_id}))
            case PinsCalledOff(node_id):
                self._leftovers.called_off(node_id)
            case PinsDoubted(node_id):
                now = self._clock.boottime()
                self._leftovers.doubted(node_id, now, self._settings.visible_after)
            case Restored(record=uuid):
                self._own_cleans.pop(uuid, None)
                self._narrator.restored(uuid)
            case NotRestored(verdict=verdict):
                self._narrator.not_restored(verdict)
            case ItemEnded(key=key, step=step):
                self._step_ended(key, step)

    def remind(self, seconds: float, message: WaitOver) -> None:
        self._timer.after(seconds, self.actor_ref, message)

    def wrote(self, effect: StoreWrite, answer: Any, error: RemoteError | None) -> None:
        if error is None:
            self._wrote()
        else:
            self._write_failed(error)
        if not isinstance(effect, FenceRecord | LiftFence | FreeRecord):
            return
        uuid, frees = effect.record.uuid, isinstance(effect, FreeRecord)
        if error is None and frees:
            self._own_cleans[uuid] = (answer.version, self._clock.boottime())
            self._expected.pop(uuid, None)
        elif error is not None and not (error.definite or error.unsent):
            self._may_be_late(uuid, clean=frees)

    def throttled(self, error: RemoteError) -> None:
        self._throttled(error)

    def begun(self, one: Begun) -> None:
        self._narrator.clean_ordered(one.order)

    def settled(self) -> None:
        self._settled()

    def on_TaggedAsked(self, message: TaggedAsked) -> None:
        now = self._clock.boottime()
        asked_at = message.asked_at
        self._scribe.note(TagsAnswered(message.answers, now, asked_at))
        self._take(
            false_clean.tags_seen(
                self._breaker,
                self._history,
                message.answers,
                now,
                self._settings,
                asked_at=asked_at,
            )
        )

    # The end.

    def on_Stop(self, message: Stop) -> None:
        self._stopping = message
        self._runner.drop(Action.SETUP, self._setups.drop_waiting())
        self._runner.drop(Action.SHUTDOWN, self._shutdowns.drop_waiting())
        self._cleaner.drop_waiting()
        # A step under way ends by itself.
        self._runner.stop(self._clock.boottime(), self._is_busy)
        self._log.event(Event.DAEMON_STOPPING, level=DEBUG, reason=message.reason)
        self._finish_stop()

    def _is_busy(self, id: str) -> bool:
        return any(crew.has(id) for crew in (self._setups, self._shutdowns, self._cleaner))


def _there(items: Sequence[CloudNode | Record]) -> int:
    """How many of a listing's items are there: a terminated node is not."""
    return len(items) - sum([isinstance(one, CloudNode) and one.is_absent for one in items])
