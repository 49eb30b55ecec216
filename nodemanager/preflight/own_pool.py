"""The daemon of the pre-flight's own pool: its configuration, its state, its actors."""

from __future__ import annotations

import hashlib
import os
import queue
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.actors.base import ThreadTimer
from nodemanager.actors.daemon.context import DaemonInputs
from nodemanager.actors.daemon.remembered import RememberedBacklog, RememberedIdentity
from nodemanager.app import adapters, wiring
from nodemanager.app.from_config import secrets_of, settings_of
from nodemanager.app.state import StateDirectory
from nodemanager.config import Config
from nodemanager.config.values import AdoptUnclaimed, Dispatcher
from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Size
from nodemanager.core.observe.pools import preflight_of
from nodemanager.errors import NodeManagerError, StartError
from nodemanager.lib import log
from nodemanager.lib.clock import Clock

POLL_S = 5.0
PATIENCE_S = 60.0
"""Seconds after which the daemon would end a node that the pre-flight ends for its silence."""


class StepFailed(NodeManagerError):
    """A step did not come to its end."""

    def __init__(self, text: str, to_do: str = "") -> None:
        super().__init__(text)
        self.to_do = to_do


def pool_config(config: Config) -> Config:
    """The configuration of the pre-flight's own pool: short polls, no cap, no demand command."""
    timing = config.daemon
    poll_s = min(POLL_S, timing.poll_time)
    daemon = replace(
        timing,
        pool=preflight_of(timing.pool),
        min_nodes=0,
        max_nodes=1,
        max_total_price=0.0,
        poll_time=poll_s,
        cloudlist_poll_time=poll_s,
        nodelist_poll_time=poll_s,
        wishlist_poll_time=min(1.0, poll_s),
        wishlist_command=None,
        dispatcher=Dispatcher.PING,
    )
    cleaning = replace(config.cleaning, adopt_unclaimed=AdoptUnclaimed.NO, prune_after=None)
    return replace(config, daemon=daemon, cleaning=cleaning)


@dataclass(frozen=True)
class Started:
    """The running daemon. `fence_s` is how long the store's fences stand, in seconds."""

    system: wiring.System
    settings: Settings
    fence_s: float


@dataclass(frozen=True)
class OwnPool:
    """Starts a daemon for nodes of `size`, which may take `wait_s` seconds to ping."""

    config: Config
    size: Size
    wait_s: float
    clock: Clock

    def start(
        self,
        inbox: queue.SimpleQueue[Any],
        demand: adapters.Wishlist,
        served: Callable[[str], None],
        stack: ExitStack,
    ) -> Started:
        """Start it; `stack` ends what it needs, except its actors.

        What it logs, shows and dies of is put into `inbox`; `served` is told who serves the
        registry. Raises ConfigError, StartError.
        """
        own, clock = pool_config(self.config), self.clock
        of_pool = StateDirectory(self.config.daemon.state_dir, clock=clock)
        cloud = adapters.build_cloud(own, clock)
        stack.callback(cloud.close)
        records = adapters.build_records(self.config, of_pool, clock)
        stack.callback(records.store.close)
        _serve(records, served, stack)
        directory = _directory(cloud.account(), records.store.store_id())
        state = StateDirectory(of_pool.path / directory, clock=clock)
        log.setup(str(state.path / "log"), "INFO")
        log.hide(*secrets_of(self.config))
        lease = state.lock()
        stack.callback(lease.release)
        own = replace(own, journal=replace(own.journal, path=state.path / "journal.db"))
        settings = settings_of(own, cloud, records.store, (self.size,))
        # The pre-flight itself ends a node that does not ping in time.
        patience = max(settings.boot_fail_after, self.wait_s + PATIENCE_S)
        settings = changed(settings, demand_polled=True, boot_fail_after=patience)
        journal = adapters.build_journal(own, clock)
        stack.callback(journal.close)
        logger = log.get("nodemanager.preflight")
        logger.listeners.append(lambda event, level, fields: inbox.put((event, fields)))
        timer = ThreadTimer(clock)
        timer.start()
        stack.callback(timer.stop)
        inputs = DaemonInputs(
            manager=f"{socket.gethostname()}:{os.getpid()}",
            journal=journal,
            identity=RememberedIdentity(state, writes=True),
            backlog=RememberedBacklog(state),
            holds_lease=lambda: lease.held,
            show=inbox.put,
        )
        system = wiring.start_actors(
            own,
            cloud,
            records,
            settings,
            inputs,
            timer=timer,
            clock=clock,
            log=logger,
            on_death=lambda actor, error: inbox.put(StepFailed(f"{actor} died: {error}")),
            wishlist=demand,
        )
        return Started(system, settings, records.store.settle_wait)


def _directory(account: str, store: str) -> str:
    """A directory for each account and store: to try another is no change of identity (L5)."""
    return f"preflight-{hashlib.sha256(f'{account} {store}'.encode()).hexdigest()[:12]}"


def _serve(
    records: adapters.RecordService, served: Callable[[str], None], stack: ExitStack
) -> None:
    """Serve the registry as the daemon would, unless one already serves there."""
    if records.face is None:
        return
    try:
        records.face.start()
    except StartError as error:
        records.served()
        if not records.store.probe():
            raise StartError(
                f"{error}; what listens there does not answer as this registry would"
            ) from error
        served(f"a running daemon serves {records.face.url}")
        return
    stack.callback(records.face.stop)
    records.served()
    served(f"served by this pre-flight itself on {records.face.url}")
