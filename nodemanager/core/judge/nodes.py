"""When a node is shut down, and why not yet (SAFETY.md D1, D7-D11)."""

from __future__ import annotations

from collections.abc import Iterable

from nodemanager.core.judge.checks import Check, asked_by
from nodemanager.core.judge.node_alone import ALONE
from nodemanager.core.judge.node_any import AT_ALL, FREE_OF_HOLDS, Ask
from nodemanager.core.judge.node_facts import NodeFacts
from nodemanager.core.judge.node_paired import PAIRED
from nodemanager.core.judge.node_view import DYING, NodeView, Subject
from nodemanager.core.judge.overrides import of_node
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.world import CloudNode
from nodemanager.core.observe.pairing import Pairs
from nodemanager.core.plan.snapshot import Snapshot

HELD = Reason.HELD
"""Looked up once, as every verdict is held against it."""


class NodeJudge:
    """Judges the nodes of one snapshot; built once per plan.

    What it asks, and in which order, stands in node_any.AT_ALL, then in node_paired.PAIRED or
    node_alone.ALONE.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings, pairs: Pairs) -> None:
        self._facts = NodeFacts(snapshot, settings, pairs)
        self._drains = snapshot.drains
        self._at_all = asked_by(self._facts, AT_ALL)
        self._paired = asked_by(self._facts, PAIRED)
        self._alone = asked_by(self._facts, ALONE)

    def view(self, node: CloudNode) -> NodeView:
        """The node's verdict before demand, caps and breakers have had their say."""
        facts, drains = self._facts, self._drains
        subject = facts.subject(node)
        for ask in self._at_all:
            outside = ask(facts, subject)
            if outside is not None:
                return outside
        seen = self._first(self._alone if subject.record is None else self._paired, subject)
        if seen.verdict.reason is HELD:
            # Nothing touches it; that it is silent tells of the others all the same (D9).
            seen.bad = self._first(self._but_for_holds(subject), subject).bad
        # No new work is meant for one that is drained: what it did is another's to do.
        if node.state in DYING or (drains and of_node(drains, node) is not None):
            seen.counts = seen.surplus_if_idle = False
        return seen

    def _first(self, asks: Iterable[Ask], subject: Subject) -> NodeView:
        """The first verdict; the last of each table always has one."""
        for ask in asks:
            seen = ask(self._facts, subject)
            if seen is not None:
                return seen
        raise AssertionError("the last of a table has a word on everything")

    def _but_for_holds(self, subject: Subject) -> tuple[Ask, ...]:
        table: tuple[Check[Ask], ...] = ALONE if subject.record is None else PAIRED
        return asked_by(self._facts, [one for one in table if one is not FREE_OF_HOLDS])
