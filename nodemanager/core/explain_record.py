"""Every rule that is asked of a record (SAFETY.md C0-C12, C20-C22), each with what it measured.

The questions are RecordJudge's own; what is added here is how they are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nodemanager.core.bearers import node_of
from nodemanager.core.explain_standing import ask_standing
from nodemanager.core.findings import (
    Answer,
    Asking,
    Finding,
    Measured,
    Status,
    Wait,
    found,
    not_asked,
)
from nodemanager.core.model import Record
from nodemanager.core.reasons import Reason
from nodemanager.core.records import BY_ITSELF, IN_TIME, RecordJudge, newest_sign, word_of
from nodemanager.core.settings import CLOCK_AGREE_POLLS
from nodemanager.core.verdict import Verdict

How = Asking[RecordJudge, Record]


def _holds(judge: RecordJudge, record: Record) -> Measured:
    held = {
        "slot": record.slot_number,
        "hostname": record.hostname,
        "address": record.ip_address,
        "first ping": record.first_ping_at and "yes",
        "last ping": record.last_ping_at and "yes",
        "claim": record.claim and "yes",
    }
    names = [name for name, value in held.items() if value is not None]
    return {"holds": ", ".join(names) or "nothing"}


def _in_flight(judge: RecordJudge, record: Record) -> Wait:
    limit = judge.settings.action_timeout
    return f"not while something of ours is under way for it (it ends within {limit:g} s)"


def _unpaired(judge: RecordJudge, record: Record) -> Wait:
    node = judge.pairs.node_of[record.uuid]
    if node.held or node.id in judge.snapshot.holds:
        return f"not while its node is on hold: `nodemanager release {node.id}` ends that"
    return f"not while its node {node.id} is listed"


def _unlisted(judge: RecordJudge, record: Record) -> Wait:
    node = node_of(record, judge.history.bearers, judge.history.present)
    return f"not while its node {node.id if node else ''} is listed"


def _unexpected(judge: RecordJudge, record: Record) -> Wait:
    expected = judge.snapshot.expected[record.uuid]
    return expected.since + judge.settings.boot_fail_after - judge.snapshot.now


def _clock(judge: RecordJudge, record: Record) -> Measured:
    clock = judge.clock
    if clock is None:
        return {"agreed_polls": 0, "needed_polls": CLOCK_AGREE_POLLS}
    return {
        "agreed_polls": clock.agreed,
        "needed_polls": CLOCK_AGREE_POLLS,
        "read_s": judge.snapshot.now - clock.read_at,
        "limit_s": judge.settings.poll_stale_after,
    }


def _clock_wait(judge: RecordJudge, record: Record) -> Wait:
    return 0.0 if judge.clock is not None else "not before the store's clock was read"


def _timeless(judge: RecordJudge, record: Record) -> str | None:
    if judge._on_a_known_clock(record) is not None:
        return "the store's clock can't be told"
    return None if newest_sign(record) is not None else "nothing says when it was written"


def _denied(judge: RecordJudge, record: Record) -> Measured:
    verdict = judge.unlisted.verdicts.get(record.uuid)
    return {} if verdict is None else dict(verdict.measures or {})


def _denied_wait(judge: RecordJudge, record: Record) -> Wait:
    verdict = judge.unlisted.verdicts[record.uuid]
    if verdict.reason is Reason.PINGING_UNLISTED:
        return _window_wait(judge, record)
    return "not while the cloud, asked by id, has its node"


def _window_wait(judge: RecordJudge, record: Record) -> Wait:
    measures = judge.quiet(record)
    return float(measures["window_s"] - measures["idle_s"])


def _word(judge: RecordJudge, record: Record) -> Measured:
    clock = judge.clock
    measures: dict[str, Any] = {"state": word_of(record, judge.snapshot, judge.settings).value}
    if clock is not None and record.last_ping_at is not None:
        measures["heard_s"] = clock.age(record.last_ping_at, judge.snapshot.now)
        measures["window_s"] = judge.settings.node_stale_after
    return measures


def _word_wait(judge: RecordJudge, record: Record) -> Wait:
    return float(judge.settings.node_stale_after - _word(judge, record)["heard_s"])


def _base(judge: RecordJudge, record: Record) -> Measured:
    base = judge.history.base
    if base is None:
        return {}
    return {
        "age_s": judge.snapshot.now - base.started_at,
        "limit_s": judge.settings.poll_stale_after,
    }


def _no_base(judge: RecordJudge, record: Record) -> str | None:
    return None if judge.history.base is not None else "there is no record listing to judge on"


def _versions(judge: RecordJudge, record: Record) -> Measured:
    return {
        "version": record.version,
        "judged": judge.history.base_index.get(record.uuid),
    }


def _absence(judge: RecordJudge, record: Record) -> Measured:
    measures: dict[str, Any] = {}
    judge._settled(record, measures)
    return measures


def _absence_wait(judge: RecordJudge, record: Record) -> Wait:
    absence = judge.history.absence.get(record.uuid)
    if absence is None or absence.incarnation != record.incarnation:
        return judge.settings.settle
    return absence.first_at + judge.settings.settle - judge.snapshot.now


def _askable_by(judge: RecordJudge, record: Record) -> Measured:
    by = ["tag"] if record.claim is not None else []
    by += ["instance id"] if record.instance_id is not None else []
    return {"asked_by": " and ".join(by) or "nothing"}


ASKINGS: Mapping[str, How] = {
    "readable": Asking(
        "all of it can be read",
        lambda judge, record: "not while part of it can't be read: look at it in the store",
    ),
    "ours": Asking(
        "it belongs to this pool",
        lambda judge, record: "not by this manager: it is not of its pool",
        lambda judge, record: {"pool": record.pool, "ours": judge.settings.pool},
    ),
    "holding": Asking(
        "it holds something", lambda judge, record: "it holds nothing to give back", _holds
    ),
    "free_of_holds": Asking(
        "no operator holds it, nor the node it names",
        lambda judge, record: (
            f"not while it is on hold: `nodemanager release {record.uuid}` ends that"
        ),
    ),
    "untouched": Asking("listed since we last did something for it", lambda judge, record: 0.0),
    "not_in_flight": Asking("nothing of ours is under way for it", _in_flight),
    "not_fenced": Asking(
        "no fence locks its node out",
        lambda judge, record: "not while a fence stands on it; it is lifted first",
    ),
    "unpaired": Asking("no listed node is its pair", _unpaired),
    "unambiguous": Asking(
        "no two candidates claim to be its node",
        lambda judge, record: "not while more than one candidate is listed",
    ),
    "unlisted": Asking(
        "no listed node bears its tags or has its instance id",
        _unlisted,
        lambda judge, record: {"instance_id": record.instance_id},
    ),
    "unseen": Asking("no incomplete listing showed its node", lambda judge, record: 0.0),
    "unexpected": Asking("no node was just created for it", _unexpected),
    "on_a_known_clock": Asking("the store's clock is known and steady", _clock_wait, _clock),
    "dated": Asking(
        "it says when it was last written",
        lambda judge, record: "not while the store gives no modified_at for it",
    ),
    "denied": Asking(
        "where it pings unlisted, the cloud denies its node",
        _denied_wait,
        _denied,
        _timeless,
    ),
    "past_its_window": Asking(
        "quiet for strictly longer than its window",
        _window_wait,
        lambda judge, record: judge.quiet(record),
        _timeless,
    ),
    "not_at_work": Asking("its node's fresh word is down, or none", _word_wait, _word, _timeless),
    "unchanged_since_base": Asking(
        "unchanged since the record listing before the newest cloud listing",
        lambda judge, record: 0.0,
        _versions,
    ),
    "on_a_fresh_base": Asking("that listing is fresh", lambda judge, record: 0.0, _base, _no_base),
    "settled": Asking("absent in enough listings, for settle", _absence_wait, _absence),
    "verifiable": Asking(
        "there is something to ask the cloud by",
        lambda judge, record: (
            "not by itself: neither tag nor instance id to ask by, so an operator must decide"
        ),
        _askable_by,
    ),
}

DECISIVE = frozenset({"readable", "ours", "holding"})
"""Where one of these blocks, no other rule has anything to be asked about."""
SHORT = Asking[RecordJudge, Record](
    "the listing lacks no node that the cloud has by id",
    lambda judge, record: "not while the cloud's listing lacks a node that it has by id",
)


def ask_record(judge: RecordJudge, record: Record) -> list[Finding]:
    """Each rule's answer about a listed record, in the order in which the judge asks them."""
    findings: list[Finding] = []
    over: str | None = None
    for check in BY_ITSELF:
        asking = ASKINGS[check.name]
        if over is not None:
            findings.append(not_asked(check.rule, check.name, asking.asks, over))
            continue
        kept = check.ask(judge, record)
        rule = "C9" if kept is not None and kept.reason is Reason.HELD else check.rule
        findings.append(found(rule, check.name, asking, judge, record, _answer(kept)))
        if kept is not None and check.name in DECISIVE:
            over = f"it is decided by {check.rule}"
    hand = judge.snapshot.by_hand.get(record.uuid)
    for in_time in IN_TIME:
        asking = ASKINGS[in_time.name]
        is_claim = in_time.name == "past_its_window" and judge.is_waiting_claim(record)
        rule = "C21" if is_claim else in_time.rule
        why = over or asking.unasked(judge, record)
        if why is not None:
            findings.append(not_asked(rule, in_time.name, asking.asks, why))
            continue
        has_time = _timeless(judge, record) is None
        kept = in_time.ask(judge, record, judge.quiet(record) if has_time else {})
        if kept is not None and hand is not None and hand.breaks(kept.reason):
            passed = found(rule, in_time.name, asking, judge, record, None)
            why = f"{hand.by} broke it by name ({hand.reason})"
            findings.append(replace(passed, reason=kept.reason, why=why))
            continue
        if kept is not None and judge.waives(record, kept.reason):
            passed = found(rule, in_time.name, asking, judge, record, None)
            why = "its pings are no sign of life: the cloud has denied its node for too long (P6)"
            findings.append(replace(passed, reason=kept.reason, why=why))
            continue
        findings.append(found(rule, in_time.name, asking, judge, record, _answer(kept)))
    findings += ask_standing(judge.snapshot, judge.settings)
    short = Answer(Reason.LISTING_SHORT, {}) if judge.unlisted.short else None
    findings.append(found("P6", "listing_whole", SHORT, judge, record, short))
    return findings


def _answer(kept: Verdict | None) -> Answer | None:
    if kept is None:
        return None
    own = {k: v for k, v in (kept.measures or {}).items() if k not in ("idle_s", "window_s")}
    return Answer(kept.reason, own)


def ask_of_plan(
    verdict: Verdict, is_impossible: bool, judge: RecordJudge
) -> tuple[list[Finding], list[Finding]]:
    """What the plan as a whole has to say, before the judge's own rules and behind them."""
    sane = Finding("L4", "possible", "the listings do not contradict themselves", Status.PASSED)
    if is_impossible:
        sane = Finding(
            sane.rule,
            sane.name,
            sane.asks,
            Status.BLOCKS,
            Reason.IMPOSSIBLE,
            why="not while a listing contradicts itself about it",
        )
    asks = "it was not leaked before the first start, with too many others"
    old = Finding("S5", "not_backlog", asks, Status.PASSED)
    if verdict.reason is Reason.BACKLOG_HELD:
        why = "not by itself: it is of the backlog, and an operator decides"
        old = Finding("S5", "not_backlog", asks, Status.BLOCKS, verdict.reason, why=why)
    asks, limit = "the cycle's cap is not used up", judge.settings.max_cleans_per_cycle
    cap = Finding("C10", "cap", asks, Status.PASSED, measures={"limit": limit})
    if verdict.reason is Reason.CAP_REACHED:
        cap = Finding(
            "C10", "cap", asks, Status.BLOCKS, verdict.reason, {"limit": limit}, wait_s=0.0
        )
    return [sane], [old, cap]


def ask_later(judge: RecordJudge, record: Record) -> list[Finding]:
    """What is asked later, or of other records, so that no rule goes without a word."""
    settings, flights = judge.settings, judge.snapshot.record_flights
    flight = flights.get(record.uuid)
    leaving = flight is not None and flight.kind.startswith("shutdown")
    findings = [
        not_asked(
            "C11",
            "last_look",
            "read again and asked for by tag and id, nothing has moved",
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
            "our shutdown of its node ended in gone: freed at once",
            "our shutdown of its node is under way; once it is gone, it is freed at once"
            if leaving
            else "no shutdown of ours is under way for it",
        ),
    ]
    if not judge.is_waiting_claim(record):
        findings.append(
            not_asked(
                "C21",
                "claim_window",
                "a claim that never pinged has a window of its own",
                "it was pinged" if record.claim is not None else "it bears no claim",
                window_s=settings.claim_window,
            )
        )
    findings.append(
        not_asked("C22", "startup_fail", "startup-fail alone is no reason", "it is not looked at")
    )
    return findings
