"""The checks of any node: may it be touched? (SAFETY.md T3, T4, P3, C8, C9, D3, D11, O2)"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nodemanager.core.judge.checks import Check, Measured, until_released
from nodemanager.core.judge.node_facts import NodeFacts
from nodemanager.core.judge.node_view import NodeView, Subject
from nodemanager.core.judge.overrides import cordoned, killed, of_node
from nodemanager.core.model.annotations import Mark
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudState, WorkerState
from nodemanager.core.observe.ended import was_ended

Ask = Callable[[NodeFacts, Subject], NodeView | None]

NO_AGE = "not without a launch time from the cloud to count from"
GONE = "it is gone already"


TERMINATED = CloudState.TERMINATED
"""Looked up once, because every node is compared with it."""


def _present(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.node.state is TERMINATED:
        return subject.outside(Reason.NODE_ABSENT)
    return None


def _ours(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node = subject.node
    pool = node.tags.pool
    if (pool is not None and pool != facts.settings.pool) or not node.managed:
        return subject.outside(Reason.FOREIGN_NODE, pool=pool)
    return None


def _not_in_flight(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node = subject.node
    if node.id in facts.snapshot.node_flights:
        verdict = Verdict(Kind.KEEP, Reason.SHUTTING_DOWN, node.id)
        return NodeView(node, verdict, WorkerState.DOWN, counts=False)
    return None


def _not_gone(facts: NodeFacts, subject: Subject) -> NodeView | None:
    snapshot, node = facts.snapshot, subject.node
    if snapshot.gone.get(node.id, -1.0) >= facts.listed_at or was_ended(node, snapshot):
        return subject.outside(Reason.NODE_ABSENT)
    return None


def _untouched(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if facts.snapshot.touched.get(subject.node.id, -1.0) >= facts.listed_at:
        return subject.kept(Reason.CHANGED_SINCE_LISTING)
    return None


def _free_of_holds(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node, record = subject.node, subject.record
    holds = facts.snapshot.holds
    held = node.held or (record is not None and record.held)
    uuid = node.tags.record if record is None else record.uuid
    if held or (holds and (node.id in holds or uuid in holds)):
        return subject.kept(Reason.HELD)
    return None


def _readable(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node, record = subject.node, subject.record
    if node.problems or (record is not None and record.problems):
        problems = (*node.problems, *(record.problems if record is not None else ()))
        return subject.kept(Reason.UNREADABLE, detail="; ".join(problems))
    return None


def _not_killed(facts: NodeFacts, subject: Subject) -> NodeView | None:
    return ordered_away(subject, killed(subject.node, facts.snapshot))


def _not_cordoned(facts: NodeFacts, subject: Subject) -> NodeView | None:
    return ordered_away(subject, cordoned(subject.node, facts.snapshot))


def ordered_away(subject: Subject, ordered: Verdict | None) -> NodeView | None:
    """The view of a node that an operator ordered away, or out of use, which no longer counts; None
    without an order."""
    if ordered is None:
        return None
    view = subject.view(ordered)
    view.counts = False
    return view


def _tagged(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.node.tags.pool is None:
        view = subject.kept(Reason.UNTAGGED)
        # Unpaired, it costs money but serves nobody, as no record says what it does.
        view.counts = subject.record is not None
        return view
    return None


def marked(
    marks: Callable[[NodeFacts], Mapping[str, Mark]],
) -> Callable[[NodeFacts, Subject], Measured]:
    """A `measure` of an operator's mark on the node: by whom, why, and how old."""

    def measured(facts: NodeFacts, subject: Subject) -> Measured:
        mark = of_node(marks(facts), subject.node)
        return {} if mark is None else mark.measures(facts.snapshot.wall)

    return measured


AT_ALL: tuple[Check[Ask], ...] = (
    Check(
        "T4",
        _present,
        "the cloud does not call it terminated",
        GONE,
        lambda facts, subject: {"state": subject.node.state.value},
        decisive=True,
    ),
    Check(
        "T3",
        _ours,
        "it is of this pool, or matches [Cloud List]",
        "not by this manager: it is not of its pool",
        lambda facts, subject: {
            "pool": subject.node.tags.pool or "none",
            "ours": facts.settings.pool,
        },
        decisive=True,
    ),
    Check(
        "C8",
        _not_in_flight,
        "no shutdown of it is under way",
        "its shutdown is under way",
        moot=lambda facts: not facts.snapshot.node_flights,
    ),
    Check(
        "D3",
        _not_gone,
        "the cloud, asked by id, still has it",
        GONE,
        moot=lambda facts: not (facts.snapshot.gone or facts.history.freed),
    ),
    Check(
        "C8",
        _untouched,
        "listed since our last action for it",
        moot=lambda facts: not facts.snapshot.touched,
    ),
)
"""The checks of every node; the first that returns a verdict decides."""

FREE_OF_HOLDS: Check[Ask] = Check(
    "C9",
    _free_of_holds,
    "no operator holds it, nor its record",
    lambda facts, subject, measures: until_released(
        facts.snapshot.holds, subject.record or subject.node.tags.record, subject.node
    ),
)
READABLE: Check[Ask] = Check(
    "P3",
    _readable,
    "all of it, and of its record, can be read",
    "not while part of it can't be read",
)
NOT_KILLED: Check[Ask] = Check(
    "O2",
    _not_killed,
    "an operator kills it, busy or not",
    "not before an operator kills it",
    marked(lambda facts: facts.snapshot.kills),
    moot=lambda facts: not facts.snapshot.kills,
    course="killed",
)
NOT_CORDONED: Check[Ask] = Check(
    "O5",
    _not_cordoned,
    "no operator cordons it",
    "not before `nodemanager uncordon`",
    marked(lambda facts: facts.snapshot.drains),
    moot=lambda facts: not facts.snapshot.drains,
)
TAGGED: Check[Ask] = Check(
    "D11",
    _tagged,
    "it has our pool's tag",
    "not before an operator adopts it: it has no tag of ours",
    lambda facts, subject: {"pool": subject.node.tags.pool or "none"},
)
