"""Charts as SVG without scripts or styles of their own, and the range of time that they show.

The page's style sheet colours them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup, escape

from nodemanager.lib.logline import timestamp
from nodemanager.web.dashboard.history import CHARTS, EVERY_S, Chart, Sample, Series
from nodemanager.web.dashboard.render import Block, part
from nodemanager.web.dashboard.source import Source
from nodemanager.web.explain import moment_of

RANGES = {"1h": 3600, "6h": 6 * 3600, "24h": 86400, "7d": 7 * 86400}
USUAL_RANGE = "6h"


class TimeRange(NamedTuple):
    """From `begin` to `end`, epoch seconds; `name` is that of a range up to now, else empty."""

    begin: float
    end: float
    name: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str], now: float) -> TimeRange:
        """That of `?since=2026-11-28 01:00&until=2026-11-28 02:30` (UTC), or of `?range=6h`."""
        begin, end = moment_of(query.get("since")), moment_of(query.get("until"))
        if begin is not None and begin < (now if end is None else end):
            return cls(begin, now if end is None else end)
        name = query.get("range", USUAL_RANGE)
        name = name if name in RANGES else USUAL_RANGE
        # Up to a full minute, so that a chart changes once a minute and not each time.
        end = now // 60 * 60
        return cls(end - RANGES[name], end, name)

    @property
    def times(self) -> dict[str, str]:
        """Begin and end in UTC, as the address takes them."""
        begin, end = (timestamp(one)[:19].replace("T", " ") for one in (self.begin, self.end))
        return {"since": begin, "until": end}

    @property
    def query(self) -> str:
        """The query of an address that stays of this range."""
        return urlencode(self.times)


def chart_blocks(source: Source, span: TimeRange) -> Iterator[Block]:
    """A block for each chart; a history that began in the range is shown from then on."""
    samples = source.history.since(span.begin)
    begin = span.begin
    if samples and span.name:
        begin = max(begin, min(samples[0].at, span.end - 600))
    for chart in CHARTS:
        html = part("chart", drawn(chart, samples, begin, span.end))
        yield Block(f"chart-{chart.id}", chart.title, html)


WIDTH, HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 30, 20, 28
MOST_POINTS = 240
_GAP = 5
"""Minutes without a sample that are shown as a gap, not as a line."""
_STEPS_S = (300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def nice_step(most: float) -> float:
    """The distance of about four round marks from 0 to `most`."""
    rough = max(most, 1e-9) / 4
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


class DrawnChart(NamedTuple):
    """A chart as SVG, and its legend: each series' name, and the sum of what is counted."""

    svg: Markup
    legend: tuple[tuple[str, str], ...]


class _Point(NamedTuple):
    """The values of the shown series from `at` on."""

    at: float
    values: tuple[float, ...]


def drawn(chart: Chart, samples: Sequence[Sample], begin: float, end: float) -> DrawnChart | None:
    """The chart from `begin` to `end` (epoch seconds), in steps; None for less than two samples.

    A series that is 0 all the time is left out.
    """
    shown = [one for one in samples if begin <= one.at <= end]
    there = {key for one in shown for key, value in one.values.items() if value}
    series = [one for one in chart.series if chart.key(one) in there]
    if len(shown) < 2 or not series:
        return None
    width = max(EVERY_S, (end - begin) / MOST_POINTS)
    runs = [list(_thinned(chart, series, run, width)) for run in _runs(shown)]
    points = [point for run in runs for point in run]
    most = max(sum(one.values) if chart.stacked else max(one.values) for one in points)
    step = max(1.0 if chart.counts else 0.0, nice_step(most))
    x = _Scale(begin, end, _LEFT, WIDTH - _RIGHT)
    y = _Scale(0, math.ceil(most / step) * step or 1, HEIGHT - _BOTTOM, _TOP)
    path = Markup('<path class="{}" d="{}"/>')
    draw, look = (_area, "{}") if chart.stacked else (_line, "line {}")
    paths = (
        path.format(look.format(one.name), draw(run, place, x, y, width))
        for place, one in enumerate(series)
        for run in runs
    )
    svg = _svg(
        f"{chart.title} over time",
        _in_words(chart, series, shown),
        [_grid(y, step), _time_axis(x), *paths],
    )
    return DrawnChart(svg, _legend(chart, series, shown))


def _legend(
    chart: Chart, series: Sequence[Series], shown: Sequence[Sample]
) -> tuple[tuple[str, str], ...]:
    sums = [sum(each.values.get(chart.key(one), 0) for each in shown) for one in series]
    return tuple(
        (one.name, "" if one.event is None else f"{total:g}")
        for one, total in zip(series, sums, strict=True)
    )


def _runs(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    run: list[Sample] = []
    for one in samples:
        if run and one.at - run[-1].at > _GAP * EVERY_S:
            yield run
            run = []
        run.append(one)
    yield run


def _thinned(
    chart: Chart, series: Sequence[Series], run: Sequence[Sample], width: float
) -> Iterator[_Point]:
    """A point for each `width` seconds: the levels of the fullest moment, and all that was
    counted."""
    weigh = [chart.key(one) for one in series if one.event is None and not one.is_rest]
    for _, group in groupby(run, lambda one: one.at // width):
        several = list(group)
        fullest = max(several, key=lambda one: sum(one.values.get(key, 0) for key in weigh))
        yield _Point(
            several[0].at,
            tuple(
                sum(each.values.get(chart.key(one), 0) for each in several)
                if one.event is not None
                else fullest.values.get(chart.key(one), 0)
                for one in series
            ),
        )


def _along(points: Sequence[tuple[float, float]]) -> str:
    """Steps from the first place on: each height stays until the next place."""
    parts = [f"V{points[0][1]}"]
    for (_, before), (at, height) in pairwise(points):
        if height != before:
            parts.append(f"H{at}V{height}")
    return "".join(parts)


def _line(run: Sequence[_Point], place: int, x: _Scale, y: _Scale, width: float) -> str:
    points = [(x(one.at), y(one.values[place])) for one in run]
    last = x(min(run[-1].at + width, x.high))
    return f"M{points[0][0]} {points[0][1]}{_along(points)}H{last}"


def _area(run: Sequence[_Point], place: int, x: _Scale, y: _Scale, width: float) -> str:
    """The path of one layer: along its top, and back along that of the layer below."""
    tops = [(x(one.at), y(sum(one.values[: place + 1]))) for one in run]
    last = x(min(run[-1].at + width, x.high))
    # Backwards, the height of a step begins at its end.
    ends = [*(at for at, _ in tops[1:]), last]
    bases = [y(sum(one.values[:place])) for one in run]
    back = list(zip(ends, bases, strict=True))[::-1]
    first = tops[0][0]
    return f"M{first} {tops[0][1]}{_along(tops)}H{last}{_along(back)}H{first}Z"


def _grid(y: _Scale, step: float) -> Markup:
    """Lines across at each step from 0 on, with their values."""
    mark = Markup('<path class="grid" d="M{} {}H{}"/><text class="y" x="{}" y="{}">{:g}</text>')
    values = [step * number for number in range(round(y.high / step) + 1)]
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


def _in_words(chart: Chart, series: Sequence[Series], samples: Sequence[Sample]) -> str:
    """The chart in words, for who does not see it."""
    said = []
    for one in series:
        values = [each.values.get(chart.key(one), 0) for each in samples]
        if one.event is not None:
            said.append(f"{sum(values):g} {one.name}")
        else:
            worst = f"at least {min(values):g}" if one.is_rest else f"at most {max(values):g}"
            said.append(f"{one.name}: {values[-1]:g} at the end, {worst}")
    return "; ".join(said) + "."


def _svg(title: str, words: str, parts: Iterable[Markup]) -> Markup:
    inner = Markup().join(parts)
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, escape(f"{title}. {words}"), inner)
