"""Every rule that is asked of a record (SAFETY.md C0-C12, C20-C22), each with what it measured."""

from __future__ import annotations

from dataclasses import replace

from nodemanager.core.explain.findings import (
    Finding,
    RuleStatus,
    ask_standing,
    found,
    not_asked,
    skipped,
)
from nodemanager.core.judge.preconditions import RuleCheck
from nodemanager.core.judge.records import BY_ITSELF, IN_TIME, InTime, RecordJudge
from nodemanager.core.model.reasons import Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record
from nodemanager.core.observe.evidence import TO_CLEAR
from nodemanager.core.observe.signs import waits_for_first_ping

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
    whole = Finding("P6", "listing_whole", asks, RuleStatus.PASSED)
    if not judge.unlisted.short:
        return whole
    why = "not while the cloud's listing lacks a node that it has by id"
    return replace(whole, status=RuleStatus.BLOCKS, reason=Reason.LISTING_SHORT, why=why)


def ask_of_plan(
    verdict: Verdict, is_impossible: bool, judge: RecordJudge
) -> tuple[list[Finding], list[Finding]]:
    """What the whole plan says of a record, before and after the judge's own rules."""
    sane = Finding("L4", "possible", "the listings do not contradict themselves", RuleStatus.PASSED)
    if is_impossible:
        why = "not while a listing contradicts itself about it"
        if verdict.measures is not None:
            others = [one for one in verdict.measures["rivals"] if one != verdict.id]
            why = f"not while {', '.join(others)} holds its slot, too: {TO_CLEAR}"
        sane = replace(sane, status=RuleStatus.BLOCKS, reason=Reason.IMPOSSIBLE, why=why)
    asks = "it was not leaked before the first start, with too many others"
    old = Finding("S5", "not_backlog", asks, RuleStatus.PASSED)
    if verdict.reason is Reason.BACKLOG_HELD:
        why = "not by itself: it is in the backlog, and an operator decides"
        old = replace(old, status=RuleStatus.BLOCKS, reason=verdict.reason, why=why)
    asks, limit = "the cycle's cap is not used up", judge.settings.max_cleans_per_cycle
    cap = Finding("C10", "cap", asks, RuleStatus.PASSED, measures={"limit": limit})
    if verdict.reason is Reason.CAP_REACHED:
        used_up = {"limit": (verdict.measures or {})["limit"]}
        cap = replace(
            cap, status=RuleStatus.BLOCKS, reason=verdict.reason, wait_s=0.0, measures=used_up
        )
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
