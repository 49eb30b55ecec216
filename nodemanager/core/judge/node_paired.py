"""The checks of a paired node: is it booting, busy, idle or down? (SAFETY.md D1, D8, O1)"""

from __future__ import annotations

from typing import Any

from nodemanager.core.judge.checks import Check, Measured, Wait, until
from nodemanager.core.judge.node_any import (
    FREE_OF_HOLDS,
    NO_AGE,
    NOT_CORDONED,
    NOT_KILLED,
    READABLE,
    TAGGED,
    Ask,
    marked,
    ordered_away,
)
from nodemanager.core.judge.node_facts import NodeFacts
from nodemanager.core.judge.node_view import NodeView, Subject, opens_in, window_open
from nodemanager.core.judge.overrides import drained
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.settings import CREATE_MARGIN_S, CREATE_WITHIN_S
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import Record, WorkerState
from nodemanager.core.observe.scheduled import idle_count, suspended_word
from nodemanager.core.observe.signs import silent_for

SILENT = "silent, or of unknown state"
NOT_UP = frozenset({Reason.UNJOINED, Reason.UNSCHEDULED})
"""The reasons to keep a node that its scheduler does not know as up: it satisfies nothing (D17)."""
BUSY, AT_WORK = WorkerState.BUSY, Reason.BUSY
"""Looked up once, because most nodes are busy."""


def _not_drained(facts: NodeFacts, subject: Subject) -> NodeView | None:
    return ordered_away(subject, drained(subject.node, subject.state, facts.snapshot))


def _up(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node that was stopped, suspended or in error for `settle` is down (D1).

    It counts for D9 as soon as it is seen so: a mass failure shows before the first destroy.
    """
    measures: Measured | None = facts.stopped(subject.node)
    if measures is None:
        return None
    stopped_s, settle_s = measures["stopped_s"], measures["settle_s"]
    if subject.node.why:
        measures = {**measures, "detail": subject.node.why}
    if stopped_s < settle_s:
        return subject.down(Kind.KEEP, Reason.NOT_SETTLED, measures, bad_s=stopped_s)
    return subject.down(Kind.SHUTDOWN, Reason.NODE_STOPPED, measures, bad_s=stopped_s)


def _stopped_for(facts: NodeFacts, subject: Subject) -> Measured:
    return facts.stopped(subject.node) or {"state": subject.node.state.value}


def _heard_of(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node that never pinged is booting, and after `boot_fail_after` a failed boot (D8)."""
    record = subject.own
    if record.last_ping_at is not None or record.first_ping_at is not None:
        return None
    if subject.state is BUSY:
        # The scheduler says so: it works, whatever keeps it from pinging.
        return None
    measures = _booting_for(facts, subject)
    silent_s, limit_s = measures["silent_s"], measures["limit_s"]
    if silent_s <= limit_s or facts.clock is None:
        verdict = Verdict(Kind.KEEP, Reason.BOOTING, subject.node.id, measures)
        return NodeView(subject.node, verdict, WorkerState.UNKNOWN, record=record)
    # One that was heard, whatever has forgotten it since, counts as one that fell silent (D9).
    bad_s = silent_s if _was_heard(facts, record) else None
    return subject.down(Kind.SHUTDOWN, Reason.BOOT_FAILED, measures, bad_s=bad_s)


def _was_heard(facts: NodeFacts, record: Record) -> bool:
    """Whether an earlier listing showed a sign of this life of the record."""
    heard = facts.history.heard.get(record.uuid)
    if heard is None or heard.incarnation != record.incarnation:
        return False
    return heard.before_at > float("-inf")


def _booting_for(facts: NodeFacts, subject: Subject) -> Measured:
    """How long the node has been booting, since its claim or its late launch, and the limit (D8).

    A late create must not leave its node less time to boot. No launch is believed to be later than
    creates may take effect, whatever the cloud's clock says (A2). A launch within a minute of the
    claim is not late (U5).
    """
    limit_s, age_s = facts.settings.boot_fail_after, facts.age_of(subject)
    silent_s = silent_for(subject.own, facts.history)
    if age_s is not None:
        late_s = min(silent_s - age_s, limit_s + CREATE_MARGIN_S)
        if late_s > CREATE_WITHIN_S:
            silent_s -= late_s
    return {"silent_s": silent_s, "limit_s": limit_s}


def _until_booted(facts: NodeFacts, subject: Subject, measures: Measured) -> Wait:
    if facts.clock is None:
        return "not before the store's clock was read"
    return until("silent_s", "limit_s")(facts, subject, measures)


def _not_suspended(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node that its scheduler has switched off gets no more work, whoever would keep it (D12).

    The scheduler starts its next work only on a new machine, and may want that soon.
    """
    if subject.state is BUSY:
        return None
    word = suspended_word(subject.own, facts.snapshot, facts.settings)
    if word is None:
        return None
    measures = {"state": word.node.said}
    return ordered_away(
        subject, Verdict(Kind.SHUTDOWN, Reason.SUSPENDED, subject.node.id, measures)
    )


def _said_of_power(facts: NodeFacts, subject: Subject) -> Measured:
    word = suspended_word(subject.own, facts.snapshot, facts.settings)
    return {} if word is None else {"state": word.node.said}


def _not_at_work(facts: NodeFacts, subject: Subject) -> NodeView | None:
    return subject.kept(AT_WORK) if subject.state is BUSY else None


def _idle_for_long(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.state is not WorkerState.IDLE:
        return None
    measures = _idle_for(facts, subject)
    if measures["idle_polls"] < measures["needed_polls"]:
        return subject.kept(Reason.NOT_IDLE_LONG, **measures)
    return None


def _idle_for(facts: NodeFacts, subject: Subject) -> Measured:
    needed = facts.settings.consecutive_idle_count
    idle = idle_count(subject.own, facts.snapshot, facts.settings)
    return {"idle_polls": idle, "needed_polls": needed}


def _until_idle(facts: NodeFacts, subject: Subject, measures: Measured) -> Wait:
    left = measures["needed_polls"] - measures["idle_polls"]
    says = "say" if left > 1 else "says"
    of = "the scheduler's answers" if facts.settings.scheduled else "its pings"
    return f"not before {left} more of {of} {says} that it is idle"


def _idle_of_known_age(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.state is WorkerState.IDLE and subject.node.created_at is None:
        return subject.kept(Reason.NO_LAUNCH_TIME)
    return None


def _idle_in_its_window(facts: NodeFacts, subject: Subject) -> NodeView | None:
    age_s = facts.age_of(subject)
    if subject.state is not WorkerState.IDLE or age_s is None:
        return None
    if not window_open(age_s, facts.settings.shutdown_windows):
        return subject.kept(Reason.WINDOW_CLOSED, age_s=age_s)
    return None


def _window(facts: NodeFacts, subject: Subject) -> Measured:
    age_s, windows = facts.age_of(subject), facts.settings.shutdown_windows
    return {} if age_s is None else {"age_s": age_s, "opens_in_s": opens_in(age_s, windows)}


def _not_needed(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """An idle node counts as needed until the plan compares it with the demand (D1)."""
    if subject.state is not WorkerState.IDLE:
        return None
    view = subject.kept(Reason.NEEDED)
    view.surplus_if_idle = True
    return view


def _joins(facts: NodeFacts, subject: Subject) -> NodeView | None:
    """A node that pings, and that its scheduler never called up in its grace, has failed (D17).

    It was heard, so it counts for D9: a scheduler that reaches no node must not end them all. One
    that is silent, too, goes for its silence (D8).
    """
    measures = facts.unjoined(subject)
    if not measures or measures["unjoined_s"] <= measures["limit_s"]:
        return None
    if facts.counted_silence(subject) is not None:
        return None
    bad_s = measures["unjoined_s"]
    return subject.down(Kind.SHUTDOWN, Reason.NOT_JOINED, measures, bad_s=bad_s)


def _until_unjoined(facts: NodeFacts, subject: Subject, measures: Measured) -> Wait:
    if not measures:
        return "not unless its scheduler says that it never was up"
    return until("unjoined_s", "limit_s")(facts, subject, measures)


def _on_a_known_clock(facts: NodeFacts, subject: Subject) -> NodeView | None:
    return subject.kept(Reason.CLOCK_UNKNOWN) if facts.clock is None else None


def _silent_for(facts: NodeFacts, subject: Subject) -> Measured:
    return facts.silence_of(subject).measures


def _not_down(facts: NodeFacts, subject: Subject) -> NodeView | None:
    if subject.state is not WorkerState.DOWN:
        return None
    silence = facts.silence_of(subject)
    # A node that reports `fail` will not recover by waiting.
    past_grace = silence.is_past_grace or subject.own.failed
    measures = {
        "state": subject.state.value,
        "age_s": silence.age_s,
        "limit_s": silence.grace_s,
    }
    if past_grace:
        return subject.down(Kind.SHUTDOWN, Reason.NODE_DOWN, measures, bad_s=0.0)
    view = subject.view(Verdict(Kind.KEEP, Reason.BOOTING, subject.node.id, measures))
    if silence.seen_s > silence.grace_s:
        # It is in its grace again, by a jump of a clock, and turned down all the same (D9).
        view.bad_s = 0.0
    return view


def _until_down(facts: NodeFacts, subject: Subject, measures: Measured) -> Wait:
    if measures["age_s"] is None:
        return NO_AGE
    return until("age_s", "limit_s")(facts, subject, measures)


def _not_silent(facts: NodeFacts, subject: Subject) -> NodeView | None:
    silence = facts.silence_of(subject)
    is_stale, silent_s, limit_s = silence.is_stale, silence.silent_s, silence.window_s
    measures: dict[str, Any] = {"silent_s": silent_s, "window_s": limit_s}
    bad_s = facts.counted_silence(subject)
    if is_stale and silent_s > limit_s and silence.is_past_grace:
        measures["idle_s"] = silence.quiet_s
        return subject.down(Kind.SHUTDOWN, Reason.NODE_DOWN, measures, bad_s=bad_s)
    if is_stale and silent_s > limit_s and silence.age_s is None:
        reason = Reason.NO_LAUNCH_TIME
    else:
        waits = is_stale or bad_s is not None
        reason = Reason.SILENT_WITHIN_WINDOW if waits else facts.unknown_why(subject)
    if reason is Reason.UNJOINED:
        measures |= facts.unjoined(subject)
    verdict = Verdict(Kind.KEEP, reason, subject.node.id, measures)
    view = NodeView(subject.node, verdict, WorkerState.UNKNOWN, record=subject.own)
    view.bad_s = bad_s
    view.counts = reason not in NOT_UP
    return view


def _until_silent(facts: NodeFacts, subject: Subject, measures: Measured) -> Wait:
    silence = facts.silence_of(subject)
    if silence.quiet_s is None:
        return "not while the store gives no modified_at for its record"
    if silence.age_s is None:
        return NO_AGE
    return max(
        silence.window_s - silence.silent_s,
        silence.quiet_window_s - silence.quiet_s,
        silence.grace_s - silence.age_s,
    )


PAIRED: tuple[Check[Ask], ...] = (
    FREE_OF_HOLDS,
    READABLE,
    NOT_KILLED,
    NOT_CORDONED,
    Check(
        "D1",
        _up,
        "stopped in the cloud for settle",
        until("stopped_s", "settle_s"),
        _stopped_for,
        moot=lambda facts: not facts.history.stopped,
        course="stopped",
    ),
    TAGGED,
    Check(
        "D8",
        _heard_of,
        "never pinged for boot_fail_after",
        _until_booted,
        _booting_for,
        course="booting",
    ),
    Check(
        "O1",
        _not_drained,
        "an operator drains it, and it says that it is idle",
        "not while it says that it is busy",
        marked(lambda facts: facts.snapshot.drains),
        moot=lambda facts: not facts.snapshot.drains,
        course="draining",
    ),
    Check(
        "D12",
        _not_suspended,
        "its scheduler has switched it off",
        "not before its scheduler switches it off",
        _said_of_power,
        moot=lambda facts: not facts.settings.scheduled,
        course="suspended",
    ),
    Check(
        "D1",
        _not_at_work,
        "it does not say that it is busy",
        "not while it says that it is busy",
        lambda facts, subject: {"state": subject.state.value},
        course="busy",
    ),
    Check(
        "D1",
        _idle_for_long,
        "idle in consecutive_idle_count pings",
        _until_idle,
        _idle_for,
        course="idle",
    ),
    Check(
        "P3",
        _idle_of_known_age,
        "the cloud says when it was launched",
        NO_AGE,
        course="idle",
    ),
    Check(
        "D1",
        _idle_in_its_window,
        "its shutdown window is open",
        lambda facts, subject, measures: measures.get("opens_in_s", 0.0),
        _window,
        course="idle",
    ),
    Check(
        "D1",
        _not_needed,
        "demand does not want it",
        "not while demand wants it",
        course="idle",
    ),
    Check(
        "D17",
        _joins,
        "never up in its scheduler for boot_fail_after",
        _until_unjoined,
        lambda facts, subject: facts.unjoined(subject),
        moot=lambda facts: not facts.history.unjoined,
        course="unjoined",
    ),
    Check(
        "T1",
        _on_a_known_clock,
        "the store's clock is known",
        "not before the store's clock was read",
        course=SILENT,
    ),
    Check(
        "D1",
        _not_down,
        "its fresh ping says fail, or says down past boot_fail_after from launch",
        _until_down,
        _silent_for,
        course="down",
    ),
    Check(
        "D8",
        _not_silent,
        "silent, its record stale, and past boot_fail_after",
        _until_silent,
        _silent_for,
        course=SILENT,
    ),
)
"""The checks of a paired node; the first that returns a verdict decides."""
