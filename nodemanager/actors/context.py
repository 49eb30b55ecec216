"""What the parts of the daemon share: its tools, what it knows, and what is under way.

What is known changes by facts and decisions alone, folded in as a replay of the journal folds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nodemanager.actors.base import tell
from nodemanager.actors.crew import Crew
from nodemanager.actors.messages import BackOff, Decide, Stop, Team
from nodemanager.actors.narrator import Narrator
from nodemanager.actors.role import Role
from nodemanager.actors.runner import Runner
from nodemanager.actors.scribe import Scribe
from nodemanager.actors.timer import Timer
from nodemanager.clock import Clock
from nodemanager.core.breaker import COLLAPSES, Breaker
from nodemanager.core.execute.books import Books
from nodemanager.core.execute.recent import Recent
from nodemanager.core.facts import BreakerSet, Fact
from nodemanager.core.fold import Stage, State, after_decision, stages
from nodemanager.core.history import History
from nodemanager.core.plan import Plan
from nodemanager.core.rates import heeded
from nodemanager.core.settings import FREED_KEPT_S, Settings
from nodemanager.core.snapshot import Limits
from nodemanager.errors import RemoteError
from nodemanager.log import Logger


class Context:
    """The daemon's tools, its one State of facts, and its books of what is under way."""

    # Given with Begin, before any other message.
    team: Team
    setups: Crew
    shutdowns: Crew
    cleaner: Crew
    # Given once the parts that it serves are made.
    runner: Runner

    def __init__(
        self,
        *,
        settings: Settings,
        role: Role,
        timer: Timer,
        clock: Clock,
        log: Logger,
        actor: Callable[[], Any],
    ) -> None:
        self.settings = settings
        self.role = role
        self.clock = clock
        self.log = log
        self.narrator = Narrator(log, settings, role.mode)
        self.scribe = Scribe(role.journal, log)
        self.state = State(demand=None if settings.demand_polled else ())
        self.books = Books()
        self.recent = Recent()
        self.plan: Plan | None = None
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
        return self.books.limits

    @property
    def now(self) -> float:
        """CLOCK_BOOTTIME."""
        return self.clock.boottime()

    @property
    def applies(self) -> bool:
        """Whether this daemon does what it decides (S3)."""
        return self.role.mode == "apply"

    @property
    def crews(self) -> tuple[Crew, ...]:
        """All workers."""
        return (self.setups, self.shutdowns, self.cleaner)

    # What is known.

    def fold(self, fact: Fact) -> None:
        """Note a fact, and know it from here on."""
        self.scribe.note(fact)
        self.take(fact)

    def take(self, fact: Fact) -> None:
        """Know a fact that is noted already, and tell what it changes."""
        for stage in stages(self.state, fact, self.settings):
            self._enter(stage)

    def _enter(self, stage: Stage) -> None:
        before, after = self.state.breaker, stage.state.breaker
        back = before.told.keys() - after.told.keys()
        if back:
            wall = self.clock.wall()
            self.scribe.given_back(back, wall, wall - FREED_KEPT_S)
        if after.generation != before.generation and after.cause in COLLAPSES:
            self.narrator.collapsed(after)
        self._keep_breaker(after)
        self.state = stage.state
        if stage.told:
            self.narrator.false_cleans(stage.told)
            self.decide_soon()

    def _keep_breaker(self, breaker: Breaker) -> None:
        """Write the breaker down before it takes effect, and tell how it changed."""
        before = self.state.breaker
        if breaker is before:
            return
        if breaker != before:
            self.scribe.save_breaker(breaker)
        self.narrator.breaker_changed(before, breaker)
        self.state = replace(self.state, breaker=breaker)

    def turn_breaker(self, breaker: Breaker) -> None:
        """The breaker as something else than a listing or an answer leaves it."""
        if breaker is not self.state.breaker:
            self.fold(BreakerSet(breaker, self.now))
            self.decide_soon()

    def after_decision(self, made: Plan) -> None:
        """Go on from what a plan leaves behind."""
        self._keep_breaker(made.breaker)
        self.state = after_decision(self.state, made)
        self.plan = made
        self.books = replace(self.books, withdrawn=Counter())

    # What comes next.

    def decide_soon(self) -> None:
        """Take a decision once the messages that wait already are heard; one for all of them."""
        if not self._deciding:
            self._deciding = True
            self._actor().tell(Decide())

    @property
    def deciding(self) -> bool:
        """Whether there are news which no plan has weighed."""
        return self._deciding

    def decides(self) -> None:
        """The decision that was asked for is taken now."""
        self._deciding = False

    def remind(self, seconds: float, message: Any) -> None:
        """Tell the daemon `message` in so many seconds."""
        self._timer.after(seconds, self._actor(), message)

    def throttled(self, error: RemoteError) -> None:
        """D6: back off all calls."""
        asked_s = heeded(error.retry_after, self.settings.max_retry_after)
        until = self.now + (asked_s or self.settings.max_poll_time)
        limits = self.books.limits
        limits = replace(limits, throttled_until=max(limits.throttled_until, until))
        self.books = replace(self.books, limits=limits)
        tell(self.team.cloud_list, BackOff(until))

    @property
    def nodes_now(self) -> int:
        """The nodes there are, those created since the last listing among them."""
        planned = self.plan.counts.get("nodes", 0) if self.plan is not None else 0
        present = self.history.present
        ids = (one.node_id for one in self.books.expected.values() if one.node_id is not None)
        return planned + sum(node_id not in present for node_id in ids)
