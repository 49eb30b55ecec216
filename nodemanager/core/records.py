"""When a record gives its slot back, and why not yet (SAFETY.md T7, C0-C12, C20-C22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodemanager.core.bearers import is_anothers, node_of
from nodemanager.core.checks import Check, asked_by
from nodemanager.core.model import Record, RecordState, WorkerState
from nodemanager.core.pairing import Pairs
from nodemanager.core.pools import not_ours
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.settings import CLOCK_STEP_S, Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.standing import standing_block
from nodemanager.core.store_clock import StoreClock
from nodemanager.core.unlisted import NOTHING, Unlisted, is_denied_for_good
from nodemanager.core.verdict import Verdict, keep


def window_of(record: Record, settings: Settings) -> float:
    """The length of C3's window: C21's for a claim that never pinged."""
    if record.claim is not None and record.first_ping_at is None and record.last_ping_at is None:
        return settings.window_of(record.claim)
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


def word_of(
    record: Record, snapshot: Snapshot, settings: Settings, at_least_s: float = 0.0
) -> WorkerState:
    """The node's own word, unless it is known to be old: what keeps its record (C2).

    It is old by its stamp, or by how long we saw no newer one, though the store's clock was set
    back since; one from the future counts from when we first saw it (T1). `at_least_s` is an age
    that was told before.
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


Measures = dict[str, Any]


class RecordJudge:
    """Judges the records of one snapshot; built once per plan for what all records share.

    What it asks, and in which order, stands in BY_ITSELF and IN_TIME below.
    """

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
        self.partial_uuids = frozenset(
            node.tags.record for node in self.history.partial if node.tags.record is not None
        )
        self.partial_nodes = {node.id: node for node in self.history.partial}
        self._by_itself = asked_by(self, BY_ITSELF)
        self._in_time = asked_by(self, IN_TIME)

    def judge(self, record: Record) -> Verdict:
        """Say whether `record` must give its slot back, and why (C0-C10, C20-C22, O3)."""
        for ask in self._by_itself:
            kept = ask(self, record)
            if kept is not None:
                return kept
        measures = self.quiet(record)
        uuid = record.uuid
        hand = self.snapshot.by_hand.get(uuid)
        pings_in_vain = False
        for ask_in_time in self._in_time:
            kept = ask_in_time(self, record, measures)
            if kept is None or (hand is not None and hand.breaks(kept.reason)):
                continue
            if not self.waives(record, kept.reason):
                return kept
            pings_in_vain = True
        self.eligible.add(uuid)
        if self.block is not None:
            return Verdict(Kind.KEEP, self.block[0], uuid, {**measures, **self.block[1]})
        if hand is not None:
            return Verdict(Kind.CLEAN, Reason.CLEAN_BY_HAND, uuid, {**measures, **hand.measures()})
        if pings_in_vain:
            measures |= self.unlisted.verdicts[uuid].measures or {}
            return Verdict(Kind.CLEAN, Reason.PINGER_DENIED, uuid, measures)
        cause = Reason.CLAIM_EXPIRED if self.is_waiting_claim(record) else Reason.STALE_SLOT
        return Verdict(Kind.CLEAN, cause, uuid, measures)

    def waives(self, record: Record, reason: Reason) -> bool:
        """Whether the pings of a record say nothing any more, that else keep it for this (P6)."""
        if reason not in SAID_BY_PINGS or record.uuid in self.snapshot.by_hand:
            return False
        return is_denied_for_good(self.unlisted.verdicts.get(record.uuid), self.settings)

    # What is asked first: whose it is, what was put on it, and where its node is.

    def _readable(self, record: Record) -> Verdict | None:
        if record.problems:
            return keep(record.uuid, Reason.UNREADABLE, detail="; ".join(record.problems))
        return None

    def _ours(self, record: Record) -> Verdict | None:
        settings = self.settings
        foreign = not_ours(record, settings.pool, settings.adopt_unclaimed)
        if foreign is not None:
            return keep(record.uuid, foreign, pool=record.pool)
        return None

    def _holding(self, record: Record) -> Verdict | None:
        if not record.holds_anything:
            return Verdict(Kind.KEEP, Reason.HOLDS_NOTHING, record.uuid)
        return None

    def _free_of_holds(self, record: Record) -> Verdict | None:
        holds = self.snapshot.holds
        if record.held or (holds and (record.uuid in holds or record.instance_id in holds)):
            return keep(record.uuid, Reason.HELD)
        return None

    def _untouched(self, record: Record) -> Verdict | None:
        """What ended after the listing began is not judged by that listing."""
        touched_at = self.snapshot.touched.get(record.uuid)
        records = self.history.records
        if touched_at is not None and records is not None and records.started_at <= touched_at:
            return keep(record.uuid, Reason.CHANGED_SINCE_LISTING)
        return None

    def _not_in_flight(self, record: Record) -> Verdict | None:
        snapshot = self.snapshot
        flight = snapshot.record_flights.get(record.uuid)
        if flight is None and record.instance_id is not None:
            flight = snapshot.node_flights.get(record.instance_id)
        if flight is not None:
            return keep(
                record.uuid, Reason.IN_FLIGHT, action=flight.kind, age_s=snapshot.now - flight.since
            )
        return None

    def _not_fenced(self, record: Record) -> Verdict | None:
        """A fence keeps it quiet, and moved modified_at: that is not its node's silence (C12)."""
        if record.fenced and not self.settings.compare_and_set:
            return Verdict(Kind.KEEP, Reason.FENCED, record.uuid)
        return None

    def _unpaired(self, record: Record) -> Verdict | None:
        node = self.pairs.node_of.get(record.uuid)
        if node is None:
            return None
        if node.held or node.id in self.snapshot.holds:
            return keep(record.uuid, Reason.HELD, node=node.id)
        return Verdict(Kind.KEEP, Reason.PAIRED, record.uuid, {"node": node.id})

    def _unambiguous(self, record: Record) -> Verdict | None:
        uuid = record.uuid
        if uuid in self.pairs.ambiguous:
            return keep(uuid, Reason.AMBIGUOUS, nodes=self.pairs.ambiguous[uuid])
        return None

    def _unlisted(self, record: Record) -> Verdict | None:
        history, uuid = self.history, record.uuid
        if uuid in history.bearers or record.instance_id is not None:
            listed = node_of(record, history.bearers, history.present)
            if listed is not None:
                return keep(uuid, Reason.NODE_LISTED, node=listed.id, state=listed.state.value)
        return None

    def _unseen(self, record: Record) -> Verdict | None:
        named = self.partial_nodes.get(record.instance_id or "")
        is_named = named is not None and not is_anothers(named, record)
        if record.uuid in self.partial_uuids or is_named:
            return keep(record.uuid, Reason.NODE_LISTED, detail="seen in an incomplete listing")
        return None

    def _unexpected(self, record: Record) -> Verdict | None:
        expected = self.snapshot.expected.get(record.uuid)
        if expected is not None and expected.node_id is not None:
            age_s = self.snapshot.now - expected.since
            if age_s <= self.settings.boot_fail_after:
                return keep(
                    record.uuid,
                    Reason.NODE_EXPECTED,
                    node=expected.node_id,
                    age_s=age_s,
                    limit_s=self.settings.boot_fail_after,
                )
        return None

    def _on_a_known_clock(self, record: Record) -> Verdict | None:
        clock = self.clock
        if clock is None or not clock.trusted_at(self.snapshot.now, self.settings.poll_stale_after):
            return keep(record.uuid, Reason.CLOCK_UNKNOWN)
        return None

    def _dated(self, record: Record) -> Verdict | None:
        if newest_sign(record) is None:
            return keep(record.uuid, Reason.UNREADABLE)
        return None

    # What is asked of one whose silence can be told, with what was measured of it so far.

    def is_waiting_claim(self, record: Record) -> bool:
        """Claimed, and its node never pinged (C21)."""
        return (
            record.claim is not None
            and record.first_ping_at is None
            and record.last_ping_at is None
        )

    def quiet(self, record: Record) -> Measures:
        """How long it has been quiet, and for how long it must (C3, C21)."""
        assert self.clock is not None
        quiet_s = quiet_for(record, self.clock, self.snapshot)
        return {"idle_s": quiet_s, "window_s": window_of(record, self.settings)}

    def _denied(self, record: Record, measures: Measures) -> Verdict | None:
        """The cloud's "no such node" frees nothing by itself; what it has keeps the record (P6)."""
        found = self.unlisted.verdicts.get(record.uuid)
        if found is not None and (
            found.reason is not Reason.PINGING_UNLISTED
            or measures["idle_s"] <= measures["window_s"]
        ):
            return found._replace(measures={**measures, **(found.measures or {})})
        return None

    def _past_its_window(self, record: Record, measures: Measures) -> Verdict | None:
        quiet_s, window_s = measures["idle_s"], measures["window_s"]
        if not quiet_s > window_s:
            claimed = self.is_waiting_claim(record)
            reason = Reason.CLAIM_WITHIN_WINDOW if claimed else Reason.WITHIN_WINDOW
            return Verdict(Kind.KEEP, reason, record.uuid, measures)
        return None

    def _not_at_work(self, record: Record, measures: Measures) -> Verdict | None:
        state = word_of(record, self.snapshot, self.settings)
        if state is WorkerState.BUSY or state is WorkerState.IDLE:
            reason = Reason.BUSY if state is WorkerState.BUSY else Reason.IDLE
            return Verdict(Kind.KEEP, reason, record.uuid, measures)
        return None

    def _unchanged_since_base(self, record: Record, measures: Measures) -> Verdict | None:
        history, uuid = self.history, record.uuid
        if history.base is None or history.cloud is None:
            return Verdict(Kind.KEEP, Reason.NO_LISTING_ORDER, uuid, measures)
        if (
            history.base_index.get(uuid) != record.version
            or history.glimpsed.get(uuid, record.version) != record.version
            or uuid in history.vetoed
        ):
            return Verdict(Kind.KEEP, Reason.CHANGED_SINCE_LISTING, uuid, measures)
        return None

    def _on_a_fresh_base(self, record: Record, measures: Measures) -> Verdict | None:
        history, limit_s = self.history, self.settings.poll_stale_after
        assert history.base is not None
        age_s = self.snapshot.now - history.base.started_at
        if age_s > limit_s:
            newest = history.records or history.base
            # Where newer records are at hand, it is a cloud listing after them that lacks.
            fresh = self.snapshot.now - newest.started_at <= limit_s
            measures |= {
                "source": "cloud" if fresh else "records",
                "age_s": age_s,
                "limit_s": limit_s,
            }
            return Verdict(Kind.KEEP, Reason.POLL_STALE, record.uuid, measures)
        return None

    def _settled(self, record: Record, measures: Measures) -> Verdict | None:
        settings = self.settings
        absence = self.history.absence.get(record.uuid)
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
        if listings < settings.absent_listings or absent_s < settings.settle:
            return Verdict(Kind.KEEP, Reason.NOT_SETTLED, record.uuid, measures)
        return None

    def _verifiable(self, record: Record, measures: Measures) -> Verdict | None:
        """C11 where there is nothing to ask the cloud by, once its time is up."""
        if record.claim is not None:
            return None
        node_id = record.instance_id
        answer = self.history.asked.get(node_id or "")
        if node_id is None or (answer is not None and answer.malformed):
            return Verdict(Kind.KEEP, Reason.UNVERIFIABLE, record.uuid, measures)
        return None


SAID_BY_PINGS = frozenset(
    {
        Reason.PINGING_UNLISTED,
        Reason.WITHIN_WINDOW,
        Reason.BUSY,
        Reason.IDLE,
        Reason.CHANGED_SINCE_LISTING,
    }
)
"""What a ping alone can make the judge say, by its stamps, its word or a version that moves."""

ByItself = Callable[[RecordJudge, Record], Verdict | None]
InTime = Callable[[RecordJudge, Record, Measures], Verdict | None]

BY_ITSELF: tuple[Check[ByItself], ...] = (
    Check("T7", "readable", RecordJudge._readable),
    Check("C0", "ours", RecordJudge._ours),
    Check("C1", "holding", RecordJudge._holding),
    Check("C9", "free_of_holds", RecordJudge._free_of_holds),
    Check("C8", "untouched", RecordJudge._untouched, lambda judge: not judge.snapshot.touched),
    Check(
        "C8",
        "not_in_flight",
        RecordJudge._not_in_flight,
        lambda judge: not judge.snapshot.record_flights and not judge.snapshot.node_flights,
    ),
    Check(
        "C12", "not_fenced", RecordJudge._not_fenced, lambda judge: judge.settings.compare_and_set
    ),
    Check("C4", "unpaired", RecordJudge._unpaired),
    Check("P2", "unambiguous", RecordJudge._unambiguous, lambda judge: not judge.pairs.ambiguous),
    Check("C4", "unlisted", RecordJudge._unlisted),
    Check("C4", "unseen", RecordJudge._unseen, lambda judge: not judge.history.partial),
    Check("P4", "unexpected", RecordJudge._unexpected, lambda judge: not judge.snapshot.expected),
    Check("T1", "on_a_known_clock", RecordJudge._on_a_known_clock),
    Check("T7", "dated", RecordJudge._dated),
)
"""What keeps a record whatever its silence; the first that has a word is the verdict."""

IN_TIME: tuple[Check[InTime], ...] = (
    Check("P6", "denied", RecordJudge._denied, lambda judge: not judge.unlisted.verdicts),
    Check("C3", "past_its_window", RecordJudge._past_its_window),
    Check("C2", "not_at_work", RecordJudge._not_at_work),
    Check("C6", "unchanged_since_base", RecordJudge._unchanged_since_base),
    Check("C7", "on_a_fresh_base", RecordJudge._on_a_fresh_base),
    Check("C5", "settled", RecordJudge._settled),
    Check("C11", "verifiable", RecordJudge._verifiable),
)
"""What keeps one whose silence can be told. Behind them stands what forbids every free."""
