"""The marks by which an operator lets items of a backlog plan go (S5, D11).

A mark frees nothing: the record is judged with all others from then on, within the cap on cleans
(C10). It stands until its item is done, or is no longer what the plan said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodemanager.core.model.settings import Settings
from nodemanager.core.operate.adoption import standing_of_node
from nodemanager.core.operate.backlog import (
    IndexedPlan,
    Item,
    ItemAction,
    ItemStatus,
    Stand,
    standing_of,
)

OVER = frozenset({Stand.DONE, Stand.CHANGED})
"""How an item stands that needs no mark any more."""


@dataclass(frozen=True, slots=True)
class Order:
    """What an operator wants applied; `pool`, `store` and `account` are the plan's (L5)."""

    by: str
    pool: str
    store: str
    account: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class ItemMark:
    """An item that an operator let go."""

    item: Item
    by: str


ItemMarks = Mapping[str, ItemMark]
"""By the item's key."""
Statuses = tuple[tuple[Item, ItemStatus], ...]
"""Items, and how each stands."""


def refusal(
    order: Order, *, pool: str, store: str | None, account: str | None, dry_run: bool
) -> str | None:
    """Why this manager can't apply the order, and what to do; None if it can."""
    if dry_run:
        return (
            "this daemon runs with --dry-run: it writes nothing; start it without, and apply then"
        )
    if order.pool != pool:
        return f"the plan was made for pool {order.pool}, and this manager serves {pool}"
    if store is None or account is None:
        return "the daemon has not reached cloud and store yet; try again after its first polls"
    if order.store != store:
        return f"the plan was made from store {order.store}, and the store is {store} now (L5)"
    if order.account != account:
        return f"the plan was made from {order.account}, and the cloud is {account} now (L5)"
    return None


def statuses(items: Iterable[Item], seen: IndexedPlan, settings: Settings) -> Statuses:
    """How each item stands at that decision; one that is given twice is counted once."""
    return tuple(
        (
            one,
            standing_of_node(one, seen, settings.pool)
            if one.deed is ItemAction.ADOPT
            else standing_of(one, seen),
        )
        for one in dict.fromkeys(items)
    )


def marks_of(order: Order, found: Statuses) -> dict[str, ItemMark]:
    """The marks for those items of the order that are neither done nor changed."""
    return {item.key: ItemMark(item, order.by) for item, one in found if one.stand not in OVER}


def let_go(marks: ItemMarks) -> frozenset[str]:
    """The records that are no longer held back, each as `uuid@version`."""
    return frozenset(
        f"{one.item.id}@{one.item.version}"
        for one in marks.values()
        if one.item.deed is ItemAction.CLEAN
    )


def due_adoptions(found: Statuses) -> tuple[Item, ...]:
    """The nodes among the marked items that have no tag of ours yet."""
    return tuple(
        item for item, one in found if item.deed is ItemAction.ADOPT and one.stand not in OVER
    )
