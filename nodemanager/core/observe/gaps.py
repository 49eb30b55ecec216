"""The gaps in a count over polls, so that a shorter limit can be held against them later (S6)."""

from __future__ import annotations

GAPS_KEPT = 16
Gaps = tuple[tuple[float, float], ...]
"""Where a count had gaps, the newest last, as (the count when it ended, its seconds).

Each is shorter than the one before: of a longer and a later one, no limit finds the shorter only.
"""


def with_gap(gaps: Gaps, end: float, gap_s: float) -> Gaps:
    """With one more; too many become one, which makes a count begin later, never earlier."""
    gaps = (*(one for one in gaps if one[1] > gap_s), (end, gap_s))
    if len(gaps) > GAPS_KEPT:
        (_, longest_s), (later, _), *rest = gaps
        gaps = ((later, longest_s), *rest)
    return gaps


def newest_above(gaps: Gaps, limit_s: float) -> float:
    """Where the newest gap longer than that ended."""
    return next((end for end, gap_s in reversed(gaps) if gap_s > limit_s), float("-inf"))
