"""What other settings would have been worth: slots freed sooner or later, and living nodes hit.

Times are epoch seconds of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nodemanager.core.model.reasons import Reason
from nodemanager.core.replay.whatif import By, Hit, Life, LifeEnd

STEP_LIMIT_S = 600.0
"""The longest wait counted for a boot between two decisions: a stopped daemon refuses no boot."""


RefusedBoots = tuple[float, Mapping[str, int]]
"""For how long boots were refused, in seconds, and how many by size."""


@dataclass(frozen=True)
class ReplayOutcome:
    """What one set of settings made of a recording.

    `ends` is how and when each life's slot became free, by the life's key. `spared` counts the
    lives that the pre-write check would have kept. `refused` is how many boots each decision
    refused for lack of a slot. `destroyed` counts the nodes ordered to be shut down, by reason.
    `diverged` says that anything went otherwise than recorded. `capped` are the boots that each
    decision refused because of `max_nodes`, by size.
    """

    ends: Mapping[str, LifeEnd]
    hits: tuple[Hit, ...]
    spared: int
    refused: tuple[int, ...]
    destroyed: Mapping[Reason, int]
    breaker_opened: Mapping[str, int] = field(default_factory=dict)
    diverged: bool = False
    capped: tuple[Mapping[str, int], ...] = ()

    def capped_boots(self, walls: Sequence[float]) -> list[RefusedBoots]:
        """Those that `max_nodes` refused; `walls` are the times of the decisions."""
        return [
            (min(later - at, STEP_LIMIT_S), lots)
            for (at, later), lots in zip(pairwise(walls), self.capped, strict=False)
            if lots
        ]


@dataclass(frozen=True, slots=True)
class Move:
    """A life whose slot becomes free at another time: `after`, where the recording has `before`.

    Either is None where that is not within the recording. `gain_s` is how many seconds sooner,
    counted up to the end of the recording; a negative gain is later.
    """

    life: Life
    by: By
    reason: Reason | None
    before: float | None
    after: float | None
    gain_s: float


@dataclass(frozen=True)
class Balance:
    """What other settings gain and cost against the recorded ones.

    `cleans` counts the lives that we free. `slot_s` are the slot-seconds free sooner, less those
    free later. `boots` no longer wait for a slot, for `boot_wait_s` in all; `boots_lost` wait only
    here. `hits` are the living nodes hit.
    """

    cleans: int
    moves: tuple[Move, ...]
    slot_s: float
    boots: int
    boots_lost: int
    boot_wait_s: float
    hits: tuple[Hit, ...]
    spared: int

    @property
    def earlier(self) -> int:
        return sum(move.gain_s > 0 for move in self.moves)

    @property
    def later(self) -> int:
        return sum(move.gain_s < 0 and move.after is not None for move in self.moves)

    @property
    def never(self) -> int:
        """How many lives the recording frees, and these settings do not within it."""
        return sum(move.after is None for move in self.moves)


def weigh(recorded: ReplayOutcome, other: ReplayOutcome, walls: Sequence[float]) -> Balance:
    """Compare `other` with `recorded`; `walls` are the times of the decisions.

    A life that was freed while its node lived has no end here, so it gains nothing by that.
    """
    until = walls[-1] if walls else 0.0
    moves = []
    for key in dict.fromkeys([*recorded.ends, *other.ends]):
        before, after = recorded.ends.get(key), other.ends.get(key)
        known = after or before
        assert known is not None
        was = until if before is None else before.at
        now = until if after is None else after.at
        if was == now and (before is None) == (after is None):
            continue
        at = None if before is None else before.at, None if after is None else after.at
        gain_s = was - now
        moves.append(Move(known.life, known.by, known.reason, *at, gain_s))
    moves.sort(key=lambda move: (-move.gain_s, move.life.record))
    boots, lost, wait_s = _boots(recorded.refused, other.refused, walls)
    return Balance(
        cleans=sum(end.by is not By.OTHER for end in other.ends.values()),
        moves=tuple(moves),
        slot_s=sum(move.gain_s for move in moves if move.life.slot is not None),
        boots=boots,
        boots_lost=lost,
        boot_wait_s=wait_s,
        hits=other.hits,
        spared=other.spared,
    )


def _boots(
    recorded: Iterable[int], other: Iterable[int], walls: Sequence[float]
) -> tuple[int, int, float]:
    """Boots granted here but refused as recorded for lack of a slot, the reverse, seconds saved.

    Every decision refuses a waiting boot until it has its slot. So one boot is counted only when
    the difference grows.
    """
    boots = lost = before = 0
    wait_s = 0.0
    for at, (was, now) in enumerate(zip(recorded, other, strict=True)):
        fewer = was - now
        boots += max(0, max(fewer, 0) - max(before, 0))
        lost += max(0, max(-fewer, 0) - max(-before, 0))
        if fewer > 0 and at + 1 < len(walls):
            wait_s += fewer * min(max(0.0, walls[at + 1] - walls[at]), STEP_LIMIT_S)
        before = fewer
    return boots, lost, wait_s
