"""Which nodes there are or will be, and what they cost.

It counts pending claims (U6), records under U2's lock, and unlisted nodes that may live.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from nodemanager.core.judge.node_view import OUTSIDE, SET_ASIDE, NodeView
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.scheduling import SchedulerReport
from nodemanager.core.model.settings import CLOCK_STEP_S, Settings
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.model.world import Record, Size, WorkerState, life_key
from nodemanager.core.observe.history import History
from nodemanager.core.observe.nodes_by_record import NodesByRecord, node_of
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.pools import is_ours_to_claim
from nodemanager.core.observe.scheduled import report_on
from nodemanager.core.observe.signs import pinged_lives, quiet_for, waits_for_first_ping
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.observe.unlisted import Unlisted, heard_ago, id_of, is_missed, is_spent
from nodemanager.core.plan.packing import Filling, usable_ram

SPARE = frozenset({Reason.BOOTING, Reason.UNPAIRED_WITHIN_WINDOW})
"""Kept nodes that will take work soon, as far as is known."""
FILLING_S = 60.0
"""A scheduler still fills a node for so long after it gave it its first job.

Slurm gives out the tasks of an array in several passes, by default 30 s or 60 s apart.
"""


def pending_claims(
    records: Iterable[Record],
    snapshot: Snapshot,
    settings: Settings,
    pairs: Pairs,
    unlisted: Unlisted,
) -> set[str]:
    """The uuids of records that stand for future nodes (U6, P4).

    Either the record is claimed for a node that was neither listed nor heard yet, and that may
    still come (it has not ended in its set-up, and the cloud has not denied it for good); or its
    node was heard, is not listed, and its absence is not settled. A listing
    that lacks such a node may be short, so another node beside it would be one too many. The second
    also applies to a node that was created just now, once it was heard.
    """
    history = snapshot.history
    # Most records have a listed node, so they are not pending: one pass leaves them out.
    nodes_by_record, records = (
        history.nodes_by_record,
        _without_listed_node(records, history, pairs),
    )
    # Without a clock nobody can tell when it was heard.
    is_told = snapshot.expected and history.clock is not None
    heard = pinged_lives(records, snapshot.expected, history) if is_told else ()
    ended = history.ended_lives
    pending = {
        uuid
        for uuid, expected in snapshot.expected.items()
        if expected.node_id not in history.present
        and life_key(uuid, expected.incarnation) not in ended
        and (uuid, expected.incarnation) not in heard
        and not _is_borne(uuid, expected.incarnation, nodes_by_record)
        and snapshot.now - expected.since <= settings.boot_fail_after
    }
    pending.update(
        uuid
        for uuid, flight in snapshot.record_flights.items()
        if flight.kind == "setup" and not _is_borne(uuid, flight.incarnation, nodes_by_record)
    )
    pending.update(
        record.uuid
        for record in records
        if _is_unpinged_claim(record, settings)
        and not _comes_to_nothing(record, snapshot, settings)
    )
    if records:
        pending.update(unlisted_nodes(records, snapshot, settings, unlisted))
    return pending


def _without_listed_node(records: Iterable[Record], history: History, pairs: Pairs) -> list[Record]:
    nodes_by_record, present, paired = history.nodes_by_record, history.present, pairs.node_of
    return [
        record
        for record in records
        if record.uuid not in paired and node_of(record, nodes_by_record, present) is None
    ]


def count_out_of_sight(
    snapshot: Snapshot,
    settings: Settings,
    pairs: Pairs,
    unlisted: Unlisted,
    counted: Collection[str],
) -> int:
    """How many nodes but the `counted` were heard lately and may be alive, and no listing shows."""
    records = [
        record
        for record in _without_listed_node(snapshot.history.listed_records, snapshot.history, pairs)
        if id_of(record, snapshot) not in counted
    ]
    return sum(1 for _ in unlisted_nodes(records, snapshot, settings, unlisted))


def _is_borne(uuid: str, incarnation: str | None, nodes_by_record: NodesByRecord) -> bool:
    """Whether a listed node may be of this life of the record, by its tags."""
    lives = (node.tags.incarnation for node in nodes_by_record.get(uuid, ()))
    return any(incarnation is None or life in (None, incarnation) for life in lives)


def _comes_to_nothing(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether it is known that no node will come of the unpinged claim any more (U9)."""
    key = life_key(record.uuid, record.incarnation)
    return key in snapshot.history.ended_lives or is_spent(record, snapshot, settings)


def other_claims(
    records: Iterable[Record], pending: set[str], snapshot: Snapshot, settings: Settings
) -> Counter[bool]:
    """How many unpinged claims are not pending, by whether a node of them may be there (U6).

    Either its node is listed, and counts against max_nodes itself until it is gone; or no node will
    come of the claim any more (False), though it holds its slot until it is cleaned (C21). One
    whose node has ended is no failed create, and is not counted: boot loops keep those few (B5).
    """
    ended = snapshot.history.ended_lives
    return Counter(
        not is_spent(record, snapshot, settings)
        for record in records
        if _is_unpinged_claim(record, settings)
        and record.uuid not in pending
        and life_key(record.uuid, record.incarnation) not in ended
    )


def denied_creates(pending: set[str], snapshot: Snapshot) -> frozenset[str]:
    """The pending records whose create got no clear answer, and whose node the cloud denied (U9).

    The node may still come (A2), so it counts for max_nodes; but it serves no demand.
    """
    expected = snapshot.expected
    return frozenset(
        uuid
        for uuid in pending
        if uuid in expected and expected[uuid].node_id is None and expected[uuid].is_denied
    )


def _is_unpinged_claim(record: Record, settings: Settings) -> bool:
    claim = record.claim
    return claim is not None and waits_for_first_ping(record) and claim.pool == settings.pool


def unlisted_nodes(
    records: Iterable[Record], snapshot: Snapshot, settings: Settings, unlisted: Unlisted
) -> Iterator[str]:
    """Uuids of records whose unlisted node was heard lately and may still be alive (C5, P6).

    `records` are those whose own node no listing shows. The cloud's answer for the node by id or
    tag decides first: the node counts if the cloud has it, and does not if the cloud denied it
    after its last ping. Otherwise it counts until its absence is settled (`is_missed`), the cloud
    lists it as terminated, or the newest record listing shows it silent for longer than
    poll_stale_after.
    """
    history, clock = snapshot.history, snapshot.history.clock
    assert history.records is not None
    for record in _not_ended(records, snapshot):
        stamp = record.last_ping_at
        if stamp is None or record.pool != settings.pool or clock is None:
            continue
        heard_s = heard_ago(record, stamp, clock, history, snapshot.now)
        asked = unlisted.verdicts.get(record.uuid)
        if asked is not None:
            if asked.reason is not Reason.PINGING_UNLISTED:
                yield record.uuid
                continue
            if heard_s > (asked.measures or {})["age_s"]:
                continue
        # The listing says nothing of the time since: a node that it shows as heard may be alive.
        records_at = history.records.started_at
        silent_then = heard_ago(record, stamp, clock, history, records_at)
        if silent_then > settings.poll_stale_after:
            continue
        if not is_missed(record, snapshot, settings):
            yield record.uuid


def _not_ended(records: Iterable[Record], snapshot: Snapshot) -> Iterator[Record]:
    """The records whose node the cloud neither lists as terminated nor has called gone."""
    ended = snapshot.history.ended
    ended_lives = {
        (node.tags.record, node.tags.incarnation)
        for node in ended.values()
        if node.tags.record is not None
    }
    for record in records:
        if record.instance_id in ended or record.instance_id in snapshot.gone:
            continue
        # If a ping or the create's answer told the node's id, an ended node with its tags may be
        # another one.
        node_id = id_of(record, snapshot)
        is_ended = node_id is None or node_id in ended
        if is_ended and (record.uuid, record.incarnation) in ended_lives:
            continue
        yield record


def _leaving(snapshot: Snapshot) -> set[str]:
    """Uuids of records whose node we destroy and no listing shows: it may still live (D3)."""
    return {
        uuid
        for uuid, flight in snapshot.record_flights.items()
        if flight.kind.startswith("shutdown") and uuid not in snapshot.history.nodes_by_record
    }


def held_records(snapshot: Snapshot) -> frozenset[str]:
    """Uuids of records that a hold keeps from being claimed (C9).

    A freed record whose former node is on hold is one: claimed, its life could be given back no
    more (U8).
    """
    holds = snapshot.holds
    if not holds:
        return holds
    lives = snapshot.history.freed.values()
    return holds | {life.record for life in lives if life.node_id in holds}


def is_locked(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether a cleaned record may not be reused yet, because the store can't compare (U2).

    A record that we cleaned is free at once, unless another write of ours may still take effect
    (C12). A stamp in the future counts from when we first saw it; otherwise the lock would last
    longer by as much as the store's clock was set back (T1).
    """
    if settings.compare_and_set:
        return False
    late = snapshot.late.get(record.uuid)
    if late is not None and snapshot.now - late.at <= settings.node_stale_after:
        return True
    if record.uuid in snapshot.own_cleans:
        return False
    quiet_s = quiet_for(record, snapshot)
    return quiet_s is None or not quiet_s > settings.node_stale_after


def count_locked(records: Iterable[Record], snapshot: Snapshot, settings: Settings) -> int:
    """How many cleaned records of ours are locked (U2); they count like unpinged claims (U6)."""
    if settings.compare_and_set:
        return 0
    return sum(
        not record.holds_anything
        and is_ours_to_claim(record, settings)
        and record.uuid not in snapshot.record_flights
        and is_locked(record, snapshot, settings)
        for record in records
    )


def _is_planned(word: SchedulerReport) -> bool:
    """Whether the scheduler keeps the node for a job that waits for other nodes, too."""
    return word.node.planned and not word.node.draining


class Supply:
    """The nodes of one snapshot and the future ones, by size, and the price of them all."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        views: Sequence[NodeView],
        pairs: Pairs,
        unlisted: Unlisted,
    ) -> None:
        self.records = snapshot.history.listed_records
        pending = pending_claims(self.records, snapshot, settings, pairs, unlisted)
        self.snapshot = snapshot
        self._settings = settings
        self.locked = count_locked(self.records, snapshot, settings)
        others = other_claims(self.records, pending, snapshot, settings)
        self.locked += others[True]
        self.spent = others[False]
        """Unpinged claims that no node will come for, though none is known to have ended."""
        self.sizes = Sizes(settings.sizes)
        self.views = views
        self.spare: defaultdict[str, int] = defaultdict(int)
        self.just_busy: defaultdict[str, int] = defaultdict(int)
        self.coming: defaultdict[str, int] = defaultdict(int)
        self.aside: Counter[str] = Counter()
        """The nodes that the scheduler sets aside: they satisfy min_nodes and spare_nodes (D16)."""
        self.hosts: defaultdict[str, list[str | None]] = defaultdict(list)
        """The hostnames, where known, of all these nodes: what serves the queue."""
        self.filling: list[Filling] = []
        """The nodes that turned busy lately, with the room that the scheduler sees on them."""
        self.pending_records = pending
        self.pending = len(pending) + len(snapshot.boots_unclaimed)
        self.existing = self.pending + len(_leaving(snapshot) - pending)
        self.untagged = unlisted.untagged & pending
        """The pending records whose node lost our tags. Such a node serves no demand, because it
        can't pair, and nothing drains or destroys it (D11)."""
        self.denied = denied_creates(pending, snapshot)
        self.unserving = self.untagged | self.denied
        self.up = 0
        self.staying = 0
        """How many of the existing nodes are listed and not being shut down."""
        self.price = 0.0
        self.fixed_price = 0.0
        self.prices_to_be: list[tuple[float, str]] = []
        """The price and the size's name of each future node."""
        self._count_views()
        for hosts in self.hosts.values():
            hosts.sort(key=lambda host: host or "")
        self._count_pending()

    def _count_views(self) -> None:
        priced, idle = self.sizes.priced, WorkerState.IDLE
        leaving, untagged = Reason.SHUTTING_DOWN, Reason.UNTAGGED
        scheduled = self._settings.scheduled
        for view in self.views:
            reason = view.beneath or view.verdict.reason
            if reason in OUTSIDE:
                continue
            size, view.size, price = priced(view.node, view.record)
            self.existing += 1
            self.price += price
            if reason is untagged:
                self.fixed_price += price
            if reason is not leaving:
                self.staying += 1
            if not view.counts:
                continue
            self.up += 1
            if size is None:
                continue
            if reason in SET_ASIDE:
                self.aside[size.name] += 1
                continue
            word = self._word_on(view) if scheduled and view.state is not idle else None
            if view.state is idle or reason in SPARE or (word is not None and _is_planned(word)):
                self.spare[size.name] += 1
            elif self._turned_busy(view, word):
                self.just_busy[size.name] += 1
            else:
                if word is not None:
                    self._count_filling(size, word)
                continue
            self.hosts[size.name].append(None if view.record is None else view.record.hostname)

    def _word_on(self, view: NodeView) -> SchedulerReport | None:
        """What the scheduler says of the node; None where nothing is fresh."""
        if view.record is None:
            return None
        return report_on(view.record, self.snapshot, self._settings)

    def _turned_busy(self, view: NodeView, word: SchedulerReport | None) -> bool:
        """Whether the node turned busy after the demand poll.

        That poll may still count its job as waiting, and another node for the job would be one too
        many.
        """
        history, demand_at = self.snapshot.history, self.snapshot.demand_at
        if demand_at is None or view.record is None:
            return False
        if self._settings.scheduled:
            since = None if word is None else word.busy_since
            return since is not None and since >= demand_at
        if history.clock is None:
            return False
        heard = history.heard.get(view.record.uuid)
        clock = history.clock
        if heard is None or heard.busy_since is None:
            return False
        ahead_s = heard.busy_since - clock.now(self.snapshot.now)
        if ahead_s > CLOCK_STEP_S + clock.error_s:
            # The stamp is from before the clock was set back, so its age is unknown (T1).
            return False
        return heard.busy_since + clock.error_s >= clock.now(demand_at)

    def _count_filling(self, size: Size, word: SchedulerReport) -> None:
        """Count the room of a node that turned busy lately: jobs that still wait may get it yet.

        What waits for longer does so for another reason, and gets a node of its own.
        """
        demand_at = self.snapshot.demand_at
        if demand_at is None or word.busy_since is None:
            return
        if demand_at - word.busy_since > FILLING_S:
            return
        node = word.node
        if node.draining or node.reserved or not (node.free_cores and node.free_ram_mb):
            return
        ram_mb = min(node.free_ram_mb, usable_ram(size, self._settings.node_mem_scaling))
        self.filling.append(Filling(size, node.name, min(node.free_cores, size.cores), ram_mb))

    def _count_pending(self) -> None:
        claimed, expected = self.snapshot.claimed_sizes, self.snapshot.expected
        pending = self.pending_records
        records = {
            record.uuid: record
            for record in (self.records if pending else ())
            if record.uuid in pending
        }
        for uuid in sorted(pending):
            record = records.get(uuid)
            claim = None if record is None else record.claim
            name = claimed.get(uuid) or (claim.size if claim is not None else None)
            name = name or (expected[uuid].size if uuid in expected else None)
            host = None if record is None else record.hostname
            price = claim.price if claim is not None else None
            self._count_boot(name, price, host, serves=uuid not in self.unserving)
        for name in self.snapshot.boots_unclaimed:
            self._count_boot(name)

    def _count_boot(
        self,
        name: str | None,
        price: float | None = None,
        host: str | None = None,
        *,
        serves: bool = True,
    ) -> None:
        """Count a future node; without a known size or price it counts as the cheapest size."""
        size = self.sizes.named(name)
        if size is None and price is None and self.sizes.by_price:
            size = self.sizes.by_price[0]
        if size is not None:
            if serves:
                self.coming[size.name] += 1
                self.hosts[size.name].append(host)
            price = size.price
        self.prices_to_be.append((price or 0.0, size.name if size is not None else name or ""))
        self.price += price or 0.0

    @property
    def serving(self) -> int:
        """How many nodes serve demand, or will."""
        return self.up + self.pending - len(self.unserving)

    def counted_twice(self) -> int:
        """How many set-ups may count twice: each claims a record that we don't know yet, and that
        may be listed as claimed already."""
        snapshot = self.snapshot
        known = snapshot.record_flights.keys() | snapshot.expected.keys()
        return min(len(snapshot.boots_unclaimed), len(self.pending_records - known))
