"""Boot loops: if nodes in a row never ping, their size rests, and later all sizes (B5).

One that the cloud ended or stopped before its first ping is one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core.model.sizes import size_name
from nodemanager.core.model.world import Size
from nodemanager.core.observe.history import History, Records

SIZE_LOOP = 5
"""A size rests after this many of its nodes in a row never pinged (B5)."""
POOL_LOOP = 10
"""After this many over all sizes, only one probe is booted at a time (B5)."""
LONGEST_REST_S = 86400.0


@dataclass(frozen=True, slots=True)
class Streak:
    """Nodes in a row that never pinged, and the rests of booting that followed.

    `until` is when booting may go on, CLOCK_BOOTTIME. `rests` counts the rests so far, each twice
    as long as the one before, up to LONGEST_REST_S. `spent` is what those nodes cost, as far as
    prices are known.
    """

    failed: int = 0
    rests: int = 0
    until: float = 0.0
    spent: float = 0.0

    def failed_again(self, spent: float) -> Streak:
        """The streak with one more node, which cost `spent`."""
        return replace(self, failed=self.failed + 1, spent=self.spent + spent)

    def rested(self, at: float, first_s: float) -> Streak:
        """The streak with a rest that begins at `at`; the first rest lasts `first_s` seconds."""
        rest_s = min(LONGEST_REST_S, first_s * 2.0 ** min(self.rests, 32))
        return replace(self, rests=self.rests + 1, until=at + rest_s)


@dataclass(frozen=True, slots=True)
class Loops:
    """The streaks, by the size's name and over all sizes."""

    sizes: Mapping[str, Streak] = field(default_factory=dict)
    pool: Streak = Streak()

    @property
    def probing(self) -> bool:
        """Whether only probes are booted, one per rest."""
        return self.pool.failed >= POOL_LOOP

    def resting_until(self, size: str, at: float) -> float | None:
        """When that size may be booted again, CLOCK_BOOTTIME; None if it may be now."""
        until = self.sizes.get(size, Streak()).until
        if self.probing:
            until = max(until, self.pool.until)
        return until if until > at else None


NONE = Loops()


def spent_on(size: Size | None, age_s: float | None, boot_fail_after: float) -> float:
    """The cost of a node that never pinged: 0 without a price, boot_fail_after without an age."""
    if size is None:
        return 0.0
    lived_s = boot_fail_after if age_s is None else max(0.0, age_s)
    return (size.price or 0.0) * lived_s / 3600.0


def after_failure(
    loops: Loops, size: str | None, spent: float, at: float, boot_fail_after: float
) -> Loops:
    """The loops after one more node never pinged; it does not lengthen a rest under way."""
    sizes = dict(loops.sizes)
    if size is not None:
        streak = sizes.get(size, Streak()).failed_again(spent)
        if streak.failed >= SIZE_LOOP and at >= streak.until:
            streak = streak.rested(at, boot_fail_after)
        sizes[size] = streak
    pool = loops.pool.failed_again(spent)
    if pool.failed == POOL_LOOP:
        pool = pool.rested(at, boot_fail_after)
    return Loops(sizes, pool)


def after_probe(loops: Loops, at: float, boot_fail_after: float) -> Loops:
    """The loops after a boot was sent: while probing, the next waits twice as long (B5)."""
    if not loops.probing:
        return loops
    return replace(loops, pool=loops.pool.rested(at, boot_fail_after))


def after_first_ping(loops: Loops, size: str | None) -> Loops:
    """The loops after a node's first ping: its size's streak and that of all sizes end."""
    sizes = {name: streak for name, streak in loops.sizes.items() if name != size}
    return Loops(sizes)


def first_pings(
    history: History, listing: Records, claimed_sizes: Mapping[str, str]
) -> Iterator[tuple[str, str | None]]:
    """The records that `listing` shows pinged for the first time, and their nodes' sizes.

    `history` does not have that listing yet. Each of these records was listed before, unpinged and
    with the same claim, or is in `claimed_sizes`, because this run claimed it.
    """
    for record in listing.items:
        uuid = record.uuid
        if record.last_ping_at is None or record.claim is None:
            continue
        heard = history.heard.get(uuid)
        waited = (
            heard is not None
            and heard.incarnation == record.incarnation
            and heard.last_ping_at is None
        )
        if waited or uuid in claimed_sizes:
            nodes = history.bearers.get(uuid, ())
            known = size_name(nodes[0], record) if nodes else record.claim.size
            yield uuid, claimed_sizes.get(uuid) or known
