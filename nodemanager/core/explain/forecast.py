"""The snapshot of a later moment, if every poll until then answers and shows the same.

It folds repeated listings of what concerns one record or node, with the same folds as real polls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nodemanager.core.model.settings import CLOCK_AGREE_POLLS, Settings
from nodemanager.core.model.world import CloudNode, Listing, Record, StoreTime
from nodemanager.core.observe import history as histories
from nodemanager.core.observe import nodes_since
from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Snapshot

TICK_S = 0.001
"""Seconds between the last polls, and the precision of a predicted moment."""


def focused(snapshot: Snapshot, nodes: Iterable[str], records: Iterable[str]) -> Snapshot:
    """The snapshot with listings of only these nodes and records, so that folding is cheap."""
    history, node_ids, uuids = snapshot.history, frozenset(nodes), frozenset(records)
    cloud, listed = history.cloud, history.records
    if cloud is None or listed is None:
        return snapshot
    return replace(
        snapshot,
        history=replace(
            history,
            cloud=replace(cloud, items=tuple(n for n in cloud.items if n.id in node_ids)),
            records=replace(listed, items=tuple(r for r in listed.items if r.uuid in uuids)),
            partial=tuple(node for node in history.partial if node.id in node_ids),
            unpaired={k: one for k, one in history.unpaired.items() if k in node_ids},
        ),
    )


def later(snapshot: Snapshot, settings: Settings, at: float) -> Snapshot:
    """The snapshot at `at` (CLOCK_BOOTTIME), with all listings repeated up to then.

    Polls come often enough that none grows stale, and at the end come as many in quick succession
    as any rule counts. Nodes that only an incomplete listing showed are not listed.
    """
    history = snapshot.history
    cloud, records = history.cloud, history.records
    if cloud is None or records is None:
        return snapshot
    pace = max(settings.poll_stale_after / 2, TICK_S)
    final = max(settings.absent_listings, CLOCK_AGREE_POLLS) + 1
    last = at - final * 2 * TICK_S
    moment = snapshot.now
    while moment < last:
        history = _polled(history, cloud.items, records.items, moment, settings)
        moment += pace
    for number in range(final):
        moment = max(last, snapshot.now) + (number + 1) * 2 * TICK_S
        history = _polled(history, cloud.items, records.items, moment, settings)
    return replace(
        snapshot,
        now=moment,
        wall=snapshot.wall + moment - snapshot.now,
        history=history,
        demand_at=None if snapshot.demand_at is None else moment,
    )


def _polled(
    history: History,
    nodes: tuple[CloudNode, ...],
    records: tuple[Record, ...],
    at: float,
    settings: Settings,
) -> History:
    """The history after one more poll of each source; the cloud's at `at`, the records' before."""
    before = at - TICK_S
    clock = history.clock
    if clock is not None:
        reading = StoreTime(clock.now(before), before, clock.error_s)
        history = histories.store_clock_read(history, reading)
    history = histories.store_answered(history, before, settings)
    history = histories.records_listed(history, Listing(records, before, before), settings)
    history = histories.cloud_poll_started(history)
    history = histories.cloud_listed(history, Listing(nodes, at, at), settings)
    return nodes_since.pairing_seen(history, tuple(history.unpaired), at, new_records=True)
