"""The slots by state over the last week, one sample a minute, kept over restarts.

The file has one line a minute: epoch seconds, used, idle, leaked and free slots (- where the store
does not tell). It is written by a thread of its own, so that no slow disk stops a decision, and
only shown: nothing is decided by it.
"""

from __future__ import annotations

import logging
import os
import threading
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nodemanager.core.explain.slot_states import SlotStates
from nodemanager.workers import Workers

EVERY_S = 60
KEPT_S = 7 * 86400
_MOST = KEPT_S // EVERY_S
_SURPLUS = 1440
"""Old lines in the file above which it is written anew."""

_log = logging.getLogger(__name__)


class Sample(NamedTuple):
    """The slots at one moment, `at` in epoch seconds."""

    at: float
    used: int
    idle: int
    leaked: int
    free: int | None

    @property
    def held(self) -> int:
        return self.used + self.idle + self.leaked


class SlotHistory:
    """Samples of the slots, oldest first; any thread may use it. Without `path` only in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._samples = [] if path is None else _read(path)
        self._lines = len(self._samples)
        self._current: Sample | None = None
        self._workers = Workers("slot-history", 1)
        self._fails = False

    def add(self, at: float, states: SlotStates) -> None:
        """Note the slots of a decision at `at`; the last one of each minute is kept."""
        new = Sample(at, states.used, states.idle, states.leaked, states.free)
        with self._lock:
            before, self._current = self._current, new
            if before is None or before.at // EVERY_S == at // EVERY_S:
                return
            self._samples.append(before)
            del self._samples[: max(0, len(self._samples) - _MOST)]
        if self._path is not None:
            self._workers.submit(self._write, self._path, before)

    def since(self, at: float) -> list[Sample]:
        """The samples of finished minutes from `at` on."""
        with self._lock:
            return self._samples[bisect_left(self._samples, (at,)) :]

    def _write(self, path: Path, sample: Sample) -> None:
        try:
            if self._lines >= _MOST + _SURPLUS:
                with self._lock:
                    kept = list(self._samples)
                new = path.with_suffix(".new")
                _append(new, kept, os.O_TRUNC)
                os.replace(new, path)
                self._lines = len(kept)
            else:
                _append(path, [sample], os.O_APPEND)
                self._lines += 1
            self._fails = False
        except OSError as error:
            if not self._fails:
                _log.warning("the dashboard's chart is not kept: %s: %s", path, error.strerror)
            self._fails = True


def _append(path: Path, samples: Iterable[Sample], how: int) -> None:
    text = "".join(_line(one) for one in samples).encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    with os.fdopen(file, "wb") as opened:
        opened.write(text)


def _line(one: Sample) -> str:
    free = "-" if one.free is None else one.free
    return f"{one.at:.0f} {one.used} {one.idle} {one.leaked} {free}\n"


def _read(path: Path) -> list[Sample]:
    """The samples of the file, sorted; lines that are torn or no samples are left out."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    samples = []
    for line in text.splitlines():
        words = line.split()
        if len(words) != 5:
            continue
        try:
            at, used, idle, leaked = (int(word) for word in words[:4])
            free = None if words[4] == "-" else int(words[4])
        except ValueError:
            continue
        samples.append(Sample(float(at), used, idle, leaked, free))
    return sorted(samples)[-_MOST:]
