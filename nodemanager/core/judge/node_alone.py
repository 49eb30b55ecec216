"""The checks of a node without a record (SAFETY.md D7, P2, P4); only one with our tag goes."""

from __future__ import annotations

from nodemanager.core.judge.checks import Check, until
from nodemanager.core.judge.node_any import (
    FREE_OF_HOLDS,
    NOT_CORDONED,
    NOT_KILLED,
    READABLE,
    TAGGED,
    Ask,
)
from nodemanager.core.judge.node_facts import NodeFacts
from nodemanager.core.judge.node_view import NodeView, Subject
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import WorkerState
from nodemanager.core.observe.nodes_by_record import only_it_pings
from nodemanager.core.observe.scheduled import may_get_work, name_told, names_of, word_on
from nodemanager.core.observe.signs import silent_for


def _unambiguous(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node = subject.node
    if node.id in facts.pairs.ambiguous:
        view = subject.kept(Reason.AMBIGUOUS, rivals=facts.pairs.ambiguous[node.id])
        view.counts = node.tags.pool is not None
        return view
    return None


def _unheard(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """An unpaired node is kept while a record that only it can be pinging is pinged (D7).

    A record that lost its claim or a node that lost a tag no longer pairs, but the node works on.
    """
    node, settings = subject.node, facts.settings
    for record in facts.may_be_of(node):
        if record.last_ping_at is None or not only_it_pings(node, record):
            continue
        # As in D8, time in which no ping could arrive does not count as silence.
        silent_s = silent_for(record, facts.history)
        if silent_s > settings.node_stale_after:
            continue
        busy = facts.state_of(record) is WorkerState.BUSY
        reason = Reason.BUSY if busy else Reason.WORKER_UNKNOWN
        return subject.kept(reason, record=record.uuid, silent_s=silent_s)
    return None


def _not_in_work(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """An unpaired node is kept while the scheduler has it at work, or gives it work (D7).

    Its hostname is that of a record that may be its own, or the one that its life had. If none is
    known, it may be that of any record without a node.
    """
    for record in facts.may_be_of(subject.node):
        if record.uuid in facts.pairs.node_of:
            continue
        word = word_on(record, facts.history, facts.now, facts.settings)
        if word is not None and word.node.state is WorkerState.BUSY:
            return subject.kept(Reason.BUSY, record=record.uuid)
    for name in names_of(subject.node, facts.history, facts.pairs.node_of):
        told = name_told(name, facts.history, facts.now, facts.settings)
        if told is not None and may_get_work(told):
            is_busy = told.state is WorkerState.BUSY
            return subject.kept(Reason.BUSY if is_busy else Reason.UP_IN_SCHEDULER, host=name)
    return None


def _unexpected(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node of ours listed before a record poll shows its claim is booting, not unpaired (P4)."""
    node = subject.node
    expected = facts.snapshot.expected.get(node.tags.record or "")
    if expected is not None and expected.node_id == node.id:
        return subject.kept(Reason.BOOTING, age_s=facts.snapshot.now - expected.since)
    return None


def _unpaired(facts: NodeFacts, subject: Subject) -> NodeView | None:
    node, settings = subject.node, facts.settings
    measures = facts.alone_for(node)
    since_s, listings = measures["unpaired_s"], measures["record_listings"]
    # It counts for D9 at half the time, so that a wave shows before its first victim.
    counts = since_s > settings.boot_fail_after / 2 and listings > 0
    if since_s <= settings.boot_fail_after or listings < 2:
        view = subject.view(Verdict(Kind.KEEP, Reason.UNPAIRED_WITHIN_WINDOW, node.id, measures))
        view.bad_s = since_s if counts else None
        # A node that we booted names its record. One that names none serves nobody unless it pairs.
        view.counts = node.tags.record is not None
        return view
    view = subject.down(Kind.SHUTDOWN, Reason.UNPAIRED, measures, bad_s=since_s)
    if settings.scheduled:
        view.hostnames = names_of(node, facts.history, facts.pairs.node_of)
    return view


ALONE: tuple[Check[Ask], ...] = (
    Check(
        "P2",
        _unambiguous,
        "no two records claim it",
        lambda facts, subject, measures: (
            f"not while more than one candidate is listed: {', '.join(measures['rivals'])}"
        ),
        moot=lambda facts: not facts.pairs.ambiguous,
    ),
    TAGGED,
    FREE_OF_HOLDS,
    READABLE,
    NOT_KILLED,
    NOT_CORDONED,
    Check(
        "D7",
        _unheard,
        "no record that only it can be pinging is pinged",
        lambda facts, subject, measures: facts.settings.node_stale_after - measures["silent_s"],
        course="unpaired",
    ),
    Check(
        "D7",
        _not_in_work,
        "the scheduler neither says that it works nor gives it work",
        "not before the scheduler has drained it, and it does no work",
        moot=lambda facts: not facts.settings.scheduled,
        course="unpaired",
    ),
    Check(
        "P4",
        _unexpected,
        "we did not just create it",
        "not before a record listing shows its claim",
        moot=lambda facts: not facts.snapshot.expected,
        course="unpaired",
    ),
    Check(
        "D7",
        _unpaired,
        "without its record for boot_fail_after, in two record listings",
        until("unpaired_s", "limit_s"),
        lambda facts, subject: {**facts.alone_for(subject.node), "needed_listings": 2},
        course="unpaired",
    ),
)
"""The checks of an unpaired node; the first that returns a verdict decides."""
