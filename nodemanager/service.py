"""The daemon's process: ordered start, signals, watchdogs, ordered stop."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pykka
import pykka.debug

from nodemanager import __version__, control, log, sdnotify, wiring
from nodemanager.actors.base import tell
from nodemanager.actors.daemon.inputs import Once
from nodemanager.actors.messages import ApplySettings, Beat, Stop
from nodemanager.actors.timer import ThreadTimer
from nodemanager.clock import Clock, SystemClock
from nodemanager.config import Config, diff, ini, load, reloaded
from nodemanager.core.explain.picture import Picture
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.errors import ConfigError, StartError
from nodemanager.from_config import (
    advice_on_draining,
    advice_on_prices,
    advice_on_scheduler,
    secrets_of,
    settings_of,
    sizes_of,
    user_data_of,
    with_spares,
)
from nodemanager.httpserver import HttpServer
from nodemanager.journal.told import Teller
from nodemanager.memory import Collector, collecting
from nodemanager.operators import ANSWER_S, BacklogCommands, OperatorCommands
from nodemanager.records.api import RecordStore
from nodemanager.state import (
    Lease,
    LeaseTaken,
    RememberedBacklog,
    RememberedIdentity,
    StateDirectory,
)
from nodemanager.web.dashboard.dashboard import Dashboard
from nodemanager.web.dashboard.history import SlotHistory
from nodemanager.web.explain import Explanations
from nodemanager.web.metrics import Metrics
from nodemanager.web.observer import WebObserver
from nodemanager.web.server import ManagementServer
from nodemanager.web.status import Board

_log = log.get(__name__)

STOP_S = 10.0
"""Seconds that an orderly stop may take beyond the time-out of the last remote call."""
REMOTE_CALL_S = 60.0
BEAT_S = 5.0
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals for an orderly stop; Arvados Node Manager took SIGQUIT, too."""


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


@dataclass
class Pulse:
    """Checks that each actor and each HTTP server still answers.

    Beats go through the same mailboxes and event loops as all other messages. Only time in which
    this process ran counts: after a suspend or a SIGSTOP every actor first gets time to answer.
    So the time between two beats counts as `most` seconds at most.
    """

    clock: Clock
    actors: tuple[pykka.ActorRef[Any], ...]
    most: float = BEAT_S
    ran_s: float = 0.0
    beaten_at: float | None = None
    asked: dict[str, float] = field(default_factory=dict)
    servers: tuple[HttpServer, ...] = ()

    def beat(self) -> None:
        now = self.clock.boottime()
        if self.beaten_at is not None:
            self.ran_s += min(now - self.beaten_at, self.most)
        self.beaten_at = now
        for actor in self.actors:
            urn = actor.actor_urn
            if urn not in self.asked:
                self.asked[urn] = self.ran_s
                tell(actor, Beat(self._answer_for(urn)))
        for server in self.servers:
            if server.name not in self.asked:
                self.asked[server.name] = self.ran_s
                server.ask(self._answer_for(server.name))

    def _answer_for(self, urn: str) -> Callable[[], None]:
        def answered() -> None:
            self.asked.pop(urn, None)

        return answered

    def stuck(self, longest: float) -> list[tuple[str, float]]:
        """The actors and servers without an answer for over `longest` seconds, and the seconds."""
        asked = self.asked.copy()
        names = {actor.actor_urn: actor.actor_class.__name__ for actor in self.actors}
        names |= {server.name: f"http-{server.name}" for server in self.servers}
        return [
            (name, self.ran_s - asked[key])
            for key, name in names.items()
            if key in asked and self.ran_s - asked[key] > longest
        ]


class Service:
    """One run of the daemon."""

    def __init__(self, config: Config, *, dry_run: bool = False, once: bool = False) -> None:
        self._config = config
        self._dry_run = dry_run
        self._once = once
        self._clock: Clock = SystemClock()
        self._log = log.get(__name__)
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
        cloud = wiring.build_cloud(config, clock)
        stack.callback(cloud.close)
        records = wiring.build_records(config, state, clock)
        stack.callback(records.store.close)
        if records.face is not None:
            records.face.start()
            stack.callback(records.face.stop)
            self._servers.append(records.face)
            records.served()
            self._log.event(Event.SERVER_STARTED, name="registry", url=records.face.url)
        settings = settings_of(config, cloud, records.store)
        journal = wiring.build_journal(config, clock, dry_run=self._dry_run)
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
            once=Once(lambda code: self._inbox.put(_Finished(code))) if self._once else None,
            show=show,
            journal=journal,
        )
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
        config = self._config
        if self._once:
            return lambda picture: None
        given = config.manage.management_token
        token = given.reveal() if given is not None else state.token("management")
        board = Board(self._clock)
        metrics = Metrics(config.daemon.pool, self._clock)
        for face in self._servers:
            metrics.count_refusals(face.refusals)
        if pings is not None:
            metrics.count_pings(pings)
        explanations = Explanations(wiring.journal_path(config, dry_run=self._dry_run))
        read, public = config.manage.read_token, config.manage.public_url
        healthy_for = max(config.daemon.poll_stale_after, 2 * config.daemon.max_poll_time)
        slots = SlotHistory(state.path / f"slots{'-dry-run' * self._dry_run}.history")
        server = ManagementServer(
            board,
            metrics,
            listen=(config.manage.address, config.manage.port),
            control_socket=control.place(state.path, os.environ),
            takes_over=not self._dry_run,
            token=token,
            commands=self._commands,
            backlog=BacklogCommands(self._commands),
            explanations=explanations,
            healthy_for=healthy_for,
            read_token=None if read is None else read.reveal(),
            public_url=None if public is None else public.url,
            dashboard=Dashboard(board, explanations, slots, self._clock, old_after=healthy_for),
            reload=self._reload_for,
        )
        server.start()
        stack.callback(server.stop)
        self._servers.append(server)
        observer = WebObserver(
            board, metrics, holder=str(state.path), explanations=explanations, slots=slots
        )
        told.listeners.append(observer.heard)
        self._log.listeners.append(observer.heard)
        return observer.show

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
        interval = sdnotify.watchdog_interval()
        wait_s = min(BEAT_S, interval / 3) if interval is not None else BEAT_S
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
            if isinstance(news, _Death):
                self._log.failure(Event.ACTOR_DIED, news.error, actor=news.actor)
                return 1, f"{news.actor} died"
            if isinstance(news, _Reload):
                news.answered(self._reload(system, news.by))
                continue
            if news.number in STOPS:
                return 0, news.number.name
            if news.number is signal.SIGHUP:
                self._reload(system)
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

    def _reload(self, system: wiring.System, by: str | None = None) -> dict[str, Any]:
        """Apply the changed windows and limits of the file; a wrong file changes nothing.

        Gives the answer of `nodemanager reload` (web.reload).
        """
        sdnotify.reloading()
        try:
            new = load(self._config.path, accepts=wiring.accepted_keys)
        except ConfigError as error:
            for problem in error.problems:
                self._log.event(Event.CONFIG_WARNING, level=log.ERROR, message=problem)
            self._log.event(
                Event.DAEMON_RELOADED, level=log.ERROR, outcome="refused, nothing changed", by=by
            )
            sdnotify.notify("READY=1")
            return {"done": False, "problems": list(error.problems), "changes": []}
        changes = diff(self._config, new)
        for change in changes:
            self._log.event(
                Event.CONFIG_CHANGED,
                level=log.INFO if change.reloadable else log.WARNING,
                option=f"[{change.section}] {change.option}",
                old=change.old,
                new=change.new,
                action="applied" if change.reloadable else "needs a restart",
            )
        self._config = taken = reloaded(self._config, new)
        # Sizes stay as at the start, so that a reload never waits for the cloud.
        sizes = with_spares(system.settings.sizes, taken)
        settings = settings_of(taken, system.cloud, system.records.store, sizes)
        tell(system.daemon, ApplySettings(settings))
        team = system.team
        pollers = (team.cloud_list, team.record_list, team.demand)
        for poller, every in zip(pollers, wiring.poll_intervals(taken, settings), strict=True):
            if poller is not None:
                tell(poller, every)
        file = str(self._config.path)
        self._log.event(Event.DAEMON_RELOADED, file=file, outcome="applied", by=by)
        sdnotify.notify("READY=1")
        told = [
            {
                "option": f"[{change.section}] {change.option}",
                "old": change.old,
                "new": change.new,
                "applied": change.reloadable,
            }
            for change in changes
        ]
        return {"done": True, "problems": [], "changes": told}

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


def _set_up_log(config: Config) -> None:
    logging = config.logging
    log.setup(str(logging.file), logging.level, config.log_levels, logging.format)
    log.hide(*secrets_of(config))


def run(config: Config, *, dry_run: bool = False, once: bool = False) -> int:
    """Run the daemon until it is told to stop; gives the exit code."""
    _set_up_log(config)
    log.catch_uncaught()
    return Service(config, dry_run=dry_run, once=once).run()


def serve_registry(config: Config) -> int:
    """Serve the registry on its own until it is told to stop; gives the exit code."""
    _set_up_log(config)
    clock = SystemClock()
    inbox: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in STOPS:
        signal.signal(number, lambda n, _: inbox.put(n))
    state = StateDirectory(config.daemon.state_dir, clock=clock)
    records = wiring.build_registry(config, state, clock)
    if records.face is None:
        raise StartError("[Registry] listen is blank: there is nothing to serve")
    records.face.start()
    try:
        _log.event(Event.SERVER_STARTED, name="registry", url=records.face.url)
        sdnotify.notify("READY=1", f"STATUS=serving on {records.face.url}")
        interval = sdnotify.watchdog_interval()
        # Never for ever: a signal that comes right before the wait, or that another thread takes,
        # does not end it, and its handler runs after it.
        wait_s = min(BEAT_S, interval / 3) if interval is not None else BEAT_S
        while True:
            if records.face.alive:
                sdnotify.notify("WATCHDOG=1")
            try:
                inbox.get(timeout=wait_s)
            except queue.Empty:
                continue
            return 0
    finally:
        sdnotify.notify("STOPPING=1")
        records.face.stop()
        records.store.close()
        _log.event(Event.DAEMON_STOPPED, name="registry")


def check(path: Path) -> tuple[Config, list[str]]:
    """The configuration as the daemon would use it, and its warnings.

    Builds the adapters, so that it finds their errors, too, but sends no request to any server.
    """
    sections = ini.read(path).sections
    needs_cloud = "Cloud" in sections or "Registry" not in sections
    config = load(path, accepts=wiring.accepted_keys, require_cloud=needs_cloud)
    if not needs_cloud:
        return config, list(config.warnings)
    cloud = wiring.build_cloud(config, SystemClock())
    try:
        sizes = sizes_of(config, cloud)
        user_data_of(config)
    finally:
        cloud.close()
    advice = [
        *advice_on_prices(config, sizes),
        *advice_on_draining(config),
        *advice_on_scheduler(config),
    ]
    return config, [*map(str, config.warnings), *advice]
