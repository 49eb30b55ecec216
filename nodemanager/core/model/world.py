"""The facts that decisions are made from: cloud nodes, records, listings, sizes.

Everything here is frozen data. Times named `*_at` of a record are epoch seconds on the store's
clock; those of a node are epoch seconds on the cloud's clock; a listing's are CLOCK_BOOTTIME
seconds of this machine (SAFETY.md T1, T2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from nodemanager.core.model.made_often import made_often

T = TypeVar("T")


class CloudState(StrEnum):
    """What a cloud says of a node; each adapter maps its raw states to these (T4)."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    TERMINATED = "terminated"
    UNKNOWN = "unknown"


class WorkerState(StrEnum):
    """What a node does, by its own word or a scheduler's (T6)."""

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
    """What became of a destroy (D3). Only `gone` frees the slot."""

    GONE = "gone"
    ACCEPTED = "accepted"
    FAILED = "failed"
    UNKNOWN = "unknown"


class LeftoverKind(StrEnum):
    """What a node can leave behind, in the order in which it is released (D4).

    Interfaces go first: they hold addresses of the subnet and security groups, without which no
    new node boots, and an address can't be given back while an interface bears it. Volumes need
    nothing of the others and cost the most of the rest. Addresses go last.
    """

    INTERFACE = "interface"
    VOLUME = "volume"
    ADDRESS = "address"


class Guarantee(StrEnum):
    """What stands between a clean and a ping that races with it (C12)."""

    CAS = "cas"
    FENCED = "fenced"


@made_often(frozen=True, slots=True)
class Tags:
    """Our tags on a node (U5, U11); None where the node lacks one. `size` is a size's name."""

    pool: str | None = None
    record: str | None = None
    incarnation: str | None = None
    size: str | None = None


NO_TAGS = Tags()


@made_often(frozen=True, slots=True)
class CloudNode:
    """A machine as the cloud lists it.

    `created_at` is the cloud's launch time, None where the cloud gave none. `managed` says that
    the node bears our pool's tag or matches `[Cloud List]` (T5); others are only seen.
    `problems` names the fields that could not be read (P3).
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

    @property
    def is_absent(self) -> bool:
        """Only a terminated node is absent; every other state holds its slot (T4)."""
        return self.state is CloudState.TERMINATED


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that a node pins, and that outlives it until it is released (D4).

    `node_id` is empty where the cloud no longer tells whose it was. `tagged` says that it bears
    our pool's tags; one that does not is named by the ledger alone.
    """

    kind: LeftoverKind
    id: str
    node_id: str
    tagged: bool = True

    @property
    def order(self) -> int:
        """Of one node, the lower is released first; the same in every cloud and region."""
        return _RELEASE_ORDER[self.kind]

    @property
    def key(self) -> tuple[LeftoverKind, str]:
        """What names it in the ledger; its node may be learned later."""
        return self.kind, self.id


_RELEASE_ORDER = {kind: position for position, kind in enumerate(LeftoverKind, 1)}


@made_often(frozen=True, slots=True)
class Claim:
    """The mark that a record is reserved for a node being set up (U4).

    `at` is on the store's clock; `token` is the lease's fencing token; `incarnation` is 128
    random bits in hex (T8). `size` is the name of the size that is booted on it, `price` what that
    costs per hour (U11). `window` is how long it stands without a ping, by the settings that it was
    made under (C21, S6). A claim of an older version names none of the three. `node_id` is the
    node that the cloud created for it, once that was written down: then pings that name another
    are refused (P1a).
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


@made_often(frozen=True, slots=True)
class Record:
    """A row of the record API.

    `worker_state` is what the node itself reported in its last ping (None: it reported none);
    `derived_state` is the API's own crunch_worker_state, which is never evidence of `down` (T6).
    `version` is what a conditional write is conditional on. `pool` is the pool the record names
    (T3), with or without a claim. `instance_id` is the node that its claim names, or else the id
    that the node pinged with. `fenced` says that a fence stands on it, which locks its node out
    (C12). `failed` says that the node's own word is `fail`: it is down, and its boot grace is over
    (D1). `drain` is the number of the order to take no more work that the answers to its pings
    give, None where they give none; `drained` the one that its own newest word says it has carried
    out; `drain_hook` says that it can (D12).
    `ping_secret` opens the record to a ping: never logged, never in a repr.
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

    @property
    def holds_slot(self) -> bool:
        """Slot 0 is a slot."""
        return self.slot_number is not None

    @property
    def holds_anything(self) -> bool:
        """Any field of C1, or a claim. The pool's name alone is neither (T7)."""
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
    """The newest ping that bore a freed life's secret (U8); times are the store's epoch seconds.

    `freed_at` is when that life of the record ended, `instance_id` and `address` what the ping
    gave of itself.
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
    """One life of a record, ended by a clean (U8). Times are CLOCK_BOOTTIME seconds.

    `node_id` is the instance that pinged as it, `why` the reason code of the clean; `told_at` is
    when it was told that its node lives on.
    """

    record: str
    incarnation: str | None
    freed_at: float
    node_id: str | None = None
    slot: int | None = None
    hostname: str | None = None
    why: str | None = None
    told_at: float | None = None

    @property
    def key(self) -> str:
        return life_key(self.record, self.incarnation)


def life_key(record: str, incarnation: str | None) -> str:
    """What names one life of a record; those without a claim are one."""
    return f"{record}/{incarnation or ''}"


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """What one list call of an adapter gave.

    `complete` is False when an item could not even be identified, so that anything may be
    missing. A call that failed raises instead: it is no listing at all (L1). `problems` has one
    line for each malformed item.
    """

    items: tuple[T, ...]
    complete: bool = True
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """One answer of one list call, with its times (CLOCK_BOOTTIME seconds)."""

    items: tuple[T, ...]
    started_at: float
    ended_at: float
    complete: bool = True
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreTime:
    """The store's clock, `at` epoch seconds when our boottime was `boottime`; good to `error_s`.

    `beats` is how often the store was ever asked for it by a write, where it counts: one that
    counts fewer than before was put back to what it was (L5).
    """

    at: float
    boottime: float
    error_s: float
    beats: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Size:
    """A kind of node one can boot. `price` is per hour; None or 0 is unknown (S4).

    `name` is what the configuration and the log call it; `instance_type` is the cloud's own id.
    Memory or scratch space of 0 is unknown. `ram_is_given` says that `ram_mb` is what a job may
    have, by the configuration's own word; else node_mem_scaling of it is.
    """

    name: str
    instance_type: str
    cores: int
    ram_mb: int
    scratch_mb: int = 0
    price: float | None = None
    preemptible: bool = False
    ram_is_given: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One line of the wishlist: `count` nodes with at least this much of everything."""

    id: str
    cores: int = 1
    ram_mb: int = 0
    scratch_mb: int = 0
    count: int = 1
    preemptible: bool = False
    instance_type: str | None = None
