"""What the daemon's desks share: its books, the picture of this moment, and how it ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from nodemanager.actors.base import OnDeath, RoleActor, tell
from nodemanager.actors.crew import Crew
from nodemanager.actors.flights import Flights
from nodemanager.actors.leftover_book import LeftoverBook
from nodemanager.actors.messages import (
    BackOff,
    Decide,
    Stop,
    Team,
)
from nodemanager.actors.narrator import Narrator
from nodemanager.actors.role import Role
from nodemanager.actors.runner import End, Runner
from nodemanager.actors.scribe import Scribe
from nodemanager.actors.timer import Timer
from nodemanager.clock import Clock
from nodemanager.core.backlog_run import Run, let_go
from nodemanager.core.breaker import Breaker
from nodemanager.core.execute.books import Drains
from nodemanager.core.execute.clean import Unsure
from nodemanager.core.execute.workflow import Key
from nodemanager.core.history import History, Nodes
from nodemanager.core.late import still_late, with_late
from nodemanager.core.marks import HandClean, Mark
from nodemanager.core.model import Guarantee, Job
from nodemanager.core.plan import Plan
from nodemanager.core.rates import heeded
from nodemanager.core.reasons import Event, Reason
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Expected, Limits, Snapshot
from nodemanager.errors import RemoteError, StartError
from nodemanager.log import WARNING, Logger

T = TypeVar("T")


class Desk(RoleActor):
    """The daemon actor's state, and what every one of its subjects needs."""

    # Given with Begin, before any other message.
    _team: Team
    _setups: Crew
    _shutdowns: Crew
    _cleaner: Crew
    _runner: Runner

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
        self._mismatched: dict[str, str] = {}
        self._identified: set[str] = set()
        self._state_failed: dict[str, str] = {}
        self._backlog_owed = False
        self._first_clean, self._backlog = role.backlog.load()
        self._run: Run | None = None
        self._account: str | None = None
        self._had_lease = True
        self._plan_numbers = itertools.count(1)
        self._plan: Plan | None = None
        self._deciding = False
        self._new_records = False
        self._asked_after: Nodes | None = None
        self._tags_asked_after: Nodes | None = None
        self._stopping: Stop | None = None
        self._scribe = Scribe(role.journal, log)
        self._leftovers = LeftoverBook(self._scribe, log, mode=role.mode)
        self._pins_failed: dict[str, int] = {}
        self._find_at = 0.0
        self._finds_failed = 0
        self._tend_at: float | None = None
        self._deferred_for: Reason | None = None
        self._created: dict[str, tuple[str | None, str]] = {}
        self._failed_writes = 0
        self._unproven: set[str] = set()
        self._seen_again: frozenset[str] = frozenset()
        self._seen_told: frozenset[str] = frozenset()
        self._once_listings: set[float] = set()
        self._once_applied = False
        self._drains: dict[str, Mark] = {}
        self._told_drains = Drains()
        self._kills: dict[str, Mark] = {}
        self._by_hand: dict[str, HandClean] = {}
        self._paused: Mark | None = None

    def _snapshot(
        self, plan_id: str, *, without: str | None = None, besides: Key | None = None
    ) -> Snapshot:
        """The picture of this moment; `without` or `besides` leaves one order's own flight out."""
        flights = self._flights
        records, nodes = self._runner.flights(besides)
        reasons = [*self._read_only]
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
            record_flights=flights.by_record(without) | records,
            node_flights=nodes,
            cleaned_lately=flights.cleaned_lately,
            destroyed_lately=flights.destroyed_lately,
            boots_unclaimed=(*flights.unclaimed, *self._runner.unclaimed(besides)),
            unclear=self._runner.unclear(),
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
            let_go=let_go(self._run),
            skipped=dict(flights.skipped),
            late=flights.late,
            touched=dict(flights.touched),
            gone=dict(flights.gone),
            drains=dict(self._drains),
            drain_orders=self._told_drains.orders,
            kills=dict(self._kills),
            by_hand=dict(self._by_hand),
            paused=self._paused,
        )

    @property
    def _read_only(self) -> tuple[str, ...]:
        """Why nothing may be written, but for the journal: identities, and where they are kept."""
        return (*sorted(self._mismatched.values()), *sorted(set(self._state_failed.values())))

    def _holds_lease(self) -> bool:
        holds = self._role.holds_lease()
        if self._had_lease and not holds:
            self._log.event(Event.LEASE_LOST, level=WARNING, pool=self._settings.pool)
        self._had_lease = holds
        return holds

    def _keeps_state(self, what: str, call: Callable[[], T]) -> tuple[bool, T | None]:
        """Whether the state directory did what `call` asks of it, and its answer.

        Read-only while it does not; what failed is called again with the next poll or decision.
        """
        failed_before = bool(self._state_failed)
        try:
            answer = call()
        except StartError as error:
            self._state_failed[what] = str(error)
            if not failed_before:
                self._log.event(
                    Event.STATE_FAILED, level=WARNING, reason=Reason.READ_ONLY, error=error
                )
            return False, None
        self._state_failed.pop(what, None)
        if failed_before and not self._state_failed:
            self._log.event(Event.STATE_HEALED)
        return True, answer

    def _set_breaker(self, breaker: Breaker) -> None:
        if breaker is self._breaker:
            return
        if breaker != self._breaker:
            self._scribe.save_breaker(breaker)
        self._narrator.breaker_changed(self._breaker, breaker)
        self._breaker = breaker

    def _decide_soon(self) -> None:
        if not self._deciding:
            self._deciding = True
            self.actor_ref.tell(Decide())

    def _may_be_late(self, uuid: str, at: float | None = None, *, clean: bool = False) -> None:
        """A write of ours to that record may still take effect, and nothing would refuse it."""
        if self._role.guarantee is Guarantee.CAS:
            return
        at = self._clock.boottime() if at is None else at
        late = with_late(self._flights.late, uuid, at, clean=clean)
        if late != self._flights.late:
            self._flights.late = late
            self._scribe.save_late(still_late(late, self._clock.boottime(), self._settings))

    def _throttled(self, error: RemoteError) -> None:
        """D6: back off all calls."""
        asked_s = heeded(error.retry_after, self._settings.max_retry_after)
        wait_s = asked_s or self._settings.max_poll_time
        until = self._clock.boottime() + wait_s
        self._limits = replace(
            self._limits, throttled_until=max(self._limits.throttled_until, until)
        )
        tell(self._team.cloud_list, BackOff(until))

    def _nodes_now(self) -> int:
        """The nodes there are, those created since the last listing among them."""
        planned = self._plan.counts.get("nodes", 0) if self._plan is not None else 0
        present = self._history.present
        expected = [one.node_id for one in self._expected.values() if one.node_id is not None]
        return planned + sum(node_id not in present for node_id in expected)

    def ended(self, end: End) -> None:
        """A workflow of core's came to an end; whoever's books it concerns adds to this."""
        self._flights.workflow_ended(end, self._clock.boottime())

    def _settled(self) -> None:
        """Something of ours ended. The next decision waits for the next poll: what it would be
        taken from does not show the outcome yet."""
        self._finish_once()
        self._finish_stop()

    def _finish_stop(self) -> None:
        crews = (self._setups, self._shutdowns, self._cleaner)
        if self._stopping is not None and not any(crew.busy for crew in crews):
            self._stopping.done()

    def _finish_once(self) -> None:
        if self._role.once is None or not self._once_applied:
            return
        if not self._runner.is_empty:
            waited = self._clock.boottime() - self._settings.action_timeout
            states = (one.state for one in self._runner.running.values())
            left = [state for state in states if state.is_under_way]
            unsure = [one for one in left if isinstance(one, Unsure) and one.since <= waited]
            if len(unsure) == len(left):
                # Nobody has known their outcome for long: the next run goes on with them.
                self._role.once.finished(1)
            return
        self._narrator.summary_again()
        self._role.once.finished(0)
