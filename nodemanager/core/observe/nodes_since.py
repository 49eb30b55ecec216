"""Since when each node has been unpaired, bad, or wanted by nobody, as successive plans find it.

Each plan folds in what it found, where `history` folds in what the polls bring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from nodemanager.core.model.changed import changed
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode
from nodemanager.core.observe.history import History, Turned, Unpaired
from nodemanager.core.observe.nodes_by_record import only_it_pings


def pairing_seen(
    history: History,
    unpaired_now: Collection[str],
    at: float,
    *,
    new_records: bool,
) -> History:
    """Fold in that the newest listings leave the nodes `unpaired_now` without a record (D7).

    A record listing counts once, if it began after the end of the cloud listing that first showed
    the node unpaired; `new_records` says that one arrived since the last plan. The count starts
    again when the record that named the node is no longer listed: from then on it is that record
    which a listing lacks, and a short listing must not end the node at once (D10).
    """
    cloud, records = history.cloud, history.records
    if cloud is None or records is None:
        return history
    named = _named(history, unpaired_now)
    result = {}
    for node_id in unpaired_now:
        before = history.unpaired.get(node_id)
        if before is None or (before.named and node_id not in named):
            result[node_id] = Unpaired(at, cloud.ended_at, named=node_id in named)
        elif new_records and records.started_at > max(before.cloud_ended_at, before.counted_at):
            result[node_id] = replace(
                before,
                record_listings=before.record_listings + 1,
                counted_at=records.started_at,
                named=node_id in named,
            )
        else:
            result[node_id] = before
    return history if result == history.unpaired else changed(history, unpaired=result)


def still_unpaired(history: History, unpaired_now: Collection[str]) -> History:
    """Fold in listings that are not believed: what they show can only start a count again."""
    named = _named(history, unpaired_now)
    still = {
        node_id: replace(before, named=before.named or node_id in named)
        for node_id, before in history.unpaired.items()
        if node_id in unpaired_now
    }
    return changed(history, unpaired=still)


def _named(history: History, node_ids: Collection[str]) -> set[str]:
    """Those of the listed nodes that a listed record names, so that only they can ping it."""
    if not node_ids or history.records is None:
        return set()
    nodes = {one: history.present[one] for one in node_ids if one in history.present}
    known: dict[str | None, list[CloudNode]] = {one: [node] for one, node in nodes.items()}
    for node in nodes.values():
        known.setdefault(node.tags.record, []).append(node)
    return {
        node.id
        for record in history.records.items
        for node in known.get(record.instance_id or record.uuid, ())
        if only_it_pings(node, record)
    }


def turned_bad(
    history: History,
    bad_now: Mapping[str, float],
    at: float,
    settings: Settings,
    unlisted: AbstractSet[str] = frozenset(),
    *,
    well: AbstractSet[str] = frozenset(),
    leaving: AbstractSet[str] = frozenset(),
    boots: AbstractSet[str] = frozenset(),
    down: AbstractSet[str] = frozenset(),
    collapsed: bool = False,
) -> History:
    """Fold in which nodes are bad now, and since when: silent, down or unpaired (D9).

    Those of `boots` never joined their scheduler. Such a one counts for as long as it is listed.
    Those of `down` say so themselves: a silent node that is heard again, and says that, turns anew.
    A node that is `well` again is dropped. One that is listed, and neither bad nor well, stays: a
    jump of a clock, for one, gives it its boot grace again, and it is as ill as before (T1). One
    that left the listing after it turned bad, destroyed by us or not, stays for a window and until
    who turned bad by its end is found so; and while an action of ours on it is under way
    (`leaving`).
    A bad node that no listing shows (`unlisted`) is found anew in every plan, because the listing
    that shows it again may show others that fell silent with it. While the listing has `collapsed`
    it lacks most nodes: those that turn bad meanwhile are kept to be counted again after it, and
    until then nobody is dropped who has left, because they may be of one wave.
    """
    is_counting = bool(history.uncounted)
    window = settings.node_stale_after
    kept_s = window + max(window, settings.boot_fail_after)
    turned = {
        node_id: one
        for node_id, one in history.turned.items()
        if node_id in bad_now
        or (
            node_id not in well
            if node_id in history.present
            else not one.is_boot
            and (is_counting or node_id in leaving or at - one.found_at <= kept_s)
        )
    }
    for node_id, since in bad_now.items():
        before, says_down = turned.get(node_id), node_id in down
        if before is None or (says_down and not before.says_down):
            turned[node_id] = Turned(at, since, node_id in boots, says_down)
        elif node_id in unlisted:
            turned[node_id] = Turned(at, before.since)
    uncounted: frozenset[str] = frozenset()
    if collapsed:
        uncounted = (history.uncounted & turned.keys()) | (turned.keys() - history.turned.keys())
    if turned == history.turned and uncounted == history.uncounted:
        return history
    return changed(history, turned=turned, uncounted=uncounted)


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
