"""What a backlog plan proposes, and how each of its items stands when it is applied (S5, D11).

An operator reads the plan, edits it, and gives it back, perhaps days later. Each item names the
version that was judged. It is compared with the newest decision, and let go only if nothing
changed. Letting go frees nothing: the record is then judged, checked and written like any other
(C0-C12).

To adopt a node is one write: our tags. The pool's tag makes a node ours: from then on it is drained
and shut down like any other of the pool. The node gets the record's tag only where its record has a
claim, as a pair is by uuid *and* incarnation (P1). Without a claim it stays paired by instance id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nodemanager.core.judge.node_view import DYING
from nodemanager.core.judge.records import is_touched
from nodemanager.core.model.reasons import PASSES, Kind, Reason, having
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.signs import newest_sign
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan
from nodemanager.core.safety.rate_limits import name_of


class ItemAction(StrEnum):
    """The action on an item."""

    CLEAN = "clean"
    ADOPT = "adopt"


class ItemState(StrEnum):
    """How an item stands at one decision."""

    HELD = "held"
    UNDER_WAY = "under_way"
    WAITS = "waits"
    DONE = "done"
    CHANGED = "changed"


PASSING = having(PASSES)
"""Reasons that say nothing about the item itself: it waits until they are over."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a plan: `id` is a record's uuid or a node's id, `version` what was judged.

    `record` is the record that a node to adopt is to be paired with, empty where none is named.
    """

    action: ItemAction
    id: str
    version: str
    record: str = ""

    @property
    def key(self) -> str:
        return f"{self.action.value} {self.id}"


@dataclass(frozen=True, slots=True)
class ItemStatus:
    """How an item stands, why, and what was measured."""

    state: ItemState
    reason: Reason
    measures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexedPlan:
    """One decision, indexed by the ids of what was judged."""

    snapshot: Snapshot
    records: Mapping[str, Record]
    verdicts: Mapping[str, Verdict]
    pairs: Pairs


def record_status(item: Item, seen: IndexedPlan) -> ItemStatus:
    """How a record stands that a backlog plan wants cleaned at the item's version."""
    record = seen.records.get(item.id)
    flight = seen.snapshot.record_flights.get(item.id)
    if flight is not None:
        # Our own fence changes the version, too (C12): judge it when this is over.
        return ItemStatus(ItemState.WAITS, Reason.IN_FLIGHT, {"action": flight.kind})
    if is_touched(item.id, seen.snapshot):
        return ItemStatus(ItemState.WAITS, Reason.CHANGED_SINCE_LISTING)
    if record is None:
        return ItemStatus(ItemState.CHANGED, Reason.RECORD_GONE)
    if record.version != item.version:
        if not record.holds_anything and not record.problems:
            return ItemStatus(ItemState.DONE, Reason.HOLDS_NOTHING)
        measures = {"version": record.version, "judged": item.version}
        return ItemStatus(ItemState.CHANGED, Reason.CHANGED_SINCE_PLAN, measures)
    verdict = seen.verdicts[item.id]
    measures = dict(verdict.measures or {})
    if verdict.kind in (Kind.CLEAN, Kind.DEFER):
        return ItemStatus(ItemState.UNDER_WAY, verdict.reason, measures)
    if verdict.reason is Reason.BACKLOG_HELD:
        return ItemStatus(ItemState.HELD, verdict.reason, measures)
    if verdict.reason is Reason.HOLDS_NOTHING:
        return ItemStatus(ItemState.DONE, verdict.reason, measures)
    state = ItemState.WAITS if verdict.reason in PASSING else ItemState.CHANGED
    return ItemStatus(state, verdict.reason, measures)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One line of a plan, with the evidence. Times are epoch seconds of the store.

    A line that is not `chosen` is shown, but left out until an operator chooses it. `asked` is the
    cloud's newest answer by id or tag, None if it was not asked; C11 asks again before the write.
    """

    item: Item
    chosen: bool
    status: ItemStatus
    slot: int | None = None
    host: str | None = None
    node: str | None = None
    claimed_by: str | None = None
    last_sign_at: float | None = None
    asked: str | None = None
    name: str | None = None
    state: str | None = None
    created_at: float | None = None
    then: str | None = None
    """What will be done with a node once it is adopted."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an operator is asked to decide. `freeing` counts the records that go without that."""

    candidates: tuple[Candidate, ...]
    freeing: int = 0


def proposal(seen: IndexedPlan) -> Proposal:
    """The records held back and the unverifiable ones; chosen and longest quiet first (C11, S5)."""
    held = [*_held_back(seen)]
    freeing = sum(verdict.kind in (Kind.CLEAN, Kind.DEFER) for verdict in seen.verdicts.values())
    held.sort(key=lambda one: (not one.chosen, one.last_sign_at or 0.0, one.item.id))
    return Proposal(tuple(held), freeing)


def _held_back(seen: IndexedPlan) -> Iterator[Candidate]:
    backlog = seen.snapshot.backlog
    for uuid, record in seen.records.items():
        verdict = seen.verdicts[uuid]
        held = verdict.reason is Reason.BACKLOG_HELD or name_of(record) in backlog
        if not held and verdict.reason is not Reason.UNVERIFIABLE:
            continue
        item = Item(ItemAction.CLEAN, uuid, record.version)
        status = record_status(item, seen)
        if status.state in (ItemState.UNDER_WAY, ItemState.DONE):
            continue
        yield Candidate(
            item,
            status.state is not ItemState.CHANGED,
            status,
            slot=record.slot_number,
            host=record.hostname,
            node=record.instance_id,
            claimed_by=record.claim.manager if record.claim is not None else None,
            last_sign_at=newest_sign(record),
            asked=_answer(record, seen),
        )


def _answer(record: Record, seen: IndexedPlan) -> str | None:
    asked = seen.snapshot.history.asked
    found = asked.get(record.instance_id or "") or asked.get(record.uuid)
    if found is None:
        return None
    if not found.nodes:
        return "no such node"
    return ",".join(sorted({node.state.value for node in found.nodes}))


def indexed_plan(made: Plan, snapshot: Snapshot) -> IndexedPlan | None:
    """The decision by the ids of what was judged; None where none could be taken."""
    listing = made.history.records
    if made.aborted is not None or listing is None:
        return None
    return IndexedPlan(
        snapshot,
        {record.uuid: record for record in listing.items},
        {verdict.id: verdict for verdict in made.records},
        made.pairs,
    )


def node_version(node: CloudNode) -> str:
    """A digest of the node as it was made and tagged; it does not change with the node's state."""
    said = (node.id, node.name, node.size, node.created_at, node.tags)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def node_status(item: Item, seen: IndexedPlan, pool: str) -> ItemStatus:
    """How far the adoption of `item` is, or what forbids it; `pool` is ours."""
    history = seen.snapshot.history
    node = history.present.get(item.id)
    if node is None:
        return ItemStatus(ItemState.CHANGED, Reason.NODE_ABSENT)
    if node.tags.pool == pool:
        return ItemStatus(ItemState.DONE, Reason.ADOPTED)
    if item.id in history.nodes_twice:
        return ItemStatus(ItemState.CHANGED, Reason.IMPOSSIBLE)
    changed = not_as_named(item, node, seen.snapshot)
    if changed is not None:
        return changed
    if item.id in seen.pairs.ambiguous:
        return ItemStatus(ItemState.CHANGED, Reason.AMBIGUOUS)
    record = seen.pairs.record_of.get(item.id)
    if item.record and (record is None or record.uuid != item.record):
        measures = {"record": record.uuid if record is not None else None}
        return ItemStatus(ItemState.CHANGED, Reason.PAIR_UNPROVEN, measures)
    return ItemStatus(ItemState.HELD, Reason.UNTAGGED)


def not_as_named(item: Item, node: CloudNode, snapshot: Snapshot) -> ItemStatus | None:
    """Why the node is not the one that the operator named, or not free to adopt; else None."""
    if node.tags.pool is not None:
        return ItemStatus(ItemState.CHANGED, Reason.OTHER_POOL, {"pool": node.tags.pool})
    version = node_version(node)
    if version != item.version:
        measures = {"version": version, "judged": item.version}
        return ItemStatus(ItemState.CHANGED, Reason.CHANGED_SINCE_PLAN, measures)
    if node.problems:
        return ItemStatus(
            ItemState.CHANGED, Reason.UNREADABLE, {"detail": "; ".join(node.problems)}
        )
    if node.held or node.id in snapshot.holds:
        return ItemStatus(ItemState.CHANGED, Reason.HELD)
    return None


def adoptable(seen: IndexedPlan, settings: Settings) -> Iterator[Candidate]:
    """Every listed node that may be adopted, none of them chosen yet (D11)."""
    for node in sorted(seen.snapshot.history.present.values(), key=lambda one: one.id):
        if node.tags.pool is not None:
            continue
        record = seen.pairs.record_of.get(node.id)
        item = Item(
            ItemAction.ADOPT, node.id, node_version(node), record.uuid if record is not None else ""
        )
        status = node_status(item, seen, settings.pool)
        if status.state is not ItemState.HELD:
            continue
        yield Candidate(
            item,
            False,
            status,
            slot=record.slot_number if record is not None else None,
            host=record.hostname if record is not None else None,
            last_sign_at=record.last_ping_at if record is not None else None,
            name=node.name,
            state=node.state.value,
            created_at=node.created_at,
            then=_then(node, record, settings),
        )


def _then(node: CloudNode, record: Record | None, settings: Settings) -> str:
    """What the plans will do with the node once it is ours, in words for the operator."""
    if node.state in DYING:
        return f"it is {node.state.value}: shut down after {settings.settle:g} s (D1)"
    if record is None:
        limit_s = settings.boot_fail_after
        return f"no record pairs with it: shut down after {limit_s:g} s (D7)"
    return "paired by its instance id: kept while it pings and works (D1)"


OVER = frozenset({ItemState.DONE, ItemState.CHANGED})
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
            node_status(one, seen, settings.pool)
            if one.action is ItemAction.ADOPT
            else record_status(one, seen),
        )
        for one in dict.fromkeys(items)
    )


def marks_of(order: Order, found: Statuses) -> dict[str, ItemMark]:
    """The marks for those items of the order that are neither done nor changed."""
    return {item.key: ItemMark(item, order.by) for item, one in found if one.state not in OVER}


def let_go(marks: ItemMarks) -> frozenset[str]:
    """The records that are no longer held back, each as `uuid@version`."""
    return frozenset(
        f"{one.item.id}@{one.item.version}"
        for one in marks.values()
        if one.item.action is ItemAction.CLEAN
    )


def due_adoptions(found: Statuses) -> tuple[Item, ...]:
    """The nodes among the marked items that have no tag of ours yet."""
    return tuple(
        item for item, one in found if item.action is ItemAction.ADOPT and one.state not in OVER
    )


# What an operator asks the daemon, each with the function that takes the answer.


@dataclass(frozen=True)
class BacklogView:
    """What the newest decision leaves to an operator, and for which store and account.

    `seen` is None while no decision could be taken; `marks` are the items that are let go.
    """

    seen: IndexedPlan | None
    settings: Settings
    store: str | None
    account: str | None
    mode: str
    marks: ItemMarks


@dataclass(frozen=True, slots=True)
class ShowBacklog:
    """Show an operator what is held back, and what is let go."""

    answered: Callable[[BacklogView], None]


@dataclass(frozen=True, slots=True)
class ApplyBacklog:
    """Apply a plan that an operator reviewed. Answered with how each item stands, or why not."""

    order: Order
    answered: Callable[[Statuses | str], None]


@dataclass(frozen=True, slots=True)
class StopBacklog:
    """Let nothing more go. Answered with how many marks were taken off, or a problem."""

    by: str
    answered: Callable[[int | str], None]
