"""What keeps each size from growing or shrinking right now, from the newest decision.

It asks the demand's own rules again, as `explain` asks the judges', and decides nothing itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.judge.node_view import OUTSIDE, NodeView, opens_in
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Size
from nodemanager.core.observe.signs import age_of
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan import availability
from nodemanager.core.plan.demand import Market
from nodemanager.core.plan.orders import free_seats
from nodemanager.core.plan.plan import Plan, adopting, judged
from nodemanager.core.plan.slots import Slots
from nodemanager.core.plan.summary import place_of
from nodemanager.core.plan.supply import Supply

NAMED = 3
"""The most nodes that a cause names."""
UNKNOWN_SIZE = "?"
"""The size of nodes that name none."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason for which `count` nodes are not booted, or not shut down.

    `in_s` is in how many seconds it may end by itself, None where no passing of time ends it.
    `nodes` are the ids of the first few that it keeps.
    """

    reason: Reason
    count: int
    in_s: float | None = None
    measures: Mapping[str, object] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rest:
    """A place that has no room for the size, for `for_s` more seconds."""

    place: str
    for_s: float


@dataclass(frozen=True, slots=True)
class SizeWhy:
    """What one size does, and what keeps it from growing and from shrinking.

    `nodes` counts the listed nodes by state, `coming` those that are ordered and not listed yet.
    `wished` is how many nodes the queue wants. `booting` are ordered by this very decision.
    `grows` has what refuses the nodes that are wanted beside these; where nothing more is wanted it
    is empty, and `one_more` is what would refuse one more. `shrinks` has what keeps its nodes;
    `going` are being shut down. `resting` are places without room.
    """

    size: str
    price: float | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    coming: int = 0
    wished: int = 0
    booting: int = 0
    grows: tuple[Blocker, ...] = ()
    one_more: Blocker | None = None
    shrinks: tuple[Blocker, ...] = ()
    going: int = 0
    resting: tuple[Rest, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether there is a node of the size, or one is wanted."""
        return bool(self.nodes or self.coming or self.wished or self.booting or self.grows)


def why(decision: DecisionView, size: str | None = None) -> tuple[SizeWhy, ...]:
    """Each active size, the cheapest first; with `size` (a name or instance type) only that.

    Empty where no decision could be taken, and where no size has that name.
    """
    made = decision.made
    if made.aborted is not None or made.wants is None or made.slots is None:
        return ()
    asking = DemandAgain(decision, made.slots)
    if size is not None:
        return tuple(one for one in asking.sizes() if size in (one.size, asking.type_of(one.size)))
    return tuple(one for one in asking.sizes() if one.is_active)


class DemandAgain:
    """The demand's rules for one decision, asked again; `weighed` is what the queue wants."""

    def __init__(self, decision: DecisionView, slots: Slots) -> None:
        made = decision.made
        self._made: Plan = made
        self._settings: Settings = adopting(decision.snapshot.history, decision.settings)
        self._snapshot: Snapshot = judged(made, decision.snapshot)
        self._slots = slots
        supply = Supply(self._snapshot, self._settings, made.views, made.pairs, made.unlisted)
        self._supply = supply
        impossible = made.impossible.ids if made.impossible is not None else frozenset[str]()
        taken = {boot.record.uuid for boot in made.boots if boot.record is not None}
        seats = free_seats(self._snapshot, self._settings, impossible | taken)
        self._market = Market(supply, self._snapshot, self._settings, slots, seats)
        self._boots = [boot.size for boot in made.boots]
        self.weighed = self._market.weighed()

    def sizes(self) -> Iterator[SizeWhy]:
        views: dict[str, list[NodeView]] = {}
        for view in self._made.views:
            if view.verdict.reason not in OUTSIDE:
                views.setdefault(view.size or UNKNOWN_SIZE, []).append(view)
        known = [size.name for size in self._supply.sizes.by_price]
        for name in dict.fromkeys([*known, *sorted(views)]):
            yield self._size(name, views.get(name, ()))

    def type_of(self, name: str) -> str | None:
        size = self._supply.sizes.named(name)
        return None if size is None else size.instance_type

    def _size(self, name: str, views: Sequence[NodeView]) -> SizeWhy:
        wants, size = self._made.wants, self._supply.sizes.named(name)
        assert wants is not None
        grows = tuple(
            self._refused(reason, count, size, name)
            for (of, reason), count in sorted(wants.refused.items())
            if of == name
        )
        one_more = None
        if not grows and size is not None:
            reason = self._market.forbids_one_more(size, self._boots)
            one_more = None if reason is None else self._refused(reason, 1, size, name)
        going = [view for view in views if _goes(view)]
        return SizeWhy(
            size=name,
            price=None if size is None else size.price,
            nodes=dict(Counter(place_of(view) or "unknown" for view in views)),
            coming=self._supply.coming[name],
            wished=self.weighed.by_size.get(name, 0),
            booting=sum(one.name == name for one in self._boots),
            grows=grows,
            one_more=one_more,
            shrinks=tuple(self._kept(view for view in views if not _goes(view))),
            going=len(going),
            resting=tuple(self._resting(name)),
        )

    def _resting(self, name: str) -> Iterator[Rest]:
        now = self._snapshot.now
        for place, until in sorted(self._snapshot.limits.places.get(name, {}).items()):
            if until > now:
                yield Rest(place, until - now)

    # Growing.

    def _refused(self, reason: Reason, count: int, size: Size | None, name: str) -> Blocker:
        until = self._until(reason, size, name)
        in_s = None if until is None else max(0.0, until - self._snapshot.now)
        if reason is Reason.NO_FREE_SLOT:
            in_s = self._slots.earliest_free_s
        return Blocker(reason, count, in_s, self._beside(reason, size))

    def _until(self, reason: Reason, size: Size | None, name: str) -> float | None:
        """When that refusal may end by itself, CLOCK_BOOTTIME."""
        limits, now = self._snapshot.limits, self._snapshot.now
        if reason is Reason.AT_QUOTA:
            return limits.quota_at + self._settings.boot_fail_after
        if reason is Reason.SIZE_RESTS:
            return limits.resting.get(name)
        if reason is Reason.THROTTLED:
            return limits.throttled_until
        if reason is Reason.BOOT_LOOP:
            return limits.loops.resting_until(name, now)
        if reason is Reason.PLACES_REST and size is not None:
            return availability.rests_until(size, limits.places, now)
        return None

    def _beside(self, reason: Reason, size: Size | None) -> Mapping[str, object]:
        """The measure of a refusal beside its threshold."""
        settings, supply, limits = self._settings, self._supply, self._snapshot.limits
        if reason is Reason.AT_MAX_NODES:
            return {"nodes": supply.existing, "limit": settings.max_nodes}
        if reason is Reason.CLAIMS_PENDING:
            return {"claims": supply.pending + supply.locked, "limit": settings.max_nodes}
        if reason is Reason.AT_MAX_PRICE:
            own = None if size is None else size.price
            return {"price": supply.price, "size_price": own, "limit": settings.max_total_price}
        if reason is Reason.AT_QUOTA:
            return {"nodes": supply.existing, "quota": limits.quota}
        if reason is Reason.NO_FREE_SLOT:
            return {"slots": self._slots.total, **self._slots.held_by}
        if reason is Reason.NOT_IN_SCHEDULER and (apart := self._market.apart()) is not None:
            return {"host": apart.first, "count": apart.count}
        parked, block = self._snapshot.parked, standing_block(self._snapshot, settings)
        if reason is Reason.POOL_PARKED and parked is not None:
            return parked.measures(self._snapshot.wall)
        return block.measures if block is not None and block.reason is reason else {}

    # Shrinking.

    def _kept(self, views: Iterable[NodeView]) -> Iterator[Blocker]:
        """The reasons that keep these nodes, most nodes first."""
        kept: dict[Reason, list[NodeView]] = {}
        for view in views:
            kept.setdefault(view.verdict.reason, []).append(view)
        for reason, those in sorted(kept.items(), key=lambda one: (-len(one[1]), one[0].value)):
            named = tuple(view.node.id for view in those[:NAMED])
            yield Blocker(
                reason, len(those), self._soonest(reason, those), self._why(reason), named
            )

    def _soonest(self, reason: Reason, views: Sequence[NodeView]) -> float | None:
        """In how many seconds the first of these nodes may go, if only time passes."""
        if reason is not Reason.WINDOW_CLOSED:
            return None
        snapshot, windows = self._snapshot, self._settings.shutdown_windows
        ages = (age_of(view.node, view.record, snapshot) for view in views)
        soonest = min(
            (opens_in(age_s, windows) for age_s in ages if age_s is not None), default=None
        )
        return None if soonest is None or soonest == float("inf") else soonest

    def _why(self, reason: Reason) -> Mapping[str, object]:
        if reason is Reason.NEEDED:
            return {"nodes": self._supply.up, "min_nodes": self._settings.min_nodes}
        return {}


def _goes(view: NodeView) -> bool:
    """Whether the node is being shut down, or is ordered to be by this decision."""
    return view.verdict.kind is Kind.SHUTDOWN or view.verdict.reason is Reason.SHUTTING_DOWN
