"""What other settings would have been worth: what they free sooner or later, and what they hit.

Times are CLOCK_BOOTTIME of the recording but where they are called wall.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nodemanager.core.model.reasons import Reason
from nodemanager.core.replay.whatif import By, End, Hit, Life

STEP_LIMIT_S = 600.0
"""A boot that waits is taken to wait this long at most between two decisions: a daemon that was
stopped refused none meanwhile."""


@dataclass(frozen=True)
class Outcome:
    """What one lot of settings made of a recording.

    `ends` are when each life's slot became free, by its key; `refused` is how many boots each
    decision refused for lack of a slot. `destroyed` counts the nodes ordered to be shut down, by
    reason. `diverged` says that anything went otherwise than recorded.
    """

    ends: Mapping[str, End]
    hits: tuple[Hit, ...]
    spared: int
    refused: tuple[int, ...]
    destroyed: Mapping[Reason, int]
    breaker_opened: Mapping[str, int] = field(default_factory=dict)
    diverged: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """A life whose slot becomes free at another moment; None: not within the recording.

    `gain_s` is how much sooner, in seconds, up to the end of the recording; less than 0 is later.
    """

    life: Life
    by: By
    reason: Reason | None
    before: float | None
    after: float | None
    gain_s: float


@dataclass(frozen=True)
class Balance:
    """What other settings give, beside the recorded ones, and what they cost.

    `slot_s` are seconds of slots that are free sooner, less those later. `boots` no longer wait for
    a slot, `boots_lost` would; `boot_wait_s` is how long the former waited. `hits` would have hit a
    living node; `new_hits` those among them that the recorded settings did not.
    """

    cleans: int
    moves: tuple[Move, ...]
    slot_s: float
    boots: int
    boots_lost: int
    boot_wait_s: float
    hits: tuple[Hit, ...]
    new_hits: tuple[Hit, ...]
    spared: int

    @property
    def earlier(self) -> int:
        return sum(move.gain_s > 0 for move in self.moves)

    @property
    def later(self) -> int:
        return sum(move.gain_s < 0 and move.after is not None for move in self.moves)

    @property
    def never(self) -> int:
        """Freed as recorded, and not within the recording otherwise."""
        return sum(move.after is None for move in self.moves)


def weigh(recorded: Outcome, other: Outcome, walls: Sequence[float]) -> Balance:
    """Hold `other` against `recorded`; `walls` are the decisions' times, epoch seconds.

    A life that was freed while its node lived gains nothing by it.
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
    known_hits = {hit.life.key for hit in recorded.hits}
    return Balance(
        cleans=sum(end.by is not By.OTHER for end in other.ends.values()),
        moves=tuple(moves),
        slot_s=sum(move.gain_s for move in moves if move.life.slot is not None),
        boots=boots,
        boots_lost=lost,
        boot_wait_s=wait_s,
        hits=other.hits,
        new_hits=tuple(hit for hit in other.hits if hit.life.key not in known_hits),
        spared=other.spared,
    )


def _boots(
    recorded: Iterable[int], other: Iterable[int], walls: Sequence[float]
) -> tuple[int, int, float]:
    """Boots granted here that were refused for lack of a slot, the reverse, and the wait saved.

    A boot that waits is refused by every decision until it has its slot: it is one boot, counted
    when the difference grows.
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


def free_sooner(moves: Iterable[Move], since: float, until: float) -> list[tuple[float, int]]:
    """How many slots more are free than in the recording: from when on, and how many.

    Less than none where more are held. From `since` to `until`, epoch seconds.
    """
    changes: dict[float, int] = {since: 0, until: 0}
    for move in moves:
        if move.life.slot is None:
            continue
        was = until if move.before is None else move.before
        now = until if move.after is None else move.after
        changes[now] = changes.get(now, 0) + 1
        changes[was] = changes.get(was, 0) - 1
    steps = []
    free = 0
    for at in sorted(changes):
        free += changes[at]
        steps.append((at, free))
    if len(steps) > 1:
        # What would come after the end is not known.
        steps[-1] = (until, steps[-2][1])
    return steps
