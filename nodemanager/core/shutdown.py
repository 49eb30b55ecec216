"""When a node is shut down, and why not yet (SAFETY.md D1, D7-D11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from nodemanager.core.bearers import bears, is_anothers
from nodemanager.core.by_hand import drained, killed, of_node
from nodemanager.core.checks import Check, asked_by
from nodemanager.core.model import CloudNode, CloudState, Record, WorkerState
from nodemanager.core.pairing import Pairs
from nodemanager.core.reasons import Kind, Reason
from nodemanager.core.records import quiet_for, window_of, worker_state
from nodemanager.core.settings import Settings
from nodemanager.core.snapshot import Snapshot
from nodemanager.core.standing import standing_block
from nodemanager.core.verdict import Verdict, keep

BAD = frozenset({Reason.NODE_DOWN, Reason.BOOT_FAILED, Reason.UNPAIRED})
"""What D9 counts and caps: a node destroyed because something seems wrong with it."""

DYING = frozenset({CloudState.STOPPING, CloudState.STOPPED})
"""Nodes in these states are there, and serve nobody."""

IDLE = frozenset({Reason.NEEDED, Reason.NOT_IDLE_LONG, Reason.WINDOW_CLOSED})
"""Nodes kept for one of these are idle by their own fresh word."""

OUTSIDE = frozenset({Reason.NODE_ABSENT, Reason.FOREIGN_NODE})
"""Nodes that are only seen: not ours, or not there."""


def window_open(age_s: float, windows: tuple[float, ...]) -> bool:
    """Whether a shutdown window is open at this age of a node.

    `windows` alternates closed and open seconds and starts over after the last. Empty is always
    open.
    """
    if not windows:
        return True
    into = age_s % sum(windows)
    is_open = False
    for length in windows:
        if into < length:
            return is_open
        into -= length
        is_open = not is_open
    return not is_open


def opens_in(age_s: float, windows: tuple[float, ...]) -> float:
    """Seconds until a shutdown window is open, 0 where one is; infinite where none ever is."""
    if window_open(age_s, windows):
        return 0.0
    into, start, wait = age_s % sum(windows), 0.0, float("inf")
    for number, length in enumerate(windows):
        if number % 2 and length > 0:
            wait = min(wait, (start - into) % sum(windows))
        start += length
    return wait


@dataclass(slots=True)
class NodeView:
    """A node as demand counts it: what it does, and the verdict so far.

    `counts` says that it serves, or will; one that is going or gone does not. `surplus_if_idle`
    says that it may go if demand does not want it; `bad` that it is silent, down or unpaired,
    which D9 counts.
    """

    node: CloudNode
    verdict: Verdict
    state: WorkerState
    counts: bool = True
    surplus_if_idle: bool = False
    bad: bool = False
    record: Record | None = None
    size: str | None = None


class Silence(NamedTuple):
    """How long a node that says nothing fresh has been silent, and how long it must be (D1, D8).

    Seconds: of `silent_s` only what the store answered in counts; `quiet_s` and `age_s` are None
    where they can't be told.
    """

    silent_s: float
    window_s: float
    quiet_s: float | None
    quiet_window_s: float
    age_s: float | None
    grace_s: float

    @property
    def is_stale(self) -> bool:
        return self.quiet_s is not None and self.quiet_s > self.quiet_window_s

    @property
    def is_past_grace(self) -> bool:
        """Also where a clock set back makes its age too small: silence is counted by ours."""
        return self.age_s is not None and max(self.age_s, self.silent_s) > self.grace_s


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
        record = self.pairs.record_of.get(node.id)
        for ask in self._at_all:
            seen = ask(self, node, record)
            if seen is not None:
                return seen
        if record is None:
            seen = _first(self._alone, self, node)
        else:
            seen = _first(self._paired, self, node, record, self.state_of(record))
        # No new work is meant for one that is drained: what it did is another's to do.
        if node.state in DYING or of_node(self.snapshot.drains, node) is not None:
            seen.counts = seen.surplus_if_idle = False
        return seen

    def state_of(self, record: Record) -> WorkerState:
        return worker_state(record, self.clock, self.snapshot.now, self.settings)

    # Of any node: is it there, is it ours, and do we do something about it already?

    def _present(self, node: CloudNode, record: Record | None) -> NodeView | None:
        if node.state is CloudState.TERMINATED:
            return _outside(node, Verdict(Kind.KEEP, Reason.NODE_ABSENT, node.id))
        return None

    def _ours(self, node: CloudNode, record: Record | None) -> NodeView | None:
        pool = node.tags.pool
        if (pool is not None and pool != self.settings.pool) or not node.managed:
            return _outside(node, keep(node.id, Reason.FOREIGN_NODE, pool=pool))
        return None

    def _not_in_flight(self, node: CloudNode, record: Record | None) -> NodeView | None:
        if node.id in self.snapshot.node_flights:
            verdict = Verdict(Kind.KEEP, Reason.SHUTTING_DOWN, node.id)
            return NodeView(node, verdict, WorkerState.DOWN, counts=False)
        return None

    def _not_gone(self, node: CloudNode, record: Record | None) -> NodeView | None:
        if self.snapshot.gone.get(node.id, -1.0) >= self.listed_at:
            return _outside(node, Verdict(Kind.KEEP, Reason.NODE_ABSENT, node.id))
        return None

    def _untouched(self, node: CloudNode, record: Record | None) -> NodeView | None:
        if self.snapshot.touched.get(node.id, -1.0) >= self.listed_at:
            verdict = Verdict(Kind.KEEP, Reason.CHANGED_SINCE_LISTING, node.id)
            state = WorkerState.UNKNOWN if record is None else self.state_of(record)
            return NodeView(node, verdict, state, record=record)
        return None

    # Of one with its record, whose fresh word is `state`.

    def _free_of_holds(
        self, node: CloudNode, record: Record, state: WorkerState
    ) -> NodeView | None:
        holds = self.snapshot.holds
        if node.held or record.held or (holds and (node.id in holds or record.uuid in holds)):
            # Nothing touches it; that it is silent tells of the others all the same (D9).
            bad = _first(asked_by(self, PAIRED_BUT_HELD), self, node, record, state).bad
            return NodeView(node, keep(node.id, Reason.HELD), state, bad=bad, record=record)
        return None

    def _readable(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        if node.problems or record.problems:
            detail = "; ".join((*node.problems, *record.problems))
            verdict = keep(node.id, Reason.UNREADABLE, detail=detail)
            return NodeView(node, verdict, state, record=record)
        return None

    def _not_killed(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        verdict = killed(node, self.snapshot)
        if verdict is None:
            return None
        return NodeView(node, verdict, state, counts=False, record=record)

    def _not_drained(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        verdict = drained(node, state, self.snapshot)
        if verdict is None:
            return None
        return NodeView(node, verdict, state, counts=False, record=record)

    def _alone_not_killed(self, node: CloudNode) -> NodeView | None:
        verdict = killed(node, self.snapshot)
        if verdict is None:
            return None
        return NodeView(node, verdict, WorkerState.UNKNOWN, counts=False)

    def stopped(self, node: CloudNode) -> dict[str, float] | None:
        """How long it has been stopped, where it is, beside how long it must be."""
        since = self.history.stopped.get(node.id)
        if since is None or node.tags.pool is None:
            return None
        cloud = self.history.cloud
        stopped_s = (cloud.started_at if cloud else since) - since
        return {"stopped_s": stopped_s, "settle_s": self.settings.settle}

    def _up(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        """Stopped, suspended or in error for `settle` is down at once (D1).

        It counts as down for D9 from its first sighting, so that a wave is seen before its first
        victim.
        """
        measures = self.stopped(node)
        if measures is None:
            return None
        if measures["stopped_s"] < measures["settle_s"]:
            verdict = Verdict(Kind.KEEP, Reason.NOT_SETTLED, node.id, measures)
        else:
            verdict = Verdict(Kind.SHUTDOWN, Reason.NODE_STOPPED, node.id, measures)
        return NodeView(node, verdict, WorkerState.DOWN, counts=False, bad=True, record=record)

    def _tagged(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        if node.tags.pool is None:
            verdict = Verdict(Kind.KEEP, Reason.UNTAGGED, node.id)
            return NodeView(node, verdict, state, record=record)
        return None

    def age(self, created_at: float) -> float:
        """Seconds since launch, by the slower of two clocks: a step of ours ends no boot grace."""
        now = self.snapshot.wall
        if self.clock is not None:
            now = min(now, self.clock.now(self.snapshot.now))
        return now - created_at

    def silence(self, record: Record) -> float:
        """Seconds of silence over time in which the store answered pings (D8)."""
        heard = self.history.heard.get(record.uuid)
        return 0.0 if heard is None else self.history.answered_s - heard.answered_s

    def _heard_of(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        """One that never pinged is booting, and a failed boot past `boot_fail_after` (D8)."""
        if record.last_ping_at is not None or record.first_ping_at is not None:
            return None
        limit_s = self.settings.boot_fail_after
        silent_s = self.silence(record)
        measures = {"silent_s": silent_s, "limit_s": limit_s}
        if silent_s <= limit_s or self.clock is None:
            verdict = Verdict(Kind.KEEP, Reason.BOOTING, node.id, measures)
            return NodeView(node, verdict, WorkerState.UNKNOWN, record=record)
        verdict = Verdict(Kind.SHUTDOWN, Reason.BOOT_FAILED, node.id, measures)
        return NodeView(node, verdict, WorkerState.DOWN, counts=False, record=record)

    def _not_at_work(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        if state is WorkerState.BUSY:
            verdict = Verdict(Kind.KEEP, Reason.BUSY, node.id)
            return NodeView(node, verdict, state, record=record)
        return None

    def idle_words(self, record: Record) -> int:
        """How many pings in a row said that the record's node is idle (D12)."""
        heard = self.history.heard.get(record.uuid)
        return 0 if heard is None else heard.idle

    # Idle by its own fresh word: may go once idle for long enough, in an open window.

    def _idle_for_long(
        self, node: CloudNode, record: Record, state: WorkerState
    ) -> NodeView | None:
        if state is not WorkerState.IDLE:
            return None
        count = self.idle_words(record)
        needed = self.settings.consecutive_idle_count
        if count < needed:
            verdict = keep(node.id, Reason.NOT_IDLE_LONG, idle_polls=count, needed_polls=needed)
            return NodeView(node, verdict, state, record=record)
        return None

    def _idle_of_known_age(
        self, node: CloudNode, record: Record, state: WorkerState
    ) -> NodeView | None:
        if state is WorkerState.IDLE and node.created_at is None:
            verdict = Verdict(Kind.KEEP, Reason.NO_LAUNCH_TIME, node.id)
            return NodeView(node, verdict, state, record=record)
        return None

    def _idle_in_its_window(
        self, node: CloudNode, record: Record, state: WorkerState
    ) -> NodeView | None:
        if state is not WorkerState.IDLE or node.created_at is None:
            return None
        age_s = self.age(node.created_at)
        if not window_open(age_s, self.settings.shutdown_windows):
            verdict = keep(node.id, Reason.WINDOW_CLOSED, age_s=age_s)
            return NodeView(node, verdict, state, record=record)
        return None

    def _not_needed(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        """Demand has its say later: until then it is needed."""
        if state is not WorkerState.IDLE:
            return None
        verdict = Verdict(Kind.KEEP, Reason.NEEDED, node.id)
        return NodeView(node, verdict, state, surplus_if_idle=True, record=record)

    # Down by its own word, or silent.

    def _on_a_known_clock(
        self, node: CloudNode, record: Record, state: WorkerState
    ) -> NodeView | None:
        if self.clock is None:
            return NodeView(node, keep(node.id, Reason.CLOCK_UNKNOWN), state, record=record)
        return None

    def silence_of(self, node: CloudNode, record: Record) -> Silence:
        settings, clock = self.settings, self.clock
        return Silence(
            silent_s=self.silence(record),
            window_s=settings.node_stale_after,
            quiet_s=None if clock is None else quiet_for(record, clock, self.snapshot),
            quiet_window_s=window_of(record, settings),
            age_s=None if node.created_at is None else self.age(node.created_at),
            grace_s=settings.boot_fail_after,
        )

    def _not_down(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        if state is not WorkerState.DOWN:
            return None
        silence = self.silence_of(node, record)
        # One that says `fail` won't get well by waiting.
        past_grace = silence.is_past_grace or record.failed
        measures = {"state": state.value, "age_s": silence.age_s, "limit_s": silence.grace_s}
        kind = Kind.SHUTDOWN if past_grace else Kind.KEEP
        reason = Reason.NODE_DOWN if past_grace else Reason.BOOTING
        verdict = Verdict(kind, reason, node.id, measures)
        return NodeView(node, verdict, state, counts=not past_grace, bad=past_grace, record=record)

    def _not_silent(self, node: CloudNode, record: Record, state: WorkerState) -> NodeView | None:
        node_id, unknown = node.id, WorkerState.UNKNOWN
        silence = self.silence_of(node, record)
        is_stale, silent_s, limit_s = silence.is_stale, silence.silent_s, silence.window_s
        if is_stale and silent_s > limit_s and silence.is_past_grace:
            measures = {"silent_s": silent_s, "window_s": limit_s, "idle_s": silence.quiet_s}
            verdict = Verdict(Kind.SHUTDOWN, Reason.NODE_DOWN, node_id, measures)
            return NodeView(node, verdict, WorkerState.DOWN, counts=False, bad=True, record=record)
        if is_stale and silent_s > limit_s and silence.age_s is None:
            verdict = keep(node_id, Reason.NO_LAUNCH_TIME, silent_s=silent_s, window_s=limit_s)
            return NodeView(node, verdict, unknown, bad=True, record=record)
        if silent_s > limit_s / 2:
            # Half a window of silence is not yet a reason to destroy one node, but it is time
            # to count how many are silent, so that D9 sees a wave before its first victim.
            verdict = keep(
                node_id, Reason.SILENT_WITHIN_WINDOW, silent_s=silent_s, window_s=limit_s
            )
            return NodeView(node, verdict, unknown, bad=True, record=record)
        reason = Reason.SILENT_WITHIN_WINDOW if is_stale else Reason.WORKER_UNKNOWN
        verdict = keep(node_id, reason, silent_s=silent_s, window_s=limit_s)
        return NodeView(node, verdict, unknown, record=record)

    # Of one without a record: only one with our tag goes, after D7 has run its course.

    def _unambiguous(self, node: CloudNode) -> NodeView | None:
        if node.id in self.pairs.ambiguous:
            rivals = self.pairs.ambiguous[node.id]
            view = _alone(node, keep(node.id, Reason.AMBIGUOUS, rivals=rivals))
            view.counts = node.tags.pool is not None
            return view
        return None

    def _tagged_alone(self, node: CloudNode) -> NodeView | None:
        if node.tags.pool is None:
            # It is in the cloud's bill and in nobody's service: no record says what it does.
            verdict = Verdict(Kind.KEEP, Reason.UNTAGGED, node.id)
            return NodeView(node, verdict, WorkerState.UNKNOWN, counts=False)
        return None

    def _free_of_holds_alone(self, node: CloudNode) -> NodeView | None:
        holds = self.snapshot.holds
        if node.held or node.id in holds or node.tags.record in holds:
            view = _alone(node, keep(node.id, Reason.HELD))
            view.bad = _first(asked_by(self, ALONE_BUT_HELD), self, node).bad
            return view
        return None

    def _readable_alone(self, node: CloudNode) -> NodeView | None:
        if node.problems:
            return _alone(node, keep(node.id, Reason.UNREADABLE, detail="; ".join(node.problems)))
        return None

    def _unheard(self, node: CloudNode) -> NodeView | None:
        """An unpaired node lives while a record that only it can be pinging is pinged (D7).

        A record that lost its claim, or a node that lost a tag, pairs no more; the node works on.
        """
        if self._records is None:
            self._records = _by_node(self.history.records.items if self.history.records else ())
        settings = self.settings
        for record in (
            *self._records.get(node.id, ()),
            *self._records.get(node.tags.record or "", ()),
        ):
            named = record.instance_id == node.id and not is_anothers(node, record)
            mine = named or (record.instance_id is None and bears(node, record))
            if not mine or record.last_ping_at is None:
                continue
            # As with D8, time in which no ping could arrive is no silence.
            silent_s = self.silence(record)
            if silent_s > settings.node_stale_after:
                continue
            busy = self.state_of(record) is WorkerState.BUSY
            reason = Reason.BUSY if busy else Reason.WORKER_UNKNOWN
            return _alone(node, keep(node.id, reason, record=record.uuid, silent_s=silent_s))
        return None

    def _unexpected(self, node: CloudNode) -> NodeView | None:
        """One listed before the record poll that will show its claim is only booting."""
        expected = self.snapshot.expected.get(node.tags.record or "")
        if expected is not None and expected.node_id == node.id:
            age_s = self.snapshot.now - expected.since
            return _alone(node, keep(node.id, Reason.BOOTING, age_s=age_s))
        return None

    def _unpaired(self, node: CloudNode) -> NodeView | None:
        settings = self.settings
        seen = self.history.unpaired.get(node.id)
        since_s = 0.0 if seen is None else self.snapshot.now - seen.since
        listings = 0 if seen is None else seen.record_listings
        measures = {
            "unpaired_s": since_s,
            "limit_s": settings.boot_fail_after,
            "record_listings": listings,
        }
        if since_s <= settings.boot_fail_after or listings < 2:
            verdict = Verdict(Kind.KEEP, Reason.UNPAIRED_WITHIN_WINDOW, node.id, measures)
            # As with silence: D9 must see a wave before its first victim.
            bad = since_s > settings.boot_fail_after / 2 and listings > 0
            return NodeView(node, verdict, WorkerState.UNKNOWN, bad=bad)
        verdict = Verdict(Kind.SHUTDOWN, Reason.UNPAIRED, node.id, measures)
        return NodeView(node, verdict, WorkerState.DOWN, counts=False, bad=True)


HELD = "free_of_holds"
AtAll = Callable[[NodeJudge, CloudNode, Record | None], NodeView | None]
Paired = Callable[[NodeJudge, CloudNode, Record, WorkerState], NodeView | None]
Alone = Callable[[NodeJudge, CloudNode], NodeView | None]

AT_ALL: tuple[Check[AtAll], ...] = (
    Check("T4", "present", NodeJudge._present),
    Check("T3", "ours", NodeJudge._ours),
    Check(
        "C8",
        "not_in_flight",
        NodeJudge._not_in_flight,
        lambda judge: not judge.snapshot.node_flights,
    ),
    Check("D3", "not_gone", NodeJudge._not_gone, lambda judge: not judge.snapshot.gone),
    Check("C8", "untouched", NodeJudge._untouched, lambda judge: not judge.snapshot.touched),
)
"""What is asked of each node; the first that has a word is the verdict."""

PAIRED: tuple[Check[Paired], ...] = (
    Check("C9", HELD, NodeJudge._free_of_holds),
    Check("P3", "readable", NodeJudge._readable),
    Check("O2", "not_killed", NodeJudge._not_killed, lambda judge: not judge.snapshot.kills),
    Check("D1", "up", NodeJudge._up, lambda judge: not judge.history.stopped),
    Check("D11", "tagged", NodeJudge._tagged),
    Check("D8", "heard_of", NodeJudge._heard_of),
    Check("O1", "not_drained", NodeJudge._not_drained, lambda judge: not judge.snapshot.drains),
    Check("D1", "not_at_work", NodeJudge._not_at_work),
    Check("D1", "idle_for_long", NodeJudge._idle_for_long),
    Check("P3", "idle_of_known_age", NodeJudge._idle_of_known_age),
    Check("D1", "idle_in_its_window", NodeJudge._idle_in_its_window),
    Check("D1", "not_needed", NodeJudge._not_needed),
    Check("T1", "on_a_known_clock", NodeJudge._on_a_known_clock),
    Check("D1", "not_down", NodeJudge._not_down),
    Check("D8", "not_silent", NodeJudge._not_silent),
)
"""What is asked of a node with its record; some have a word in favour of its shutdown."""

ALONE: tuple[Check[Alone], ...] = (
    Check("P2", "unambiguous", NodeJudge._unambiguous, lambda judge: not judge.pairs.ambiguous),
    Check("D11", "tagged", NodeJudge._tagged_alone),
    Check("C9", HELD, NodeJudge._free_of_holds_alone),
    Check("P3", "readable", NodeJudge._readable_alone),
    Check("O2", "not_killed", NodeJudge._alone_not_killed, lambda judge: not judge.snapshot.kills),
    Check("D7", "unheard", NodeJudge._unheard),
    Check("P4", "unexpected", NodeJudge._unexpected, lambda judge: not judge.snapshot.expected),
    Check("D7", "unpaired", NodeJudge._unpaired),
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


def _first(asks: Iterable[Callable[..., NodeView | None]], *of: object) -> NodeView:
    """What the first of them says that has a word; the last of each table always has."""
    for ask in asks:
        seen = ask(*of)
        if seen is not None:
            return seen
    raise AssertionError("the last of a table has a word on everything")


def _alone(node: CloudNode, verdict: Verdict) -> NodeView:
    return NodeView(node, verdict, WorkerState.UNKNOWN)


def _outside(node: CloudNode, verdict: Verdict) -> NodeView:
    return NodeView(node, verdict, WorkerState.UNKNOWN, counts=False)
