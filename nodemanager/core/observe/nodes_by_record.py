"""The index of one cloud listing: its nodes by record uuid and by node id (SAFETY.md C4, L4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from nodemanager.core.model.world import CloudNode, CloudState, FreedLife, Record

NodesByRecord = Mapping[str, tuple[CloudNode, ...]]
"""By record uuid: the nodes tagged with it that are not terminated, in the order of their ids."""
Present = Mapping[str, CloudNode]
"""By node id: the nodes that are not terminated."""


def index_nodes(nodes: tuple[CloudNode, ...]) -> tuple[NodesByRecord, Present]:
    """The index of one listing; it does not depend on the order of the items."""
    nodes_by_record: dict[str, tuple[CloudNode, ...]] = {}
    present: dict[str, CloudNode] = {}
    terminated = CloudState.TERMINATED
    for node in nodes:
        if node.state is terminated:
            continue
        other = present.setdefault(node.id, node)
        if other is not node:
            present[node.id] = min(node, other, key=repr)
        uuid = node.tags.record
        if uuid is not None:
            others = nodes_by_record.get(uuid)
            nodes_by_record[uuid] = (node,) if others is None else _in_order((*others, node))
    return nodes_by_record, present


def listed_twice(nodes: tuple[CloudNode, ...], present: Present) -> frozenset[str]:
    """The ids that a listing has more than once, in any states (L4)."""
    if len(present) == len(nodes):
        return frozenset()
    counts = Counter(node.id for node in nodes)
    return frozenset(one for one, count in counts.items() if count > 1)


def ended_nodes(nodes: tuple[CloudNode, ...], present: Present) -> dict[str, CloudNode]:
    """By id, the nodes that a listing shows as terminated; who is listed as alive, too, is none."""
    if len(present) == len(nodes):
        return {}
    return {node.id: node for node in nodes if node.is_absent and node.id not in present}


def _in_order(nodes: tuple[CloudNode, ...]) -> tuple[CloudNode, ...]:
    return tuple(sorted(nodes, key=lambda one: (one.id, repr(one))))


def each_once(nodes: tuple[CloudNode, ...], twice: frozenset[str]) -> tuple[CloudNode, ...]:
    """Each node once; of an id listed twice an entry that is not terminated, if any (L4)."""
    if not twice:
        return nodes
    chosen: dict[str, CloudNode] = {}
    for node in sorted(nodes, key=lambda one: (one.is_absent, repr(one))):
        chosen.setdefault(node.id, node)
    return tuple(chosen.values())


def bears(node: CloudNode, record: Record) -> bool:
    """Whether the node's tags name the record, and its incarnation where both have one (C4)."""
    incarnation = node.tags.incarnation
    return node.tags.record == record.uuid and (
        incarnation is None or record.claim is None or incarnation == record.claim.incarnation
    )


def may_be_of(node: CloudNode, record: Record, known_as: Collection[str | None]) -> bool:
    """Whether the node may be this life's: by our tags, or by an id in `known_as` (C4, P1a)."""
    return bears(node, record) or (node.id in known_as and not is_anothers(node, record))


def only_it_pings(node: CloudNode, record: Record) -> bool:
    """Whether nobody but the node can ping the record: it names the node, or its tag does (D7)."""
    if record.instance_id is None:
        return bears(node, record)
    return record.instance_id == node.id and not is_anothers(node, record)


def node_of(
    record: Record,
    nodes_by_record: NodesByRecord,
    present: Present,
) -> CloudNode | None:
    """The listed node, not terminated, that is the record's by tag or else by instance id (C4)."""
    for node in nodes_by_record.get(record.uuid, ()):
        if bears(node, record):
            return node
    named = present.get(record.instance_id) if record.instance_id is not None else None
    return None if named is None or is_anothers(named, record) else named


def is_anothers(node: CloudNode, record: Record | FreedLife) -> bool:
    """Whether the node's tag names another record, and `record` has a claim.

    The own node of a claimed record has that record's tag. So a ping of `record` that names this
    node's id proves nothing (P1a).
    """
    uuid = record.uuid if isinstance(record, Record) else record.record
    return record.incarnation is not None and node.tags.record not in (None, uuid)
