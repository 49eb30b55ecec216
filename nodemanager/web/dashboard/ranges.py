"""The range of time that charts and an incident are of, as the address says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from nodemanager.lib.logline import timestamp
from nodemanager.web.dashboard.charts import drawn
from nodemanager.web.dashboard.page import Block
from nodemanager.web.dashboard.render import part
from nodemanager.web.dashboard.series import CHARTS
from nodemanager.web.dashboard.source import Source
from nodemanager.web.lists import moment_of

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
