"""How many nodes of each size are wanted, may be booted, or are more than wanted.

It weighs min_nodes, max_nodes, sizes by price, max_total_price (S4), quota and capacity (D6), the
slot gate (U7) and pending claims (U6). Prices are per hour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from nodemanager.core.judge.node_view import IDLE, OUTSIDE, NodeView
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import CLOCK_STEP_S, Settings
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import Job, Record, Size, WorkerState
from nodemanager.core.observe.nodes_by_record import Bearers, node_of
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.pools import is_ours_to_claim
from nodemanager.core.observe.signs import quiet_for
from nodemanager.core.observe.unlisted import NOTHING, Unlisted, heard_ago, is_missed
from nodemanager.core.plan.slots import Slots
from nodemanager.core.plan.snapshot import Limits, Snapshot
from nodemanager.errors import BadRequest, QuotaExceeded, Throttled

SPARE = frozenset({Reason.BOOTING, Reason.UNPAIRED_WITHIN_WINDOW})
"""Nodes kept for one of these will probably take work soon."""


LONGEST_REFUSAL_S = 3600.0
"""The longest rest of a size after bad requests, unless max_poll_time is longer (D6)."""
PRICE_ERROR = 1e-9
"""By how much a float sum of prices may differ from the decimal sum that an operator makes."""


@dataclass(frozen=True, slots=True)
class Wants:
    """What demand makes of a snapshot. Nodes are named by id, sizes by name.

    `boots` are the granted boots, in order; `refused` counts the others by (size, reason).
    `unsatisfiable` has a verdict for each job that can't be had (U12); the others want `wishlist`
    nodes. `surplus` are idle nodes that may go now; `unwanted` are these, idle nodes that may not
    go yet, and unwanted nodes on their way out; `over_max` are those of them that demand wants, but
    that max_nodes forbids. `unmet` are the sizes that demand lacks while max_nodes has room: a node
    of such a size may stay though it is on its way out. `price` is of all nodes, with those to be.
    Of the nodes to be, `needless` (by size) are beyond demand, `too_many` beyond max_nodes, and
    `too_dear` (by size) beyond the price.
    """

    boots: tuple[tuple[Size, Reason], ...]
    refused: dict[tuple[str, Reason], int]
    surplus: frozenset[str]
    unmet: frozenset[str]
    wishlist: int
    price: float
    unsatisfiable: tuple[Verdict, ...] = ()
    unwanted: frozenset[str] = frozenset()
    over_max: frozenset[str] = frozenset()
    needless: Mapping[str, int] = field(default_factory=dict)
    too_many: int = 0
    too_dear: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lot:
    """How many nodes of a size are wanted, and why."""

    size: Size
    reason: Reason
    count: int


def size_for(job: Job, sizes: Sequence[Size], settings: Settings) -> Size | None:
    """The cheapest size with at least what the job needs; None where there is none.

    `sizes` are the cheapest first. A job that is not preemptible gets a preemptible size only where
    no other fits. A job's `instance_type` names a size, or else an instance type.
    """
    asked: Sequence[Size] = sizes
    if job.instance_type is not None:
        asked = [size for size in sizes if size.name == job.instance_type]
        asked = asked or [size for size in sizes if size.instance_type == job.instance_type]
    fallback = None
    for size in asked:
        if not _fits(job, size, settings):
            continue
        if job.preemptible or not size.preemptible:
            return size
        fallback = fallback or size
    return fallback


def _fits(job: Job, size: Size, settings: Settings) -> bool:
    """Whether the size has what the job needs; unknown memory or scratch space (0) is enough."""
    ram_mb = size.ram_mb if size.ram_is_given else int(size.ram_mb * settings.node_mem_scaling)
    return (
        size.cores >= job.cores
        and (not size.ram_mb or ram_mb >= job.ram_mb)
        and (not size.scratch_mb or size.scratch_mb >= job.scratch_mb)
    )


def pending_claims(
    records: Iterable[Record],
    snapshot: Snapshot,
    settings: Settings,
    pairs: Pairs,
    unlisted: Unlisted = NOTHING,
) -> set[str]:
    """The uuids of records that stand for nodes to be (U6, P4).

    Their node is neither listed nor heard yet; or it was heard, and its absence is not settled: a
    listing that lacks it may be short, and a node beside it would be one too many.
    """
    history = snapshot.history
    # Most have a listed node, and are not pending: one pass leaves them out.
    bearers, present, paired = history.bearers, history.present, pairs.node_of
    records = [
        record
        for record in records
        if record.uuid not in paired and node_of(record, bearers, present) is None
    ]
    pending = {
        uuid
        for uuid, expected in snapshot.expected.items()
        if expected.node_id not in history.present
        and not _is_borne(uuid, expected.incarnation, bearers)
        and snapshot.now - expected.since <= settings.boot_fail_after
    }
    pending.update(
        uuid
        for uuid, flight in snapshot.record_flights.items()
        if flight.kind == "setup" and not _is_borne(uuid, flight.incarnation, bearers)
    )
    pending.update(record.uuid for record in records if _is_unpinged_claim(record, settings))
    if records:
        pending.update(unlisted_nodes(records, snapshot, settings, unlisted))
    return pending


def _is_borne(uuid: str, incarnation: str | None, bearers: Bearers) -> bool:
    """Whether a listed node may be of this life of the record, by its tags."""
    lives = (node.tags.incarnation for node in bearers.get(uuid, ()))
    return any(incarnation is None or life in (None, incarnation) for life in lives)


def count_listed_claims(records: Iterable[Record], pending: set[str], settings: Settings) -> int:
    """How many unpinged claims have a listed node: they count until they are cleaned (U6).

    The node counts against max_nodes itself, but no longer once it is gone.
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
    """Uuids of records whose unlisted node was heard lately and may still be alive (C5, P6).

    `records` are those whose own node no listing shows.

    The cloud's answer for the node by id or tag decides first: it counts where the cloud has it,
    and not where the cloud denied it since its last ping. Otherwise it counts until its absence is
    settled (`is_missed`), the cloud lists it as terminated, or the newest record listing shows it
    silent for longer than poll_stale_after.
    """
    history, clock = snapshot.history, snapshot.history.clock
    assert history.records is not None
    for record in _not_ended(records, snapshot):
        stamp = record.last_ping_at
        if stamp is None or record.pool != settings.pool or clock is None:
            continue
        heard_s = heard_ago(record, stamp, clock, history, snapshot.now)
        asked = unlisted.verdicts.get(record.uuid)
        if asked is not None:
            if asked.reason is not Reason.PINGING_UNLISTED:
                yield record.uuid
                continue
            if heard_s > (asked.measures or {})["age_s"]:
                continue
        # A listing says nothing of the time after it: a node heard by then may be alive.
        records_at = history.records.started_at
        silent_then = heard_ago(record, stamp, clock, history, records_at)
        if silent_then > settings.poll_stale_after:
            continue
        if not is_missed(record, snapshot, settings):
            yield record.uuid


def _not_ended(records: Iterable[Record], snapshot: Snapshot) -> Iterator[Record]:
    """The records whose node the cloud neither lists as terminated nor has called gone."""
    assert snapshot.history.cloud is not None
    absent = [node for node in snapshot.history.cloud.items if node.is_absent]
    ended = {node.id for node in absent}
    ended_lives = {
        (node.tags.record, node.tags.incarnation) for node in absent if node.tags.record is not None
    }
    for record in records:
        if record.instance_id in ended or record.instance_id in snapshot.gone:
            continue
        # By tags only where the node never told its id: a terminated twin bears them, too.
        if record.instance_id is None and (record.uuid, record.incarnation) in ended_lives:
            continue
        yield record


def _leaving(snapshot: Snapshot) -> set[str]:
    """Uuids of records whose node we destroy and no listing shows: it may not be gone yet (D3)."""
    return {
        uuid
        for uuid, flight in snapshot.record_flights.items()
        if flight.kind.startswith("shutdown") and uuid not in snapshot.history.bearers
    }


def is_locked(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether a cleaned record may not be reused yet, as the store can't compare and set (U2).

    A record that we cleaned is free at once, unless another write of ours may still take effect
    (C12). A stamp ahead of the store's clock counts from when we first saw it, or the lock would
    last as much longer as the clock was set back (T1).
    """
    if settings.compare_and_set:
        return False
    late = snapshot.late.get(record.uuid)
    if late is not None and snapshot.now - late.at <= settings.node_stale_after:
        return True
    if record.uuid in snapshot.own_cleans:
        return False
    clock = snapshot.history.clock
    quiet_s = None if clock is None else quiet_for(record, clock, snapshot)
    return quiet_s is None or not quiet_s > settings.node_stale_after


def count_locked(records: Iterable[Record], snapshot: Snapshot, settings: Settings) -> int:
    """How many cleaned records of ours are locked (U2); they count like unpinged claims (U6)."""
    if settings.compare_and_set:
        return 0
    return sum(
        not record.holds_anything
        and is_ours_to_claim(record, settings)
        and record.uuid not in snapshot.record_flights
        and is_locked(record, snapshot, settings)
        for record in records
    )


class Market:
    """Supply and demand of one snapshot. Counts by size are by its name."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        views: Sequence[NodeView],
        pending: set[str],
        slots: Slots,
        locked: int = 0,
        untagged: AbstractSet[str] = frozenset(),
    ) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.slots = slots
        self.locked = locked
        self.sizes = Sizes(settings.sizes)
        self.views = views
        self.spare: defaultdict[str, int] = defaultdict(int)
        self.just_busy: defaultdict[str, int] = defaultdict(int)
        self.coming: defaultdict[str, int] = defaultdict(int)
        self.pending_records = pending
        self.pending = len(pending) + len(snapshot.boots_unclaimed)
        self.existing = self.pending + len(_leaving(snapshot) - pending)
        self.untagged = untagged & pending
        """The pending records whose node lost our tags: such a node serves no demand, as it can't
        pair, and nothing drains or destroys it (D11)."""
        self.up = 0
        self.staying = 0
        """How many of the existing nodes are listed and not on their way out."""
        self.price = 0.0
        self.fixed_price = 0.0
        self.prices_to_be: list[tuple[float, str]] = []
        """The price and the size's name of each node to be."""
        self._count_views()
        self._count_pending(pending)

    def _count_views(self) -> None:
        told_of, idle = self.sizes.told_of, WorkerState.IDLE
        leaving, untagged = Reason.SHUTTING_DOWN, Reason.UNTAGGED
        for view in self.views:
            reason = view.verdict.reason
            if reason in OUTSIDE:
                continue
            size, view.size, price = told_of(view.node, view.record)
            self.existing += 1
            self.price += price
            if reason is untagged:
                self.fixed_price += price
            if reason is not leaving:
                self.staying += 1
            if not view.counts:
                continue
            self.up += 1
            if size is None:
                continue
            if view.state is idle or reason in SPARE:
                self.spare[size.name] += 1
            elif self._turned_busy(view):
                self.just_busy[size.name] += 1

    def _turned_busy(self, view: NodeView) -> bool:
        """Whether it turned busy after the demand poll, which may still count its job as waiting:
        another node for that job would be one too many."""
        history, demand_at = self.snapshot.history, self.snapshot.demand_at
        if view.record is None or history.clock is None or demand_at is None:
            return False
        heard = history.heard.get(view.record.uuid)
        clock = history.clock
        if heard is None or heard.busy_since is None:
            return False
        ahead_s = heard.busy_since - clock.now(self.snapshot.now)
        if ahead_s > CLOCK_STEP_S + clock.error_s:
            # A stamp from before the clock was set back: nobody can tell its age (T1).
            return False
        return heard.busy_since + clock.error_s >= clock.now(demand_at)

    def _count_pending(self, pending: set[str]) -> None:
        claimed, expected = self.snapshot.claimed_sizes, self.snapshot.expected
        listing = self.snapshot.history.records
        claims = {
            record.uuid: record.claim
            for record in (listing.items if listing is not None and pending else ())
            if record.uuid in pending and record.claim is not None
        }
        for uuid in pending:
            claim = claims.get(uuid)
            name = claimed.get(uuid) or (claim.size if claim is not None else None)
            name = name or (expected[uuid].size if uuid in expected else None)
            spare = 0 if uuid in self.untagged else 1
            self._count_boot(name, claim.price if claim is not None else None, spare)
        for name in self.snapshot.boots_unclaimed:
            self._count_boot(name)

    def _count_boot(self, name: str | None, price: float | None = None, spare: int = 1) -> None:
        """Count a node to be; without a known size or price it counts as the cheapest size."""
        size = self.sizes.named(name)
        if size is None and price is None and self.sizes.by_price:
            size = self.sizes.by_price[0]
        if size is not None:
            self.coming[size.name] += spare
            price = size.price
        self.prices_to_be.append((price or 0.0, size.name if size is not None else name or ""))
        self.price += price or 0.0

    def trade(self) -> Wants:
        """What demand calls for: the boots, the refusals, and the nodes that may go."""
        refused: defaultdict[tuple[str, Reason], int] = defaultdict(int)
        wishes, lots, unsatisfiable = self._weigh_demand()
        boots = self._grant(lots, refused, [])
        # Boots that the wishlist was refused do not count towards min_nodes.
        there = self.up + self.pending - len(self.untagged) + len(boots)
        lacking = max(0, self.settings.min_nodes - there)
        if lacking and self.sizes.by_price:
            below_min = Lot(self._cheapest(), Reason.BELOW_MIN_NODES, lacking)
            boots = self._grant([below_min], refused, boots)
            lots.append(below_min)
        wanted = frozenset(lot.size.name for lot in lots if lot.count)
        for name, count in self.snapshot.unclear.items():
            refused[name, Reason.CREATE_UNCLEAR] += count
        unwanted, over_max = self._unwanted(wishes)
        # Where max_nodes has no room for one more, no node on its way out may stay.
        unmet = wanted if self.staying < self.settings.max_nodes else frozenset()
        going = [view for view in self._going_as_unwanted() if view.size not in unmet]
        over_max += [view.node.id for view in going if view.size in wanted]
        return Wants(
            boots=tuple(boots),
            refused=dict(refused),
            surplus=frozenset(view.node.id for view in unwanted if view.surplus_if_idle),
            unmet=unmet,
            wishlist=sum(wishes.values()),
            price=self.price,
            unsatisfiable=tuple(unsatisfiable),
            unwanted=frozenset(view.node.id for view in (*unwanted, *going)),
            over_max=frozenset(over_max),
            needless=self._needless(wishes),
            too_many=self._too_many(),
            too_dear=self._too_dear(),
        )

    def _needless(self, wishes: Mapping[str, int]) -> dict[str, int]:
        """How many nodes to be are beyond demand, by size; what min_nodes needs stays."""
        may_go = self.up + self.pending - len(self.untagged) - self.settings.min_nodes
        needless: dict[str, int] = {}
        for name, coming in self.coming.items():
            count = min(coming, self.spare[name] + coming - wishes[name], may_go)
            if count > 0:
                needless[name] = count
                may_go -= count
        return needless

    def _too_many(self) -> int:
        """How many of the nodes to be are beyond max_nodes.

        A listing may show a node again that did not count when they were ordered.
        """
        return max(0, self.existing - self._counted_twice() - self.settings.max_nodes)

    def _too_dear(self) -> dict[str, int]:
        """How many nodes to be are beyond max_total_price, by size; the dearest go first."""
        if self.settings.max_total_price <= 0:
            return {}
        by_price = sorted(self.prices_to_be, reverse=True)
        price = self.price - sum(price for price, _ in by_price[: self._counted_twice()])
        too_dear: Counter[str] = Counter()
        for its_price, name in by_price:
            if not self._is_over(price):
                break
            price -= its_price
            too_dear[name] += 1
        return too_dear

    def _counted_twice(self) -> int:
        """How many set-ups may count twice: their unknown record may be listed as claimed."""
        snapshot = self.snapshot
        known = snapshot.record_flights.keys() | snapshot.expected.keys()
        return min(len(snapshot.boots_unclaimed), len(self.pending_records - known))

    def _weigh_demand(self) -> tuple[defaultdict[str, int], list[Lot], list[Verdict]]:
        """The nodes that the queue wants by size, the lots that lack, and the impossible jobs.

        The lots are in the order of the queue, and spare nodes serve its first jobs (U12).
        """
        wishes: defaultdict[str, int] = defaultdict(int)
        lots: list[Lot] = []
        unsatisfiable: list[Verdict] = []
        spare = self.spare.copy()
        for counted in (self.just_busy, self.coming):
            for name, count in counted.items():
                spare[name] += count
        for job in self.snapshot.demand or ():
            size = size_for(job, self.sizes.by_price, self.settings)
            verdict = self._unsatisfiable(job, size)
            if verdict is not None:
                unsatisfiable.append(verdict)
            if verdict is not None or size is None:
                continue
            wishes[size.name] += job.count
            served = min(job.count, spare[size.name])
            spare[size.name] -= served
            if served < job.count:
                lots.append(Lot(size, Reason.WANTED, job.count - served))
        return wishes, lots, unsatisfiable

    def _unsatisfiable(self, job: Job, size: Size | None) -> Verdict | None:
        """Why the job can't be had even in an empty pool; None where it can (U12)."""
        settings = self.settings
        if size is None:
            asked = {"cores": job.cores, "ram_mb": job.ram_mb, "scratch_mb": job.scratch_mb}
            return keep(job.id, Reason.NO_FITTING_SIZE, size=job.instance_type, **asked)
        if job.count > settings.max_nodes:
            measures = {"size": size.name, "count": job.count, "limit": settings.max_nodes}
            return keep(job.id, Reason.JOB_OVER_MAX_NODES, **measures)
        if settings.max_total_price <= 0:
            return None
        if not size.price:
            return keep(job.id, Reason.UNPRICED_SIZE, size=size.name)
        price = job.count * size.price
        if self._is_over(self.fixed_price + price):
            limit = settings.max_total_price - self.fixed_price
            return keep(job.id, Reason.JOB_OVER_MAX_PRICE, size=size.name, price=price, limit=limit)
        return None

    def _is_over(self, price: float) -> bool:
        return price > self.settings.max_total_price + PRICE_ERROR

    def _cheapest(self) -> Size:
        """The size that fills min_nodes: the cheapest that is neither preemptible nor resting, or
        else the cheapest of all."""
        now = self.snapshot.now
        for size in self.sizes.by_price:
            limits = self.snapshot.limits
            rests = limits.resting.get(size.name, 0.0) > now
            rests = rests or limits.loops.resting_until(size.name, now) is not None
            if not size.preemptible and not rests:
                return size
        return self.sizes.by_price[0]

    def _grant(
        self,
        wanted: list[Lot],
        refused: defaultdict[tuple[str, Reason], int],
        granted: list[tuple[Size, Reason]],
    ) -> list[tuple[Size, Reason]]:
        """`granted` and the boots of `wanted` that nothing forbids; `refused` counts the others."""
        boots = list(granted)
        if not any(lot.count for lot in wanted):
            return boots
        standing = self._standing_refusal()
        price = self.price + sum(size.price or 0.0 for size, _ in granted)
        for lot in wanted:
            size = lot.size
            for left in range(lot.count, 0, -1):
                reason = standing or self._refusal(size, len(boots), price)
                if reason is not None:
                    refused[size.name, reason] += left
                    if reason is Reason.AT_MAX_PRICE and self._gets_its_turn(size):
                        # A later job must not take the money that this one waits for.
                        standing = reason
                    break
                boots.append((size, lot.reason))
                price += size.price or 0.0
        return boots

    def _gets_its_turn(self, size: Size) -> bool:
        """Whether max_total_price has room for the size once every node that may go is gone."""
        stays = self.settings.min_nodes * (self._cheapest().price or 0.0)
        return not self._is_over(self.fixed_price + stays + (size.price or 0.0))

    def _standing_refusal(self) -> Reason | None:
        """What forbids every boot at this moment, whatever its size."""
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
        """What forbids one more node of that size, after `booted` granted ones, at that `price`."""
        settings, limits, now = self.settings, self.snapshot.limits, self.snapshot.now
        if self.existing + booted >= settings.max_nodes:
            return Reason.AT_MAX_NODES
        if self.pending + self.locked + booted >= settings.max_nodes:
            return Reason.CLAIMS_PENDING
        if settings.max_total_price > 0:
            if not size.price:
                return Reason.UNPRICED_SIZE
            if self._is_over(price + size.price):
                return Reason.AT_MAX_PRICE
        if limits.quota is not None:
            # One node more than the quota is tried again once in a while (D6), or one more than
            # there are, where not all were known when the quota was set.
            quota = limits.quota
            if now - limits.quota_at > settings.boot_fail_after:
                quota = max(quota, self.existing) + 1
            if self.existing + booted >= quota:
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

    def _unwanted(self, wishes: defaultdict[str, int]) -> tuple[list[NodeView], list[str]]:
        """Idle nodes beyond demand or max_nodes, and the ids of those that go for max_nodes alone.

        Never so many that fewer than min_nodes are up. Nodes to be don't count, as they may never
        come. Nodes that may go now are chosen first, and of these the longest unwanted.
        """
        since, now = self.snapshot.history.unwanted, self.snapshot.now
        idle = [
            view
            for view in self.views
            if view.counts and (view.verdict.reason in IDLE or (since and self._just_ended(view)))
        ]
        if not idle:
            return [], []
        idle.sort(
            key=lambda view: (
                not view.surplus_if_idle,
                since.get(view.node.id, now),
                view.node.created_at or 0.0,
                view.node.id,
            )
        )
        over_max = self.staying - self.settings.max_nodes
        may_go = self.up - self.settings.min_nodes
        spare = self.spare.copy()
        unwanted: list[NodeView] = []
        only_over_max: list[str] = []
        for view in idle:
            if len(unwanted) >= may_go:
                break
            size = self.sizes.of_node(view.node, view.record)
            name = size.name if size is not None else ""
            if size is not None and spare[name] <= wishes[name]:
                if over_max <= len(unwanted):
                    continue
                only_over_max.append(view.node.id)
            spare[name] -= 1
            unwanted.append(view)
        return unwanted, only_over_max

    def _going_as_unwanted(self) -> list[NodeView]:
        """Nodes on their way out that an earlier plan found unwanted (D12)."""
        known = self.snapshot.history.unwanted
        if not known:
            return []
        return [
            view
            for view in self.views
            if view.verdict.reason is Reason.SHUTTING_DOWN and view.node.id in known
        ]

    def _just_ended(self, view: NodeView) -> bool:
        """Whether an action of ours for the idle, unwanted node just ended, and no listing shows
        that yet: demand still decides about it (D12)."""
        if view.verdict.reason is not Reason.CHANGED_SINCE_LISTING:
            return False
        return view.state is WorkerState.IDLE and view.node.id in self.snapshot.history.unwanted


def after_refusal(
    limits: Limits, error: Exception, size: str, nodes: int, now: float, settings: Settings
) -> Limits:
    """The limits after the cloud refused a create of `size` while there were `nodes` (D6).

    A quota is noted, and probed again later. Any other definite refusal rests the size for
    max_poll_time; each bad request in a row (a wrong image, say) doubles that, up to
    LONGEST_REFUSAL_S. Throttling and an error that is not definite change nothing: the claim of an
    unclear create stays and counts (U6).
    """
    if isinstance(error, QuotaExceeded):
        return replace(limits, quota=nodes, quota_at=now)
    if isinstance(error, Throttled) or not getattr(error, "definite", False):
        return limits
    rest_s, bad = settings.max_poll_time, 0
    if isinstance(error, BadRequest):
        if limits.resting.get(size, 0.0) > now:
            # Another create of the same plan: the size rests already.
            return limits
        bad = limits.bad.get(size, 0) + 1
        rest_s = max(rest_s, min(LONGEST_REFUSAL_S, rest_s * 2.0 ** (bad - 1)))
    return replace(
        limits,
        resting={**limits.resting, size: now + rest_s},
        bad={**limits.bad, size: bad},
    )


def after_success(limits: Limits, size: str, nodes: int) -> Limits:
    """The limits after a create of `size` succeeded: the quota rises once `nodes` reach it."""
    limits = replace(limits, bad={name: n for name, n in limits.bad.items() if name != size})
    if limits.quota is None or nodes < limits.quota:
        return limits
    return replace(limits, quota=nodes + 1)
