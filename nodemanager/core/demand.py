"""How many nodes of which size are wanted, may be booted, or are more than wanted.

min_nodes, max_nodes, sizes by price, max_total_price (S4), quota and capacity (D6), the slot gate
(U7) and pending claims (U6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nodemanager.core.bearers import node_of
from nodemanager.core.model import Job, Record, Size, WorkerState
from nodemanager.core.pools import not_ours
from nodemanager.core.reasons import Reason
from nodemanager.core.settings import Settings
from nodemanager.core.shutdown import OUTSIDE, NodeView
from nodemanager.core.slots import Slots
from nodemanager.core.snapshot import Limits, Snapshot
from nodemanager.core.standing import standing_block
from nodemanager.core.unlisted import NOTHING, Unlisted
from nodemanager.errors import QuotaExceeded, Throttled

SPARE = frozenset({Reason.BOOTING, Reason.UNPAIRED_WITHIN_WINDOW})
"""Kept nodes that will take work soon, as far as is known."""


@dataclass(frozen=True, slots=True)
class Wants:
    """What demand makes of a snapshot.

    `boots` are the granted ones, in order; `refused` counts the others by (size, reason);
    `surplus` are idle nodes that may go; `unmet` are the sizes still wanted after what is up;
    `price` is per hour, of all there is.
    """

    boots: tuple[tuple[Size, Reason], ...]
    refused: dict[tuple[str, Reason], int]
    surplus: frozenset[str]
    unmet: frozenset[str]
    wishlist: int
    price: float


def size_for(job: Job, sizes: Sequence[Size], settings: Settings) -> Size | None:
    """The cheapest size with at least what the job needs; None where there is none."""
    for size in sizes:
        if job.instance_type is not None:
            if job.instance_type in (size.name, size.instance_type):
                return size
            continue
        if (
            size.cores >= job.cores
            and size.ram_mb * settings.node_mem_scaling >= job.ram_mb
            and size.scratch_mb >= job.scratch_mb
            and (job.preemptible or not size.preemptible)
        ):
            return size
    return None


def by_price(sizes: Iterable[Size]) -> tuple[Size, ...]:
    """Cheapest first; a size of unknown or zero price last (S4)."""
    return tuple(
        sorted(sizes, key=lambda size: (not size.price, size.price or 0.0, size.cores, size.name))
    )


def pending_claims(
    records: Iterable[Record],
    snapshot: Snapshot,
    settings: Settings,
    unlisted: Unlisted = NOTHING,
) -> set[str]:
    """Records claimed for a node that is neither listed nor heard yet: nodes to be (U6, P4).

    And records whose node was heard and is not listed, until its absence is settled: a listing
    that lacks it may be short, and a node beside it would be one too many.
    """
    history = snapshot.history
    # Most have a listed node, and are none of either: one pass leaves them out.
    bearers, present = history.bearers, history.present
    records = [record for record in records if node_of(record, bearers, present) is None]
    pending = {
        uuid
        for uuid, expected in snapshot.expected.items()
        if expected.node_id not in history.present
        and uuid not in history.bearers
        and snapshot.now - expected.since <= settings.boot_fail_after
    }
    pending.update(
        uuid
        for uuid, flight in snapshot.record_flights.items()
        if flight.kind == "setup" and uuid not in history.bearers
    )
    pending.update(record.uuid for record in records if _is_unpinged_claim(record, settings))
    pending.update(unlisted_nodes(records, snapshot, settings, unlisted))
    return pending


def count_listed_claims(records: Iterable[Record], pending: set[str], settings: Settings) -> int:
    """Unpinged claims whose node is listed: until they are cleaned they count, too (U6).

    As a node each counts against max_nodes already, but no longer once that node is gone.
    """
    return sum(
        _is_unpinged_claim(record, settings) and record.uuid not in pending for record in records
    )


def _is_unpinged_claim(record: Record, settings: Settings) -> bool:
    if record.first_ping_at is not None or record.last_ping_at is not None:
        return False
    return record.claim is not None and record.claim.pool == settings.pool


def unlisted_nodes(
    records: Iterable[Record],
    snapshot: Snapshot,
    settings: Settings,
    unlisted: Unlisted = NOTHING,
) -> Iterator[str]:
    """Records whose node was heard lately, is not listed, and may be alive all the same (C5, P6).

    `records` are those whose own node no listing shows.

    What the cloud says of it by id goes before all: one that it has counts, one that it denied
    since the last ping does not. Else its absence counts once it was seen in enough complete
    listings, for `settle`, and a record listing after that shows no ping since the first of them;
    or once the cloud lists the node as terminated.
    """
    history, clock = snapshot.history, snapshot.history.clock
    assert history.cloud is not None
    assert history.records is not None
    records_at = history.records.started_at
    ended = {node.id for node in history.cloud.items if node.is_absent}
    ended_lives = {
        (node.tags.record, node.tags.incarnation)
        for node in history.cloud.items
        if node.is_absent and node.tags.record is not None
    }
    for record in records:
        if record.last_ping_at is None or record.pool != settings.pool or clock is None:
            continue
        if record.instance_id in ended or record.instance_id in snapshot.gone:
            continue
        if record.instance_id is None and (record.uuid, record.incarnation) in ended_lives:
            # Where the node told its id, one with its tags may be its twin.
            continue
        heard_ago = clock.age(record.last_ping_at, snapshot.now)
        asked = unlisted.verdicts.get(record.uuid)
        if asked is not None:
            if asked.reason is not Reason.PINGING_UNLISTED:
                yield record.uuid
                continue
            if heard_ago > (asked.measures or {})["age_s"]:
                continue
        # A listing is no word on the time since: who was heard then may be alive.
        if clock.age(record.last_ping_at, records_at) > settings.poll_stale_after:
            continue
        absence = history.absence.get(record.uuid)
        if (
            absence is None
            or absence.incarnation != record.incarnation
            or absence.listings < settings.absent_listings
            or absence.last_at - absence.first_at < settings.settle
            or records_at < absence.first_at + settings.settle
            or heard_ago < snapshot.now - absence.first_at
        ):
            yield record.uuid


def _leaving(snapshot: Snapshot) -> set[str]:
    """Records whose node we are destroying, and that no listing shows: it is not gone yet (D3)."""
    return {
        uuid
        for uuid, flight in snapshot.record_flights.items()
        if flight.kind.startswith("shutdown") and uuid not in snapshot.history.bearers
    }


def is_locked(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """A cleaned record that may not be used again yet, for want of compare-and-set (U2).

    Our own cleans are free at once, unless another write of ours may still take effect (C12).
    """
    if settings.compare_and_set:
        return False
    late = snapshot.late.get(record.uuid)
    if late is not None and snapshot.now - late.at <= settings.node_stale_after:
        return True
    if record.uuid in snapshot.own_cleans:
        return False
    clock = snapshot.history.clock
    if clock is None or record.modified_at is None:
        return True
    return not clock.age(record.modified_at, snapshot.now) > settings.node_stale_after


def count_locked(records: Iterable[Record], snapshot: Snapshot, settings: Settings) -> int:
    """Records of ours under U2's lock: with unpinged claims never more than max_nodes (U6)."""
    if settings.compare_and_set:
        return 0
    return sum(
        not record.holds_anything
        and not_ours(record, settings.pool, settings.adopt_unclaimed) is None
        and record.uuid not in snapshot.record_flights
        and is_locked(record, snapshot, settings)
        for record in records
    )


class Market:
    """Supply and demand of one snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        views: Sequence[NodeView],
        pending: set[str],
        slots: Slots,
        locked: int = 0,
    ) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.slots = slots
        self.locked = locked
        self.sizes = by_price(settings.sizes)
        self.views = views
        self._size_by_type: dict[str, Size] = {}
        for size in self.sizes:
            self._size_by_type.setdefault(size.instance_type, size)
            self._size_by_type.setdefault(size.name, size)
        self.spare: Counter[str] = Counter()
        self.up = len(pending) + len(snapshot.boots_unclaimed)
        self.existing = self.up + len(_leaving(snapshot) - pending)
        self.price = 0.0
        self.pending = self.up
        self._count_views()
        self._count_pending(pending)

    def _count_views(self) -> None:
        for view in self.views:
            reason = view.verdict.reason
            if reason in OUTSIDE:
                continue
            size = self._size_by_type.get(view.node.size or "")
            self.existing += 1
            self.price += (size.price or 0.0) if size is not None else 0.0
            if not view.counts:
                continue
            self.up += 1
            if size is not None and (view.state is WorkerState.IDLE or reason in SPARE):
                self.spare[size.name] += 1

    def _count_pending(self, pending: set[str]) -> None:
        claimed, expected = self.snapshot.claimed_sizes, self.snapshot.expected
        names = [
            claimed.get(uuid) or (expected[uuid].size if uuid in expected else "")
            for uuid in pending
        ]
        for name in (*names, *self.snapshot.boots_unclaimed):
            size = self._size_by_type.get(name) or (self.sizes[0] if self.sizes else None)
            if size is not None:
                self.spare[size.name] += 1
                self.price += size.price or 0.0

    def trade(self) -> Wants:
        """Decide boots and surplus."""
        refused: Counter[tuple[str, Reason]] = Counter()
        wishes: Counter[str] = Counter()
        for job in self.snapshot.demand or ():
            size = size_for(job, self.sizes, self.settings)
            if size is None:
                refused[job.instance_type or "any", Reason.NO_FITTING_SIZE] += job.count
            else:
                wishes[size.name] += job.count
        wanted: list[tuple[Size, Reason]] = []
        for size in self.sizes:
            lacking = min(wishes[size.name] - self.spare[size.name], self.settings.max_nodes)
            wanted.extend([(size, Reason.WANTED)] * max(0, lacking))
        boots = self._grant(wanted, refused, [])
        if self.sizes:
            # What the wishlist was refused does not fill the pool.
            lacking = max(0, self.settings.min_nodes - self.up - len(boots))
            below_min = [(self._cheapest(), Reason.BELOW_MIN_NODES)] * lacking
            boots = self._grant(below_min, refused, boots)
            wanted.extend(below_min)
        return Wants(
            boots=tuple(boots),
            refused=dict(refused),
            surplus=self._surplus(wishes),
            unmet=frozenset(size.name for size, _ in wanted)
            | frozenset(size.instance_type for size, _ in wanted),
            wishlist=sum(wishes.values()),
            price=self.price,
        )

    def _cheapest(self) -> Size:
        """What `min_nodes` is filled with: the cheapest size that is neither preemptible nor
        resting, or the cheapest of all."""
        now = self.snapshot.now
        for size in self.sizes:
            limits = self.snapshot.limits
            rests = limits.resting.get(size.name, 0.0) > now
            rests = rests or limits.loops.resting_until(size.name, now) is not None
            if not size.preemptible and not rests:
                return size
        return self.sizes[0]

    def _grant(
        self,
        wanted: list[tuple[Size, Reason]],
        refused: Counter[tuple[str, Reason]],
        granted: list[tuple[Size, Reason]],
    ) -> list[tuple[Size, Reason]]:
        boots = list(granted)
        standing = self._standing_refusal()
        price = self.price + sum(size.price or 0.0 for size, _ in granted)
        for size, why in wanted:
            reason = standing or self._refusal(size, len(boots), price)
            if reason is not None:
                refused[size.name, reason] += 1
                continue
            boots.append((size, why))
            price += size.price or 0.0
        return boots

    def _standing_refusal(self) -> Reason | None:
        snapshot = self.snapshot
        # An open breaker stops booting only when a listing collapsed (B2).
        stops = snapshot.breaker.stops_booting
        block = standing_block(snapshot, self.settings, breaker=stops)
        if block is not None and block[0] is not Reason.NOT_AUTHORISED:
            return block[0]
        if snapshot.limits.throttled_until > snapshot.now:
            return Reason.THROTTLED
        return None

    def _refusal(self, size: Size, booted: int, price: float) -> Reason | None:
        settings, limits, now = self.settings, self.snapshot.limits, self.snapshot.now
        if self.existing + booted >= settings.max_nodes:
            return Reason.AT_MAX_NODES
        if self.pending + self.locked + booted >= settings.max_nodes:
            return Reason.CLAIMS_PENDING
        if settings.max_total_price > 0:
            if not size.price:
                return Reason.UNPRICED_SIZE
            if price + size.price > settings.max_total_price:
                return Reason.AT_MAX_PRICE
        if limits.quota is not None:
            # One more than was refused is tried again once in a while (D6).
            probe = 1 if now - limits.quota_at > settings.boot_fail_after else 0
            if self.existing + booted >= limits.quota + probe:
                return Reason.AT_QUOTA
        if limits.resting.get(size.name, 0.0) > now:
            return Reason.SIZE_RESTS
        if limits.loops.resting_until(size.name, now) is not None:
            return Reason.BOOT_LOOP
        if limits.loops.probing and booted >= 1:
            return Reason.BOOT_LOOP
        if self.slots.free is not None and booted >= self.slots.free:
            return Reason.NO_FREE_SLOT
        return None

    def _surplus(self, wishes: Counter[str]) -> frozenset[str]:
        """Idle nodes beyond demand: never below min_nodes, and down to max_nodes."""
        idle = [view for view in self.views if view.surplus_if_idle]
        if not idle:
            return frozenset()
        counts = self.snapshot.history.idle
        idle.sort(
            key=lambda view: (
                -counts.get(view.node.id, 0),
                view.node.created_at or 0.0,
                view.node.id,
            )
        )
        over_max = self.existing - self.settings.max_nodes
        may_go = self.up - self.settings.min_nodes
        spare = Counter(self.spare)
        surplus: set[str] = set()
        for view in idle:
            if len(surplus) >= may_go:
                break
            size = self._size_by_type.get(view.node.size or "")
            name = size.name if size is not None else ""
            if size is not None and spare[name] <= wishes[name] and over_max <= len(surplus):
                continue
            spare[name] -= 1
            surplus.add(view.node.id)
        return frozenset(surplus)


def after_refusal(
    limits: Limits, error: Exception, size: str, nodes: int, now: float, settings: Settings
) -> Limits:
    """The limits once the cloud refused a create of `size` while there were `nodes` (D6).

    A quota is probed again later; any other definite no rests the size for max_poll_time. An
    error that is not definite changes nothing: its claim stays and counts (U6).
    """
    if isinstance(error, QuotaExceeded):
        return replace(limits, quota=nodes, quota_at=now)
    if isinstance(error, Throttled) or not getattr(error, "definite", False):
        return limits
    return replace(limits, resting={**limits.resting, size: now + settings.max_poll_time})


def after_success(limits: Limits, nodes: int) -> Limits:
    """The limits once a create succeeded: a quota that let one more through is raised (D6)."""
    if limits.quota is None or nodes < limits.quota:
        return limits
    return replace(limits, quota=nodes + 1)
