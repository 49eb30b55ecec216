"""What the nodes cost, as tables with bars and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from nodemanager.commands import show, times
from nodemanager.core.replay.spending import CostSum, cause_of, size_of, spent, total_of
from nodemanager.journal.reading import outline
from nodemanager.journal.replay import Past, past

KEYS = {"cause": cause_of, "size": size_of}
BAR = 24


@dataclass(frozen=True)
class Costs:
    """What a recorded time cost, by each of `kinds`."""

    path: Path
    found: Past
    kinds: Sequence[str]

    @classmethod
    def of(cls, path: Path, since: float, until: float, kinds: Sequence[str]) -> Costs:
        decisions = outline(path, since=since, until=until).decisions
        with show.progress("reading", decisions) as tick:
            return cls(path, past(path, since=since, until=until, tick=tick), kinds)

    def whole(self, kind: str) -> Mapping[str, CostSum]:
        edges = (self.found.first, self.found.last)
        return spent(self.found.account.stretches, KEYS[kind], edges)[0]

    def timed(self, kind: str, *, terminal: bool) -> list[tuple[float, Mapping[str, CostSum]]]:
        """By cause from each full day or hour on: local ones on a terminal, else in UTC."""
        zone = None if terminal else UTC
        begin = datetime.fromtimestamp(self.found.first, zone).replace(minute=0, second=0)
        begin, step = begin.replace(microsecond=0), timedelta(hours=1)
        if kind == "day":
            begin, step = begin.replace(hour=0), timedelta(days=1)
        edges = [begin.timestamp()]
        while edges[-1] < self.found.last:
            begin += step
            edges.append(begin.timestamp())
        sums = spent(self.found.account.stretches, cause_of, edges)
        return list(zip(edges, sums, strict=False))

    def print(self, out: Console) -> None:
        terminal = out.is_terminal
        show.say(out, show.cell(headline(self.path, self.found, terminal=terminal)))
        for kind in self.kinds:
            show.say(out, self._table(kind, terminal=terminal))
        total = total_of(self.whole("cause"))
        a_day = total.money / max(self.found.last - self.found.first, 1.0) * 86400
        said = f"{show.money(total.money)} in all, {show.money(a_day)} a day"
        show.say(out, show.cell(said, "bold"))
        if total.unpriced_hours:
            names = {one.size for one in self.found.account.stretches if one.price is None}
            said = f"{total.unpriced_hours:.1f} node-hours have no known price, and are in no sum: "
            say = f"{said}set [Size] price of {', '.join(sorted(names))}"
            show.say(out, show.cell(say, "yellow"))

    def _table(self, kind: str, *, terminal: bool) -> Table:
        causes: list[str] = []
        rows: list[tuple[str, CostSum, Mapping[str, CostSum]]]
        if kind in KEYS:
            sums = sorted(self.whole(kind).items(), key=lambda one: (-one[1].money, one[0]))
            rows = [(name, one, {}) for name, one in sums]
        else:
            timed = self.timed(kind, terminal=terminal)
            causes = sorted({name for _, each in timed for name in each})
            width = 10 if kind == "day" else 16
            rows = [
                (times.told(at, terminal=terminal)[:width], total_of(each), each)
                for at, each in timed
            ]
        headings = [kind, "money", *causes, "node-hours", "without price"]
        bar = [""] if terminal else []
        table = show.table(*headings, *bar, terminal=terminal, right=",".join(headings[1:]))
        most = max((total.money for _, total, _ in rows), default=0.0) or 1.0
        for name, total, each in rows:
            money = [show.money(each[cause].money) if cause in each else "-" for cause in causes]
            lacks = f"{total.unpriced_hours:.1f}" if total.unpriced_hours else "-"
            cells = [name, show.money(total.money), *money, f"{total.hours:.1f}", lacks]
            drawn = [Bar(most, 0, total.money, width=BAR, color="green")] if terminal else []
            table.add_row(*map(show.cell, cells), *drawn)
        return table

    def as_json(self) -> dict[str, Any]:
        """The sums as JSON values: times in epoch seconds."""
        said: dict[str, Any] = {
            **recorded_json(self.path, self.found),
            "total": dataclasses.asdict(total_of(self.whole("cause"))),
        }
        for kind in self.kinds:
            said[kind] = (
                sums_json(self.whole(kind))
                if kind in KEYS
                else [
                    {"from": at, "cause": sums_json(each)}
                    for at, each in self.timed(kind, terminal=False)
                ]
            )
        return said


def sums_json(sums: Mapping[str, CostSum]) -> dict[str, Any]:
    return {name: dataclasses.asdict(one) for name, one in sums.items()}


def recorded_json(path: Path, found: Past) -> dict[str, Any]:
    return {
        "journal": str(path),
        "pool": found.settings.pool,
        "from": found.first,
        "until": found.last,
        "decisions": found.decisions,
    }


def headline(path: Path, found: Past, *, terminal: bool) -> str:
    since, until = (times.told(at, terminal=terminal) for at in (found.first, found.last))
    return f"{path}: {found.decisions:,} decisions, {since} to {until}"
