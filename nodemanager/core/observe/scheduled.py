"""What a scheduler's complete answers prove together, joined to records by hostname (T6, D12).

A scheduler's word is evidence while its last complete answer is younger than poll_stale_after. It
is about one life of a record: the count of idle answers starts anew with the next node of a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import replace

from nodemanager.core.model.changed import changed
from nodemanager.core.model.scheduling import SchedulerNode, SchedulerReport, host_of, is_set_aside
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode, Listing, Record, WorkerState, life_key
from nodemanager.core.observe.history import History
from nodemanager.core.observe.nodes_by_record import node_of
from nodemanager.core.observe.pings import Heard, Hostname, Hostnames, hostnames_told, lives_heard
from nodemanager.core.observe.pools import uuids_of_ours
from nodemanager.core.observe.signs import idle_words, is_heard, worker_state
from nodemanager.core.observe.snapshot import Snapshot

BUSY, IDLE = WorkerState.BUSY, WorkerState.IDLE


def scheduler_listed(
    history: History, listing: Listing[SchedulerNode], settings: Settings
) -> History:
    """Fold a scheduler's listing in. An incomplete one, or a late one, is no evidence (L1)."""
    newest = history.scheduler
    if not listing.complete or (newest is not None and listing.started_at <= newest.started_at):
        return history
    if newest is not None:
        # A first ping from before that answer may have been listed after it.
        history = changed(history, hostnames=_after_joins(history, newest, {})[0])
    gap_s = 0.0 if newest is None else listing.started_at - newest.started_at
    before = history.scheduled if gap_s <= settings.poll_stale_after else {}
    nodes, shared = {node.name: node for node in listing.items}, _shared(history)
    known = history.known_scheduled.with_set(listing.started_at, frozenset(nodes))
    hostnames = hostnames_told(history.hostnames, history.listed_records, nodes)
    # While the machine before is heard, the answer is on that one, whoever has its name by now.
    heard = lives_heard(hostnames, nodes)
    lives = {**_lives(history), **heard}
    scheduled = {
        node.name: _after(before.get(node.name), node, lives.get(node.name), listing.started_at)
        for node in listing.items
        if node.name not in shared
    }
    unjoined = history.unjoined if gap_s <= settings.poll_stale_after else {}
    hostnames, unjoined = _after_joins(changed(history, hostnames=hostnames), listing, unjoined)
    return changed(
        history,
        scheduler=listing,
        scheduled=scheduled,
        known_scheduled=known,
        heard=_waited_for(history, listing, shared),
        hostnames=hostnames,
        unjoined=unjoined,
    )


def _waited_for(
    history: History, listing: Listing[SchedulerNode], shared: Container[str]
) -> Mapping[str, Heard]:
    """What was heard; a silence begins anew while the scheduler waits for a node that came (D8).

    A controller that was killed right after that has forgotten it, and may not ask the node again
    before it gives up waiting. Of a node that is not listed, or never came, silence counts.
    """
    wanted = {node.name for node in listing.items if node.wanted and node.name not in shared}
    if not wanted:
        return history.heard
    silent = {
        record.uuid: replace(heard, answered_s=history.answered_s)
        for record in history.listed_records
        if record.hostname in wanted
        and record.uuid in history.nodes_by_record
        and (heard := history.heard.get(record.uuid)) is not None
        and heard.last_ping_at is not None
    }
    return {**history.heard, **silent}


def _is_heard(record: Record, heard: Mapping[str, str | None]) -> bool:
    """Whether an answer on the record's hostname may be on its own node."""
    return heard.get(record.hostname or "", record.incarnation) == record.incarnation


def _after_joins(
    history: History, listing: Listing[SchedulerNode], before: Mapping[str, float]
) -> tuple[Hostnames, Mapping[str, float]]:
    """The hostnames, which know who was called up, and since when the others are not (D17)."""
    hostnames, at = history.hostnames, listing.started_at
    waiting = {key for key, one in hostnames.items() if one.waits}
    if not waiting or history.records is None:
        return hostnames, {}
    nodes, shared = {node.name: node for node in listing.items}, _shared(history)
    heard = lives_heard(hostnames, nodes)
    joined: dict[str, Hostname] = {}
    unjoined: dict[str, float] = {}
    for record in history.records.items:
        key, name = life_key(record.uuid, record.incarnation), record.hostname
        if key not in waiting or name is None or name in shared or not _is_heard(record, heard):
            continue
        node = nodes.get(name)
        if not pinged_by(record, history, at):
            # The answer may be of the machine that had the name before.
            continue
        if node is not None and (node.planned or node.state in (BUSY, IDLE)):
            if node.responds:
                joined[key] = replace(hostnames[key], waits=False)
        elif is_not_up(node):
            unjoined[key] = before.get(key, at)
    return ({**hostnames, **joined} if joined else hostnames), unjoined


def pinged_by(record: Record, history: History, at: float) -> bool:
    """Whether the record's node had pinged by `at`, CLOCK_BOOTTIME, as far as we know."""
    heard, stamp = history.heard.get(record.uuid), record.first_ping_at or record.last_ping_at
    if stamp is None or history.clock is None:
        return False
    seen_at = None if heard is None else heard.pinged_since
    return history.clock.since(stamp, at) < at or (seen_at is not None and seen_at < at)


def is_not_up(node: SchedulerNode | None) -> bool:
    """Whether the answer says that the node is not up: it calls it down, tries in vain to reach it,
    or lists none of that name.

    It says nothing of a node whose state it does not know, as after a restart of its own, nor of
    one that somebody set aside, or that waits for its power.
    """
    if node is None:
        return True
    if node.state is BUSY or is_set_aside(node):
        return False
    return node.state is WorkerState.DOWN or not (node.responds or node.suspended)


def _lives(history: History) -> Mapping[str, str | None]:
    """The incarnation of the record with each hostname."""
    return {
        one.hostname: one.incarnation for one in history.listed_records if one.hostname is not None
    }


def _shared(history: History) -> frozenset[str]:
    """The hostnames that more than one record has: a word on them is about neither."""
    counts = Counter(one.hostname for one in history.listed_records if one.hostname is not None)
    return frozenset(name for name, count in counts.items() if count > 1)


def _after(
    before: SchedulerReport | None, node: SchedulerNode, incarnation: str | None, at: float
) -> SchedulerReport:
    """The word of an answer begun at `at`, which goes on or ends what was counted before."""
    if before is not None and before.incarnation != incarnation:
        before = None
    was_busy = before is not None and before.node.state is BUSY
    busy_since = before.busy_since if before is not None and was_busy else at
    idle = before.idle if before is not None else 0
    return SchedulerReport(
        node,
        incarnation,
        idle=idle + 1 if node.state is IDLE else 0,
        busy_since=busy_since if node.state is BUSY else None,
    )


def ours_in_scheduler(history: History, settings: Settings) -> frozenset[str]:
    """The names that a scheduler's listing should have: of our nodes that are listed (L3a).

    A node that we destroy is not among them.
    """
    records = history.listed_records
    ours = uuids_of_ours(records, history.other_pools, settings)
    going = history.known_nodes.destroyed
    return frozenset(
        record.hostname
        for record in records
        if record.hostname is not None
        and record.uuid in ours
        and any(node.id not in going for node in history.nodes_by_record.get(record.uuid, ()))
    )


def fresh_answer(snapshot: Snapshot, settings: Settings) -> Listing[SchedulerNode] | None:
    """The scheduler's last complete answer; None where there is none that is fresh (T6)."""
    listing = snapshot.history.scheduler
    is_fresh = (
        listing is not None and snapshot.now - listing.started_at <= settings.poll_stale_after
    )
    return listing if is_fresh else None


def report_on(record: Record, snapshot: Snapshot, settings: Settings) -> SchedulerReport | None:
    """What the scheduler says of the record's node; None where it says nothing that is fresh.

    An answer from when no listed record had the hostname counts, too: at a start the scheduler may
    answer before the store does. What is counted starts anew with the next answer.
    """
    if fresh_answer(snapshot, settings) is None:
        return None
    word = snapshot.history.scheduled.get(record.hostname or "")
    if word is None or word.incarnation not in (None, record.incarnation):
        return None
    return word


def hostname_of(node: CloudNode, history: History) -> str | None:
    """The hostname that the node's life had, or has; None if it is not known, or another node's.

    It is another's once a record of another life has it, that life's node is listed and pinged, and
    the scheduler hears another daemon than this node's: of two nodes of one name it knows the one
    that came up last. Where it does not tell when they started, it may be this one's still. Once
    the other node is not listed, the scheduler may hear this one again.
    """
    if node.tags.record is None:
        return None
    key = life_key(node.tags.record, node.tags.incarnation)
    known = history.hostnames.get(key)
    if known is None:
        return None
    for record in history.listed_records:
        is_another = life_key(record.uuid, record.incarnation) != key
        if is_another and record.hostname == known.name and record.last_ping_at is not None:
            is_listed = node_of(record, history.nodes_by_record, history.present) is not None
            return None if is_listed and _hears_another(known, history) else known.name
    return known.name


def _hears_another(known: Hostname, history: History) -> bool:
    """Whether the daemon that the scheduler hears under the name is another than that life's."""
    word = history.scheduled.get(known.name)
    if word is None or word.node.started_at is None or known.started_at is None:
        return False
    return word.node.started_at != known.started_at


def names_of(node: CloudNode, history: History, paired: Container[str]) -> tuple[str, ...]:
    """The hostnames under which the scheduler may know a node without a record.

    That is the one of its life. If that is not known, it may be that of any listed record whose
    uuid is not `paired`, that names no other pool, and whose own node it may be: also of a free
    seat, on which a machine from before us may be up. Where its tags name a record, that was
    deleted before our journal began, and its hostname was given again: then it may be that of any
    such record whose own node is not listed.
    """
    key = life_key(node.tags.record or "", node.tags.incarnation)
    if key in history.hostnames:
        name = hostname_of(node, history)
        return () if name is None else (name,)
    is_from_before = node.tags.record is None
    return tuple(
        host
        for one in history.listed_records
        if (host := host_of(one)) is not None
        and one.pool in (None, node.tags.pool)
        and one.uuid not in paired
        and (
            one.claim is None and one.instance_id in (None, node.id)
            if is_from_before
            else node_of(one, history.nodes_by_record, history.present) is None
        )
    )


def node_named(name: str | None, snapshot: Snapshot, settings: Settings) -> SchedulerNode | None:
    """What a fresh answer of the scheduler says of a hostname, whosever it is."""
    if fresh_answer(snapshot, settings) is None:
        return None
    word = snapshot.history.scheduled.get(name or "")
    return None if word is None else word.node


def may_get_work(node: SchedulerNode) -> bool:
    """Whether the scheduler has the node at work, or hears it and keeps no work from it."""
    if node.state is BUSY:
        return True
    return node.state is IDLE and node.responds and not (node.draining or node.reserved)


def joined(own: WorkerState, word: SchedulerReport | None, *, is_heard: bool) -> WorkerState:
    """The worker state by the node's own word and by the scheduler's (T6).

    Work counts, whoever tells of it; but of a node that is silent (not `is_heard`), and that the
    scheduler does not hear either, it is no sign of life. Idle is only what the scheduler calls
    idle, and nobody but us keeps from work. Its `down` alone is no reason to destroy a node that
    pings.
    """
    if own is BUSY:
        return BUSY
    if word is not None and word.node.state is BUSY and (is_heard or word.node.responds):
        return BUSY
    if own is WorkerState.DOWN:
        return own
    if word is None or not is_heard or word.node.state is not IDLE or word.is_set_aside:
        return WorkerState.UNKNOWN
    return IDLE


def joined_state(record: Record, snapshot: Snapshot, settings: Settings) -> WorkerState:
    """What the record's node does, by its own fresh word and, where there is one, a scheduler's."""
    own = worker_state(record, snapshot, settings)
    if not settings.scheduled:
        return own
    word = report_on(record, snapshot, settings)
    return joined(own, word, is_heard=is_heard(record, snapshot, settings))


def idle_count(record: Record, snapshot: Snapshot, settings: Settings) -> int:
    """How many words in a row called the node idle: a scheduler's answers, else its pings (D12)."""
    if not settings.scheduled:
        return idle_words(record, snapshot.history)
    word = report_on(record, snapshot, settings)
    return 0 if word is None else word.idle


def suspended_word(
    record: Record, snapshot: Snapshot, settings: Settings
) -> SchedulerReport | None:
    """The scheduler's report that the record's node is switched off; None where it is not.

    The answer began after a record listing that shows a sign of life of this very life: an older
    one may be of the life before, whose machine was switched off.
    """
    if not settings.scheduled:
        return None
    history = snapshot.history
    word, heard = report_on(record, snapshot, settings), history.heard.get(record.uuid)
    if word is None or not word.node.suspended or word.node.reserved or heard is None:
        return None
    if word.node.wanted:
        # A controller that was killed may have forgotten that this very machine came.
        return None
    assert history.scheduler is not None
    is_of_it = heard.last_ping_at == record.last_ping_at
    return word if is_of_it and history.scheduler.started_at > heard.seen_at else None


def is_up_in_scheduler(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether the scheduler hears the record's node at work, or idle: it lives (C2)."""
    if not settings.scheduled:
        return False
    word = report_on(record, snapshot, settings)
    return word is not None and word.node.responds and word.node.state in (BUSY, IDLE)
