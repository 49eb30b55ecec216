"""A node as its judge sees it, and as demand counts it (SAFETY.md D1, D8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from nodemanager.core.judge.checks import Measured
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict, keep
from nodemanager.core.model.world import CloudNode, CloudState, Record, WorkerState

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


KEEP = Kind.KEEP
"""A name of the module is found in a fraction of the time that a member of an enum takes."""


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

    @property
    def measures(self) -> Measured:
        """Each value beside its threshold."""
        return {
            "silent_s": self.silent_s,
            "window_s": self.window_s,
            "idle_s": self.quiet_s,
            "stale_s": self.quiet_window_s,
            "age_s": self.age_s,
            "limit_s": self.grace_s,
        }


# Not a tuple: each rule reads its fields, which are found in a slot at a third of the price.
@dataclass(slots=True, eq=False)
class Subject:
    """A listed node, its record where it has one, and its fresh word (T6)."""

    node: CloudNode
    record: Record | None
    state: WorkerState

    @property
    def own(self) -> Record:
        """The record of a node that is paired."""
        assert self.record is not None
        return self.record

    def kept(self, reason: Reason, **measures: Any) -> NodeView:
        verdict = Verdict(KEEP, reason, self.node.id, measures or None)
        return NodeView(self.node, verdict, self.state, True, False, False, self.record)

    def view(self, verdict: Verdict) -> NodeView:
        return NodeView(self.node, verdict, self.state, record=self.record)

    def down(self, kind: Kind, reason: Reason, measures: Measured, *, bad: bool) -> NodeView:
        """One that is down, and serves nobody any more."""
        verdict = Verdict(kind, reason, self.node.id, measures)
        return NodeView(
            self.node, verdict, WorkerState.DOWN, counts=False, bad=bad, record=self.record
        )

    def outside(self, reason: Reason, **measures: Any) -> NodeView:
        """One that is only seen: not ours, or not there."""
        verdict = keep(self.node.id, reason, **measures)
        return NodeView(self.node, verdict, WorkerState.UNKNOWN, counts=False)
