"""What a replay advises: the value that hits the fewest living nodes, then frees slots soonest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Counsel(StrEnum):
    """What to do with the recorded value."""

    TRY = "try"
    """No other value was tried."""
    KEEP = "keep"
    SOONER = "sooner"
    """Another one frees slots sooner and hits no more nodes."""
    FEWER_HITS = "fewer_hits"
    """Another one hits fewer nodes."""


@dataclass(frozen=True, slots=True)
class CandidateValue:
    """One value: `slot_s` are the slot-seconds free sooner than recorded, `hits` its hits."""

    label: str
    slot_s: float
    hits: int


@dataclass(frozen=True, slots=True)
class Advice:
    """`best` is the value to use. `limit` is the value that frees slots sooner still, by the least,
    and hits more nodes: stay away from it. None where there is no such value."""

    counsel: Counsel
    best: CandidateValue
    limit: CandidateValue | None = None


def advise(recorded: CandidateValue, tried: Sequence[CandidateValue]) -> Advice:
    """Choose among the recorded value and those that were tried.

    A hit costs jobs and a slot saves minutes, so no gain makes up for a hit. The recorded value
    stays where no other is better.
    """
    if not tried:
        return Advice(Counsel.TRY, recorded)
    best = min((recorded, *tried), key=lambda one: (one.hits, -one.slot_s))
    worse = [one for one in tried if one.slot_s > best.slot_s and one.hits > best.hits]
    limit = min(worse, key=lambda one: one.slot_s, default=None)
    if best is recorded:
        return Advice(Counsel.KEEP, best, limit)
    fewer = best.hits < recorded.hits
    return Advice(Counsel.FEWER_HITS if fewer else Counsel.SOONER, best, limit)
