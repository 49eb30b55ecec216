"""A replay's result on a terminal and in a pipe: tables, curves and notes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodemanager.commands import show
from nodemanager.commands.replay_advice import advice_in_words, changed_settings_of
from nodemanager.commands.replay_curves import chart
from nodemanager.commands.replay_result import (
    COLUMNS,
    HIT_COLUMNS,
    MOVE_COLUMNS,
    NOTES,
    LifeHit,
    ReplayResult,
    hit_cells,
    hits_by_life,
    move_cells,
    numbers_of,
)
from nodemanager.commands.times import told
from nodemanager.core.replay.worth import Move

ROWS = 20
"""The most rows shown in a table; --json has all."""


def print_result(result: ReplayResult, out: Console) -> None:
    """Print a whole result; curves only on a terminal."""
    terminal = out.is_terminal
    show.say(out, _headline(result, terminal=terminal))
    recorded = "; ".join(f"{name} {value}" for name, value in changed_settings_of(result).items())
    show.say(out, show.cell(f"pool {result.outline.settings.pool}, recorded with {recorded}"))
    if not result.rows:
        _print_differences(result, out)
        show.say(out, show.cell(advice_in_words(result), "bold"))
        return
    if result.replayed.differing:
        _print_differences(result, out)
    show.say(out, _comparison(result, terminal=terminal))
    if terminal:
        drawn = chart(result, out)
        if drawn:
            out.print(Text.from_ansi(drawn))
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
    show.say(out, show.cell(advice_in_words(result), "bold"))
    _gap(out)
    for note in NOTES:
        show.say(out, show.cell(f"* {note}", "dim"))


def _gap(out: Console) -> None:
    """An empty line between two tables in a pipe; on a terminal they have titles and rules."""
    if not out.is_terminal:
        out.file.write("\n")


def _headline(result: ReplayResult, *, terminal: bool) -> Text:
    outline, replayed = result.outline, result.replayed
    since, until = (told(at, terminal=terminal) for at in (outline.first, outline.last))
    many = f"{outline.decisions:,} decision{'s' if outline.decisions != 1 else ''}"
    period = f"{result.path}: {many}, {since} to {until}"
    if not outline.acts:
        period += " (a dry run: its orders count as done)"
    if not replayed.differing:
        return show.cell(f"{period}, all the same with the recorded settings")
    return show.cell(
        f"{period}; {replayed.differing:,} of them differ with the recorded settings", "bold red"
    )


def _print_differences(result: ReplayResult, out: Console) -> None:
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
    say = "The program's rules differ from the recorded ones: another version recorded this."
    show.say(out, show.cell(say))


def _comparison(result: ReplayResult, *, terminal: bool) -> Table:
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


def _moves(result: ReplayResult, moves: Sequence[Move], *, terminal: bool) -> Table:
    title = "Slots free at another time"
    node = MOVE_COLUMNS.index("node")
    headings = MOVE_COLUMNS[:node] + MOVE_COLUMNS[node + 1 :]
    made = show.table(*headings, title=title, terminal=terminal, right="sooner by")
    for move in moves[:ROWS]:
        cells = move_cells(result, move, terminal=terminal)
        made.add_row(*cells[:node], *cells[node + 1 :])
    return made


def _hits(result: ReplayResult, hits: Sequence[LifeHit], *, terminal: bool) -> Table:
    title = "Hits: freed, and its node pinged afterwards"
    made = show.table(*HIT_COLUMNS, title=title, terminal=terminal, right="after")
    for one in hits[:ROWS]:
        made.add_row(*hit_cells(result, one, terminal=terminal))
    return made
