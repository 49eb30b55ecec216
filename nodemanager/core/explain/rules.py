"""What `explain` finds: each rule's answer, what it measured, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from nodemanager.core.judge.idle import AS_IDLE, stays_drained
from nodemanager.core.judge.node_view import NodeView, Subject
from nodemanager.core.judge.nodes import ALONE, AT_ALL, PAIRED, Ask, NodeFacts
from nodemanager.core.judge.preconditions import STANDING, Measured, RuleCheck, wait_of
from nodemanager.core.judge.records import BY_ITSELF, IN_TIME, InTime, RecordJudge
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Objection, Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.observe.evidence import TO_CLEAR
from nodemanager.core.observe.signs import waits_for_first_ping
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.core.plan.plan import Plan


class RuleStatus(StrEnum):
    """A rule's answer. `calls` means that the rule calls for a node's shutdown."""

    BLOCKS = "blocks"
    PASSED = "passed"
    CALLS = "calls"
    NOT_ASKED = "not_asked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's answer. `asks` is what must hold. `why` says what a block waits for, who broke the
    rule by hand, or why it was not asked. `wait_s` is set if time and polls alone end a block."""

    rule: str
    name: str
    asks: str
    status: RuleStatus
    reason: Reason | None = None
    measures: Measured = field(default_factory=dict)
    why: str | None = None
    wait_s: float | None = None


def found(
    check: RuleCheck[Any],
    judge: object,
    subject: object,
    said: Verdict | Objection | None,
    rule: str = "",
) -> Finding:
    """The finding of a check that said this (None: passed); `rule` replaces the check's own."""
    measures = check.measure(judge, subject)
    finding = Finding(
        rule or check.rule, check.name, check.asks, RuleStatus.PASSED, measures=measures
    )
    if said is None:
        return finding
    if isinstance(said, Verdict) and said.kind is Kind.SHUTDOWN:
        return replace(finding, status=RuleStatus.CALLS, reason=said.reason)
    measures, by = {**(said.measures or {}), **measures}, said.rule or finding.rule
    blocked = replace(
        finding, rule=by, status=RuleStatus.BLOCKS, reason=said.reason, measures=measures
    )
    wait = wait_of(check, judge, subject, measures)
    if isinstance(wait, str):
        return replace(blocked, why=wait)
    return replace(blocked, wait_s=max(0.0, wait))


def ask_standing(snapshot: Snapshot, settings: Settings) -> list[Finding]:
    """The findings of all rules that can forbid every free and destroy."""
    return [found(check, snapshot, settings, check.ask(snapshot, settings)) for check in STANDING]


def skipped(check: RuleCheck[Any], why: str, rule: str = "") -> Finding:
    """The finding of a check that was not asked."""
    return not_asked(rule or check.rule, check.name, check.asks, why)


def not_asked(rule: str, name: str, asks: str, why: str, **measures: Any) -> Finding:
    return Finding(rule, name, asks, RuleStatus.NOT_ASKED, measures=measures, why=why)


def of_plan(rule: str, name: str, asks: str, blocked: Reason | None = None, **more: Any) -> Finding:
    """The finding of a rule that the whole plan asks; `more` is of its block, if it blocks."""
    if blocked is None:
        return Finding(rule, name, asks, RuleStatus.PASSED)
    return Finding(rule, name, asks, RuleStatus.BLOCKS, blocked, **more)


def _possible(is_impossible: bool, why: str) -> Finding:
    asks, reason = "the listings do not contradict themselves", Reason.IMPOSSIBLE
    return of_plan("L4", "possible", asks, reason if is_impossible else None, why=why)


def blocking(findings: Iterable[Finding]) -> list[Finding]:
    return [one for one in findings if one.status is RuleStatus.BLOCKS]


# Every rule that is asked of a record (SAFETY.md C0-C12, C20-C22).


IN_VAIN = "its pings are no sign of life: the cloud has denied its node for too long (P6)"


def ask_record(judge: RecordJudge, record: Record) -> list[Finding]:
    """Each rule's answer about a listed record, in the order in which the judge asks them."""
    findings: list[Finding] = []
    over: str | None = None
    for check in BY_ITSELF:
        if over is not None:
            findings.append(skipped(check, over))
            continue
        kept = check.ask(judge, record)
        findings.append(found(check, judge, record, kept))
        if kept is not None and check.decisive:
            over = f"it is decided by {check.rule}"
    findings += [_in_time(check, judge, record, over) for check in IN_TIME]
    findings += ask_standing(judge.snapshot, judge.settings)
    findings.append(_whole(judge))
    return findings


def _in_time(
    check: RuleCheck[InTime], judge: RecordJudge, record: Record, over: str | None
) -> Finding:
    is_claim = check.name == "past_its_window" and waits_for_first_ping(record)
    rule = "C21" if is_claim else check.rule
    why = over or check.unasked(judge, record)
    if why is not None:
        return skipped(check, why, rule)
    kept = check.ask(judge, record, {} if judge.timeless(record) else judge.quiet(record))
    hand = judge.snapshot.by_hand.get(record.uuid)
    if kept is None:
        return found(check, judge, record, None, rule)
    if hand is not None and hand.breaks(kept.reason):
        why = f"{hand.by} broke it by name ({hand.reason})"
    elif judge.waives(record, kept.reason):
        why = IN_VAIN
    else:
        own = {k: v for k, v in (kept.measures or {}).items() if k not in ("idle_s", "window_s")}
        return found(check, judge, record, kept._replace(measures=own), rule)
    return replace(found(check, judge, record, None, rule), reason=kept.reason, why=why)


def _whole(judge: RecordJudge) -> Finding:
    asks = "the cloud lists each node of ours that it has by id"
    why = "not while the cloud's listing lacks a node that it has by id"
    short = Reason.LISTING_SHORT if judge.unlisted.short else None
    return of_plan("P6", "listing_whole", asks, short, why=why)


def plan_on_record(
    verdict: Verdict, is_impossible: bool, judge: RecordJudge
) -> tuple[list[Finding], list[Finding]]:
    """What the whole plan says of a record, before and after the judge's own rules."""
    reason, measures = verdict.reason, verdict.measures or {}
    why = "not while a listing contradicts itself about it"
    if is_impossible and measures:
        others = [one for one in measures["rivals"] if one != verdict.id]
        why = f"not while {', '.join(others)} holds its slot, too: {TO_CLEAR}"
    sane = _possible(is_impossible, why)
    asks = "it was not leaked before the first start, with too many others"
    why = "not by itself: it is in the backlog, and an operator decides"
    held = reason if reason is Reason.BACKLOG_HELD else None
    old = of_plan("S5", "not_backlog", asks, held, why=why)
    asks, limit = "the cycle's cap is not used up", {"limit": judge.settings.max_cleans_per_cycle}
    cap = Finding("C10", "cap", asks, RuleStatus.PASSED, measures=limit)
    if reason is Reason.CAP_REACHED:
        limit = {"limit": measures["limit"]}
        cap = of_plan("C10", "cap", asks, reason, wait_s=0.0, measures=limit)
    return [sane], [old, cap]


def ask_later(judge: RecordJudge, record: Record) -> list[Finding]:
    """The rules that are asked later, or of other records, so that each rule has a row."""
    settings, flights = judge.settings, judge.snapshot.record_flights
    flight = flights.get(record.uuid)
    leaving = flight is not None and flight.kind.startswith("shutdown")
    findings = [
        not_asked(
            "C11",
            "last_look",
            "it is read and asked for by tag and id again, unchanged",
            "asked right before the write",
            visible_after_s=settings.visible_after,
        ),
        not_asked(
            "C12",
            "conditional",
            "the write names the version judged",
            "asked by the write itself",
            guarantee="cas" if settings.compare_and_set else "fenced",
        ),
        not_asked(
            "C20",
            "after_shutdown",
            "our shutdown of its node ended in gone: it is freed at once",
            "our shutdown of its node is under way; once it is gone, it is freed at once"
            if leaving
            else "no shutdown of ours is under way for it",
        ),
    ]
    if not waits_for_first_ping(record):
        findings.append(
            not_asked(
                "C21",
                "claim_window",
                "a claim that never pinged has a window of its own",
                "it was pinged" if record.claim is not None else "it has no claim",
                window_s=settings.claim_window,
            )
        )
    findings.append(
        not_asked("C22", "startup_fail", "startup-fail alone is no reason", "it is not looked at")
    )
    return findings


# Every rule that is asked of a node (SAFETY.md D1, D7-D12).
#
# Some rules are asked of every node. The others belong to a course (stopped, booting, busy, idle,
# down, silent, unpaired), and a node takes one course at a time.


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
    named = {one.name for one in findings}
    findings += [skipped(row, why) for row in others if row.course and row.name not in named]
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


def plan_on_node(subject: Subject, verdict: Verdict, made: Plan, facts: NodeFacts) -> list[Finding]:
    """What the whole plan says of a node, beside the node's own rules (L4, C8, D9, D12)."""
    settings = facts.settings
    node, record = subject.node, subject.record
    uuid = record.uuid if record is not None else node.tags.record
    impossible = made.impossible is not None and node.id in made.impossible.ids
    sane = _possible(impossible, "not while a listing contradicts itself about it")
    asks = "no action of ours is in flight for its record"
    why = f"not while an action of ours is in flight for {uuid}"
    flying = Reason.IN_FLIGHT if uuid in facts.snapshot.record_flights else None
    flight = of_plan("C8", "record_not_in_flight", asks, flying, why=why)
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
        return of_plan("D12", "idle_word", asks, reason, measures=measures, why=waits[reason])
    if reason in AS_IDLE:
        return of_plan("D12", "idle_word", asks)
    return not_asked("D12", "idle_word", asks, "it is not shut down as idle")


# When.


@dataclass(frozen=True, slots=True)
class Earliest:
    """When no rule would block any more, if nothing but the time changes.

    `in_s` counts from the snapshot. If it is None, no moment is known, `why` says what must happen
    first, and `not_before_s` is a lower bound, if there is one.
    """

    in_s: float | None
    why: tuple[str, ...] = ()
    not_before_s: float | None = None


ROUNDS = 32
LONGEST_S = 10 * 366 * 86400.0


def earliest(ask_at: Callable[[float], list[Finding]], tick_s: float) -> Earliest:
    """The first moment at which no rule blocks; `ask_at` asks all rules that many seconds ahead.

    Each block says how long it lasts at least. After the longest of these all are asked again.
    """
    ahead = 0.0
    for _ in range(ROUNDS):
        blocks = blocking(ask_at(ahead))
        if not blocks:
            return Earliest(ahead)
        words = tuple(dict.fromkeys(one.why for one in blocks if one.why is not None))
        longest = max((one.wait_s for one in blocks if one.wait_s is not None), default=0.0)
        if words:
            return Earliest(None, words, ahead + longest if ahead + longest > tick_s else None)
        ahead += max(longest + tick_s, tick_s)
        if ahead > LONGEST_S:
            break
    return Earliest(None, ("no moment within ten years, as things stand",))
