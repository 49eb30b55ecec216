"""Whether a pool is at rest, from one snapshot: what `nodemanager verify` tells.

Every number, list and reason is of the one decision given. Pure, like the plan it reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from nodemanager.core.explain.explain import DecisionView
from nodemanager.core.judge.node_view import OUTSIDE, NodeView
from nodemanager.core.judge.preconditions import STANDING
from nodemanager.core.model.changed import changed
from nodemanager.core.model.reasons import BOOT, NODE, POOL, RECORD, Outlook, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Objection, Verdict
from nodemanager.core.model.world import CloudNode, Record
from nodemanager.core.observe.history import freed_since_listed
from nodemanager.core.observe.nodes_by_record import each_once
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan, adopting, judged
from nodemanager.core.plan.slots import CLAIM_WITHOUT_SLOT, Holder, holder_of, is_leaked
from nodemanager.core.plan.summary import place_of

# Sums that the numbers of one decision must satisfy: counts of one thing, made in two ways.


@dataclass(frozen=True, slots=True)
class Sum:
    """A number and what must make it up; with `at_most` the parts may come to less."""

    name: str
    whole: int
    parts: Mapping[str, int]
    at_most: bool = False

    @property
    def is_possible(self) -> bool:
        total = sum(self.parts.values())
        if any(count < 0 for count in self.parts.values()):
            return False
        return total <= self.whole if self.at_most else total == self.whole

    @property
    def measures(self) -> dict[str, object]:
        relation = "at most" if self.at_most else "exactly"
        return {"sum": self.name, relation.replace(" ", "_"): self.whole, **self.parts}


def sums(
    made: Plan, snapshot: Snapshot, nodes: Mapping[str, int], pending: Collection[str]
) -> Iterator[Sum]:
    """The sums of a decision; `nodes` counts the listed ones, `pending` are records of future ones.

    The plan's own counts are made by other code than `nodes`.
    """
    cloud = snapshot.history.cloud
    assert cloud is not None
    listed = len(each_once(cloud.items, snapshot.history.nodes_twice))
    yield Sum("nodes listed", listed, nodes)
    ours = {name: count for name, count in nodes.items() if name not in ("foreign", "gone")}
    yield Sum("nodes of the pool", made.counts.get("nodes", 0), ours)
    booting = sum(place_of(view) == "booting" for view in made.views)
    coming = {"listed": booting, "claims": len(pending), "set-ups": len(snapshot.boots_unclaimed)}
    to_come = made.counts.get("nodes_booting", 0) + made.counts.get("nodes_unlisted", 0)
    yield Sum("nodes to come", to_come, coming)
    paired = [view.record.uuid for view in made.views if place_of(view) and view.record is not None]
    yield Sum("pairs", made.counts.get("nodes_paired", 0), {"records": len(set(paired))})
    if made.slots is None:
        return
    held = sum(record.slot_number is not None for record in snapshot.history.listed_records)
    holders = {
        name: count for name, count in made.slots.held_by.items() if name != CLAIM_WITHOUT_SLOT
    }
    yield Sum("slots held", held, holders)
    if snapshot.slots is not None:
        yield Sum("slots", snapshot.slots, {"held": held}, at_most=True)


NAMES = {
    Outlook.SETTLED: "up",
    Outlook.SETTLING: "settling",
    Outlook.STUCK: "stuck",
    Reason.HELD: "held",
    Reason.UNTAGGED: "untagged",
    Reason.FOREIGN_NODE: "foreign",
    Reason.NODE_ABSENT: "gone",
}
"""What listed nodes are counted under: by their reason if it is here, else by their outlook."""


class What(StrEnum):
    """What an item is about."""

    POOL = "pool"
    NODE = "node"
    RECORD = "record"
    BOOT = "boot"


@dataclass(frozen=True, slots=True)
class VerifiedItem:
    """One thing that is or isn't at rest, and why.

    `id` is a node's id, a record's uuid, or a size's name for boots; None for the pool. `count` is
    more than 1 only for boots.
    """

    what: What
    outlook: Outlook
    reason: Reason
    id: str | None = None
    host: str | None = None
    slot: int | None = None
    count: int = 1
    measures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verification:
    """What one decision shows. `age_s` is its age when it was asked for.

    `open` are the items that are stuck, then those that are settling; `held` are the nodes and
    records on hold. Foreign nodes, and slots whose window still runs, are only counted. Before the
    first decision `plan` is empty, and `at` (epoch seconds) is None.
    """

    outlook: Outlook
    open: tuple[VerifiedItem, ...]
    pool: str = ""
    plan: str = ""
    mode: str = ""
    at: float | None = None
    age_s: float | None = None
    held: tuple[VerifiedItem, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    slots: Mapping[str, int | None] = field(default_factory=dict)
    boots: Mapping[str, int] = field(default_factory=dict)


def _of_pool(block: Objection) -> VerifiedItem:
    return VerifiedItem(
        What.POOL, block.reason.outlooks[POOL], block.reason, measures=block.measures
    )


NO_DECISION = Verification(Outlook.SETTLING, (_of_pool(Objection(Reason.NO_LISTING)),))
"""What a daemon tells before its first decision."""


def verify(decision: DecisionView, now: float, *, allow_empty: bool = False) -> Verification:
    """What the newest decision shows at `now` (CLOCK_BOOTTIME); `allow_empty` if no node is fine.

    The pool is stuck if anything in it is, else settling if anything is, and otherwise settled.
    """
    made, settings = decision.made, adopting(decision.snapshot.history, decision.settings)
    if decision.undecided:
        return _verification(decision, settings, now, [_of_pool(Objection(Reason.UNDECIDED))])
    if made.aborted is not None:
        return _verification(decision, settings, now, [_of_pool(made.aborted)])
    snapshot = judged(made, decision.snapshot)
    pending = made.pending
    listed = [_of_node(view, snapshot) for view in made.views]
    nodes = Counter(dict.fromkeys(NAMES.values(), 0))
    nodes.update(NAMES.get(one.reason) or NAMES[one.outlook] for one in listed)
    items = [
        *_of_standing(snapshot, settings, now),
        *_of_contradictions(made, snapshot),
        *listed,
        *_of_records(made, snapshot, settings, pending),
        *_of_boots(made, snapshot),
    ]
    for one in sums(made, snapshot, nodes, pending):
        if not one.is_possible:
            items.append(_of_pool(Objection(Reason.SUM_IMPOSSIBLE, one.measures)))
    coming = len(pending) + len(snapshot.boots_unclaimed)
    if not allow_empty and _is_empty(nodes, items):
        items.append(_of_pool(Objection(Reason.POOL_EMPTY)))
    return _verification(
        decision,
        settings,
        now,
        items,
        nodes={"listed": len(listed), **nodes, "coming": coming},
        slots=_slots(made, snapshot, settings),
    )


def _verification(
    decision: DecisionView,
    settings: Settings,
    now: float,
    items: Sequence[VerifiedItem],
    *,
    nodes: Mapping[str, int] | None = None,
    slots: Mapping[str, int | None] | None = None,
) -> Verification:
    stuck = [one for one in items if one.outlook is Outlook.STUCK]
    settling = [one for one in items if one.outlook is Outlook.SETTLING]
    outlook = Outlook.STUCK if stuck else Outlook.SETTLING if settling else Outlook.SETTLED
    boots = Counter[str]()
    for one in items:
        if one.what is What.BOOT:
            boots["at_limit" if one.outlook is Outlook.APART else one.outlook.value] += one.count
    snapshot = decision.snapshot
    return Verification(
        outlook,
        (*stuck, *settling),
        settings.pool,
        decision.made.plan_id,
        decision.shown_mode,
        snapshot.wall,
        max(0.0, now - snapshot.now),
        tuple(one for one in items if one.reason is Reason.HELD),
        nodes or {},
        slots or {},
        dict(boots),
    )


def _is_empty(nodes: Mapping[str, int], items: Sequence[VerifiedItem]) -> bool:
    """Whether there is nothing at all to verify; a held node is something, a foreign one is not."""
    if any(nodes[name] for name in ("up", "settling", "stuck", "held")):
        return False
    return all(one.outlook in (Outlook.SETTLED, Outlook.APART) for one in items)


# The pool.


def _of_standing(snapshot: Snapshot, settings: Settings, now: float) -> Iterator[VerifiedItem]:
    """Every precondition that fails; polls are as old as they are `now`, not at the decision."""
    snapshot = changed(snapshot, now=max(now, snapshot.now))
    for check in STANDING:
        block = check.ask(snapshot, settings)
        if block is not None:
            yield _of_pool(block)


def _of_contradictions(made: Plan, snapshot: Snapshot) -> Iterator[VerifiedItem]:
    """What a listing shows twice, and the records that share a slot (L4); not what is on hold."""
    ids = made.impossible.ids if made.impossible is not None else frozenset()
    if not ids:
        return
    nodes = snapshot.history.present
    known = {one.uuid: one for one in snapshot.history.listed_records}
    for id in sorted(ids):
        if not _is_held(known.get(id), nodes.get(id), snapshot):
            yield _of_pool(Objection(Reason.IMPOSSIBLE, {"id": id}))


# Nodes.


def _of_node(view: NodeView, snapshot: Snapshot) -> VerifiedItem:
    node, record, reason = view.node, view.record, view.verdict.reason
    if reason is Reason.NODE_ABSENT:
        outlook = Outlook.APART
    elif reason not in OUTSIDE and _is_held(record, node, snapshot):
        outlook, reason = Outlook.APART, Reason.HELD
    else:
        outlook = reason.outlooks.get(NODE, Outlook.STUCK)
    return VerifiedItem(
        What.NODE,
        outlook,
        reason,
        node.id,
        None if record is None else record.hostname,
        None if record is None else record.slot_number,
        measures=view.verdict.measures or {},
    )


def _is_held(record: Record | None, node: CloudNode | None, snapshot: Snapshot) -> bool:
    """Whether the node or the record is on hold, also where another reason was found first."""
    ids: set[str | None] = set()
    if node is not None:
        ids |= {node.id, node.tags.record}
    if record is not None:
        ids |= {record.uuid, record.instance_id}
    held = (node is not None and node.held) or (record is not None and record.held)
    return held or not snapshot.holds.isdisjoint(ids)


# Records without a listed node.


def _of_records(
    made: Plan, snapshot: Snapshot, settings: Settings, pending: frozenset[str]
) -> Iterator[VerifiedItem]:
    """Each record that holds a slot without a listed node, or that stands for a future node."""
    verdicts = {one.id: one for one in made.records}
    unseen = set(pending)
    for record in snapshot.history.listed_records:
        unseen.discard(record.uuid)
        if record.uuid in pending or _is_nodeless(record, snapshot, settings):
            yield _of_record(record, verdicts[record.uuid], snapshot, coming=record.uuid in pending)
    for uuid in sorted(unseen):
        reason = Reason.NODE_EXPECTED if uuid in snapshot.expected else Reason.IN_FLIGHT
        yield VerifiedItem(What.RECORD, reason.outlooks[RECORD], reason, uuid)


def _is_nodeless(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    if record.slot_number is None:
        return False
    return holder_of(record, snapshot, settings) in (Holder.CLAIM, Holder.NO_NODE)


def _of_record(
    record: Record, verdict: Verdict, snapshot: Snapshot, *, coming: bool
) -> VerifiedItem:
    reason = verdict.reason
    outlook = reason.outlooks.get(RECORD, Outlook.STUCK)
    if _is_held(record, None, snapshot):
        outlook, reason = Outlook.APART, Reason.HELD
    elif coming and reason is Reason.HOLDS_NOTHING:
        # It was listed before the claim that a set-up makes on it now.
        outlook, reason = Outlook.SETTLING, Reason.IN_FLIGHT
    elif coming and outlook in (Outlook.APART, Outlook.SETTLED):
        # Its node was heard, and no listing shows it: it may come back, or be replaced (C5).
        outlook, reason = Outlook.SETTLING, Reason.NOT_SETTLED
    return VerifiedItem(
        What.RECORD,
        outlook,
        reason,
        record.uuid,
        record.hostname,
        record.slot_number,
        measures=verdict.measures or {},
    )


# Boots and slots.


def _of_boots(made: Plan, snapshot: Snapshot) -> Iterator[VerifiedItem]:
    """The nodes that are wanted and do not exist yet: granted, being set up, or refused."""
    granted = Counter((boot.size.name, boot.reason) for boot in made.boots)
    granted.update((size, Reason.IN_FLIGHT) for size in snapshot.boots_unclaimed)
    for (size, reason), count in sorted(granted.items()):
        yield VerifiedItem(What.BOOT, reason.outlooks[BOOT], reason, size, count=count)
    if made.wants is None:
        return
    free_in_s = None if made.slots is None else made.slots.earliest_free_s
    for (size, reason), count in sorted(made.wants.refused.items()):
        bad = snapshot.limits.bad.get(size, 0)
        outlook = of_refusal(reason, bad_requests=bad, slot_free_in_s=free_in_s)
        measures = {"bad_requests": bad} if bad else {}
        yield VerifiedItem(What.BOOT, outlook, reason, size, count=count, measures=measures)


def of_refusal(reason: Reason, *, bad_requests: int, slot_free_in_s: float | None) -> Outlook:
    """What waiting can do about a refused boot.

    A size rests for good if the cloud calls its creates wrong, as for a wrong image
    (`bad_requests` in a row). A slot is worth waiting for only where a window frees the next one.
    """
    if reason is Reason.SIZE_RESTS and bad_requests:
        return Outlook.STUCK
    if reason is Reason.NO_FREE_SLOT and slot_free_in_s is None:
        return Outlook.STUCK
    return reason.outlooks.get(BOOT, Outlook.STUCK)


def _slots(made: Plan, snapshot: Snapshot, settings: Settings) -> dict[str, int | None]:
    """Held and all slots, and how many leak (`leaked`): no node has them or will have them."""
    verdicts = {one.id: one for one in made.records}
    freed = freed_since_listed(snapshot.history)
    held = leaked = 0
    for record in snapshot.history.listed_records:
        held += record.slot_number is not None
        if _is_nodeless(record, snapshot, settings):
            leaked += is_leaked(record, verdicts[record.uuid], snapshot, settings, freed)
    return {"held": held, "leaked": leaked, "total": snapshot.slots}
