"""The hint that an error gives for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """`; did you mean 'x'?`, or an empty text when no known word is similar."""
    lowered = {name.lower(): name for name in reversed(known)}
    near = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return f"; did you mean '{lowered[near[0]]}'?" if near else ""
