"""The composition root: builds the adapters that a configuration names, and starts the actors.

Only this module names adapters. It imports an adapter when it is chosen, since some are heavy.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pykka

from nodemanager.actors.base import OnDeath
from nodemanager.actors.daemon.daemon import NodeManagerDaemonActor
from nodemanager.actors.daemon.inputs import BacklogKeeper, DaemonInputs, Identity, Once
from nodemanager.actors.messages import Begin, PollEvery, Team
from nodemanager.actors.poll.polling import (
    CloudNodeListActor,
    DemandActor,
    RecordListActor,
    SchedulerActor,
)
from nodemanager.actors.team import TeamContext
from nodemanager.actors.timer import Timer
from nodemanager.actors.workers.node_setup import NodeSetupActor
from nodemanager.actors.workers.node_shutdown import NodeShutdownActor
from nodemanager.actors.workers.record_cleaner import RecordCleanerActor
from nodemanager.clock import Clock
from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.cloud_config import CloudConfig
from nodemanager.config import Config, StoreProvider, located
from nodemanager.config.providers import PROVIDERS
from nodemanager.config.settings import no_adapter
from nodemanager.config.values import Dispatcher
from nodemanager.core.explain.picture import Picture
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Job
from nodemanager.errors import ConfigError
from nodemanager.from_config import asks_arvados, asks_for_jobs, named_places, user_data_of
from nodemanager.httpserver import HttpServer
from nodemanager.journal.api import Journal
from nodemanager.log import Logger
from nodemanager.records.api import RecordStore
from nodemanager.refusals import Refusals
from nodemanager.schedulers.api import Scheduler, Verb
from nodemanager.state import StateDirectory

SETUPS = 3
SHUTDOWNS = 2

Wishlist = Callable[[], tuple[Job, ...]]


def accepted_keys(provider: str) -> Mapping[str, frozenset[str]] | None:
    """The keys that a provider's adapter takes in each pass-through section; None for an unknown
    provider."""
    if provider not in PROVIDERS:
        return None
    keys: Mapping[str, frozenset[str]] = _part(provider, "options").ACCEPTED
    return {**keys, "Cloud Create": keys["Cloud Create"] | {"user_data"}}


def build_cloud(config: Config, clock: Clock) -> CloudDriver:
    """The adapter that `[Cloud] provider` names. Raises ConfigError for unusable options."""
    provider = config.cloud.provider
    if provider not in PROVIDERS:
        problem = f"[Cloud] provider = {provider}: {no_adapter(provider)}"
        raise ConfigError(located(config, [problem]))
    if config.daemon.certs_file is not None:
        import libcloud.security

        libcloud.security.CA_CERTS_PATH = str(config.daemon.certs_file)
    build: Callable[[CloudConfig], CloudDriver] = _part(provider, "adapter").build_cloud
    try:
        return build(
            CloudConfig(
                pool=config.daemon.pool,
                credentials=config.cloud_credentials,
                listing=config.cloud_list,
                create={k: v for k, v in config.cloud_create.items() if k != "user_data"},
                driver_class=config.cloud.driver_class,
                directory=config.daemon.state_dir / f"{provider}-cloud",
                clock=clock,
                places=named_places(config),
            )
        )
    except ConfigError as error:
        raise ConfigError(located(config, error.problems)) from error


def _part(provider: str, name: str) -> ModuleType:
    """A module of the package of that cloud, one of PROVIDERS."""
    return import_module(f"nodemanager.cloud.{provider}.{name}")


@dataclass(frozen=True)
class Records:
    """The record store, and its HTTP server where this process serves it.

    `pings` tells how many pings that server has answered.
    """

    store: RecordStore
    face: HttpServer | None = None
    serve: Callable[[str], None] | None = None
    pings: Callable[[], int] | None = None

    def served(self) -> None:
        """Tell the store the server's URL, which nodes ping unless the file gives another."""
        if self.face is not None and self.serve is not None:
            self.serve(self.face.url)


def build_records(config: Config, state: StateDirectory, clock: Clock) -> Records:
    """The store that `[Records] provider` names. Raises ConfigError, StartError."""
    if config.records.provider is StoreProvider.ARVADOS:
        from nodemanager.records.arvados import ArvadosRecordStore

        arvados = config.arvados
        if arvados.host is None or arvados.token is None:
            missing = "host" if arvados.host is None else "token"
            problem = f"[Arvados] {missing}: is needed for [Records] provider = arvados"
            raise ConfigError(located(config, [problem]))
        return Records(
            ArvadosRecordStore(
                arvados.host.url,
                arvados.token.reveal(),
                timeout=arvados.timeout,
                insecure=arvados.insecure,
                slots=config.records.slots,
                ping_url=config.ping_host.url if config.ping_host else None,
                ca_file=str(config.daemon.certs_file) if config.daemon.certs_file else None,
                clock=clock,
            )
        )
    if config.records.provider is StoreProvider.SLURM:
        from nodemanager.records.slurm import SlurmRecordStore

        slurm = config.slurm
        conf = None if slurm.conf is None else str(slurm.conf)
        partitions = slurm.partitions or ()
        return Records(
            SlurmRecordStore(
                slurm.timeout, clock, conf=conf, partitions=partitions, pool=config.daemon.pool
            )
        )
    return build_registry(config, state, clock)


def build_registry(config: Config, state: StateDirectory, clock: Clock) -> Records:
    """Our own registry, with an HTTP server unless `[Registry] listen` is blank.

    Raises ConfigError, StartError.
    """
    from nodemanager.records.sql import SqlRecordStore
    from nodemanager.registry.app import NAME, build_app
    from nodemanager.registry.server import registry_server

    registry = config.registry
    store = SqlRecordStore(
        registry.database.reveal(),
        slots=registry.slots,
        hostname=registry.hostname,
        domain=registry.domain,
        public_url=config.ping_host.url if config.ping_host else "",
        clock=clock,
        ca_file=str(config.daemon.certs_file) if config.daemon.certs_file else None,
    )
    if registry.listen is None:
        if config.ping_host is None:
            problem = "[Registry] listen: is blank, so [Cloud Create] ping_host must be given"
            raise ConfigError(located(config, [problem]))
        return Records(store)
    token = registry.token.reveal() if registry.token else state.token("registry")
    refusals = Refusals(NAME)
    app = build_app(store, token, refusals)
    face = registry_server(
        app,
        registry.listen.host,
        registry.listen.port,
        str(registry.tls_cert) if registry.tls_cert else None,
        str(registry.tls_key) if registry.tls_key else None,
        refusals,
    )

    def serve(url: str) -> None:
        store.public_url = url

    return Records(store, face, None if config.ping_host else serve, app.answered)


def journal_path(config: Config, *, dry_run: bool = False) -> Path:
    """The journal's path; a dry run has a file of its own (S3)."""
    path = config.journal.path
    return path.with_name(f"{path.stem}-dry-run{path.suffix}") if dry_run else path


def build_journal(config: Config, clock: Clock, *, dry_run: bool = False) -> Journal:
    """The journal of `[Journal] path`; a dry run has a file of its own (S3).

    A journal that can't be written now makes the manager read-only until it can. Raises StartError
    for a journal that must not be written at all.
    """
    from nodemanager.journal.sqlite import SqliteJournal

    return SqliteJournal(
        journal_path(config, dry_run=dry_run),
        pool=config.daemon.pool,
        clock=clock,
        keep=config.journal.keep,
        max_size=config.journal.max_size,
    )


def wishlist_of(config: Config) -> Wishlist | None:
    """The function that asks for what waits: a command's jobs, or an Arvados server's; or None."""
    command = config.daemon.wishlist_command
    if command is not None:
        from nodemanager.schedulers.wishlist import WishlistCommand

        return WishlistCommand(command, config.daemon.wishlist_poll_time).queue
    arvados = config.arvados
    if not asks_arvados(config) or arvados.host is None or arvados.token is None:
        return None
    from nodemanager.arvados_api.client import ApiClient
    from nodemanager.schedulers.arvados import ArvadosQueue

    api = ApiClient(
        arvados.host.url,
        arvados.token.reveal(),
        timeout=arvados.timeout,
        insecure=arvados.insecure,
        ca_file=str(config.daemon.certs_file) if config.daemon.certs_file else None,
    )
    containers, jobs = arvados.containers_queue, asks_for_jobs(config)
    return ArvadosQueue(api, containers=containers, jobs=jobs).queue


def scheduler_of(config: Config) -> Scheduler | None:
    """The scheduler that `[Daemon] dispatcher` names; None where the nodes' pings are asked."""
    match config.daemon.dispatcher:
        case Dispatcher.SLURM:
            from nodemanager.schedulers.slurm.adapter import SlurmScheduler

            slurm = config.slurm
            conf = None if slurm.conf is None else str(slurm.conf)
            return SlurmScheduler(
                slurm.timeout,
                conf=conf,
                partitions=slurm.partitions or (),
                power_saving=config.records.provider is StoreProvider.SLURM,
            )
        case Dispatcher.COMMAND:
            from nodemanager.schedulers.command import CommandScheduler

            verbs = ("nodes", "queue", "drain", "resume", "down", *Verb)
            programs = {verb: getattr(config.scheduler, f"{verb}_command") for verb in verbs}
            given = {verb: program for verb, program in programs.items() if program is not None}
            return CommandScheduler(given, config.scheduler.timeout)
    return None


@dataclass(frozen=True)
class System:
    """The parts of one running daemon."""

    config: Config
    cloud: CloudDriver
    records: Records
    settings: Settings
    daemon: pykka.ActorRef[NodeManagerDaemonActor]
    team: Team

    @property
    def actors(self) -> tuple[pykka.ActorRef[Any], ...]:
        team = cast("tuple[pykka.ActorRef[Any], ...]", self.team.actors)
        return (self.daemon, *team)


def start_actors(
    config: Config,
    cloud: CloudDriver,
    records: Records,
    settings: Settings,
    *,
    timer: Timer,
    clock: Clock,
    log: Logger,
    identity: Identity,
    backlog: BacklogKeeper,
    holds_lease: Callable[[], bool],
    on_death: OnDeath,
    journal: Journal,
    dry_run: bool = False,
    once: Once | None = None,
    show: Callable[[Picture], None] = lambda picture: None,
    wishlist: Wishlist | None = None,
) -> System:
    """Start the actors and tell the daemon to begin. `wishlist` replaces the file's demand."""
    store = records.store
    inputs = DaemonInputs(
        manager=f"{socket.gethostname()}:{os.getpid()}",
        mode="dry-run" if dry_run else "apply",
        guarantee=store.guarantee,
        fence_wait=store.settle_wait,
        repeats_creates=cloud.takes_client_tokens,
        identity=identity,
        backlog=backlog,
        holds_lease=holds_lease,
        show=show,
        once=once,
        journal=journal,
    )
    daemon = NodeManagerDaemonActor.start(
        settings=settings, inputs=inputs, timer=timer, clock=clock, log=log, on_death=on_death
    )
    scheduler = scheduler_of(config)
    context = TeamContext(
        cloud=cloud,
        store=store,
        daemon=daemon,
        timer=timer,
        clock=clock,
        on_death=on_death,
        scheduler=scheduler,
    )
    cloud_every, records_every, demand_every = poll_intervals(config, settings)
    user_data = user_data_of(config)
    team = Team(
        CloudNodeListActor.start(context, cloud_every),
        RecordListActor.start(context, records_every, writes=not dry_run),
        _demand_of(context, demand_every, wishlist or wishlist_of(config)),
        tuple(NodeSetupActor.start(context, user_data) for _ in range(SETUPS)),
        tuple(NodeShutdownActor.start(context) for _ in range(SHUTDOWNS)),
        RecordCleanerActor.start(context),
    )
    daemon.tell(Begin(team))
    return System(config, cloud, records, settings, daemon, team)


def _demand_of(
    context: TeamContext, every: PollEvery, wishlist: Wishlist | None
) -> pykka.ActorRef[Any] | None:
    """The actor that polls the demand: a scheduler's, a wishlist's, or none."""
    if context.scheduler is not None:
        return SchedulerActor.start(context, every, context.scheduler)
    if wishlist is not None:
        return DemandActor.start(context, every, wishlist)
    return None


def poll_intervals(config: Config, settings: Settings) -> list[PollEvery]:
    """How often the cloud, the records and the demand are polled."""
    timing = config.daemon
    longest, retry_after = timing.max_poll_time, settings.max_retry_after
    times = (timing.cloudlist_poll_time, timing.nodelist_poll_time, timing.wishlist_poll_time)
    return [PollEvery(each, longest, retry_after) for each in times]
