"""Charts as SVG without scripts or styles of their own; the page's style sheet colours them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from nodemanager.logline import timestamp
from nodemanager.web.dashboard.history import EVERY_S, Sample

WIDTH, HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 30, 20, 28
MOST_POINTS = 240
_GAP = 5
"""Minutes without a sample that are shown as a gap, not as a line."""
LAYERS = ("used", "idle", "leaked", "free")
_STEPS_S = (300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def nice_step(most: float, marks: int = 4) -> float:
    """The distance of about `marks` round marks from 0 to `most`."""
    rough = max(most, 1e-9) / marks
    unit = 10.0 ** math.floor(math.log10(rough))
    return next((unit * one for one in (1, 2, 5) if unit * one >= rough), unit * 10)


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to places: `low` to `high` become `begin` to `end`."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return round(self.begin + share * (self.end - self.begin), 1)


def slots_chart(samples: Sequence[Sample], begin: float, end: float) -> Markup:
    """The slots by state from `begin` to `end` (epoch seconds), stacked; empty without samples."""
    shown = [one for one in samples if begin <= one.at <= end]
    if len(shown) < 2:
        return Markup()
    runs = [list(_thinned(run, begin, end)) for run in _runs(shown)]
    most = max(one.held + (one.free or 0) for one in shown)
    step = max(1.0, nice_step(most))
    x = _Scale(begin, end, _LEFT, WIDTH - _RIGHT)
    y = _Scale(0, math.ceil(most / step) * step or 1, HEIGHT - _BOTTOM, _TOP)
    parts = [_grid(y, 0.0, step), _time_axis(x)]
    for number, layer in enumerate(LAYERS):
        for run in runs:
            parts.append(
                Markup('<path class="{}" d="{}"/>').format(layer, _area(run, number, x, y))
            )
    return _svg("Slots by state over time", _told(shown), parts)


def _runs(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """The samples without gaps between them."""
    run: list[Sample] = []
    for one in samples:
        if run and one.at - run[-1].at > _GAP * EVERY_S:
            yield run
            run = []
        run.append(one)
    yield run


def _thinned(run: Sequence[Sample], begin: float, end: float) -> Iterator[Sample]:
    """At most about MOST_POINTS samples of the whole span; of each group the fullest."""
    width = max(EVERY_S, (end - begin) / MOST_POINTS)
    group: list[Sample] = []
    for one in run:
        if group and one.at // width != group[0].at // width:
            yield max(group, key=lambda sample: sample.held)
            group = []
        group.append(one)
    yield max(group, key=lambda sample: sample.held)


def _area(run: Sequence[Sample], layer: int, x: _Scale, y: _Scale) -> str:
    """The path of one layer: along its top, and back along that of the layer below."""
    counts = [(one.used, one.idle, one.leaked, one.free or 0) for one in run]
    tops = [y(sum(these[: layer + 1])) for these in counts]
    bases = [y(sum(these[:layer])) for these in counts]
    places = [x(one.at) for one in run]
    if len(run) == 1:
        places, tops, bases = [places[0] - 0.5, places[0] + 0.5], tops * 2, bases * 2
    there = [f"{at} {top}" for at, top in zip(places, tops, strict=True)]
    back = [f"{at} {base}" for at, base in zip(places, bases, strict=True)]
    return f"M{'L'.join([*there, *reversed(back)])}Z"


def _grid(y: _Scale, low: float, step: float) -> Markup:
    """Lines across at each step from `low` on, with their values."""
    mark = Markup('<path class="grid" d="M{} {}H{}"/><text class="y" x="{}" y="{}">{:g}</text>')
    count = round((y.high - low) / step)
    values = [low + step * number for number in range(count + 1)]
    return Markup().join(
        mark.format(_LEFT, y(value), WIDTH - _RIGHT, _LEFT - 6, y(value) + 4, round(value, 6))
        for value in values
    )


def _time_axis(x: _Scale) -> Markup:
    span = x.high - x.low
    step = next((one for one in _STEPS_S if span / one <= 6), _STEPS_S[-1])
    marks = Markup()
    at = math.ceil(x.low / step) * step
    while at <= x.high:
        stamp = timestamp(at)
        marks += Markup('<text class="x" x="{}" y="{}" data-clock="{}">{}</text>').format(
            x(at), HEIGHT - 8, at, stamp[5:10] if step >= 86400 else stamp[11:16]
        )
        at += step
    return marks


def _told(samples: Sequence[Sample]) -> str:
    last = samples[-1]
    free = [one.free for one in samples if one.free is not None]
    told = f"At the end {last.used} used, {last.idle} idle, {last.leaked} leaked"
    told += f", {last.free} free" if last.free is not None else ""
    told += f". At most {max(one.leaked for one in samples)} leaked"
    return told + (f", at least {min(free)} free." if free else ".")


def sweep_chart(
    rows: Sequence[tuple[str, float, int, bool]], value_title: str, hit_title: str
) -> Markup:
    """Gain as bars and hits as marks over the tried values: (label, gain, hits, is the own one)."""
    if len(rows) < 2:
        return Markup()
    gains = [gain for _, gain, _, _ in rows]
    low, high = min(0.0, *gains), max(0.0, *gains)
    step = nice_step(high - low or 1.0)
    low, high = math.floor(low / step) * step, (math.ceil(high / step) or 1) * step
    y = _Scale(low, high, HEIGHT - _BOTTOM - 14, _TOP + 14)
    room = (WIDTH - _LEFT - _RIGHT) / len(rows)
    parts = [_grid(y, low, step)]
    for number, (label, gain, hits, is_own) in enumerate(rows):
        middle = round(_LEFT + room * (number + 0.5), 1)
        top, base = sorted((y(gain), y(0.0)))
        parts.append(
            Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
                "own" if is_own else "gain",
                round(middle - room * 0.3, 1),
                top,
                round(room * 0.6, 1),
                max(1.0, round(base - top, 1)),
            )
        )
        parts.append(
            Markup('<text class="x{}" x="{}" y="{}">{}</text>').format(
                " strong" if is_own else "", middle, HEIGHT - 8, label
            )
        )
        if hits:
            parts.append(
                Markup('<text class="x hit" x="{}" y="{}">{} {}</text>').format(
                    middle, _TOP + 8, hits, "hit" if hits == 1 else "hits"
                )
            )
    told = "; ".join(
        f"{label}: {value_title} {gain:g}, {hit_title} {hits}" for label, gain, hits, _ in rows
    )
    return _svg(f"{value_title} and {hit_title} of each stale window", told, parts)


def _svg(title: str, told: str, parts: Iterable[Markup]) -> Markup:
    inner = Markup().join(parts)
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, escape(f"{title}. {told}"), inner)
