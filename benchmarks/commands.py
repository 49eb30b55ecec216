"""How long the command takes to start, beside an interpreter that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RUNS = 12

CONFIG = """\
[Daemon]
max_nodes = 3
state_dir = {directory}
[Cloud]
provider = dummy
"""


@dataclass(frozen=True, slots=True)
class Start:
    """The shortest of RUNS starts in seconds, and its ratio to `python -c pass` at the same time.

    The ratio is the same on a busy machine, the seconds are not.
    """

    what: str
    seconds: float
    ratio: float
    goal_s: float


COMMANDS: Sequence[tuple[str, tuple[str, ...], float]] = (
    ("nodemanager --help", ("--help",), 0.15),
    ("nodemanager nodes --help", ("nodes", "--help"), 0.3),
    ("nodemanager nodes", ("nodes",), 0.3),
    ("nodemanager drain ID", ("drain", "i-1"), 0.3),
    ("nodemanager explain ID", ("explain", "i-1"), 0.3),
    ("nodemanager log", ("log",), 0.3),
)
"""What is run and its goal; no daemon answers, so it ends with one line."""

TABS: Sequence[str] = (
    "nodemanager ",
    "nodemanager drain i-",
    "nodemanager nodes --",
    "nodemanager log --reason ",
)
TAB_GOAL_S = 0.15


def starts(where: Path) -> list[Start]:
    """Measures the commands and a few completions, with a configuration in `where`."""
    config = where / "pool.cfg"
    config.write_text(CONFIG.format(directory=where))
    env = {"NODEMANAGER_CONFIG": str(config)}
    found = [_start(what, words, env, goal) for what, words, goal in COMMANDS]
    for line in TABS:
        asked = {
            "_NODEMANAGER_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        found.append(_start(f"{line}<TAB>", (), {**env, **asked}, TAB_GOAL_S))
    return found


def _start(what: str, words: Sequence[str], env: Mapping[str, str], goal_s: float) -> Start:
    ours, nothing = [], []
    for _ in range(RUNS):
        # In turns, so that both have the same machine.
        nothing.append(_took((sys.executable, "-c", "pass"), {}))
        ours.append(_took((sys.executable, "-m", "nodemanager", *words), env))
    return Start(what, min(ours), min(ours) / min(nothing), goal_s)


def _took(words: Sequence[str], env: Mapping[str, str]) -> float:
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(words, env={**clean, **env}, capture_output=True, timeout=60, check=False)
    return time.perf_counter() - began
