"""`nodemanager replay`: what other settings would have done, by a recorded journal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodemanager.commands import show
from nodemanager.commands.common import config_flag, config_path, examples, jobs_option
from nodemanager.commands.replay_values import Sweep, Tried, one_by_one, over_range
from nodemanager.commands.times import time_option
from nodemanager.config import load
from nodemanager.errors import NodeManagerError

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
    from nodemanager.commands.replay_result import as_json
    from nodemanager.commands.replay_screen import page, print_result

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
