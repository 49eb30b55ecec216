"""What a journal says of every window and count, and what the nodes cost: tables and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from nodemanager.commands import show, times
from nodemanager.commands.replay_result import (
    NOTES,
    candidate,
    gain_in_words,
    in_words,
    too_short,
)
from nodemanager.commands.replay_values import Tried, shown
from nodemanager.config.deciding import find, varied
from nodemanager.core.replay.advice import (
    WINDOWS,
    AdviceRow,
    CandidateValue,
    Counsel,
    Window,
    advise,
    values_to_try,
)
from nodemanager.core.replay.counts import advise_on_counts
from nodemanager.core.replay.spending import CostSum, cause_of, size_of, spent, total_of
from nodemanager.core.replay.worth import weigh
from nodemanager.errors import ConfigError
from nodemanager.journal.reading import Outline, outline
from nodemanager.journal.replay import Past, past
from nodemanager.journal.sweep import replay, steps
from nodemanager.lib.logline import span

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
                (times.time_text(at, terminal=terminal)[:width], total_of(each), each)
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
    since, until = (times.time_text(at, terminal=terminal) for at in (found.first, found.last))
    return f"{path}: {found.decisions:,} decisions, {since} to {until}"


COLUMNS = ("option", "now", "advice", "evidence", "shorter or fewer", "longer or more")


@dataclass(frozen=True)
class Advised:
    """A recorded time, and a row of advice for each option."""

    path: Path
    found: Past
    rows: Sequence[AdviceRow]
    every: int = 1
    """Of the decisions that order nothing one in so many was made again."""

    @classmethod
    def of(cls, path: Path, since: float, until: float, jobs: int | None) -> Advised:
        seen = outline(path, since=since, until=until)
        # Of each window two values; one that contradicts another option is not tried.
        most = seen.decisions + steps(seen, 2 * len(WINDOWS))
        with show.progress("deciding again", most) as tick:
            found = past(path, since=since, until=until, tick=tick)
            tried = {one.field: list(_tried(one, seen, found)) for one in WINDOWS.values()}
            changes = [one.variation.changes for values in tried.values() for one in values]
            made = replay(
                path, seen, changes, since=since, until=until, jobs=jobs, tick=tick, thinned=True
            )
        outcomes, before = iter(made.others), weigh(made.recorded, made.recorded, made.walls)
        rows = []
        for window in WINDOWS.values():
            values = [
                candidate(
                    one.label,
                    weigh(made.recorded, next(outcomes), made.walls),
                    one.value,
                    one.variation.warnings,
                )
                for one in tried[window.field]
            ]
            value = getattr(seen.settings, window.field)
            recorded = candidate(_label(window, value), before, value)
            basis = window.basis(found.evidence)
            advice = advise(recorded, values, basis)
            facts = found.evidence.facts_of(window.field)
            rows.append(AdviceRow(window.field, recorded, values, advice, basis, facts))
        stretches, settings = found.account.stretches, found.settings
        span_of = found.first, found.last
        capped = made.recorded.capped_boots(made.walls)
        rows += advise_on_counts(stretches, found.evidence, settings, span_of, capped)
        return cls(path, found, rows, made.every)

    def print(self, out: Console) -> None:
        terminal = out.is_terminal
        show.say(out, show.cell(headline(self.path, self.found, terminal=terminal)))
        made = show.table(*COLUMNS, terminal=terminal)
        for row in self.rows:
            cells = [show.cell(text) for text in cells_of(row, terminal=terminal)]
            if not cells[2].plain.startswith("keep"):
                cells[2].stylize("bold green")
            made.add_row(*cells)
        show.say(out, made)
        for note in self.notes:
            show.say(out, show.cell(f"* {note}", "dim"))

    @property
    def notes(self) -> list[str]:
        """What the daemon would warn of under the values that were tried; a short recording."""
        warnings = (text for row in self.rows for one in row.tried for text in one.warnings)
        found = [*dict.fromkeys(warnings), too_short(self.found.first, self.found.last).strip()]
        if self.every > 1:
            found.append(
                f"Of the decisions that order nothing one in {self.every} was made again: a gain "
                "may be so many polls more or less."
            )
        return [text.removeprefix("advise:1: ") for text in found if text]

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values: times in epoch seconds, lengths in seconds."""
        return {
            **recorded_json(self.path, self.found),
            "columns": COLUMNS,
            "options": [
                {
                    "option": row.option,
                    "counsel": row.advice.counsel.value,
                    "advice": row.advice.best.label,
                    "recorded": dataclasses.asdict(row.recorded),
                    "tried": [dataclasses.asdict(one) for one in row.tried],
                    "ended": None if row.basis is None else dataclasses.asdict(row.basis.seen),
                    "facts": row.facts,
                    "cells": cells_of(row, terminal=False),
                }
                for row in self.rows
            ],
            "cost": sums_json(Costs(self.path, self.found, ()).whole("cause")),
            "notes": [*self.notes, *NOTES],
        }


def _tried(window: Window, seen: Outline, found: Past) -> Iterator[Tried]:
    """The settings to try for one window; without those that contradict others (S1)."""
    option, recorded = find(window.field), getattr(seen.settings, window.field)
    assert option is not None
    for value in values_to_try(recorded, window.basis(found.evidence)):
        text = f"{option.section}.{option.name}={option.kind.show(value)}"
        try:
            variation = varied(seen.settings, [text], poll_s=seen.poll_s, source="advise")
        except ConfigError:
            continue
        if window.field in variation.changes:
            yield Tried(_label(window, value), variation, value)


def _label(window: Window, value: float) -> str:
    option = find(window.field)
    assert option is not None
    return shown(option, value)


# Words.


def cells_of(row: AdviceRow, *, terminal: bool) -> tuple[str, ...]:
    """The cells of a row, one for each of COLUMNS."""
    advice, basis = row.advice.best.label, row.basis
    if basis is None:
        evidence = _facts(row)
    else:
        also = [f"{many:g} {what}" for what, many in row.facts.items() if many]
        evidence = "; ".join((in_words(basis, terminal=terminal), *also))
    match row.advice.counsel:
        case Counsel.NO_EVIDENCE:
            advice = "keep: no evidence"
        case Counsel.KEEP | Counsel.TRY:
            advice = "keep"
        case Counsel.WEIGH:
            advice = f"weigh {advice}"
        case Counsel.LONGER if basis is not None:
            evidence += f"; it is to be {span(basis.least)} at least"
    more = [one for one in row.tried if (one.value or 0.0) > (row.recorded.value or 0.0)]
    less = [one for one in row.tried if one not in more]
    others = ("; ".join(_other(one, row) for one in side) or "-" for side in (less, more))
    return row.option, row.recorded.label, advice, evidence, *others


def _facts(row: AdviceRow) -> str:
    """What the account of the nodes says, in words."""
    facts = row.facts
    if "lacking" in facts:
        if not facts["lacking"]:
            return f"no boot was refused for it; {facts['most']:g} nodes at once at most"
        waited = f"{facts['waited_s'] / 3600:.1f} hours at it with demand waiting"
        return f"{waited}, for {facts['lacking']:g} nodes more at most"
    if "replaced" in facts:
        oldest = f"the oldest node was {span(facts['oldest_s'])}"
        return f"{facts['replaced']:g} nodes replaced for their age; {oldest}"
    if "always_idle" in facts:
        many = f"{facts['always_idle']:g} of {row.recorded.label} idle at every moment"
        return f"{many}, {facts['idle_hours']:.1f} node-hours idle in all"
    said = f"{facts['shut_down']:g} shut down idle, {facts['worked_again']:g} worked again"
    if "kept_idle" in facts:
        return f"{facts['kept_idle']:g} idle in a closed window: {said}"
    if facts["wanted_again"]:
        soonest = span(facts["soonest_again_s"])
        said += f"; {facts['wanted_again']:g} wanted again within 10m, the first after {soonest}"
    return said


def _other(one: CandidateValue, row: AdviceRow) -> str:
    """What another value would have gained and cost."""
    if row.basis is not None:
        return gain_in_words(one, row.recorded, row.basis)
    said = [_money(one)] if one.gain_s else []
    if one.boots:
        said.append(f"boots {one.boots:+d}")
    if one.work_s:
        waits = "sooner" if one.work_s > 0 else "later"
        said.append(f"{span(abs(one.work_s))} of work {waits}")
    return f"{one.label}: {', '.join(said) or 'no difference'}"


def _money(one: CandidateValue) -> str:
    hours = f"{abs(one.gain_s) / 3600:.1f} node-hours {'fewer' if one.gain_s > 0 else 'more'}"
    if one.money is None:
        return f"{hours} (price unknown)"
    return f"{'saves' if one.money > 0 else 'costs'} {show.money(abs(one.money))} ({hours})"
