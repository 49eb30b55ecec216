"""What successive listings, taken together, prove: absence, silence, idleness, collapse.

A history is folded over the polls, one pure step each; a replay of the same listings gives the
same history. Nothing in here decides: it measures. Mappings are never changed once in a history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nodemanager.core.model import (
    CloudNode,
    CloudState,
    Listing,
    Record,
    StoreTime,
    WorkerState,
)
from nodemanager.core.settings import (
    CLOCK_STEP_S,
    KNOWN_SET_S,
    Settings,
)
from nodemanager.core.store_clock import Future, StoreClock, first_reading


@dataclass(frozen=True, slots=True)
class Absence:
    """Since when, and in how many complete cloud listings in a row, a record had no node (C5)."""

    incarnation: str | None
    first_at: float
    last_at: float
    listings: int


@dataclass(frozen=True, slots=True)
class Heard:
    """The newest ping of a record that we saw, and `answered_s` when we first saw it (D8)."""

    incarnation: str | None
    last_ping_at: float | None
    answered_s: float


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Since when a node has been without its record, and in how many record listings (D7)."""

    since: float
    cloud_ended_at: float
    record_listings: int = 0


@dataclass(frozen=True, slots=True)
class KnownSets:
    """Sets of ids listed lately, newest last, each larger than all after it (L3)."""

    sets: tuple[tuple[float, frozenset[str]], ...] = ()

    def with_set(self, at: float, ids: frozenset[str]) -> KnownSets:
        kept = [
            (seen_at, known)
            for seen_at, known in self.sets
            if at - seen_at <= KNOWN_SET_S and len(known) > len(ids)
        ]
        return KnownSets((*kept, (at, ids)))

    def without(self, ids: Iterable[str]) -> KnownSets:
        """Without ids whose going is explained by our own actions."""
        gone = frozenset(ids)
        if not gone:
            return self
        return KnownSets(tuple((at, known - gone) for at, known in self.sets))

    def largest(self, at: float) -> frozenset[str]:
        for seen_at, known in self.sets:
            if at - seen_at <= KNOWN_SET_S:
                return known
        return frozenset()


Nodes = Listing[CloudNode]
Records = Listing[Record]


@dataclass(frozen=True)
class History:
    """All that is known from the polls so far.

    `cloud` and `records` are the newest complete listings, `base` the newest complete record
    listing that ended before `cloud` began (C6), and `pinned` the one that will be `base` when
    the cloud poll under way completes. `partial` holds nodes of incomplete listings since
    `cloud`: seen is seen (C5). `answered_s` is how long the store has answered pings (D8).
    """

    cloud: Nodes | None = None
    records: Records | None = None
    base: Records | None = None
    pinned: Records | None = None
    partial: tuple[CloudNode, ...] = ()
    bearers: Mapping[str, tuple[CloudNode, ...]] = field(default_factory=dict)
    present: Mapping[str, CloudNode] = field(default_factory=dict)
    base_index: Mapping[str, str] = field(default_factory=dict)
    absence: Mapping[str, Absence] = field(default_factory=dict)
    heard: Mapping[str, Heard] = field(default_factory=dict)
    future: Mapping[str, Future] = field(default_factory=dict)
    unpaired: Mapping[str, Unpaired] = field(default_factory=dict)
    idle: Mapping[str, int] = field(default_factory=dict)
    idle_since: Mapping[str, float] = field(default_factory=dict)
    stopped: Mapping[str, float] = field(default_factory=dict)
    turned: Mapping[str, float] = field(default_factory=dict)
    known_nodes: KnownSets = field(default_factory=KnownSets)
    known_records: KnownSets = field(default_factory=KnownSets)
    clock: StoreClock | None = None
    answered_s: float = 0.0
    last_answer_at: float | None = None


def cloud_poll_started(history: History) -> History:
    """Pin the record listing that the cloud listing now under way will be judged with (C6)."""
    return replace(history, pinned=history.records)


def cloud_listed(history: History, listing: Nodes, settings: Settings) -> History:
    """Fold a cloud listing in. An incomplete one only shows nodes, never an absence (C5)."""
    if not listing.complete:
        seen = tuple(node for node in listing.items if not node.is_absent)
        return replace(
            history,
            partial=seen,
            absence=_without_seen(history.absence, seen, _uuid_of_instance(history.records)),
        )
    pinned = history.pinned
    base = pinned if pinned is not None and pinned.ended_at < listing.started_at else history.base
    bearers, present = _index(listing.items)
    ids = frozenset(present) | {node.id for node in listing.items}
    return replace(
        history,
        cloud=listing,
        base=base,
        base_index=(
            history.base_index
            if base is history.base
            else {record.uuid: record.version for record in base.items}
            if base is not None
            else {}
        ),
        partial=(),
        bearers=bearers,
        present=present,
        absence=_absences(history, listing, bearers, present, settings),
        stopped={
            node.id: history.stopped.get(node.id, listing.started_at)
            for node in listing.items
            if node.state is CloudState.STOPPED
        },
        known_nodes=history.known_nodes.with_set(listing.started_at, ids),
    )


def records_listed(history: History, listing: Records, settings: Settings) -> History:
    """Fold a record listing in: who was heard, which stamps are not believed, idle counts."""
    if not listing.complete:
        return history
    heard: dict[str, Heard] = {}
    future: dict[str, Future] = {}
    idle_by_record: dict[str, WorkerState] = {}
    clock = history.clock
    store_now = clock.now(listing.ended_at) if clock is not None else None
    known, answered_s = history.heard, history.answered_s
    for record in listing.items:
        uuid = record.uuid
        before = known.get(uuid)
        incarnation = record.incarnation
        if (
            before is not None
            and before.last_ping_at == record.last_ping_at
            and before.incarnation == incarnation
        ):
            heard[uuid] = before
        else:
            heard[uuid] = Heard(incarnation, record.last_ping_at, answered_s)
        if record.worker_state is WorkerState.IDLE:
            idle_by_record[uuid] = WorkerState.IDLE
        ahead = history.future.get(uuid)
        if ahead is not None and ahead.version == record.version:
            future[uuid] = ahead
        elif store_now is not None and _newest_stamp(record) > store_now + CLOCK_STEP_S:
            future[uuid] = Future(record.version, listing.ended_at)
    idle = {}
    idle_since = {}
    for uuid in idle_by_record:
        for node in history.bearers.get(uuid, ()):
            idle[node.id] = history.idle.get(node.id, 0) + 1
            idle_since[node.id] = history.idle_since.get(node.id, listing.ended_at)
    return replace(
        history,
        records=listing,
        heard=heard,
        future=future,
        idle=idle,
        idle_since=idle_since,
        known_records=history.known_records.with_set(listing.started_at, frozenset(heard)),
    )


def pairing_seen(
    history: History,
    unpaired_now: Iterable[str],
    at: float,
    *,
    new_records: bool,
) -> History:
    """Fold in which of our nodes the newest listings leave without a record (D7).

    A record listing counts once when it began after the cloud listing that first showed the
    node unpaired ended; `new_records` says that the newest listing is such a new one.
    """
    cloud, records = history.cloud, history.records
    if cloud is None or records is None:
        return history
    result = {}
    for node_id in unpaired_now:
        before = history.unpaired.get(node_id)
        if before is None:
            result[node_id] = Unpaired(at, cloud.ended_at)
        elif new_records and records.started_at > before.cloud_ended_at:
            result[node_id] = replace(before, record_listings=before.record_listings + 1)
        else:
            result[node_id] = before
    return replace(history, unpaired=result)


def turned_bad(history: History, bad_now: Iterable[str], at: float, settings: Settings) -> History:
    """Fold in which nodes are silent, down or unpaired; those that recover are dropped (D9)."""
    bad = set(bad_now)
    present = history.present
    turned = {
        node_id: since
        for node_id, since in history.turned.items()
        if at - since <= settings.node_stale_after and (node_id in bad or node_id not in present)
    }
    for node_id in bad:
        turned.setdefault(node_id, history.turned.get(node_id, at))
    return replace(history, turned=turned)


def store_answered(history: History, at: float, settings: Settings) -> History:
    """Fold in that the nodes' own ping URL answered; a long gap is not counted (D8)."""
    last = history.last_answer_at
    gap = 0.0 if last is None else at - last
    counted = gap if 0.0 <= gap <= settings.poll_stale_after else 0.0
    return replace(history, answered_s=history.answered_s + counted, last_answer_at=at)


def store_clock_read(history: History, seen: StoreTime) -> History:
    """Fold in a reading of the store's clock; a jump stops cleans until polls agree (T1)."""
    clock = history.clock
    return replace(history, clock=first_reading(seen) if clock is None else clock.read(seen))


def explained(history: History, node_ids: Iterable[str]) -> History:
    """Leave nodes that we destroyed ourselves out of what a listing may lack (L3)."""
    return replace(history, known_nodes=history.known_nodes.without(node_ids))


def _newest_stamp(record: Record) -> float:
    newest = record.modified_at or 0.0
    if record.last_ping_at is not None and record.last_ping_at > newest:
        newest = record.last_ping_at
    if record.claim is not None and record.claim.at > newest:
        newest = record.claim.at
    return newest


def _index(
    nodes: Iterable[CloudNode],
) -> tuple[dict[str, tuple[CloudNode, ...]], dict[str, CloudNode]]:
    bearers: dict[str, tuple[CloudNode, ...]] = {}
    present: dict[str, CloudNode] = {}
    for node in nodes:
        if node.state is CloudState.TERMINATED:
            continue
        present[node.id] = node
        uuid = node.tags.record
        if uuid is not None:
            others = bearers.get(uuid)
            bearers[uuid] = (node,) if others is None else (*others, node)
    return bearers, present


def bears(node: CloudNode, record: Record) -> bool:
    """`node` carries the record's uuid, and its incarnation or none that we could read (C4)."""
    incarnation = node.tags.incarnation
    return node.tags.record == record.uuid and (
        incarnation is None or record.claim is None or incarnation == record.claim.incarnation
    )


def node_of(
    record: Record,
    bearers: Mapping[str, tuple[CloudNode, ...]],
    present: Mapping[str, CloudNode],
) -> CloudNode | None:
    """A listed node, not terminated, that C4 calls the record's: by tag, or by instance id."""
    for node in bearers.get(record.uuid, ()):
        if bears(node, record):
            return node
    return present.get(record.instance_id) if record.instance_id is not None else None


def _absences(
    history: History,
    listing: Nodes,
    bearers: Mapping[str, tuple[CloudNode, ...]],
    present: Mapping[str, CloudNode],
    settings: Settings,
) -> dict[str, Absence]:
    if history.records is None:
        return {}
    at = listing.started_at
    result: dict[str, Absence] = {}
    known = history.absence
    for record in history.records.items:
        uuid = record.uuid
        if not record.holds_anything:
            continue
        if (uuid in bearers or record.instance_id is not None) and node_of(
            record, bearers, present
        ) is not None:
            continue
        before = known.get(uuid)
        if (
            before is None
            or before.incarnation != record.incarnation
            or at - before.last_at > settings.poll_stale_after
        ):
            result[uuid] = Absence(record.incarnation, at, at, 1)
        else:
            result[uuid] = Absence(before.incarnation, before.first_at, at, before.listings + 1)
    return result


def _uuid_of_instance(records: Records | None) -> dict[str, str]:
    if records is None:
        return {}
    return {
        record.instance_id: record.uuid
        for record in records.items
        if record.instance_id is not None
    }


def _without_seen(
    absence: Mapping[str, Absence], seen: tuple[CloudNode, ...], by_instance: Mapping[str, str]
) -> dict[str, Absence]:
    uuids = {node.tags.record for node in seen} | {by_instance.get(node.id) for node in seen}
    return {uuid: value for uuid, value in absence.items() if uuid not in uuids}
