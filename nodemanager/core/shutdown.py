"""When a node is shut down, and why not yet (SAFETY.md D1, D2, D7-D11, O1, O2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.bearers import bears
from nodemanager.core.model import CloudNode, CloudState, Outcome, Record, WorkerState
from nodemanager.core.orders import BY_HAND, called_off, ordered
from nodemanager.core.pairing import Pairs
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.records import quiet_for, standing_block, window_of, worker_state
from nodemanager.core.settings import ASK_AGAIN_S, CLOCK_STEP_S, ORDER_TTL_S, Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.verdict import Verdict, keep

BAD = frozenset({Reason.NODE_DOWN, Reason.BOOT_FAILED, Reason.UNPAIRED})
"""What D9 counts and caps: a node destroyed because something seems wrong with it."""

DYING = frozenset({CloudState.STOPPING, CloudState.STOPPED})
"""Nodes in these states are there, and serve nobody."""

OUTSIDE = frozenset({Reason.NODE_ABSENT, Reason.FOREIGN_NODE})
"""Nodes that are only seen: not ours, or not there."""


def window_open(age_s: float, windows: tuple[float, ...]) -> bool:
    """Whether a shutdown window is open at this age of a node.

    `windows` alternates closed and open seconds and starts over after the last. Empty is always
    open.
    """
    if not windows:
        return True
    into = age_s % sum(windows)
    is_open = False
    for length in windows:
        if into < length:
            return is_open
        into -= length
        is_open = not is_open
    return not is_open


@dataclass(slots=True)
class NodeView:
    """A node as demand counts it: what it does, and the verdict so far.

    `counts` says that it serves, or will; one that is going or gone does not. `surplus_if_idle`
    says that it may go if demand does not want it; `bad` that it is silent, down or unpaired,
    which D9 counts.
    """

    node: CloudNode
    verdict: Verdict
    state: WorkerState
    counts: bool = True
    surplus_if_idle: bool = False
    bad: bool = False
    record: Record | None = None


class NodeJudge:
    """Judges the nodes of one snapshot; built once per plan for what all nodes share."""

    def __init__(self, snapshot: Snapshot, settings: Settings, pairs: Pairs) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.pairs = pairs
        self.history = snapshot.history
        self.clock = snapshot.history.clock
        self.block = standing_block(snapshot, settings)
        self._records: dict[str, list[Record]] | None = None

    def view(self, node: CloudNode) -> NodeView:
        """The node's verdict before demand, caps and breakers have had their say."""
        settings, snapshot = self.settings, self.snapshot
        pool = node.tags.pool
        node_id = node.id
        if node.state is CloudState.TERMINATED:
            return _outside(node, Verdict(Kind.KEEP, Reason.NODE_ABSENT, node_id))
        if (pool is not None and pool != settings.pool) or not node.managed:
            return _outside(node, keep(node_id, Reason.FOREIGN_NODE, pool=pool))
        if node_id in snapshot.node_flights:
            verdict = Verdict(Kind.KEEP, Reason.SHUTTING_DOWN, node_id)
            return NodeView(node, verdict, WorkerState.DOWN, counts=False)
        record = self.pairs.record_of.get(node_id)
        cloud = self.history.cloud
        listed_at = cloud.started_at if cloud is not None else 0.0
        if snapshot.gone.get(node_id, -1.0) >= listed_at:
            return _outside(node, Verdict(Kind.KEEP, Reason.NODE_ABSENT, node_id))
        if snapshot.touched.get(node_id, -1.0) >= listed_at:
            verdict = Verdict(Kind.KEEP, Reason.CHANGED_SINCE_LISTING, node_id)
            state = WorkerState.UNKNOWN
            if record is not None:
                state = worker_state(record, self.clock, snapshot.now, settings)
            return NodeView(node, verdict, state, record=record)
        seen = self._unpaired(node) if record is None else self._paired(node, record)
        if node.state in DYING:
            seen.counts = seen.surplus_if_idle = False
        by_hand = ordered(seen.verdict, seen.state, snapshot)
        if by_hand is not None:
            # No new work is meant for it: what it did is another's to do.
            seen.verdict, seen.counts, seen.surplus_if_idle = by_hand, False, False
        return seen

    def _paired(self, node: CloudNode, record: Record) -> NodeView:
        snapshot, settings = self.snapshot, self.settings
        node_id = node.id
        state = worker_state(record, self.clock, snapshot.now, settings)
        if node.held or record.held or node_id in snapshot.holds or record.uuid in snapshot.holds:
            return NodeView(node, keep(node_id, Reason.HELD), state, record=record)
        if node.problems or record.problems:
            detail = "; ".join((*node.problems, *record.problems))
            return NodeView(
                node, keep(node_id, Reason.UNREADABLE, detail=detail), state, record=record
            )
        stopped = self._stopped(node, record)
        if stopped is not None:
            return stopped
        if node.tags.pool is None:
            return NodeView(
                node, Verdict(Kind.KEEP, Reason.UNTAGGED, node_id), state, record=record
            )
        if record.last_ping_at is None and record.first_ping_at is None:
            return self._never_pinged(node, record)
        if state is WorkerState.BUSY:
            verdict = Verdict(Kind.KEEP, Reason.BUSY, node_id)
            return NodeView(node, verdict, state, record=record)
        if state is WorkerState.IDLE:
            return self._idle(node, record)
        return self._silent_or_down(node, record, state)

    def _stopped(self, node: CloudNode, record: Record) -> NodeView | None:
        """Stopped, suspended or in error for `settle` is down at once (D1).

        It counts as down for D9 from its first sighting, so that a wave is seen before its first
        victim.
        """
        since = self.history.stopped.get(node.id)
        if since is None or node.tags.pool is None:
            return None
        cloud = self.history.cloud
        stopped_s = (cloud.started_at if cloud else since) - since
        measures = {"stopped_s": stopped_s, "settle_s": self.settings.settle}
        if stopped_s < self.settings.settle:
            verdict = Verdict(Kind.KEEP, Reason.NOT_SETTLED, node.id, measures)
        else:
            verdict = Verdict(Kind.SHUTDOWN, Reason.NODE_STOPPED, node.id, measures)
        return NodeView(node, verdict, WorkerState.DOWN, counts=False, bad=True, record=record)

    def _age(self, created_at: float) -> float:
        """Seconds since launch, by the slower of two clocks: a step of ours ends no boot grace."""
        now = self.snapshot.wall
        if self.clock is not None:
            now = min(now, self.clock.now(self.snapshot.now))
        return now - created_at

    def _silence(self, record: Record) -> float:
        """Seconds of silence over time in which the store answered pings (D8)."""
        heard = self.history.heard.get(record.uuid)
        return 0.0 if heard is None else self.history.answered_s - heard.answered_s

    def _never_pinged(self, node: CloudNode, record: Record) -> NodeView:
        limit_s = self.settings.boot_fail_after
        silent_s = self._silence(record)
        clock = self.clock
        measures = {"silent_s": silent_s, "limit_s": limit_s}
        if silent_s <= limit_s or clock is None:
            verdict = Verdict(Kind.KEEP, Reason.BOOTING, node.id, measures)
            return NodeView(node, verdict, WorkerState.UNKNOWN, record=record)
        verdict = Verdict(Kind.SHUTDOWN, Reason.BOOT_FAILED, node.id, measures)
        return NodeView(node, verdict, WorkerState.DOWN, counts=False, record=record)

    def _idle(self, node: CloudNode, record: Record) -> NodeView:
        """Idle by its own fresh word: may go once idle for long enough, in an open window."""
        node_id = node.id
        count = self.history.idle.get(node_id, 0)
        needed = self.settings.consecutive_idle_count
        if count < needed:
            verdict = keep(node_id, Reason.NOT_IDLE_LONG, idle_polls=count, needed_polls=needed)
            return NodeView(node, verdict, WorkerState.IDLE, record=record)
        if node.created_at is None:
            verdict = Verdict(Kind.KEEP, Reason.NO_LAUNCH_TIME, node_id)
            return NodeView(node, verdict, WorkerState.IDLE, record=record)
        age_s = self._age(node.created_at)
        if not window_open(age_s, self.settings.shutdown_windows):
            verdict = keep(node_id, Reason.WINDOW_CLOSED, age_s=age_s)
            return NodeView(node, verdict, WorkerState.IDLE, record=record)
        verdict = Verdict(Kind.KEEP, Reason.NEEDED, node_id)
        return NodeView(node, verdict, WorkerState.IDLE, surplus_if_idle=True, record=record)

    def _silent_or_down(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView:
        settings, node_id, clock = self.settings, node.id, self.clock
        silent_s = self._silence(record)
        limit_s = settings.node_stale_after
        grace_s = settings.boot_fail_after
        age_s = None if node.created_at is None else self._age(node.created_at)
        past_grace = age_s is not None and age_s > grace_s
        if clock is None:
            return NodeView(node, keep(node_id, Reason.CLOCK_UNKNOWN), state, record=record)
        if state is WorkerState.DOWN:
            measures = {"state": state.value, "age_s": age_s, "limit_s": grace_s}
            kind = Kind.SHUTDOWN if past_grace else Kind.KEEP
            reason = Reason.NODE_DOWN if past_grace else Reason.BOOTING
            verdict = Verdict(kind, reason, node_id, measures)
            return NodeView(
                node, verdict, state, counts=not past_grace, bad=past_grace, record=record
            )
        quiet_s = quiet_for(record, clock, self.snapshot)
        is_stale = quiet_s is not None and quiet_s > window_of(record, settings)
        if is_stale and silent_s > limit_s and past_grace:
            measures = {"silent_s": silent_s, "window_s": limit_s, "idle_s": quiet_s}
            verdict = Verdict(Kind.SHUTDOWN, Reason.NODE_DOWN, node_id, measures)
            return NodeView(node, verdict, WorkerState.DOWN, counts=False, bad=True, record=record)
        if is_stale and silent_s > limit_s and age_s is None:
            verdict = keep(node_id, Reason.NO_LAUNCH_TIME, silent_s=silent_s, window_s=limit_s)
            return NodeView(node, verdict, WorkerState.UNKNOWN, bad=True, record=record)
        if silent_s > limit_s / 2:
            # Half a window of silence is not yet a reason to destroy one node, but it is time
            # to count how many are silent, so that D9 sees a wave before its first victim.
            verdict = keep(
                node_id, Reason.SILENT_WITHIN_WINDOW, silent_s=silent_s, window_s=limit_s
            )
            return NodeView(node, verdict, WorkerState.UNKNOWN, bad=True, record=record)
        reason = Reason.SILENT_WITHIN_WINDOW if is_stale else Reason.WORKER_UNKNOWN
        verdict = keep(node_id, reason, silent_s=silent_s, window_s=limit_s)
        return NodeView(node, verdict, WorkerState.UNKNOWN, record=record)

    def _unpaired(self, node: CloudNode) -> NodeView:
        """Only a node with our tag, after D7 has run its course; anything else is kept."""
        snapshot, settings, node_id = self.snapshot, self.settings, node.id
        unknown = WorkerState.UNKNOWN
        if node_id in self.pairs.ambiguous:
            rivals = self.pairs.ambiguous[node_id]
            return NodeView(node, keep(node_id, Reason.AMBIGUOUS, rivals=rivals), unknown)
        if node.tags.pool is None:
            return NodeView(node, Verdict(Kind.KEEP, Reason.UNTAGGED, node_id), unknown)
        if node.held or node_id in snapshot.holds or node.tags.record in snapshot.holds:
            return NodeView(node, keep(node_id, Reason.HELD), unknown)
        if node.problems:
            detail = "; ".join(node.problems)
            return NodeView(node, keep(node_id, Reason.UNREADABLE, detail=detail), unknown)
        word = self._word_of(node)
        if word is not None:
            return word
        expected = snapshot.expected.get(node.tags.record or "")
        if expected is not None and expected.node_id == node_id:
            # Listed before the record poll that will show its claim.
            verdict = keep(node_id, Reason.BOOTING, age_s=snapshot.now - expected.since)
            return NodeView(node, verdict, unknown)
        seen = self.history.unpaired.get(node_id)
        since_s = 0.0 if seen is None else snapshot.now - seen.since
        listings = 0 if seen is None else seen.record_listings
        measures = {
            "unpaired_s": since_s,
            "limit_s": settings.boot_fail_after,
            "record_listings": listings,
        }
        if since_s <= settings.boot_fail_after or listings < 2:
            verdict = Verdict(Kind.KEEP, Reason.UNPAIRED_WITHIN_WINDOW, node_id, measures)
            # As with silence: D9 must see a wave before its first victim.
            bad = since_s > settings.boot_fail_after / 2 and listings > 0
            return NodeView(node, verdict, unknown, bad=bad)
        verdict = Verdict(Kind.SHUTDOWN, Reason.UNPAIRED, node_id, measures)
        return NodeView(node, verdict, WorkerState.DOWN, counts=False, bad=True)

    def _word_of(self, node: CloudNode) -> NodeView | None:
        """An unpaired node lives while a record that only it can be pinging is pinged (D7).

        A record that lost its claim, or a node that lost a tag, pairs no more; the node works on.
        """
        if self._records is None:
            self._records = _by_node(self.history.records.items if self.history.records else ())
        clock, snapshot, settings = self.clock, self.snapshot, self.settings
        for record in (
            *self._records.get(node.id, ()),
            *self._records.get(node.tags.record or "", ()),
        ):
            mine = record.instance_id == node.id or (
                record.instance_id is None and bears(node, record)
            )
            if not mine or clock is None or record.last_ping_at is None:
                continue
            age_s = clock.age(record.last_ping_at, snapshot.now)
            if age_s > settings.node_stale_after:
                continue
            state = worker_state(record, clock, snapshot.now, settings)
            reason = Reason.BUSY if state is WorkerState.BUSY else Reason.WORKER_UNKNOWN
            verdict = keep(node.id, reason, record=record.uuid, age_s=age_s)
            return NodeView(node, verdict, WorkerState.UNKNOWN)
        return None


def _by_node(records: tuple[Record, ...]) -> dict[str, list[Record]]:
    """Records by the instance id that pings them, else by uuid."""
    by_node: dict[str, list[Record]] = {}
    for record in records:
        by_node.setdefault(record.instance_id or record.uuid, []).append(record)
    return by_node


def _outside(node: CloudNode, verdict: Verdict) -> NodeView:
    return NodeView(node, verdict, WorkerState.UNKNOWN, counts=False)


@dataclass(frozen=True, slots=True)
class ShutdownOrder:
    """One node to destroy, and what was judged. `not_after` is CLOCK_BOOTTIME.

    A `cancellable` shutdown is one that a change of demand or state undoes (D2).
    """

    node_id: str
    name: str
    size: str | None
    reason: Reason
    plan_id: str
    breaker_generation: int
    not_after: float
    created_at: float | None
    record: str | None
    record_version: str | None
    incarnation: str | None
    slot: int | None = None
    hostname: str | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cancellable(self) -> bool:
        return self.reason is Reason.IDLE_BEYOND_DEMAND


def order_shutdown(view: NodeView, snapshot: Snapshot) -> ShutdownOrder:
    """The order that a SHUTDOWN verdict calls for."""
    record, node = view.record, view.node
    return ShutdownOrder(
        node_id=node.id,
        name=node.name,
        size=node.size,
        reason=view.verdict.reason,
        plan_id=snapshot.plan_id,
        breaker_generation=snapshot.breaker.generation,
        not_after=snapshot.now + ORDER_TTL_S,
        created_at=node.created_at,
        record=record.uuid if record else node.tags.record,
        record_version=record.version if record else None,
        incarnation=node.tags.incarnation or (record.incarnation if record else None),
        slot=record.slot_number if record else None,
        hostname=record.hostname if record else None,
        measures=view.verdict.measures or {},
    )


@dataclass(frozen=True, slots=True)
class ShutdownEvidence:
    """What was found right before a destroy: the record as it is now (D2).

    `error` is set when the record could not be read; `record` is None when there is none.
    """

    record: Record | None
    error: str | None = None


def confirm_shutdown(
    order: ShutdownOrder,
    found: ShutdownEvidence,
    snapshot: Snapshot,
    settings: Settings,
    *,
    wanted: bool,
) -> Verdict:
    """The last word before the destroy: SHUTDOWN, or KEEP with what forbids it now (D2).

    `wanted` says that the newest plan would boot a node of this size.
    """
    node_id = order.node_id
    if found.error is not None:
        return keep(node_id, Reason.EVIDENCE_MISSING, error=found.error)
    if snapshot.now > order.not_after:
        return keep(node_id, Reason.ORDER_EXPIRED, late_s=snapshot.now - order.not_after)
    if snapshot.breaker.is_open or snapshot.breaker.generation != order.breaker_generation:
        return keep(node_id, Reason.BREAKER_OPEN)
    block = standing_block(snapshot, settings)
    if block is not None:
        return keep(node_id, block[0], **block[1])
    if node_id in snapshot.holds or (order.record is not None and order.record in snapshot.holds):
        return keep(node_id, Reason.HELD)
    record, listed = found.record, snapshot.history.present.get(node_id)
    if (record is not None and record.held) or (listed is not None and listed.held):
        return keep(node_id, Reason.HELD)
    if order.reason is Reason.NODE_STOPPED and (
        listed is not None and listed.state is not CloudState.STOPPED
    ):
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="it runs again")
    if order.reason is Reason.UNPAIRED:
        if record is not None and (
            record.incarnation == order.incarnation or record.instance_id == node_id
        ):
            return keep(node_id, Reason.NO_LONGER_WANTED, detail="it has its record again")
    elif order.reason is Reason.IDLE_BEYOND_DEMAND:
        clock = snapshot.history.clock
        if record is None or record.incarnation != order.incarnation:
            return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="its record is another's")
        if worker_state(record, clock, snapshot.now, settings) is not WorkerState.IDLE:
            return keep(node_id, Reason.NO_LONGER_WANTED, detail="it is not idle any more")
        if wanted:
            return keep(node_id, Reason.NO_LONGER_WANTED, detail="demand came back")
    elif order.reason in BY_HAND:
        undone = called_off(order, record, snapshot, settings)
        if undone is not None:
            return undone
    elif order.record is not None and not _still_bad(order, record, snapshot, settings):
        return keep(node_id, Reason.CHANGED_SINCE_PLAN, detail="its record changed")
    return Verdict(Kind.SHUTDOWN, order.reason, node_id, order.measures)


def _still_bad(
    order: ShutdownOrder, record: Record | None, snapshot: Snapshot, settings: Settings
) -> bool:
    """A silent node's record must not have moved: any word since is a sign of life.

    One that says `down` goes on saying so, and its record moves with each ping.
    """
    if record is None:
        return False
    if record.version == order.record_version:
        return True
    state = worker_state(record, snapshot.history.clock, snapshot.now, settings)
    return order.reason is Reason.NODE_DOWN and state is WorkerState.DOWN


@dataclass(frozen=True, slots=True)
class Destroyed:
    """A node whose destroy was sent; `denied_at` is when the cloud first called it unknown.

    Times are CLOCK_BOOTTIME.
    """

    order: ShutdownOrder
    sent_at: float
    denied_at: float | None = None


def judge_gone(
    destroyed: Destroyed, node: CloudNode | None, now: float, wall: float, settings: Settings
) -> tuple[Outcome, Destroyed]:
    """Whether a destroyed node is gone, from the answer to a question by id (D3).

    Terminated is gone. "No such node" is gone only `visible_after` past the node's launch, asked
    twice ASK_AGAIN_S apart; a cloud whose reads are consistent is believed at once.
    """
    if node is not None:
        outcome = Outcome.GONE if node.state is CloudState.TERMINATED else Outcome.ACCEPTED
        return outcome, replace(destroyed, denied_at=None)
    if settings.visible_after == 0:
        return Outcome.GONE, destroyed
    created_at = destroyed.order.created_at
    age_s = now - destroyed.sent_at
    if created_at is not None:
        # The launch is on the cloud's clock, which nobody measured: it may be off so much (A3).
        age_s = max(age_s, wall - created_at - CLOCK_STEP_S)
    if age_s <= settings.visible_after:
        return Outcome.UNKNOWN, destroyed
    if destroyed.denied_at is None:
        return Outcome.UNKNOWN, replace(destroyed, denied_at=now)
    gone = now - destroyed.denied_at >= ASK_AGAIN_S
    return (Outcome.GONE if gone else Outcome.UNKNOWN), destroyed
