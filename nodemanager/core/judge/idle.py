"""Whether a node's report that it is idle justifies its shutdown (SAFETY.md D12).

Every plan asks this, and so does the pre-write check of the destroy. A node with a drain hook is
first told, in the answers to its pings, to take no more work. It is shut down once it reports that
it has drained, because then no job can start on it.
"""

from __future__ import annotations

from typing import Any

from nodemanager.core.model.reasons import OUTDATED, Kind, Reason, having
from nodemanager.core.model.scheduling import SchedulerNode, is_drained_by_us
from nodemanager.core.model.settings import CLOCK_STEP_S, NEWS_S, Settings
from nodemanager.core.model.sizes import size_name
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import CloudNode, Record, Size, WorkerState
from nodemanager.core.observe.history import History
from nodemanager.core.observe.scheduled import report_on
from nodemanager.core.observe.signs import age_of, trusted_clock
from nodemanager.core.observe.snapshot import Snapshot

# Whether a node is to be replaced: it has another image or type than new ones, or is too old.

ROTATE = having(OUTDATED)
"""The reasons for a shutdown of an idle node whose place another one takes."""


def outdated(
    node: CloudNode,
    record: Record | None,
    size: Size,
    snapshot: Snapshot,
    settings: Settings,
) -> Verdict | None:
    """The shutdown of a node of that size that is to be replaced; None if it is as new ones are.

    None, too, for a node whose image, type or age is not known.
    """
    image = snapshot.history.image
    if image is not None and node.image is not None and node.image != image:
        measures: dict[str, Any] = {"old": node.image, "new": image}
        return Verdict(Kind.SHUTDOWN, Reason.OTHER_IMAGE, node.id, measures)
    kind = size.instance_type
    if _is_another(node.size, kind) and size_name(node, record) == size.name:
        measures = {"old": node.size, "new": kind}
        return Verdict(Kind.SHUTDOWN, Reason.OTHER_TYPE, node.id, measures)
    most, age_s = settings.max_node_age, age_of(node, record, snapshot)
    if most is not None and age_s is not None and age_s > most:
        measures = {"age_s": age_s, "limit_s": most}
        return Verdict(Kind.SHUTDOWN, Reason.TOO_OLD, node.id, measures)
    return None


def is_in_vain(node: CloudNode, record: Record | None, size: Size, snapshot: Snapshot) -> bool:
    """Whether the node was booted as new ones are wanted now, and still is not so.

    Then another replacement would be no better: the cloud gives something else than was asked for.
    """
    claim, image = None if record is None else record.claim, snapshot.history.image
    if claim is None or (claim.node_id or node.id) != node.id:
        return False
    if claim.image is not None and claim.image == image and node.image not in (None, image):
        return True
    kind = size.instance_type
    return claim.instance_type == kind and claim.size == size.name and _is_another(node.size, kind)


def _is_another(listed: str | None, wanted: str) -> bool:
    # Some clouds write the names of their types with other capitals than they take.
    return listed is not None and listed != wanted and listed.casefold() != wanted.casefold()


AS_IDLE = ROTATE | {
    *(Reason.IDLE_BEYOND_DEMAND, Reason.DRAINED, Reason.NOTICED, Reason.PARKED),
}
"""The reasons for a shutdown that rests on the node's own report that it is idle."""


UNCAPPED = frozenset({Reason.IDLE_BEYOND_DEMAND, Reason.PARKED, Reason.SUSPENDED})
"""The shutdowns of nodes that did no work and were well: D9's cap on shutdowns is for others."""


def doubt(node_id: str, record: Record, snapshot: Snapshot, settings: Settings) -> Verdict | None:
    """Why the node may not be destroyed on the idle report in `record`; None if it may.

    `record` is as listed, or as read right before the destroy. Without a drain hook the report must
    be fresh, and stamped after the plan that first found the node unwanted: then it shows any job
    that the node was given before that plan.
    """
    history, now = snapshot.history, snapshot.now
    since = history.unwanted.get(node_id)
    if since is None:
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="somebody wants it again")
    if settings.scheduled:
        if is_drained(record, snapshot, settings):
            return None
        return keep(node_id, Reason.DRAIN_AWAITED, unwanted_s=now - since)
    if can_drain(record, settings):
        order = snapshot.drain_orders.get(record.uuid)
        if order is not None and record.drain == order == record.drained:
            return None
        return keep(node_id, Reason.DRAIN_AWAITED, unwanted_s=now - since)
    clock, stamp = trusted_clock(snapshot, settings), record.last_ping_at
    if clock is None:
        return keep(node_id, Reason.CLOCK_UNKNOWN)
    if stamp is not None and clock.age(stamp, now) < -CLOCK_STEP_S - clock.error_s:
        # Stamps and the clock disagree: nobody knows what came first (T1).
        return keep(node_id, Reason.CLOCK_UNKNOWN)
    # The clock's measuring error must not make the report look younger than it is (T1).
    is_after = stamp is not None and stamp - clock.error_s > clock.now(since)
    if is_after and _is_news(record, history, now):
        return None
    word_s = None if stamp is None else clock.age(stamp, now)
    return keep(node_id, Reason.IDLE_WORD_OLD, word_s=word_s, unwanted_s=now - since)


def _is_news(record: Record, history: History, now: float) -> bool:
    """Whether only the newest listing shows this ping, at most NEWS_S ago, or none does yet.

    A node that pings less often than records are polled is believed in the first poll after a ping.
    """
    heard, records = history.heard.get(record.uuid), history.records
    if heard is None or records is None:
        return False
    if heard.last_ping_at != record.last_ping_at:
        return True
    return heard.seen_at >= records.ended_at and now - heard.seen_at <= NEWS_S


def can_drain(record: Record, settings: Settings) -> bool:
    """Whether the record's node can be told to take no more work: it reports a drain hook.

    And its record has a slot. While no slot is free, the registry takes the ping of a node without
    one, but answers with an error, which tells no order. Slot 0 counts as none to the registry.
    """
    is_answered = record.slot_number is not None and record.slot_number > 0
    tells = settings.tells_drain and not settings.scheduled
    return tells and record.drain_hook and is_answered


def is_drained(record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether a listing of the scheduler that began after our drain shows the node drained.

    Whatever work it had been given before shows in that listing, and it is given none since.
    """
    order, listing = snapshot.dispatched.order_of(record), snapshot.history.scheduler
    word = report_on(record, snapshot, settings)
    if order is None or not order.on or listing is None or word is None:
        return False
    return listing.started_at > order.at and is_done(word.node)


def is_done(node: SchedulerNode) -> bool:
    """Whether the node does no work, and our drain keeps it so."""
    return is_drained_by_us(node) and node.state is WorkerState.IDLE and not node.reserved


def stays(node_id: str, record: Record, snapshot: Snapshot) -> bool:
    """Whether a node drained in the scheduler must stay so: a destroy may still take effect.

    Of a node that this run drained, no former run whose journal is lost had sent one.
    """
    is_ours = snapshot.dispatched.order_of(record) is not None
    return node_id in snapshot.late_destroys or (snapshot.unknown_destroys and not is_ours)


def is_kept_drained(node_id: str, record: Record, snapshot: Snapshot, settings: Settings) -> bool:
    """Whether the node is drained in the scheduler by us, and must stay so."""
    if not settings.scheduled or not stays(node_id, record, snapshot):
        return False
    word = report_on(record, snapshot, settings)
    return word is not None and word.is_drained_by_us


def stays_drained(node_id: str, record: Record, snapshot: Snapshot) -> bool:
    """Whether the node is drained, and must stay so even if it is wanted again.

    A destroy that was sent for it may still take effect, or one that a lost journal had.
    """
    if record.drain is None:
        return False
    is_ours = record.uuid in snapshot.drain_orders
    return node_id in snapshot.late_destroys or (snapshot.unknown_destroys and not is_ours)
