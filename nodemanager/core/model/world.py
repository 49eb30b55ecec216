"""The data that decisions are made from: cloud nodes, records, listings, sizes; all frozen.

Times (`*_at`) of a record are epoch seconds on the store's clock, those of a node epoch seconds on
the cloud's clock, those of a listing CLOCK_BOOTTIME seconds of this machine (SAFETY.md T1, T2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nodemanager.core.model.features import Alternatives, Gres
from nodemanager.core.model.reasons import Reason

# A cheaper frozen dataclass, for objects that each poll creates for every node.
if TYPE_CHECKING:
    # The type checker sees a frozen dataclass, so that an assignment to a field fails the check.
    from dataclasses import dataclass as made_often
else:

    def made_often(*, frozen: bool, slots: bool) -> Any:
        """A dataclass that only the type checker treats as frozen.

        A frozen dataclass sets each field through a function call, which makes building a listing
        of 10,000 nodes and records six times as expensive.
        """
        assert frozen
        return dataclass(slots=slots, unsafe_hash=True)


T = TypeVar("T")


class CloudState(StrEnum):
    """The state of a node in the cloud; each adapter maps its raw states to these (T4)."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    TERMINATED = "terminated"
    UNKNOWN = "unknown"


class WorkerState(StrEnum):
    """What a node is doing, as reported by the node itself or by a scheduler (T6)."""

    BUSY = "busy"
    IDLE = "idle"
    DOWN = "down"
    UNKNOWN = "unknown"


class RecordState(StrEnum):
    """The total, exclusive classification of a record (T7)."""

    CLEANED = "cleaned"
    ASSIGNED = "assigned"
    IN_USE = "in_use"
    STALE = "stale"
    UNREADABLE = "unreadable"


class Outcome(StrEnum):
    """The outcome of a destroy (D3). Only `gone` frees the slot."""

    GONE = "gone"
    ACCEPTED = "accepted"
    FAILED = "failed"
    UNKNOWN = "unknown"


class LeftoverKind(StrEnum):
    """The kinds of resources that a node can leave behind, in the order of their release (D4).

    Interfaces go first: they hold subnet addresses and security groups that new nodes need, and an
    address can't be released while an interface has it. Volumes depend on neither and cost more
    than addresses, which go last.
    """

    INTERFACE = "interface"
    VOLUME = "volume"
    ADDRESS = "address"


class Guarantee(StrEnum):
    """How a store protects a clean from a ping that races with it (C12)."""

    CAS = "cas"
    FENCED = "fenced"


@made_often(frozen=True, slots=True)
class Tags:
    """Our tags on a node (U5, U11); None where the node lacks one. `size` is the size's name."""

    pool: str | None = None
    record: str | None = None
    incarnation: str | None = None
    size: str | None = None


NO_TAGS = Tags()


@made_often(frozen=True, slots=True)
class CloudNode:
    """A machine as the cloud lists it.

    `created_at` is the cloud's launch time, None where the cloud gave none. `managed` says that
    the node has our pool's tag or matches `[Cloud List]` (T5); other nodes are seen but never
    touched. `places` are the cloud's names for where it is, its zone and its subnet; empty where
    nobody asks for them. `image` is the immutable id of the image that it was booted from, None
    where the listing does not tell it. `why` is the cloud's own reason for its state, such as why
    it ended; empty where the cloud tells none. `problems` tells which fields could not be read
    (P3). `pending` has only the answer to a create that the cloud goes on with: how the cloud is
    asked for its end.
    """

    id: str
    name: str
    state: CloudState
    size: str | None = None
    created_at: float | None = None
    tags: Tags = NO_TAGS
    managed: bool = True
    held: bool = False
    raw_state: str = ""
    addresses: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    image: str | None = None
    why: str = ""
    pending: str = ""

    @property
    def is_absent(self) -> bool:
        """Whether the node is terminated; in every other state it holds its slot (T4)."""
        return self.state is CloudState.TERMINATED


@dataclass(frozen=True, slots=True)
class Leftover:
    """One resource that a node pins and that outlives the node until it is released (D4).

    `node_id` is empty where the cloud no longer tells which node it belonged to. `tagged` says that
    it has our pool's tags; without them only the ledger names it.
    """

    kind: LeftoverKind
    id: str
    node_id: str
    tagged: bool = True

    @property
    def order(self) -> int:
        """The place in the release order of one node's resources, lowest first, in every cloud."""
        return _RELEASE_ORDER[self.kind]

    @property
    def key(self) -> tuple[LeftoverKind, str]:
        """Its key in the ledger; without `node_id`, which may be learned later."""
        return self.kind, self.id


_RELEASE_ORDER = {kind: position for position, kind in enumerate(LeftoverKind, 1)}


@made_often(frozen=True, slots=True)
class Claim:
    """The mark that a record is reserved for a node being set up (U4).

    `at` is on the store's clock; `token` is the lease's fencing token; `incarnation` is 128
    random bits in hex (T8). `size` is the name of the size to boot, `price` its cost per hour
    (U11). `window` is how many seconds the claim stands without a ping, by the settings it was
    made with (C21, S6). Where another program wrote the claim, these three may be missing.
    `node_id` is the node that the cloud created for the claim, once that was written down; then
    pings that name another node are refused (P1a). `image` and `instance_type` are what the node
    was to be booted as.
    """

    pool: str
    manager: str
    token: int
    at: float
    node_name: str
    incarnation: str
    window: float | None = None
    size: str | None = None
    price: float | None = None
    node_id: str | None = None
    image: str | None = None
    instance_type: str | None = None


class Taking(StrEnum):
    """Why a cloud takes a node away."""

    SPOT = "spot"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True)
class CloudNotice:
    """The cloud's word that it will take a node, as the node read it (D18).

    `at` is when, epoch seconds by the cloud's clock; None where the cloud says no time.
    """

    why: Taking
    at: float | None = None


@made_often(frozen=True, slots=True)
class Record:
    """A row of the record API.

    `worker_state` is what the node reported in its last ping (None: nothing); `derived_state` is
    the API's own crunch_worker_state, which is never evidence of `down` (T6). `version` is what a
    conditional write compares. `pool` is the pool the record names (T3), with or without a claim.
    `instance_id` is the node that its claim names, else the id that the node pinged with. `fenced`
    says that a fence locks its node out (C12). `failed` says that the node reported `fail`: it is
    down, and its boot grace is over (D1). `drain` is the number of the drain order in the answers
    to its pings, or None; `drained` is the order that the node's newest ping reports as carried
    out; `drain_hook` says that the node has a drain hook (D12). `notice` is the cloud's word that
    it will take the node, by its pings (D18). `ping_secret` authorises a ping: it is never
    logged and never in a repr.
    """

    uuid: str
    version: str
    slot_number: int | None = None
    hostname: str | None = None
    ip_address: str | None = None
    first_ping_at: float | None = None
    last_ping_at: float | None = None
    modified_at: float | None = None
    worker_state: WorkerState | None = None
    derived_state: WorkerState = WorkerState.UNKNOWN
    instance_id: str | None = None
    pool: str | None = None
    claim: Claim | None = None
    held: bool = False
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    info: Mapping[str, Any] = field(default_factory=dict, repr=False)
    ping_secret: str | None = field(default=None, repr=False)
    problems: tuple[str, ...] = ()
    fenced: bool = False
    failed: bool = False
    drain: str | None = None
    drained: str | None = None
    drain_hook: bool = False
    notice: CloudNotice | None = None

    @property
    def holds_slot(self) -> bool:
        """Whether the record holds a slot; slot 0 is a slot."""
        return self.slot_number is not None

    @property
    def holds_anything(self) -> bool:
        """Whether any field of C1 is set, or a claim; the pool's name alone does not count (T7)."""
        return (
            self.slot_number is not None
            or self.hostname is not None
            or self.ip_address is not None
            or self.first_ping_at is not None
            or self.last_ping_at is not None
            or self.claim is not None
        )

    @property
    def incarnation(self) -> str | None:
        return None if self.claim is None else self.claim.incarnation


@dataclass(frozen=True, slots=True)
class LatePing:
    """The newest ping with a freed life's secret (U8); times are the store's epoch seconds.

    `freed_at` is when that life of the record ended; the ping named `instance_id` and `address`.
    """

    record: str
    incarnation: str | None
    pool: str | None
    freed_at: float
    at: float
    instance_id: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class FreedLife:
    """One life of a record that a clean ended (U8). Times are CLOCK_BOOTTIME seconds.

    `node_id` is that life's instance id, `why` the reason code of the clean. `reported_at` is when
    a false clean was reported: its node lives on.
    """

    record: str
    incarnation: str | None
    freed_at: float
    node_id: str | None = None
    slot: int | None = None
    hostname: str | None = None
    why: str | None = None
    reported_at: float | None = None

    @property
    def key(self) -> str:
        return life_key(self.record, self.incarnation)


def life_key(record: str, incarnation: str | None) -> str:
    """The key of one life of a record; all its lives without a claim share one key."""
    return f"{record}/{incarnation or ''}"


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """The answer of one list call of an adapter.

    `complete` is False when an item could not be identified, so that any node or record may be
    missing. A failed call raises instead: it is no listing (L1). `problems` has one line for each
    malformed item. `names` are all that an item can have, also of those that the source does not
    show now; None where others may come.
    """

    items: tuple[T, ...]
    complete: bool = True
    problems: tuple[str, ...] = ()
    names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The answer of one list call, with its times in CLOCK_BOOTTIME seconds."""

    items: tuple[T, ...]
    started_at: float
    ended_at: float
    complete: bool = True
    problems: tuple[str, ...] = ()
    names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class StoreTime:
    """One reading of the store's clock: `at`, epoch seconds, at our CLOCK_BOOTTIME `boottime`.

    The error is at most `error_s`. `beats` is the store's count of heartbeats, where it keeps one;
    a count lower than before shows that the store was restored from a backup (L5).
    """

    at: float
    boottime: float
    error_s: float
    beats: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Size:
    """A kind of node that can be booted. `price` is per hour; None or 0 is unknown (S4).

    `name` is the name in the configuration and the log; `instance_type` is the cloud's own id.
    `group` is what it is called with others of other types, any of which will do. Memory or scratch
    space of 0 is unknown. If `ram_is_given`, the configuration set `ram_mb` and jobs may use all of
    it; else they may use `node_mem_scaling` of it. `features` and `gres` are what its nodes have of
    those in the scheduler (`has_features`, `has_gres`). `places` are the zones or subnets to boot
    it in: in this order or, with `spread`, where the fewest nodes are. `spare_nodes` are kept idle
    beyond demand.
    """

    name: str
    instance_type: str
    cores: int
    ram_mb: int
    scratch_mb: int = 0
    price: float | None = None
    preemptible: bool = False
    ram_is_given: bool = False
    features: tuple[str, ...] = ()
    gres: Gres = ()
    places: tuple[str, ...] = ()
    spread: bool = False
    spare_nodes: int = 0
    group: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What a job or a node of a scheduler may call it."""
        return (self.name, *filter(None, (self.group,)), self.instance_type)


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to share out a job: `count` nodes with at least these resources each."""

    count: int
    cores: int = 1
    ram_mb: int = 0
    gres: Gres = ()


@dataclass(frozen=True, slots=True)
class Unserved:
    """Why no boot of any size serves a job; `detail` is for its owner."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Job:
    """One waiting job: `count` nodes with at least these resources each.

    A node must have all of one of the sets of `features`, and all of `gres`, with its counts.
    `shapes` are the other ways to share the job out, each over more nodes than the one before.
    `host` is the one node of the scheduler that a boot for the job must bring, by its name; None:
    any does, but for those of `not_on`. The job runs `on` these nodes and, where it wants more, on
    others. `array` is the id of the array that it is a task of: its owner is told once for all of
    them. `shares`: a node may have other such jobs beside it. `unserved` is set where its
    scheduler's own words say that no boot can serve it.
    """

    id: str
    cores: int = 1
    ram_mb: int = 0
    scratch_mb: int = 0
    count: int = 1
    preemptible: bool = False
    instance_type: str | None = None
    features: Alternatives = ()
    gres: Gres = ()
    host: str | None = None
    array: str | None = None
    shapes: tuple[Shape, ...] = ()
    on: tuple[str, ...] = ()
    not_on: tuple[str, ...] = ()
    shares: bool = False
    unserved: Unserved | None = None
