"""The newest ping that we saw of each record, and what the pings in a row said (D8, D12)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodemanager.core.model.world import Claim, Record, WorkerState
from nodemanager.core.observe.clocks import MeasuredClock

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
            incarnation, stamp, answered_s, at, 0, None, busy_since, claimed_at, before_at, since
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
