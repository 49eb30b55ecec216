"""How the garbage collector is used by a process that keeps whole listings in memory."""

from __future__ import annotations

import gc

YOUNG, MIDDLE, FULL = 100_000, 20, 50
"""A collection of the youngest at this many objects more than were freed; then each how many."""


def tune_collector() -> None:
    """Make collections rare, the full ones most of all.

    What a poll brings is frozen and refers to nothing that refers back: counting references frees
    it. A full collection walks all of it, new each minute, and would stop a daemon of 100,000
    nodes for over a second at nearly every plan.
    """
    gc.set_threshold(YOUNG, MIDDLE, FULL)
