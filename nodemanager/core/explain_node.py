"""Every rule that is asked of a node (SAFETY.md D1, D7-D11), each with what it measured.

The questions are NodeJudge's own; what is added here is how they are told. Some are asked of any
node, the others belong to courses - stopped, booting, busy, idle, down, silent, unpaired - of which
a node takes one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from nodemanager.core.by_hand import of_node
from nodemanager.core.checks import Check
from nodemanager.core.explain_standing import ask_standing
from nodemanager.core.findings import (
    Answer,
    Asking,
    Finding,
    Measured,
    Status,
    Wait,
    blocking,
    found,
    not_asked,
)
from nodemanager.core.idle import AS_IDLE
from nodemanager.core.marks import Mark
from nodemanager.core.model import CloudNode, Record
from nodemanager.core.plan import Plan
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.shutdown import ALONE, AT_ALL, PAIRED, NodeJudge, NodeView, opens_in
from nodemanager.core.verdict import Verdict


class Subject(NamedTuple):
    """A listed node, and its record where it has one."""

    node: CloudNode
    record: Record | None

    @property
    def paired(self) -> Record:
        assert self.record is not None
        return self.record


How = Asking[NodeJudge, Subject]


def _held(judge: NodeJudge, subject: Subject) -> Wait:
    return f"not while it is on hold: `nodemanager release {subject.node.id}` ends that"


def _stopped(judge: NodeJudge, subject: Subject) -> Measured:
    return judge.stopped(subject.node) or {"state": subject.node.state.value}


def _stopped_wait(judge: NodeJudge, subject: Subject) -> Wait:
    stopped = judge.stopped(subject.node) or {}
    return stopped["settle_s"] - stopped["stopped_s"]


def _boot(judge: NodeJudge, subject: Subject) -> Measured:
    return {
        "silent_s": judge.silence(subject.paired),
        "limit_s": judge.settings.boot_fail_after,
    }


def _boot_wait(judge: NodeJudge, subject: Subject) -> Wait:
    if judge.clock is None:
        return "not before the store's clock was read"
    return judge.settings.boot_fail_after - judge.silence(subject.paired)


def _word(judge: NodeJudge, subject: Subject) -> Measured:
    return {"state": judge.state_of(subject.paired).value}


def _idle(judge: NodeJudge, subject: Subject) -> Measured:
    return {
        "idle_polls": judge.idle_words(subject.paired),
        "needed_polls": judge.settings.consecutive_idle_count,
    }


def _idle_wait(judge: NodeJudge, subject: Subject) -> Wait:
    left = judge.settings.consecutive_idle_count - judge.idle_words(subject.paired)
    return f"not before {left} more of its pings {'say' if left > 1 else 'says'} that it is idle"


def _window(judge: NodeJudge, subject: Subject) -> Measured:
    at, windows = subject.node.created_at, judge.settings.shutdown_windows
    if at is None:
        return {}
    return {"age_s": judge.age(at), "opens_in_s": opens_in(judge.age(at), windows)}


def _window_wait(judge: NodeJudge, subject: Subject) -> Wait:
    at = subject.node.created_at
    return 0.0 if at is None else opens_in(judge.age(at), judge.settings.shutdown_windows)


def _silence(judge: NodeJudge, subject: Subject) -> Measured:
    silence = judge.silence_of(subject.node, subject.paired)
    return {
        "silent_s": silence.silent_s,
        "window_s": silence.window_s,
        "idle_s": silence.quiet_s,
        "stale_s": silence.quiet_window_s,
        "age_s": silence.age_s,
        "limit_s": silence.grace_s,
    }


def _down_wait(judge: NodeJudge, subject: Subject) -> Wait:
    silence = judge.silence_of(subject.node, subject.paired)
    if silence.age_s is None:
        return "not without a launch time from the cloud to count from"
    return silence.grace_s - silence.age_s


def _silence_wait(judge: NodeJudge, subject: Subject) -> Wait:
    silence = judge.silence_of(subject.node, subject.paired)
    if silence.quiet_s is None:
        return "not while the store gives no modified_at for its record"
    if silence.age_s is None:
        return "not without a launch time from the cloud to count from"
    return max(
        silence.window_s - silence.silent_s,
        silence.quiet_window_s - silence.quiet_s,
        silence.grace_s - silence.age_s,
    )


def _unpaired(judge: NodeJudge, subject: Subject) -> Measured:
    seen = judge.history.unpaired.get(subject.node.id)
    return {
        "unpaired_s": 0.0 if seen is None else judge.snapshot.now - seen.since,
        "limit_s": judge.settings.boot_fail_after,
        "record_listings": 0 if seen is None else seen.record_listings,
        "needed_listings": 2,
    }


def _unpaired_wait(judge: NodeJudge, subject: Subject) -> Wait:
    unpaired_s: float = _unpaired(judge, subject)["unpaired_s"]
    return judge.settings.boot_fail_after - unpaired_s


def _heard_wait(judge: NodeJudge, subject: Subject) -> Wait:
    seen = judge._unheard(subject.node)
    assert seen is not None
    silent_s: float = (seen.verdict.measures or {})["silent_s"]
    return judge.settings.node_stale_after - silent_s


def _ambiguous(judge: NodeJudge, subject: Subject) -> Wait:
    rivals = ", ".join(judge.pairs.ambiguous[subject.node.id])
    return f"not while more than one candidate is listed: {rivals}"


def _by(
    marks: Callable[[NodeJudge], Mapping[str, Mark]],
) -> Callable[[NodeJudge, Subject], Measured]:
    """Whose order stands on it, since when and why."""

    def measured(judge: NodeJudge, subject: Subject) -> Measured:
        mark = of_node(marks(judge), subject.node)
        return {} if mark is None else mark.measures(judge.snapshot.wall)

    return measured


GONE = "it is gone already"
HELD: How = Asking("no operator holds it, nor its record", _held)
READABLE: How = Asking(
    "all of it, and of its record, can be read",
    lambda judge, subject: "not while part of it can't be read",
)
TAGGED: How = Asking(
    "it bears our pool's tag",
    lambda judge, subject: "not before an operator adopts it: it bears no tag of ours",
    lambda judge, subject: {"pool": subject.node.tags.pool or "none"},
)

ASKINGS: Mapping[str, How] = {
    "present": Asking(
        "the cloud does not call it terminated",
        lambda judge, subject: GONE,
        lambda judge, subject: {"state": subject.node.state.value},
    ),
    "ours": Asking(
        "it is of this pool, or matches [Cloud List]",
        lambda judge, subject: "not by this manager: it is not of its pool",
        lambda judge, subject: {
            "pool": subject.node.tags.pool or "none",
            "ours": judge.settings.pool,
        },
    ),
    "not_in_flight": Asking(
        "no shutdown of it is under way", lambda judge, subject: "its shutdown is under way"
    ),
    "not_gone": Asking("the cloud, asked by id, still has it", lambda judge, subject: GONE),
    "untouched": Asking("listed since we last did something about it", lambda judge, subject: 0.0),
    "free_of_holds": HELD,
    "readable": READABLE,
    "tagged": TAGGED,
    "up": Asking("stopped in the cloud for settle", _stopped_wait, _stopped),
    "heard_of": Asking("never pinged for boot_fail_after", _boot_wait, _boot),
    "not_at_work": Asking(
        "it does not say that it is busy",
        lambda judge, subject: "not while it says that it is busy",
        _word,
    ),
    "not_killed": Asking(
        "an operator wants it gone now, busy or not",
        lambda judge, subject: "not before an operator kills it",
        _by(lambda judge: judge.snapshot.kills),
    ),
    "not_drained": Asking(
        "an operator drains it, and it says that it is idle",
        lambda judge, subject: "not while it says that it is busy",
        _by(lambda judge: judge.snapshot.drains),
    ),
    "idle_for_long": Asking("idle in consecutive_idle_count pings", _idle_wait, _idle),
    "idle_of_known_age": Asking(
        "the cloud says when it was launched",
        lambda judge, subject: "not without a launch time from the cloud to count from",
    ),
    "idle_in_its_window": Asking("its shutdown window is open", _window_wait, _window),
    "not_needed": Asking(
        "demand does not want it", lambda judge, subject: "not while demand wants it"
    ),
    "on_a_known_clock": Asking(
        "the store's clock is known",
        lambda judge, subject: "not before the store's clock was read",
    ),
    "not_down": Asking(
        "down by its own word, past boot_fail_after from launch unless that is fail",
        _down_wait,
        _silence,
    ),
    "not_silent": Asking(
        "silent, its record stale, and past boot_fail_after", _silence_wait, _silence
    ),
    "unambiguous": Asking("no two records claim it", _ambiguous),
    "unheard": Asking("no record that only it can be pinging is pinged", _heard_wait),
    "unexpected": Asking(
        "not just created by us",
        lambda judge, subject: "not before a record listing shows its claim",
    ),
    "unpaired": Asking(
        "without its record for boot_fail_after, in two record listings",
        _unpaired_wait,
        _unpaired,
    ),
}

SILENT = "silent, or of unknown state"
DECISIVE = frozenset({"present", "ours"})
"""Where one of these blocks, no other rule has anything to be asked about."""
COURSE = {
    "not_killed": "killed",
    "not_drained": "draining",
    "up": "stopped",
    "heard_of": "booting",
    "not_at_work": "busy",
    "idle_for_long": "idle",
    "idle_of_known_age": "idle",
    "idle_in_its_window": "idle",
    "not_needed": "idle",
    "on_a_known_clock": SILENT,
    "not_down": "down",
    "not_silent": SILENT,
    "unheard": "unpaired",
    "unexpected": "unpaired",
    "unpaired": "unpaired",
}
"""Of the questions that are not asked of every node, which course each belongs to."""


def ask_node(judge: NodeJudge, subject: Subject, made: Plan) -> list[Finding]:
    """Each rule's answer about a listed node, in the order in which they are asked."""
    findings: list[Finding] = []
    for check in AT_ALL:
        seen = check.ask(judge, *subject)
        findings.append(_found(check.rule, check.name, judge, subject, seen))
    decided = next((one for one in blocking(findings) if one.name in DECISIVE), None)
    asked = _asked(judge, subject)
    course = next((COURSE[c.name] for c, seen in asked if seen and c.name in COURSE), None)
    for one, seen in asked:
        mine = COURSE.get(one.name, course)
        if decided is not None:
            why = f"it is decided by {decided.rule}"
            findings.append(not_asked(one.rule, one.name, ASKINGS[one.name].asks, why))
        elif mine == course or (one.name == "not_at_work" and course == "idle"):
            findings.append(_found(one.rule, one.name, judge, subject, seen))
        else:
            why = f"it is {course}"
            findings.append(not_asked(one.rule, one.name, ASKINGS[one.name].asks, why))
    others, why = (ALONE, "it has its record") if subject.record else (PAIRED, "it has no record")
    told = {one.name for one in findings}
    findings += [
        not_asked(one.rule, one.name, ASKINGS[one.name].asks, why)
        for one in others
        if one.name in COURSE and one.name not in told
    ]
    findings = [_by_demand(one, findings, subject, made) for one in findings]
    return findings + ask_standing(judge.snapshot, judge.settings)


def _asked(judge: NodeJudge, subject: Subject) -> list[tuple[Check[Any], NodeView | None]]:
    node, record = subject
    if record is None:
        return [(check, check.ask(judge, node)) for check in ALONE]
    state = judge.state_of(record)
    return [(check, check.ask(judge, node, record, state)) for check in PAIRED]


def _found(
    rule: str, name: str, judge: NodeJudge, subject: Subject, seen: NodeView | None
) -> Finding:
    answer = None
    if seen is not None:
        verdict = seen.verdict
        answer = Answer(verdict.reason, verdict.measures or {}, verdict.kind is Kind.SHUTDOWN)
    return found(rule, name, ASKINGS[name], judge, subject, answer)


def _by_demand(one: Finding, all_of: list[Finding], subject: Subject, made: Plan) -> Finding:
    """Demand decides about an idle node that may go by all else; until then it is not asked."""
    if one.name != "not_needed" or one.status is not Status.BLOCKS:
        return one
    before = [other for other in blocking(all_of) if other.name != one.name]
    if made.wants is not None and subject.node.id in made.wants.surplus:
        return Finding(one.rule, one.name, one.asks, Status.CALLS, Reason.IDLE_BEYOND_DEMAND)
    if before:
        return Finding(
            one.rule,
            one.name,
            one.asks,
            Status.BLOCKS,
            one.reason,
            why="demand decides once nothing else forbids it",
        )
    return one


def ask_of_plan(
    node: CloudNode, record: Record | None, verdict: Verdict, made: Plan, judge: NodeJudge
) -> list[Finding]:
    """What the plan as a whole has to say of a node that may go by its own rules (L4, C8, D9)."""
    settings = judge.settings
    uuid = record.uuid if record is not None else node.tags.record
    impossible = made.impossible is not None and node.id in made.impossible.ids
    sane = Finding("L4", "possible", "the listings do not contradict themselves", Status.PASSED)
    if impossible:
        sane = Finding(
            "L4",
            "possible",
            sane.asks,
            Status.BLOCKS,
            Reason.IMPOSSIBLE,
            why="not while a listing contradicts itself about it",
        )
    asks = "nothing of ours is under way for its record"
    flight = Finding("C8", "record_not_in_flight", asks, Status.PASSED)
    if uuid in judge.snapshot.record_flights:
        why = f"not while something of ours is under way for {uuid}"
        flight = Finding("C8", flight.name, asks, Status.BLOCKS, Reason.IN_FLIGHT, why=why)
    asks, limit = "the cycle's cap on shutdowns is not used up", settings.max_shutdowns_per_cycle
    cap = Finding("D9", "cap", asks, Status.PASSED, measures={"limit": limit})
    if verdict.reason is Reason.SHUTDOWN_CAP:
        cap = Finding(
            "D9", "cap", asks, Status.BLOCKS, verdict.reason, {"limit": limit}, wait_s=0.0
        )
    later = [
        not_asked(
            "D2",
            "last_look",
            "record and picture are looked at once more",
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
    return [sane, _word_is_news(verdict), flight, cap, *later]


def _word_is_news(verdict: Verdict) -> Finding:
    """What is asked of a node that would go by its own idle word (D12)."""
    asks = "it was told to take no more work, and has drained; or its idle word is news"
    waits = {
        Reason.DRAIN_AWAITED: "not before its pings say that it is drained",
        Reason.IDLE_WORD_OLD: "not before its next ping says that it is idle",
    }
    reason, measures = verdict.reason, verdict.measures or {}
    if reason in waits:
        why = waits[reason]
        return Finding("D12", "idle_word", asks, Status.BLOCKS, reason, measures, why=why)
    if reason in AS_IDLE:
        return Finding("D12", "idle_word", asks, Status.PASSED)
    return not_asked("D12", "idle_word", asks, "it is not shut down as idle")
