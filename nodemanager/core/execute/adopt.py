"""Puts our tags on the nodes that an operator named, and on no others (SAFETY.md D11).

An operator's mark orders it, and `adoption` judges the node. The workflow asks the cloud for the
node, confirms, and writes the tags. The mark is the intent in the journal: a restart finds it, and
a node that has our tag by then is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodemanager.core.execute.effects import AdoptNode, AskNode
from nodemanager.core.execute.news import ItemEnded
from nodemanager.core.execute.once import Once, OnceState, reading, writing
from nodemanager.core.execute.workflow import About, Action, Failed, Level, LogLine, Seen, Step
from nodemanager.core.judge.preconditions import standing_block
from nodemanager.core.model.reasons import Event, Kind, Reason
from nodemanager.core.model.settings import ORDER_TTL_S, Settings
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import CloudNode, Tags
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.operate.backlog import (
    PASSING,
    IndexedPlan,
    Item,
    ItemState,
    ItemStatus,
    not_as_named,
)
from nodemanager.errors import NotSent, RemoteError, Throttled


@dataclass(frozen=True, slots=True)
class AdoptOrder:
    """One node to put our tags on; `not_after` is CLOCK_BOOTTIME."""

    item: Item
    tags: Tags
    not_after: float
    plan_id: str

    @property
    def node_id(self) -> str:
        return self.item.id


def order_adoption(
    item: Item, seen: IndexedPlan, snapshot: Snapshot, settings: Settings
) -> AdoptOrder:
    """The order, with the tags for the node: the record's only where they prove the pair (P1)."""
    tags = Tags(settings.pool)
    record = seen.pairs.record_of.get(item.id)
    if item.record and record is not None and record.claim is not None:
        tags = Tags(settings.pool, record.uuid, record.claim.incarnation)
    return AdoptOrder(item, tags, snapshot.now + ORDER_TTL_S, snapshot.plan_id)


def confirm_adoption(
    order: AdoptOrder,
    node: CloudNode | None,
    seen: IndexedPlan,
    snapshot: Snapshot,
    settings: Settings,
) -> Verdict:
    """The pre-write check of an adoption: ADOPT, or KEEP with what forbids it now.

    `node` is what the cloud just answered, `seen` the newest decision, `snapshot` of this moment.
    """
    node_id = order.node_id
    if node is None or node.is_absent:
        return keep(node_id, Reason.NODE_ABSENT)
    if snapshot.now > order.not_after:
        return keep(node_id, Reason.ORDER_EXPIRED, late_s=snapshot.now - order.not_after)
    block = standing_block(snapshot, settings)
    if block is not None:
        return block.to(node_id)
    if node.tags.pool == settings.pool:
        return keep(node_id, Reason.ADOPTED)
    changed = not_as_named(order.item, node, snapshot)
    if changed is None and order.tags.record is not None:
        # The pair must be the same still: the tags name the incarnation of its record.
        record = seen.pairs.record_of.get(node_id)
        if record is None or record.incarnation != order.tags.incarnation:
            return keep(node_id, Reason.PAIR_UNPROVEN)
    if changed is not None:
        return keep(node_id, changed.reason, **changed.measures)
    return Verdict(Kind.ADOPT, Reason.ADOPTED, node_id)


class Adopt(Once[AdoptOrder]):
    """Ask, confirm, write. Writing the same tags twice changes nothing."""

    action = Action.ADOPT
    in_flight = "adopt"

    def id(self, order: AdoptOrder) -> str:
        return order.item.key

    def about(self, state: OnceState[AdoptOrder]) -> About:
        # It need not block: an untagged node is never drained or destroyed (D11).
        return About()

    def start(self, order: AdoptOrder, seen: Seen) -> Step[OnceState[AdoptOrder]]:
        return reading(order, AskNode(order.node_id))

    def found(
        self, order: AdoptOrder, answer: CloudNode | None, seen: Seen
    ) -> Step[OnceState[AdoptOrder]]:
        if _is_over(order, seen) or seen.indexed is None:
            return Step(None)
        verdict = confirm_adoption(order, answer, seen.indexed, seen.snapshot, seen.settings)
        if verdict.kind is Kind.ADOPT:
            return writing(order, AdoptNode(order.node_id, order.tags))
        if verdict.reason is Reason.ADOPTED:
            # The tag is newer than the listing.
            return _over(order, ItemStatus(ItemState.DONE, Reason.ADOPTED))
        if verdict.reason in PASSING:
            return Step(None)
        return _over(order, ItemStatus(ItemState.CHANGED, verdict.reason, verdict.measures or {}))

    def done(
        self, order: AdoptOrder, answer: object, seen: Seen, *, late: bool
    ) -> Step[OnceState[AdoptOrder]]:
        mark = seen.marks.get(order.item.key)
        fields = {
            "reason": Reason.ADOPTED,
            "node": order.node_id,
            "pool": order.tags.pool,
            "record": order.tags.record,
            "incarnation": order.tags.incarnation,
            "by": mark.by if mark is not None else None,
        }
        line = LogLine(Event.NODE_ADOPTED, fields)
        return _over(order, ItemStatus(ItemState.DONE, Reason.ADOPTED), line)

    def failed(
        self, order: AdoptOrder, failed: Failed, seen: Seen, *, late: bool
    ) -> Step[OnceState[AdoptOrder]]:
        if isinstance(failed.effect, AskNode) and (late or _is_over(order, seen)):
            return Step(None)
        return _failed(order, failed.error)


def _is_over(order: AdoptOrder, seen: Seen) -> bool:
    """Whether the mark was taken off, or the daemon may begin nothing new."""
    return order.item.key not in seen.marks or seen.indexed is None or seen.stopping


def _failed(order: AdoptOrder, error: RemoteError) -> Step[OnceState[AdoptOrder]]:
    """The end after an error; a later decision tries again, unless the cloud refused for good.

    Without the lease nothing is sent, so that is no refusal: the next holder of it goes on.
    """
    fields = {"node": order.node_id, "error": error}
    line = LogLine(Event.NODE_ADOPT_FAILED, fields, Level.WARNING)
    if not error.definite or isinstance(error, NotSent | Throttled):
        return Step(None, tell=(line,))
    return _over(
        order, ItemStatus(ItemState.CHANGED, Reason.ADOPT_REFUSED, {"error": str(error)}), line
    )


def _over(order: AdoptOrder, status: ItemStatus, *tell: LogLine) -> Step[OnceState[AdoptOrder]]:
    return Step(None, tell=tell, learn=(ItemEnded(order.item.key, status),))
