"""How many idle nodes of each size are kept ready beyond demand (`[Size X] spare_nodes`).

Spare nodes go first: while demand is refused a node because max_nodes, quota, slots or price run
short, no spare is booted, and as many spares are given up as that node needs. Prices are per hour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodemanager.core.judge.node_view import IDLE, NodeView
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Size
from nodemanager.core.plan.supply import Supply

ROOM = frozenset({Reason.AT_MAX_NODES, Reason.AT_QUOTA, Reason.NO_FREE_SLOT})
"""The refusals of a boot, of any size, that one node less makes room for."""

RefusedBoots = Mapping[tuple[str, Reason], int]


@dataclass(frozen=True, slots=True)
class Spares:
    """The spare nodes of one size: as many as the file wants, as there are, and as are kept now.

    `there` are idle, booting and future nodes that demand does not want; it may be above `wanted`.
    """

    wanted: int
    there: int
    kept: int

    @property
    def lacking(self) -> int:
        """How many more are to be booted now."""
        return max(0, self.kept - self.there)

    @property
    def given_up(self) -> int:
        """How many are neither kept nor booted, because something runs short."""
        return self.wanted - self.kept


def spares_of(
    supply: Supply,
    settings: Settings,
    wishes: Mapping[str, int],
    refused: RefusedBoots,
    granted: Sequence[tuple[Size, Reason]],
) -> dict[str, Spares]:
    """The spare nodes of each size that has some, by its name.

    `wishes` are the nodes that the queue wants by size, `refused` and `granted` its boots.
    """
    sizes = [size for size in supply.sizes.by_price if size.spare_nodes]
    if not sizes:
        return {}
    there = {size.name: _there(size, supply, wishes) for size in sizes}
    going = _going_anyway(supply, wishes)
    nodes = _nodes_short(supply, settings, refused) - going.total()
    money = _money_short(supply, settings, refused, granted)
    money -= sum(price_of(name, supply) * count for name, count in going.items())
    refusals = {reason for _, reason in refused}
    is_short = nodes > 0 or money > 0 or not refusals.isdisjoint({*ROOM, Reason.AT_MAX_PRICE})
    found: dict[str, Spares] = {}
    # The dearest go first, and before them those of unknown price.
    for size in reversed(sizes):
        # One that the scheduler sets aside is a spare node that runs nothing now (D16).
        wanted, has = max(0, size.spare_nodes - supply.aside[size.name]), there[size.name]
        kept = min(wanted, has) if is_short else wanted
        while kept > 0 and has > 0 and (nodes > 0 or (money > 0 and size.price)):
            kept -= 1
            nodes -= 1
            money -= size.price or 0.0
        found[size.name] = Spares(wanted, has, kept)
    return found


def _there(size: Size, supply: Supply, wishes: Mapping[str, int]) -> int:
    name = size.name
    taken = max(0, wishes.get(name, 0) - supply.just_busy.get(name, 0))
    return max(0, supply.spare.get(name, 0) + supply.coming.get(name, 0) - taken)


def _going_anyway(supply: Supply, wishes: Mapping[str, int]) -> Counter[str]:
    """By size, the nodes that make room without a spare: those that go already, and idle or future
    ones that neither demand nor `spare_nodes` wants."""
    going: Counter[str] = Counter()
    free = Counter(supply.coming)
    for view in supply.views:
        name = view.size or ""
        if view.verdict.reason is Reason.SHUTTING_DOWN:
            going[name] += 1
        elif view.counts and view.verdict.reason in IDLE:
            free[name] += 1
    for name, count in free.items():
        size = supply.sizes.named(name)
        wanted = wishes.get(name, 0) + (size.spare_nodes if size is not None else 0)
        there = supply.spare.get(name, 0) + supply.coming.get(name, 0) if size else count
        going[name] += max(0, min(count, there - wanted))
    return going


def _nodes_short(supply: Supply, settings: Settings, refused: RefusedBoots) -> int:
    """How many nodes too many there are, or are wanted, for max_nodes, quota and slots."""
    over = max(0, supply.staying - settings.max_nodes)
    return over + sum(count for (_, reason), count in refused.items() if reason in ROOM)


def _money_short(
    supply: Supply,
    settings: Settings,
    refused: RefusedBoots,
    granted: Iterable[tuple[Size, Reason]],
) -> float:
    """By how much the nodes that there are, and those that demand wants, exceed max_total_price."""
    if settings.max_total_price <= 0:
        return 0.0
    wanted = sum(
        price_of(name, supply) * count
        for (name, reason), count in refused.items()
        if reason is Reason.AT_MAX_PRICE
    )
    price = supply.price + sum(size.price or 0.0 for size, _ in granted) + wanted
    # A float sum of prices may differ a little from the decimal sum that an operator makes.
    return max(0.0, round(price - settings.max_total_price, 9))


def price_of(name: str, supply: Supply) -> float:
    size = supply.sizes.named(name)
    return 0.0 if size is None else size.price or 0.0


def chosen(
    spares: Mapping[str, Spares], views: Iterable[NodeView], unwanted: Iterable[str]
) -> frozenset[str]:
    """The ids of the idle nodes that are shown as spare: of each size as many as are kept."""
    if not any(one.kept for one in spares.values()):
        return frozenset()
    going = frozenset(unwanted)
    left = {name: min(one.kept, one.there) for name, one in spares.items()}
    found = []
    for view in sorted(views, key=lambda view: view.node.id, reverse=True):
        name = view.size or ""
        if view.verdict.reason is not Reason.NEEDED or view.node.id in going:
            continue
        if left.get(name, 0) > 0:
            left[name] -= 1
            found.append(view.node.id)
    return frozenset(found)
