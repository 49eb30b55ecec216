"""What to do with each window and count that is set, by what a recording shows.

A shorter window is never advised without evidence: something that it waits for must have ended in
the recording by itself, and the window must be half as long again as the longest of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from nodemanager.core.replay.evidence import Evidence, Seen
from nodemanager.core.replay.rounded import at_least, at_most

MARGIN = 1.5
"""A window is to be this many times the longest that ended within it."""
POLLS = 5
"""Lists are to be believed for at least this many polls."""


class Counsel(StrEnum):
    """What to do with the recorded value."""

    TRY = "try"
    """No other value was tried."""
    KEEP = "keep"
    NO_EVIDENCE = "no_evidence"
    """Keep it: the recording shows nothing that a shorter one could be judged by."""
    BETTER = "better"
    """Another one gains more and hits no more nodes."""
    FEWER_HITS = "fewer_hits"
    """Another one hits fewer nodes."""
    LONGER = "longer"
    """What ended in the recording took longer than the recorded value waits."""
    WEIGH = "weigh"
    """Another one serves what waits, for money: which is worth more, the operator knows."""


@dataclass(frozen=True, slots=True)
class CandidateValue:
    """One value: `gain_s` are the slot-seconds free sooner than recorded, or the node-seconds saved
    less those of more boots; `hits` are living nodes hit, `boots` boots more than recorded.

    `value` is None where it is no number. `money` is what it saves, None where no price is known.
    `work_s` are the node-seconds of work that would not have had to wait; below 0, that would have.
    """

    label: str
    gain_s: float
    hits: int
    value: float | None = None
    boots: int = 0
    money: float | None = None
    warnings: tuple[str, ...] = ()
    work_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """`best` is the value to use. `limit` is the value that gains more still, by the least, but
    hits more nodes or is too short for what ended: stay away from it. None if there is none."""

    counsel: Counsel
    best: CandidateValue
    limit: CandidateValue | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """An option by its field of Settings, the kind of thing that it waits for (one, and many of
    them), and those of a recording that ended by themselves.

    Below `least` of a recording the window is too short. A `counted` one is no duration.
    """

    field: str
    one: str
    many: str
    seen: Callable[[Evidence], Seen]
    least: Callable[[Evidence], float] = lambda _: 0.0
    counted: bool = False

    def basis(self, past: Evidence) -> Basis:
        return Basis(self, self.seen(past), self.least(past))


@dataclass(frozen=True, slots=True)
class Basis:
    """What a recording shows of a window."""

    window: Window
    seen: Seen
    least: float = 0.0

    @property
    def need(self) -> float:
        """The shortest value that what ended allows."""
        return MARGIN * self.seen.longest_s


def _silences(past: Evidence) -> Seen:
    return past.pings.unusual


def _boots(past: Evidence) -> Seen:
    return past.boots.above()


WINDOWS: Mapping[str, Window] = {
    one.field: one
    for one in (
        Window(
            "node_stale_after",
            "silence",
            "silences",
            _silences,
            lambda past: _silences(past).longest_s,
        ),
        Window("boot_fail_after", "boot", "boots", _boots, lambda past: _boots(past).longest_s),
        Window(
            "poll_stale_after",
            "gap",
            "gaps between polls",
            lambda past: past.gaps.unusual,
            lambda past: POLLS * past.gaps.usual_s,
        ),
        # An absence that outlasts these frees no slot: the record must be stale, too.
        Window("settle", "absence", "absences", lambda past: past.absences.above()),
        Window("absent_listings", "absence", "absences", lambda past: past.absent, counted=True),
    )
}


def advise(
    recorded: CandidateValue, tried: Sequence[CandidateValue], basis: Basis | None = None
) -> Advice:
    """Choose among the recorded value and those that were tried.

    A hit costs jobs and a slot saves minutes, so no gain makes up for a hit. The recorded value
    stays where no other is better. Without a basis the option waits for nothing.
    """
    if not tried:
        return Advice(Counsel.TRY, recorded)
    backed = [one for one in tried if is_backed(one, recorded, basis)]
    if basis is not None and (recorded.value or 0.0) < basis.least:
        enough = [one for one in tried if (one.value or 0.0) >= basis.least]
        if enough:
            return Advice(Counsel.LONGER, min(enough, key=lambda one: one.value or 0.0))
    best = min((recorded, *backed), key=lambda one: (one.hits, -one.gain_s))
    worse = [
        one
        for one in tried
        if one.gain_s > best.gain_s and (one.hits > best.hits or _is_shorter(one, backed, recorded))
    ]
    limit = min(worse, key=lambda one: one.gain_s, default=None)
    if best is not recorded:
        fewer = best.hits < recorded.hits
        return Advice(Counsel.FEWER_HITS if fewer else Counsel.BETTER, best, limit)
    unknown = basis is not None and not basis.seen.count
    return Advice(Counsel.NO_EVIDENCE if unknown else Counsel.KEEP, best, limit)


def _is_shorter(
    one: CandidateValue, backed: Sequence[CandidateValue], recorded: CandidateValue
) -> bool:
    return one not in backed and (one.value or 0.0) < (recorded.value or 0.0)


def is_backed(one: CandidateValue, recorded: CandidateValue, basis: Basis | None) -> bool:
    """Whether the recording speaks for the value: a shorter window by what ended within it, a
    longer one only by fewer hits, since no slot is free sooner for waiting longer."""
    if basis is None or one.value is None or recorded.value is None:
        return True
    if one.value > recorded.value:
        return one.hits < recorded.hits
    return one.value == recorded.value or (basis.seen.count > 0 and one.value >= basis.need)


def values_to_try(recorded: float, basis: Basis) -> list[float]:
    """A shorter and a longer value of a window; of a count, one less and one more.

    The shorter one is the shortest that the evidence allows, or half, to show what it would do. If
    the window is too short for what ended, the longer one is long enough for it.
    """
    if isinstance(recorded, int):
        return [one for one in (recorded - 1, recorded + 1) if one > 0]
    need, seen = basis.need, basis.seen
    enough = at_least(math.ceil(need))
    shorter = enough if seen.count and enough < recorded else at_most(recorded / 2)
    return [shorter, at_least(max(recorded * 2, MARGIN * basis.least))]


@dataclass(frozen=True, slots=True)
class AdviceRow:
    """The advice on one option; `facts` are counts and seconds by name, as evidence."""

    option: str
    recorded: CandidateValue
    tried: Sequence[CandidateValue]
    advice: Advice
    basis: Basis | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
