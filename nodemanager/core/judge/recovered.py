"""Which nodes that were silent, down or unpaired are well again (SAFETY.md B3, D9).

No sign of illness is none of health: after a start, after a jump of a clock, and where a freed node
is listed again, what tells that a node is ill is measured anew. Only its own new ping tells that it
is well. A node that its scheduler has switched off is silent because of that, and pings no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodemanager.core.judge.node_view import DYING, NodeView
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import Record, WorkerState
from nodemanager.core.observe.history import History
from nodemanager.core.observe.scheduled import suspended_word
from nodemanager.core.observe.snapshot import Snapshot


def recovered(
    views: Iterable[NodeView], since: Mapping[str, float], snapshot: Snapshot, settings: Settings
) -> frozenset[str]:
    """The ids of the nodes in `since` that run, have their record, and have pinged it with another
    word than down since then, CLOCK_BOOTTIME; and of those that their scheduler has switched off.

    Where a create made two nodes, a ping that names the other one tells nothing of this (P1a).
    """
    history, now = snapshot.history, snapshot.now
    lately = now - settings.node_stale_after / 2

    def is_well(view: NodeView, record: Record) -> bool:
        return (
            record.instance_id in (None, view.node.id)
            and view.node.state not in DYING
            and not _says_down(view, record)
            and _pings(record, history, now, max(since[view.node.id], lately))
        )

    return frozenset(
        view.node.id
        for view in views
        if view.node.id in since
        and view.record is not None
        and not view.bad
        and (is_well(view, view.record) or suspended_word(view.record, snapshot, settings))
    )


def _says_down(view: NodeView, record: Record) -> bool:
    """Whether its newest ping says so, in its boot grace, too, and no scheduler has it at work."""
    return record.worker_state is WorkerState.DOWN and view.state is not WorkerState.BUSY


def _pings(record: Record, history: History, now: float, since: float) -> bool:
    """Whether we saw a new ping of this life come since then.

    A stamp that is there when we first look, at a start or after a jump of the clock, may be older
    than it seems.
    """
    heard, clock = history.heard.get(record.uuid), history.clock
    if heard is None or heard.last_ping_at is None or clock is None:
        return False
    if heard.before_at == float("-inf") or heard.before_at < clock.known_since:
        return False
    return min(heard.seen_at, now - clock.age(heard.last_ping_at, now)) > since
