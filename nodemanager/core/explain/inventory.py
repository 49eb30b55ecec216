"""The lists of nodes, slots and orders for operators, as of the newest decision. They have no
secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from nodemanager.core.explain.lists import natural
from nodemanager.core.model.annotations import Mark, Marks
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudNode, Record, RecordState
from nodemanager.core.observe.history import freed_since_listed
from nodemanager.core.observe.signs import age_of, classify, quiet_for
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.naming import Known
from nodemanager.core.operate.verbs import STANDING, UNDO
from nodemanager.core.plan.plan import Plan, adopting
from nodemanager.core.plan.slots import Holder, free_in_s, holder_of, is_leaked
from nodemanager.core.plan.summary import place_of, unlisted


@dataclass(frozen=True, slots=True)
class SlotStates:
    """The number of slots in each state; their sum is the number of all slots.

    `idle` have a node that says it is idle, `leaked` are held for nothing past their windows
    (SAFETY.md U7), `used` are all others that are held, other pools' too. `free` is None if the
    store does not tell how many slots there are.
    """

    used: int
    idle: int
    leaked: int
    free: int | None


def slot_states(made: Plan) -> SlotStates | None:
    """The slots by state, or None where the decision was aborted and counted none."""
    slots = made.slots
    if slots is None:
        return None
    held = sum(slots.held_by.values())
    leaked = sum(leak.leaked for leak in slots.leaks)
    idle = min(made.counts.get("nodes_idle", 0), slots.held_by.get(Holder.LISTED_NODE.value, 0))
    free = None if slots.total is None else max(0, slots.total - held)
    return SlotStates(max(0, held - leaked - idle), idle, leaked, free)


LEAKED = "leaked"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One cloud node. `age_s` counts from its launch; None if the cloud does not tell it.

    `state` is as on the status page, or the cloud's if the decision was aborted; `reason` is the
    plan's, and `orders` are the operators' that stand.
    """

    host: str | None
    node: str | None
    size: str | None
    state: str
    age_s: float | None
    slot: int | None
    reason: str | None
    name: str | None = None
    record: str | None = None
    cloud_state: str | None = None
    pool: str | None = None
    addresses: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlotRow:
    """One slot that a record holds. `quiet_s` counts from the record's newest sign of life.

    `state` is what it is held for, or `leaked`; `reason` is what keeps the record. After
    `free_in_s` its windows are over; None if it waits for something other than time.
    """

    slot: int
    host: str | None
    state: str
    node: str | None
    quiet_s: float | None
    free_in_s: float | None
    reason: str | None
    record: str
    record_state: RecordState
    pool: str | None = None
    orders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderRow:
    """An operator's order that stands, given `at` (epoch seconds) by `by`.

    It is `of` a host, else of a node's or record's `id`, or of the pool. `undo` is what to type to
    end it.
    """

    order: str
    of: str
    id: str | None
    by: str
    at: float
    undo: str
    why: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """All nodes and held slots at one decision, taken `at` (epoch seconds).

    `total` is the number of all slots, None if the store does not tell it.
    """

    pool: str
    plan: str
    at: float
    nodes: tuple[NodeRow, ...]
    slots: tuple[SlotRow, ...]
    total: int | None


def take(made: Plan, snapshot: Snapshot, settings: Settings) -> Inventory:
    """The nodes and slots as the decision `made` from `snapshot` has them."""
    settings = adopting(snapshot.history, settings)
    return Inventory(
        pool=settings.pool,
        plan=made.plan_id,
        at=snapshot.wall,
        nodes=(*_nodes(made, snapshot, Sizes(settings.sizes)), *_unseen(made, snapshot)),
        slots=tuple(_slots(made, snapshot, settings)),
        total=snapshot.slots,
    )


def node_row(made: Plan, snapshot: Snapshot, settings: Settings, given: str) -> NodeRow | None:
    """The row of the node that `given` names, or None. Raises core.operate.naming's errors."""
    named = Known(snapshot.history, made.pairs).find(given)
    rows = take(made, snapshot, settings).nodes
    return next((one for one in rows if one.node is not None and one.node == named.node), None)


# Nodes.


def _nodes(made: Plan, snapshot: Snapshot, sizes: Sizes) -> Iterator[NodeRow]:
    if made.aborted is not None:
        reason = made.aborted.reason
        for node in snapshot.history.present.values():
            size = sizes.called(node)
            yield _node(node, None, size, node.state.value, reason, snapshot)
        return
    for view in made.views:
        state = place_of(view) or "foreign"
        if view.verdict.reason is not Reason.NODE_ABSENT:
            size = sizes.called(view.node, view.record)
            yield _node(view.node, view.record, size, state, view.verdict.reason, snapshot)


def _node(
    node: CloudNode,
    record: Record | None,
    size: str | None,
    state: str,
    reason: Reason,
    snapshot: Snapshot,
) -> NodeRow:
    age_s = age_of(node, record, snapshot)
    return NodeRow(
        host=None if record is None else record.hostname,
        node=node.id,
        size=size,
        state=state,
        age_s=None if age_s is None else max(0.0, age_s),
        slot=None if record is None else record.slot_number,
        reason=reason.value,
        name=node.name,
        record=node.tags.record if record is None else record.uuid,
        cloud_state=node.raw_state or node.state.value,
        pool=node.tags.pool,
        addresses=node.addresses,
        orders=_orders(snapshot, node.id, None if record is None else record.uuid),
    )


def _unseen(made: Plan, snapshot: Snapshot) -> Iterator[NodeRow]:
    """The nodes that no listing shows: created just now (P4), or missed lately (C5)."""
    missed = {one.uuid: one for one in unlisted(made.pending, snapshot)}
    for uuid, one in missed.items():
        yield NodeRow(
            host=one.hostname,
            node=one.instance_id,
            size=one.claim.size if one.claim is not None else None,
            state="unlisted",
            age_s=None,
            slot=one.slot_number,
            reason=Reason.NODE_ABSENT.value,
            record=uuid,
            orders=_orders(snapshot, one.instance_id, uuid),
        )
    known = {one.uuid: one for one in snapshot.history.listed_records}
    listed = {view.node.id for view in made.views} | {view.node.tags.record for view in made.views}
    for uuid, created in snapshot.expected.items():
        if created.node_id in listed or uuid in listed or uuid in missed:
            continue
        record = known.get(uuid)
        yield NodeRow(
            host=None if record is None else record.hostname,
            node=created.node_id,
            size=created.size,
            state="booting",
            age_s=max(0.0, snapshot.now - created.since),
            slot=None if record is None else record.slot_number,
            reason=Reason.NODE_EXPECTED.value,
            record=uuid,
            orders=_orders(snapshot, created.node_id, uuid),
        )


def _orders(snapshot: Snapshot, node: str | None, record: str | None) -> tuple[str, ...]:
    mark = snapshot.drains.get(node or "")
    stand: dict[str, object] = {
        "hold": {node, record} & snapshot.holds,
        "cordon": mark is not None and mark.kept,
        "drain": mark is not None and not mark.kept,
        "kill": node in snapshot.kills,
    }
    return tuple(kind for kind, stands in stand.items() if stands)


# Slots.


def _slots(made: Plan, snapshot: Snapshot, settings: Settings) -> Iterator[SlotRow]:
    verdicts = {one.id: one for one in made.records}
    freed = freed_since_listed(snapshot.history)
    for record in snapshot.history.listed_records:
        if record.slot_number is None:
            continue
        verdict = verdicts.get(record.uuid)
        node = made.pairs.node_of.get(record.uuid)
        node_id = record.instance_id if node is None else node.id
        yield SlotRow(
            slot=record.slot_number,
            host=record.hostname,
            state=_held_for(record, verdict, snapshot, settings, freed),
            node=node_id,
            quiet_s=quiet_for(record, snapshot),
            free_in_s=None if verdict is None else free_in_s(verdict),
            reason=None if verdict is None else verdict.reason.value,
            record=record.uuid,
            record_state=classify(record, snapshot, settings),
            pool=record.pool,
            orders=_orders(snapshot, node_id, record.uuid),
        )


def _held_for(
    record: Record,
    verdict: Verdict | None,
    snapshot: Snapshot,
    settings: Settings,
    freed: Set[str],
) -> str:
    holder = holder_of(record, snapshot, settings)
    if holder in (Holder.LISTED_NODE, Holder.OTHER_POOL):
        return holder.value
    if verdict is not None and is_leaked(record, verdict, snapshot, settings, freed):
        return LEAKED
    return holder.value


# Orders.


def standing_orders(marks: Marks, hosts: Mapping[str, str]) -> tuple[OrderRow, ...]:
    """The orders that stand: those of the pool first, then by kind and host."""
    rows = [
        _order(kind, one.subject, None, marks.pool[kind])
        for kind, one in STANDING.items()
        if kind in marks.pool
    ]
    for kind, these in marks.by_kind.items():
        for id in sorted(these, key=lambda one: natural(hosts.get(one, one))):
            rows.append(_order(kind, hosts.get(id, id), id, these[id]))
    return tuple(rows)


def _order(kind: str, of: str, id: str | None, mark: Mark) -> OrderRow:
    return OrderRow(kind, of, id, mark.by or "somebody", mark.at, UNDO[kind].typed, mark.reason)


def hosts_of(made: Plan, marks: Marks) -> dict[str, str]:
    """The hostname of each node and record that an order is about."""
    ordered = {id for of_kind in marks.by_kind.values() for id in of_kind}
    if not ordered:
        return {}
    records = {one.uuid: one for one in made.history.listed_records}
    found = {id: made.pairs.record_of.get(id) or records.get(id) for id in ordered}
    return {id: one.hostname for id, one in found.items() if one is not None and one.hostname}
