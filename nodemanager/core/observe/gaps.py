"""The gaps in a count over polls, so that a shorter limit can be held against them later (S6)."""

from __future__ import annotations

GAPS_KEPT = 16
Gaps = tuple[tuple[float, float], ...]
"""Where a count had gaps, the newest last, as (the count when it ended, its seconds).

Each is shorter than the one before: a gap no longer than a later one is left out, since whatever
limit it exceeds, the later one exceeds too.
"""


def with_gap(gaps: Gaps, end: float, gap_s: float) -> Gaps:
    """The gaps with one more. Too many are merged: a count then begins later, never earlier."""
    gaps = (*(one for one in gaps if one[1] > gap_s), (end, gap_s))
    if len(gaps) > GAPS_KEPT:
        (_, longest_s), (later, _), *rest = gaps
        gaps = ((later, longest_s), *rest)
    return gaps


def newest_above(gaps: Gaps, limit_s: float) -> float:
    """Where the newest gap longer than `limit_s` ended."""
    return next((end for end, gap_s in reversed(gaps) if gap_s > limit_s), float("-inf"))
