"""Running the tree's own commands, in a copy or against stand-ins for what they call."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import busy

TREE = Path(__file__).parents[2]


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes an executable shell script into tmp_path/bin."""

    def write(name: str, body: str) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write


def environment(**more: str) -> dict[str, str]:
    """Ours with `more`, and without a trace of the make that runs these tests."""
    theirs = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    ours = {name: text for name, text in os.environ.items() if name not in theirs}
    return ours | more


def run(
    *command: str | Path, cwd: Path = TREE, limit: float = 100, **env: str
) -> subprocess.CompletedProcess[str]:
    """Its output, standard error in with the rest. `env` is added to the environment, `limit` is
    in seconds on a machine that does nothing else."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit * busy(),
        check=False,
    )
