"""How a test waits for another thread or process: it asks again and again, until a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

DEADLINE_S = 30.0
"""For what takes a few seconds where nothing else runs."""


def until(
    what: str, ask: Callable[[], T], within: float = DEADLINE_S, *, told: Callable[[], str] = str
) -> T:
    """The first true answer of `ask`; fails with `what`, and what `told` adds, when none comes."""
    deadline = time.monotonic() + within
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            pytest.fail(f"waited {within:g} s for {what}\n{told()}", pytrace=False)
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether that process runs; a zombie, which its own parent has to reap, does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
