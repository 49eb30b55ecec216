"""Which claims get the id of their node (SAFETY.md P1a); `execute.bind` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.snapshot import Snapshot

BIND_LIMIT = 20
"""At most this many a plan: after an upgrade no claim has its node, and cleans need their turn."""


@dataclass(frozen=True, slots=True)
class BindOrder:
    """One claim that gets the id of its node."""

    uuid: str
    incarnation: str
    node_id: str
    plan_id: str


def bind_orders(snapshot: Snapshot, settings: Settings, pairs: Pairs) -> tuple[BindOrder, ...]:
    """The claims that lack the id of their known node. None where the store can't compare versions:
    a late write could put back a claim that was freed since (C12)."""
    records = snapshot.history.records
    if records is None or not settings.compare_and_set:
        return ()
    if standing_block(snapshot, settings, polls=False, breaker=False) is not None:
        return ()
    found: list[BindOrder] = []
    for record in _unbound(records.items, snapshot):
        node_id = _node_of(record, snapshot, pairs)
        if node_id is not None and record.incarnation is not None:
            order = BindOrder(record.uuid, record.incarnation, node_id, snapshot.plan_id)
            found.append(order)
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
        # A listing from before the end of an action of ours is out of date.
        if listing is not None and snapshot.touched.get(uuid, -1.0) < listing.started_at:
            yield record


def _node_of(record: Record, snapshot: Snapshot, pairs: Pairs) -> str | None:
    """The id of the claim's node, by its tag or as the create answered; None where not known."""
    node = pairs.node_of.get(record.uuid)
    if node is not None:
        return node.id if node.tags.record == record.uuid else None
    expected = snapshot.expected.get(record.uuid)
    if expected is not None and expected.incarnation == record.incarnation:
        return expected.node_id
    return None
