"""When a record gives its slot back, and why not yet (SAFETY.md T7, C0-C12, C20-C22)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.bearers import bears, node_of
from nodemanager.core.evidence import Grounds, grounds_of
from nodemanager.core.marks import UNVERIFIABLE, HandClean
from nodemanager.core.model import CloudNode, CloudState, Record, RecordState, WorkerState
from nodemanager.core.pairing import Pairs
from nodemanager.core.pools import not_ours
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.settings import CLOCK_STEP_S, ORDER_TTL_S, Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.store_clock import StoreClock
from nodemanager.core.unlisted import NOTHING, Unlisted, look_for_unlisted
from nodemanager.core.verdict import Verdict, keep


def window_of(record: Record, settings: Settings) -> float:
    """The length of C3's window: C21's for a claim that never pinged."""
    if record.claim is not None and record.first_ping_at is None and record.last_ping_at is None:
        return settings.claim_window
    return settings.node_stale_after


def newest_sign(record: Record) -> float | None:
    """The newest of modified_at, last_ping_at and the claim, epoch seconds of the store (C3)."""
    if record.modified_at is None:
        return None
    newest = record.modified_at
    if record.last_ping_at is not None and record.last_ping_at > newest:
        newest = record.last_ping_at
    if record.claim is not None and record.claim.at > newest:
        newest = record.claim.at
    return newest


def quiet_for(record: Record, clock: StoreClock, snapshot: Snapshot) -> float | None:
    """Seconds the record has been quiet for, never too many; None where it can't be told.

    A version whose stamp was ahead of the store's clock counts from when it was first seen (T1).
    """
    newest = newest_sign(record)
    if newest is None:
        return None
    future = snapshot.history.future.get(record.uuid)
    age = clock.age(newest, snapshot.now)
    if clock.steps:
        # The newest stamp is not the greatest where the clock stepped back in between.
        for stamp in (record.modified_at, record.last_ping_at):
            if stamp is not None:
                age = min(age, clock.age(stamp, snapshot.now))
    if future is not None and (future.version, future.stamp) == (record.version, newest):
        return max(age, snapshot.now - future.seen_at)
    return age


def classify(record: Record, snapshot: Snapshot, settings: Settings) -> RecordState:
    """The record's one state (T7). Without a clock nothing is stale."""
    if record.problems:
        return RecordState.UNREADABLE
    if not record.holds_anything:
        return RecordState.CLEANED
    if newest_sign(record) is None:
        return RecordState.UNREADABLE
    clock = snapshot.history.clock
    quiet_s = None if clock is None else quiet_for(record, clock, snapshot)
    if quiet_s is not None and quiet_s > window_of(record, settings):
        return RecordState.STALE
    pinged = record.first_ping_at is not None or record.last_ping_at is not None
    return RecordState.IN_USE if pinged else RecordState.ASSIGNED


def worker_state(
    record: Record, clock: StoreClock | None, now: float, settings: Settings
) -> WorkerState:
    """The node's own word, while it is fresh; `unknown` otherwise (T6).

    A word from the future is none: nobody can tell how old it is (T1).
    """
    if clock is None or record.last_ping_at is None or record.worker_state is None:
        return WorkerState.UNKNOWN
    age_s = clock.age(record.last_ping_at, now)
    if age_s > settings.node_stale_after or age_s < -CLOCK_STEP_S - clock.error_s:
        return WorkerState.UNKNOWN
    return record.worker_state


def word_of(record: Record, snapshot: Snapshot, settings: Settings) -> WorkerState:
    """The same, by what we saw, too: a ping that stayed the newest for the whole window is old,
    though the store's clock was set back since and its stamp looks young."""
    history = snapshot.history
    heard = history.heard.get(record.uuid)
    silent_s = 0.0
    if heard is not None and heard.last_ping_at == record.last_ping_at:
        silent_s = history.answered_s - heard.answered_s
    if silent_s > settings.node_stale_after:
        return WorkerState.UNKNOWN
    return worker_state(record, history.clock, snapshot.now, settings)


def stale_poll(snapshot: Snapshot, settings: Settings) -> tuple[str, float] | None:
    """The first configured poll that is older than poll_stale_after, and its age (C7)."""
    history, now = snapshot.history, snapshot.now
    polls: list[tuple[str, float | None]] = [
        ("cloud", history.cloud.started_at if history.cloud else None),
        ("records", history.records.started_at if history.records else None),
    ]
    if settings.demand_polled:
        polls.append(("demand", snapshot.demand_at))
    for source, started_at in polls:
        age = float("inf") if started_at is None else now - started_at
        if age > settings.poll_stale_after:
            return source, age
    return None


def standing_block(
    snapshot: Snapshot, settings: Settings, *, polls: bool = True, breaker: bool = True
) -> tuple[Reason, Mapping[str, object]] | None:
    """What forbids every free and destroy at this moment, whichever record (C7, C10, L2, L5, O4).

    Without `polls` their age does not matter, without `breaker` an open breaker does not.
    """
    if not snapshot.lease:
        return Reason.NO_LEASE, {}
    if snapshot.read_only is not None:
        return Reason.READ_ONLY, {"detail": snapshot.read_only}
    if snapshot.paused is not None:
        return Reason.PAUSED, snapshot.paused.measures(snapshot.wall)
    if breaker and snapshot.breaker.cause is not None:
        return Reason.BREAKER_OPEN, {"cause": snapshot.breaker.cause.value}
    stale = stale_poll(snapshot, settings) if polls else None
    if stale is not None:
        return Reason.POLL_STALE, {
            "source": stale[0],
            "age_s": stale[1],
            "limit_s": settings.poll_stale_after,
        }
    if not settings.may_authorise:
        return Reason.NOT_AUTHORISED, {}
    return None


class RecordJudge:
    """Judges the records of one snapshot; built once per plan for what all records share."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        pairs: Pairs,
        unlisted: Unlisted = NOTHING,
    ) -> None:
        self.unlisted = unlisted
        self.snapshot = snapshot
        self.settings = settings
        self.pairs = pairs
        self.history = snapshot.history
        self.clock = snapshot.history.clock
        self.eligible: set[str] = set()
        """Judged so far, and to be freed but for what forbids every free (B1)."""
        self.block = standing_block(snapshot, settings)
        if self.block is None and unlisted.short:
            self.block = Reason.LISTING_SHORT, {}
        self.any_marks = bool(
            snapshot.holds or snapshot.touched or snapshot.record_flights or snapshot.node_flights
        )
        self.partial_uuids = frozenset(
            node.tags.record for node in self.history.partial if node.tags.record is not None
        )
        self.partial_ids = frozenset(node.id for node in self.history.partial)

    def judge(self, record: Record) -> Verdict:
        """Say whether `record` must give its slot back, and why (C0-C10, C20-C22)."""
        kept = self._kept_by_itself(record) or self._kept_by_its_node(record)
        if kept is not None:
            return kept
        clock = self.clock
        if clock is None or not clock.trusted_at(self.snapshot.now, self.settings.poll_stale_after):
            return keep(record.uuid, Reason.CLOCK_UNKNOWN)
        quiet_s = quiet_for(record, clock, self.snapshot)
        if quiet_s is None:
            return keep(record.uuid, Reason.UNREADABLE)
        window_s = window_of(record, self.settings)
        measures: dict[str, object] = {"idle_s": quiet_s, "window_s": window_s}
        never_pinged = record.first_ping_at is None and record.last_ping_at is None
        claimed = record.claim is not None and never_pinged
        found = self.unlisted.verdicts.get(record.uuid)
        if found is not None and (
            found.reason is not Reason.PINGING_UNLISTED or quiet_s <= window_s
        ):
            # The cloud's "no such node" frees nothing by itself; what it has keeps the record.
            return found._replace(measures={**measures, **(found.measures or {})})
        hand = self.snapshot.by_hand.get(record.uuid)
        forced = hand.forced if hand is not None else ()
        # A claim that never pinged is C21's, which nobody breaks: its node may be on its way.
        if not quiet_s > window_s and (claimed or "C3" not in forced):
            reason = Reason.CLAIM_WITHIN_WINDOW if claimed else Reason.WITHIN_WINDOW
            return Verdict(Kind.KEEP, reason, record.uuid, measures)
        state = word_of(record, self.snapshot, self.settings)
        if (state is WorkerState.BUSY or state is WorkerState.IDLE) and "C2" not in forced:
            reason = Reason.BUSY if state is WorkerState.BUSY else Reason.IDLE
            return Verdict(Kind.KEEP, reason, record.uuid, measures)
        return self._absent_and_permitted(record, claimed, measures, hand)

    def _kept_by_itself(self, record: Record) -> Verdict | None:
        settings = self.settings
        uuid = record.uuid
        if record.problems:
            return keep(uuid, Reason.UNREADABLE, detail="; ".join(record.problems))
        foreign = not_ours(record, settings.pool, settings.adopt_unclaimed)
        if foreign is not None:
            return keep(uuid, foreign, pool=record.pool)
        if not record.holds_anything:
            return Verdict(Kind.KEEP, Reason.HOLDS_NOTHING, uuid)
        if record.held:
            return keep(uuid, Reason.HELD)
        marked = self._marked(record) if self.any_marks else None
        if marked is None and self._is_fenced(record):
            return Verdict(Kind.KEEP, Reason.FENCED, uuid)
        return marked

    def _marked(self, record: Record) -> Verdict | None:
        """Kept for what an operator or an action of ours put on it, or on the node it names."""
        snapshot, uuid = self.snapshot, record.uuid
        if uuid in snapshot.holds or record.instance_id in snapshot.holds:
            return keep(uuid, Reason.HELD)
        touched_at = snapshot.touched.get(uuid)
        records = self.history.records
        if touched_at is not None and records is not None and records.started_at <= touched_at:
            return keep(uuid, Reason.CHANGED_SINCE_LISTING)
        flight = snapshot.record_flights.get(uuid)
        if flight is None and record.instance_id is not None:
            flight = snapshot.node_flights.get(record.instance_id)
        if flight is not None:
            return keep(
                uuid, Reason.IN_FLIGHT, action=flight.kind, age_s=snapshot.now - flight.since
            )
        return None

    def _is_fenced(self, record: Record) -> bool:
        """A fence keeps it quiet, and moved modified_at: that is not its node's silence (C12)."""
        return record.fenced and not self.settings.compare_and_set

    def _kept_by_its_node(self, record: Record) -> Verdict | None:
        history, uuid = self.history, record.uuid
        node = self.pairs.node_of.get(uuid)
        if node is not None:
            if node.held or node.id in self.snapshot.holds:
                return keep(uuid, Reason.HELD, node=node.id)
            return Verdict(Kind.KEEP, Reason.PAIRED, uuid, {"node": node.id})
        if uuid in self.pairs.ambiguous:
            return keep(uuid, Reason.AMBIGUOUS, nodes=self.pairs.ambiguous[uuid])
        if uuid in history.bearers or record.instance_id is not None:
            listed = node_of(record, history.bearers, history.present)
            if listed is not None:
                return keep(uuid, Reason.NODE_LISTED, node=listed.id, state=listed.state.value)
        if uuid in self.partial_uuids or record.instance_id in self.partial_ids:
            return keep(uuid, Reason.NODE_LISTED, detail="seen in an incomplete listing")
        expected = self.snapshot.expected.get(uuid)
        if expected is not None:
            age_s = self.snapshot.now - expected.since
            if age_s <= self.settings.boot_fail_after:
                return keep(
                    uuid,
                    Reason.NODE_EXPECTED,
                    node=expected.node_id,
                    age_s=age_s,
                    limit_s=self.settings.boot_fail_after,
                )
        return None

    def _absent_and_permitted(
        self,
        record: Record,
        claimed: bool,
        measures: dict[str, object],
        hand: HandClean | None = None,
    ) -> Verdict:
        """C5-C7, C10, and C11 where there is nothing to ask the cloud by, once its time is up."""
        history, settings, uuid = self.history, self.settings, record.uuid
        reason: Reason | None = None
        forced = hand.forced if hand is not None else ()
        absence = history.absence.get(uuid)
        if history.base is None or history.cloud is None:
            reason = Reason.NO_LISTING_ORDER
        elif (
            history.base_index.get(uuid) != record.version
            or history.glimpsed.get(uuid, record.version) != record.version
            or uuid in history.vetoed
        ):
            reason = Reason.CHANGED_SINCE_LISTING
        elif (age_s := self.snapshot.now - history.base.started_at) > settings.poll_stale_after:
            reason = Reason.POLL_STALE
            newest = history.records or history.base
            # Where newer records are at hand, it is a cloud listing after them that lacks.
            fresh = self.snapshot.now - newest.started_at <= settings.poll_stale_after
            measures |= {
                "source": "cloud" if fresh else "records",
                "age_s": age_s,
                "limit_s": settings.poll_stale_after,
            }
        else:
            if absence is None or absence.incarnation != record.incarnation:
                listings, absent_s = 0, 0.0
            else:
                listings, absent_s = absence.listings, absence.last_at - absence.first_at
            measures |= {
                "absent_listings": listings,
                "needed_listings": settings.absent_listings,
                "absent_s": absent_s,
                "settle_s": settings.settle,
            }
            unsettled = listings < settings.absent_listings or absent_s < settings.settle
            if unsettled and "C5" not in forced:
                reason = Reason.NOT_SETTLED
            elif record.claim is None and record.instance_id is None and UNVERIFIABLE not in forced:
                reason = Reason.UNVERIFIABLE
        if reason is not None:
            return Verdict(Kind.KEEP, reason, uuid, measures)
        self.eligible.add(uuid)
        if self.block is not None:
            return Verdict(Kind.KEEP, self.block[0], uuid, {**measures, **self.block[1]})
        if hand is not None:
            return Verdict(Kind.CLEAN, Reason.CLEAN_BY_HAND, uuid, {**measures, **hand.measures()})
        cause = Reason.CLAIM_EXPIRED if claimed else Reason.STALE_SLOT
        return Verdict(Kind.CLEAN, cause, uuid, measures)


@dataclass(frozen=True, slots=True)
class CleanOrder:
    """One clean to carry out: what was judged, and until when the judgement stands (C11).

    `exception` is AFTER_SHUTDOWN (C20) or CREATE_REFUSED (U6), whose own conditions take the
    place of the waived ones; then `version` is None and the version judged is the one re-read.
    `fenced` says that the node is locked out already and the fence has stood (C12), since
    `fenced_at`. `not_after` and that are CLOCK_BOOTTIME. `instance_id` is the node destroyed, or
    the one that pinged. `grounds` is what the plan judged, for the proof afterwards. `hand` is the
    operator's order that it carries out, and the rules they broke (O3).
    """

    uuid: str
    reason: Reason
    plan_id: str
    breaker_generation: int
    not_after: float
    version: str | None
    incarnation: str | None
    instance_id: str | None
    slot: int | None = None
    hostname: str | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)
    fenced: bool = False
    fenced_at: float | None = None
    grounds: Grounds | None = None
    hand: HandClean | None = None

    @property
    def forced(self) -> tuple[str, ...]:
        return self.hand.forced if self.hand is not None else ()

    @property
    def is_exception(self) -> bool:
        return self.reason in (Reason.AFTER_SHUTDOWN, Reason.CREATE_REFUSED)


@dataclass(frozen=True, slots=True)
class CleanEvidence:
    """What the cleaner found just before the write: the record and the cloud's answers (C11).

    `tagged` are the nodes that bear the record's uuid, None when the cloud did not answer;
    `by_id` is the answer for the instance id, with `asked_id` saying whether one was asked.
    """

    record: Record | None
    tagged: tuple[CloudNode, ...] | None
    by_id: CloudNode | None = None
    asked_id: bool = False
    error: str | None = None


def order_clean(
    record: Record, verdict: Verdict, snapshot: Snapshot, settings: Settings, place: int = 0
) -> CleanOrder:
    """The order that a CLEAN verdict calls for, the cycle's `place`th from 0 (C10)."""
    return CleanOrder(
        uuid=record.uuid,
        reason=verdict.reason,
        plan_id=snapshot.plan_id,
        breaker_generation=snapshot.breaker.generation,
        not_after=snapshot.now + ORDER_TTL_S,
        version=record.version,
        incarnation=record.incarnation,
        instance_id=record.instance_id,
        slot=record.slot_number,
        hostname=record.hostname,
        measures=verdict.measures or {},
        grounds=grounds_of(record, snapshot, settings, place),
        hand=snapshot.by_hand.get(record.uuid),
    )


def confirm_clean(
    order: CleanOrder, found: CleanEvidence, snapshot: Snapshot, settings: Settings
) -> Verdict:
    """The last word before the write: CLEAN, or KEEP with what forbids it now (C11).

    `snapshot` is of this moment, with the order's own flight left out.
    """
    uuid = order.uuid
    if found.error is not None or found.tagged is None:
        return keep(uuid, Reason.EVIDENCE_MISSING, error=found.error)
    record = found.record
    if record is None:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="the record is gone")
    standing = _still_permitted(order, record, snapshot, settings)
    if standing is not None:
        return standing
    alive = _sign_of_life(order, record, found, snapshot)
    if alive is not None:
        return alive
    if order.is_exception:
        return Verdict(Kind.CLEAN, order.reason, uuid, order.measures)
    return _still_stale(order, record, found, snapshot, settings)


def _still_permitted(
    order: CleanOrder, record: Record, snapshot: Snapshot, settings: Settings
) -> Verdict | None:
    """C0, C8-C10 and the order's own time, evaluated again."""
    uuid = order.uuid
    if snapshot.now > order.not_after:
        return keep(uuid, Reason.ORDER_EXPIRED, late_s=snapshot.now - order.not_after)
    if snapshot.breaker.generation != order.breaker_generation or snapshot.breaker.is_open:
        cause = snapshot.breaker.cause
        return keep(uuid, Reason.BREAKER_OPEN, cause=cause.value if cause else None)
    if record.problems:
        return keep(uuid, Reason.UNREADABLE, detail="; ".join(record.problems))
    foreign = not_ours(record, settings.pool, settings.adopt_unclaimed)
    if foreign is not None:
        return keep(uuid, foreign, pool=record.pool)
    if record.held or uuid in snapshot.holds or order.instance_id in snapshot.holds:
        return keep(uuid, Reason.HELD)
    if uuid in snapshot.record_flights:
        return keep(uuid, Reason.IN_FLIGHT, action=snapshot.record_flights[uuid].kind)
    block = standing_block(snapshot, settings, polls=not order.is_exception)
    return None if block is None else keep(uuid, block[0], **block[1])


def _sign_of_life(
    order: CleanOrder, record: Record, found: CleanEvidence, snapshot: Snapshot
) -> Verdict | None:
    uuid = order.uuid
    if order.version is not None and record.version != order.version:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, version=record.version, judged=order.version)
    if record.incarnation != order.incarnation:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="another incarnation")
    if order.is_exception and record.instance_id not in (None, order.instance_id):
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="another instance pings it")
    if order.is_exception and order.incarnation is None and record.instance_id is None:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="nothing says whose it is")
    pinged = record.first_ping_at is not None or record.last_ping_at is not None
    if order.reason is Reason.CREATE_REFUSED and pinged:
        return keep(uuid, Reason.CHANGED_SINCE_PLAN, detail="it was pinged after all")
    # The newest listing may have begun before the node was gone.
    listed = (
        node
        for node in snapshot.history.bearers.get(uuid, ())
        if not order.is_exception or node.id != order.instance_id
    )
    for node in (*(found.tagged or ()), *listed):
        # C20 asks for "no other node with its uuid"; C4 only for the incarnation's own.
        if _is_alive(node, order) and (order.is_exception or bears(node, record)):
            return keep(uuid, Reason.NODE_ALIVE, node=node.id, state=node.state.value)
    by_id = found.by_id
    if by_id is not None and _is_alive(by_id, order):
        return keep(uuid, Reason.NODE_ALIVE, node=by_id.id, state=by_id.state.value)
    return None


def _is_alive(node: CloudNode, order: CleanOrder) -> bool:
    """Whether the node holds the slot: C20 waives C4 for the one destroyed, which is on its way
    out in an answer that is late."""
    if order.reason is Reason.AFTER_SHUTDOWN and node.id == order.instance_id:
        return node.state not in (CloudState.STOPPING, CloudState.TERMINATED)
    return node.state is not CloudState.TERMINATED


def _still_stale(
    order: CleanOrder,
    record: Record,
    found: CleanEvidence,
    snapshot: Snapshot,
    settings: Settings,
) -> Verdict:
    uuid = order.uuid
    if record.instance_id is not None and not found.asked_id:
        return keep(uuid, Reason.EVIDENCE_MISSING, detail="not asked by its instance id")
    if record.claim is None and record.instance_id is None and UNVERIFIABLE not in order.forced:
        return keep(uuid, Reason.UNVERIFIABLE)
    if look_for_unlisted(snapshot, settings).short:
        return keep(uuid, Reason.LISTING_SHORT)
    clock = snapshot.history.clock
    if clock is None or not clock.trusted_at(snapshot.now, settings.poll_stale_after):
        return keep(uuid, Reason.CLOCK_UNKNOWN)
    quiet_s = quiet_for(record, clock, snapshot)
    window_s = window_of(record, settings)
    # The fence is a write of ours and no sign of life; what it must not hide was compared.
    within = not order.fenced and (quiet_s is None or not quiet_s > window_s)
    if within and (quiet_s is None or "C3" not in order.forced):
        return keep(uuid, Reason.WITHIN_WINDOW, idle_s=quiet_s, window_s=window_s)
    state = word_of(record, snapshot, settings)
    if state in (WorkerState.BUSY, WorkerState.IDLE) and "C2" not in order.forced:
        return keep(uuid, Reason.BUSY if state is WorkerState.BUSY else Reason.IDLE)
    first = record.first_ping_at
    if first is not None:
        since_s = clock.age(first, snapshot.now)
        if since_s < 0.0:
            # Ahead of a clock that was set back; but it is no younger than the last ping.
            since_s = max(quiet_s or 0.0, float(order.measures.get("idle_s", 0.0)))
        if since_s <= settings.visible_after:
            return keep(
                uuid, Reason.DENIED_TOO_EARLY, age_s=since_s, limit_s=settings.visible_after
            )
    elif not order.fenced and not (quiet_s or 0.0) > settings.claim_window:
        return keep(uuid, Reason.DENIED_TOO_EARLY, age_s=quiet_s, limit_s=settings.claim_window)
    return Verdict(Kind.CLEAN, order.reason, uuid, order.measures)


def order_release(
    uuid: str,
    reason: Reason,
    snapshot: Snapshot,
    *,
    incarnation: str | None,
    instance_id: str | None,
    slot: int | None = None,
    hostname: str | None = None,
) -> CleanOrder:
    """The clean that follows a shutdown of ours (C20) or a refused create (U6)."""
    return CleanOrder(
        uuid=uuid,
        reason=reason,
        plan_id=snapshot.plan_id,
        breaker_generation=snapshot.breaker.generation,
        not_after=snapshot.now + ORDER_TTL_S,
        version=None,
        incarnation=incarnation,
        instance_id=instance_id,
        slot=slot,
        hostname=hostname,
    )


def fenced_order(
    order: CleanOrder, judged: Record, fenced: Record, now: float
) -> CleanOrder | None:
    """The order as it stands behind the fence, or None when something moved before it (C12).

    The fence was the first write: not-after binds it, counted to its answer, and nothing after it.
    What must not have changed from here on is the fenced version.
    """
    if now > order.not_after:
        return None
    if (
        judged.last_ping_at != fenced.last_ping_at
        or judged.first_ping_at != fenced.first_ping_at
        or judged.slot_number != fenced.slot_number
        or judged.hostname != fenced.hostname
        or judged.ip_address != fenced.ip_address
        or judged.instance_id != fenced.instance_id
        or judged.claim != fenced.claim
    ):
        return None
    return replace(
        order, version=fenced.version, not_after=float("inf"), fenced=True, fenced_at=now
    )
