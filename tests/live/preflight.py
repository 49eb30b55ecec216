"""`nodemanager check-cloud` as a process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.forked import run
from tests.live.harness import environment
from tests.waiting import DEADLINE_S, busy


def words(config: Path, *arguments: str, module: str = "nodemanager") -> list[str]:
    return [sys.executable, "-m", module, "check-cloud", str(config), *arguments]


def told(state: Path, **others: str) -> dict[str, str]:
    return environment(STATE_DIRECTORY=str(state), NO_COLOR="1", **others)


def check(
    config: Path, state: Path, *arguments: str, module: str = "nodemanager", **others: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Its exit code, and its answers by name; `others` are variables of its environment."""
    done = run(
        *("check-cloud", str(config), "--json", *arguments),
        module=module,
        env=told(state, **others),
        # A real cloud takes its time for a boot and an end.
        timeout=DEADLINE_S * 4 * busy(),
    )
    assert done.stdout, done.stderr
    return done.returncode, {one["check"]: one for one in json.loads(done.stdout)["checks"]}


def marks(answers: dict[str, dict[str, Any]]) -> set[str]:
    return {one["mark"] for one in answers.values()}
