"""What the charts show, over the last week: one sample a minute, kept over restarts.

The file has one line a minute: epoch seconds, and `key=value` of each series that had one. It is
written by a thread of its own, so that no slow disk stops a decision, and only shown: nothing is
decided by it.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from nodemanager.core.explain.inventory import slot_states
from nodemanager.core.model.reasons import Event
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import Sizes
from nodemanager.core.plan.plan import Plan
from nodemanager.core.replay.spending import CostCause, prices_by_cause
from nodemanager.lib.logline import number
from nodemanager.lib.workers import Workers

# What the dashboard's charts show: a row for each series, noted once a minute for a week.

Levels = Callable[[Plan, Settings], Mapping[str, float]]


class Series(NamedTuple):
    """One series, by its name in the legend and in the style sheet. Of an `event` the number in
    each minute counts. What `is_rest` only fills the chart up."""

    name: str
    event: Event | None = None
    is_rest: bool = False


class Chart(NamedTuple):
    """A chart of series, as areas on top of each other if `stacked`, else as lines. The marks of
    one that `counts` are whole numbers. `levels` reads its series from the last decision of each
    minute; one of which the decision says nothing is left out."""

    id: str
    title: str
    series: tuple[Series, ...]
    levels: Levels
    stacked: bool = True
    counts: bool = True

    def key(self, series: Series) -> str:
        """What the values of that series are kept as."""
        return f"{self.id}.{series.name}"


def _slots(made: Plan, settings: Settings) -> Mapping[str, float]:
    states = slot_states(made)
    return {} if states is None else {k: v for k, v in asdict(states).items() if v is not None}


def _nodes(made: Plan, settings: Settings) -> Mapping[str, float]:
    return {} if made.slots is None else {n: made.counts.get(f"nodes_{n}", 0) for n in _STATES}


def _refused(made: Plan, settings: Settings) -> Mapping[str, float]:
    return {} if made.wants is None else {"refused": sum(made.wants.refused.values())}


def _costs(made: Plan, settings: Settings) -> Mapping[str, float]:
    return {} if made.wants is None else prices_by_cause(made.views, Sizes(settings.sizes))


_STATES = ("busy", "idle", "booting", "unlisted", "unpaired", "down", "unknown", "shutdown")
SLOTS = Chart(
    "slots",
    "Slots over time",
    (*map(Series, ("used", "idle", "leaked")), Series("free", is_rest=True)),
    _slots,
)
NODES = Chart("nodes", "Nodes by state", (*map(Series, _STATES),), _nodes)
BOOTS = Chart(
    "boots",
    "Boots and refusals",
    (
        Series("booted", Event.NODE_CREATED),
        Series("failed", Event.NODE_SETUP_FAILED),
        Series("refused"),
    ),
    _refused,
    stacked=False,
)
COST = Chart(
    "cost",
    "Price per hour of all nodes with a known price, by cause",
    (*(Series(cause.value) for cause in CostCause),),
    _costs,
    counts=False,
)
CHARTS = (SLOTS, NODES, BOOTS, COST)
EVENTS = {
    one.event: chart.key(one) for chart in CHARTS for one in chart.series if one.event is not None
}
"""The key of each event that is counted."""


def levels_of(made: Plan, settings: Settings) -> dict[str, float]:
    """The values of all series but those of events, by their keys."""
    return {
        f"{chart.id}.{name}": value
        for chart in CHARTS
        for name, value in chart.levels(made, settings).items()
    }


EVERY_S = 60
KEPT_S = 7 * 86400
_MOST = KEPT_S // EVERY_S
_SURPLUS = 1440
"""Old lines in the file above which it is written anew."""

_log = logging.getLogger(__name__)


class Sample(NamedTuple):
    """The values of the series in the minute that ended with `at` (epoch seconds)."""

    at: float
    values: Mapping[str, float]


class _Minute(NamedTuple):
    """The last decision of a minute that is not over, and what was counted in it."""

    at: float
    made: Plan
    settings: Settings
    counted: Counter[str]

    def sample(self) -> Sample:
        counts = {key: self.counted[key] for key in EVENTS.values()}
        return Sample(self.at, levels_of(self.made, self.settings) | counts)


class ChartHistory:
    """Samples of all series, oldest first; any thread may use it. Without `path` only in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._samples = [] if path is None else _read(path)
        self._lines = len(self._samples)
        self._current: _Minute | None = None
        self._heard: Counter[str] = Counter()
        """What was counted since the last decision."""
        self._workers = Workers("chart-history", 1)
        self._fails = False

    def heard(self, event: Event) -> None:
        if event in EVENTS:
            with self._lock:
                self._heard[EVENTS[event]] += 1

    def add(self, at: float, made: Plan, settings: Settings) -> None:
        """Note a decision at `at`; the last one of each minute is kept, and all that was counted
        in it."""
        with self._lock:
            before, counted = self._current, self._heard
            is_same = before is not None and before.at // EVERY_S == at // EVERY_S
            if before is not None and is_same:
                counted += before.counted
            self._current, self._heard = _Minute(at, made, settings, counted), Counter()
            if before is None or is_same:
                return
            sample = before.sample()
            self._samples.append(sample)
            del self._samples[: max(0, len(self._samples) - _MOST)]
        if self._path is not None:
            self._workers.submit(self._write, self._path, sample)

    def since(self, at: float) -> list[Sample]:
        """The samples of finished minutes from `at` on."""
        with self._lock:
            return self._samples[bisect_left(self._samples, at, key=lambda one: one.at) :]

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
    values = (f"{key}={number(value)}" for key, value in one.values.items())
    return f"{one.at:.0f} {' '.join(values)}\n"


def _read(path: Path) -> list[Sample]:
    """The samples of the file, sorted; lines that are torn or no samples are left out."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    samples = []
    for line in text.splitlines():
        try:
            at, *pairs = line.split(" ")
            values = {key: float(value) for key, value in (one.split("=") for one in pairs)}
            sample = Sample(float(at), values)
        except ValueError:
            continue
        if values and all(map(math.isfinite, (sample.at, *values.values()))):
            samples.append(sample)
    return sorted(samples, key=lambda one: one.at)[-_MOST:]
