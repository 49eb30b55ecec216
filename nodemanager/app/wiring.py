"""The composition root: starts the actors with the adapters that a configuration names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import pykka

from nodemanager.actors.base import OnDeath, TeamContext, Timer
from nodemanager.actors.daemon.context import DaemonInputs
from nodemanager.actors.daemon.daemon import NodeManagerDaemonActor
from nodemanager.actors.messages import Begin, PollEvery, Team
from nodemanager.actors.net import netted, netted_call
from nodemanager.actors.poll import polling
from nodemanager.actors.workers.workers import NodeSetupActor, NodeShutdownActor, RecordCleanerActor
from nodemanager.app.adapters import RecordService, Wishlist, scheduler_of, wishlist_of
from nodemanager.app.from_config import user_data_of
from nodemanager.cloud.api import CloudDriver
from nodemanager.config import Config
from nodemanager.core.explain.explain import APPLY
from nodemanager.core.model.settings import Settings
from nodemanager.errors import CloudError, SchedulerError, StoreError
from nodemanager.lib.clock import Clock
from nodemanager.lib.log import Logger


@dataclass(frozen=True)
class System:
    """The parts of one running daemon."""

    config: Config
    context: TeamContext
    records: RecordService
    settings: Settings
    daemon: pykka.ActorRef[NodeManagerDaemonActor]
    team: Team

    @property
    def cloud(self) -> CloudDriver:
        return self.context.cloud

    @property
    def actors(self) -> tuple[pykka.ActorRef[Any], ...]:
        team = cast("tuple[pykka.ActorRef[Any], ...]", self.team.actors)
        return (self.daemon, *team)


def start_actors(
    config: Config,
    cloud: CloudDriver,
    records: RecordService,
    settings: Settings,
    inputs: DaemonInputs,
    *,
    timer: Timer,
    clock: Clock,
    log: Logger,
    on_death: OnDeath,
    wishlist: Wishlist | None = None,
) -> System:
    """Start the actors and tell the daemon to begin. `wishlist` replaces the file's demand.

    What cloud and store can do is added to the `inputs`. Only in the mode APPLY is anything sent,
    and only while they hold the lease, which is asked before each decision and each order.
    """
    store, applies = records.store, inputs.mode == APPLY
    inputs = replace(
        inputs,
        guarantee=store.guarantee,
        fence_wait=store.settle_wait,
        repeats_creates=cloud.takes_client_tokens,
    )

    def may_send() -> bool:
        return applies and inputs.holds_lease()

    daemon = NodeManagerDaemonActor.start(
        settings=settings, inputs=inputs, timer=timer, clock=clock, log=log, on_death=on_death
    )
    scheduler = scheduler_of(config)
    context = TeamContext(
        cloud=netted(cloud, CloudError, "cloud", may_send),
        store=netted(store, StoreError, "records", may_send),
        daemon=daemon,
        timer=timer,
        clock=clock,
        on_death=on_death,
        may_send=may_send,
    )
    if scheduler is not None:
        context.scheduler = netted(scheduler, SchedulerError, "scheduler", may_send)
    cloud_every, records_every, demand_every = poll_intervals(config, settings)
    user_data = user_data_of(config)
    team = Team(
        polling.CloudNodeListActor.start(context, cloud_every),
        polling.RecordListActor.start(context, records_every, writes=applies),
        _demand_of(context, demand_every, wishlist or wishlist_of(config)),
        tuple(NodeSetupActor.start(context, user_data) for _ in range(settings.max_creates)),
        tuple(NodeShutdownActor.start(context) for _ in range(settings.max_creates)),
        tuple(RecordCleanerActor.start(context) for _ in range(settings.max_creates)),
    )
    daemon.tell(Begin(team))
    return System(config, context, records, settings, daemon, team)


def _demand_of(
    context: TeamContext, every: PollEvery, wishlist: Wishlist | None
) -> pykka.ActorRef[Any] | None:
    """The actor that polls the demand: a scheduler's, a wishlist's, or none."""
    if context.scheduler is not None:
        return polling.SchedulerActor.start(context, every, context.scheduler)
    if wishlist is not None:
        asked = netted_call(wishlist, SchedulerError, "demand")
        return polling.DemandActor.start(context, every, asked)
    return None


def poll_intervals(config: Config, settings: Settings) -> list[PollEvery]:
    """How often the cloud, the records and the demand are polled."""
    timing = config.daemon
    longest, retry_after = timing.max_poll_time, settings.max_retry_after
    times = (timing.cloudlist_poll_time, timing.nodelist_poll_time, timing.wishlist_poll_time)
    return [PollEvery(each, longest, retry_after) for each in times]
