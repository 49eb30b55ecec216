"""The composition root: from a configuration to adapters, settings and actors.

The only module that names adapters; each is imported when it is chosen, since some are heavy.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pykka

from nodemanager.actors.base import OnDeath
from nodemanager.actors.daemon import NodeManagerDaemonActor
from nodemanager.actors.messages import Begin, Team
from nodemanager.actors.node_setup import NodeSetupActor
from nodemanager.actors.node_shutdown import NodeShutdownActor
from nodemanager.actors.polling import CloudNodeListActor, DemandActor, RecordListActor
from nodemanager.actors.record_cleaner import RecordCleanerActor
from nodemanager.actors.role import BacklogKeeper, Identity, Once, Role
from nodemanager.actors.timer import Timer
from nodemanager.clock import Clock
from nodemanager.cloud.api import CloudDriver
from nodemanager.config import (
    Config,
    SizeOverride,
    StoreProvider,
    located,
)
from nodemanager.config.checks import NEAR_PROVIDERS
from nodemanager.config.deciding import fields_of
from nodemanager.core.model import Job, Record, Size
from nodemanager.core.picture import Picture
from nodemanager.core.settings import Settings
from nodemanager.errors import ConfigError, StartError
from nodemanager.httpserver import HttpServer
from nodemanager.journal.api import Journal
from nodemanager.log import Logger
from nodemanager.records.api import RecordStore
from nodemanager.redact import is_secret
from nodemanager.refusals import Refusals
from nodemanager.state import StateDirectory

SETUPS = 3
SHUTDOWNS = 2

Wishlist = Callable[[], tuple[Job, ...]]

PROVIDERS = ("dummy", "ec2", "local")


def accepted_keys(provider: str) -> Mapping[str, frozenset[str]] | None:
    """The keys that a provider's adapter takes in each pass-through section; None: unknown."""
    keys: Mapping[str, frozenset[str]]
    if provider == "local":
        from nodemanager.cloud.local import LocalCloud

        keys = LocalCloud.ACCEPTED
    elif provider == "dummy":
        from nodemanager.cloud.dummy import DummyCloud

        keys = DummyCloud.ACCEPTED
    elif provider == "ec2":
        from nodemanager.cloud.ec2 import Ec2Cloud

        keys = Ec2Cloud.ACCEPTED
    else:
        return None
    return {**keys, "Cloud Create": keys["Cloud Create"] | {"user_data"}}


def build_cloud(config: Config, clock: Clock) -> CloudDriver:
    """The adapter that `[Cloud] provider` names. Raises ConfigError for what it can't use."""
    provider, pool = config.cloud.provider, config.daemon.pool
    if config.daemon.certs_file is not None:
        import libcloud.security

        libcloud.security.CA_CERTS_PATH = str(config.daemon.certs_file)
    create = {key: value for key, value in config.cloud_create.items() if key != "user_data"}
    driver_class = config.cloud.driver_class
    try:
        if provider == "local":
            from nodemanager.cloud.local import LocalCloud

            directory = config.daemon.state_dir / "local-cloud"
            return LocalCloud(
                pool=pool,
                directory=directory,
                create=create,
                clock=clock,
                driver_class=driver_class,
            )
        if provider == "dummy":
            from nodemanager.cloud.dummy import DummyCloud

            return DummyCloud(
                pool=pool,
                credentials=config.cloud_credentials,
                clock=clock,
                driver_class=driver_class,
            )
        if provider == "ec2":
            from nodemanager.cloud.ec2 import Ec2Cloud

            return Ec2Cloud(
                pool=pool,
                credentials=config.cloud_credentials,
                listing=config.cloud_list,
                create=create,
                timeout=60.0,
                driver_class=driver_class,
            )
    except ConfigError as error:
        raise ConfigError(located(config, error.problems)) from error
    names = ", ".join(PROVIDERS)
    problem = f"[Cloud] provider = {provider}: there is no adapter for it yet; there are {names}"
    raise ConfigError(located(config, [problem]))


@dataclass(frozen=True)
class Records:
    """The record store, and the HTTP face of it that this process serves, if any."""

    store: RecordStore
    face: HttpServer | None = None
    serve: Callable[[str], None] | None = None

    def served(self) -> None:
        """The face has a port now: nodes ping it there, unless told another address."""
        if self.face is not None and self.serve is not None:
            self.serve(self.face.url)


def build_records(config: Config, state: StateDirectory, clock: Clock) -> Records:
    """The store that `[Records] provider` names; the registry is served when it listens."""
    if config.records.provider is StoreProvider.ARVADOS:
        from nodemanager.records.arvados import ArvadosRecordStore

        arvados = config.arvados
        if arvados.host is None or arvados.token is None:
            missing = "host" if arvados.host is None else "token"
            problem = f"[Arvados] {missing}: is needed where the records are Arvados'"
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
    return build_registry(config, state, clock)


def build_registry(config: Config, state: StateDirectory, clock: Clock) -> Records:
    """Our own registry, with its HTTP face where it listens. Raises ConfigError, StartError."""
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
            problem = "[Registry] listen: is blank, so [Cloud Create] ping_host must say who serves"
            raise ConfigError(located(config, [problem]))
        return Records(store)
    token = registry.token.reveal() if registry.token else state.token("registry")
    refusals = Refusals(NAME)
    face = registry_server(
        build_app(store, token, refusals),
        registry.listen.host,
        registry.listen.port,
        str(registry.tls_cert) if registry.tls_cert else None,
        str(registry.tls_key) if registry.tls_key else None,
        refusals,
    )

    def serve(url: str) -> None:
        store.public_url = url

    return Records(store, face, None if config.ping_host else serve)


def journal_path(config: Config, *, dry_run: bool = False) -> Path:
    """Where the journal is; a dry run's is a file of its own (S3)."""
    path = config.journal.path
    return path.with_name(f"{path.stem}-dry-run{path.suffix}") if dry_run else path


def build_journal(config: Config, clock: Clock, *, dry_run: bool = False) -> Journal:
    """The journal of `[Journal] path`; a dry run's is a file of its own (S3).

    One that can't be written now makes the manager read-only until it can. Raises StartError for
    one that must not be written at all.
    """
    from nodemanager.journal.sqlite import SqliteJournal

    return SqliteJournal(
        journal_path(config, dry_run=dry_run),
        pool=config.daemon.pool,
        clock=clock,
        keep=config.journal.keep,
        max_size=config.journal.max_size,
    )


def sizes_of(config: Config, cloud: CloudDriver) -> tuple[Size, ...]:
    """The sizes that may be booted: those of `[Size NAME]`, or all that the cloud has.

    Raises ConfigError for a size that neither the cloud lists nor the file describes (S4).
    """
    known = {size.instance_type: size for size in cloud.list_sizes()}
    if not config.sizes:
        return tuple(known.values())
    problems = []
    sizes = []
    for wanted in config.sizes:
        listed = known.get(wanted.instance_type)
        if listed is None and not wanted.stands_alone:
            problems.append(
                f"[Size {wanted.name}] instance_type = {wanted.instance_type}: the cloud lists no "
                "such size; give cores, ram and price to use it all the same"
            )
            continue
        sizes.append(_size(wanted, listed))
    if problems:
        raise ConfigError(located(config, problems))
    return tuple(sizes)


def _size(wanted: SizeOverride, listed: Size | None) -> Size:
    base = listed or Size(wanted.name, wanted.instance_type, cores=1, ram_mb=0)
    given = {
        "cores": wanted.cores,
        "ram_mb": wanted.ram_mb,
        "scratch_mb": wanted.scratch_mb,
        "price": wanted.price,
        "preemptible": wanted.preemptible,
    }
    return replace(
        base,
        name=wanted.name,
        ram_is_given=wanted.ram_mb is not None,
        **{key: value for key, value in given.items() if value is not None},  # type: ignore[arg-type]  # each is of its field's type
    )


def settings_of(
    config: Config, cloud: CloudDriver, store: RecordStore, sizes: tuple[Size, ...] | None = None
) -> Settings:
    """What decisions are taken by. The cloud is asked for its sizes unless `sizes` are given."""
    return Settings(
        **{"visible_after": cloud.visible_after, **fields_of(config)},
        pool=config.daemon.pool,
        ids_unique=cloud.ids_unique,
        may_authorise=cloud.may_authorise and store.may_authorise,
        compare_and_set=store.guarantee.value == "cas",
        tells_drain=store.tells_drain,
        demand_polled=config.daemon.wishlist_command is not None,
        sizes=sizes_of(config, cloud) if sizes is None else sizes,
    )


def user_data_of(config: Config) -> Callable[[Record, str], str]:
    """The user data for a node: the template of `[Cloud Create] user_data`, or the bare ping URL.

    Raises ConfigError for a template that can't be read or asks for something else.
    """
    path = config.cloud_create.get("user_data")
    if path is None:
        return lambda record, ping_url: ping_url
    try:
        template = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = f"[Cloud Create] user_data = {path}: can't be read: {error}"
        raise ConfigError(located(config, [problem])) from error

    def render(record: Record, ping_url: str) -> str:
        values = {
            "{ping_url}": ping_url,
            "{record}": record.uuid,
            "{hostname}": record.hostname or "",
            "{incarnation}": record.incarnation or "",
        }
        # Not str.format: a shell script or cloud-init file is full of other braces. And in one go:
        # what was filled in is not looked at again.
        return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], template)

    if "{ping_url}" not in template:
        problem = f"[Cloud Create] user_data = {path}: has no {{ping_url}}, so its node can't ping"
        raise ConfigError(located(config, [problem]))
    return render


DRAIN_HOOK = "/etc/nodemanager/drain"
SAID_BY_THE_PING_SCRIPT = (f"DRAIN={DRAIN_HOOK}", f"Default: {DRAIN_HOOK}")
"""Where the shipped script, which may stand in a template, names the hook that it looks for."""


def advice_on_draining(config: Config) -> list[str]:
    """What may be hit where idle nodes can't be told to take no more work (SAFETY.md D12)."""
    hit = "a job that begins between a node's last ping and its destroy may be hit"
    if config.cloud.provider in NEAR_PROVIDERS:
        return []
    if config.records.provider is StoreProvider.ARVADOS:
        place = "[Records] provider = arvados"
        return located(config, [f"{place}: its nodes can't be told to drain: {hit}"])
    path = config.cloud_create.get("user_data")
    template = "" if path is None else Path(path).read_text(encoding="utf-8")
    for said in SAID_BY_THE_PING_SCRIPT:
        template = template.replace(said, "")
    if DRAIN_HOOK in template:
        return []
    place = f"[Cloud Create] user_data = {path or ''}".rstrip()
    advice = (
        f"{place}: installs no {DRAIN_HOOK}: {hit}. Samples of it are in etc/node; where the "
        "image has it, say so in a comment of the user data"
    )
    return located(config, [advice])


def wishlist_of(config: Config) -> Wishlist | None:
    """What asks for the waiting jobs, where the file names a command."""
    command = config.daemon.wishlist_command
    if command is None:
        return None
    from nodemanager.schedulers.wishlist import WishlistCommand

    return WishlistCommand(command, config.daemon.wishlist_poll_time)


class RememberedIdentity:
    """L5 over restarts, in the state directory."""

    def __init__(self, state: StateDirectory, *, writes: bool) -> None:
        self._state = state
        self._writes = writes
        self._beats_before: tuple[str, int] | None = None
        """The count that was known before the store was asked for its own."""
        with contextlib.suppress(StartError):
            # Told at the first check.
            self._beats_before = self._known_beats()

    def check(self, kind: str, seen: str) -> str | None:
        if not self._writes and self._state.recall(kind) is None:
            return None
        mismatch = self._state.check_identity(kind, seen)
        if mismatch is None:
            return None
        return (
            f"this is not the {kind} known before ({mismatch.known}) but {mismatch.seen}; "
            f"if that is meant, forget the old one in {self._state.path}/facts.json"
        )

    def check_age(self, store_id: str, beats: int) -> str | None:
        # Another manager, or one beside a dry run, may have kept a later answer since we asked.
        known_now = self._known_beats()
        known_before = self._beats_before or known_now
        fell = known_before[0] == store_id and beats < known_before[1]
        if self._writes and fell:
            # Once noticed it stays, however far the count comes by then.
            self._state.remember("restored", f"{store_id} from {known_before[1]} to {beats}")
        if self._writes and (fell or known_now[0] != store_id or beats > known_now[1]):
            # A disk that is full for a while costs but the newest count.
            with contextlib.suppress(StartError):
                self._state.remember("heartbeats", f"{store_id} {beats}")
        self._beats_before = self._known_beats()
        told = str(self._state.recall("restored") or "")
        if not fell and not told.startswith(f"{store_id} "):
            return None
        return (
            "the record store was put back to an earlier state, as from a backup: its count of "
            f"heartbeats fell ({told or beats}). Records made since are gone from it, and their "
            "nodes live: see the operator's guide, a registry from a backup; then forget "
            f"`restored` in {self._state.path}/facts.json"
        )

    def _known_beats(self) -> tuple[str, int]:
        """The store's id, and its newest count; none yet is less than any."""
        store_id, _, beats = str(self._state.recall("heartbeats") or "").rpartition(" ")
        return store_id, int(beats or -1)


class RememberedBacklog:
    """S5 over restarts: whether a first clean was called for, and what was held back then."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state

    def load(self) -> tuple[bool, frozenset[str]]:
        kept = self._state.recall("backlog")
        return kept is None, frozenset(str(kept).split()) if kept else frozenset()

    def save(self, backlog: frozenset[str]) -> None:
        self._state.remember("backlog", " ".join(sorted(backlog)))


@dataclass(frozen=True)
class System:
    """All that one running daemon is made of."""

    config: Config
    cloud: CloudDriver
    records: Records
    settings: Settings
    daemon: pykka.ActorRef[NodeManagerDaemonActor]
    team: Team
    actors: tuple[pykka.ActorRef[Any], ...]


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
    """Start the actors and tell the daemon to begin. `wishlist` replaces the file's command."""
    store = records.store
    role = Role(
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
        settings=settings, role=role, timer=timer, clock=clock, log=log, on_death=on_death
    )
    timing = config.daemon
    cloud_list = CloudNodeListActor.start(
        cloud=cloud,
        daemon=daemon,
        timer=timer,
        clock=clock,
        poll_time=timing.cloudlist_poll_time,
        max_poll_time=timing.max_poll_time,
        max_retry_after=settings.max_retry_after,
        on_death=on_death,
    )
    record_list = RecordListActor.start(
        store=store,
        daemon=daemon,
        timer=timer,
        clock=clock,
        poll_time=timing.nodelist_poll_time,
        max_poll_time=timing.max_poll_time,
        max_retry_after=settings.max_retry_after,
        writes=not dry_run,
        on_death=on_death,
    )
    wishlist = wishlist or wishlist_of(config)
    demand = None
    if wishlist is not None:
        demand = DemandActor.start(
            wishlist=wishlist,
            daemon=daemon,
            timer=timer,
            clock=clock,
            poll_time=timing.wishlist_poll_time,
            max_poll_time=timing.max_poll_time,
            max_retry_after=settings.max_retry_after,
            on_death=on_death,
        )
    user_data = user_data_of(config)
    setups = tuple(
        NodeSetupActor.start(
            cloud=cloud,
            store=store,
            daemon=daemon,
            clock=clock,
            user_data=user_data,
            on_death=on_death,
        )
        for _ in range(SETUPS)
    )
    shutdowns = tuple(
        NodeShutdownActor.start(
            cloud=cloud, store=store, daemon=daemon, clock=clock, on_death=on_death
        )
        for _ in range(SHUTDOWNS)
    )
    cleaner = RecordCleanerActor.start(
        cloud=cloud, store=store, daemon=daemon, clock=clock, on_death=on_death
    )
    team = Team(cloud_list, record_list, demand, setups, shutdowns, cleaner)
    daemon.tell(Begin(team))
    others: tuple[pykka.ActorRef[Any], ...] = (
        cloud_list,
        record_list,
        *setups,
        *shutdowns,
        cleaner,
    )
    actors = (daemon, *others) if demand is None else (daemon, *others, demand)
    return System(config, cloud, records, settings, daemon, team, actors)


def secrets_of(config: Config) -> list[str]:
    """Every secret of the file, for the log to hide."""
    given = (config.manage.management_token, config.arvados.token, config.registry.token)
    secrets = [secret.reveal() for secret in given if secret is not None]
    password = urlsplit(config.registry.database.reveal()).password
    if password is not None:
        secrets += [password, unquote(password)]
    for section in (config.cloud_credentials, config.cloud_list, config.cloud_create):
        secrets += [value for key, value in section.items() if is_secret(key)]
    return [
        *secrets,
        *(value for key, value in config.cloud_credentials.items() if "secret" in key),
    ]
