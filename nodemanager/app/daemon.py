"""The daemon's process: ordered start, signals, watchdogs, ordered stop."""

from __future__ import annotations

import math
import queue
import secrets
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, cast

import pykka
import pykka.debug

from nodemanager import __version__
from nodemanager.actors.base import ThreadTimer, tell
from nodemanager.actors.daemon.context import RunOnce
from nodemanager.actors.messages import Beat, Stop
from nodemanager.app import adapters, wiring
from nodemanager.app.comparison import Comparison
from nodemanager.app.duty import MANAGER, Duty, Shared, always
from nodemanager.app.management import ANSWER_S, Management, OperatorCommands
from nodemanager.app.process import BEAT_S, STOPS, Pulse, set_up_log, wait_between_beats
from nodemanager.app.reload import Reloader
from nodemanager.app.state import Lease, LeaseTaken, StateDirectory
from nodemanager.config import Config
from nodemanager.core.explain.explain import APPLY, DRY_RUN, STANDBY, DecisionView
from nodemanager.core.model.reasons import Event
from nodemanager.core.safety import lease as rules
from nodemanager.core.safety.lease import LeaseRole, LeaseView
from nodemanager.errors import JournalReplaced, StartError
from nodemanager.httpserver.server import HttpServer
from nodemanager.lease.keeper import Keeper, LeaseTable, Term
from nodemanager.lib import log, sdnotify
from nodemanager.lib.clock import Clock, SystemClock
from nodemanager.lib.memory import Collector, collecting

STOP_S = 10.0
"""Seconds that an orderly stop may take beyond the time-out of the last remote call."""
REMOTE_CALL_S = 60.0
TRY_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class _Signal:
    number: signal.Signals


@dataclass(frozen=True, slots=True)
class _Reload:
    """An operator's command to read the file again; `answered` takes what came of it."""

    by: str
    answered: Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class _Death:
    duty: Duty
    actor: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class _Leased:
    """The term of the lease that began; None: another manager has ended ours."""

    term: Term | None


@dataclass(frozen=True, slots=True)
class _Finished:
    code: int


_News = _Signal | _Reload | _Death | _Finished | _Leased


class Service:
    """One run of the daemon.

    Its servers and its files last as long as the process. The actors last for one `Duty`: a manager
    whose lease is in a database stands by with other actors than it acts with.
    """

    _shared: Shared
    _duty: Duty

    def __init__(self, config: Config, *, dry_run: bool = False, once: bool = False) -> None:
        self._config = config
        self._dry_run = dry_run
        self._once = once
        self._clock: Clock = SystemClock()
        self._log = log.get("nodemanager.app")
        self._reloader = Reloader(config, self._log, self._clock)
        self._commands = OperatorCommands()
        self._servers: list[HttpServer] = []
        self._lock: Lease | None = None
        self._lock_problem: str | None = None
        self._keeper: Keeper | None = None
        self._coming: Term | None = None
        """The term under which we are to act, once the former holder's last calls are over."""
        self._waits: Term | None = None
        """The one that the log says it waits for."""
        self._inbox: queue.SimpleQueue[_News] = queue.SimpleQueue()

    def run(self) -> int:
        """Start, serve, stop; gives the exit code. The start raises ConfigError or StartError."""
        with ExitStack() as stack:
            self._heed_signals()
            self._start(stack)
            with collecting(self._clock) as collector:
                code, reason = self._serve(collector)
            sdnotify.notify("STOPPING=1")
            is_over = stop(self._duty.system, reason, self._clock)
            if self._keeper is not None:
                self._keeper.stop(gives_back=is_over)
        self._log.event(
            Event.DAEMON_STOPPED, reason=reason, pool=self._config.daemon.pool, code=code
        )
        return code

    # Start.

    def _start(self, stack: ExitStack) -> None:
        config, clock = self._config, self._clock
        state = StateDirectory(config.daemon.state_dir, clock=clock)
        leases = None
        if not self._dry_run:
            self._lock = state.lock()
            stack.callback(self._lock.release)
            leases = adapters.build_leases(config, clock)
        if leases is not None:
            stack.callback(leases.close)
        if leases is None and self._lock is not None:
            file = str(self._lock.path)
            self._log.event(Event.LEASE_ACQUIRED, file=file, pool=config.daemon.pool)
        for warning in config.warnings:
            self._log.event(Event.CONFIG_WARNING, level=log.WARNING, message=warning)
        records = adapters.build_records(config, state, clock)
        stack.callback(records.store.close)
        self._reloader.renewals.append(records.renew)
        if records.face is not None:
            records.face.start()
            stack.callback(records.face.stop)
            self._servers.append(records.face)
            records.served()
            self._log.event(Event.SERVER_STARTED, name="registry", url=records.face.url)
        decision_log = log.get("nodemanager.daemon")
        show = self._manage(stack, state, decision_log, records.pings)
        timer = ThreadTimer(clock)
        timer.start()
        stack.callback(timer.stop)
        facts = leases or state
        if leases is not None:
            show = self._compared(stack, leases, show)
        self._shared = Shared(facts, state, records, timer, clock, decision_log, self._log, show)
        self._coming = None if leases is None else self._first_term(stack, leases)
        # Who takes the lease from another one waits first, standing by.
        is_next = self._coming is not None and not self._coming.after_another
        self._duty = self._next_duty(self._coming if is_next else None)
        stack.callback(lambda: self._duty.close())
        self._begin(self._duty)
        if self._keeper is not None:
            self._keeper.start()
        sdnotify.notify("READY=1", f"STATUS=serving pool {config.daemon.pool}")

    def _first_term(self, stack: ExitStack, leases: LeaseTable) -> Term | None:
        """Ask for the lease; None where we stand by.

        `--once` waits for it as long as nobody may have it. Raises StartError if somebody has.
        """
        config, clock = self._config, self._clock
        keeper = self._keeper = Keeper(
            leases,
            pool=config.daemon.pool,
            holder=f"{MANAGER}:{secrets.token_hex(4)}",
            duration=config.lease.duration,
            clock=clock,
            log=self._log,
            changed=lambda term: self._inbox.put(_Leased(term)),
        )
        # What ends by an error gives the lease back as well: nothing was sent yet.
        stack.callback(lambda: keeper.stop(gives_back=False))
        gives_up_at = clock.boottime() + (2 * config.lease.duration if self._once else 0.0)
        wait_s = keeper.step()
        while keeper.term is None and clock.boottime() < gives_up_at:
            time.sleep(wait_s)
            wait_s = keeper.step()
        if self._once and keeper.term is None:
            holder = keeper.view().holder
            raise StartError(
                f"{holder} acts for the pool: --once needs the lease"
                if holder is not None
                else "the lease's database does not answer, and --once needs the lease"
            )
        return keeper.term

    def _compared(
        self, stack: ExitStack, leases: LeaseTable, show: Callable[[DecisionView], None]
    ) -> Callable[[DecisionView], None]:
        """Show each decision, and compare it with those of the manager that acts."""
        every_s = self._config.lease.duration / rules.RENEWALS
        comparison = Comparison(
            leases, self._view, every_s=every_s, clock=self._clock, log=self._log
        )
        comparison.start()
        stack.callback(comparison.stop)

        def take(decision: DecisionView) -> None:
            show(decision)
            comparison.take(decision)

        return take

    def _next_duty(self, term: Term | None) -> Duty:
        """What to do now: act under `term`, or without a lease in a database; or stand by.

        Raises ConfigError, StartError.
        """
        config = self._reloader.config
        if self._dry_run:
            mode, holds = DRY_RUN, always
        elif self._keeper is None:
            mode, holds = APPLY, self._holds_lock
        elif term is None:
            mode, holds = STANDBY, always
        else:
            mode, holds = APPLY, lambda: term.holds() and self._holds_lock()
        return Duty(config, self._shared, mode, holds, term)

    def _holds_lock(self) -> bool:
        return self._lock is not None and self._lock.held

    @property
    def _finishes(self) -> RunOnce:
        return RunOnce(lambda code: self._inbox.put(_Finished(code)))

    def _begin(self, duty: Duty) -> None:
        """Start the actors of `duty`."""
        self._duty = duty
        self._tell_start(duty)
        system = duty.begin(
            on_death=lambda actor, error: self._inbox.put(_Death(duty, actor, error)),
            once=self._finishes if self._once and duty.mode != STANDBY else None,
        )
        self._commands.daemon = system.daemon
        self._pulse = Pulse(
            self._clock,
            system.actors,
            min(BEAT_S, self._config.daemon.watchdog / 2),
            servers=tuple(self._servers),
        )

    def _tell_start(self, duty: Duty) -> None:
        """Log the settings that decisions depend on, before the first poll."""
        config, settings = duty.config, duty.settings
        self._log.event(
            Event.DAEMON_STARTED,
            version=__version__,
            file=str(config.path),
            pool=config.daemon.pool,
            provider=config.cloud.provider,
            store=self._shared.records.store.provider,
            mode=duty.mode,
            min_nodes=settings.min_nodes,
            max_nodes=settings.max_nodes,
            node_stale_after_s=settings.node_stale_after,
            poll_stale_after_s=settings.poll_stale_after,
            boot_fail_after_s=settings.boot_fail_after,
            settle_s=settings.settle,
            poll_s=config.daemon.poll_time,
        )

    def _manage(
        self,
        stack: ExitStack,
        state: StateDirectory,
        decision_log: log.Logger,
        pings: Callable[[], int] | None,
    ) -> Callable[[DecisionView], None]:
        """Serve status and metrics of what is logged by `decision_log` and shown from now on.

        `pings` tells how many pings this process has answered, if it serves the registry.
        """
        if self._once:
            return lambda decision: None
        self._commands.elsewhere = self._acts_elsewhere
        management = Management(
            self._config,
            state,
            self._clock,
            self._commands,
            reload=self._reload_for,
            servers=tuple(self._servers),
            pings=pings,
            dry_run=self._dry_run,
            lease=self._view,
        )
        server, show = management.serve(stack, (decision_log, self._log))
        self._servers.append(server)
        self._reloader.renewals.append(lambda config: server.renew(*management.tokens(config)))
        return show

    def _heed_signals(self) -> None:
        for number in (*STOPS, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, lambda n, _: self._inbox.put(_Signal(signal.Signals(n))))

    # Serve.

    def _serve(self, collector: Collector) -> tuple[int, str]:
        """Serve until something ends it; gives the exit code and the reason."""
        watchdog = self._config.daemon.watchdog
        wait_s = wait_between_beats()
        while True:
            self._pulse.beat()
            collector.beat()
            taken = self._keep_lock()
            if taken is not None:
                return 1, taken
            stuck = self._pulse.stuck(watchdog)
            for actor, age_s in stuck:
                self._log.event(Event.ACTOR_STUCK, level=log.ERROR, actor=actor, age_s=age_s)
            if stuck:
                pykka.debug.log_thread_tracebacks()
                return 1, "an actor is stuck"
            if all(server.alive for server in self._servers):
                sdnotify.notify("WATCHDOG=1")
            try:
                news = self._inbox.get(timeout=min(wait_s, self._take_over()))
            except queue.Empty:
                continue
            end = self._end_by(news)
            if end is not None:
                return end

    def _end_by(self, news: _News) -> tuple[int, str] | None:
        """Take one message; gives the exit code and the reason where it ends the process."""
        match news:
            case _Finished(code=code):
                return code, "done once" if code == 0 else "a listing failed"
            case _Death(duty=duty) if duty is not self._duty:
                # Its journal is closed, and whoever acts now knows better.
                return None
            case _Death(error=JournalReplaced() as error):
                self._log.event(Event.JOURNAL_FAILED, level=log.ERROR, error=error)
                return 1, "the journal was replaced"
            case _Death():
                self._log.failure(Event.ACTOR_DIED, news.error, actor=news.actor)
                return 1, f"{news.actor} died"
            case _Leased(term=term):
                self._coming = term
                if term is None and self._duty.term is not None:
                    self._change_to(None)
            case _Reload():
                news.answered(self._reloader.reload(self._duty.system, news.by))
            case _Signal(number=number) if number in STOPS:
                return 0, number.name
            case _Signal(number=signal.SIGHUP):
                self._reloader.reload(self._duty.system)
            case _Signal():
                for actor in self._duty.system.actors:
                    waiting = cast("queue.Queue[Any]", actor.actor_inbox).qsize()
                    self._log.event(
                        Event.DAEMON_DUMPED, actor=actor.actor_class.__name__, count=waiting
                    )
                pykka.debug.log_thread_tracebacks()
        return None

    # The lease.

    def _take_over(self) -> float:
        """Act under the lease that we have got, once we may; gives the seconds until then."""
        term = self._coming
        if term is None or term is self._duty.term:
            return math.inf
        given_back = not term.after_another
        begins_at = rules.acts_from(term.taken_at, self._duty.call_s, was_given_back=given_back)
        wait_s = begins_at - self._clock.boottime()
        if wait_s > 0:
            if self._waits is not term:
                self._waits = term
                self._log.event(Event.LEASE_WAITS, token=term.token, wait_s=wait_s)
            return wait_s
        if not term.holds():
            return TRY_AGAIN_S
        try:
            self._change_to(term)
        except StartError as error:
            # The database, or the disk: we hold the lease, and stand by until it is mended.
            self._log.event(Event.STATE_FAILED, level=log.ERROR, error=error)
            return TRY_AGAIN_S
        return math.inf

    def _change_to(self, term: Term | None) -> None:
        """Act under `term`, or stand by. Raises StartError, and then nothing has changed."""
        former, duty = self._duty, self._next_duty(term)
        former.abandon()
        self._begin(duty)

    def _view(self) -> LeaseView:
        """The lease for status and health; a manager that has it and does not act yet stands by."""
        if self._dry_run:
            return LeaseView(LeaseRole.NONE)
        if self._keeper is None:
            return LeaseView(LeaseRole.ACTIVE if self._holds_lock() else LeaseRole.NONE, MANAGER)
        view = self._keeper.view()
        if view.is_active and self._duty.mode != APPLY:
            return replace(view, role=LeaseRole.STANDBY)
        return view

    def _acts_elsewhere(self) -> str | None:
        """Why a command can't be given to this manager, and to whom it is to be given; or None."""
        if self._keeper is None or self._duty.mode == APPLY:
            return None
        holder = self._keeper.view().holder
        if holder is None:
            return "this manager stands by, and does not know yet who acts for the pool"
        if holder == self._keeper.holder:
            return "this manager takes over the pool just now; try again in a minute"
        return f"this manager stands by: {holder} acts for the pool; give the command there"

    def _keep_lock(self) -> str | None:
        """Why this daemon must end; None while it has its lock file or may regain it (L6)."""
        lock = self._lock
        if lock is None or lock.held:
            return None
        try:
            lock.regain(self._clock)
        except StartError as error:
            if str(error) != self._lock_problem:
                self._lock_problem = str(error)
                self._log.event(Event.LEASE_LOST, level=log.ERROR, file=str(lock.path), error=error)
            return "the lease was taken" if isinstance(error, LeaseTaken) else None
        self._lock_problem = None
        self._log.event(
            Event.LEASE_ACQUIRED,
            level=log.WARNING,
            file=str(lock.path),
            pool=self._config.daemon.pool,
            detail="its file had been removed; nobody had taken it",
        )
        return None

    def _reload_for(self, by: str) -> dict[str, Any] | None:
        """Have the file read again; gives what came of it, None where that takes too long."""
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._inbox.put(_Reload(by, answers.put))
        try:
            answer = answers.get(timeout=ANSWER_S)
        except queue.Empty:
            return None
        # Once it beats, the daemon actor has what it was sent before: whoever looks is shown that.
        self._commands.ask(lambda answered: Beat(lambda: answered(None)))
        return answer


def stop(system: wiring.System, reason: str, clock: Clock) -> bool:
    """Start nothing new, let in-flight actions end, then stop the actors; whether all ended."""
    done = threading.Event()
    for poller in (system.team.cloud_list, system.team.record_list, system.team.demand):
        if isinstance(poller, pykka.ActorRef):
            poller.stop(block=False)
    if system.daemon.is_alive():
        tell(system.daemon, Stop(reason, done.set))
        deadline = clock.boottime() + REMOTE_CALL_S + STOP_S
        # A daemon actor that dies now never calls `done.set`.
        while not done.wait(0.2) and system.daemon.is_alive():
            if clock.boottime() > deadline:
                break
    for actor in system.actors:
        actor.stop(block=False)
    return done.is_set()


def run(config: Config, *, dry_run: bool = False, once: bool = False) -> int:
    """Run the daemon until it is told to stop; gives the exit code."""
    set_up_log(config)
    log.catch_uncaught()
    return Service(config, dry_run=dry_run, once=once).run()
