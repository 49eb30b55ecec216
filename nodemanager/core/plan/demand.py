"""How many nodes of each size are wanted, may be booted, or are more than wanted.

It weighs min_nodes, spare_nodes, max_nodes, sizes by price, max_total_price (S4), quota and
capacity (D6) and free slots (U7). `supply` counts the existing and the future nodes. Prices are
per hour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodemanager.core.judge.node_view import IDLE, NodeView
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import seat_of
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record, Size, WorkerState
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan import availability
from nodemanager.core.plan.rotation import NONE as NO_ROTATIONS
from nodemanager.core.plan.rotation import ROTATING, Need, Rotations, rotations
from nodemanager.core.plan.slots import FreeSeats, NameMismatch, Slots, name_mismatch, next_names
from nodemanager.core.plan.spares import Spares, chosen, spares_of
from nodemanager.core.plan.supply import Supply
from nodemanager.core.plan.wishes import Lot, Wishes, is_over, weigh

OWN_LIMITS = frozenset({Reason.AT_MAX_NODES, Reason.AT_MAX_PRICE})
"""The refusals of a boot that one node less of this pool ends for sure (D15)."""
SHARED = frozenset({Reason.AT_QUOTA, Reason.NO_FREE_SLOT})
"""The refusals of a boot that hold for any size, and may be due to others than this pool."""


@dataclass(frozen=True, slots=True)
class DemandPlan:
    """What demand makes of a snapshot. Nodes are named by id, sizes by name.

    `boots` are the granted boots, in order, and `hosts` the seats that they are for; `power_ups`
    are those of the seats that the scheduler must want up first. `refused` counts the others by
    (size, reason). `wished` are the seats that the queue asks for by name, None where nodes have no
    seats: a future node on any other seat is needless (U14).
    `unsatisfiable` has a verdict for each job that no boot can serve (U12); the other jobs want
    `wishlist` nodes. `surplus` are idle nodes that may go now; `unwanted` are these, idle nodes
    that may not go yet, and unwanted nodes that are being shut down; `over_max` are those of them
    that demand wants, but that exceed max_nodes. `unmet` are the sizes that demand lacks while
    max_nodes has room: the shutdown of a node of such a size may be called off. `price` is that of
    all nodes, future ones included. Of the future nodes, `needless` (by size) are beyond demand,
    `too_many` beyond max_nodes, and `too_dear` (by size) beyond max_total_price. `spares` has each
    size with spare_nodes, `spare` the idle nodes that are kept as such. `rotations` has the
    outdated nodes; the one of each size that is to be replaced is `unwanted`, too. `apart` has the
    slots whose names the scheduler lacks.
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
    spares: Mapping[str, Spares] = field(default_factory=dict)
    spare: frozenset[str] = frozenset()
    hosts: tuple[str | None, ...] = ()
    wished: frozenset[str] | None = None
    power_ups: frozenset[str] = frozenset()
    rotations: Rotations = NO_ROTATIONS
    apart: NameMismatch | None = None


class Market:
    """What demand makes of the supply of one snapshot.

    `free_seats` are those that boots may get; None where they may get new records.
    """

    def __init__(
        self,
        supply: Supply,
        snapshot: Snapshot,
        settings: Settings,
        slots: Slots,
        free_seats: FreeSeats | None = None,
    ) -> None:
        self.supply = supply
        self.sizes = supply.sizes
        self.snapshot = snapshot
        self.settings = settings
        self.slots = slots
        self.free_seats = free_seats
        self.hosts: list[str | None] = []
        """The seat of each granted boot."""
        self.names = next_names(snapshot, settings, slots)
        self.power_ups: list[str] = []
        """Those of them that the scheduler does not want up yet."""

    def trade(self) -> DemandPlan:
        """What demand calls for: the boots, the refusals, and the nodes that may go."""
        refused: defaultdict[tuple[str, Reason], int] = defaultdict(int)
        weighed = self.weighed()
        wishes, lots = weighed.by_size, weighed.lots
        boots = self._grant(lots, refused, [])
        spares = spares_of(self.supply, self.settings, wishes, refused, boots)
        below_spare = self._below_spare(spares)
        boots = self._grant(below_spare, refused, boots)
        lots += below_spare
        # Boots that the wishlist was refused do not count towards min_nodes.
        there = self.supply.serving + len(boots)
        lacking = max(0, self.settings.min_nodes - there)
        if lacking and self.sizes.by_price:
            below_min = Lot(self._cheapest(), Reason.BELOW_MIN_NODES, lacking)
            boots = self._grant([below_min], refused, boots)
            lots.append(below_min)
        wanted = frozenset(lot.size.name for lot in lots if lot.count)
        for name, count in self.snapshot.unclear.items():
            refused[name, Reason.CREATE_UNCLEAR] += count
        kept = Counter(wishes)
        kept.update({name: one.kept for name, one in spares.items()})
        unwanted, over_max = self._unwanted(kept)
        # If max_nodes has no room for one more, no shutdown is called off.
        unmet = wanted if self.supply.staying < self.settings.max_nodes else frozenset()
        going = [view for view in self._going_as_unwanted() if view.size not in unmet]
        over_max += [view.node.id for view in going if view.size in wanted]
        gone = frozenset(view.node.id for view in (*unwanted, *going))
        replaced = self._replaced(wishes, kept, self._waited_for(lots, refused), gone)
        gone |= replaced.chosen.keys() | self._rotating(lots)
        return DemandPlan(
            boots=tuple(boots),
            refused=dict(refused),
            surplus=frozenset(view.node.id for view in unwanted if view.surplus_if_idle),
            unmet=unmet,
            wishlist=sum(wishes.values()),
            price=self.supply.price,
            unsatisfiable=tuple(weighed.unsatisfiable),
            unwanted=gone,
            over_max=frozenset(over_max),
            needless=self._needless(kept),
            too_many=self._too_many(),
            too_dear=self._too_dear(),
            spares=spares,
            rotations=replaced,
            spare=chosen(spares, self.supply.views, gone),
            hosts=tuple(self.hosts),
            apart=self.apart(),
            power_ups=frozenset(self.power_ups),
            wished=self._wished(),
        )

    def weighed(self) -> Wishes:
        """What the queue wants, those nodes that there are included."""
        return weigh(self.supply, self.snapshot, self.settings, self.free_seats, self.names)

    def apart(self) -> NameMismatch | None:
        """The slots whose hostnames the scheduler lacks."""
        return name_mismatch(self.snapshot, self.settings)

    def forbids_one_more(self, size: Size, granted: Sequence[Size]) -> Reason | None:
        """What would forbid one more node of that size beside the `granted` boots."""
        price = self.supply.price + sum(one.price or 0.0 for one in granted)
        reason = self._standing_refusal() or self._refusal(size, len(granted), price)
        if reason is None and self.free_seats is not None:
            reason = None if self._seat_for(size, None) is not None else Reason.NO_FREE_SLOT
        return reason

    def _replaced(
        self,
        wishes: Mapping[str, int],
        kept: Mapping[str, int],
        lacking: Mapping[str, Reason | None],
        going: frozenset[str],
    ) -> Rotations:
        """The outdated nodes, and the one of each size that is replaced next.

        A node beyond those that are `kept` stays for min_nodes, which boots the cheapest size in
        its place.
        """
        standing, price = self._standing_refusal(), self.supply.price

        def refusal(size: Size, left: int) -> Reason | None:
            sizes = (size,) if left <= kept[size.name] else (size, self._cheapest())
            price_left = price - (size.price or 0.0)
            refusals = (self._refusal(one, 0, price_left, going=1) for one in sizes)
            return standing or next(filter(None, refusals), None)

        need = Need(wishes, lacking, going, refusal)
        return rotations(self.supply, self.snapshot, self.settings, need)

    def _waited_for(
        self, lots: Sequence[Lot], refused: Mapping[tuple[str, Reason], int]
    ) -> Mapping[str, Reason | None]:
        """By size, what refuses the nodes that are to be booted; None: nothing does (D15).

        Where a limit of this pool is reached, a node that goes makes room for the next one. Any
        other place may be taken by somebody else. A node of any size counts towards min_nodes, and
        takes quota and a slot.
        """
        waits: dict[str, Reason | None] = {}
        # In the order of the queue, of equal lots the last.
        latest = {(lot.size.name, lot.reason): lot for lot in reversed(lots) if lot.count}
        for lot in reversed(latest.values()):
            size, price = lot.size, self.supply.price
            is_full = self._refusal(size, 0, price) in OWN_LIMITS
            reasons = [reason for (name, reason), count in refused.items() if name == size.name]
            if is_full and OWN_LIMITS.issuperset(reasons):
                continue
            is_anys = lot.reason is Reason.BELOW_MIN_NODES or not SHARED.isdisjoint(reasons)
            sizes = self.sizes.by_price if is_anys else (size,)
            waits.update((one.name, (*reasons, None)[0]) for one in sizes)
        return waits

    def _rotating(self, lots: Sequence[Lot]) -> frozenset[str]:
        """Nodes that are being replaced, except those of sizes that the queue lacks (D12)."""
        flights, known = self.snapshot.node_flights, self.snapshot.history.unwanted
        wanted = {lot.size.name for lot in lots if lot.count and lot.reason is Reason.WANTED}
        return frozenset(
            view.node.id
            for view in self.supply.views
            if view.node.id in flights
            and flights[view.node.id].kind == ROTATING
            and view.node.id in known
            and view.size not in wanted
        )

    def _below_spare(self, spares: Mapping[str, Spares]) -> list[Lot]:
        """The spare nodes that are lacking, the cheapest size first; they count for min_nodes."""
        return [
            Lot(size, Reason.BELOW_SPARE_NODES, spares[size.name].lacking)
            for size in self.sizes.by_price
            if size.name in spares and spares[size.name].lacking
        ]

    def _wished(self) -> frozenset[str] | None:
        if self.free_seats is None:
            return None
        return frozenset(job.host for job in self.snapshot.demand or () if job.host is not None)

    def _needless(self, kept: Mapping[str, int]) -> dict[str, int]:
        """How many future nodes no wish asks for and no spare is `kept` of, by size.

        Those that min_nodes needs are not. Of seats it tells nothing (`Wants.wished`).
        """
        if self.free_seats is not None:
            return {}
        may_go = self.supply.serving - self.settings.min_nodes
        needless: dict[str, int] = {}
        for name, coming in self.supply.coming.items():
            count = min(coming, self.supply.spare[name] + coming - kept[name], may_go)
            if count > 0:
                needless[name] = count
                may_go -= count
        return needless

    def _too_many(self) -> int:
        """How many of the future nodes are beyond max_nodes.

        When they were ordered, a node did not count that a listing now shows again.
        """
        return max(0, self.supply.existing - self.supply.counted_twice() - self.settings.max_nodes)

    def _too_dear(self) -> dict[str, int]:
        """How many future nodes are beyond max_total_price, by size; the dearest go first."""
        if self.settings.max_total_price <= 0:
            return {}
        by_price = sorted(self.supply.prices_to_be, reverse=True)
        counted_twice = by_price[: self.supply.counted_twice()]
        price = self.supply.price - sum(price for price, _ in counted_twice)
        too_dear: Counter[str] = Counter()
        for its_price, name in by_price:
            if not self._is_over(price):
                break
            price -= its_price
            too_dear[name] += 1
        return too_dear

    def _is_over(self, price: float) -> bool:
        return is_over(price, self.settings)

    def _cheapest(self) -> Size:
        """The size that fills min_nodes: the cheapest that is neither preemptible nor resting.

        If there is none such, it is the cheapest of all.
        """
        now = self.snapshot.now
        for size in self.sizes.by_price:
            limits = self.snapshot.limits
            rests = limits.resting.get(size.name, 0.0) > now
            rests = rests or limits.loops.resting_until(size.name, now) is not None
            rests = rests or availability.rests_until(size, limits.places, now) is not None
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
        price = self.supply.price + sum(size.price or 0.0 for size, _ in granted)
        # What was refused stays so until a boot is granted: most of a long queue is not asked for.
        forbidden: dict[tuple[str, str | None], Reason] = {}
        for lot in wanted:
            size = lot.size
            for left in range(lot.count, 0, -1):
                reason, seat = standing or forbidden.get((size.name, lot.host)), None
                if reason is None:
                    reason = self._refusal(size, len(boots), price)
                    seat = self._seat_for(size, lot.host)
                if seat is None and (self.free_seats is not None or lot.host is not None):
                    reason = reason or Reason.NO_FREE_SLOT
                if reason is not None:
                    forbidden[size.name, lot.host] = reason
                    refused[size.name, reason] += left
                    if reason is Reason.AT_MAX_PRICE and self._gets_its_turn(size):
                        # No later job may take the room under max_total_price that it waits for.
                        standing = reason
                    break
                forbidden.clear()
                boots.append((size, lot.reason))
                self._take(seat, lot.host)
                price += size.price or 0.0
        return boots

    def _seat_for(self, size: Size, host: str | None) -> Record | None:
        return None if self.free_seats is None else self.free_seats.find(size, host)

    def _take(self, seat: Record | None, host: str | None) -> None:
        name = None if seat is None else seat_of(seat)
        self.hosts.append(name)
        if seat is None or name is None or self.free_seats is None:
            return
        self.free_seats.take(seat)
        if host is None:
            self.power_ups.append(name)

    def _gets_its_turn(self, size: Size) -> bool:
        """Whether max_total_price will have room for the size once all that may go are gone."""
        stays = self.settings.min_nodes * (self._cheapest().price or 0.0)
        return not self._is_over(self.supply.fixed_price + stays + (size.price or 0.0))

    def _standing_refusal(self) -> Reason | None:
        """What forbids every boot now, whatever its size."""
        snapshot = self.snapshot
        # An open breaker stops booting only when a listing collapsed (B2).
        stops = snapshot.breaker.stops_booting
        block = standing_block(snapshot, self.settings, breaker=stops, authorised=False)
        if block is not None:
            return block.reason
        if snapshot.parked is not None:
            return Reason.POOL_PARKED
        if snapshot.limits.throttled_until > snapshot.now:
            return Reason.THROTTLED
        return None

    def _refusal(self, size: Size, booted: int, price: float, *, going: int = 0) -> Reason | None:
        """What forbids one more node of that size, after `booted` granted ones, at that `price`.

        `going` nodes are taken for gone.
        """
        settings, limits, now = self.settings, self.snapshot.limits, self.snapshot.now
        supply = self.supply
        existing = supply.existing - going
        if existing + booted >= settings.max_nodes:
            return Reason.AT_MAX_NODES
        if supply.pending + supply.locked + booted >= settings.max_nodes:
            return Reason.CLAIMS_PENDING
        trying = booted + supply.pending if limits.is_unclear else 0
        if supply.denied and trying > len(supply.unserving):
            # One create tries whether the cloud answers again: each may leave a claim (U9, U6).
            return Reason.CREATE_UNCLEAR
        if supply.spent and trying and supply.spent + trying >= settings.max_nodes:
            # So many came to nothing that the outcome of each further one is waited for.
            return Reason.CLAIMS_PENDING
        if settings.max_total_price > 0:
            if not size.price:
                return Reason.UNPRICED_SIZE
            if self._is_over(price + size.price):
                return Reason.AT_MAX_PRICE
        if limits.quota is not None:
            # Now and then one node more than the quota is tried (D6), or one more than there are
            # if not all were known when the quota was set.
            quota = limits.quota
            if now - limits.quota_at > settings.boot_fail_after:
                quota = max(quota, existing) + 1
            if existing + booted >= quota:
                return Reason.AT_QUOTA
        if limits.resting.get(size.name, 0.0) > now:
            return Reason.SIZE_RESTS
        if availability.rests_until(size, limits.places, now) is not None:
            return Reason.PLACES_REST
        if limits.loops.resting_until(size.name, now) is not None:
            return Reason.BOOT_LOOP
        if limits.loops.probing and booted >= 1:
            return Reason.BOOT_LOOP
        if self.slots.free is not None and booted >= self.slots.free + going:
            return Reason.NO_FREE_SLOT
        if self.names is not None and booted >= self.names.usable:
            return Reason.NOT_IN_SCHEDULER
        return None

    def _unwanted(self, kept: Mapping[str, int]) -> tuple[list[NodeView], list[str]]:
        """Idle nodes beyond demand or max_nodes, and the ids of those that go for max_nodes alone.

        `kept` are those that the queue wants, and the spare ones, by size.

        At least min_nodes stay up; future nodes don't count, because they may never come. Nodes
        that may go now are chosen first, and among these the longest unwanted. Those that went for
        max_nodes alone go on to do so: where two change places, each starts anew (D12).
        """
        since, now = self.snapshot.history.unwanted, self.snapshot.now
        were_over_max = self.snapshot.history.over_max
        idle = [
            view
            for view in self.supply.views
            if view.counts and (view.verdict.reason in IDLE or (since and self._just_ended(view)))
        ]
        if not idle:
            return [], []
        idle.sort(
            key=lambda view: (
                not view.surplus_if_idle,
                view.node.id in were_over_max,
                since.get(view.node.id, now),
                view.node.created_at or 0.0,
                view.node.id,
            )
        )
        over_max = self.supply.staying - self.settings.max_nodes
        may_go = self.supply.up - self.settings.min_nodes
        spare = self.supply.spare.copy()
        unwanted: list[NodeView] = []
        wanted: list[NodeView] = []
        for view in idle:
            size = self.sizes.of_node(view.node, view.record)
            name = size.name if size is not None else ""
            if size is not None and spare[name] <= kept[name]:
                wanted.append(view)
            elif len(unwanted) < may_go:
                spare[name] -= 1
                unwanted.append(view)
        wanted.sort(key=lambda view: (not view.surplus_if_idle, view.node.id not in were_over_max))
        only_over_max = wanted[: max(0, min(over_max, may_go) - len(unwanted))]
        return unwanted + only_over_max, [view.node.id for view in only_over_max]

    def _going_as_unwanted(self) -> list[NodeView]:
        """Nodes that are being shut down, and that an earlier plan found unwanted (D12).

        `_rotating` has those that are being replaced.
        """
        known, flights = self.snapshot.history.unwanted, self.snapshot.node_flights
        if not known:
            return []
        return [
            view
            for view in self.supply.views
            if view.verdict.reason is Reason.SHUTTING_DOWN
            and view.node.id in known
            and flights[view.node.id].kind != ROTATING
        ]

    def _just_ended(self, view: NodeView) -> bool:
        """Whether an action of ours for an idle, unwanted node ended since the newest listing.

        Demand still decides about such a node (D12).
        """
        if view.verdict.reason is not Reason.CHANGED_SINCE_LISTING:
            return False
        return view.state is WorkerState.IDLE and view.node.id in self.snapshot.history.unwanted
