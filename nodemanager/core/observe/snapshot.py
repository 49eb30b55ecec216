"""The snapshot: everything that one decision is made from (SAFETY.md L4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nodemanager.core.model.annotations import PARK, PAUSE, ROTATE_PAUSE, HandClean, Mark
from nodemanager.core.model.breaker import Breaker
from nodemanager.core.model.scheduling import Dispatched
from nodemanager.core.model.streaks import NONE, Loops
from nodemanager.core.model.world import Job
from nodemanager.core.observe.clocks import MeasuredClock, wall_read
from nodemanager.core.observe.history import History

Rests = Mapping[str, Mapping[str, float]]
"""By size name and place: until when no such node is booted there, CLOCK_BOOTTIME (D6)."""


@dataclass(frozen=True, slots=True)
class Flight:
    """An action of ours in flight, since that CLOCK_BOOTTIME.

    `kind` is its `Workflow.flight`, for a record up to the colon. A set-up has its `incarnation`.
    """

    kind: str
    since: float
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """A node that the cloud created and no listing shows yet (P4); `since` is CLOCK_BOOTTIME.

    `node_id` is None where the cloud only may have created it: that waits for a listed ping. Asked
    by tag, the cloud had no such node first at `denied_at` (None: nobody asked, or it had one);
    `is_denied` once it said so again (U9).
    """

    node_id: str | None
    size: str
    since: float
    incarnation: str | None = None
    place: str | None = None
    denied_at: float | None = None
    is_denied: bool = False


@dataclass(frozen=True, slots=True)
class LateWrite:
    """Writes of ours to one record whose outcome is unknown: they may still take effect (C12).

    `at` is when we stopped waiting for the last of them, `clean_at` for the last clean (boottime).
    """

    at: float
    clean_at: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What the cloud refused lately (D6); times are CLOCK_BOOTTIME.

    `quota` is how many nodes there were when the cloud last refused one more, at `quota_at`. By
    size name, `resting` is until when it is not booted, `bad` its bad requests in a row.
    """

    quota: int | None = None
    quota_at: float = 0.0
    resting: Mapping[str, float] = field(default_factory=dict)
    throttled_until: float = 0.0
    bad: Mapping[str, int] = field(default_factory=dict)
    loops: Loops = NONE
    """Created nodes in a row that never pinged (B5)."""
    places: Rests = field(default_factory=dict)
    """Places that had no room for a size lately."""
    is_unclear: bool = False
    """Whether a create got no clear answer since the newest one that succeeded (U9)."""
    full: Mapping[str, float] = field(default_factory=dict)
    """By size name, when the cloud last had no room for it, in whatever place."""
    throttled: int = 0
    """How many times the cloud asked for fewer calls since a create or a destroy succeeded."""
    at_once: int | None = None
    """How many creates, destroys and cleans may run at once, each (U13); None: max_creates."""


@dataclass(frozen=True)
class Snapshot:
    """One immutable picture. `now` is CLOCK_BOOTTIME, `wall` epoch seconds.

    `demand` is None until the wishlist was polled. `record_flights` and `node_flights` are by
    record uuid and node id; `boots_unclaimed` has the size name of each set-up without a record;
    `claimed_sizes` (size names) and `expected` are by record uuid.
    `first_clean` says that no plan of this pool has called for a clean yet; `backlog` names the
    records that were held back then, each as `uuid@version`, and `let_go` those of them that an
    operator wants judged like all others (S5).
    `read_only` says why nothing may be written (L5). `touched` is when an action of ours ended, by
    record or node id, and `gone` when a node was gone: a listing that began before that is out of
    date, and is not acted on. A record that the newest listing shows without our claim is
    `touched`, too, whenever that listing began.
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
    """How many cleans and prunes ended, or put up a fence, since the listings began (C10)."""
    destroyed_lately: int = 0
    """How many nodes were destroyed since the listings began, for any reason but idle (D9)."""
    boots_unclaimed: tuple[str, ...] = ()
    unclear: Mapping[str, int] = field(default_factory=dict)
    """By size name: how many set-ups have a create without a clear answer (U9)."""
    claimed_sizes: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, Expected] = field(default_factory=dict)
    places_to_be: Mapping[str, int] = field(default_factory=dict)
    """By place: how many nodes are being set up there, or were created and are not listed yet."""
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
    """By record uuid: when its clean was last left undone; other records go first (C10)."""
    late: Mapping[str, LateWrite] = field(default_factory=dict)
    """By record uuid, where the store can't compare: writes that may still take effect (C12)."""
    touched: Mapping[str, float] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    drains: Mapping[str, Mark] = field(default_factory=dict)
    """By node id: nodes to be shut down once idle (O1)."""
    drain_orders: Mapping[str, str] = field(default_factory=dict)
    """By record uuid: the numbers of the drain orders that this run gave and that stand (D12)."""
    dispatched: Dispatched = field(default_factory=Dispatched)
    """What the scheduler was told, and what may still undo it (D12)."""
    late_destroys: frozenset[str] = frozenset()
    """By node id: destroys that were sent, that nobody waits for any more, and that may still take
    effect (D12)."""
    unknown_destroys: bool = False
    """Whether there may be others, of a former run whose journal was lost."""
    kills: Mapping[str, Mark] = field(default_factory=dict)
    """By node id: nodes to be shut down now (O2)."""
    journal_read: bool = True
    """Whether what a former run left is known, as which nodes it destroyed."""
    by_hand: Mapping[str, HandClean] = field(default_factory=dict)
    """By record uuid: records to be freed now (O3)."""
    pool_marks: Mapping[str, Mark] = field(default_factory=dict)
    """By kind: what operators ordered of the whole pool (O4, O6)."""

    @property
    def paused(self) -> Mark | None:
        """Who paused the pool, and why; None while it runs (O4)."""
        return self.pool_marks.get(PAUSE)

    @property
    def rotation_paused(self) -> Mark | None:
        """Who paused the replacement of outdated nodes, and why; None while it goes on (O6)."""
        return self.pool_marks.get(ROTATE_PAUSE)

    @property
    def parked(self) -> Mark | None:
        """Who parked the pool, and why; None while it runs (O7)."""
        return self.pool_marks.get(PARK)

    @cached_property
    def wall_clock(self) -> MeasuredClock:
        """Our wall clock as measured, with the reading of this moment (T1)."""
        return wall_read(self.history.wall, self.wall, self.now)
