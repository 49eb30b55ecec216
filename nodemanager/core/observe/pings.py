"""What the pings of records show: when a node was last heard, and its hostname (D7, D8, D12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nodemanager.core.model.scheduling import SchedulerNode
from nodemanager.core.model.settings import CLOCK_STEP_S, Settings
from nodemanager.core.model.world import Claim, Record, WorkerState, life_key
from nodemanager.core.observe.clocks import MeasuredClock
from nodemanager.core.observe.nodes_by_record import NodesByRecord

BUSY, IDLE = WorkerState.BUSY, WorkerState.IDLE
"""Looked up once, because every ping is compared with them."""


# Not frozen, because each poll may create one for every node, and freezing triples the cost.
@dataclass(slots=True)
class Heard:
    """The newest ping of a record that we saw (D8, D12).

    `seen_at` is the end of the listing that first showed it, CLOCK_BOOTTIME, and `answered_s` the
    value of `History.answered_s` then. `idle` counts the pings in a row, each with a new stamp,
    that said idle; the first of them was seen at `idle_since`. `busy_since` is the stamp of the
    first ping in a row that said busy, known if the ping before it said idle or there was none.
    """

    incarnation: str | None
    last_ping_at: float | None
    answered_s: float
    seen_at: float = float("-inf")
    idle: int = 0
    idle_since: float | None = None
    busy_since: float | None = None
    claimed_at: float | None = None
    """`at` of the claim while there was no ping: a renewed claim is followed by a create (U5)."""
    before_at: float = float("-inf")
    """When the newest ping came that earlier listings showed of this life, CLOCK_BOOTTIME. A late
    listing may show the record as it was before that ping."""
    pinged_since: float | None = None
    """The end of the listing that first showed a ping of this life, CLOCK_BOOTTIME (P6)."""
    down_since: float | None = None
    """When the first of its pings in a row was seen that said down, CLOCK_BOOTTIME (D9)."""


def heard_again(
    before: Heard | None,
    record: Record,
    answered_s: float,
    at: float,
    clock: MeasuredClock | None,
    *,
    answers: bool,
) -> Heard:
    """The entry for the record's newest ping, which continues or ends the idle count (D12).

    While the probe fails, no ping counts as idle, because a node that became busy could not say so.
    """
    claim, stamp = record.claim, record.last_ping_at
    incarnation = None if claim is None else claim.incarnation
    if before is not None and before.incarnation != incarnation:
        before = None
    if before is not None and before.last_ping_at == stamp:
        # There is no new ping, but a fence or a renewed claim restarts the silence.
        return replace(before, answered_s=answered_s, claimed_at=_claimed_at(record))
    before_at = came_at(before, clock) if before is not None else float("-inf")
    since = None if stamp is None else at
    if since is not None and before is not None and before.pinged_since is not None:
        since = before.pinged_since
    if record.worker_state is not IDLE or not answers:
        busy_since = _busy_since(before, record)
        claimed_at = _claimed_at(record) if stamp is None else None
        return Heard(
            incarnation,
            stamp,
            answered_s,
            at,
            busy_since=busy_since,
            claimed_at=claimed_at,
            before_at=before_at,
            pinged_since=since,
            down_since=_down_since(before, record, at),
        )
    idle, idle_since = 1, at
    if before is not None and before.idle_since is not None:
        idle, idle_since = before.idle + 1, before.idle_since
    return Heard(incarnation, stamp, answered_s, at, idle, idle_since, None, None, before_at, since)


def came_at(heard: Heard, clock: MeasuredClock | None) -> float:
    """When the newest ping that we saw of that life came, CLOCK_BOOTTIME seconds, never too early.

    If the store's clock was set back, a stamp may be in the future: it counts from `seen_at` (T1).
    """
    stamp, seen_at = heard.last_ping_at, heard.seen_at
    if stamp is None:
        return heard.before_at
    came = seen_at if clock is None else clock.since(stamp, seen_at)
    return came if came > heard.before_at else heard.before_at


def _claimed_at(record: Record) -> float | None:
    if record.claim is None or record.last_ping_at is not None:
        return None
    return record.claim.at


def is_renewed(before: Heard, claim: Claim | None) -> bool:
    """Whether the claim was renewed since: the node may be younger than the incarnation."""
    return claim is not None and before.claimed_at not in (None, claim.at)


def _busy_since(before: Heard | None, record: Record) -> float | None:
    if record.worker_state is not BUSY:
        return None
    stamp = record.last_ping_at
    if record.first_ping_at == stamp:
        return stamp
    if before is None:
        return None
    return stamp if before.idle or before.last_ping_at is None else before.busy_since


def _down_since(before: Heard | None, record: Record, at: float) -> float | None:
    if record.worker_state is not WorkerState.DOWN:
        return None
    return at if before is None or before.down_since is None else before.down_since


# The hostname of each life, kept from its claim for as long as its node lives (SAFETY.md D7).

KEPT_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Hostname:
    """The hostname of a life. Since `missed_at` neither its record nor its node is listed.

    That is CLOCK_BOOTTIME; None while one of them is listed.
    """

    name: str
    missed_at: float | None = None
    waits: bool = False
    """Whether the scheduler has yet to call it up for the first time: we have watched this life
    since a moment within its boot grace (D17). False, too, where nobody knows what was before."""
    started_at: int | None = None
    """`SchedulerNode.started_at`, as last reported before another life had the name."""


Hostnames = Mapping[str, Hostname]
"""By the life's key."""


def hostnames_seen(
    known: Hostnames,
    records: Iterable[Record],
    nodes_by_record: NodesByRecord,
    at: float,
    clock: MeasuredClock | None,
    settings: Settings,
) -> Hostnames:
    """The hostnames after a complete record listing.

    `nodes_by_record` are of the newest cloud listing.

    A life that neither shows is kept for a day more: a listing may be short.
    """
    names: dict[str, Hostname] = {}
    for record in records:
        if record.hostname is None:
            continue
        key = life_key(record.uuid, record.incarnation)
        before = known.get(key)
        if before is None:
            waits = _is_within_grace(record, at, clock, settings)
            names[key] = Hostname(record.hostname, waits=waits)
        elif (before.name, before.missed_at) == (record.hostname, None):
            names[key] = before
        else:
            started_at = before.started_at if before.name == record.hostname else None
            names[key] = Hostname(record.hostname, waits=before.waits, started_at=started_at)
    for key, one in known.items():
        if key in names:
            continue
        if _is_borne(key, nodes_by_record):
            names[key] = one if one.missed_at is None else replace(one, missed_at=None)
        elif one.missed_at is None:
            names[key] = replace(one, missed_at=at)
        elif at - one.missed_at <= KEPT_S:
            names[key] = one
    return known if names == known else names


def hostnames_told(
    known: Hostnames, records: Iterable[Record], nodes: Mapping[str, SchedulerNode]
) -> Hostnames:
    """The hostnames after a complete answer of the scheduler, with what it tells of each name.

    What it tells is of the life whose record is listed under the name; without one, or where that
    one was never pinged, of the only other life whose node is. A daemon that had started in another
    life is that one's.
    """
    listed = {one.hostname: one for one in records if one.hostname}
    lives: dict[str, list[str]] = {}
    for key, one in known.items():
        lives.setdefault(one.name, []).append(key)
    names: dict[str, Hostname] = {}
    for host, keys in lives.items():
        node = nodes.get(host)
        if node is None or node.started_at is None:
            continue
        holder = _holder(listed.get(host), {key: known[key] for key in keys})
        starts = [known[key].started_at for key in keys]
        if holder is not None and holder in known and node.started_at not in starts:
            names[holder] = replace(known[holder], started_at=node.started_at)
    return {**known, **names} if names else known


def _holder(record: Record | None, lives: Mapping[str, Hostname]) -> str | None:
    """The key of the life, of those that had one hostname, whose daemon a new start is of."""
    key = None if record is None else life_key(record.uuid, record.incarnation)
    others = [one for one, life in lives.items() if life.missed_at is None and one != key]
    if record is None:
        return others[0] if len(others) == 1 else None
    unknown = [one for one in others if lives[one].started_at is None]
    if record.last_ping_at is None and len(unknown) == 1:
        return unknown[0]
    return key


def lives_heard(known: Hostnames, nodes: Mapping[str, SchedulerNode]) -> Mapping[str, str | None]:
    """By hostname, the incarnation whose daemon the scheduler hears, where its start tells it.

    Its record or its node is listed: else the scheduler may only remember that start.
    """
    return {
        one.name: key.partition("/")[2] or None
        for key, one in known.items()
        if one.missed_at is None
        and one.started_at is not None
        and (node := nodes.get(one.name)) is not None
        and node.started_at == one.started_at
    }


def hostnames_joined(kept: Hostnames, own: Hostnames) -> Hostnames:
    """What this run knows, with what an earlier one knew. Either may have seen a node join.

    The earlier one saw its daemon first: by now the name may be another's.
    """
    both = {
        key: replace(
            one,
            waits=one.waits and kept[key].waits,
            started_at=one.started_at if kept[key].started_at is None else kept[key].started_at,
        )
        for key, one in own.items()
        if key in kept
    }
    return {**kept, **own, **both}


def _is_within_grace(
    record: Record, at: float, clock: MeasuredClock | None, settings: Settings
) -> bool:
    """Whether the record's claim is of this pool, and no older than its node's boot grace.

    A claim whose age is not known for certain is old (T1): what its node did before, nobody saw.
    """
    claim = record.claim
    if claim is None or claim.pool != settings.pool or clock is None:
        return False
    age_s = clock.age(claim.at, at)
    is_known = age_s > -CLOCK_STEP_S and clock.since(claim.at, at) > clock.known_since
    return is_known and age_s + 2 * clock.error_s <= settings.boot_fail_after


def _is_borne(key: str, nodes_by_record: NodesByRecord) -> bool:
    uuid = key.partition("/")[0]
    return any(life_key(uuid, one.tags.incarnation) == key for one in nodes_by_record.get(uuid, ()))
