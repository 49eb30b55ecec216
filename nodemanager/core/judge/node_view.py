"""A node as its judge and the demand see it (SAFETY.md D1, D8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nodemanager.core.judge.preconditions import Measured
from nodemanager.core.model.reasons import Kind, Means, Reason, having
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import CloudNode, CloudState, Record, WorkerState
from nodemanager.core.observe.history import History
from nodemanager.core.observe.scheduled import suspended_word
from nodemanager.core.observe.snapshot import Snapshot

FAILED_BOOTS = frozenset({Reason.BOOT_FAILED, Reason.NOT_JOINED})
"""The reasons for a shutdown of a node whose boot came to nothing (B5)."""

BY_HAND = frozenset({Reason.DRAINED, Reason.KILLED})
"""The reasons for a shutdown that an operator ordered."""

BAD = having(Means.BAD)
"""The reasons for a shutdown because something seems wrong with the node, for `nodes_bad`."""

DYING = frozenset({CloudState.STOPPING, CloudState.STOPPED})
"""The states of nodes that exist but serve nobody."""

IDLE = having(Means.IDLES)
"""The reasons to keep a node whose own fresh report says idle."""

SET_ASIDE = frozenset({Reason.SET_ASIDE, Reason.DOWN_IN_SCHEDULER})
"""The reasons to keep a node to which its scheduler gives no work: it runs none, and is no lack."""

OUTSIDE = frozenset({Reason.NODE_ABSENT, Reason.FOREIGN_NODE})
"""The reasons of nodes that are not ours or no longer exist."""


def window_open(age_s: float, windows: tuple[float, ...]) -> bool:
    """Whether a shutdown window is open for a node of this age in seconds.

    `windows` are alternately closed and open seconds, repeated; empty means always open.
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
    """Seconds until a shutdown window opens: 0 if one is open, infinite if none ever opens."""
    if window_open(age_s, windows):
        return 0.0
    into, start, wait = age_s % sum(windows), 0.0, float("inf")
    for number, length in enumerate(windows):
        if number % 2 and length > 0:
            wait = min(wait, (start - into) % sum(windows))
        start += length
    return wait


KEEP = Kind.KEEP
"""A module's name is looked up much faster than an enum's member."""


@dataclass(slots=True)
class NodeView:
    """A node's state and its verdict so far, as the demand counts it.

    `counts` says that it serves or will serve, unlike one that is going or gone; `surplus_if_idle`
    that it may go if demand does not want it; `bad_s` for how many seconds at least it has been
    silent, down or unpaired, None if it does not count as that (D9). `hostnames` are those under
    which the scheduler may know it, of a node that is to go without a record (D7). `beneath` is the
    reason that it would have without an operator's order or an action of ours since its listing,
    None where neither hides it. `leaves` says that it takes no more work, whatever demand says:
    an operator drains it, or its cloud will take it.
    """

    node: CloudNode
    verdict: Verdict
    state: WorkerState
    counts: bool = True
    surplus_if_idle: bool = False
    bad_s: float | None = None
    record: Record | None = None
    size: str | None = None
    hostnames: tuple[str, ...] = ()
    beneath: Reason | None = None
    leaves: bool = False

    @property
    def bad(self) -> bool:
        """Whether it counts as silent, down or unpaired (D9)."""
        return self.bad_s is not None


class Silence(NamedTuple):
    """How long a paired node has been silent, and the thresholds, in seconds (D1, D8).

    `silent_s` counts only time in which the store answered pings; `quiet_s` (of the record) and
    `age_s` (since launch) are None where unknown.
    """

    silent_s: float
    window_s: float
    quiet_s: float | None
    quiet_window_s: float
    age_s: float | None
    grace_s: float
    seen_s: float
    """For how long it has been listed with the launch that it has."""

    @property
    def is_stale(self) -> bool:
        """Whether the record has been quiet for longer than its window (C3)."""
        return self.quiet_s is not None and self.quiet_s > self.quiet_window_s

    @property
    def is_past_grace(self) -> bool:
        """Whether its boot grace is over, also if a clock set back makes `age_s` too small.

        Silence from before its launch tells nothing: it may have been stopped, and started again.
        """
        if self.age_s is None:
            return False
        return max(self.age_s, min(self.silent_s, self.seen_s)) > self.grace_s

    @property
    def measures(self) -> Measured:
        return {
            "silent_s": self.silent_s,
            "window_s": self.window_s,
            "idle_s": self.quiet_s,
            "stale_s": self.quiet_window_s,
            "age_s": self.age_s,
            "limit_s": self.grace_s,
        }


# Not a tuple: every check reads the fields, and a slot is three times as fast to read.
@dataclass(slots=True, eq=False)
class Subject:
    """A listed node, its paired record or None, its fresh state (T6), and its verdict before."""

    node: CloudNode
    record: Record | None
    state: WorkerState
    before: Verdict | None = None

    @property
    def own(self) -> Record:
        """The record; only for a paired node."""
        assert self.record is not None
        return self.record

    def kept(self, reason: Reason, **measures: Any) -> NodeView:
        verdict = self.before
        if (
            measures
            or verdict is None
            or verdict.reason is not reason
            or verdict.kind is not KEEP
            or verdict.measures is not None
        ):
            verdict = Verdict(KEEP, reason, self.node.id, measures or None)
        return NodeView(self.node, verdict, self.state, True, False, None, self.record)

    def view(self, verdict: Verdict) -> NodeView:
        """The view with `verdict`, as a node that counts."""
        return NodeView(self.node, verdict, self.state, record=self.record)

    def down(
        self, kind: Kind, reason: Reason, measures: Measured, *, bad_s: float | None
    ) -> NodeView:
        """The view of a node that is down and no longer serves."""
        verdict = Verdict(kind, reason, self.node.id, measures)
        return NodeView(
            self.node, verdict, WorkerState.DOWN, counts=False, bad_s=bad_s, record=self.record
        )

    def outside(self, reason: Reason, **measures: Any) -> NodeView:
        verdict = keep(self.node.id, reason, **measures)
        return NodeView(self.node, verdict, WorkerState.UNKNOWN, counts=False)


# Which nodes that were silent, down or unpaired are well again (SAFETY.md B3, D9).


def recovered(
    views: Iterable[NodeView], since: Mapping[str, float], snapshot: Snapshot, settings: Settings
) -> frozenset[str]:
    """The ids of the nodes in `since` that run, have their record, and have pinged it with another
    word than down since then, CLOCK_BOOTTIME; and of those that their scheduler has switched off.

    Where a create made two nodes, a ping that names the other one tells nothing of this (P1a).
    """
    history, now = snapshot.history, snapshot.now
    lately = now - settings.node_stale_after / 2

    def is_well(view: NodeView, record: Record) -> bool:
        return (
            record.instance_id in (None, view.node.id)
            and view.node.state not in DYING
            and not _says_down(view, record)
            and _pings(record, history, now, max(since[view.node.id], lately))
        )

    return frozenset(
        view.node.id
        for view in views
        if view.node.id in since
        and view.record is not None
        and not view.bad
        and (is_well(view, view.record) or suspended_word(view.record, snapshot, settings))
    )


def _says_down(view: NodeView, record: Record) -> bool:
    """Whether its newest ping says so, in its boot grace, too, and no scheduler has it at work."""
    return record.worker_state is WorkerState.DOWN and view.state is not WorkerState.BUSY


def _pings(record: Record, history: History, now: float, since: float) -> bool:
    """Whether we saw a new ping of this life come since then.

    A stamp that is there when we first look, at a start or after a jump of the clock, may be older
    than it seems.
    """
    heard, clock = history.heard.get(record.uuid), history.clock
    if heard is None or heard.last_ping_at is None or clock is None:
        return False
    if heard.before_at == float("-inf") or heard.before_at < clock.known_since:
        return False
    return min(heard.seen_at, now - clock.age(heard.last_ping_at, now)) > since
