"""What the journal advises of every window and count, worked out by a process of its own.

That takes a processor for a while, so it runs as `nodemanager advise` at the lowest priority, one
at a time, and only when somebody asks for it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nodemanager.lib.clock import Clock
from nodemanager.lib.workers import Workers
from nodemanager.web.dashboard.overview import alerts_block
from nodemanager.web.dashboard.render import Block, Page, part
from nodemanager.web.dashboard.source import ShownDecision

LIMIT_S = 300.0
SPAN = "1d"
"""How far back the recording is read."""


@dataclass(frozen=True, slots=True)
class SweepState:
    """The newest result, and whether another one is being worked out. Times are epoch seconds."""

    running: bool = False
    began: float | None = None
    problem: str = ""
    result: Mapping[str, Any] | None = None


class Sweeps:
    """Works out the advice on the journal at `path`; any thread may use it."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._workers = Workers("sweep", 1)
        self._process: subprocess.Popen[str] | None = None
        self.state = (
            SweepState() if path is not None else SweepState(problem="There is no journal.")
        )

    def start(self) -> bool:
        """Begin another one; False while one runs, or without a journal."""
        with self._lock:
            if self.state.running or self._path is None:
                return False
            self.state = replace(self.state, running=True, began=self._clock.wall(), problem="")
        self._workers.submit(self._work, self._path)
        return True

    def stop(self) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._process is not None:
                self._process.kill()

    def _work(self, path: Path) -> None:
        try:
            advice, problem = self._advised(path)
        except (OSError, ValueError) as error:
            advice, problem = None, f"It could not be worked out: {error}"
        with self._lock:
            result = self.state.result
            if advice is not None:
                result = {**advice, "made_at": self._clock.wall()}
            self.state = SweepState(problem=problem, result=result)

    def _advised(self, path: Path) -> tuple[Mapping[str, Any] | None, str]:
        if not path.exists():
            return None, f"There is no journal {path} yet."
        command = ["nice", "-n", "19", sys.executable, "-m", "nodemanager", "advise", str(path)]
        command += ["--since", SPAN]
        process = subprocess.Popen(
            [*command, "--jobs", "1", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with self._lock:
            self._process = process
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None, (
                f"It took longer than {LIMIT_S:.0f} s. `nodemanager advise` on a copy of the "
                "journal takes its time."
            )
        finally:
            with self._lock:
                self._process = None
        if not out.strip():
            return None, (err.strip().splitlines() or ["It was ended."])[-1]
        return json.loads(out), ""


def windows(seen: ShownDecision, sweeps: Sweeps) -> Page:
    html = part("sweep", sweeps.state)
    blocks = (alerts_block(seen), Block("sweep", "", html, wide=True))
    return Page("Windows", "Windows", blocks)
