"""What the process does for its pool at one time: it acts, it stands by, or it only looks (L6, S3).

A change from one to the other is a new start within the process: other actors, which know nothing
yet, read the journal and list everything anew. What the former ones still have under way ends by
itself, and their orders no longer go out.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pykka

from nodemanager.actors.base import OnDeath, Timer
from nodemanager.actors.daemon.context import DaemonInputs, RunOnce
from nodemanager.actors.daemon.remembered import Facts, RememberedBacklog, RememberedIdentity
from nodemanager.app import adapters, wiring
from nodemanager.app.from_config import settings_of
from nodemanager.config import Config, StoreProvider
from nodemanager.core.explain.explain import APPLY, STANDBY, DecisionView
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.errors import StartError
from nodemanager.journal.logged import EventRecorder
from nodemanager.lease.keeper import Term
from nodemanager.lib.clock import Clock
from nodemanager.lib.log import INFO, WARNING, Logger
from nodemanager.sql.fence import Fence

MANAGER = f"{socket.gethostname()}:{os.getpid()}"
LAST_MESSAGE_S = 20.0
"""Seconds that the daemon actor of a former duty may take for its last message."""


@dataclass(frozen=True)
class Shared:
    """What lasts as long as the process, whatever its duty.

    `facts` are in the state directory, or where all managers of the pool find them; `own` are in
    the state directory. `decision_log` logs what is decided, `log` what the process does; the
    journal hears both.
    """

    facts: Facts
    own: Facts
    records: adapters.RecordService
    timer: Timer
    clock: Clock
    decision_log: Logger
    log: Logger
    show: Callable[[DecisionView], None]


class Duty:
    """One system of actors with what it needs, from the start of its journal to its end.

    `holds` says whether an order may go out at this moment. Nothing runs before `begin`. Raises
    ConfigError, StartError.
    """

    def __init__(
        self,
        config: Config,
        shared: Shared,
        mode: str,
        holds: Callable[[], bool],
        term: Term | None = None,
    ) -> None:
        self.config, self.mode, self.term = config, mode, term
        self._shared, self._holds = shared, holds
        self._closing = ExitStack()
        with ExitStack() as failed:
            failed.callback(self._closing.close)
            clock, acts = shared.clock, mode == APPLY
            fence = None
            self._records = shared.records
            if term is not None:
                fence = Fence(config.daemon.pool, term.token, term.holder)
                self._records = _fenced(shared.records, fence)
            self._cloud = adapters.build_cloud(config, clock)
            self._closing.callback(self._cloud.close)
            self.settings: Settings = settings_of(config, self._cloud, self._records.store)
            self._journal = adapters.build_journal(config, clock, dry_run=not acts, fence=fence)
            self._closing.callback(self._journal.close)
            self._backlog = _backlog(shared.facts, mode)
            failed.pop_all()
        self._recorder = EventRecorder(self._journal, clock)
        for one in (shared.decision_log, shared.log):
            one.listeners = [*one.listeners, self._recorder.heard]
        if term is not None:
            # It was logged before this journal was open.
            level = WARNING if term.after_another else INFO
            holding = {"pool": config.daemon.pool, "holder": term.holder, "token": term.token}
            self._recorder.heard(Event.LEASE_ACQUIRED, level, holding)

    @property
    def call_s(self) -> float:
        """Seconds after which no order that went out is under way any more.

        A database that knows the token of the lease takes none of a former holder's.
        """
        limits = [self._cloud.timeout]
        if self.config.records.provider is StoreProvider.ARVADOS:
            limits.append(self.config.arvados.timeout)
        return max(limits)

    def begin(self, on_death: OnDeath, once: RunOnce | None) -> wiring.System:
        shared, term = self._shared, self.term
        inputs = DaemonInputs(
            manager=MANAGER,
            journal=self._journal,
            identity=RememberedIdentity(shared.facts, writes=self.mode == APPLY, own=shared.own),
            backlog=self._backlog,
            mode=self.mode,
            token=0 if term is None else term.token,
            holds_lease=self._holds,
            show=shared.show,
            once=once,
        )
        self.system = wiring.start_actors(
            self.config,
            self._cloud,
            self._records,
            self.settings,
            inputs,
            timer=shared.timer,
            clock=shared.clock,
            log=shared.decision_log,
            on_death=on_death,
        )
        return self.system

    def abandon(self) -> None:
        """End the actors without waiting for their calls, and close the journal.

        The journal has what is under way: whoever acts next goes on with it (R1).
        """
        daemon, *team = self.system.actors
        for actor in team:
            actor.stop(block=False)
        with contextlib.suppress(pykka.Timeout):
            daemon.stop(block=True, timeout=LAST_MESSAGE_S)
        self.close()

    def close(self) -> None:
        """Close the journal and the connections; idempotent."""
        for one in (self._shared.decision_log, self._shared.log):
            one.listeners = [each for each in one.listeners if each != self._recorder.heard]
        self._closing.close()


def always() -> bool:
    """Without a lease there is nothing to lose."""
    return True


def _fenced(records: adapters.RecordService, fence: Fence) -> adapters.RecordService:
    store = records.store if records.fenced is None else records.fenced(fence)
    return replace(records, store=store)


def _backlog(facts: Facts, mode: str) -> RememberedBacklog:
    """What is held back. A standby, which frees nothing, does without where it can't be read now.

    Raises StartError.
    """
    remembered = RememberedBacklog(facts)
    try:
        remembered.load()
    except StartError:
        if mode != STANDBY:
            raise
        return RememberedBacklog(None)
    return remembered
