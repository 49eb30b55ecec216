"""The breaker as it stands: a latch that stops all freeing and destroying (SAFETY.md B1-B3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nodemanager.core.model.world import FreedLife


class Cause(StrEnum):
    """Why the breaker opened."""

    CLOUD_COLLAPSED = "cloud_collapsed"
    RECORDS_COLLAPSED = "records_collapsed"
    SCHEDULER_COLLAPSED = "scheduler_collapsed"
    MASS_SILENCE = "mass_silence"
    FALSE_CLEAN = "false_clean"
    INVARIANT = "invariant"
    CLEAN_RATE = "clean_rate"
    WRITES_FAIL = "writes_fail"
    UNREADABLE = "unreadable"


HOW_TO_CLEAR = {
    Cause.CLOUD_COLLAPSED: "closes when the lost nodes are listed again or each is confirmed gone "
    "by id; or by `nodemanager breaker reset` once you have looked",
    Cause.RECORDS_COLLAPSED: "closes when the lost records are listed again; or by `nodemanager "
    "breaker reset` once you have looked",
    Cause.SCHEDULER_COLLAPSED: "closes when the scheduler lists the lost nodes again, or they are "
    "not ours any more; or by `nodemanager breaker reset` once you have looked",
    Cause.MASS_SILENCE: "closes when all but a few of these nodes have pinged again, have ended, "
    "or are switched off by their scheduler; or by `nodemanager breaker reset` once you have "
    "looked",
    Cause.FALSE_CLEAN: "closes when each of these records is listed as restored, or its node "
    "confirmed gone by id; or by `nodemanager breaker reset` once you have looked",
    Cause.INVARIANT: "closes by `nodemanager breaker reset` once you know what broke the rule that "
    "the `invariant.broken` lines name",
    Cause.CLEAN_RATE: "closes by `nodemanager breaker reset` once you know why so many records may "
    "be freed at once; those are not counted again",
    Cause.WRITES_FAIL: "closes when a probe write to the record store succeeds; or by `nodemanager "
    "breaker reset` once you have looked",
    Cause.UNREADABLE: "closes by `nodemanager breaker reset` once you have looked: what was "
    "kept of it can't be read, so nobody knows what it was open for",
}


@dataclass(frozen=True, slots=True)
class Breaker:
    """The breaker, closed while `cause` is None; it closes with the last of its causes.

    `generation` counts the openings and closings, and an order carries it (C11). `ids` are what
    `cause` is about: lost or silent nodes, lost records, or after a false clean keys of lives. Of
    these, `back` are listed again, `confirmed` are gone (or stopped, after a mass silence) as far
    as the cloud tells, and `denied` has the time of its first "no such node". `others` are the
    other causes, each as a breaker. Times are CLOCK_BOOTTIME. The rest outlasts the closing: `gone`
    and `acquitted` are items whose loss or silence is explained and opens it no more; `reported`
    are the known false cleans, by key of their life (U8); `looked_at` is the time of the last
    reset, `looked` are the records, by name and version, of the last CLEAN_RATE that was reset.
    """

    cause: Cause | None = None
    ids: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    opened_at: float = 0.0
    generation: int = 0
    detail: Mapping[str, int] = field(default_factory=dict)
    back: frozenset[str] = frozenset()
    denied: Mapping[str, float] = field(default_factory=dict)
    others: tuple[Breaker, ...] = ()
    gone: frozenset[str] = frozenset()
    acquitted: frozenset[str] = frozenset()
    reported: Mapping[str, FreedLife] = field(default_factory=dict)
    looked_at: float = float("-inf")
    looked: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        return self.cause is not None

    @property
    def stops_booting(self) -> bool:
        """Whether booting stops, too, because a listing can't be believed (B2)."""
        return any(part.cause in COLLAPSES for part in self.parts)

    @property
    def parts(self) -> tuple[Breaker, ...]:
        """The breaker's causes, each as a breaker of its own."""
        if not self.is_open:
            return ()
        return (replace(self, others=()), *self.others) if self.others else (self,)

    def part(self, cause: Cause) -> Breaker | None:
        """The part that is open for `cause`, or None."""
        if not self.is_open:
            return None
        return next((part for part in self.parts if part.cause is cause), None)


COLLAPSES = frozenset({Cause.CLOUD_COLLAPSED, Cause.RECORDS_COLLAPSED, Cause.SCHEDULER_COLLAPSED})
