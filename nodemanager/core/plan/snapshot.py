"""Everything that one decision is made from (SAFETY.md L4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodemanager.core.model.annotations import HandClean, Mark
from nodemanager.core.model.world import Job
from nodemanager.core.observe.history import History
from nodemanager.core.safety.boot_loops import NONE, Loops
from nodemanager.core.safety.breaker import Breaker


@dataclass(frozen=True, slots=True)
class Flight:
    """Something of ours under way: `kind` is setup, shutdown or clean; `since` is boottime.

    `incarnation` is that of a set-up's claim.
    """

    kind: str
    since: float
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """A node that the cloud said it created, not listed yet (P4).

    Or one that it may have created, `node_id` None, until a listing shows its ping.
    """

    node_id: str | None
    size: str
    since: float
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class LateWrite:
    """Of writes of ours on one record nobody knows whether they took effect, or will (C12).

    Times are CLOCK_BOOTTIME: when nobody waited for the last of them any more, and for the last
    clean among them.
    """

    at: float
    clean_at: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What the cloud refused lately (D6); times are boottime.

    `quota` is how many nodes there were when it last refused one more, `bad` how many requests in a
    row it called bad, by size.
    """

    quota: int | None = None
    quota_at: float = 0.0
    resting: Mapping[str, float] = field(default_factory=dict)
    throttled_until: float = 0.0
    bad: Mapping[str, int] = field(default_factory=dict)
    loops: Loops = NONE
    """Nodes in a row that never pinged (B5)."""


@dataclass(frozen=True)
class Snapshot:
    """One immutable picture. `now` is CLOCK_BOOTTIME, `wall` epoch seconds.

    `demand` is None until the wishlist was polled. `record_flights` and `node_flights` are by
    record uuid and node id; `boots_unclaimed` are set-ups that have no record yet, by size name.
    `first_clean` says that no plan of this pool has called for a clean yet; `backlog` are the
    records that were held back then, each as `uuid@version`, and `let_go` those of them that an
    operator has looked at and wants judged like all others (S5).
    `read_only` says why nothing may be written (L5). `touched` is when something of ours for a
    record or node ended, `gone` when a node was gone, by id: a listing that began before shows
    what was, and is not acted on again. A record that the newest listing shows as it was before a
    claim of ours is `touched`, too, whenever that listing began.
    """

    plan_id: str
    now: float
    wall: float
    history: History
    demand: tuple[Job, ...] | None = ()
    demand_at: float | None = None
    slots: int | None = None
    record_flights: Mapping[str, Flight] = field(default_factory=dict)
    node_flights: Mapping[str, Flight] = field(default_factory=dict)
    cleaned_lately: int = 0
    """How many cleans ended in this round of polls: they are of the same cycle's cap (C10)."""
    destroyed_lately: int = 0
    """How many nodes were destroyed in this round for anything but idle (D9)."""
    boots_unclaimed: tuple[str, ...] = ()
    unclear: Mapping[str, int] = field(default_factory=dict)
    """By size name: set-ups whose create got no clear answer yet (U9)."""
    claimed_sizes: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, Expected] = field(default_factory=dict)
    holds: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)
    breaker: Breaker = field(default_factory=Breaker)
    lease: bool = True
    read_only: str | None = None
    own_cleans: frozenset[str] = frozenset()
    first_clean: bool = False
    backlog: frozenset[str] = frozenset()
    let_go: frozenset[str] = frozenset()
    skipped: Mapping[str, float] = field(default_factory=dict)
    """When the clean of a record was last left undone: others have their turn first (C10)."""
    late: Mapping[str, LateWrite] = field(default_factory=dict)
    """By record, on a store that can't compare: what may still be written to it (U2, C12)."""
    touched: Mapping[str, float] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    drains: Mapping[str, Mark] = field(default_factory=dict)
    """By node id: to be shut down once idle (O1)."""
    drain_orders: Mapping[str, str] = field(default_factory=dict)
    """By record uuid: the orders to drain that this run gave, and has not taken back (D12)."""
    kills: Mapping[str, Mark] = field(default_factory=dict)
    """By node id: to be shut down now (O2)."""
    by_hand: Mapping[str, HandClean] = field(default_factory=dict)
    """By record uuid: to be freed now (O3)."""
    paused: Mark | None = None
    """Who paused the pool (O4)."""
