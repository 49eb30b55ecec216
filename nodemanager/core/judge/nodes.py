"""The judge of nodes: which to shut down, and why the others stay (SAFETY.md D1, D7-D11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodemanager.core.judge.checks import Check, asked_by
from nodemanager.core.judge.node_alone import ALONE
from nodemanager.core.judge.node_any import AT_ALL, FREE_OF_HOLDS, NOT_CORDONED, NOT_KILLED, Ask
from nodemanager.core.judge.node_facts import NodeFacts
from nodemanager.core.judge.node_paired import PAIRED
from nodemanager.core.judge.node_view import DYING, NodeView, Subject
from nodemanager.core.judge.overrides import of_node
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import NOTHING_BEFORE, Verdict
from nodemanager.core.model.world import CloudNode, WorkerState
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.observe.snapshot import Snapshot

ORDERED, UNKNOWN = (Reason.HELD, Reason.KILLED, Reason.CORDONED), WorkerState.UNKNOWN
CHANGED = Reason.CHANGED_SINCE_LISTING
"""Looked up once, because every node is compared with them."""


class NodeJudge:
    """Judges the nodes of one snapshot; built once per plan.

    It asks the checks of node_any.AT_ALL, then those of node_paired.PAIRED or node_alone.ALONE.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        pairs: Pairs,
        before: Mapping[str, Verdict] = NOTHING_BEFORE,
    ) -> None:
        self._facts = NodeFacts(snapshot, settings, pairs, before)
        self._drains = snapshot.drains
        self._at_all = asked_by(self._facts, AT_ALL)
        self._paired = asked_by(self._facts, PAIRED)
        self._alone = asked_by(self._facts, ALONE)

    def view(self, node: CloudNode) -> NodeView:
        """The view of the node, with its verdict before demand, caps and breakers apply."""
        facts, drains = self._facts, self._drains
        subject = facts.subject(node)
        for ask in self._at_all:
            outside = ask(facts, subject)
            if outside is not None:
                if outside.verdict.reason is CHANGED:
                    outside.beneath = self._but_for_orders(subject).verdict.reason
                return outside
        seen = self._first(self._alone if subject.record is None else self._paired, subject)
        if seen.verdict.reason in ORDERED:
            # Whatever an operator orders for a node, its silence still counts for D9, and a booting
            # one is still on its way to its job.
            beneath = self._but_for_orders(subject)
            seen.bad_s, seen.beneath = beneath.bad_s, beneath.verdict.reason
        if seen.bad_s is None and subject.state is not UNKNOWN:
            seen.bad_s = facts.counted_silence(subject)
        # A drained node takes no more work, so that it does not count as serving.
        if node.state in DYING or (drains and of_node(drains, node) is not None):
            seen.counts = seen.surplus_if_idle = False
        return seen

    def _first(self, asks: Iterable[Ask], subject: Subject) -> NodeView:
        """The first view that a check returns; the last check of each table always returns one."""
        for ask in asks:
            seen = ask(self._facts, subject)
            if seen is not None:
                return seen
        raise AssertionError("the last of a table has a word on everything")

    def _but_for_orders(self, subject: Subject) -> NodeView:
        table: tuple[Check[Ask], ...] = ALONE if subject.record is None else PAIRED
        orders = FREE_OF_HOLDS, NOT_KILLED, NOT_CORDONED
        others = [one for one in table if one not in orders]
        return self._first(asked_by(self._facts, others), subject)
