"""The counts of nodes and records in the cycle's summary line and on the status page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from nodemanager.core.judge.node_view import BAD, OUTSIDE, NodeView
from nodemanager.core.judge.overrides import of_node
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import CLOCK_STEP_S
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import WorkerState
from nodemanager.core.observe.signs import claimed_at_of, launched_for
from nodemanager.core.observe.snapshot import Snapshot


def place_of(view: NodeView) -> str | None:
    """What the node does, the name it is counted under; None for a node that is only seen."""
    return _place(view.verdict.reason, view.state, view.record is None)


def _place(reason: Reason, state: WorkerState, unpaired: bool) -> str | None:
    if reason in OUTSIDE:
        return None
    if reason is Reason.SHUTTING_DOWN:
        return "shutdown"
    if reason is Reason.BOOTING:
        return "booting"
    return "unpaired" if unpaired else state.value


def cycle_counts(
    views: list[NodeView], verdicts: list[Verdict], pending: set[str], snapshot: Snapshot
) -> dict[str, int]:
    """Nodes by what they do, and records, by name in the summary; `pending` are future nodes."""
    counts: defaultdict[str, int] = defaultdict(int)
    kinds = Counter([(view.verdict.reason, view.state, view.record is None) for view in views])
    for (reason, state, unpaired), count in kinds.items():
        place = _place(reason, state, unpaired)
        if place is None:
            continue
        counts["nodes"] += count
        counts[f"nodes_{place}"] += count
        counts["nodes_paired"] += 0 if unpaired else count
        counts["nodes_bad"] += count if reason in BAD else 0
    kills = snapshot.kills
    leaving = [
        view for view in views if view.leaves or (kills and of_node(kills, view.node) is not None)
    ]
    if leaving:
        there = [view for view in leaving if view.verdict.reason not in OUTSIDE]
        counts["nodes_draining"] = len(there)
    counts["nodes_booting"] += len(pending) + len(snapshot.boots_unclaimed)
    counts["records"] = len(verdicts)
    return dict(counts)


def made_since(views: Iterable[NodeView], snapshot: Snapshot, at: float) -> frozenset[str]:
    """The nodes that the cloud launched after `at`, CLOCK_BOOTTIME seconds.

    A launch counts from a minute before, since the cloud's clock may be off by that (A3). A node of
    unknown age was made before.
    """
    passed_s = snapshot.now - at + CLOCK_STEP_S
    return frozenset(
        view.node.id
        for view in views
        if view.node.created_at is not None
        and launched_for(view.node.created_at, snapshot, claimed_at_of(view.record)) < passed_s
    )
