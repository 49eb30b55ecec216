"""The sections of the services that we talk to, and the list of all sections."""

# ruff: noqa: RUF009 - `option` makes a dataclass field, not a shared value

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, get_type_hints

from nodemanager.config import kinds, providers
from nodemanager.config.daemon import DaemonSection, LoggingSection, ManageSection
from nodemanager.config.kinds import ValueKind
from nodemanager.config.options import (
    AS_POLLED,
    Decides,
    DefaultSources,
    Derived,
    Section,
    deciding_option,
    option,
    optional_option,
    section,
)
from nodemanager.config.values import (
    AdoptUnclaimed,
    BacklogPolicy,
    LeaseStore,
    Listen,
    PlaceOrder,
    Secret,
    ServerAddress,
    StoreProvider,
)
from nodemanager.core.model.features import Gres

T = TypeVar("T")
MORE_PLACES = providers.listed(
    "and", [name for name, traits in providers.PROVIDERS.items() if traits.places]
)

ADOPTS = {AdoptUnclaimed.YES: True, AdoptUnclaimed.NO: False, AdoptUnclaimed.AUTO: None}


def _provider(draft: DefaultSources) -> StoreProvider:
    if draft.value("Arvados", "host") is None:
        return StoreProvider.REGISTRY
    return StoreProvider.ARVADOS


def _database(draft: DefaultSources) -> Secret:
    url = f"sqlite:///{draft.value('Daemon', 'state_dir')}/registry.db"
    return Secret(url, url)


def _shared(draft: DefaultSources) -> Secret | None:
    """The registry's database, where several machines reach it."""
    database: Secret | None = draft.value("Registry", "database")
    is_shared = database is not None and database.reveal().startswith("postgresql")
    return database if is_shared else None


def _kept(draft: DefaultSources) -> Secret | None:
    if draft.value("Lease", "store") is not LeaseStore.DATABASE:
        return None
    database: Secret | None = draft.value("Lease", "database")
    return database


def _journal(draft: DefaultSources) -> Path | None:
    state_dir: Path | None = draft.value("Daemon", "state_dir")
    return None if state_dir is None else state_dir / "journal.db"


@dataclass(frozen=True, kw_only=True)
class ArvadosSection:
    """The Arvados server that keeps the records (before Arvados 3.0), or whose containers wait."""

    host: ServerAddress | None = optional_option(
        kinds.endpoint(),
        """The API server. Plain http is only for this machine's own loopback, unless
        insecure = yes.""",
    )
    token: Secret | None = optional_option(
        kinds.secret(), "An administrator's token; others don't see all nodes.", reload=True
    )
    timeout: float = option(kinds.duration(), "15", "How long to wait for one answer.")
    insecure: bool = option(
        kinds.yes_no(), "no", "Accept any certificate, and plain http to any host."
    )
    containers_queue: bool = option(
        kinds.yes_no(),
        "no",
        """The server's waiting containers are demand, where [Daemon] dispatcher = ping; one without
        containers is a failed poll. The records may be in a registry all the same.""",
    )
    jobs_queue: bool = option(
        kinds.yes_no(),
        "yes",
        """The waiting jobs of an old server are demand, where its API still has jobs.queue, the
        server keeps the records, and no command and no scheduler gives demand.""",
    )
    slurm_queue: bool = option(
        kinds.yes_no(),
        "yes",
        "Accepted for old files. Slurm's queue is asked where [Daemon] dispatcher = slurm.",
        no_effect="Slurm's queue is demand where [Daemon] dispatcher = slurm, and nowhere else",
        no_effect_unless=("no", "off", "false", "0"),
    )


@dataclass(frozen=True, kw_only=True)
class CloudSection:
    """The cloud, and when its nodes may be shut down."""

    provider: str = option(kinds.text(), None, f"The adapter to use: {providers.listed('or')}.")
    driver_class: str | None = optional_option(
        kinds.dotted_name(),
        "A libcloud driver class, as module.Class, to use instead of the provider's own.",
    )
    shutdown_windows: tuple[float, ...] = deciding_option(
        kinds.shutdown_windows(),
        "20, 999999",
        """Minutes, counted from a node's boot: the node stays for the first number, may be shut
        down during the second, stays for the third, and so on, again and again. Where the cloud
        bills by the hour, 54, 5, 1 uses most of each paid hour.""",
        decides=Decides(
            to_field=lambda windows: tuple(length for length in windows if math.isfinite(length))
        ),
    )
    places: tuple[str, ...] = option(
        kinds.names(),
        "",
        f"""The zones or subnets to boot nodes in, by the cloud's own names; for {MORE_PLACES} only.
        Where one has no room for a size, it rests for that size for max_poll_time, and the node is
        booted in the next one at once. Blank boots all nodes where [Cloud Create] says.""",
    )
    max_creates: int = option(
        kinds.whole(1),
        "16",
        """The number of creates that may run at once, and of destroys and of cleans as well. When
        the cloud asks for fewer calls, the number is halved; each create or destroy that succeeds
        raises it by one again.""",
        decides=Decides(fixed="nodes come as fast as recorded"),
    )
    timeout: float | None = optional_option(
        kinds.duration(),
        "Accepted for old files. The time-out of the cloud is [Cloud Credentials] timeout.",
        no_effect="the cloud's time-out is [Cloud Credentials] timeout; this one does nothing",
        no_effect_unless=("",),
    )


@dataclass(frozen=True, kw_only=True)
class RecordsSection:
    """The store that keeps the records."""

    provider: StoreProvider = option(
        kinds.choice(StoreProvider),
        Derived("arvados when [Arvados] host is set, else registry", _provider),
        """An Arvados server, the registry of this program, or Slurm: a record for each CLOUD node
        of its slurm.conf, kept in [Registry] database, where [Daemon] dispatcher = slurm.""",
    )
    slots: int = option(
        kinds.whole(1),
        "64",
        "The number of slots that the Arvados server has (its max_compute_nodes).",
    )


@dataclass(frozen=True, kw_only=True)
class RegistrySection:
    """The record registry of this program, in the daemon or on its own."""

    database: Secret = option(
        kinds.database(),
        Derived("sqlite:///STATE_DIR/registry.db", _database),
        "The database of the records: SQLite for one machine, postgresql://... for more.",
    )
    slots: int = option(kinds.whole(1), "64", "The number of slots.")
    hostname: str = option(
        kinds.hostname_pattern(), "compute%(slot_number)d", "The host name for a slot."
    )
    domain: str = option(kinds.domain(), "", "The domain of those host names.")
    listen: Listen | None = option(
        kinds.optional(kinds.listen()),
        "127.0.0.1:8990",
        "The address that nodes ping and clients query. Blank means no server.",
    )
    public_url: ServerAddress | None = optional_option(
        kinds.origin(),
        """Where clients reach the registry behind a TLS proxy or a load balancer, like
        https://registry.example.org: Arvados clients are told to send their requests, with the
        token, there. Nodes ping it, too, unless [Cloud Create] ping_host says otherwise. Blank: the
        address that each client used.""",
    )
    token: Secret | None = optional_option(
        kinds.token(),
        """The administrator's token of the API. When it is blank, the first start makes one and
        keeps it in the state directory.""",
        reload=True,
    )
    tls_cert: Path | None = optional_option(
        kinds.path(), "The certificate chain for https, in PEM."
    )
    tls_key: Path | None = optional_option(kinds.path(), "The key of that certificate, in PEM.")


@dataclass(frozen=True, kw_only=True)
class CleaningSection:
    """The evidence needed before anything is freed or destroyed, and limits on how much at once."""

    settle: float = deciding_option(
        kinds.duration(),
        "60",
        """A node must be missing from the listings for this long before its record may be freed;
        at least one poll of the cloud.""",
    )
    absent_listings: int = deciding_option(
        kinds.whole(1, unit="listings"),
        "2",
        "A node must also be missing from this many complete listings in a row.",
    )
    collapse_fraction: float = deciding_option(
        kinds.number(above=0, below=1),
        "0.3",
        """When a listing suddenly lacks more than this fraction of the known nodes or records, it
        is not trusted, and all freeing and destroying stops.""",
    )
    max_cleans_per_cycle: int = deciding_option(
        kinds.whole(1, unit="records"),
        "25",
        "Free at most this many records at once; the others wait for the next cycle.",
    )
    max_shutdowns_per_cycle: int = deciding_option(
        kinds.whole(1, unit="nodes"),
        "5",
        "Destroy at most this many nodes at once for any reason but idleness.",
    )
    action_timeout: float = deciding_option(
        kinds.duration(),
        "900",
        "After this time without an outcome, an action no longer keeps its node or record from "
        "being judged again.",
        decides=Decides(fixed="actions take as long as recorded"),
    )
    max_retry_after: float = deciding_option(
        kinds.duration(),
        "1h",
        """The longest wait that a cloud's or a store's Retry-After may impose; it gets no requests
        while we wait.""",
        decides=Decides(fixed=AS_POLLED),
    )
    visible_after: float | None = deciding_option(
        kinds.optional(kinds.duration()),
        "",
        """How long after a create the cloud may not yet know the node: until then "no such node"
        proves nothing. Blank uses the provider's known value.""",
    )
    claim_expiry: bool = deciding_option(
        kinds.on_off(),
        "off",
        """When a claimed record whose node never pinged gives its slot back: off: only past
        node_stale_after, as any record, and no sooner than boot_fail_after + 120 s + visible_after
        after its claim. on: that shorter time alone. Other nodes are booted in its stead before
        that either way.""",
    )
    adopt_unclaimed: AdoptUnclaimed = option(
        kinds.choice(AdoptUnclaimed),
        "auto",
        """Whether this manager may free records that name no pool. auto: yes until a listing
        names another pool.""",
        decides=Decides(
            to_field=lambda adopt: ADOPTS[adopt],
            to_option=lambda adopts: next(name for name in ADOPTS if ADOPTS[name] is adopts),
        ),
    )
    backlog: BacklogPolicy = deciding_option(
        kinds.choice(BacklogPolicy),
        "hold",
        """What happens when the very first plan would free more than max_cleans_per_cycle records:
        hold frees none of them and reports them, clean frees them.""",
        decides=Decides(
            "hold_backlog",
            lambda backlog: backlog is BacklogPolicy.HOLD,
            lambda holds: BacklogPolicy.HOLD if holds else BacklogPolicy.CLEAN,
        ),
    )
    prune_after: float | None = deciding_option(
        kinds.or_off(kinds.duration(longest=None)),
        "off",
        """Delete records that have been clean for longer than this, while the pool has more than
        max_nodes records; only in a registry. Never delete one that was freed within the last
        week.""",
        decides=Decides(fixed="pruned records hold no slot"),
    )


@dataclass(frozen=True, kw_only=True)
class LeaseSection:
    """What makes one manager of a pool the active one, where several run."""

    store: LeaseStore = option(
        kinds.choice(LeaseStore),
        "file",
        """file: a lock in state_dir, so the managers of one machine exclude each other. database: a
        lease in a database; any number of managers of the pool then run on any machines, one acts,
        and the others stand by and take over.""",
    )
    database: Secret | None = option(
        kinds.optional(kinds.database(shared=True)),
        Derived("[Registry] database, where it is postgresql://...", _shared),
        "The database of the lease: postgresql://... It must be the same one for all managers.",
    )
    duration: float = option(
        kinds.duration(),
        "30",
        """After this time without the active manager, another one takes over. The active one renews
        the lease three times within it, and sends nothing more when it can't.""",
    )


@dataclass(frozen=True, kw_only=True)
class JournalSection:
    """The manager's journal: its intents before it creates, destroys or frees anything, and what it
    saw and decided. It holds the ping secrets of freed records, so only its owner can read it."""

    path: Path = option(
        kinds.path(),
        Derived("STATE_DIR/journal.db", _journal),
        """The journal's file, on a local disk. A dry run has a file of its own beside it, with
        -dry-run in its name.""",
    )
    database: Secret | None = option(
        kinds.optional(kinds.database(shared=True)),
        Derived("[Lease] database where [Lease] store = database, else blank", _kept),
        """Where a restart finds what it must know: the actions that are under way, holds and other
        orders, the breaker, leftovers, and freed records. Blank means in path. With postgresql://...
        a manager on another machine finds it; without [Lease] store = database one at a time may
        run. What was seen and decided is in path all the same. A dry run never uses it.""",
    )
    keep: float = option(
        kinds.duration(),
        "7d",
        """How long finished matters are kept: decisions, outcomes, and the records as they were
        before they were freed.""",
    )
    max_size: int = option(
        kinds.size(8 << 20),
        "256M",
        """Above this size the oldest decisions are deleted, whatever their age. Nothing is deleted
        that is still open, held, or may have to be restored.""",
    )


@dataclass(frozen=True, kw_only=True)
class SlurmSection:
    """Slurm, where [Daemon] dispatcher = slurm."""

    conf: Path | None = optional_option(
        kinds.path(), "The slurm.conf of the cluster; blank means the machine's own."
    )
    partitions: tuple[str, ...] | None = optional_option(
        kinds.names(),
        "The partitions whose waiting jobs are demand, separated by commas; blank means all.",
    )
    timeout: float = option(
        kinds.duration(),
        "20",
        "How long one program of Slurm may take; sinfo and squeue are run once each poll.",
    )
    cancel_unsatisfiable: bool = option(
        kinds.yes_no(),
        "no",
        """Cancel a waiting job that no size can run, or that wants more nodes than max_nodes. Its
        owner is told first; a job that another node of the scheduler may run is left alone.""",
    )


@dataclass(frozen=True, kw_only=True)
class SchedulerSection:
    """Any other scheduler, where [Daemon] dispatcher = command: a program for each question and
    order."""

    nodes_command: tuple[str, ...] | None = optional_option(
        kinds.command(), "Prints every node with its state."
    )
    queue_command: tuple[str, ...] | None = optional_option(
        kinds.command(), "Prints the waiting jobs, the most urgent first."
    )
    drain_command: tuple[str, ...] | None = optional_option(
        kinds.command(), "Gives a node no more work."
    )
    resume_command: tuple[str, ...] | None = optional_option(
        kinds.command(), "Gives a node work again."
    )
    down_command: tuple[str, ...] | None = optional_option(
        kinds.command(), "Is told that a node is gone."
    )
    describe_command: tuple[str, ...] | None = optional_option(
        kinds.command(), "Sets a node's weight and features; may be left out."
    )
    comment_command: tuple[str, ...] | None = optional_option(
        kinds.command(), "Tells a job's owner something; may be left out."
    )
    cancel_command: tuple[str, ...] | None = optional_option(
        kinds.command(), "Takes a job out of the queue; may be left out."
    )
    cancel_unsatisfiable: bool = option(
        kinds.yes_no(),
        "no",
        """Cancel a waiting job that no size can run, or that wants more nodes than max_nodes. Its
        owner is told first; a job that another node of the scheduler may run is left alone.""",
    )
    timeout: float = option(kinds.duration(), "20", "How long one of these may take.")


@dataclass(frozen=True, kw_only=True)
class Sections:
    """The sections of a file that have options of ours, in the order of the manual."""

    daemon: DaemonSection
    manage: ManageSection
    logging: LoggingSection
    arvados: ArvadosSection
    cloud: CloudSection
    records: RecordsSection
    registry: RegistrySection
    slurm: SlurmSection
    scheduler: SchedulerSection
    cleaning: CleaningSection
    lease: LeaseSection
    journal: JournalSection


SECTIONS: tuple[Section, ...] = tuple(
    section(name, kind) for name, kind in get_type_hints(Sections).items()
)


def _of_a_size(kind: ValueKind[T], help: str, name: str = "") -> T | None:
    """Declare what a reload takes over of a size; blank leaves it to the cloud."""
    return optional_option(kind, help, name=name, reload=True)


@dataclass(frozen=True, kw_only=True)
class SizeSection:
    """A size to use, one section each; the cheapest is used first. The values here replace the
    cloud's own; a size that the cloud library does not know needs cores, ram and price."""

    name: str
    instance_type: str | None = optional_option(
        kinds.text(), "The cloud's own id of the size; NAME when blank."
    )
    instance_types: tuple[str, ...] | None = optional_option(
        kinds.names(),
        """Several of the cloud's ids, where any will do, in place of instance_type: one size for
        each, called NAME/ID, all with what this section says. The cheapest that has room is booted,
        and of the same price the first. A job may ask for NAME.""",
    )
    cores: int | None = _of_a_size(kinds.whole(1), "The number of cores.")
    ram_mb: int | None = _of_a_size(
        kinds.whole(1, unit="MB"),
        "The memory that a job may have; node_mem_scaling is not applied to it.",
        name="ram",
    )
    scratch_mb: int | None = _of_a_size(
        kinds.whole(0, unit="MB"),
        """The scratch space; 100000 is 100 GB. If it is 0 or unknown, it counts as enough for every
        job.""",
        name="scratch",
    )
    price: float | None = _of_a_size(kinds.number(least=0), "The price per hour; 0 means unknown.")
    preemptible: bool | None = _of_a_size(kinds.yes_no(), "Boot it as a spot or preemptible node.")
    features: tuple[str, ...] | None = _of_a_size(
        kinds.names(),
        """The features that its nodes have in the scheduler, separated by commas. A job that asks
        for others gets no node of this size.""",
    )
    gres: Gres | None = _of_a_size(
        kinds.gres(),
        """The generic resources that its nodes have in the scheduler, as in gpu:tesla:4.""",
    )
    places: tuple[str, ...] | None = _of_a_size(
        kinds.names(), "Its zones or subnets, in place of [Cloud] places."
    )
    place_order: PlaceOrder | None = _of_a_size(
        kinds.choice(PlaceOrder),
        """In which of its places it is booted: first takes them in the written order, and is meant
        when blank; spread takes the one that has the fewest of the pool's nodes.""",
    )

    spare_nodes: int | None = _of_a_size(
        kinds.whole(0, unit="nodes"),
        """Keep this many idle nodes of the size ready beyond demand, within max_nodes and
        max_total_price; 0 when blank. They count towards min_nodes.""",
    )

    group: str | None = None
    """The NAME of the section that this is one of the `instance_types` of."""

    @property
    def cloud_id(self) -> str:
        """The cloud's own id of the size, NAME where the file gives none."""
        return self.instance_type or self.name

    @property
    def stands_alone(self) -> bool:
        """Whether the section suffices for a size that the cloud library does not list (S4)."""
        return self.cores is not None and self.ram_mb is not None and bool(self.price)


SIZE = section("size", SizeSection)

PASS_THROUGH: dict[str, str] = {
    "Cloud Credentials": """The credentials for the cloud; passed to the driver. Any key may be
    written KEY_file = PATH. They are read again, with the files that they name; new ones are used
    once the cloud says that they lead to the account, region and API known before.""",
    "Cloud List": """The filters for the account's nodes that this manager manages; passed to the
    driver. They choose what is managed, and never decide what exists.""",
    "Cloud Create": """The settings of new nodes; passed to the driver. They are read again, but for
    ping_host and user_data.""",
}
