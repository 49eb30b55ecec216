"""The history: what successive polls prove together, such as absence, silence and idleness.

Each poll is folded in by one pure function, so that a replay of the same polls gives the same
history. This module measures and decides nothing. Mappings in a history are never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nodemanager.core.model import world
from nodemanager.core.model.changed import changed, same_items
from nodemanager.core.model.scheduling import SchedulerNode, SchedulerReport
from nodemanager.core.model.settings import CLOCK_STEP_S, Settings
from nodemanager.core.observe import clocks, listing_history, pings
from nodemanager.core.observe.nodes_by_record import (
    NodesByRecord,
    Present,
    ended_nodes,
    index_nodes,
    listed_twice,
)
from nodemanager.core.observe.pools import other_pools, uuids_of_ours


class Turned(NamedTuple):
    """A node that is silent, down or unpaired: when a plan found it so, and since when it is (D9).

    Silence begins with the last ping, although it counts from half its window on. Once a failed
    boot (`is_boot`) has ended, it belongs to no wave: boot loops count it (B5). `says_down`: it is
    heard, and says so itself.
    """

    found_at: float
    since: float
    is_boot: bool = False
    says_down: bool = False


class Launch(NamedTuple):
    """A node's launch as the cloud lists it, and since when it has: it is no later than that."""

    created_at: float | None
    since: float


@dataclass(frozen=True, slots=True)
class Unpaired:
    """How long a node has been without its record, and in how many record listings (D7).

    `since` is the time of the first plan that found it so, `cloud_ended_at` the end of that plan's
    cloud listing, `counted_at` the start of the last counted record listing: each counts once.
    `named` says that a record was listed that it does not pair with, and that only it can ping.
    """

    since: float
    cloud_ended_at: float
    record_listings: int = 0
    counted_at: float = 0.0
    named: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """The cloud's last answer to a question by id or by tag; times are CLOCK_BOOTTIME seconds.

    The answer arrived at `at`; `times` counts the answers so far. The question was sent at
    `asked_at` or later (None: not known). `nodes` are all nodes found; none means "no such node".
    `is_past` says that a complete listing has shown the id or tag since. `denied_since` is the
    first of the denials in a row, no two of them further apart than poll_stale_after, and `gap_s`
    the longest time between two (P6). `malformed` says that the id is no node's id: that is no
    denial (P1a).
    """

    at: float
    times: int
    nodes: tuple[world.CloudNode, ...]
    is_past: bool = False
    denied_since: float | None = None
    malformed: bool = False
    asked_at: float | None = None
    gap_s: float = 0.0

    @property
    def said_at(self) -> float:
        """The earliest time at which the cloud may have said it; the answer's age starts there."""
        return self.at if self.asked_at is None else self.asked_at


Nodes = world.Listing[world.CloudNode]
Records = world.Listing[world.Record]


@dataclass(frozen=True)
class History:
    """All that is known from the polls so far; times are CLOCK_BOOTTIME seconds.

    `cloud` and `records` are the newest complete listings, `base` the newest complete record
    listing that ended before `cloud` began (C6), `pinned` the newest one when the last cloud poll
    began. `partial` are the nodes in incomplete listings since `cloud`, `partially_listed` the
    versions of records in incomplete listings since `records` (C5, C6). `vetoed` are the records
    that a listing begun after `base` showed with another version, whatever later listings show
    (C6).
    `stopped` and `unwanted` say by node id since when a node has been listed as stopped, or been
    wanted by neither demand nor an operator (D12). For the nodes in `over_max`, `unwanted` is since
    when they have exceeded max_nodes. `turned` are the nodes that turned bad and are not known to
    be well since (D9). `answered_s` is how many seconds in all the store has answered pings,
    `last_answer_at` when it last did (D8).
    """

    cloud: Nodes | None = None
    records: Records | None = None
    base: Records | None = None
    pinned: Records | None = None
    partial: tuple[world.CloudNode, ...] = ()
    partially_listed: Mapping[str, str] = field(default_factory=dict)
    vetoed: Mapping[str, float] = field(default_factory=dict)
    nodes_twice: frozenset[str] = frozenset()
    records_twice: frozenset[str] = frozenset()
    nodes_by_record: NodesByRecord = field(default_factory=dict)
    present: Present = field(default_factory=dict)
    base_index: Mapping[str, str] = field(default_factory=dict)
    absence: Mapping[str, listing_history.Absence] = field(default_factory=dict)
    heard: Mapping[str, pings.Heard] = field(default_factory=dict)
    future: Mapping[str, clocks.Future] = field(default_factory=dict)
    unpaired: Mapping[str, Unpaired] = field(default_factory=dict)
    unwanted: Mapping[str, float] = field(default_factory=dict)
    over_max: frozenset[str] = frozenset()
    stopped: Mapping[str, float] = field(default_factory=dict)
    launches: Mapping[str, Launch] = field(default_factory=dict)
    """The launch of each listed node, by its id: one that is stopped and started has a new one."""
    turned: Mapping[str, Turned] = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()
    """Those of `turned` that turned bad while the cloud's listing lacked too many (L3): no plan
    could tell yet how many of all nodes they are (D9)."""
    stopped_gaps: listing_history.Gaps = ()
    """Between the cloud listings that `stopped` counts over."""
    known_nodes: listing_history.KnownSets = field(default_factory=listing_history.KnownSets)
    known_records: listing_history.KnownSets = field(default_factory=listing_history.KnownSets)
    other_pools: frozenset[str] = frozenset()
    """The other pools that any record listing of this run has named (T3)."""
    clock: clocks.MeasuredClock | None = None
    """The store's clock."""
    wall: clocks.MeasuredClock | None = None
    """Our wall clock, as the newest plan read it: launches are compared with it."""
    answered_s: float = 0.0
    last_answer_at: float | None = None
    answer_gaps: listing_history.Gaps = ()
    """Between the answers that `answered_s` counts."""
    freed: Mapping[str, world.FreedLife] = field(default_factory=dict)
    """The newest lives that we freed within FREED_KEPT_S, by their key (U8)."""
    eligible: Mapping[str, float] = field(default_factory=dict)
    """Since when each record, by `rate_limits.name_of`, has been eligible to be freed (B1)."""
    asked: Mapping[str, Asked] = field(default_factory=dict)
    """The cloud's last answers: by node id, or by record uuid if asked by tag (P6, U8)."""
    ended_lives: frozenset[str] = frozenset()
    """The lives, by their keys, whose node has ended for certain, while they hold their record."""
    scheduler: world.Listing[SchedulerNode] | None = None
    """The newest complete listing of a scheduler, where one is configured (T6)."""
    scheduled: Mapping[str, SchedulerReport] = field(default_factory=dict)
    """What it says of each node, by hostname."""
    known_scheduled: listing_history.KnownSets = field(default_factory=listing_history.KnownSets)
    hostnames: pings.Hostnames = field(default_factory=dict)
    """Where there is a scheduler: the hostname of each life, as long as its node lives (D7)."""
    unjoined: Mapping[str, float] = field(default_factory=dict)
    """The lives, by their keys, that ping and wait to be called up, and since when each answer of
    the scheduler in a row, no two of them further apart than poll_stale_after, said no (D17)."""
    image: str | None = None
    """The immutable id of the image that a node would be booted from now; None: not known."""

    @property
    def twice(self) -> frozenset[str]:
        """Ids that one of the newest complete listings has more than once (L4)."""
        return self.nodes_twice | self.records_twice

    @property
    def listed_records(self) -> tuple[world.Record, ...]:
        """The records of the newest complete listing; none before the first."""
        return _items(self.records)

    @property
    def ended(self) -> Mapping[str, world.CloudNode]:
        """By id, the nodes that the newest complete cloud listing shows as ended, and only so."""
        return {} if self.cloud is None else ended_nodes(self.cloud.items, self.present)


def cloud_poll_started(history: History) -> History:
    """Pin the newest record listing, for the cloud listing that begins now (C6)."""
    return changed(history, pinned=history.records)


def cloud_listed(history: History, listing: Nodes, settings: Settings) -> History:
    """Fold a cloud listing in. An incomplete one only shows nodes, never an absence (C5).

    Nor does a late or repeated one, which did not begin after the newest complete one.
    """
    newest = history.cloud
    if not listing.complete or (newest is not None and listing.started_at <= newest.started_at):
        return _nodes_partially_listed(history, listing)
    base = _base(history, listing)
    if newest is not None and same_items(newest.items, listing.items):
        nodes_by_record, present = history.nodes_by_record, history.present
    else:
        nodes_by_record, present = index_nodes(listing.items)
    gap = 0.0 if newest is None else listing.started_at - newest.started_at
    stopped = world.CloudState.STOPPED
    stopped_before = history.stopped if gap <= settings.poll_stale_after else {}
    # A node listed as terminated is known to be gone, and may leave the list (L3).
    known = history.known_nodes.without(ended_nodes(listing.items, present).keys())
    return changed(
        history,
        cloud=listing,
        base=base,
        vetoed=_still_vetoed(history, base),
        base_index=history.base_index if base is history.base else _versions(base),
        partial=(),
        nodes_twice=listed_twice(listing.items, present),
        nodes_by_record=nodes_by_record,
        present=present,
        absence=listing_history.absences(
            history.absence,
            history.listed_records,
            listing.started_at,
            nodes_by_record,
            present,
            settings,
            before=history.nodes_by_record,
        ),
        stopped={
            node.id: stopped_before.get(node.id, listing.started_at)
            for node in present.values()
            if node.state is stopped
        },
        stopped_gaps=listing_history.with_gap(history.stopped_gaps, listing.started_at, gap),
        launches=_launches(history, present, listing.ended_at),
        known_nodes=known.with_set(
            listing.started_at, _ours(history, present, settings), settings.action_timeout
        ),
        asked={
            key: replace(one, is_past=True, denied_since=None)
            if key in present or key in nodes_by_record
            else one
            for key, one in history.asked.items()
        },
    )


def _launches(history: History, present: Present, at: float) -> Mapping[str, Launch]:
    """Since when each node has been listed with the launch that it has."""
    if present is history.present:
        return history.launches
    before = history.launches
    launches: dict[str, Launch] = {}
    for node_id, node in present.items():
        known = before.get(node_id)
        if known is None or known.created_at != node.created_at:
            known = Launch(node.created_at, at)
        launches[node_id] = known
    return launches


def _nodes_partially_listed(history: History, listing: Nodes) -> History:
    if history.cloud is not None and listing.ended_at <= history.cloud.started_at:
        return history
    seen = tuple(sorted((node for node in listing.items if not node.is_absent), key=repr))
    partial = {(node.id, node.tags): node for node in (*history.partial, *seen)}
    return changed(
        history,
        partial=tuple(sorted(partial.values(), key=repr)),
        absence=listing_history.without_seen(history.absence, seen, history.listed_records),
    )


def partially_listed_as(
    history: History, uuid: str, node_id: str | None
) -> tuple[world.CloudNode, ...]:
    """The nodes with that tag or id in incomplete listings since the newest complete one."""
    return tuple(one for one in history.partial if one.tags.record == uuid or one.id == node_id)


def _base(history: History, listing: Nodes) -> Records | None:
    """The newest complete record listing that ended before the cloud listing began (C6)."""
    before = [
        one
        for one in (history.base, history.pinned, history.records)
        if one is not None and one.ended_at < listing.started_at
    ]
    return max(before, key=lambda one: one.ended_at, default=None)


def _ours(history: History, present: Present, settings: Settings) -> frozenset[str]:
    """The ids of the pool's nodes: tagged, or untagged but named by one of its records (L3a)."""
    pool = settings.pool
    ours = frozenset([one for one, node in present.items() if node.tags.pool == pool])
    if len(ours) == len(present) or history.records is None:
        return ours
    untagged = {one for one, node in present.items() if node.tags.pool is None}
    if not untagged:
        return ours
    records = history.records.items
    uuids = uuids_of_ours(records, history.other_pools, settings)
    named = {record.instance_id for record in records if record.uuid in uuids}
    return ours | (untagged & named)


def _versions(records: Records | None) -> dict[str, str]:
    return {record.uuid: record.version for record in _items(records)}


def _items(records: Records | None) -> tuple[world.Record, ...]:
    return () if records is None else records.items


def records_listed(history: History, listing: Records, settings: Settings) -> History:
    """Fold a record listing in: pings heard, stamps from the future, idle counts, vetoes.

    Of an incomplete listing only versions and newer pings count. One that did not begin after the
    newest complete one is ignored. While a fence locks a node out, its silence is not counted (D8).
    """
    newest = history.records
    if newest is not None and listing.started_at <= newest.started_at:
        return history
    others = other_pools(listing.items, settings)
    if not others <= history.other_pools:
        history = changed(history, other_pools=history.other_pools | others)
    if not listing.complete:
        return _records_partially_listed(history, listing, settings)
    # A set is a cheap test for duplicates. To find which they are is slower, and rarely needed.
    uuids = frozenset([record.uuid for record in listing.items])
    twice = _records_twice(listing) if len(uuids) < len(listing.items) else frozenset()
    if twice:
        listing = _in_order(listing)
    if history.clock is not None:
        clock = clocks.after_stamps(history.clock, listing, is_first=newest is None)
        history = history if clock is history.clock else changed(history, clock=clock)
    heard = _all_heard(history, listing, settings)
    future = _futures(history, listing)
    vetoed = _vetoed(history, listing)
    hostnames = history.hostnames
    if settings.scheduled:
        hostnames = pings.hostnames_seen(
            hostnames,
            listing.items,
            history.nodes_by_record,
            listing.ended_at,
            history.clock,
            settings,
        )
    if history.cloud is not None and listing.ended_at < history.cloud.started_at:
        # This listing ended before the newest cloud listing began, but reached us after it.
        history = changed(history, base=listing, base_index=_versions(listing))
        vetoed = {}
    return changed(
        history,
        records=listing,
        records_twice=twice,
        partially_listed={},
        vetoed=vetoed,
        heard=heard,
        future=future,
        hostnames=hostnames,
        known_records=history.known_records.with_set(
            listing.started_at, uuids_of_ours(listing.items, history.other_pools, settings)
        ),
    )


def _all_heard(history: History, listing: Records, settings: Settings) -> dict[str, pings.Heard]:
    """Each record's newest ping and its idle count, by uuid, once `listing` is folded in."""
    heard: dict[str, pings.Heard] = {}
    known = history.heard
    answered_s = _answered_by(history, listing.ended_at, settings)
    answers = _answers(history, listing)
    for record in listing.items:
        uuid, claim = record.uuid, record.claim
        incarnation = None if claim is None else claim.incarnation
        before = known.get(uuid)
        if (
            before is not None
            and before.last_ping_at == record.last_ping_at
            and before.incarnation == incarnation
            and not record.fenced
            and (record.last_ping_at is not None or not pings.is_renewed(before, claim))
        ):
            # The same ping is not counted twice; a failed probe resets the idle count (D12).
            same = answers or not before.idle
            heard[uuid] = before if same else replace(before, idle=0, idle_since=None)
        else:
            at = listing.ended_at
            heard[uuid] = pings.heard_again(
                before, record, answered_s, at, history.clock, answers=answers
            )
    return heard


def _futures(history: History, listing: Records) -> dict[str, clocks.Future]:
    """The versions whose stamp was in the future when first seen (T1)."""
    future: dict[str, clocks.Future] = {}
    clock, before = history.clock, history.future
    too_new = None if clock is None else clock.now(listing.ended_at) + CLOCK_STEP_S
    if too_new is None and not before:
        return future
    for record in listing.items:
        stamp = newest_stamp(record)
        seen = before.get(record.uuid) if before else None
        if seen is not None and seen.version == record.version and seen.stamp == stamp:
            future[record.uuid] = seen
        elif too_new is not None and stamp > too_new:
            future[record.uuid] = clocks.Future(record.version, listing.ended_at, stamp)
    return future


def _answers(history: History, listing: Records) -> bool:
    """Whether the nodes' own ping URL answered the probe sent with this listing (D8)."""
    return history.last_answer_at is not None and history.last_answer_at >= listing.ended_at


def _vetoed(history: History, listing: Records) -> Mapping[str, float]:
    """The vetoes, plus the records that the previous listing lacked or showed in another version.

    That is, not as `base` shows them: the previous one may be what the next cloud listing is to be
    judged on. Incomplete listings since count, too, but lack nothing. `listing` may be late and
    show the old version (C6).
    """
    base, newest = history.base, history.records
    if base is None or newest is None or (newest is base and not history.partially_listed):
        return history.vetoed
    known = history.base_index
    vetoed = dict(history.vetoed)
    if newest is not base:
        for record in newest.items:
            if known.get(record.uuid, record.version) != record.version:
                vetoed[record.uuid] = newest.started_at
        lacking = known.keys() - [record.uuid for record in newest.items]
        vetoed |= dict.fromkeys(lacking, newest.started_at)
    for uuid, version in history.partially_listed.items():
        if known.get(uuid, version) != version:
            vetoed[uuid] = listing.started_at
    return vetoed


def _still_vetoed(history: History, base: Records | None) -> Mapping[str, float]:
    """The vetoes without those of listings that did not begin after `base`."""
    if not history.vetoed or base is None or base is history.base:
        return history.vetoed
    return {uuid: at for uuid, at in history.vetoed.items() if at > base.started_at}


def _records_twice(listing: Records) -> frozenset[str]:
    counts = Counter(record.uuid for record in listing.items)
    return frozenset(uuid for uuid, count in counts.items() if count > 1)


def _in_order(listing: Records) -> Records:
    """The listing sorted, so that the order of a record listed twice does not matter (L4)."""
    return replace(listing, items=tuple(sorted(listing.items, key=repr)))


def freed_since_listed(history: History) -> frozenset[str]:
    """The records that we freed after the newest record listing began, so that it may show them
    full."""
    shown = history.records.started_at if history.records is not None else float("-inf")
    return frozenset(one.record for one in history.freed.values() if one.freed_at >= shown)


def _records_partially_listed(history: History, listing: Records, settings: Settings) -> History:
    """Fold in an incomplete listing: other versions veto, newer pings end a silence (C6, D8)."""
    answered_s = _answered_by(history, listing.ended_at, settings)
    heard = dict(history.heard)
    versions: dict[str, str] = {}
    answers = _answers(history, listing)
    for record in _in_order(listing).items:
        seen = versions.get(record.uuid)
        # If a record shows two versions, at least one is not the judged one: that vetoes, too.
        versions[record.uuid] = record.version if seen in (None, record.version) else ""
        before = heard.get(record.uuid)
        if before is not None and before.last_ping_at != record.last_ping_at:
            heard[record.uuid] = pings.heard_again(
                before, record, answered_s, listing.ended_at, history.clock, answers=answers
            )
    return changed(history, partially_listed={**history.partially_listed, **versions}, heard=heard)


def _answered_by(history: History, at: float, settings: Settings) -> float:
    """The most that `answered_s` may be at time `at`, so that no silence counts too long (D8)."""
    last = history.last_answer_at
    gap = 0.0 if last is None else at - last
    return history.answered_s + (gap if 0.0 < gap <= settings.poll_stale_after else 0.0)


def store_answered(history: History, at: float, settings: Settings) -> History:
    """Fold in that the nodes' ping URL answered; gaps above poll_stale_after do not count (D8)."""
    last = history.last_answer_at
    gap = 0.0 if last is None else at - last
    counted = gap if 0.0 <= gap <= settings.poll_stale_after else 0.0
    answered_s = history.answered_s + counted
    gaps = listing_history.with_gap(history.answer_gaps, answered_s, counted)
    return changed(history, answered_s=answered_s, last_answer_at=at, answer_gaps=gaps)


def settings_taken(history: History, settings: Settings) -> History:
    """Check the gaps in what was counted against a new poll_stale_after (C5, P6, D1, D8, S6).

    If a gap is too long now, the count starts again. An absence and denials then count from the
    newest one, a silence and a stopped node from where the newest such gap ended.
    """
    limit_s = settings.poll_stale_after
    answered_s = listing_history.newest_above(history.answer_gaps, limit_s)
    stopped_at = listing_history.newest_above(history.stopped_gaps, limit_s)
    return changed(
        history,
        absence={
            uuid: one.again(one.last_at) if one.gap_s > limit_s else one
            for uuid, one in history.absence.items()
        },
        asked={
            key: replace(one, denied_since=one.at, gap_s=0.0)
            if one.denied_since is not None and one.gap_s > limit_s
            else one
            for key, one in history.asked.items()
        },
        heard={
            uuid: replace(one, answered_s=answered_s) if one.answered_s < answered_s else one
            for uuid, one in history.heard.items()
        },
        stopped={node_id: max(at, stopped_at) for node_id, at in history.stopped.items()},
    )


def store_clock_read(history: History, seen: world.StoreTime) -> History:
    """Fold in a reading of the store's clock; a jump stops cleans until polls agree (T1)."""
    clock = history.clock
    return changed(history, clock=clocks.first_reading(seen) if clock is None else clock.read(seen))


def clocks_kept(history: History, kept: clocks.Clocks) -> History:
    """Fold in the clocks of an earlier run, so that a jump since is noticed (T1, R4)."""
    store, wall = history.clock, history.wall
    if store is not None and kept.store is not None:
        store = clocks.joined(kept.store, store)
    return changed(
        history,
        clock=kept.store if store is None else store,
        wall=kept.wall if wall is None else clocks.joined(kept.wall, wall),
    )


def hostnames_kept(history: History, kept: pings.Hostnames) -> History:
    """Fold in the hostnames that an earlier run knew (D7, R4)."""
    return changed(history, hostnames=pings.hostnames_joined(kept, history.hostnames))


def destroy_sent(history: History, node_id: str, at: float, *, refused: bool) -> History:
    """Note that we sent a destroy, or may have: a listing may lack the node (L3).

    A destroy that the cloud definitely refused explains nothing.
    """
    known = history.known_nodes
    known = known.without_destroy(node_id) if refused else known.with_destroy(node_id, at)
    return changed(history, known_nodes=known)


def explained(history: History, node_ids: Iterable[str]) -> History:
    """Note that we destroyed these nodes: a listing may lack them (L3).

    The cloud's earlier answers about them are dropped.
    """
    gone = frozenset(node_ids)
    asked = {
        key: one
        for key, one in history.asked.items()
        if key not in gone and not any(node.id in gone for node in one.nodes)
    }
    return changed(history, known_nodes=history.known_nodes.without(gone), asked=asked)


def records_explained(history: History, uuids: Iterable[str]) -> History:
    """Note that we deleted these records: a listing may lack them (L3)."""
    return changed(history, known_records=history.known_records.without(uuids))


def newest_stamp(record: world.Record) -> float:
    """The newest stamp of a record (modified_at, ping, claim), epoch seconds; 0 without any."""
    newest = record.modified_at or 0.0
    if record.last_ping_at is not None and record.last_ping_at > newest:
        newest = record.last_ping_at
    if record.claim is not None and record.claim.at > newest:
        newest = record.claim.at
    return newest
