"""Builds the adapters that a configuration names: cloud, records, journal, scheduler.

Only this module names adapters. It imports one when it is chosen, since some are heavy. The actors
are started by `wiring`, which a check of a configuration does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from nodemanager.app.from_config import asks_arvados, asks_for_jobs, named_places
from nodemanager.app.state import StateDirectory
from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.declared import CloudConfig, accepted
from nodemanager.config import Config, StoreProvider, located
from nodemanager.config.providers import PROVIDERS
from nodemanager.config.settings import no_adapter
from nodemanager.config.values import Dispatcher, LeaseStore
from nodemanager.core.model.world import Job
from nodemanager.core.safety.lease import RENEWALS
from nodemanager.errors import ConfigError
from nodemanager.lib.clock import Clock
from nodemanager.records.api import RecordStore
from nodemanager.schedulers.api import Scheduler, SchedulerVerb

if TYPE_CHECKING:
    # A check of a configuration serves nothing and decides nothing.
    from nodemanager.httpserver.server import HttpServer
    from nodemanager.journal.api import Journal
    from nodemanager.lease.keeper import LeaseTable
    from nodemanager.records.sql import SqlRecordStore
    from nodemanager.sql.fence import Fence

Wishlist = Callable[[], tuple[Job, ...]]


def accepted_keys(provider: str) -> Mapping[str, frozenset[str]] | None:
    """The keys that a provider's adapter takes in each pass-through section; None for an unknown
    provider."""
    if provider not in PROVIDERS:
        return None
    keys = accepted(_part(provider, "options").SECTIONS)
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
class RecordService:
    """The record store, and its HTTP server where this process serves it.

    `pings` tells how many pings that server has answered. `renew` takes the token of a changed
    configuration. `fenced` gives the store for one holder of the lease; None where a store can't
    tell an old holder's writes from a new one's (L6).
    """

    store: RecordStore
    face: HttpServer | None = None
    serve: Callable[[str], None] | None = None
    pings: Callable[[], int] | None = None
    renew: Callable[[Config], None] = lambda config: None
    fenced: Callable[[Fence], RecordStore] | None = None

    def served(self) -> None:
        """Tell the store the server's URL, which nodes ping unless the file gives another."""
        if self.face is not None and self.serve is not None:
            self.serve(self.face.url)


def build_records(config: Config, state: StateDirectory, clock: Clock) -> RecordService:
    """The store that `[Records] provider` names. Raises ConfigError, StartError."""
    if config.records.provider is StoreProvider.ARVADOS:
        from nodemanager.records.arvados import ArvadosRecordStore

        arvados = config.arvados
        if arvados.host is None or arvados.token is None:
            missing = "host" if arvados.host is None else "token"
            problem = f"[Arvados] {missing}: is needed for [Records] provider = arvados"
            raise ConfigError(located(config, [problem]))
        arvados_store = ArvadosRecordStore(
            arvados.host.url,
            arvados.token.reveal(),
            timeout=arvados.timeout,
            insecure=arvados.insecure,
            slots=config.records.slots,
            ping_url=config.ping_host.url if config.ping_host else None,
            ca_file=str(config.daemon.certs_file) if config.daemon.certs_file else None,
            clock=clock,
        )

        def renew(config: Config) -> None:
            if config.arvados.token is not None:
                arvados_store.renew(config.arvados.token.reveal())

        return RecordService(arvados_store, renew=renew)
    if config.records.provider is StoreProvider.SLURM:
        from nodemanager.records.slurm import SlurmRecordStore
        from nodemanager.records.slurm_nodes import SlurmNodes

        slurm = config.slurm
        conf = None if slurm.conf is None else str(slurm.conf)
        # The seats' names and numbers are Slurm's and their own.
        sql = _rows(config, clock, slots=1, hostname="%(slot_number)d")
        seats = SlurmRecordStore(sql, SlurmNodes(slurm.timeout, conf=conf), clock)
        return RecordService(seats, fenced=seats.under)
    return build_registry(config, state, clock)


def build_registry(config: Config, state: StateDirectory, clock: Clock) -> RecordService:
    """Our own registry, with an HTTP server unless `[Registry] listen` is blank.

    Raises ConfigError, StartError.
    """
    from nodemanager.httpserver.refusals import Refusals
    from nodemanager.registry.app import NAME, build_app, registry_server

    registry = config.registry
    store = _rows(config, clock, slots=registry.slots, hostname=registry.hostname)
    if registry.listen is None:
        if config.pinged is None:
            problem = "[Registry] listen: is blank, so [Cloud Create] ping_host must be given"
            raise ConfigError(located(config, [problem]))
        return RecordService(store, fenced=store.under)

    def token_of(config: Config) -> str:
        given = config.registry.token
        return given.reveal() if given is not None else state.token("registry")

    refusals = Refusals(NAME)
    public = registry.public_url.url if registry.public_url else None
    app = build_app(store, token_of(config), refusals, public_url=public)
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

    return RecordService(
        store,
        face,
        None if config.pinged else serve,
        app.answered,
        renew=lambda config: app.renew(token_of(config)),
        fenced=store.under,
    )


def _rows(config: Config, clock: Clock, *, slots: int, hostname: str) -> SqlRecordStore:
    """The store in `[Registry] database`. Raises StartError."""
    from nodemanager.records.sql import SqlRecordStore

    return SqlRecordStore(
        config.registry.database.reveal(),
        slots=slots,
        hostname=hostname,
        domain=config.registry.domain,
        public_url=config.pinged.url if config.pinged else "",
        clock=clock,
        ca_file=str(config.daemon.certs_file) if config.daemon.certs_file else None,
    )


def journal_path(config: Config, *, dry_run: bool = False) -> Path:
    """The journal's path; a dry run has a file of its own, and a standby the same (S3, L6)."""
    path = config.journal.path
    return path.with_name(f"{path.stem}-dry-run{path.suffix}") if dry_run else path


def build_journal(
    config: Config, clock: Clock, *, dry_run: bool = False, fence: Fence | None = None
) -> Journal:
    """The journal of `[Journal] path`; a dry run has a file of its own (S3).

    `fence` is that of the lease's holder. A journal that can't be written now makes the manager
    read-only until it can. Raises StartError for a journal that must not be written at all.
    """
    from nodemanager.journal.database import SharedDatabase
    from nodemanager.journal.sqlite import SqliteJournal

    pool, database = config.daemon.pool, config.journal.database
    shared = None
    if database is not None and not dry_run:
        shared = SharedDatabase(database.reveal(), pool, clock, fence=fence)
    return SqliteJournal(
        journal_path(config, dry_run=dry_run),
        pool=pool,
        clock=clock,
        keep=config.journal.keep,
        max_size=config.journal.max_size,
        shared=shared,
    )


def build_leases(config: Config, clock: Clock) -> LeaseTable | None:
    """The lease of `[Lease] database`; None where a lock file is the lease. Raises StartError."""
    from nodemanager.lease.keeper import LeaseTable

    lease = config.lease
    if lease.store is not LeaseStore.DATABASE or lease.database is None:
        return None
    timeout = lease.duration / RENEWALS
    table = LeaseTable(lease.database.reveal(), config.daemon.pool, clock, timeout=timeout)
    table.open()
    return table


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

            verbs = ("nodes", "queue", "drain", "resume", "down", *SchedulerVerb)
            programs = {verb: getattr(config.scheduler, f"{verb}_command") for verb in verbs}
            given = {verb: program for verb, program in programs.items() if program is not None}
            return CommandScheduler(given, config.scheduler.timeout)
    return None
