"""How a test waits for another thread or process: it asks again and again, until a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

DEADLINE_S = 30.0
"""For what takes a few seconds where nothing else runs."""
MOST_BUSY = 3.0


def busy() -> float:
    """How many times longer all may take, because others have this machine's processors, too."""
    return min(MOST_BUSY, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def until(
    what: str, ask: Callable[[], T], within: float = DEADLINE_S, *, told: Callable[[], str] = str
) -> T:
    """The first true answer of `ask`; fails with `what`, and what `told` adds, when none comes
    `within` seconds, or longer on a machine that is `busy`."""
    began = time.monotonic()
    while True:
        answer = ask()
        if answer:
            return answer
        waited = time.monotonic() - began
        if waited > within and waited > within * busy():
            pytest.fail(f"waited {waited:.0f} s for {what}\n{told()}", pytrace=False)
        # What is asked is often a whole process' state, and takes that process' time.
        time.sleep(min(0.3, 0.02 + waited / 15))


def runs(pid: int) -> bool:
    """Whether that process runs; a zombie, which its own parent has to reap, does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
