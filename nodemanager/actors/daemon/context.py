"""What the parts of the daemon share: its tools, and the one State of all that it knows.

Only facts and decisions change the State, by the same fold that a replay of the journal uses.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.actors.base import Timer, tell
from nodemanager.actors.daemon.remembered import RememberedBacklog, RememberedIdentity
from nodemanager.actors.daemon.runner import Runner
from nodemanager.actors.messages import BackOff, CallsResume, Decide, Stop, Team
from nodemanager.actors.report.event_log import EventLog
from nodemanager.actors.report.journal_writer import JournalWriter
from nodemanager.actors.workers.worker_pool import WorkerPool
from nodemanager.core.execute.flights import Flights
from nodemanager.core.execute.news import Inherited, LoopsReset, Throttling
from nodemanager.core.execute.state import Backlog, Own, OwnNews, State, snapshot_of
from nodemanager.core.execute.workflow import Key
from nodemanager.core.execute.writes import Writes
from nodemanager.core.explain.explain import APPLY, DecisionView
from nodemanager.core.model.breaker import COLLAPSES, Breaker
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.scheduling import Dispatched
from nodemanager.core.model.settings import FREED_KEPT_S, Settings
from nodemanager.core.model.world import Guarantee
from nodemanager.core.observe.clocks import MeasuredClock, wall_read
from nodemanager.core.observe.facts import BreakerSet, Fact
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Limits, Snapshot
from nodemanager.core.plan.availability import may_run
from nodemanager.core.plan.plan import Plan
from nodemanager.core.replay.fold import after_decision, stages
from nodemanager.core.safety import breaker as breakers
from nodemanager.errors import RemoteError
from nodemanager.journal.api import Journal
from nodemanager.journal.kept import BOOT_LOOPS, BREAKER, HOSTNAMES, LATE_WRITES, PLACE_RESTS, Kept
from nodemanager.lib.clock import Clock
from nodemanager.lib.log import WARNING, Logger


@dataclass(frozen=True, slots=True)
class RunOnce:
    """`--once`: one plan is applied, then `finished` is called with the exit code."""

    finished: Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class DaemonInputs:
    """What the daemon actor is given at its start.

    `mode` is `apply`, `dry-run` or `standby`; `token` is the lease's fencing token. `show` is given
    each decision; it returns at once and never raises. `guarantee` and `fence_wait` are of the
    store; `repeats_creates` says that the cloud makes one node of creates with one client token
    (U9).
    """

    manager: str
    journal: Journal
    identity: RememberedIdentity
    backlog: RememberedBacklog
    mode: str = APPLY
    token: int = 0
    holds_lease: Callable[[], bool] = lambda: True
    show: Callable[[DecisionView], None] = lambda decision: None
    once: RunOnce | None = None
    run_id: str = field(default_factory=lambda: secrets.token_hex(2))
    guarantee: Guarantee = Guarantee.CAS
    fence_wait: float = 0.0
    repeats_creates: bool = False


KEPT: tuple[tuple[Kept[Any], Callable[[State], object]], ...] = (
    (BOOT_LOOPS, lambda state: state.limits.loops),
    (PLACE_RESTS, lambda state: state.limits.places),
    (HOSTNAMES, lambda state: state.history.hostnames),
)
"""What the next run must know, as it stands in the State."""


LONG_S, REST = 0.05, 3.0
"""After a decision the daemon rests this many times as long as the decision took. In a large pool
each of a hundred cleans and boots would else wait for a decision of its own, as the end of the one
before it is news."""


class Context:
    """The daemon's tools and its one State."""

    # Given with Begin, before any other message.
    team: Team
    setups: WorkerPool
    shutdowns: WorkerPool
    cleaners: WorkerPool
    # Set once the parts that it serves are made.
    runner: Runner

    def __init__(
        self,
        *,
        settings: Settings,
        inputs: DaemonInputs,
        timer: Timer,
        clock: Clock,
        log: Logger,
        actor: Callable[[], Any],
    ) -> None:
        self.settings = settings
        self.inputs = inputs
        self.clock = clock
        self.log = log
        self.event_log = EventLog(log, settings, inputs.mode)
        self.journal_writer = JournalWriter(inputs.journal, log, inputs.holds_lease)
        dispatched = Dispatched(since=clock.boottime() if settings.scheduled else None)
        self.state = State(
            demand=None if settings.demand_polled else (),
            dispatched=dispatched,
            writes=Writes(inputs.guarantee),
            backlog=Backlog(*inputs.backlog.load()),
            journal_read=False,
        )
        self.stopping: Stop | None = None
        self._timer = timer
        self._actor = actor
        self._deciding = False
        self._rests_until = 0.0
        self._shown: DecisionView | None = None

    @property
    def history(self) -> History:
        return self.state.history

    @property
    def breaker(self) -> Breaker:
        return self.state.breaker

    @property
    def flights(self) -> Flights:
        return self.state.flights

    @property
    def limits(self) -> Limits:
        return self.state.limits

    @property
    def now(self) -> float:
        """CLOCK_BOOTTIME."""
        return self.clock.boottime()

    @property
    def wall_clock(self) -> MeasuredClock:
        """Our wall clock as measured, with the reading of this moment (T1)."""
        return wall_read(self.state.history.wall, self.clock.wall(), self.now)

    @property
    def applies(self) -> bool:
        """Whether this daemon does what it decides (S3)."""
        return self.inputs.mode == "apply"

    @property
    def worker_pools(self) -> tuple[WorkerPool, ...]:
        return (self.setups, self.shutdowns, self.cleaners)

    # What is known.

    def snapshot(self, plan_id: str, besides: Key | None = None) -> Snapshot:
        """A snapshot of now, without the workflow of the key `besides`."""
        lease, problem = self.inputs.holds_lease(), self.journal_writer.problem
        now, wall = self.now, self.clock.wall()
        return snapshot_of(
            self.state, plan_id, now, wall, lease=lease, problem=problem, besides=besides
        )

    def fold(self, fact: Fact) -> None:
        """Write a fact to the journal, and fold it into the State."""
        self.journal_writer.note(fact)
        self.take(fact)

    def learn(self, one: Own) -> None:
        """Fold what happened just now because of us into the State."""
        before = self.state.breaker
        self.take(OwnNews(one, self.now, self.clock.wall()))
        if self.state.breaker is not before:
            # A replay does not have the news.
            self.journal_writer.note(BreakerSet(self.state.breaker, self.now))
            self.decide_soon()

    def take(self, fact: Fact | OwnNews) -> None:
        """Fold a fact into the State that the journal has or need not have; log what it changes."""
        one = fact.one if isinstance(fact, OwnNews) else None
        for stage in stages(self.state, fact, self.settings):
            before, after = self.state.breaker, stage.state.breaker
            back = [life for key, life in before.reported.items() if key not in after.reported]
            if back:
                wall = self.clock.wall()
                self.journal_writer.given_back(back, wall, wall - FREED_KEPT_S)
            # Told before the breaker is written: a run that inherits the breaker tells it no more.
            if after.generation != before.generation and after.cause in COLLAPSES:
                self.event_log.collapsed(after)
            if stage.reported:
                self.event_log.false_cleans(stage.reported)
                self.decide_soon()
            self._enter(stage.state, one)

    def _enter(self, after: State, of: Own | Plan | None) -> None:
        """Write what the next run must know of a state before it takes effect, and log its news."""
        before, keep = self.state, self.journal_writer.keep
        if after.breaker is not before.breaker:
            if after.breaker != before.breaker:
                keep(BREAKER, after.breaker)
            self.event_log.breaker_changed(before.breaker, after.breaker)
        if isinstance(of, Plan):
            self.event_log.nodes_ended(of)
        for what, value in KEPT:
            if value(after) is not value(before):
                keep(what, value(after))
        late, known = after.writes.late, before.writes.late
        if late is not known and late.items() - known.items():
            keep(LATE_WRITES, late)
        self.state = after
        loops, is_reset = before.limits.loops, isinstance(of, LoopsReset)
        if not isinstance(of, Inherited) and self.event_log.boots(
            loops, self.limits.loops, self.now, is_reset=is_reset
        ):
            self.decide_soon()

    def inherit_breaker(self, stored: Breaker) -> None:
        """Join a former run's breaker with what has opened since.

        No listing of this run opened it, so it is not logged as a collapse.
        """
        before = self.breaker
        after = breakers.joined(stored, before)
        self.event_log.breaker_changed(before, after)
        self.state = replace(self.state, breaker=after)
        self.journal_writer.keep(BREAKER, after)
        self.journal_writer.note(BreakerSet(after, self.now))

    def turn_breaker(self, breaker: Breaker) -> None:
        """Set the breaker for a cause other than a poll or an answer, and decide soon."""
        if breaker is not self.state.breaker:
            self.fold(BreakerSet(breaker, self.now))
            self.decide_soon()

    def after_decision(self, made: Plan, made_at: float) -> None:
        """Take over what a plan leaves."""
        self._enter(after_decision(self.state, made, made_at, self.settings), made)

    # What comes next.

    def decide_soon(self) -> None:
        """Take one decision after all messages that wait already, and after the rest of the one
        before."""
        if self._deciding:
            return
        self._deciding = True
        wait_s = self._rests_until - self.now
        if wait_s > 0:
            self.remind(wait_s, Decide())
        else:
            self._actor().tell(Decide())

    @property
    def deciding(self) -> bool:
        """Whether there is news that no plan has considered yet."""
        return self._deciding

    def decides(self) -> None:
        """Note that the decision that was asked for is taken now."""
        self._deciding = False

    def decided(self, took_s: float) -> None:
        """Note how long the decision took, so that the next one leaves time for all else."""
        if took_s >= LONG_S:
            self._rests_until = self.now + REST * took_s

    def show(self, decision: DecisionView) -> None:
        self._shown = decision
        self.inputs.show(decision)

    def show_orders(self) -> None:
        """Show what was ordered since the newest decision, and whether it waits for the next."""
        if self._shown is not None:
            marks, waits = self.state.marks, self._deciding
            self.show(replace(self._shown, marks=marks, undecided=waits))

    def remind(self, seconds: float, message: Any) -> None:
        """Send the daemon `message` after that many seconds."""
        self._timer.after(seconds, self._actor(), message)

    def throttled(self, error: RemoteError) -> None:
        """Back off all calls to the cloud (D6), and send fewer at once from then on (U13)."""
        before = self.limits.throttled_until
        self.learn(Throttling(error.retry_after))
        until, wait_s = self.limits.throttled_until, self.limits.throttled_until - self.now
        if until == before:
            return
        tell(self.team.cloud_list, BackOff(until))
        limit = self.limits.at_once
        self.log.event(
            Event.CLOUD_THROTTLED, level=WARNING, error=error, retry_s=wait_s, limit=limit
        )
        self.remind(wait_s, CallsResume())

    def calls_resume(self, message: CallsResume) -> None:
        """Hand out what waited for the cloud, and decide, unless it asked for fewer calls again."""
        wait_s = self.limits.throttled_until - self.now
        if wait_s > 0:
            self.remind(wait_s, message)
            return
        for pool in self.worker_pools:
            pool.hand_out()
        self.decide_soon()

    def may_run(self) -> int:
        """How many creates, as many destroys and as many cleans may run now (U13)."""
        return may_run(self.limits, self.now, self.settings)
