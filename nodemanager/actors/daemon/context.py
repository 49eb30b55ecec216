"""What the parts of the daemon share: its tools, and the one State of all that it knows.

Only facts and decisions change the State, by the same fold that a replay of the journal uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodemanager.actors.base import tell
from nodemanager.actors.daemon.inputs import DaemonInputs
from nodemanager.actors.daemon.runner import Runner
from nodemanager.actors.messages import BackOff, Decide, Stop, Team
from nodemanager.actors.report.event_log import EventLog
from nodemanager.actors.report.journal_writer import JournalWriter
from nodemanager.actors.timer import Timer
from nodemanager.actors.workers.worker_pool import WorkerPool
from nodemanager.clock import Clock
from nodemanager.core.execute.news import CallsDeferred, Inherited, LoopsReset
from nodemanager.core.execute.state import Own, OwnNews, State
from nodemanager.core.execute.writes import Writes
from nodemanager.core.model.breaker import COLLAPSES, Breaker
from nodemanager.core.model.scheduling import Dispatched
from nodemanager.core.model.settings import FREED_KEPT_S, Settings
from nodemanager.core.model.streaks import Loops
from nodemanager.core.observe.clocks import MeasuredClock, wall_read
from nodemanager.core.observe.facts import BreakerSet, Fact
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Limits
from nodemanager.core.plan.plan import Plan
from nodemanager.core.replay.fold import Stage, after_decision, stages
from nodemanager.core.safety.rate_limits import heeded
from nodemanager.errors import RemoteError
from nodemanager.journal.kept import BOOT_LOOPS, BREAKER, HOSTNAMES, LATE_WRITES, PLACE_RESTS
from nodemanager.log import Logger


class Context:
    """The daemon's tools and its one State."""

    # Given with Begin, before any other message.
    team: Team
    setups: WorkerPool
    shutdowns: WorkerPool
    cleaner: WorkerPool
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
        told = Dispatched(since=clock.boottime() if settings.scheduled else None)
        self.state = State(
            demand=None if settings.demand_polled else (),
            dispatched=told,
            writes=Writes(inputs.guarantee),
        )
        self.stopping: Stop | None = None
        self._timer = timer
        self._actor = actor
        self._deciding = False

    @property
    def history(self) -> History:
        return self.state.history

    @property
    def breaker(self) -> Breaker:
        return self.state.breaker

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
        """All workers."""
        return (self.setups, self.shutdowns, self.cleaner)

    # What is known.

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
        for stage in stages(self.state, fact, self.settings):
            loops = self.state.limits.loops
            self._enter(stage)
            if isinstance(fact, OwnNews) and isinstance(fact.one, Inherited):
                continue
            is_reset = isinstance(fact, OwnNews) and isinstance(fact.one, LoopsReset)
            self._tell_boots(loops, is_reset=is_reset)

    def _tell_boots(self, before: Loops, *, is_reset: bool = False) -> None:
        """Log which rests of booting have begun or ended since `before`."""
        if self.event_log.boots(before, self.limits.loops, self.now, is_reset=is_reset):
            self.decide_soon()

    def _enter(self, stage: Stage) -> None:
        before, after = self.state.breaker, stage.state.breaker
        back = [life for key, life in before.told.items() if key not in after.told]
        if back:
            wall = self.clock.wall()
            self.journal_writer.given_back(back, wall, wall - FREED_KEPT_S)
        # Told before the breaker is written: a run that inherits the breaker tells it no more.
        if after.generation != before.generation and after.cause in COLLAPSES:
            self.event_log.collapsed(after)
        if stage.told:
            self.event_log.false_cleans(stage.told)
        self._keep_breaker(after)
        self._keep(stage.state)
        self.state = stage.state
        if stage.told:
            self.decide_soon()

    def _keep_breaker(self, breaker: Breaker) -> None:
        """Write the breaker before it takes effect, and log how it changed."""
        before = self.state.breaker
        if breaker is before:
            return
        if breaker != before:
            self.journal_writer.keep(BREAKER, breaker)
        self.event_log.breaker_changed(before, breaker)
        self.state = replace(self.state, breaker=breaker)

    def _keep(self, after: State) -> None:
        """Write what the next run must know of a state, before it takes effect."""
        before = self.state
        if after.limits.loops is not before.limits.loops:
            self.journal_writer.keep(BOOT_LOOPS, after.limits.loops)
        if after.limits.places is not before.limits.places:
            self.journal_writer.keep(PLACE_RESTS, after.limits.places)
        if after.history.hostnames is not before.history.hostnames:
            self.journal_writer.keep(HOSTNAMES, after.history.hostnames)
        late, known = after.writes.late, before.writes.late
        if late is not known and late.items() - known.items():
            self.journal_writer.keep(LATE_WRITES, late)

    def turn_breaker(self, breaker: Breaker) -> None:
        """Set the breaker for a cause other than a poll or an answer, and decide soon."""
        if breaker is not self.state.breaker:
            self.fold(BreakerSet(breaker, self.now))
            self.decide_soon()

    def after_decision(self, made: Plan, made_at: float) -> None:
        """Take over what a plan leaves."""
        self._keep_breaker(made.breaker)
        for one in made.ended:
            self.event_log.node_ended(one, made.plan_id)
        before, after = self.limits.loops, after_decision(self.state, made, made_at, self.settings)
        self._keep(after)
        self.state = after
        self._tell_boots(before)

    # What comes next.

    def decide_soon(self) -> None:
        """Take one decision after all messages that wait already."""
        if not self._deciding:
            self._deciding = True
            self._actor().tell(Decide())

    @property
    def deciding(self) -> bool:
        """Whether there is news that no plan has considered yet."""
        return self._deciding

    def decides(self) -> None:
        """Note that the decision that was asked for is taken now."""
        self._deciding = False

    def remind(self, seconds: float, message: Any) -> None:
        """Send the daemon `message` after that many seconds."""
        self._timer.after(seconds, self._actor(), message)

    def throttled(self, error: RemoteError) -> None:
        """Back off all calls to the cloud (D6)."""
        asked_s = heeded(error.retry_after, self.settings.max_retry_after)
        until = self.now + (asked_s or self.settings.max_poll_time)
        self.learn(CallsDeferred(until))
        tell(self.team.cloud_list, BackOff(until))
