"""A replay's result on a terminal and in a pipe: tables and notes."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodemanager.commands import replay_result, show
from nodemanager.commands.times import time_text

ROWS = 20
"""The most rows shown in a table; --report and --json have all."""
BAR = 24
REPORT_WIDTH = 180
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<title>nodemanager replay</title><style>
body {{ margin: 1rem }} pre {{ font-family: ui-monospace, monospace; line-height: 1.2 }}
{stylesheet}</style></head><body><pre>{code}</pre></body></html>
"""


def page(result: replay_result.ReplayResult) -> str:
    """What a wide terminal shows, with all rows, as a page that fetches and runs nothing."""
    out = Console(
        record=True,
        file=io.StringIO(),
        width=REPORT_WIDTH,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        markup=False,
        emoji=False,
    )
    print_result(result, out, rows=None)
    return out.export_html(code_format=_PAGE)


def print_result(
    result: replay_result.ReplayResult, out: Console, *, rows: int | None = ROWS
) -> None:
    """Print a whole result, of each table at most `rows`."""
    terminal = out.is_terminal
    show.say(out, _headline(result, terminal=terminal))
    recorded = "; ".join(
        f"{name} {value}" for name, value in replay_result.changed_settings_of(result).items()
    )
    show.say(out, show.cell(f"pool {result.outline.settings.pool}, recorded with {recorded}"))
    if not result.rows:
        _print_differences(result, out)
        show.say(out, show.cell(replay_result.advice_in_words(result), "bold"))
        return
    if result.replayed.differing:
        _print_differences(result, out)
    show.say(out, _comparison(result, terminal=terminal))
    for row in result.rows if rows is None else result.rows[:1] * (len(result.rows) == 1):
        if not row.balance.moves:
            continue
        _gap(out)
        show.say(out, _moves(row, rows, terminal=terminal))
        more = 0 if rows is None else len(row.balance.moves) - rows
        if more > 0:
            show.say(out, show.cell(f"... and {more} more; --json and --report have all"))
    hits = replay_result.hits_by_life(result)
    if hits:
        _gap(out)
        show.say(out, _hits(hits[:rows], terminal=terminal))
    _gap(out)
    show.say(out, show.cell(replay_result.advice_in_words(result), "bold"))
    _gap(out)
    for note in replay_result.NOTES:
        show.say(out, show.cell(f"* {note}", "dim"))


def _gap(out: Console) -> None:
    """An empty line between two tables in a pipe; on a terminal they have titles and rules."""
    if not out.is_terminal:
        out.file.write("\n")


def _headline(result: replay_result.ReplayResult, *, terminal: bool) -> Text:
    outline, replayed = result.outline, result.replayed
    since, until = (time_text(at, terminal=terminal) for at in (outline.first, outline.last))
    many = f"{outline.decisions:,} decision{'s' if outline.decisions != 1 else ''}"
    period = f"{result.path}: {many}, {since} to {until}"
    if not outline.acts:
        period += " (a dry run: its orders count as done)"
    if not replayed.differing:
        return show.cell(f"{period}, all the same with the recorded settings")
    return show.cell(
        f"{period}; {replayed.differing:,} of them differ with the recorded settings", "bold red"
    )


def _print_differences(result: replay_result.ReplayResult, out: Console) -> None:
    terminal = out.is_terminal
    if not result.replayed.differing:
        return
    made = show.table("decision", "at", "of", "id", "recorded", "now", terminal=terminal)
    for one in result.replayed.differences[:ROWS]:
        made.add_row(
            show.cell(one.plan_id),
            time_text(one.wall, terminal=terminal),
            one.subject,
            show.cell(one.id),
            " ".join(one.recorded) if one.recorded else "-",
            " ".join(one.now) if one.now else "what was measured" if not one.recorded else "-",
        )
    show.say(out, made)
    say = "The program's rules differ from the recorded ones: another version recorded this."
    show.say(out, show.cell(say))


def _comparison(result: replay_result.ReplayResult, *, terminal: bool) -> Table:
    bars = [""] if terminal and len(result.in_order) > 1 else []
    headings = (result.heading, *replay_result.COLUMNS, *bars)
    made = show.table(*headings, terminal=terminal, right=",".join(replay_result.COLUMNS))
    gains = [balance.slot_s for _, balance, _ in result.in_order]
    low, high = min(0.0, *gains, 0.0), max(0.0, *gains, 0.0)
    for label, balance, is_recorded in result.in_order:
        style = "bold" if is_recorded else ""
        cells = [Text(text, style) for text in replay_result.numbers_of(balance, result.decimals)]
        if balance.hits:
            cells[-1].stylize("red")
        gain = cells[replay_result.COLUMNS.index("slot-hours")]
        if balance.slot_s:
            gain.stylize("green" if balance.slot_s > 0 else "yellow")
        begin, end = sorted((0.0, balance.slot_s))
        color = "green" if balance.slot_s > 0 else "yellow"
        drawn = Bar(high - low or 1.0, begin - low, end - low, width=BAR, color=color)
        made.add_row(show.cell(label, style), *cells, *([drawn] if bars else []))
    return made


def _moves(row: replay_result.ComparedSettings, rows: int | None, *, terminal: bool) -> Table:
    title = f"Slots free at another time with {row.tried.label}"
    cells = [replay_result.move_cells(move, terminal=terminal) for move in row.balance.moves[:rows]]
    return _table(title, replay_result.MOVE_COLUMNS, cells, "sooner by", terminal=terminal)


def _hits(hits: Sequence[replay_result.LifeHit], *, terminal: bool) -> Table:
    title = "Hits: freed, and its node pinged afterwards"
    cells = [replay_result.hit_cells(one, terminal=terminal) for one in hits]
    return _table(title, replay_result.HIT_COLUMNS, cells, "after", terminal=terminal)


def _table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: str,
    *,
    terminal: bool,
) -> Table:
    made = show.table(*columns, title=title, terminal=terminal, right=right)
    for cells in rows:
        made.add_row(*cells)
    return made
