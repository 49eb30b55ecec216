"""Since when each node has been unpaired, bad, or wanted by nobody, as successive plans find it.

Each plan folds in what it found, where `history` folds in what the polls bring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import Settings
from nodemanager.core.observe.history import History, Turned, Unpaired


def pairing_seen(
    history: History,
    unpaired_now: Iterable[str],
    at: float,
    *,
    new_records: bool,
) -> History:
    """Fold in that the newest listings leave the nodes `unpaired_now` without a record (D7).

    A record listing counts once, if it began after the end of the cloud listing that first showed
    the node unpaired; `new_records` says that one arrived since the last plan.
    """
    cloud, records = history.cloud, history.records
    if cloud is None or records is None:
        return history
    result = {}
    for node_id in unpaired_now:
        before = history.unpaired.get(node_id)
        if before is None:
            result[node_id] = Unpaired(at, cloud.ended_at)
        elif new_records and records.started_at > max(before.cloud_ended_at, before.counted_at):
            result[node_id] = replace(
                before,
                record_listings=before.record_listings + 1,
                counted_at=records.started_at,
            )
        else:
            result[node_id] = before
    return history if result == history.unpaired else changed(history, unpaired=result)


def turned_bad(
    history: History,
    bad_now: Mapping[str, float],
    at: float,
    settings: Settings,
    unlisted: AbstractSet[str] = frozenset(),
) -> History:
    """Fold in which nodes are bad now, and since when: silent, down or unpaired (D9).

    A node that recovers is dropped. One that left the listing after it turned bad, destroyed by us
    or not, stays for node_stale_after. A bad node that no listing shows (`unlisted`) is found anew
    in every plan, because the listing that shows it again may show others that fell silent with it.
    """
    turned = {
        node_id: one
        for node_id, one in history.turned.items()
        if node_id in bad_now
        or (node_id not in history.present and at - one.found_at <= settings.node_stale_after)
    }
    for node_id, since in bad_now.items():
        before = turned.get(node_id)
        if before is None:
            turned[node_id] = Turned(at, since)
        elif node_id in unlisted:
            turned[node_id] = Turned(at, before.since)
    return history if turned == history.turned else changed(history, turned=turned)


def unwanted_seen(
    history: History, unwanted_now: Iterable[str], over_max: frozenset[str], at: float
) -> History:
    """Fold in the nodes that nobody wants in the plan made at `at` (D12).

    A node that was wanted in between starts anew. So does one that leaves `over_max`: demand wanted
    it, and it may run the very job that has left the demand.
    """
    since = {
        node_id: at if node_id in history.over_max - over_max else history.unwanted.get(node_id, at)
        for node_id in unwanted_now
    }
    if since == history.unwanted and over_max == history.over_max:
        return history
    return changed(history, unwanted=since, over_max=over_max)
