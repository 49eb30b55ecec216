"""Which node a claimed record's is, written into its claim, so that the store can hold pings
against it (SAFETY.md P1a).

It is the node that bears our tag, or that the create answered. A manager that was killed between
the create and this write finds the tag, so that nothing has to be remembered for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nodemanager.core.model import Record
from nodemanager.core.pairing import Pairs
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.standing import standing_block

BIND_LIMIT = 20
"""So many in one plan: after an upgrade no claim names its node, and cleans need their turn."""


@dataclass(frozen=True, slots=True)
class BindOrder:
    """One claim to write its node's id in."""

    uuid: str
    incarnation: str
    node_id: str


def bind_orders(snapshot: Snapshot, settings: Settings, pairs: Pairs) -> tuple[BindOrder, ...]:
    """Whose node is known and not written down. Where a store can't compare, nothing is: a late
    write could put back a claim that was freed since (C12)."""
    records = snapshot.history.records
    if records is None or not settings.compare_and_set:
        return ()
    if standing_block(snapshot, settings, polls=False, breaker=False) is not None:
        return ()
    found: list[BindOrder] = []
    for record in _unbound(records.items, snapshot):
        node_id = _node_of(record, snapshot, pairs)
        if node_id is not None and record.incarnation is not None:
            found.append(BindOrder(record.uuid, record.incarnation, node_id))
            if len(found) == BIND_LIMIT:
                break
    return tuple(found)


def _unbound(records: tuple[Record, ...], snapshot: Snapshot) -> Iterator[Record]:
    for record in records:
        claim = record.claim
        if claim is None or claim.node_id is not None or record.problems or record.held:
            continue
        uuid, listing = record.uuid, snapshot.history.records
        if uuid in snapshot.holds or uuid in snapshot.record_flights:
            continue
        # One that something of ours ended for since is shown as it was.
        if listing is not None and snapshot.touched.get(uuid, -1.0) < listing.started_at:
            yield record


def _node_of(record: Record, snapshot: Snapshot, pairs: Pairs) -> str | None:
    node = pairs.node_of.get(record.uuid)
    if node is not None:
        return node.id if node.tags.record == record.uuid else None
    expected = snapshot.expected.get(record.uuid)
    if expected is not None and expected.incarnation == record.incarnation:
        return expected.node_id
    return None
