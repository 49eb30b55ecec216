"""The nodes that have ended for certain, whatever a late listing shows (SAFETY.md A1, C20, D3)."""

from __future__ import annotations

from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.world import CloudNode, life_key
from nodemanager.core.plan.snapshot import Snapshot


def was_ended(node: CloudNode, snapshot: Snapshot) -> bool:
    """Whether we destroyed the node, the cloud then called it gone, and no answer contradicts that.

    Its record is free since. A listing may show what was so minutes ago, and a node that has ended
    never comes back; but the cloud is asked by id, and a node that lives is reported (U8).
    """
    history, uuid = snapshot.history, node.tags.record
    if uuid is None or not history.freed:
        return False
    life = history.freed.get(life_key(uuid, node.tags.incarnation))
    if life is None or life.why != Reason.AFTER_SHUTDOWN or life.node_id != node.id:
        return False
    answer = history.asked.get(node.id)
    since = () if answer is None or answer.said_at <= life.freed_at else answer.nodes
    return all(one.is_absent for one in since) and life.key not in snapshot.breaker.told
