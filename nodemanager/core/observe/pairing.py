"""The pairs of cloud nodes and records: one dictionary join (SAFETY.md P1-P5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nodemanager.core.model.changed import same_items
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.history import History, Records
from nodemanager.core.observe.nodes_by_record import NodesByRecord, Present
from nodemanager.core.observe.pools import not_ours


class Joined(NamedTuple):
    """All that a join was made from."""

    records: Records | None
    nodes_by_record: NodesByRecord
    present: Present
    pool: str
    ids_unique: bool
    adopt_unclaimed: bool | None


@dataclass(frozen=True, slots=True)
class Pairs:
    """The join of one cloud listing and one record listing.

    `record_of` (by node id) and `node_of` (by record uuid) hold the pairs. An ambiguous node or
    record is in neither; `ambiguous` has the ids of its candidates (P2). A join of the very same
    objects, `joined`, gives the same pairs.
    """

    record_of: Mapping[str, Record]
    node_of: Mapping[str, CloudNode]
    ambiguous: Mapping[str, tuple[str, ...]]
    joined: Joined | None = field(default=None, compare=False, repr=False)

    def is_of(self, joined: Joined) -> bool:
        """Whether these pairs were joined from the very same."""
        return self.joined is not None and same_items(self.joined, joined)

    def has_nodes_of(self, joined: Joined) -> bool:
        """Whether these pairs were joined from the very same but for the records."""
        return self.joined is not None and same_items(self.joined[1:], joined[1:])


NO_PAIRS = Pairs({}, {}, {})


def pair(
    history: History,
    *,
    pool: str,
    ids_unique: bool,
    adopt_unclaimed: bool | None = None,
    before: Pairs = NO_PAIRS,
) -> Pairs:
    """Pair the nodes and records of `pool` in the newest complete listings (P1, T3).

    A node pairs by our tags, uuid and incarnation, without a test of time. A node without a record
    tag pairs by instance id, if the cloud's ids are unique for ever (`ids_unique`) and the record's
    first ping is not before the node's launch. `before` are the pairs of the plan before.
    """
    if history.cloud is None or history.records is None:
        return NO_PAIRS
    nodes_by_record, present = history.nodes_by_record, history.present
    joined = Joined(history.records, nodes_by_record, present, pool, ids_unique, adopt_unclaimed)
    if before.is_of(joined):
        return before
    record_of: dict[str, Record] = {}
    node_of: dict[str, CloudNode] = {}
    ambiguous: dict[str, tuple[str, ...]] = {}
    known = before.node_of if before.has_nodes_of(joined) else {}
    for record in history.records.items:
        uuid = record.uuid
        node = known.get(uuid)
        if node is None or before.record_of.get(node.id) is not record:
            node = _candidate(record, joined, ambiguous)
        if node is None:
            continue
        if node.id in record_of or node.id in ambiguous:
            _make_ambiguous(node.id, uuid, record_of, node_of, ambiguous)
            continue
        record_of[node.id] = record
        node_of[uuid] = node
    return Pairs(record_of, node_of, ambiguous, joined)


def _candidate(
    record: Record, joined: Joined, ambiguous: dict[str, tuple[str, ...]]
) -> CloudNode | None:
    """The one node of the pool that is the record's, unless another record has it, too."""
    _, nodes_by_record, present, pool, ids_unique, adopt_unclaimed = joined
    if not_ours(record, pool, adopt_unclaimed) is not None:
        return None
    candidates = nodes_by_record.get(record.uuid)
    node = None
    if candidates is not None:
        node = _bearer(record, candidates, ambiguous)
    elif ids_unique and record.instance_id is not None:
        found = present.get(record.instance_id)
        node = found if found is not None and _same_life(found, record) else None
    return node if node is not None and node.tags.pool in (None, pool) else None


def _bearer(
    record: Record, candidates: Sequence[CloudNode], ambiguous: dict[str, tuple[str, ...]]
) -> CloudNode | None:
    """The one candidate with the record's incarnation; several are noted as ambiguous (P2)."""
    claim = record.claim
    if len(candidates) == 1:
        node = candidates[0]
        if claim is None or node.tags.incarnation != claim.incarnation:
            return None
        return node
    if claim is None:
        return None
    mine = [one for one in candidates if one.tags.incarnation == claim.incarnation]
    if len(mine) > 1:
        ids = tuple(sorted(one.id for one in mine))
        ambiguous[record.uuid] = ids
        for node_id in ids:
            ambiguous[node_id] = (record.uuid,)
        return None
    return mine[0] if mine else None


def _same_life(node: CloudNode, record: Record) -> bool:
    return (
        node.tags.record is None
        and record.first_ping_at is not None
        and node.created_at is not None
        and record.first_ping_at >= node.created_at
    )


def _make_ambiguous(
    node_id: str,
    uuid: str,
    record_of: dict[str, Record],
    node_of: dict[str, CloudNode],
    ambiguous: dict[str, tuple[str, ...]],
) -> None:
    """Note that several records match one node: none gets it."""
    earlier = record_of.pop(node_id, None)
    rivals = set(ambiguous.get(node_id, ())) | {uuid}
    if earlier is not None:
        rivals.add(earlier.uuid)
        node_of.pop(earlier.uuid, None)
    ambiguous[node_id] = tuple(sorted(rivals))
    for rival in rivals:
        ambiguous[rival] = (node_id,)
