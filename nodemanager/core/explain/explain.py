"""Explains the verdict on one record or node: each rule's answer, and when it could go.

It is pure, like the plan, and asks the judges' own checks. Its answers contain no secret. When: it
folds repeated listings, as if every poll until then answered and showed the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodemanager.core.explain.rules import (
    Earliest,
    Finding,
    RuleStatus,
    ask_later,
    ask_node,
    ask_record,
    blocking,
    earliest,
    plan_on_node,
    plan_on_record,
)
from nodemanager.core.judge.node_view import Subject
from nodemanager.core.judge.nodes import NodeFacts
from nodemanager.core.judge.records import RecordJudge
from nodemanager.core.model.annotations import NO_MARKS, Marks
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import CLOCK_AGREE_POLLS, Settings
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudNode, LeftoverKind, Listing, Record, StoreTime
from nodemanager.core.observe import history as histories
from nodemanager.core.observe import nodes_since
from nodemanager.core.observe.history import History
from nodemanager.core.observe.nodes_by_record import node_of
from nodemanager.core.observe.signs import age_of, classify, quiet_for, word_of
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.naming import Known, UnknownIdError
from nodemanager.core.plan.leftovers import LedgerState
from nodemanager.core.plan.plan import Plan, adopting, judged

TICK_S = 0.001
"""Seconds between the last polls, and the precision of a predicted moment."""


def focused(snapshot: Snapshot, nodes: Iterable[str], records: Iterable[str]) -> Snapshot:
    """The snapshot with listings of only these nodes and records, so that folding is cheap."""
    history, node_ids, uuids = snapshot.history, frozenset(nodes), frozenset(records)
    cloud, listed = history.cloud, history.records
    if cloud is None or listed is None:
        return snapshot
    return replace(
        snapshot,
        history=replace(
            history,
            cloud=replace(cloud, items=tuple(n for n in cloud.items if n.id in node_ids)),
            records=replace(listed, items=tuple(r for r in listed.items if r.uuid in uuids)),
            partial=tuple(node for node in history.partial if node.id in node_ids),
            unpaired={k: one for k, one in history.unpaired.items() if k in node_ids},
        ),
    )


def later(snapshot: Snapshot, settings: Settings, at: float) -> Snapshot:
    """The snapshot at `at` (CLOCK_BOOTTIME), with all listings repeated up to then.

    Polls come often enough that none grows stale, and at the end come as many in quick succession
    as any rule counts. Nodes that only an incomplete listing showed are not listed.
    """
    history = snapshot.history
    cloud, records = history.cloud, history.records
    if cloud is None or records is None:
        return snapshot
    pace = max(settings.poll_stale_after / 2, TICK_S)
    final = max(settings.absent_listings, CLOCK_AGREE_POLLS) + 1
    last = at - final * 2 * TICK_S
    moment = snapshot.now
    while moment < last:
        history = _polled(history, cloud.items, records.items, moment, settings)
        moment += pace
    for number in range(final):
        moment = max(last, snapshot.now) + (number + 1) * 2 * TICK_S
        history = _polled(history, cloud.items, records.items, moment, settings)
    return replace(
        snapshot,
        now=moment,
        wall=snapshot.wall + moment - snapshot.now,
        history=history,
        demand_at=None if snapshot.demand_at is None else moment,
    )


def _polled(
    history: History,
    nodes: tuple[CloudNode, ...],
    records: tuple[Record, ...],
    at: float,
    settings: Settings,
) -> History:
    """The history after one more poll of each source; the cloud's at `at`, the records' before."""
    before = at - TICK_S
    clock = history.clock
    if clock is not None:
        reading = StoreTime(clock.now(before), before, clock.error_s)
        history = histories.store_clock_read(history, reading)
    history = histories.store_answered(history, before, settings)
    history = histories.records_listed(history, Listing(records, before, before), settings)
    history = histories.cloud_poll_started(history)
    history = histories.cloud_listed(history, Listing(nodes, at, at), settings)
    return nodes_since.pairing_seen(history, tuple(history.unpaired), at, new_records=True)


APPLY, DRY_RUN, STANDBY = "apply", "dry-run", "standby"
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one decision did what it did with one record or node.

    `subject` is `record` or `node`; `wall` (epoch seconds) and `now` (CLOCK_BOOTTIME) are the
    snapshot's. `state` is a record's by T7, or a node's worker state. `rivals` are the other
    candidates of an ambiguous pair.
    """

    subject: str
    id: str
    pool: str
    plan_id: str
    now: float
    wall: float
    mode: str
    verdict: Verdict
    state: str
    record: Facts | None
    node: Facts | None
    rivals: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    earliest: Earliest = field(default_factory=lambda: Earliest(None))

    @property
    def blocks(self) -> list[Finding]:
        return blocking(self.findings)


def explain(
    snapshot: Snapshot, made: Plan, settings: Settings, given: str, *, mode: str = APPLY
) -> Explanation:
    """Why the plan `made` from `snapshot` decided as it did about what `given` names (naming.py).

    Raises UnknownIdError.
    """
    subject = find(snapshot, made, given)
    if made.aborted is not None:
        return _aborted(snapshot, made, settings, subject, mode)
    snapshot = judged(made, snapshot)
    settings = adopting(snapshot.history, settings)
    if isinstance(subject, Record):
        explained = _of_record(snapshot, made, settings, subject, mode)
    else:
        explained = _of_node(snapshot, made, settings, subject, mode)
    return explained if mode == APPLY else _without_writes(explained, mode)


# What is named.


def find(snapshot: Snapshot, made: Plan, given: str) -> Record | CloudNode:
    """The listed record or node that `given` names; for a node that is gone, its record.

    Raises UnknownIdError.
    """
    known = Known(snapshot.history, made.pairs)
    named = known.find(given)
    if named.id != named.record:
        for node in known.nodes:
            if node.id == named.id:
                return node
    for record in known.records:
        if record.uuid == named.record:
            return record
    raise UnknownIdError(f"no listing has {named.id} any more, and its record is another's")


def _of_decision(snapshot: Snapshot, made: Plan, settings: Settings, mode: str) -> dict[str, Any]:
    """What every explanation of a decision has."""
    plan_id, now, wall = made.plan_id, snapshot.now, snapshot.wall
    return {"pool": settings.pool, "plan_id": plan_id, "now": now, "wall": wall, "mode": mode}


def _id_of(one: Record | CloudNode) -> str:
    return one.uuid if isinstance(one, Record) else one.id


# Records.


def _of_record(
    snapshot: Snapshot, made: Plan, settings: Settings, record: Record, mode: str
) -> Explanation:
    uuid = record.uuid
    judge = RecordJudge(snapshot, settings, made.pairs, made.unlisted)
    verdict = next(one for one in made.records if one.id == uuid)
    impossible = made.impossible is not None and uuid in made.impossible.ids
    before, behind = plan_on_record(verdict, impossible, judge)
    findings = [*before, *ask_record(judge, record), *behind]
    rivals = made.pairs.ambiguous.get(uuid, ())
    node = made.pairs.node_of.get(uuid) or _listed_node(snapshot, record)
    when = _when_record(judge, record, findings, (*before, *behind))
    paired = record if uuid in made.pairs.node_of else None
    return Explanation(
        subject="record",
        id=uuid,
        **_of_decision(snapshot, made, settings, mode),
        verdict=verdict,
        state=classify(record, snapshot, settings).value,
        record=record_facts(record, snapshot, settings),
        node=None if node is None else node_facts(node, paired, snapshot, settings),
        rivals=rivals,
        findings=(*findings, *ask_later(judge, record)),
        earliest=when,
    )


def _listed_node(snapshot: Snapshot, record: Record) -> CloudNode | None:
    history = snapshot.history
    nodes_by_record = history.nodes_by_record.get(record.uuid, ())
    return (
        nodes_by_record[0]
        if nodes_by_record
        else node_of(record, history.nodes_by_record, history.present)
    )


def _when_record(
    judge: RecordJudge, record: Record, now: list[Finding], of_plan: Iterable[Finding]
) -> Earliest:
    if not blocking(now):
        return Earliest(0.0)
    snapshot, settings = judge.snapshot, judge.settings
    nodes = {node.id for node in snapshot.history.nodes_by_record.get(record.uuid, ())}
    near = focused(snapshot, {*nodes, record.instance_id or ""}, {record.uuid})
    standing = [one for one in of_plan if one.status is RuleStatus.BLOCKS]

    def ask_at(ahead: float) -> list[Finding]:
        decision = later(near, settings, snapshot.now + ahead)
        ahead_judge = RecordJudge(decision, settings, judge.pairs, judge.unlisted)
        # The caps of a cycle are free in the next one.
        waiting = [one for one in standing if one.why is not None]
        return [*waiting, *ask_record(ahead_judge, record)]

    return earliest(ask_at, TICK_S)


# Nodes.


def _of_node(
    snapshot: Snapshot, made: Plan, settings: Settings, node: CloudNode, mode: str
) -> Explanation:
    facts = NodeFacts(snapshot, settings, made.pairs)
    subject = facts.subject(node)
    record = subject.record
    view = next(one for one in made.views if one.node.id == node.id)
    of_plan = plan_on_node(subject, view.verdict, made, facts)
    findings = [*ask_node(facts, subject, made), *of_plan]
    return Explanation(
        subject="node",
        id=node.id,
        **_of_decision(snapshot, made, settings, mode),
        verdict=view.verdict,
        state=view.state.value,
        record=None if record is None else record_facts(record, snapshot, settings),
        node=node_facts(node, record, snapshot, settings),
        rivals=made.pairs.ambiguous.get(node.id, ()),
        findings=tuple(findings),
        earliest=_when_node(facts, subject, made, findings, of_plan),
    )


def _when_node(
    facts: NodeFacts, subject: Subject, made: Plan, now: list[Finding], of_plan: list[Finding]
) -> Earliest:
    if not blocking(now):
        return Earliest(0.0)
    snapshot, settings = facts.snapshot, facts.settings
    node = subject.node
    concerned = {
        one.uuid
        for one in snapshot.history.listed_records
        if one.uuid == node.tags.record or one.instance_id == node.id
    }
    if subject.record is not None:
        concerned.add(subject.record.uuid)
    near = focused(snapshot, {node.id}, concerned)
    standing = [one for one in of_plan if one.status is RuleStatus.BLOCKS and one.why is not None]

    def ask_at(ahead: float) -> list[Finding]:
        decision = later(near, settings, snapshot.now + ahead)
        then = NodeFacts(decision, settings, facts.pairs)
        return [*standing, *ask_node(then, then.subject(node), made)]

    return earliest(ask_at, TICK_S)


# For both.


def _without_writes(explained: Explanation, mode: str) -> Explanation:
    """The explanation with the finding that nothing is done in this mode (S3, L6)."""
    rule, reason, why = "S3", Reason.DRY_RUN, "not while the daemon runs with --dry-run"
    if mode == STANDBY:
        rule, reason, why = "L6", Reason.STANDBY, "not by this manager while another one acts"
    only = Finding(rule, "writes", "the daemon may write", RuleStatus.BLOCKS, reason, why=why)
    when = explained.earliest
    if explained.blocks:
        when = replace(when, in_s=None, why=(*when.why, why), not_before_s=when.in_s)
    else:
        when = Earliest(None, (why,))
    return replace(explained, findings=(*explained.findings, only), earliest=when)


def _aborted(
    snapshot: Snapshot, made: Plan, settings: Settings, subject: Record | CloudNode, mode: str
) -> Explanation:
    assert made.aborted is not None
    reason, measures, _ = made.aborted
    why = "not before there are listings to decide from"
    asks = "the listings are fit to decide from"
    rule = reason.rule or ""
    block = Finding(rule, "decided", asks, RuleStatus.BLOCKS, reason, measures, why)
    is_record = isinstance(subject, Record)
    return Explanation(
        subject="record" if is_record else "node",
        id=_id_of(subject),
        **_of_decision(snapshot, made, settings, mode),
        verdict=made.aborted.to(_id_of(subject)),
        state=classify(subject, snapshot, settings).value
        if isinstance(subject, Record)
        else subject.state.value,
        record=record_facts(subject, snapshot, settings) if isinstance(subject, Record) else None,
        node=None if isinstance(subject, Record) else node_facts(subject, None, snapshot, settings),
        findings=(block,),
        earliest=Earliest(None, (why,)),
    )


def record_facts(record: Record, snapshot: Snapshot, settings: Settings) -> Facts:
    """What the listing shows of a record: ages in seconds, and nothing secret."""
    clock, now = snapshot.history.clock, snapshot.now
    claim = record.claim

    def age(stamp: float | None) -> float | None:
        return None if stamp is None or clock is None else clock.age(stamp, now)

    return {
        "uuid": record.uuid,
        "slot": record.slot_number,
        "hostname": record.hostname,
        "address": record.ip_address,
        "pool": record.pool,
        "state": classify(record, snapshot, settings).value,
        "word": word_of(record, snapshot, settings).value,
        "instance_id": record.instance_id,
        "first_ping_s": age(record.first_ping_at),
        "last_ping_s": age(record.last_ping_at),
        "modified_s": age(record.modified_at),
        "quiet_s": quiet_for(record, snapshot),
        "claimed_s": None if claim is None else age(claim.at),
        "claimed_by": None if claim is None else claim.manager,
        "claimed_for": None if claim is None else record.hostname or claim.node_name,
        "incarnation": record.incarnation,
        "version": record.version,
        "held": record.held or record.uuid in snapshot.holds,
        "fenced": record.fenced,
        "problems": list(record.problems),
    }


def node_facts(
    node: CloudNode, record: Record | None, snapshot: Snapshot, settings: Settings
) -> Facts:
    """What the listing shows of a node that pairs with `record`."""
    return {
        "id": node.id,
        "name": node.name,
        "state": node.state.value,
        "raw_state": node.raw_state,
        "size": Sizes(settings.sizes).called(node, record),
        "age_s": age_of(node, record, snapshot),
        "pool": node.tags.pool,
        "record": node.tags.record,
        "incarnation": node.tags.incarnation,
        "addresses": list(node.addresses),
        "paired": record is not None,
        "held": node.held or node.id in snapshot.holds,
        "problems": list(node.problems),
    }


@dataclass(frozen=True)
class DecisionView:
    """One decision, the snapshot it was taken from, and what else is shown. Never changed.

    `took_s` is how long the decision took. `leftovers` counts what is still to be released.
    `account` and `store` are blank until cloud and store have named them (L5). `marks` are the
    operators' as they stand now; `undecided` says that an order or a changed configuration was
    taken after the decision.
    """

    snapshot: Snapshot
    made: Plan
    settings: Settings
    mode: str = APPLY
    took_s: float = 0.0
    marks: Marks = NO_MARKS
    leftovers: Mapping[tuple[LeftoverKind, LedgerState], int] = field(default_factory=dict)
    account: str = ""
    store: str = ""
    undecided: bool = False

    @property
    def shown_mode(self) -> str:
        """`mode` as it is shown: read-only while nothing may be written."""
        return self.mode if self.snapshot.read_only is None else "read-only"
