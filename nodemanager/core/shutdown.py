"""When a node is shut down, and why not yet (SAFETY.md D1, D7-D11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nodemanager.core.bearers import bears, is_anothers
from nodemanager.core.by_hand import drained, killed, of_node
from nodemanager.core.checks import Check, Measured, Wait, asked_by, until
from nodemanager.core.marks import Mark
from nodemanager.core.model import CloudNode, CloudState, Record, WorkerState
from nodemanager.core.node_view import DYING, NodeView, Silence, Subject, opens_in, window_open
from nodemanager.core.pairing import Pairs
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.settings import Settings
from nodemanager.core.signs import quiet_for, silent_for, window_of, worker_state
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.standing import standing_block
from nodemanager.core.verdict import Verdict


class NodeJudge:
    """Judges the nodes of one snapshot; built once per plan for what all nodes share.

    What it asks, and in which order, stands in AT_ALL, PAIRED and ALONE below.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings, pairs: Pairs) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.pairs = pairs
        self.history = snapshot.history
        self.clock = snapshot.history.clock
        self.block = standing_block(snapshot, settings)
        cloud = snapshot.history.cloud
        self.listed_at = cloud.started_at if cloud is not None else 0.0
        self._records: dict[str, list[Record]] | None = None
        self._at_all = asked_by(self, AT_ALL)
        self._paired = asked_by(self, PAIRED)
        self._alone = asked_by(self, ALONE)

    def view(self, node: CloudNode) -> NodeView:
        """The node's verdict before demand, caps and breakers have had their say."""
        subject = self.subject(node)
        for ask in self._at_all:
            seen = ask(self, subject)
            if seen is not None:
                return seen
        seen = self._first(self._alone if subject.record is None else self._paired, subject)
        # No new work is meant for one that is drained: what it did is another's to do.
        drains = self.snapshot.drains
        if node.state in DYING or (drains and of_node(drains, node) is not None):
            seen.counts = seen.surplus_if_idle = False
        return seen

    def subject(self, node: CloudNode) -> Subject:
        record = self.pairs.record_of.get(node.id)
        if record is None:
            return Subject(node, None, WorkerState.UNKNOWN)
        state = worker_state(record, self.clock, self.snapshot.now, self.settings)
        return Subject(node, record, state)

    def state_of(self, record: Record) -> WorkerState:
        return worker_state(record, self.clock, self.snapshot.now, self.settings)

    def _first(self, asks: Iterable[Ask], subject: Subject) -> NodeView:
        """The first verdict; the last of each table always has one."""
        for ask in asks:
            seen = ask(self, subject)
            if seen is not None:
                return seen
        raise AssertionError("the last of a table has a word on everything")

    # Of any node: is it there, is it ours, and do we do something about it already?

    def _present(self, subject: Subject) -> NodeView | None:
        if subject.node.state is CloudState.TERMINATED:
            return subject.outside(Reason.NODE_ABSENT)
        return None

    def _ours(self, subject: Subject) -> NodeView | None:
        pool = subject.node.tags.pool
        if (pool is not None and pool != self.settings.pool) or not subject.node.managed:
            return subject.outside(Reason.FOREIGN_NODE, pool=pool)
        return None

    def _not_in_flight(self, subject: Subject) -> NodeView | None:
        node = subject.node
        if node.id in self.snapshot.node_flights:
            verdict = Verdict(Kind.KEEP, Reason.SHUTTING_DOWN, node.id)
            return NodeView(node, verdict, WorkerState.DOWN, counts=False)
        return None

    def _not_gone(self, subject: Subject) -> NodeView | None:
        if self.snapshot.gone.get(subject.node.id, -1.0) >= self.listed_at:
            return subject.outside(Reason.NODE_ABSENT)
        return None

    def _untouched(self, subject: Subject) -> NodeView | None:
        if self.snapshot.touched.get(subject.node.id, -1.0) >= self.listed_at:
            return subject.kept(Reason.CHANGED_SINCE_LISTING)
        return None

    # Of one with its record, and some of one without.

    def _free_of_holds(self, subject: Subject) -> NodeView | None:
        node, record = subject.node, subject.record
        holds = self.snapshot.holds
        held = node.held or (record is not None and record.held)
        uuid = node.tags.record if record is None else record.uuid
        if held or (holds and (node.id in holds or uuid in holds)):
            # Nothing touches it; that it is silent tells of the others all the same (D9).
            rest = asked_by(self, ALONE_BUT_HELD if record is None else PAIRED_BUT_HELD)
            view = subject.kept(Reason.HELD)
            view.bad = self._first(rest, subject).bad
            return view
        return None

    def _readable(self, subject: Subject) -> NodeView | None:
        node, record = subject.node, subject.record
        if node.problems or (record is not None and record.problems):
            problems = (*node.problems, *(record.problems if record is not None else ()))
            return subject.kept(Reason.UNREADABLE, detail="; ".join(problems))
        return None

    def _not_killed(self, subject: Subject) -> NodeView | None:
        return self._uncounted(subject, killed(subject.node, self.snapshot))

    def _not_drained(self, subject: Subject) -> NodeView | None:
        return self._uncounted(subject, drained(subject.node, subject.state, self.snapshot))

    def _uncounted(self, subject: Subject, ordered: Verdict | None) -> NodeView | None:
        """What an operator ordered: it is going, and no longer counts."""
        if ordered is None:
            return None
        view = subject.view(ordered)
        view.counts = False
        return view

    def stopped(self, node: CloudNode) -> dict[str, float] | None:
        """How long it has been stopped, where it is, beside how long it must be."""
        since = self.history.stopped.get(node.id)
        if since is None or node.tags.pool is None:
            return None
        cloud = self.history.cloud
        stopped_s = (cloud.started_at if cloud else since) - since
        return {"stopped_s": stopped_s, "settle_s": self.settings.settle}

    def _up(self, subject: Subject) -> NodeView | None:
        """Stopped, suspended or in error for `settle` is down at once (D1).

        It counts as down for D9 from its first sighting, so that a wave is seen before its first
        victim.
        """
        measures = self.stopped(subject.node)
        if measures is None:
            return None
        if measures["stopped_s"] < measures["settle_s"]:
            return subject.down(Kind.KEEP, Reason.NOT_SETTLED, measures, bad=True)
        return subject.down(Kind.SHUTDOWN, Reason.NODE_STOPPED, measures, bad=True)

    def _stopped_for(self, subject: Subject) -> Measured:
        return self.stopped(subject.node) or {"state": subject.node.state.value}

    def _tagged(self, subject: Subject) -> NodeView | None:
        if subject.node.tags.pool is None:
            view = subject.kept(Reason.UNTAGGED)
            # One alone is in the cloud's bill and in nobody's service: no record says what it does.
            view.counts = subject.record is not None
            return view
        return None

    def age(self, created_at: float) -> float:
        """Seconds since launch, by the slower of two clocks: a step of ours ends no boot grace."""
        now = self.snapshot.wall
        if self.clock is not None:
            now = min(now, self.clock.now(self.snapshot.now))
        return now - created_at

    def _heard_of(self, subject: Subject) -> NodeView | None:
        """One that never pinged is booting, and a failed boot past `boot_fail_after` (D8)."""
        record = subject.own
        if record.last_ping_at is not None or record.first_ping_at is not None:
            return None
        measures = self._booting_for(subject)
        silent_s, limit_s = measures["silent_s"], measures["limit_s"]
        if silent_s <= limit_s or self.clock is None:
            verdict = Verdict(Kind.KEEP, Reason.BOOTING, subject.node.id, measures)
            return NodeView(subject.node, verdict, WorkerState.UNKNOWN, record=record)
        return subject.down(Kind.SHUTDOWN, Reason.BOOT_FAILED, measures, bad=False)

    def _booting_for(self, subject: Subject) -> Measured:
        silent_s = silent_for(subject.own, self.history)
        return {"silent_s": silent_s, "limit_s": self.settings.boot_fail_after}

    def _until_booted(self, subject: Subject, measures: Measured) -> Wait:
        if self.clock is None:
            return "not before the store's clock was read"
        return until("silent_s", "limit_s")(self, subject, measures)

    def _not_at_work(self, subject: Subject) -> NodeView | None:
        if subject.state is WorkerState.BUSY:
            return subject.view(Verdict(Kind.KEEP, Reason.BUSY, subject.node.id))
        return None

    def idle_words(self, record: Record) -> int:
        """How many pings in a row said that the record's node is idle (D12)."""
        heard = self.history.heard.get(record.uuid)
        return 0 if heard is None else heard.idle

    # Idle by its own fresh word: may go once idle for long enough, in an open window.

    def _idle_for_long(self, subject: Subject) -> NodeView | None:
        if subject.state is not WorkerState.IDLE:
            return None
        measures = self._idle_for(subject)
        if measures["idle_polls"] < measures["needed_polls"]:
            return subject.kept(Reason.NOT_IDLE_LONG, **measures)
        return None

    def _idle_for(self, subject: Subject) -> Measured:
        needed = self.settings.consecutive_idle_count
        return {"idle_polls": self.idle_words(subject.own), "needed_polls": needed}

    def _until_idle(self, subject: Subject, measures: Measured) -> Wait:
        left = measures["needed_polls"] - measures["idle_polls"]
        says = "say" if left > 1 else "says"
        return f"not before {left} more of its pings {says} that it is idle"

    def _idle_of_known_age(self, subject: Subject) -> NodeView | None:
        if subject.state is WorkerState.IDLE and subject.node.created_at is None:
            return subject.kept(Reason.NO_LAUNCH_TIME)
        return None

    def _idle_in_its_window(self, subject: Subject) -> NodeView | None:
        created_at = subject.node.created_at
        if subject.state is not WorkerState.IDLE or created_at is None:
            return None
        age_s = self.age(created_at)
        if not window_open(age_s, self.settings.shutdown_windows):
            return subject.kept(Reason.WINDOW_CLOSED, age_s=age_s)
        return None

    def _window(self, subject: Subject) -> Measured:
        at, windows = subject.node.created_at, self.settings.shutdown_windows
        if at is None:
            return {}
        return {"age_s": self.age(at), "opens_in_s": opens_in(self.age(at), windows)}

    def _not_needed(self, subject: Subject) -> NodeView | None:
        """Demand has its say later: until then it is needed."""
        if subject.state is not WorkerState.IDLE:
            return None
        view = subject.kept(Reason.NEEDED)
        view.surplus_if_idle = True
        return view

    # Down by its own word, or silent.

    def _on_a_known_clock(self, subject: Subject) -> NodeView | None:
        return subject.kept(Reason.CLOCK_UNKNOWN) if self.clock is None else None

    def silence_of(self, subject: Subject) -> Silence:
        settings, clock = self.settings, self.clock
        node, record = subject.node, subject.own
        return Silence(
            silent_s=silent_for(record, self.history),
            window_s=settings.node_stale_after,
            quiet_s=None if clock is None else quiet_for(record, clock, self.snapshot),
            quiet_window_s=window_of(record, settings),
            age_s=None if node.created_at is None else self.age(node.created_at),
            grace_s=settings.boot_fail_after,
        )

    def _silent_for(self, subject: Subject) -> Measured:
        return self.silence_of(subject).measures

    def _not_down(self, subject: Subject) -> NodeView | None:
        if subject.state is not WorkerState.DOWN:
            return None
        silence = self.silence_of(subject)
        # One that says `fail` won't get well by waiting.
        past_grace = silence.is_past_grace or subject.own.failed
        measures = {
            "state": subject.state.value,
            "age_s": silence.age_s,
            "limit_s": silence.grace_s,
        }
        if past_grace:
            return subject.down(Kind.SHUTDOWN, Reason.NODE_DOWN, measures, bad=True)
        return subject.view(Verdict(Kind.KEEP, Reason.BOOTING, subject.node.id, measures))

    def _until_down(self, subject: Subject, measures: Measured) -> Wait:
        if measures["age_s"] is None:
            return NO_AGE
        return until("age_s", "limit_s")(self, subject, measures)

    def _not_silent(self, subject: Subject) -> NodeView | None:
        silence = self.silence_of(subject)
        is_stale, silent_s, limit_s = silence.is_stale, silence.silent_s, silence.window_s
        measures: dict[str, Any] = {"silent_s": silent_s, "window_s": limit_s}
        if is_stale and silent_s > limit_s and silence.is_past_grace:
            measures["idle_s"] = silence.quiet_s
            return subject.down(Kind.SHUTDOWN, Reason.NODE_DOWN, measures, bad=True)
        if is_stale and silent_s > limit_s and silence.age_s is None:
            reason = Reason.NO_LAUNCH_TIME
        else:
            waits = is_stale or silent_s > limit_s / 2
            reason = Reason.SILENT_WITHIN_WINDOW if waits else Reason.WORKER_UNKNOWN
        verdict = Verdict(Kind.KEEP, reason, subject.node.id, measures)
        # Half a window of silence is not yet a reason to destroy one node, but it is time
        # to count how many are silent, so that D9 sees a wave before its first victim.
        bad = silent_s > limit_s / 2
        return NodeView(subject.node, verdict, WorkerState.UNKNOWN, bad=bad, record=subject.own)

    def _until_silent(self, subject: Subject, measures: Measured) -> Wait:
        silence = self.silence_of(subject)
        if silence.quiet_s is None:
            return "not while the store gives no modified_at for its record"
        if silence.age_s is None:
            return NO_AGE
        return max(
            silence.window_s - silence.silent_s,
            silence.quiet_window_s - silence.quiet_s,
            silence.grace_s - silence.age_s,
        )

    # Of one without a record: only one with our tag goes, after D7 has run its course.

    def _unambiguous(self, subject: Subject) -> NodeView | None:
        node = subject.node
        if node.id in self.pairs.ambiguous:
            view = subject.kept(Reason.AMBIGUOUS, rivals=self.pairs.ambiguous[node.id])
            view.counts = node.tags.pool is not None
            return view
        return None

    def _unheard(self, subject: Subject) -> NodeView | None:
        """An unpaired node lives while a record that only it can be pinging is pinged (D7).

        A record that lost its claim, or a node that lost a tag, pairs no more; the node works on.
        """
        if self._records is None:
            self._records = _by_node(self.history.records.items if self.history.records else ())
        node, settings = subject.node, self.settings
        for record in (
            *self._records.get(node.id, ()),
            *self._records.get(node.tags.record or "", ()),
        ):
            named = record.instance_id == node.id and not is_anothers(node, record)
            mine = named or (record.instance_id is None and bears(node, record))
            if not mine or record.last_ping_at is None:
                continue
            # As with D8, time in which no ping could arrive is no silence.
            silent_s = silent_for(record, self.history)
            if silent_s > settings.node_stale_after:
                continue
            busy = self.state_of(record) is WorkerState.BUSY
            reason = Reason.BUSY if busy else Reason.WORKER_UNKNOWN
            return subject.kept(reason, record=record.uuid, silent_s=silent_s)
        return None

    def _unexpected(self, subject: Subject) -> NodeView | None:
        """One listed before the record poll that will show its claim is only booting."""
        node = subject.node
        expected = self.snapshot.expected.get(node.tags.record or "")
        if expected is not None and expected.node_id == node.id:
            return subject.kept(Reason.BOOTING, age_s=self.snapshot.now - expected.since)
        return None

    def alone_for(self, node: CloudNode) -> dict[str, Any]:
        """How long it has been without its record, and for how long it must (D7)."""
        seen = self.history.unpaired.get(node.id)
        return {
            "unpaired_s": 0.0 if seen is None else self.snapshot.now - seen.since,
            "limit_s": self.settings.boot_fail_after,
            "record_listings": 0 if seen is None else seen.record_listings,
        }

    def _unpaired(self, subject: Subject) -> NodeView | None:
        node, settings = subject.node, self.settings
        measures = self.alone_for(node)
        since_s, listings = measures["unpaired_s"], measures["record_listings"]
        if since_s <= settings.boot_fail_after or listings < 2:
            view = subject.view(
                Verdict(Kind.KEEP, Reason.UNPAIRED_WITHIN_WINDOW, node.id, measures)
            )
            # As with silence: D9 must see a wave before its first victim.
            view.bad = since_s > settings.boot_fail_after / 2 and listings > 0
            return view
        return subject.down(Kind.SHUTDOWN, Reason.UNPAIRED, measures, bad=True)


NO_AGE = "not without a launch time from the cloud to count from"
GONE = "it is gone already"
HELD = "free_of_holds"
SILENT = "silent, or of unknown state"
Ask = Callable[[NodeJudge, Subject], NodeView | None]


def _mark(
    marks: Callable[[NodeJudge], Mapping[str, Mark]],
) -> Callable[[NodeJudge, Subject], Measured]:
    """Whose order stands on it, since when and why."""

    def measured(judge: NodeJudge, subject: Subject) -> Measured:
        mark = of_node(marks(judge), subject.node)
        return {} if mark is None else mark.measures(judge.snapshot.wall)

    return measured


AT_ALL: tuple[Check[Ask], ...] = (
    Check(
        "T4",
        NodeJudge._present,
        "the cloud does not call it terminated",
        GONE,
        lambda judge, subject: {"state": subject.node.state.value},
        decisive=True,
    ),
    Check(
        "T3",
        NodeJudge._ours,
        "it is of this pool, or matches [Cloud List]",
        "not by this manager: it is not of its pool",
        lambda judge, subject: {
            "pool": subject.node.tags.pool or "none",
            "ours": judge.settings.pool,
        },
        decisive=True,
    ),
    Check(
        "C8",
        NodeJudge._not_in_flight,
        "no shutdown of it is under way",
        "its shutdown is under way",
        moot=lambda judge: not judge.snapshot.node_flights,
    ),
    Check(
        "D3",
        NodeJudge._not_gone,
        "the cloud, asked by id, still has it",
        GONE,
        moot=lambda judge: not judge.snapshot.gone,
    ),
    Check(
        "C8",
        NodeJudge._untouched,
        "listed since we last did something about it",
        moot=lambda judge: not judge.snapshot.touched,
    ),
)
"""What is asked of each node; the first that returns a verdict decides."""

FREE_OF_HOLDS: Check[Ask] = Check(
    "C9",
    NodeJudge._free_of_holds,
    "no operator holds it, nor its record",
    lambda judge, subject, measures: (
        f"not while it is on hold: `nodemanager release {subject.node.id}` ends that"
    ),
)
READABLE: Check[Ask] = Check(
    "P3",
    NodeJudge._readable,
    "all of it, and of its record, can be read",
    "not while part of it can't be read",
)
NOT_KILLED: Check[Ask] = Check(
    "O2",
    NodeJudge._not_killed,
    "an operator wants it gone now, busy or not",
    "not before an operator kills it",
    _mark(lambda judge: judge.snapshot.kills),
    moot=lambda judge: not judge.snapshot.kills,
    course="killed",
)
TAGGED: Check[Ask] = Check(
    "D11",
    NodeJudge._tagged,
    "it bears our pool's tag",
    "not before an operator adopts it: it bears no tag of ours",
    lambda judge, subject: {"pool": subject.node.tags.pool or "none"},
)

PAIRED: tuple[Check[Ask], ...] = (
    FREE_OF_HOLDS,
    READABLE,
    NOT_KILLED,
    Check(
        "D1",
        NodeJudge._up,
        "stopped in the cloud for settle",
        until("stopped_s", "settle_s"),
        NodeJudge._stopped_for,
        moot=lambda judge: not judge.history.stopped,
        course="stopped",
    ),
    TAGGED,
    Check(
        "D8",
        NodeJudge._heard_of,
        "never pinged for boot_fail_after",
        NodeJudge._until_booted,
        NodeJudge._booting_for,
        course="booting",
    ),
    Check(
        "O1",
        NodeJudge._not_drained,
        "an operator drains it, and it says that it is idle",
        "not while it says that it is busy",
        _mark(lambda judge: judge.snapshot.drains),
        moot=lambda judge: not judge.snapshot.drains,
        course="draining",
    ),
    Check(
        "D1",
        NodeJudge._not_at_work,
        "it does not say that it is busy",
        "not while it says that it is busy",
        lambda judge, subject: {"state": subject.state.value},
        course="busy",
    ),
    Check(
        "D1",
        NodeJudge._idle_for_long,
        "idle in consecutive_idle_count pings",
        NodeJudge._until_idle,
        NodeJudge._idle_for,
        course="idle",
    ),
    Check(
        "P3",
        NodeJudge._idle_of_known_age,
        "the cloud says when it was launched",
        NO_AGE,
        course="idle",
    ),
    Check(
        "D1",
        NodeJudge._idle_in_its_window,
        "its shutdown window is open",
        lambda judge, subject, measures: measures.get("opens_in_s", 0.0),
        NodeJudge._window,
        course="idle",
    ),
    Check(
        "D1",
        NodeJudge._not_needed,
        "demand does not want it",
        "not while demand wants it",
        course="idle",
    ),
    Check(
        "T1",
        NodeJudge._on_a_known_clock,
        "the store's clock is known",
        "not before the store's clock was read",
        course=SILENT,
    ),
    Check(
        "D1",
        NodeJudge._not_down,
        "down by its own word, past boot_fail_after from launch unless that is fail",
        NodeJudge._until_down,
        NodeJudge._silent_for,
        course="down",
    ),
    Check(
        "D8",
        NodeJudge._not_silent,
        "silent, its record stale, and past boot_fail_after",
        NodeJudge._until_silent,
        NodeJudge._silent_for,
        course=SILENT,
    ),
)
"""What is asked of a node with its record; some call for its shutdown."""

ALONE: tuple[Check[Ask], ...] = (
    Check(
        "P2",
        NodeJudge._unambiguous,
        "no two records claim it",
        lambda judge, subject, measures: (
            f"not while more than one candidate is listed: {', '.join(measures['rivals'])}"
        ),
        moot=lambda judge: not judge.pairs.ambiguous,
    ),
    TAGGED,
    FREE_OF_HOLDS,
    READABLE,
    NOT_KILLED,
    Check(
        "D7",
        NodeJudge._unheard,
        "no record that only it can be pinging is pinged",
        lambda judge, subject, measures: judge.settings.node_stale_after - measures["silent_s"],
        course="unpaired",
    ),
    Check(
        "P4",
        NodeJudge._unexpected,
        "not just created by us",
        "not before a record listing shows its claim",
        moot=lambda judge: not judge.snapshot.expected,
        course="unpaired",
    ),
    Check(
        "D7",
        NodeJudge._unpaired,
        "without its record for boot_fail_after, in two record listings",
        until("unpaired_s", "limit_s"),
        lambda judge, subject: {**judge.alone_for(subject.node), "needed_listings": 2},
        course="unpaired",
    ),
)
"""What is asked of a node without one."""

PAIRED_BUT_HELD = tuple(check for check in PAIRED if check.name != HELD)
ALONE_BUT_HELD = tuple(check for check in ALONE if check.name != HELD)


def _by_node(records: tuple[Record, ...]) -> dict[str, list[Record]]:
    """Records by the instance id that pings them, else by uuid."""
    by_node: dict[str, list[Record]] = {}
    for record in records:
        by_node.setdefault(record.instance_id or record.uuid, []).append(record)
    return by_node
