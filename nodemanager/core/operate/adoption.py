"""Which nodes that somebody made by hand may be adopted, and what must hold for that (D11).

To adopt a node is one write: our tags. The pool's tag makes a node ours: from then on it is drained
and shut down like any other of the pool. The node gets the record's tag only where its record has a
claim, as a pair is by uuid *and* incarnation (P1). Without a claim it stays paired by instance id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from nodemanager.core.judge.node_view import DYING
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.backlog import (
    Candidate,
    IndexedPlan,
    Item,
    ItemAction,
    ItemStatus,
    Stand,
)


def node_version(node: CloudNode) -> str:
    """A digest of the node as it was made and tagged; it does not change with the node's state."""
    said = (node.id, node.name, node.size, node.created_at, node.tags)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def standing_of_node(item: Item, seen: IndexedPlan, pool: str) -> ItemStatus:
    """How far the adoption of `item` is, or what forbids it; `pool` is ours."""
    history = seen.snapshot.history
    node = history.present.get(item.id)
    if node is None:
        return ItemStatus(Stand.CHANGED, Reason.NODE_ABSENT)
    if node.tags.pool == pool:
        return ItemStatus(Stand.DONE, Reason.ADOPTED)
    if item.id in history.nodes_twice:
        return ItemStatus(Stand.CHANGED, Reason.IMPOSSIBLE)
    changed = not_as_named(item, node, seen.snapshot)
    if changed is not None:
        return changed
    if item.id in seen.pairs.ambiguous:
        return ItemStatus(Stand.CHANGED, Reason.AMBIGUOUS)
    record = seen.pairs.record_of.get(item.id)
    if item.record and (record is None or record.uuid != item.record):
        measures = {"record": record.uuid if record is not None else None}
        return ItemStatus(Stand.CHANGED, Reason.PAIR_UNPROVEN, measures)
    return ItemStatus(Stand.HELD, Reason.UNTAGGED)


def not_as_named(item: Item, node: CloudNode, snapshot: Snapshot) -> ItemStatus | None:
    """Why the node is not the one that the operator named, or not free to adopt; else None."""
    if node.tags.pool is not None:
        return ItemStatus(Stand.CHANGED, Reason.OTHER_POOL, {"pool": node.tags.pool})
    version = node_version(node)
    if version != item.version:
        measures = {"version": version, "judged": item.version}
        return ItemStatus(Stand.CHANGED, Reason.CHANGED_SINCE_PLAN, measures)
    if node.problems:
        return ItemStatus(Stand.CHANGED, Reason.UNREADABLE, {"detail": "; ".join(node.problems)})
    if node.held or node.id in snapshot.holds:
        return ItemStatus(Stand.CHANGED, Reason.HELD)
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
        standing = standing_of_node(item, seen, settings.pool)
        if standing.stand is not Stand.HELD:
            continue
        yield Candidate(
            item,
            False,
            standing,
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
