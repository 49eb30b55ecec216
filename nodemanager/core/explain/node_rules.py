"""Every rule that is asked of a node (SAFETY.md D1, D7-D12), each with what it measured.

Some rules are asked of every node. The others belong to a course (stopped, booting, busy, idle,
down, silent, unpaired), and a node takes one course at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nodemanager.core.explain.findings import (
    Finding,
    RuleStatus,
    ask_standing,
    blocking,
    found,
    not_asked,
    skipped,
)
from nodemanager.core.judge.idle import AS_IDLE, stays_drained
from nodemanager.core.judge.node_view import NodeView, Subject
from nodemanager.core.judge.nodes import ALONE, AT_ALL, PAIRED, Ask, NodeFacts
from nodemanager.core.judge.preconditions import RuleCheck
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.plan.plan import Plan

AskedRule = tuple[RuleCheck[Ask], NodeView | None]


def ask_node(facts: NodeFacts, subject: Subject, made: Plan) -> list[Finding]:
    """Each rule's answer about a listed node, in the order in which they are asked."""
    at_all = _asked(AT_ALL, facts, subject)
    asked = _asked(PAIRED if subject.record else ALONE, facts, subject)
    decided = next((check.rule for check, seen in at_all if seen and check.decisive), None)
    course = next((check.course for check, seen in asked if seen and check.course), None)
    findings = [_found(one, facts, subject) for one in at_all]
    for one in asked:
        why = f"it is decided by {decided}" if decided else _off_course(one[0], course)
        findings.append(skipped(one[0], why) if why else _found(one, facts, subject))
    others, why = (ALONE, "it has its record") if subject.record else (PAIRED, "it has no record")
    told = {one.name for one in findings}
    findings += [skipped(row, why) for row in others if row.course and row.name not in told]
    findings = [_by_demand(one, findings, facts, subject, made) for one in findings]
    return findings + ask_standing(facts.snapshot, facts.settings)


def _off_course(check: RuleCheck[Ask], course: str | None) -> str | None:
    """Why the check is not asked of a node on this course; None if it is asked."""
    if check.course in (None, course) or (check.name == "not_at_work" and course == "idle"):
        return None
    return f"it is {course}"


def _asked(checks: Iterable[RuleCheck[Ask]], facts: NodeFacts, subject: Subject) -> list[AskedRule]:
    return [(check, check.ask(facts, subject)) for check in checks]


def _found(asked: AskedRule, facts: NodeFacts, subject: Subject) -> Finding:
    check, seen = asked
    return found(check, facts, subject, None if seen is None else seen.verdict)


def _by_demand(
    one: Finding, all_of: list[Finding], facts: NodeFacts, subject: Subject, made: Plan
) -> Finding:
    """The finding as demand leaves it: demand decides once no other rule keeps an idle node."""
    if one.name != "not_needed" or one.status is not RuleStatus.BLOCKS:
        return one
    before = [other for other in blocking(all_of) if other.name != one.name]
    if made.wants is not None and subject.node.id in made.wants.surplus:
        return replace(one, status=RuleStatus.CALLS, reason=Reason.IDLE_BEYOND_DEMAND, why=None)
    if made.wants is not None and subject.node.id in made.wants.rotations.chosen:
        reason = made.wants.rotations.chosen[subject.node.id].reason
        return replace(one, status=RuleStatus.CALLS, reason=reason, why=None)
    if made.wants is not None and subject.node.id in made.wants.spare:
        return replace(one, reason=Reason.SPARE, why="not while spare_nodes keeps it ready")
    if before:
        return replace(one, why="demand decides once nothing else forbids it")
    node_id, snapshot = subject.node.id, facts.snapshot
    is_wanted = node_id not in snapshot.history.unwanted
    if is_wanted and stays_drained(node_id, subject.own, snapshot):
        why = "not while demand wants it; it gets work once a destroy that was sent can't end it"
        return replace(one, reason=Reason.LATE_DESTROY, why=why)
    return one


def ask_of_plan(subject: Subject, verdict: Verdict, made: Plan, facts: NodeFacts) -> list[Finding]:
    """What the whole plan says of a node, beside the node's own rules (L4, C8, D9, D12)."""
    settings = facts.settings
    node, record = subject.node, subject.record
    uuid = record.uuid if record is not None else node.tags.record
    impossible = made.impossible is not None and node.id in made.impossible.ids
    sane = Finding("L4", "possible", "the listings do not contradict themselves", RuleStatus.PASSED)
    if impossible:
        why = "not while a listing contradicts itself about it"
        sane = replace(sane, status=RuleStatus.BLOCKS, reason=Reason.IMPOSSIBLE, why=why)
    asks = "no action of ours is in flight for its record"
    flight = Finding("C8", "record_not_in_flight", asks, RuleStatus.PASSED)
    if uuid in facts.snapshot.record_flights:
        why = f"not while an action of ours is in flight for {uuid}"
        flight = replace(flight, status=RuleStatus.BLOCKS, reason=Reason.IN_FLIGHT, why=why)
    asks, limit = "the cycle's cap on shutdowns is not used up", settings.max_shutdowns_per_cycle
    cap = Finding("D9", "cap", asks, RuleStatus.PASSED, measures={"limit": limit})
    if verdict.reason is Reason.SHUTDOWN_CAP:
        cap = replace(cap, status=RuleStatus.BLOCKS, reason=verdict.reason, wait_s=0.0)
    later = [
        not_asked(
            "D2",
            "last_look",
            "the record and the newest listings are checked again",
            "asked right before the destroy",
        ),
        not_asked(
            "D3",
            "gone",
            "the cloud says that it is gone; only then its slot is freed",
            "asked after the destroy",
            visible_after_s=settings.visible_after,
        ),
    ]
    return [sane, _word_is_news(verdict, settings), flight, cap, *later]


def _word_is_news(verdict: Verdict, settings: Settings) -> Finding:
    """The finding on a node that would go because its own ping says idle (D12)."""
    asks = "it drained as it was told to, or a new ping of it says idle"
    waits = {
        Reason.DRAIN_AWAITED: "not before the scheduler shows it drained"
        if settings.scheduled
        else "not before its pings say that it is drained",
        Reason.IDLE_WORD_OLD: "not before its next ping says that it is idle",
    }
    reason, measures = verdict.reason, verdict.measures or {}
    if reason in waits:
        why = waits[reason]
        return Finding("D12", "idle_word", asks, RuleStatus.BLOCKS, reason, measures, why=why)
    if reason in AS_IDLE:
        return Finding("D12", "idle_word", asks, RuleStatus.PASSED)
    return not_asked("D12", "idle_word", asks, "it is not shut down as idle")
