"""The effective windows and limits that decisions use; config checks them first."""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.model.scheduling import SchedulerVerb
from nodemanager.core.model.world import Claim, Size

CREATE_MARGIN_S = 120.0
"""A create takes effect within boot_fail_after plus this after its claim, or never (A2)."""
CREATE_WITHIN_S = 60.0
"""A create is sent at most this long after its claim; later it first renews the claim (U5)."""
ORDER_TTL_S = 60.0
"""An order is carried out at most this long after its plan, or not at all (C11)."""
CLEANS_EACH = 4
"""At most this many cleans are under way for each worker: the last must be done in time (C11)."""
CLOCK_STEP_S = 60.0
"""A larger move of the store's clock is a step; a stamp further ahead is not believed (T1)."""
CLOCK_AGREE_POLLS = 3
"""After a step, this many polls must agree on the store's clock before anything is cleaned (T1)."""
KNOWN_SET_S = 600.0
"""A listing is compared with the largest set of ids listed in this time (L3)."""
COLLAPSE_FLOOR = 5
"""A set smaller than this never counts as collapsed (L3, D9)."""
IMPOSSIBLE_FRACTION = 0.05
"""A cycle with a larger share of impossible items than this is aborted (L4)."""
NEWS_S = 120.0
"""An idle ping is believed for at most this long after the listing that first showed it (D12)."""
TOLD_WITHIN_S = 30.0
"""A scheduler is told something at most this long after it was decided, or not at all (D12)."""
LATE_ORDER_S = 120.0
"""An order to a scheduler takes effect at most this long after it was sent, or never (D12)."""
ASK_AGAIN_S = 30.0
"""A "no such node" is asked twice, this far apart (D3)."""

ELIGIBLE_WINDOW_S = 600.0
"""A record counts as newly eligible to be freed for this long (B1)."""
ELIGIBLE_FLOOR = 100
ELIGIBLE_FRACTION = 0.1
"""The breaker opens on more new ones than both this count and this share of the slots (B1)."""
WRITE_FAILURES = 5
"""This many failed writes to the record store in a row open the breaker (B1)."""

LATE_PING_S = 60.0
"""A ping of a freed life that comes later than this after its clean is a sign of life (U8)."""
FREED_KEPT_S = 7 * 86400.0
"""How long a freed life is remembered (U8)."""
FREED_LIMIT = 10_000
"""At most this many freed lives are remembered, the newest."""
ASK_LIMIT = 20
"""At most this many nodes are asked for by id in one cycle, and as many by tag (B3, P6, U8)."""


@dataclass(frozen=True)
class Settings:
    """Effective settings; every duration is in seconds, every price per hour.

    `shutdown_windows` are seconds from a node's launch, alternately closed and open, repeated;
    empty means always open. `sizes` are the sizes that may be booted. `max_total_price` 0 is no
    cap. `adopt_unclaimed` None means: yes while no record names another pool (T3). `may_authorise`
    says that the adapters of cloud and store prove their listings complete (L2). `tells_drain` says
    that the store's answers to pings can tell a node to take no more work (D12). `prune_after` None
    deletes nothing, `max_node_age` None replaces no node for its age. `scheduled`: a scheduler says
    what waits and which nodes work (T6). `seats`: the store's records are the scheduler's nodes,
    and a boot is for one of these. `hostname` is the pattern of the slots' names, as
    `compute%(slot_number)d`, where the store gives the smallest free slot; else None.
    `scheduler_can` is what the scheduler can do besides; `cancel_unsatisfiable`: jobs that no size
    can run are cancelled there. `claims_keep_window` is off in a replay that tries other windows.
    """

    pool: str
    adopt_unclaimed: bool | None = None
    node_stale_after: float = 7200.0
    poll_stale_after: float = 600.0
    boot_fail_after: float = 1800.0
    settle: float = 60.0
    absent_listings: int = 2
    collapse_fraction: float = 0.3
    max_cleans_per_cycle: int = 25
    max_shutdowns_per_cycle: int = 5
    max_creates: int = 16
    hold_backlog: bool = True
    prune_after: float | None = None
    max_node_age: float | None = None
    action_timeout: float = 900.0
    visible_after: float = 300.0
    claim_expiry: bool = False
    claims_keep_window: bool = True
    ids_unique: bool = False
    may_authorise: bool = True
    compare_and_set: bool = True
    tells_drain: bool = False
    demand_polled: bool = False
    scheduled: bool = False
    seats: bool = False
    hostname: str | None = None
    scheduler_can: frozenset[SchedulerVerb] = frozenset()
    cancel_unsatisfiable: bool = False
    min_nodes: int = 0
    max_nodes: int = 1
    max_total_price: float = 0.0
    max_poll_time: float = 300.0
    max_retry_after: float = 3600.0
    consecutive_idle_count: int = 2
    node_mem_scaling: float = 0.95
    shutdown_windows: tuple[float, ...] = ()
    sizes: tuple[Size, ...] = ()

    @property
    def create_known_after(self) -> float:
        """How many seconds after a claim made now the cloud knows what came of its create (A1, A2).

        Asked then, it has the node, or there is none and none will come.
        """
        return self.boot_fail_after + CREATE_MARGIN_S + self.visible_after

    @property
    def claim_window(self) -> float:
        """The window in seconds of a claim made now whose node never pings (C21)."""
        expiry = self.create_known_after
        return expiry if self.claim_expiry else max(expiry, self.node_stale_after)

    def window_of(self, claim: Claim) -> float:
        """The window in seconds of `claim` if its node never pings: its own if it has one (S6)."""
        if claim.window is None or not self.claims_keep_window:
            return self.claim_window
        return claim.window
