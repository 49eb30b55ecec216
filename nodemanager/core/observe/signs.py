"""What a record shows: its quiet time, its state, its node's worker state (T6, T7, C3)."""

from __future__ import annotations

from collections.abc import Container, Iterable

from nodemanager.core.model.settings import CLOCK_STEP_S, Settings
from nodemanager.core.model.world import CloudNode, Record, RecordState, WorkerState, life_key
from nodemanager.core.observe.clocks import MeasuredClock
from nodemanager.core.observe.history import History, newest_stamp
from nodemanager.core.observe.snapshot import Snapshot


def window_of(record: Record, settings: Settings) -> float:
    """The record's stale window in seconds (C3); C21's for a claim that never pinged."""
    if record.claim is not None and waits_for_first_ping(record):
        return settings.window_of(record.claim)
    return settings.node_stale_after


def newest_sign(record: Record) -> float | None:
    """The newest stamp of a record, epoch seconds; None where nothing says when it was written."""
    return None if record.modified_at is None else newest_stamp(record)


def trusted_clock(snapshot: Snapshot, settings: Settings) -> MeasuredClock | None:
    """The store's clock; None where it is not known, or not steady (T1)."""
    clock = snapshot.history.clock
    if clock is None or not clock.trusted_at(snapshot.now, settings.poll_stale_after):
        return None
    return clock


def quiet_for(record: Record, snapshot: Snapshot) -> float | None:
    """Seconds that the record has been quiet, never too many; None where that is unknown (C3).

    A version whose stamp was ahead of the store's clock counts from when it was first seen (T1).
    """
    clock, newest = snapshot.history.clock, newest_sign(record)
    if clock is None or newest is None:
        return None
    future = snapshot.history.future.get(record.uuid)
    age = clock.age(newest, snapshot.now)
    if future is not None and (future.version, future.stamp) == (record.version, newest):
        return max(age, snapshot.now - future.seen_at)
    return age


def launched_for(created_at: float, snapshot: Snapshot, claimed_at: float | None = None) -> float:
    """Seconds since a launch, never too many: the lower by our wall clock and the store's (T1).

    `created_at` is on the cloud's clock. Once one of ours jumped, nobody knows how far it is from
    that: a node then is no older than the jump, nor than the claim that it was created for, whose
    stamp `claimed_at` is the store's own. A claim ahead of the store's clock is from before a jump.
    """
    clock, wall, now = snapshot.history.clock, snapshot.wall_clock, snapshot.now
    age_s = wall.age(created_at, now)
    if clock is None:
        return age_s
    age_s = min(age_s, clock.age(created_at, now))
    if claimed_at is not None and (wall.has_jumped or clock.has_jumped):
        claimed_s = clock.age(claimed_at, now)
        if claimed_s >= -CLOCK_STEP_S:
            return min(age_s, claimed_s)
    return age_s


def age_of(node: CloudNode, record: Record | None, snapshot: Snapshot) -> float | None:
    """Seconds since the launch of the node that pairs with `record`; None if not known (T1)."""
    if node.created_at is None:
        return None
    return launched_for(node.created_at, snapshot, claimed_at_of(record))


def claimed_at_of(record: Record | None) -> float | None:
    """The stamp of the record's claim, on the store's clock; None without one."""
    return None if record is None or record.claim is None else record.claim.at


def age_of_nodes(
    record: Record,
    snapshot: Snapshot,
    settings: Settings,
    *,
    created_at: float | None = None,
    idle_s: float = 0.0,
    denied_s: float = 0.0,
) -> float:
    """The least age, in seconds, of any node that this life of the record may have.

    One create makes all nodes of a life, at one moment. So each is at least as old as the life's
    first ping, and as the launch of any of them (`created_at`, on the cloud's clock, which may be
    off by a minute: A3). Without those, a node is at least as old as the time by which the create
    had to take effect (A2): the end of C21's window without `visible_after`. The record is known
    to have been quiet for at least `idle_s`, and its node to have been denied for `denied_s` (P6).
    """
    quiet_s = max(quiet_for(record, snapshot) or 0.0, idle_s)
    clock, first, claim = snapshot.history.clock, record.first_ping_at, record.claim
    window_s = settings.claim_window if claim is None else settings.window_of(claim)
    create_s = window_s - settings.visible_after
    if first is None:
        age_s = quiet_s - create_s
    else:
        assert clock is not None, "without a clock no record is judged"
        age_s = clock.age(first, snapshot.now)
        if age_s < 0.0 or first <= (record.last_ping_at or 0.0):
            # If the clock was set back, a node is still at least as old as the newest stamp.
            age_s = max(age_s, quiet_s)
        if claim is not None:
            # And as the denials of its life, less the time that its create may have taken.
            age_s = max(age_s, denied_s - create_s)
    if created_at is None:
        return age_s
    return max(age_s, launched_for(created_at, snapshot, claimed_at_of(record)) - CLOCK_STEP_S)


def silent_for(record: Record, history: History) -> float:
    """Seconds without a new ping, counted only while the store answered pings (D8)."""
    heard = history.heard.get(record.uuid)
    return 0.0 if heard is None else history.answered_s - heard.answered_s


def idle_words(record: Record, history: History) -> int:
    """How many of its newest pings in a row said that the node is idle (D12)."""
    heard = history.heard.get(record.uuid)
    return 0 if heard is None else heard.idle


def waits_for_first_ping(record: Record) -> bool:
    """Whether the record is claimed and its node never pinged (C21)."""
    return record.claim is not None and record.first_ping_at is None and record.last_ping_at is None


def pinged_lives(
    records: Iterable[Record], among: Container[str], history: History
) -> set[tuple[str, str | None]]:
    """Which present lives were pinged by a node of their own, by uuid and incarnation.

    Only records whose uuid is `among` these are looked at. A ping of a freed life's node may reach
    the record after its next claim, where the store does not keep it out (A4). It tells nothing of
    the node that the claim waits for.
    """
    pinged = [one for one in records if one.uuid in among and one.last_ping_at is not None]
    if not pinged:
        return set()
    freed = history.freed
    former = {(life.record, life.node_id) for life in freed.values() if life.node_id is not None}
    return {
        (one.uuid, one.incarnation)
        for one in pinged
        if (one.uuid, one.instance_id) not in former or life_key(one.uuid, one.incarnation) in freed
    }


def classify(record: Record, snapshot: Snapshot, settings: Settings) -> RecordState:
    """The record's state (T7); without a measured store clock it is never stale."""
    if record.problems:
        return RecordState.UNREADABLE
    if not record.holds_anything:
        return RecordState.CLEANED
    if newest_sign(record) is None:
        return RecordState.UNREADABLE
    quiet_s = quiet_for(record, snapshot)
    if quiet_s is not None and quiet_s > window_of(record, settings):
        return RecordState.STALE
    pinged = record.first_ping_at is not None or record.last_ping_at is not None
    return RecordState.IN_USE if pinged else RecordState.ASSIGNED


def worker_state(record: Record, snapshot: Snapshot, settings: Settings) -> WorkerState:
    """The worker state in the node's last ping while that ping is fresh, else UNKNOWN (T6).

    A ping stamped in the future is not fresh, because its age is unknown (T1).
    """
    if record.worker_state is None or not is_heard(record, snapshot, settings):
        return WorkerState.UNKNOWN
    return record.worker_state


def is_heard(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether the node's last ping is fresh (T6); one stamped in the future is not.

    A jump of the clock makes no ping fresh again that we saw long ago.
    """
    history, now = snapshot.history, snapshot.now
    clock, stamp = history.clock, record.last_ping_at
    if clock is None or stamp is None:
        return False
    age_s = clock.age(stamp, now)
    if clock.has_jumped:
        heard = history.heard.get(record.uuid)
        if heard is not None and heard.last_ping_at == stamp:
            age_s = max(age_s, now - heard.seen_at)
    return not (age_s > settings.node_stale_after or age_s < -CLOCK_STEP_S - clock.error_s)


def word_of(
    record: Record, snapshot: Snapshot, settings: Settings, at_least_s: float = 0.0
) -> WorkerState:
    """The worker state in the node's last ping, or UNKNOWN if that ping is known to be old (C2).

    The ping's age is the greatest of: the age of its stamp, our time without a newer ping (the
    store's clock may have been set back), the time since we first saw a future stamp (T1), and
    `at_least_s`.
    """
    history = snapshot.history
    clock, stamp, word = history.clock, record.last_ping_at, record.worker_state
    if clock is None or stamp is None or word is None:
        return WorkerState.UNKNOWN
    age_s = max(at_least_s, clock.age(stamp, snapshot.now))
    heard, future = history.heard.get(record.uuid), history.future.get(record.uuid)
    if heard is not None and heard.last_ping_at == stamp:
        age_s = max(age_s, history.answered_s - heard.answered_s)
    if future is not None and future.version == record.version and stamp <= future.stamp:
        age_s = max(age_s, snapshot.now - future.seen_at)
    return word if age_s <= settings.node_stale_after else WorkerState.UNKNOWN
