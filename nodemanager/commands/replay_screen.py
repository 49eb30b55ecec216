"""A replay on the terminal and in a pipe: tables, curves, and what it can't know."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.replay_values import Sweep, Tried, duration, shown
from nodemanager.commands.times import local, span, told
from nodemanager.core.whatif import Balance, Hit, Move, Outcome, free_sooner, weigh
from nodemanager.journal.reading import Outline
from nodemanager.journal.sweep import Replayed

ROWS = 20
"""So many moved cleans are shown; --json and --report have all."""
CHART_HEIGHT = 16
CHART_WIDTH = 100
ROOM = 0.25
COLORS = ("green", "blue", "magenta", "cyan", "yellow")
RECORDED = "recorded"
WINDOW = "node_stale_after"

NOTES = (
    "Each hit is the most it can be: before a clean the cloud is asked about that very node (C11), "
    "and before a destroy the scheduler (D2); no journal has an answer that was not asked for.",
    "A slot that is free sooner would have been used sooner: what boots on it, and which jobs run "
    "elsewhere then, is not in the recording. Idle nodes are shut down as recorded.",
    "A clean or destroy of other settings is taken as done at once and as never failing, and a hit "
    "as given back at once (U8); till then the breaker would have stopped all freeing.",
)


@dataclass(frozen=True)
class Row:
    """One lot of settings, held against the recorded ones."""

    tried: Tried
    outcome: Outcome
    balance: Balance


@dataclass(frozen=True)
class Result:
    """All there is to show. `sweep` is None without one; `recorded` is weighed against itself."""

    path: str
    outline: Outline
    replayed: Replayed
    recorded: Balance
    rows: tuple[Row, ...]
    sweep: Sweep | None

    @property
    def heading(self) -> str:
        if self.sweep is not None:
            return self.sweep.option.option
        return WINDOW if self._are_windows else "settings"

    @property
    def _are_windows(self) -> bool:
        return all(row.tried.value is not None for row in self.rows)

    @property
    def recorded_label(self) -> str:
        if self.sweep is None and self._are_windows:
            return f"{duration(self.outline.settings.node_stale_after)} ({RECORDED})"
        if self.sweep is None:
            return RECORDED
        return f"{shown(self.sweep.option, self.sweep.recorded)} ({RECORDED})"

    @property
    def decimals(self) -> int:
        """How many an hour is shown with: a short recording has only parts of one."""
        most = max((abs(row.balance.slot_s) / 3600 for row in self.rows), default=0.0)
        return 1 if most >= 10 else 2 if most >= 1 else 3

    @property
    def in_order(self) -> list[tuple[str, Balance, bool]]:
        """Label, balance, and whether it is the recorded one; a sweep's by its values."""
        rows = [(row.tried.label, row.balance, False) for row in self.rows]
        if self.sweep is None:
            return [(self.recorded_label, self.recorded, True), *rows]
        ordered = [
            (row.tried.value or 0.0, row.tried.label, row.balance, False)
            for row in self.rows
            if row.tried.value != self.sweep.recorded or row.tried.variation.changes
        ]
        ordered.append((self.sweep.recorded, self.recorded_label, self.recorded, True))
        ordered.sort(key=lambda one: one[0])
        return [(label, balance, is_recorded) for _, label, balance, is_recorded in ordered]


def result_of(
    path: str, outline: Outline, replayed: Replayed, tried: Sequence[Tried], sweep: Sweep | None
) -> Result:
    rows = tuple(
        Row(one, outcome, weigh(replayed.recorded, outcome, replayed.walls))
        for one, outcome in zip(tried, replayed.others, strict=True)
    )
    recorded = weigh(replayed.recorded, replayed.recorded, replayed.walls)
    return Result(path, outline, replayed, recorded, rows, sweep)


# Numbers and times as they are shown.


def when(result: Result, at: float, *, terminal: bool) -> str:
    """On a terminal the time of day alone, where all of the recording is of one day."""
    first, last = (local(one)[:10] for one in (result.outline.first, result.outline.last))
    if terminal and first == last == local(at)[:10]:
        return local(at)[11:]
    return told(at, terminal=terminal)


def hours(seconds: float, decimals: int = 1) -> str:
    """Signed hours: `+12.5`, `0.0`."""
    value = round(seconds / 3600, decimals)
    return f"{value:+.{decimals}f}" if value else f"{0:.{decimals}f}"


def signed(number: int) -> str:
    return f"{number:+d}" if number else "0"


def boots_of(balance: Balance) -> int:
    return balance.boots - balance.boots_lost


def signed_span(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{span(abs(seconds))}"


COLUMNS = ("cleans", "sooner", "later", "not yet", "slot-hours", "boots", "boot-hours", "hits")


def numbers_of(balance: Balance, decimals: int) -> tuple[str, ...]:
    return (
        str(balance.cleans),
        str(balance.earlier),
        str(balance.later),
        str(balance.never),
        hours(balance.slot_s, decimals),
        signed(boots_of(balance)),
        hours(balance.boot_wait_s, decimals),
        str(len(balance.hits)),
    )


# The screen.


def print_result(result: Result, out: Console) -> None:
    terminal = out.is_terminal
    show.say(out, _headline(result, terminal=terminal))
    if not result.rows:
        _print_differences(result, out)
        return
    if result.replayed.differing:
        _print_differences(result, out)
    show.say(out, _comparison(result, terminal=terminal))
    if terminal:
        chart = _chart(result, out)
        if chart:
            out.print(Text.from_ansi(chart))
    if len(result.rows) == 1 and result.rows[0].balance.moves:
        _gap(out)
        show.say(out, _moves(result, result.rows[0].balance.moves, terminal=terminal))
        more = len(result.rows[0].balance.moves) - ROWS
        if more > 0:
            show.say(out, show.cell(f"... and {more} more; --json and --report have all"))
    hits = hits_by_life(result)
    if hits:
        _gap(out)
        show.say(out, _hits(result, hits, terminal=terminal))
    _gap(out)
    for note in NOTES:
        show.say(out, show.cell(f"* {note}", "dim"))


def _gap(out: Console) -> None:
    """Between two tables of a pipe; on a terminal each has its title and rules."""
    if not out.is_terminal:
        out.file.write("\n")


def _headline(result: Result, *, terminal: bool) -> Text:
    outline, replayed = result.outline, result.replayed
    since, until = (told(at, terminal=terminal) for at in (outline.first, outline.last))
    many = f"{outline.decisions:,} decision{'s' if outline.decisions != 1 else ''}"
    period = f"{result.path}: {many}, {since} to {until}"
    if not outline.acts:
        period += " (a dry run: what it ordered is taken as done)"
    if not replayed.differing:
        return show.cell(f"{period}, all the same by the recorded settings")
    return show.cell(
        f"{period}; {replayed.differing:,} of them differ by the recorded settings", "bold red"
    )


def _print_differences(result: Result, out: Console) -> None:
    terminal = out.is_terminal
    if not result.replayed.differing:
        return
    made = show.table("decision", "at", "of", "id", "recorded", "now", terminal=terminal)
    for one in result.replayed.differences[:ROWS]:
        made.add_row(
            show.cell(one.plan_id),
            told(one.wall, terminal=terminal),
            one.subject,
            show.cell(one.id),
            " ".join(one.recorded) if one.recorded else "-",
            " ".join(one.now) if one.now else "what was measured" if not one.recorded else "-",
        )
    show.say(out, made)
    say = "The program's rules are not those that decided then: another version recorded it."
    show.say(out, show.cell(say))


def _comparison(result: Result, *, terminal: bool) -> Table:
    made = show.table(result.heading, *COLUMNS, terminal=terminal, right=",".join(COLUMNS))
    for label, balance, is_recorded in result.in_order:
        style = "bold" if is_recorded else ""
        cells = [Text(text, style) for text in numbers_of(balance, result.decimals)]
        if balance.hits:
            cells[-1].stylize("red")
        gain = cells[COLUMNS.index("slot-hours")]
        if balance.slot_s:
            gain.stylize("green" if balance.slot_s > 0 else "yellow")
        made.add_row(show.cell(label, style), *cells)
    return made


def _moves(result: Result, moves: Sequence[Move], *, terminal: bool) -> Table:
    headings = ("record", "slot", "host", "by", "reason", RECORDED, "then", "sooner by")
    made = show.table(
        *headings, title="Slots free at another time", terminal=terminal, right="sooner by"
    )
    for move in moves[:ROWS]:
        life = move.life
        made.add_row(
            show.cell(life.record),
            "-" if life.slot is None else str(life.slot),
            show.cell(life.hostname or "-"),
            move.by.value,
            move.reason.value if move.reason else "-",
            moment_of(result, move.before, terminal=terminal),
            moment_of(result, move.after, terminal=terminal),
            signed_span(move.gain_s),
        )
    return made


def moment_of(result: Result, at: float | None, *, terminal: bool) -> str:
    return "not yet" if at is None else when(result, at, terminal=terminal)


@dataclass(frozen=True)
class LifeHit:
    """A life that lived on, and under which values it would have been freed."""

    first: Hit
    labels: tuple[str, ...]


def hits_by_life(result: Result) -> list[LifeHit]:
    """Each life that was hit, once, the one freed longest before its sign of life first."""
    found: dict[str, tuple[Hit, list[str]]] = {}
    for label, balance, _ in result.in_order:
        for hit in balance.hits:
            first, labels = found.setdefault(hit.life.key, (hit, []))
            if label not in labels:
                labels.append(label)
            if hit.freed_at < first.freed_at:
                found[hit.life.key] = (hit, labels)
    hits = [LifeHit(first, tuple(labels)) for first, labels in found.values()]
    return sorted(hits, key=lambda one: one.first.freed_at - one.first.alive_at)


def sign_of(result: Result, hit: Hit, *, terminal: bool) -> str:
    """When it pinged; or, where no ping is recorded, when it was listed."""
    if hit.pinged_at is not None:
        return when(result, hit.pinged_at, terminal=terminal)
    return f"listed {when(result, hit.alive_at, terminal=terminal)}"


def _hits(result: Result, hits: Sequence[LifeHit], *, terminal: bool) -> Table:
    headings = ("record", "slot", "host", "node", "by", "freed", "pinged", "after", "under")
    made = show.table(
        *headings,
        title="Hits: freed, and its node pinged afterwards",
        terminal=terminal,
        right="after",
    )
    for one in hits[:ROWS]:
        hit, life = one.first, one.first.life
        made.add_row(
            show.cell(life.record),
            "-" if life.slot is None else str(life.slot),
            show.cell(life.hostname or "-"),
            show.cell(life.node_id or "-"),
            hit.by.value,
            when(result, hit.freed_at, terminal=terminal),
            sign_of(result, hit, terminal=terminal),
            span((hit.pinged_at or hit.alive_at) - hit.freed_at),
            show.cell(", ".join(one.labels)),
        )
    return made


# Curves.


def _chart(result: Result, out: Console) -> str:
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(CHART_WIDTH, out.width), CHART_HEIGHT)
    made = _sweep_chart(result, plotext) if result.sweep else _time_chart(result, plotext)
    if not made:
        return ""
    drawn = str(plotext.build())
    return drawn if out.color_system else str(plotext.uncolorize(drawn))


def _sweep_chart(result: Result, plotext: Any) -> bool:
    """Gain on the left, cost on the right, over the values."""
    ordered = result.in_order
    if len(ordered) < 2:
        return False
    places = list(range(len(ordered)))
    gains = [balance.slot_s / 3600 for _, balance, _ in ordered]
    costs = [len(balance.hits) for _, balance, _ in ordered]
    plotext.plot(places, gains, label="slot-hours (left)", color="green", marker="braille")
    plotext.plot(places, costs, label="hits (right)", color="red", marker="braille", yside="right")
    ticks = whole_ticks(max(costs))
    # Room for the legend, which is drawn over what is there.
    plotext.ylim(min(gains), max(gains) + ROOM * (max(gains) - min(gains) or 1.0), yside="left")
    plotext.ylim(0, ticks[-1] * (1 + ROOM), yside="right")
    plotext.yticks(ticks, [str(one) for one in ticks], yside="right")
    plotext.xticks(places, [label.split(" ")[0] for label, _, _ in ordered])
    plotext.xlabel(result.heading)
    return True


def whole_ticks(most: int) -> list[int]:
    """A few whole numbers from 0 to `most` or a little more."""
    step = max(1, -(-most // 4))
    return list(range(0, max(most, 1) + step, step))


def _time_chart(result: Result, plotext: Any) -> bool:
    """How many slots more are free than in the recording, over its time."""
    walls = result.replayed.walls
    unit, unit_s = unit_of(walls[-1] - walls[0])
    drawn = False
    for row, color in zip(result.rows, itertools.cycle(COLORS), strict=False):
        steps = free_sooner(row.balance.moves, walls[0], walls[-1])
        if len(steps) < 3:
            continue
        drawn = True
        xs, ys = stairs(steps)
        at = [(one - walls[0]) / unit_s for one in xs]
        plotext.plot(at, ys, label=row.tried.label, color=color, marker="braille")
    plotext.xlabel(f"{unit} since the recording began")
    plotext.ylabel("slots more that are free")
    return drawn


def unit_of(seconds: float) -> tuple[str, float]:
    """What to count so long a time in."""
    return ("hours", 3600.0) if seconds > 3 * 3600.0 else ("minutes", 60.0)


def stairs(steps: Sequence[tuple[float, int]]) -> tuple[list[float], list[int]]:
    """Steps as a line: each value stands until the next."""
    xs: list[float] = []
    ys: list[int] = []
    for at, value in steps:
        if ys:
            xs.append(at)
            ys.append(ys[-1])
        xs.append(at)
        ys.append(value)
    return xs, ys


# JSON.


def as_json(result: Result) -> dict[str, Any]:
    """The same for machines: times in epoch seconds, lengths in seconds."""
    outline, replayed = result.outline, result.replayed
    return {
        "journal": result.path,
        "from": outline.first,
        "until": outline.last,
        "decisions": outline.decisions,
        "dry_run": not outline.acts,
        "differing": replayed.differing,
        "differences": [
            {
                "plan": one.plan_id,
                "at": one.wall,
                "of": one.subject,
                "id": one.id,
                "recorded": list(one.recorded) if one.recorded else None,
                "now": list(one.now) if one.now else None,
            }
            for one in replayed.differences
        ],
        "swept": None if result.sweep is None else result.sweep.option.option,
        "recorded": _balance_json(result.recorded, replayed.recorded),
        "values": [
            {
                "label": row.tried.label,
                "value": row.tried.value,
                "settings": dict(row.tried.variation.changes),
                "warnings": list(row.tried.variation.warnings),
                **_balance_json(row.balance, row.outcome),
            }
            for row in result.rows
        ],
        "notes": list(NOTES),
    }


def _balance_json(balance: Balance, outcome: Outcome) -> dict[str, Any]:
    return {
        "cleans": balance.cleans,
        "sooner": balance.earlier,
        "later": balance.later,
        "not_yet": balance.never,
        "slot_hours": balance.slot_s / 3600,
        "boots": balance.boots,
        "boots_lost": balance.boots_lost,
        "boot_hours": balance.boot_wait_s / 3600,
        "hits": [_hit_json(hit) for hit in balance.hits],
        "spared": balance.spared,
        "shutdowns": {reason.value: count for reason, count in outcome.destroyed.items()},
        "breaker_opened": dict(outcome.breaker_opened),
        "moves": [
            {
                "record": move.life.record,
                "incarnation": move.life.incarnation,
                "slot": move.life.slot,
                "host": move.life.hostname,
                "node": move.life.node_id,
                "by": move.by.value,
                "reason": move.reason.value if move.reason else None,
                "recorded": move.before,
                "then": move.after,
                "sooner_s": move.gain_s,
            }
            for move in balance.moves
        ],
    }


def _hit_json(hit: Hit) -> dict[str, Any]:
    life = hit.life
    return {
        "record": life.record,
        "incarnation": life.incarnation,
        "slot": life.slot,
        "host": life.hostname,
        "node": life.node_id,
        "by": hit.by.value,
        "reason": hit.reason.value if hit.reason else None,
        "freed": hit.freed_at,
        "sign": hit.sign.value,
        "alive": hit.alive_at,
        "pinged": hit.pinged_at,
    }
