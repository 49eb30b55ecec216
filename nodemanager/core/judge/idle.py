"""What a node's word that it is idle is worth, before it is shut down for that (SAFETY.md D12).

Asked by every plan, and again right before the destroy. A node that can be told to take no more
work is told so first, by the answers to its pings, and goes once it says that it has done so: no
job can begin on it any more.
"""

from __future__ import annotations

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import NEWS_S, Settings
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import Record
from nodemanager.core.observe.history import History
from nodemanager.core.plan.snapshot import Snapshot

AS_IDLE = frozenset({Reason.IDLE_BEYOND_DEMAND, Reason.DRAINED})
"""Why a node goes that goes by its own word that it is idle."""


def doubt(node_id: str, record: Record, snapshot: Snapshot, settings: Settings) -> Verdict | None:
    """Why the node may not be destroyed on the idle word of `record`; None where it may.

    `record` is as it was listed, or as it was read right before the destroy. Its word must be news,
    and must be from after the plan that first wanted the node no more: a job that was given to
    the node before that plan shows in it.
    """
    history, now = snapshot.history, snapshot.now
    since = history.unwanted.get(node_id)
    if since is None:
        return keep(node_id, Reason.NO_LONGER_WANTED, detail="somebody wants it again")
    if can_drain(record, settings):
        order = snapshot.drain_orders.get(record.uuid)
        if order is not None and record.drain == order == record.drained:
            return None
        return keep(node_id, Reason.DRAIN_AWAITED, unwanted_s=now - since)
    clock, stamp = history.clock, record.last_ping_at
    if clock is None or not clock.trusted_at(now, settings.poll_stale_after):
        return keep(node_id, Reason.CLOCK_UNKNOWN)
    # What the clock is measured wrong by must not make the word younger than it is (T1).
    is_after = stamp is not None and stamp - clock.error_s > clock.now(since)
    if is_after and _is_news(record, history, now):
        return None
    word_s = None if stamp is None else clock.age(stamp, now)
    return keep(node_id, Reason.IDLE_WORD_OLD, word_s=word_s, unwanted_s=now - since)


def _is_news(record: Record, history: History, now: float) -> bool:
    """No listing after the first that showed the word shows it still, and that one is new.

    Who pings more rarely than records are polled is believed in the first poll that shows a ping.
    """
    heard, records = history.heard.get(record.uuid), history.records
    if heard is None or records is None:
        return False
    if heard.last_ping_at != record.last_ping_at:
        return True
    return heard.seen_at >= records.ended_at and now - heard.seen_at <= NEWS_S


def can_drain(record: Record, settings: Settings) -> bool:
    """Whether the record's node can be told to take no more work: it says that it has a hook."""
    return settings.tells_drain and record.drain_hook
