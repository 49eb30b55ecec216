"""The daemon's process: ordered start, signals, watchdogs, ordered stop."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import pykka
import pykka.debug

from nodemanager import __version__, adapters, log, sdnotify, wiring
from nodemanager.actors.base import tell
from nodemanager.actors.daemon.inputs import RunOnce
from nodemanager.actors.messages import Stop
from nodemanager.actors.timer import ThreadTimer
from nodemanager.clock import Clock, SystemClock
from nodemanager.config import Config
from nodemanager.core.explain.picture import Picture
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.errors import JournalReplaced, StartError
from nodemanager.from_config import settings_of
from nodemanager.httpserver import HttpServer
from nodemanager.journal.told import Teller
from nodemanager.memory import Collector, collecting
from nodemanager.operators import ANSWER_S, OperatorCommands
from nodemanager.records.api import RecordStore
from nodemanager.service.management import Management
from nodemanager.service.process import STOPS, set_up_log, wait_between_beats
from nodemanager.service.pulse import BEAT_S, Pulse
from nodemanager.service.reload import Reloader
from nodemanager.state import (
    Lease,
    LeaseTaken,
    RememberedBacklog,
    RememberedIdentity,
    StateDirectory,
)

STOP_S = 10.0
"""Seconds that an orderly stop may take beyond the time-out of the last remote call."""
REMOTE_CALL_S = 60.0


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
    actor: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class _Finished:
    code: int


class Service:
    """One run of the daemon."""

    def __init__(self, config: Config, *, dry_run: bool = False, once: bool = False) -> None:
        self._config = config
        self._dry_run = dry_run
        self._once = once
        self._clock: Clock = SystemClock()
        self._log = log.get("nodemanager.service")
        self._reloader = Reloader(config, self._log, self._clock)
        self._commands = OperatorCommands()
        self._servers: list[HttpServer] = []
        self._lease: Lease | None = None
        self._lease_problem: str | None = None
        self._inbox: queue.SimpleQueue[_Signal | _Reload | _Death | _Finished] = queue.SimpleQueue()

    def run(self) -> int:
        """Start, serve, stop; gives the exit code. The start raises ConfigError or StartError."""
        with ExitStack() as stack:
            self._heed_signals()
            system = self._start(stack)
            with collecting(self._clock) as collector:
                code, reason = self._serve(system, collector)
            sdnotify.notify("STOPPING=1")
            stop(system, reason, self._clock)
        self._log.event(
            Event.DAEMON_STOPPED, reason=reason, pool=self._config.daemon.pool, code=code
        )
        return code

    # Start.

    def _start(self, stack: ExitStack) -> wiring.System:
        config, clock = self._config, self._clock
        state = StateDirectory(config.daemon.state_dir, clock=clock)
        lease = None
        if not self._dry_run:
            self._lease = lease = state.lock()
            stack.callback(lease.release)
            self._log.event(Event.LEASE_ACQUIRED, file=str(lease.path), pool=config.daemon.pool)
        for warning in config.warnings:
            self._log.event(Event.CONFIG_WARNING, level=log.WARNING, message=warning)
        cloud = adapters.build_cloud(config, clock)
        stack.callback(cloud.close)
        records = adapters.build_records(config, state, clock)
        stack.callback(records.store.close)
        self._reloader.renewals.append(records.renew)
        if records.face is not None:
            records.face.start()
            stack.callback(records.face.stop)
            self._servers.append(records.face)
            records.served()
            self._log.event(Event.SERVER_STARTED, name="registry", url=records.face.url)
        settings = settings_of(config, cloud, records.store)
        journal = adapters.build_journal(config, clock, dry_run=self._dry_run)
        stack.callback(journal.close)
        told, teller = log.get("nodemanager.daemon"), Teller(journal, clock)
        told.listeners.append(teller.heard)
        self._log.listeners.append(teller.heard)
        show = self._manage(stack, state, told, records.pings)
        self._tell_start(settings, records.store)
        timer = ThreadTimer(clock)
        timer.start()
        stack.callback(timer.stop)
        system = wiring.start_actors(
            config,
            cloud,
            records,
            settings,
            timer=timer,
            clock=clock,
            log=told,
            identity=RememberedIdentity(state, writes=not self._dry_run),
            backlog=RememberedBacklog(state),
            holds_lease=lambda: lease is None or lease.held,
            on_death=lambda actor, error: self._inbox.put(_Death(actor, error)),
            dry_run=self._dry_run,
            once=RunOnce(lambda code: self._inbox.put(_Finished(code))) if self._once else None,
            show=show,
            journal=journal,
        )
        # After a reload it may be another one.
        stack.callback(lambda: system.cloud.close())
        self._commands.daemon = system.daemon
        sdnotify.notify("READY=1", f"STATUS=serving pool {config.daemon.pool}")
        return system

    def _tell_start(self, settings: Settings, store: RecordStore) -> None:
        """Log the settings that decisions depend on, before the first poll."""
        config = self._config
        self._log.event(
            Event.DAEMON_STARTED,
            version=__version__,
            file=str(config.path),
            pool=config.daemon.pool,
            provider=config.cloud.provider,
            store=store.provider,
            mode="dry-run" if self._dry_run else "apply",
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
        told: log.Logger,
        pings: Callable[[], int] | None,
    ) -> Callable[[Picture], None]:
        """Serve status and metrics of what is logged by `told` and shown from now on.

        `pings` tells how many pings this process has answered, if it serves the registry.
        """
        if self._once:
            return lambda picture: None
        management = Management(
            self._config,
            state,
            self._clock,
            self._commands,
            reload=self._reload_for,
            servers=tuple(self._servers),
            pings=pings,
            dry_run=self._dry_run,
        )
        server, show = management.serve(stack, (told, self._log))
        self._servers.append(server)
        self._reloader.renewals.append(lambda config: server.renew(*management.tokens(config)))
        return show

    def _heed_signals(self) -> None:
        for number in (*STOPS, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, lambda n, _: self._inbox.put(_Signal(signal.Signals(n))))

    # Serve.

    def _serve(self, system: wiring.System, collector: Collector) -> tuple[int, str]:
        """Serve until something ends it; gives the exit code and the reason."""
        watchdog = self._config.daemon.watchdog
        pulse = Pulse(
            self._clock, system.actors, min(BEAT_S, watchdog / 2), servers=tuple(self._servers)
        )
        wait_s = wait_between_beats()
        while True:
            pulse.beat()
            collector.beat()
            taken = self._keep_lease()
            if taken is not None:
                return 1, taken
            stuck = pulse.stuck(watchdog)
            for actor, age_s in stuck:
                self._log.event(Event.ACTOR_STUCK, level=log.ERROR, actor=actor, age_s=age_s)
            if stuck:
                pykka.debug.log_thread_tracebacks()
                return 1, "an actor is stuck"
            if all(server.alive for server in self._servers):
                sdnotify.notify("WATCHDOG=1")
            try:
                news = self._inbox.get(timeout=wait_s)
            except queue.Empty:
                continue
            if isinstance(news, _Finished):
                return news.code, "done once" if news.code == 0 else "a listing failed"
            if isinstance(news, _Death) and isinstance(news.error, JournalReplaced):
                self._log.event(Event.JOURNAL_FAILED, level=log.ERROR, error=news.error)
                return 1, "the journal was replaced"
            if isinstance(news, _Death):
                self._log.failure(Event.ACTOR_DIED, news.error, actor=news.actor)
                return 1, f"{news.actor} died"
            if isinstance(news, _Reload):
                news.answered(self._reloader.reload(system, news.by))
                continue
            if news.number in STOPS:
                return 0, news.number.name
            if news.number is signal.SIGHUP:
                self._reloader.reload(system)
            else:
                self._dump(system)

    def _keep_lease(self) -> str | None:
        """Why this daemon must end; None while it holds the lease or may regain it (L6)."""
        lease = self._lease
        if lease is None or lease.held:
            return None
        try:
            lease.regain(self._clock)
        except StartError as error:
            if str(error) != self._lease_problem:
                self._lease_problem = str(error)
                self._log.event(
                    Event.LEASE_LOST, level=log.ERROR, file=str(lease.path), error=error
                )
            return "the lease was taken" if isinstance(error, LeaseTaken) else None
        self._lease_problem = None
        self._log.event(
            Event.LEASE_ACQUIRED,
            level=log.WARNING,
            file=str(lease.path),
            pool=self._config.daemon.pool,
            detail="its file had been removed; nobody had taken it",
        )
        return None

    def _reload_for(self, by: str) -> dict[str, Any] | None:
        """Have the file read again; gives what came of it, None where that takes too long."""
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._inbox.put(_Reload(by, answers.put))
        try:
            return answers.get(timeout=ANSWER_S)
        except queue.Empty:
            return None

    def _dump(self, system: wiring.System) -> None:
        for actor in system.actors:
            waiting = cast("queue.Queue[Any]", actor.actor_inbox).qsize()
            self._log.event(Event.DAEMON_DUMPED, actor=actor.actor_class.__name__, count=waiting)
        pykka.debug.log_thread_tracebacks()


def stop(system: wiring.System, reason: str, clock: Clock) -> None:
    """Start nothing new, let in-flight actions end, then stop the actors."""
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


def run(config: Config, *, dry_run: bool = False, once: bool = False) -> int:
    """Run the daemon until it is told to stop; gives the exit code."""
    set_up_log(config)
    log.catch_uncaught()
    return Service(config, dry_run=dry_run, once=once).run()
