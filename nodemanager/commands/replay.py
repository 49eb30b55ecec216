"""`nodemanager replay`: what other settings would have done, by a recorded journal."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodemanager.commands import replay_result, show
from nodemanager.commands.common import config_flag, config_path, examples, jobs_option
from nodemanager.commands.replay_values import Sweep, Tried, one_by_one, over_range
from nodemanager.commands.times import time_option, time_text
from nodemanager.config import load
from nodemanager.errors import NodeManagerError

# A replay's result on a terminal and in a pipe: tables and notes.

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


if TYPE_CHECKING:
    from nodemanager.commands.replay_result import ReplayResult

STEPS = 9


@click.command(
    epilog=examples(
        "replay journal.db",
        "replay journal.db --node-stale-after 30m --node-stale-after 1h",
        "replay journal.db --sweep node_stale_after=5m..4h --report windows.html",
        "replay journal.db --since 1d --set Cleaning.settle=2m --set max_nodes=40 --json",
    )
)
@click.argument("journal", required=False, type=click.Path(path_type=Path))
@click.option(
    "--node-stale-after",
    "windows",
    multiple=True,
    metavar="DURATION",
    help="Another stale window, like 30m; several are tried one by one.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="Section.option=VALUE",
    help="Another value of an option that decisions depend on; all are set together.",
)
@click.option(
    "--sweep",
    "span",
    metavar="OPTION=A..B",
    help="One option over a range, like node_stale_after=5m..4h: gain and cost as curves.",
)
@click.option(
    "--steps",
    type=click.IntRange(2, 100),
    default=STEPS,
    show_default=True,
    help="The number of values of --sweep.",
)
@time_option("since", "Ignore older decisions: 2h, 14:05.")
@time_option("until", "Ignore newer decisions.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.html",
    help="Write everything to one HTML file, with charts.",
)
@jobs_option
@show.json_option
@config_flag
def replay(
    journal: Path | None,
    windows: tuple[str, ...],
    given: tuple[str, ...],
    span: str | None,
    steps: int,
    since: float | None,
    until: float | None,
    report: Path | None,
    jobs: int | None,
    as_json: bool,
    config: str | None,
) -> None:
    """Decide again what JOURNAL recorded, with the same settings or with others.

    JOURNAL is the file of a running daemon, or a copy; default: [Journal] path of the configuration
    file. With the recorded settings every verdict must come out as recorded; otherwise the exit
    code is 1. Other settings are compared with these: which slots would have been free sooner or
    later, and which cleans would have hit a node that pinged afterwards. Changes nothing.

    \b
    cleans      records freed, by a clean or after a shutdown
    sooner      of these, freed sooner than with the recorded settings
    later       freed later
    not yet     freed with the recorded settings, but here not before the recording ends
    slot-hours  how much sooner, summed over the slots; below 0 is later
    boots       boots that no longer wait for a free slot; below 0, boots that would wait
    boot-hours  how long these had waited
    hits        freed although the node pinged afterwards: the cost
    """
    if span is not None and windows:
        raise click.UsageError("--sweep and --node-stale-after: give one of them")
    # Imported at the top, these would cost every command, and every TAB, a third of a second.
    from nodemanager.commands.replay_result import result_of, window_of
    from nodemanager.journal import sweep as sweeping
    from nodemanager.journal.reading import outline
    from nodemanager.journal.replay import past

    path = journal or load(config_path(config)).journal.path
    begin, end = since or 0.0, float("inf") if until is None else until
    seen = outline(path, since=begin, until=end)
    swept: Sweep | None = None
    if span is not None:
        swept, tried = over_range(seen.settings, span, given, steps, seen.poll_s)
    else:
        tried = one_by_one(seen.settings, windows, given, seen.poll_s)
    _warn(tried)
    is_window = window_of(tried) is not None
    total = sweeping.steps(seen, len(tried)) + (seen.decisions if is_window else 0)
    with show.progress("deciding again", total) as tick:
        shown = past(path, since=begin, until=end, tick=tick) if is_window else None
        made = sweeping.replay(
            path,
            seen,
            [one.variation.changes for one in tried],
            since=begin,
            until=end,
            jobs=jobs,
            tick=tick,
        )
    evidence = None if shown is None else shown.evidence
    result = result_of(str(path), seen, made, tried, swept, evidence)
    _tell(result, report, with_json=as_json)
    if made.differing:
        sys.exit(1)


def _warn(tried: list[Tried]) -> None:
    for warning in dict.fromkeys(text for one in tried for text in one.variation.warnings):
        click.echo(f"warning: {warning}", err=True)


def _tell(result: ReplayResult, report: Path | None, *, with_json: bool) -> None:
    from nodemanager.commands.replay import page, print_result
    from nodemanager.commands.replay_result import as_json

    if with_json:
        show.print_json(as_json(result))
    else:
        print_result(result, show.console())
    if report is None:
        return
    try:
        report.write_text(page(result), encoding="utf-8")
    except OSError as error:
        raise NodeManagerError(f"the report {report} can't be written: {error.strerror}") from error
    click.echo(f"wrote {report}", err=True)
