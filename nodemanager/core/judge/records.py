"""The judge of records: which to free, and why the others stay (SAFETY.md T7, C0-C12, C21, C22)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nodemanager.core.judge.preconditions import (
    Measured,
    RuleCheck,
    WaitHint,
    asked_by,
    rule_check,
    standing_block,
    until,
    until_released,
)
from nodemanager.core.model.reasons import BY_PING, Kind, Reason, having
from nodemanager.core.model.settings import CLOCK_AGREE_POLLS, Settings
from nodemanager.core.model.verdict import NOTHING_BEFORE, Objection, Verdict, keep
from nodemanager.core.model.world import CloudNode, Record, WorkerState
from nodemanager.core.observe import signs
from nodemanager.core.observe.listing_history import NOT_ABSENT
from nodemanager.core.observe.nodes_by_record import is_anothers, node_of
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.pools import not_ours
from nodemanager.core.observe.scheduled import is_up_in_scheduler
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.observe.unlisted import NOTHING, Unlisted, is_denied_for_good

Measures = dict[str, Any]
KEEP, PAIRED, FREE = Kind.KEEP, Reason.PAIRED, Reason.HOLDS_NOTHING
"""Looked up once, because these are the verdicts on most records."""
SAID_BY_PINGS = having(BY_PING)
QUIET_ENOUGH = until("idle_s", "window_s")


class RecordJudge:
    """Judges the records of one snapshot; built once per plan.

    It asks the checks of BY_ITSELF, then those of IN_TIME, both below.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        pairs: Pairs,
        unlisted: Unlisted = NOTHING,
        before: Mapping[str, Verdict] = NOTHING_BEFORE,
    ) -> None:
        self.unlisted = unlisted
        self.before = before
        self.snapshot = snapshot
        self.settings = settings
        self.pairs = pairs
        self.history = snapshot.history
        self.clock = snapshot.history.clock
        self.eligible: set[str] = set()
        """The uuids judged so far that would be freed if there were no `block` (B1)."""
        self.block = standing_block(snapshot, settings)
        if self.block is None and unlisted.short:
            self.block = Objection(Reason.LISTING_SHORT)
        self.partial_uuids = frozenset(
            node.tags.record for node in self.history.partial if node.tags.record is not None
        )
        self.partial_nodes = {node.id: node for node in self.history.partial}
        self._concerned = frozenset().union(
            *(snapshot.holds, snapshot.touched, snapshot.record_flights, snapshot.node_flights)
        )
        self._by_itself = asked_by(self, BY_ITSELF)
        self._paired = asked_by(self, [one for one in BY_ITSELF if not one.of_pairs])
        self._in_time = asked_by(self, IN_TIME)

    def judge(self, record: Record) -> Verdict:
        """The verdict on `record`: CLEAN or KEEP, and why (C0-C11, C21, C22, O3, P6)."""
        node, before = self.pairs.node_of.get(record.uuid), self.before.get(record.uuid)
        if (
            node is not None
            and before is not None
            and _stays_paired(record, node, before, self._concerned)
        ):
            return before
        for check in self._paired if record.uuid in self.pairs.node_of else self._by_itself:
            kept = check.ask(self, record)
            if kept is not None:
                return check.bears(kept)
        measures = self.quiet(record)
        uuid = record.uuid
        hand = self.snapshot.by_hand.get(uuid)
        pings_in_vain = False
        for in_time in self._in_time:
            kept = in_time.ask(self, record, measures)
            if kept is None or (hand is not None and hand.breaks(kept.reason)):
                continue
            if not self.waives(record, kept.reason):
                return in_time.bears(kept)
            pings_in_vain = True
        self.eligible.add(uuid)
        if self.block is not None:
            return self.block._replace(measures={**measures, **self.block.measures}).to(uuid)
        if hand is not None:
            return Verdict(Kind.CLEAN, Reason.CLEAN_BY_HAND, uuid, {**measures, **hand.measures()})
        if pings_in_vain:
            measures |= self.unlisted.verdicts[uuid].measures or {}
            return Verdict(Kind.CLEAN, Reason.PINGER_DENIED, uuid, measures)
        cause = Reason.CLAIM_EXPIRED if signs.waits_for_first_ping(record) else Reason.STALE_SLOT
        return Verdict(Kind.CLEAN, cause, uuid, measures)

    def waives(self, record: Record, reason: Reason) -> bool:
        """Whether `reason` rests on pings that no longer prove anything (P6)."""
        if reason not in SAID_BY_PINGS or record.uuid in self.snapshot.by_hand:
            return False
        return is_denied_for_good(self.unlisted.verdicts.get(record.uuid), self.settings)

    # The checks of BY_ITSELF: pool, marks, actions in flight, and the node.

    @rule_check(
        "T7",
        "all of it can be read",
        "not while part of it can't be read: look at it in the store",
        decisive=True,
    )
    def _readable(self, record: Record) -> Verdict | None:
        if record.problems:
            return keep(record.uuid, Reason.UNREADABLE, detail="; ".join(record.problems))
        return None

    @rule_check(
        "C0",
        "it belongs to this pool",
        "not by this manager: it is not of its pool",
        lambda judge, record: {"pool": record.pool, "ours": judge.settings.pool},
        decisive=True,
        of_pairs=True,
    )
    def _ours(self, record: Record) -> Verdict | None:
        settings = self.settings
        foreign = not_ours(record, settings.pool, settings.adopt_unclaimed)
        if foreign is not None:
            return keep(record.uuid, foreign, pool=record.pool)
        return None

    def _held_things(self, record: Record) -> Measured:
        held = {
            "slot": record.slot_number,
            "hostname": record.hostname,
            "address": record.ip_address,
            "first ping": record.first_ping_at,
            "last ping": record.last_ping_at,
            "claim": record.claim,
        }
        names = [name for name, value in held.items() if value is not None]
        return {"holds": ", ".join(names) or "nothing"}

    @rule_check(
        "C1",
        "it holds something",
        "it holds nothing to give back",
        _held_things,
        decisive=True,
        of_pairs=True,
    )
    def _holding(self, record: Record) -> Verdict | None:
        if not record.holds_anything:
            return _kept(record.uuid, FREE, None, self.before)
        return None

    @rule_check(
        "C9",
        "no operator holds it, nor the node it names",
        lambda judge, record, measures: until_released(
            judge.snapshot.holds, record, record.instance_id
        ),
    )
    def _free_of_holds(self, record: Record) -> Verdict | None:
        holds = self.snapshot.holds
        if record.held or (holds and (record.uuid in holds or record.instance_id in holds)):
            return keep(record.uuid, Reason.HELD)
        return None

    @rule_check(
        "C8", "listed since our last action for it", moot=lambda judge: not judge.snapshot.touched
    )
    def _untouched(self, record: Record) -> Verdict | None:
        """A listing that began before an action of ours ended does not show its effect (C8)."""
        if is_touched(record.uuid, self.snapshot):
            return keep(record.uuid, Reason.CHANGED_SINCE_LISTING)
        return None

    @rule_check(
        "C8",
        "no action of ours is in flight for it",
        lambda judge, record, measures: (
            "not while an action of ours is in flight for it "
            f"(it ends within {judge.settings.action_timeout:g} s)"
        ),
        moot=lambda judge: not judge.snapshot.record_flights and not judge.snapshot.node_flights,
    )
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

    @rule_check(
        "C12",
        "no fence locks its node out",
        "not while its node is fenced; the fence is lifted first",
        moot=lambda judge: judge.settings.compare_and_set,
    )
    def _not_fenced(self, record: Record) -> Verdict | None:
        """A fence locks the node out, so the record's quiet time proves nothing (C12)."""
        if record.fenced and not self.settings.compare_and_set:
            return Verdict(Kind.KEEP, Reason.FENCED, record.uuid)
        return None

    def _until_unpaired(self, record: Record, measures: Measured) -> WaitHint:
        node = self.pairs.node_of[record.uuid]
        if node.held or node.id in self.snapshot.holds:
            return until_released(self.snapshot.holds, node)
        return f"not while its node {node.id} is listed"

    @rule_check("C4", "no listed node is its pair", _until_unpaired)
    def _unpaired(self, record: Record) -> Verdict | None:
        node = self.pairs.node_of.get(record.uuid)
        if node is None:
            return None
        if node.held or node.id in self.snapshot.holds:
            return Verdict(KEEP, Reason.HELD, record.uuid, {"node": node.id}, "C9")
        return _kept(record.uuid, PAIRED, {"node": node.id}, self.before)

    @rule_check(
        "P2",
        "no two nodes are candidates for it",
        "not while more than one candidate is listed",
        moot=lambda judge: not judge.pairs.ambiguous,
    )
    def _unambiguous(self, record: Record) -> Verdict | None:
        uuid = record.uuid
        if uuid in self.pairs.ambiguous:
            return keep(uuid, Reason.AMBIGUOUS, nodes=self.pairs.ambiguous[uuid])
        return None

    @rule_check(
        "C4",
        "no listed node has its tags or its instance id",
        "not while its node {node} is listed",
        lambda judge, record: {"instance_id": record.instance_id},
    )
    def _unlisted(self, record: Record) -> Verdict | None:
        history, uuid = self.history, record.uuid
        if uuid in history.nodes_by_record or record.instance_id is not None:
            listed = node_of(record, history.nodes_by_record, history.present)
            if listed is not None:
                return keep(uuid, Reason.NODE_LISTED, node=listed.id, state=listed.state.value)
        return None

    @rule_check(
        "C4", "no incomplete listing showed its node", moot=lambda judge: not judge.history.partial
    )
    def _unseen(self, record: Record) -> Verdict | None:
        named = self.partial_nodes.get(record.instance_id or "")
        is_named = named is not None and not is_anothers(named, record)
        if record.uuid in self.partial_uuids or is_named:
            return keep(record.uuid, Reason.NODE_LISTED, detail="seen in an incomplete listing")
        return None

    @rule_check(
        "P4",
        "no node was just created for it",
        until("age_s", "limit_s"),
        moot=lambda judge: not judge.snapshot.expected,
    )
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

    def _clock_read(self, record: Record) -> Measured:
        agreed = {"agreed_polls": 0, "needed_polls": CLOCK_AGREE_POLLS}
        if self.clock is None:
            return agreed
        read_s = self.snapshot.now - self.clock.read_at
        limit_s = self.settings.poll_stale_after
        return {**agreed, "agreed_polls": self.clock.agreed, "read_s": read_s, "limit_s": limit_s}

    def _until_clock_read(self, record: Record, measures: Measured) -> WaitHint:
        return 0.0 if self.clock is not None else "not before the store's clock was read"

    @rule_check("T1", "the store's clock is known and steady", _until_clock_read, _clock_read)
    def _on_a_known_clock(self, record: Record) -> Verdict | None:
        if signs.trusted_clock(self.snapshot, self.settings) is None:
            return keep(record.uuid, Reason.CLOCK_UNKNOWN)
        return None

    @rule_check(
        "T7", "it says when it was last written", "not while the store gives no modified_at for it"
    )
    def _dated(self, record: Record) -> Verdict | None:
        if signs.newest_sign(record) is None:
            return keep(record.uuid, Reason.UNREADABLE)
        return None

    # The checks of IN_TIME; they take, and some extend, the measures so far.

    def timeless(self, record: Record) -> str | None:
        """Why it can't be measured how long the record has been quiet, or None."""
        if self._on_a_known_clock.ask(self, record) is not None:
            return "the store's clock can't be told"
        return None if signs.newest_sign(record) is not None else "nothing says when it was written"

    def quiet(self, record: Record) -> Measures:
        """How long the record has been quiet, and its window (C3, C21)."""
        quiet_s = signs.quiet_for(record, self.snapshot)
        return {"idle_s": quiet_s, "window_s": signs.window_of(record, self.settings)}

    def _denial(self, record: Record) -> Measured:
        verdict = self.unlisted.verdicts.get(record.uuid)
        return {} if verdict is None else dict(verdict.measures or {})

    def _until_denied(self, record: Record, measures: Measured) -> WaitHint:
        if self.unlisted.verdicts[record.uuid].reason is Reason.PINGING_UNLISTED:
            return QUIET_ENOUGH(self, record, self.quiet(record))
        return "not while the cloud, asked by id, has its node"

    @rule_check(
        "P6",
        "if it is pinged with its node unlisted, the cloud denies the node",
        _until_denied,
        _denial,
        moot=lambda judge: not judge.unlisted.verdicts,
        unasked=timeless,
    )
    def _denied(self, record: Record, measures: Measures) -> Verdict | None:
        """A node found by the cloud keeps the record, a denied one only within its window (P6)."""
        found = self.unlisted.verdicts.get(record.uuid)
        if found is not None and (
            found.reason is not Reason.PINGING_UNLISTED
            or measures["idle_s"] <= measures["window_s"]
        ):
            return found._replace(measures={**measures, **(found.measures or {})})
        return None

    @rule_check(
        "C3", "quiet for strictly longer than its window", QUIET_ENOUGH, quiet, unasked=timeless
    )
    def _past_its_window(self, record: Record, measures: Measures) -> Verdict | None:
        quiet_s, window_s = measures["idle_s"], measures["window_s"]
        if not quiet_s > window_s:
            if signs.waits_for_first_ping(record):
                return Verdict(KEEP, Reason.CLAIM_WITHIN_WINDOW, record.uuid, measures, "C21")
            return Verdict(KEEP, Reason.WITHIN_WINDOW, record.uuid, measures)
        return None

    def _word(self, record: Record) -> Measured:
        word: Measures = {"state": signs.word_of(record, self.snapshot, self.settings).value}
        if self.clock is not None and record.last_ping_at is not None:
            word["last_ping_s"] = self.clock.age(record.last_ping_at, self.snapshot.now)
            word["window_s"] = self.settings.node_stale_after
        return word

    @rule_check(
        "C2",
        "its node has no fresh ping that says busy or idle",
        until("last_ping_s", "window_s"),
        _word,
        unasked=timeless,
    )
    def _not_at_work(self, record: Record, measures: Measures) -> Verdict | None:
        state = signs.word_of(record, self.snapshot, self.settings)
        if state is WorkerState.BUSY or state is WorkerState.IDLE:
            reason = Reason.BUSY if state is WorkerState.BUSY else Reason.IDLE
            return Verdict(Kind.KEEP, reason, record.uuid, measures)
        if is_up_in_scheduler(record, self.snapshot, self.settings):
            return Verdict(Kind.KEEP, Reason.UP_IN_SCHEDULER, record.uuid, measures)
        return None

    def _versions(self, record: Record) -> Measured:
        return {"version": record.version, "judged": self.history.base_index.get(record.uuid)}

    @rule_check(
        "C6",
        "unchanged since the record listing before the newest cloud listing",
        measure=_versions,
    )
    def _unchanged_since_base(self, record: Record, measures: Measures) -> Verdict | None:
        history, uuid = self.history, record.uuid
        if history.base is None or history.cloud is None:
            return Verdict(Kind.KEEP, Reason.NO_LISTING_ORDER, uuid, measures)
        if (
            history.base_index.get(uuid) != record.version
            or history.partially_listed.get(uuid, record.version) != record.version
            or uuid in history.vetoed
        ):
            return Verdict(Kind.KEEP, Reason.CHANGED_SINCE_LISTING, uuid, measures)
        return None

    def _base_age(self, record: Record) -> Measured:
        base, limit_s = self.history.base, self.settings.poll_stale_after
        if base is None:
            return {}
        return {"age_s": self.snapshot.now - base.started_at, "limit_s": limit_s}

    def _no_base(self, record: Record) -> str | None:
        base = self.history.base
        return None if base is not None else "there is no record listing to judge on"

    @rule_check("C7", "that record listing is fresh", measure=_base_age, unasked=_no_base)
    def _on_a_fresh_base(self, record: Record, measures: Measures) -> Verdict | None:
        history, limit_s = self.history, self.settings.poll_stale_after
        assert history.base is not None
        age_s = self.snapshot.now - history.base.started_at
        if age_s > limit_s:
            newest = history.records or history.base
            # With fresh records, what is missing is a cloud listing that began after them.
            fresh = self.snapshot.now - newest.started_at <= limit_s
            measures |= {
                "source": "cloud" if fresh else "records",
                "age_s": age_s,
                "limit_s": limit_s,
            }
            return Verdict(Kind.KEEP, Reason.POLL_STALE, record.uuid, measures)
        return None

    def _absent_for(self, record: Record) -> Measured:
        measures: Measures = {}
        self._settled.ask(self, record, measures)
        return measures

    def _until_settled(self, record: Record, measures: Measured) -> WaitHint:
        absence = self.history.absence.get(record.uuid)
        if absence is None or absence.incarnation != record.incarnation:
            return self.settings.settle
        return absence.first_at + self.settings.settle - self.snapshot.now

    @rule_check(
        "C5", "its node is absent from enough listings, for settle", _until_settled, _absent_for
    )
    def _settled(self, record: Record, measures: Measures) -> Verdict | None:
        absence = self.history.absence.get(record.uuid)
        if absence is None or absence.incarnation != record.incarnation:
            absence = NOT_ABSENT
        measures |= absence.measured(self.settings)
        if not absence.has_settled(self.settings):
            return Verdict(Kind.KEEP, Reason.NOT_SETTLED, record.uuid, measures)
        return None

    def _askable_by(self, record: Record) -> Measured:
        by = ["tag"] if record.claim is not None else []
        by += ["instance id"] if record.instance_id is not None else []
        return {"asked_by": " and ".join(by) or "nothing"}

    @rule_check(
        "C11",
        "there is a tag or an instance id to ask the cloud by",
        "not by itself: there is no tag or id to ask by, so an operator must decide",
        _askable_by,
    )
    def _verifiable(self, record: Record, measures: Measures) -> Verdict | None:
        """A record with neither claim nor valid instance id can't be asked for (C11)."""
        if record.claim is not None:
            return None
        node_id = record.instance_id
        answer = self.history.asked.get(node_id or "")
        if node_id is None or (answer is not None and answer.malformed):
            return Verdict(Kind.KEEP, Reason.UNVERIFIABLE, record.uuid, measures)
        return None


def _stays_paired(
    record: Record, node: CloudNode, before: Verdict, concerned: frozenset[str]
) -> bool:
    """Whether a record that was kept as paired with the node still is, by all checks, too.

    `concerned` are the ids of all records and nodes that something besides the polls concerns.
    """
    if before.reason is not PAIRED or (before.measures or {}).get("node") != node.id:
        return False
    if record.held or record.fenced or record.problems or node.held:
        return False
    return not concerned or concerned.isdisjoint((record.uuid, record.instance_id, node.id))


def _kept(
    uuid: str, reason: Reason, measures: Measures | None, before: Mapping[str, Verdict]
) -> Verdict:
    """The verdict to keep it, and the very one before if that is the same."""
    known = before.get(uuid)
    if known is not None and known.reason is reason and known.measures == measures:
        return known
    return Verdict(KEEP, reason, uuid, measures, reason.rule)


def is_touched(uuid: str, snapshot: Snapshot) -> bool:
    """Whether the newest record listing may not show our last action for the record (C8)."""
    touched_at, records = snapshot.touched.get(uuid), snapshot.history.records
    return touched_at is not None and records is not None and records.started_at <= touched_at


ByItself = Callable[[RecordJudge, Record], Verdict | None]
InTime = Callable[[RecordJudge, Record, Measures], Verdict | None]

BY_ITSELF: tuple[RuleCheck[ByItself], ...] = (
    RecordJudge._readable,
    RecordJudge._ours,
    RecordJudge._holding,
    RecordJudge._free_of_holds,
    RecordJudge._untouched,
    RecordJudge._not_in_flight,
    RecordJudge._not_fenced,
    RecordJudge._unpaired,
    RecordJudge._unambiguous,
    RecordJudge._unlisted,
    RecordJudge._unseen,
    RecordJudge._unexpected,
    RecordJudge._on_a_known_clock,
    RecordJudge._dated,
)
"""The checks that do not depend on quiet time; the first that returns a verdict decides."""

IN_TIME: tuple[RuleCheck[InTime], ...] = (
    RecordJudge._denied,
    RecordJudge._past_its_window,
    RecordJudge._not_at_work,
    RecordJudge._unchanged_since_base,
    RecordJudge._on_a_fresh_base,
    RecordJudge._settled,
    RecordJudge._verifiable,
)
"""The checks of a record whose quiet time is known; after them the preconditions of every free."""
